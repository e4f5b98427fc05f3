"""Norm-weighted attention in every analysis of maps: a planted sink that moves nothing, and numbers that change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import lamina
from lamina.corpora import corpus_from
from lamina.corpora.splits import Splits
from lamina.errors import InputError, ModelError
from lamina.framework.registry import all_analyses
from lamina.framework.watch import Watch, WatchedBatch, WatchedText, watch, watch_together
from lamina.models import SPECIAL, Activations, Tokens
from lamina.models.contract import STATES, Want
from lamina.results import Result
from lamina.testing import SAMPLE_TEXTS, TinyEncoder
from lamina.types import Edge, Span, Text

SINK, QUIET = 0.9, 0.01
"""What every token gives to the separator, and the norm of the separator's value (1 for all others)."""


class Sink(TinyEncoder):
    """Every head gives most of its attention to the separator, which has nothing to give, and the rest to the next."""

    def encode(
        self, texts: Iterable[Text], want: Collection[Want] = STATES, *, ordered: bool = True
    ) -> Iterator[Activations]:
        for text in texts:
            tokens = self.tokenize(text)
            size = len(tokens.ids)
            maps, norms = torch.zeros(self.blocks, self.heads, size, size), torch.ones(self.blocks, self.heads, size)
            maps[..., -1] = SINK
            maps[..., range(size), [*range(1, size), 0]] += 1 - SINK
            norms[..., -1] = QUIET
            yield Activations(text.id, tokens, None, maps, norms=norms if "norms" in want else None)

    def tokenize(self, text: Text) -> Tokens:
        words = np.r_[SPECIAL, np.arange(len(text.words)), SPECIAL].astype(np.int32)
        return Tokens(np.arange(len(words), dtype=np.int32), words)


class Keeper:
    def __init__(self) -> None:
        self.seen: dict[str, WatchedText] = {}

    def update(self, batch: WatchedBatch) -> None:
        self.seen |= {watched.text.id: watched for watched in batch.singly}


def test_a_sink_that_moves_nothing_is_none_by_norm():
    texts = corpus_from([Text("t", ("We", "saw", "her"), doc="d")], name="own")
    shares = {}
    for weights in ("attention", "norm"):
        table = lamina.attention(Sink(), texts, samples=10, weights=weights).tables["surface"]
        shares[weights] = table[table["measure"] == "to_separator"]["value"].unique()
    # Of five tokens the fourth has the separator as its next one, and gives it everything.
    assert shares["attention"] == pytest.approx((4 * SINK + 1) / 5)
    quiet = SINK * QUIET / (SINK * QUIET + 1 - SINK)
    assert shares["norm"] == pytest.approx((4 * quiet + 1) / 5)


def test_rows_sum_to_one_and_split_words_are_merged_after_weighting():
    plain, weighted, first = Keeper(), Keeper(), Keeper()
    encoder = TinyEncoder()
    watch(encoder, SAMPLE_TEXTS, [plain])
    watch(encoder, SAMPLE_TEXTS, [weighted], weights="norm")
    watch(encoder, SAMPLE_TEXTS, [first], weights="norm", rows="first")
    for made in encoder.encode(SAMPLE_TEXTS, ("maps", "norms")):
        assert made.maps is not None
        assert made.norms is not None
        product = made.maps * made.norms[:, :, None]
        maps = weighted.seen[made.text].maps
        torch.testing.assert_close(maps, product / product.sum(-1, keepdim=True))
        words = weighted.seen[made.text].words
        torch.testing.assert_close(words.maps.sum(-1) + words.special, torch.ones(words.special.shape))
        torch.testing.assert_close(first.seen[made.text].maps, maps)
        torch.testing.assert_close(plain.seen[made.text].maps, made.maps)


def test_plain_and_weighted_maps_share_a_pass():
    class Counting(TinyEncoder):
        runs = 0

        def encode(self, texts, want=STATES, *, ordered=True):
            self.runs += 1
            return super().encode(texts, want, ordered=ordered)

    encoder, apart = Counting(), [Keeper(), Keeper()]
    watch(encoder, SAMPLE_TEXTS, [apart[0]])
    watch(encoder, SAMPLE_TEXTS, [apart[1]], weights="norm")
    encoder.runs, together = 0, [Keeper(), Keeper()]
    watch_together([
        Watch(encoder, SAMPLE_TEXTS, [together[0]]), Watch(encoder, SAMPLE_TEXTS, [together[1]], weights="norm")
    ])  # fmt: skip
    assert encoder.runs == 1
    for one, other in zip(apart, together, strict=True):
        for name, watched in one.seen.items():
            torch.testing.assert_close(watched.maps, other.seen[name].maps)


def test_a_text_too_long_for_maps_is_left_out_by_norm_too():
    class Windowed(TinyEncoder):
        def encode(self, texts, want=STATES, *, ordered=True):
            for made in super().encode(texts, want):
                yield Activations(made.text, made.tokens, windows=2)

    (reason,) = watch(Windowed(), SAMPLE_TEXTS[:1], [Keeper()], weights="norm")
    assert "left out" in reason


