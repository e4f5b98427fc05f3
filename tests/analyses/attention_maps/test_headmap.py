"""The map of heads: divergences against scipy, the plane against known places, behaviours by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon, pdist, squareform
from sklearn.manifold import smacof

from lamina.analyses.attention_maps.behaviours import Found, behaviours, named
from lamina.analyses.attention_maps.headmap import SMOOTHING, DivergenceMeter, divergences, headmap, scale
from lamina.analyses.watching import watch
from lamina.corpora import corpus_from
from lamina.errors import ModelError
from lamina.results import Result
from lamina.testing import SAMPLE_TEXTS, TinyEncoder
from lamina.types import Edge, Span, Text

SURFACE = ["layer", "head", "measure", "value", "low", "high", "baseline"]
BEST = [
    "relation", "direction", "layer", "head", "count", "accuracy", "low", "high", "offset", "offset_accuracy",
]  # fmt: skip


def drawn(heads: int, size: int, sharp: float, seed: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    return (torch.randn(heads, size, size, generator=draw) * sharp).softmax(-1)


def by_scipy(maps: torch.Tensor) -> np.ndarray:
    exact = maps.double().numpy()
    smooth = exact / exact.sum(-1, keepdims=True) * (1 - SMOOTHING) + SMOOTHING / maps.shape[-1]
    pairs = [[np.square(jensenshannon(one, other, axis=-1)).sum() for other in smooth] for one in smooth]
    return np.array(pairs)


@pytest.mark.parametrize("size", [1, 5, 40, 140])
@pytest.mark.parametrize("sharp", [0.3, 3.0, 20.0])
@pytest.mark.parametrize("threads", [1, 2])
def test_divergences_are_scipys_squared(size: int, sharp: float, threads: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    maps = drawn(5, size, sharp, seed=size)
    found, exact = divergences(maps), by_scipy(maps)
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-6 * size)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 6), st.integers(1, 20), st.floats(0.01, 30), st.integers(0, 999))
def test_divergences_are_symmetric_zero_for_oneself_and_at_most_log_2(heads: int, size: int, sharp: float, seed: int):
    found = divergences(drawn(heads, size, sharp, seed))
    assert (found == found.T).all()
    assert (found.diagonal() == 0).all()
    assert (found >= 0).all()
    assert (found <= size * np.log(2)).all()


def test_a_meter_sums_over_texts_and_counts_tokens():
    encoder, meter = TinyEncoder(), DivergenceMeter()
    watch(encoder, SAMPLE_TEXTS, [meter])
    made = list(encoder.encode(SAMPLE_TEXTS, ("maps",)))
    exact = sum(by_scipy(each.maps.flatten(0, 1)) for each in made)
    assert meter.tokens == sum(len(each.tokens.ids) for each in made)
    np.testing.assert_allclose(meter.summed, exact, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(meter.mean, meter.summed / meter.tokens)


@settings(max_examples=20, deadline=None)
@given(st.integers(3, 12), st.integers(0, 99))
def test_the_plane_keeps_the_distances_of_points_on_a_plane(count: int, seed: int):
    distances = squareform(pdist(np.random.default_rng(seed).normal(size=(count, 2))))
    made = scale(distances)
    assert made.stress < 0.05
    if made.stress < 1e-3:
        np.testing.assert_allclose(squareform(pdist(made.points)), distances, atol=0.02)
    np.testing.assert_allclose(made.points.mean(0), 0, atol=1e-9)
    assert np.ptp(made.points[:, 0]) > 0


def test_the_plane_is_as_good_as_scikit_learns():
    distances = squareform(pdist(np.random.default_rng(0).normal(size=(25, 5))))
    made = scale(distances, seed=1)
    _, theirs = smacof(
        distances,
        n_components=2,
        n_init=5,
        init=None,
        max_iter=1000,
        eps=1e-10,
        random_state=0,
        normalized_stress=False,
    )
    ours = np.square(distances - squareform(pdist(made.points))).sum() / 2
    assert ours <= theirs * 1.02
    assert made.stress == pytest.approx(np.sqrt(2 * ours / np.square(distances).sum()))
    np.testing.assert_array_equal(made.points, scale(distances, seed=1).points)


def test_heads_that_all_attend_alike_fall_together():
    made = scale(np.zeros((3, 3)))
    assert made.stress == 0
    np.testing.assert_allclose(made.points, 0, atol=1e-9)


def surface(**values: tuple[float, float]) -> pd.DataFrame:
    """Of head 1-1: measure -> value and baseline."""
    rows = [(1, 1, measure, value, value, value, uniform) for measure, (value, uniform) in values.items()]
    return pd.DataFrame(rows, columns=SURFACE)


@pytest.mark.parametrize(
    ("measured", "called"),
    [
        ({"to_previous": (0.51, 0.1)}, "previous"),
        ({"to_previous": (0.5, 0.1)}, "other"),
        ({"to_next": (0.9, 0.1)}, "next"),
        ({"to_separator": (0.61, 0.1)}, "separator"),
        ({"to_separator": (float("nan"), float("nan"))}, "other"),
        ({"to_first": (0.61, 0.1)}, "first"),
        ({"to_punctuation": (0.59, 0.1)}, "other"),
        ({"to_punctuation": (0.61, 0.1)}, "punctuation"),
        ({"to_self": (0.99, 0.1)}, "other"),
        ({"entropy": (3.8, np.log(128))}, "broad"),
        ({"entropy": (3.7, np.log(128))}, "other"),
        ({"entropy": (1.3, np.log(5))}, "broad"),
    ],
    ids=str,
)
def test_behaviours_on_the_surface(measured: dict[str, tuple[float, float]], called: str):
    assert named(behaviours(surface(**measured)), 1, 1) == called


@pytest.mark.parametrize(
    ("relation", "count", "low", "offset", "called"),
    [
        ("obj", 100, 0.6, 0.4, "syntactic"),
        ("obj", 100, 0.4, 0.4, "first"),
        ("obj", 29, 0.6, 0.4, "first"),
        ("all", 100, 0.6, 0.4, "first"),
    ],
)
def test_a_head_is_syntactic_where_its_interval_lies_above_the_offset(relation, count, low, offset, called):
    best = pd.DataFrame([(relation, "dependent", 1, 1, count, 0.7, low, 0.8, 1, offset)], columns=BEST)
    assert named(behaviours(surface(to_first=(0.7, 0.1)), best), 1, 1) == called


def test_the_best_coreference_head_is_one_where_it_beats_the_nearest_mention():
    columns = ["system", "layer", "head", "mention_type", "count", "accuracy", "low", "high"]
    rows = [
        ("best head", 2, 1, "all", 200, 0.6, 0.55, 0.65),
        ("best head", 2, 1, "pronoun", 90, 0.4, 0.2, 0.5),
        ("nearest", None, None, "all", 200, 0.3, 0.25, 0.35),
        ("nearest", None, None, "pronoun", 90, 0.3, 0.25, 0.35),
        ("head", 1, 1, "all", 400, 0.9, 0.85, 0.95),
    ]
    found = behaviours(surface(), coref=pd.DataFrame(rows, columns=columns).astype({"layer": "Int64", "head": "Int64"}))
    assert found.values.tolist() == [list(Found(2, 1, "coreference", "all", 0.6, 0.3))]


def treebank(count: int = 80) -> list[Text]:
    edges = (Edge(("root",), Span(1, 2), Span(1, 2)), Edge(("nsubj",), Span(0, 1), Span(1, 2)))
    return [Text(str(at), ("Dogs", "bark"), edges={"dep": edges}, doc=str(at)) for at in range(count)]


def test_the_analysis_runs_all_meters_in_one_pass(tmp_path):
    class Counting(TinyEncoder):
        passes = 0

        def encode(self, *args, **kwargs):
            self.passes += 1
            return super().encode(*args, **kwargs)

    encoder = Counting(blocks=3)
    result = headmap(encoder, corpus_from(treebank(), name="own"), samples=20)
    assert encoder.passes == 1
    points, pairs, fit = (result.tables[name] for name in ("points", "divergences", "fit"))
    assert points.columns.tolist() == ["layer", "head", "x", "y", "behaviour"]
    assert points[["layer", "head"]].values.tolist() == [[layer, head] for layer in (1, 2, 3) for head in (1, 2)]
    assert len(pairs) == 15
    np.testing.assert_allclose(pairs["value"], pairs["mean"] * fit["tokens"].item())
    # Every sentence is the same, so whoever finds one subject finds all, and no offset is worse than +1.
    assert "syntactic" not in set(points["behaviour"])
    assert result.provenance.parameters == {"length": None, "samples": 20, "seed": 0}
    again = Result.load(result.save(tmp_path / "map", charts=False))
    pd.testing.assert_frame_equal(again.tables["points"], points)


def test_a_corpus_without_dependencies_maps_without_syntax():
    corpus = corpus_from([["Dogs", "bark", "."], ["😀"], ["שלום", "."]], name="plain")
    result = headmap(TinyEncoder(), corpus, samples=5)
    assert len(result.tables["points"]) == 4
    assert not set(result.tables["behaviours"]["behaviour"]) & {"syntactic", "coreference"}


def test_a_single_head_has_no_map():
    with pytest.raises(ModelError, match="single head"):
        headmap(TinyEncoder(blocks=1, heads=1), corpus_from([["Dogs"]], name="own"))
