"""Meters reduce padded batches: on real maps they say what plain loops over one text at a time say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon

from lamina.analyses.heads.attention_distance import DistanceMeter
from lamina.analyses.heads.headmap import SMOOTHING, DivergenceMeter
from lamina.analyses.heads.heads import RelationMeter, relations_of
from lamina.analyses.heads.surface import MEASURES, NOTABLE, PATTERNS, STRONG, PatternMeter, SurfaceMeter
from lamina.framework.watch import Meter, WatchedBatch, WatchedText, watch
from lamina.models import SPECIAL
from lamina.stats.units import Halves
from lamina.types import Edge, Span, Text


def said(name: str, *segments: str) -> Text:
    """Each word hangs on the second next one; the last two on the first."""
    words = tuple(word for segment in segments for word in segment.split())
    ends = np.cumsum([len(segment.split()) for segment in segments]).tolist()
    spans = tuple(Span(start, end) for start, end in zip([0, *ends], ends, strict=False))
    heads = [(word, word + 2 if word + 2 < len(words) else 0) for word in range(len(words))]
    edges = tuple(Edge((f"r{at % 3}",), Span(at, at + 1), Span(up, up + 1)) for at, up in heads if at != up)
    return Text(name, words, spans, {"dep": edges})


TEXTS = [
    said("split", "Unhesitatingly , the antidisestablishmentarians ' dog barked ."),
    said("short", "Yes"),
    said("long", "the lazy dog , which nobody had seen before , runs far away from the quick and very foxy fox ."),
    said("two", "Who barked so loudly ?", "The unhesitating dogs did , all of them ."),
    said("signs", ". , ."),
    said("plain", "We saw her duck under the low bridge yesterday"),
]


class Keeper:
    def __init__(self) -> None:
        self.kept: list[WatchedBatch] = []

    def update(self, batch: WatchedBatch) -> None:
        self.kept.append(batch)


@pytest.fixture(scope="module")
def batch(real_encoder) -> WatchedBatch:
    """All of them in one batch of the real model."""
    keeper = Keeper()
    watch(real_encoder, TEXTS, [keeper])
    (only,) = keeper.kept
    assert len({len(tokens.ids) for tokens in only.tokens}) > 4, "there is padding"
    return only


def shown(meter: Meter, batch: WatchedBatch) -> Meter:
    meter.update(batch)
    return meter


def test_a_text_is_in_a_batch_what_it_is_alone(real_encoder, batch: WatchedBatch):
    for watched in batch.singly:
        (alone,) = real_encoder.encode([watched.text], ("maps",))
        np.testing.assert_allclose(watched.maps, alone.maps, atol=1e-5)
        np.testing.assert_allclose(watched.maps.sum(-1), 1, atol=1e-5)


def test_words_of_a_batch_are_summed_to_and_averaged_from(batch: WatchedBatch):
    for at, watched in enumerate(batch.singly):
        owners, maps = watched.tokens.words, watched.maps.double().numpy()
        size = len(watched.text.words)
        pieces = [np.flatnonzero(owners == word) for word in range(size)]
        for block, found in enumerate(batch.words):
            rows = np.stack([maps[block][:, own].mean(1) for own in pieces], 1)
            expected = np.stack([rows[..., own].sum(-1) for own in pieces], -1)
            np.testing.assert_allclose(found[at, :, :size, :size], expected, atol=1e-6)
            assert not found[at, :, size:].any()
            assert not found[at, :, :, size:].any()


def roles(watched: WatchedText, punctuation: set[int]) -> tuple[np.ndarray, np.ndarray]:
    special = watched.tokens.words == SPECIAL
    special[0] = False
    return special, np.isin(watched.tokens.ids, list(punctuation))


def measured(watched: WatchedText, punctuation: set[int]) -> np.ndarray:
    """[measure, block, head] of one text, by the definitions of the measures."""
    maps = watched.maps.double().numpy()
    separators, signs = roles(watched, punctuation)
    entropy = -np.where(maps > 0, maps * np.log(np.maximum(maps, 1e-300)), 0).sum(-1)
    to_separators = maps[..., separators].sum(-1)
    size = maps.shape[-1]
    values = [
        maps.trace(axis1=-2, axis2=-1) / size,
        maps.trace(-1, axis1=-2, axis2=-1) / size,
        maps.trace(1, axis1=-2, axis2=-1) / size,
        maps[..., 0].mean(-1),
        to_separators.mean(-1),
        maps[..., signs].sum(-1).mean(-1),
        to_separators[..., separators].mean(-1),
        to_separators[..., ~separators].mean(-1),
        entropy.mean(-1),
        entropy[..., 0],
    ]
    return np.stack(values)


def test_surface_measures_are_those_of_single_texts(real_encoder, batch: WatchedBatch):
    meter = SurfaceMeter(real_encoder, samples=5)
    signs = {int(real_encoder.tokenize(Text("", (sign,))).ids[1]) for sign in ".,"}
    expected = np.mean([measured(watched, signs) for watched in batch.singly], axis=0)
    shown(meter, batch)
    np.testing.assert_allclose(meter.measured().value, expected, rtol=1e-5, atol=1e-6)
    assert meter.measured().baseline[MEASURES.index("to_first")] == pytest.approx(
        np.mean([1 / len(tokens.ids) for tokens in batch.tokens]), rel=1e-5
    )
    uniform = [len(text.segments) / len(own.ids) for text, own in zip(batch.texts, batch.tokens, strict=True)]
    assert meter.measured().baseline[MEASURES.index("to_separator")] == pytest.approx(np.mean(uniform), rel=1e-5)


def pattern(watched: WatchedText, punctuation: set[int]) -> np.ndarray | None:
    """[block, head] The pattern of each map of one text, cell by cell."""
    separators, signs = roles(watched, punctuation)
    size = len(separators)
    marks = separators | signs
    marks[0] = True
    ends = [segment.end for segment in watched.text.segments]
    own = np.where(watched.tokens.words == SPECIAL, 0, np.searchsorted(ends, watched.tokens.words, side="right"))
    segment = np.maximum.accumulate(own)
    near = np.abs(np.subtract.outer(np.arange(size), np.arange(size))) <= 1
    cells = [marks & ~near, near & ~marks, near & marks, (segment[:, None] == segment) & ~near & ~marks]

    def parts(maps: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        vertical, diagonal, both, block = ((maps * each).sum((-1, -2)) / size for each in cells)
        left = 1 - both
        return [(vertical, left - diagonal), (diagonal, left - vertical), (block, left - vertical - diagonal)]

    flat = parts(np.full((size, size), 1 / size))
    if any(left - held < 1e-6 for held, left in flat[:2]):
        return None
    strong = []
    for (held, left), (expected, room) in zip(parts(watched.maps.double().numpy()), flat, strict=True):
        share = expected / room
        strong.append((held >= NOTABLE) & (held / left - share >= STRONG * (1 - share)) & (room - expected > 1e-6))
    vertical, diagonal, block = strong
    block &= len(ends) > 1
    return np.select([vertical & diagonal, vertical, diagonal, block], [2, 0, 1, 3], 4)


def test_patterns_are_those_of_single_texts(real_encoder, batch: WatchedBatch):
    meter = PatternMeter(real_encoder, samples=5)
    signs = {int(real_encoder.tokenize(Text("", (sign,))).ids[1]) for sign in ".,"}
    found = [pattern(watched, signs) for watched in batch.singly]
    told = np.stack([each for each in found if each is not None])
    shown(meter, batch)
    assert meter.undecided == len(found) - len(told) > 0
    assert len(np.unique(told)) > 2, "several patterns occur"
    expected = np.stack([(told == at).mean(0) for at in range(len(PATTERNS))])
    np.testing.assert_allclose(meter.means.heads().value, expected, atol=1e-6)


def test_hits_of_relations_are_those_of_single_texts(real_encoder, batch: WatchedBatch):
    heads = real_encoder.blocks * real_encoder.heads
    meter = RelationMeter(heads, relations_of(TEXTS), Halves(frozenset(), "text"), samples=5, seed=0)
    shown(meter, batch)
    relation = meter.relations.index("r1")
    for direction in (0, 1):
        hits = np.zeros(heads)
        for watched in batch.singly:
            maps = watched.words.maps.flatten(0, 1).numpy()
            bare = maps * (1 - np.eye(maps.shape[-1]))
            for edge in watched.text.edges["dep"]:
                if edge.labels == ("r1",):
                    given = bare[:, edge.span.start] if direction == 0 else bare[:, :, edge.span.start]
                    hits += given.argmax(-1) == edge.other.start
        np.testing.assert_array_equal(meter.sums().heads[direction, :, relation], hits)


def test_distances_and_divergences_are_those_of_single_texts(real_encoder, batch: WatchedBatch):
    far, apart = DistanceMeter(real_encoder, samples=5, seed=0), DivergenceMeter(real_encoder, samples=5)
    shown(far, batch)
    shown(apart, batch)
    distances = []
    summed = np.zeros(3)
    for watched in batch.singly:
        words = watched.words.maps.double().flatten(0, 1).numpy()
        place = np.arange(words.shape[-1])
        if len(place) > 1:
            steps = np.abs(place[:, None] - place)
            distances.append(((words * steps).sum(-1) / words.sum(-1)).mean(-1))
        smooth = watched.maps.double().flatten(0, 1).numpy()
        smooth = smooth / smooth.sum(-1, keepdims=True) * (1 - SMOOTHING) + SMOOTHING / smooth.shape[-1]
        summed += [np.square(jensenshannon(smooth[0], smooth[other], axis=-1)).sum() for other in (1, 30, 71)]
    table = far.table(real_encoder.heads)
    np.testing.assert_allclose(table["value"], np.mean(distances, axis=0), rtol=1e-5)
    assert apart.tokens == sum(len(tokens.ids) for tokens in batch.tokens)
    # To 1e-6 per token.
    np.testing.assert_allclose(apart.summed[0, [1, 30, 71]], summed, atol=1e-6 * apart.tokens)


def test_all_blocks_at_once_as_on_a_gpu_give_the_same(
    real_encoder, batch: WatchedBatch, monkeypatch: pytest.MonkeyPatch
):
    def tables() -> list[np.ndarray]:
        heads = real_encoder.blocks * real_encoder.heads
        halves = Halves(frozenset(), "text")
        surface, patterns = SurfaceMeter(real_encoder, samples=5), PatternMeter(real_encoder, samples=5)
        relations = RelationMeter(heads, relations_of(TEXTS), halves, samples=5, seed=0)
        far = DistanceMeter(real_encoder, samples=5, seed=0)
        again = WatchedBatch(batch.texts, batch.tokens, batch.maps)
        for meter in (surface, patterns, relations, far):
            meter.update(again)
        distances = far.table(real_encoder.heads)["value"].to_numpy()
        return [surface.measured().value, patterns.means.heads().value, relations.sums().heads, distances]

    by_block = tables()
    monkeypatch.setattr(WatchedBatch, "groups", property(lambda own: (torch.cat(own.maps, 1),)))
    for one, other in zip(by_block, tables(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