def test_an_encoder_that_has_no_norms_is_refused_in_words():
    class Plain(TinyEncoder):
        def encode(self, texts, want=STATES, *, ordered=True):
            return super().encode(texts, [each for each in want if each != "norms"], ordered=ordered)

    with pytest.raises(ModelError, match=r"tiny.* no norms of values; use --weights attention"):
        watch(Plain(), SAMPLE_TEXTS, [Keeper()], weights="norm")


SUBJECTS = ("Dogs", "Unhesitating", "Children", "Neighbours", "We")
DEPENDENCIES = (
    Edge(("nsubj",), Span(0, 1), Span(1, 2)), Edge(("root",), Span(1, 2), Span(1, 2)),
    Edge(("obj",), Span(3, 4), Span(1, 2)), Edge(("det",), Span(2, 3), Span(3, 4)),
)  # fmt: skip


def sentences(count: int, split: str = "dev") -> Any:
    texts = [
        Text(f"{split}-{at}", (SUBJECTS[at % 5], "followed", "the", f"cat{split}{at}"), doc=f"{split}-{at // 2}",
             edges={"dep": DEPENDENCIES})
        for at in range(count)
    ]  # fmt: skip
    return corpus_from(texts, name="own", split=split)


def stories() -> Any:
    tags = ("NNP", "VBD", "DT", "NN", "CC", "DT", "NN", "VBD", "PRP", "VB", "NNP")
    edges = {
        "xpos": tuple(Edge((tag,), Span(at, at + 1)) for at, tag in enumerate(tags)),
        "chains": (
            *(Edge(("m",), Span(at, at + 1)) for at in (0, 8, 10)), Edge(("d",), Span(2, 4)), Edge(("d",), Span(5, 7)),
        ),
    }  # fmt: skip
    words = ["Mary", "saw", "a", "dog", "and", "the", "dog", "saw", "her", "see", "Mary"]
    texts = [Text(f"s{at}", (*words[:-1], f"Mary{at}"), edges=edges, doc=f"s{at}") for at in range(6)]
    return corpus_from(texts, name="stories")


def parsed(encoder: TinyEncoder, folder: Path, weights: Any) -> Result:
    vectors = folder / "own.txt"
    vectors.write_text("\n".join(f"{word} 1 {at}" for at, word in enumerate(("followed", "the", *SUBJECTS))))
    splits = Splits(sentences(20, "train"), sentences(10))
    return lamina.parse(encoder, splits, vectors=str(vectors), samples=10, store=folder, weights=weights)


ASKED: dict[str, Callable[[TinyEncoder, Path, Any], Result]] = {
    "attention": lambda model, _, weights: lamina.attention(model, sentences(10), samples=10, weights=weights),
    "attention_distance": lambda model, _, weights: lamina.attention_distance(
        model, sentences(10), samples=10, weights=weights
    ),
    "heads": lambda model, _, weights: lamina.heads(model, sentences(30), samples=10, weights=weights),
    "headmap": lambda model, _, weights: lamina.headmap(model, sentences(10), samples=10, weights=weights),
    "corefheads": lambda model, _, weights: lamina.corefheads(model, stories(), samples=10, weights=weights),
    "parse": parsed,
    "diff": lambda model, folder, weights: lamina.diff(
        model,
        TinyEncoder(blocks=3, heads=4, seed=5),
        sentences(10),
        twin=False,
        samples=10,
        store=folder,
        weights=weights,
    ),
    "look": lambda model, _, weights: lamina.look(model, "Dogs followed the cat.", weights=weights),
}
"""Every analysis of attention maps -> asking it."""


def test_every_analysis_of_maps_is_here():
    assert {each.name for each in all_analyses() if "weights" in each.settings} == set(ASKED)


@pytest.mark.parametrize("name", ASKED)
def test_every_analysis_of_maps_takes_the_weights(name: str, tmp_path: Path):
    # Broad maps: norms that differ by a little then change which word gets most.
    encoder = TinyEncoder(blocks=3, heads=4, seed=4)
    plain, weighted, again = (ASKED[name](encoder, tmp_path, each) for each in ("attention", "norm", "norm"))
    assert weighted.provenance.parameters["weights"] == "norm"
    # Answers are found again by their key: it must tell the two apart.
    assert plain.key != weighted.key == again.key
    assert any(differ(plain.tables[table], weighted.tables[table]) for table in plain.tables)
    assert not any(differ(weighted.tables[table], again.tables[table]) for table in again.tables)


def differ(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    try:
        pd.testing.assert_frame_equal(one, other, rtol=1e-4, atol=1e-4)
    except AssertionError:
        return True
    return False


def test_another_weighting_is_refused_in_words():
    with pytest.raises(InputError, match="weights must be one of attention, norm; got 'values'"):
        lamina.look(TinyEncoder(), "Dogs bark.", weights="values")
