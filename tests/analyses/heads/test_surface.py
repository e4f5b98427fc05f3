"""Surface measures and patterns: hand-made maps whose answers are known, and uniform ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from lamina.analyses.heads.surface import MEASURES, PATTERNS, PatternMeter, SurfaceMeter, uniform_maps
from lamina.framework.watch import WatchedBatch, WatchedText
from lamina.models import SPECIAL
from lamina.testing import TinyEncoder
from lamina.types import Span, Text

LN2 = math.log(2)


def one_headed(*, causal: bool = False) -> TinyEncoder:
    encoder = TinyEncoder(blocks=1, heads=1)
    encoder.causal = causal
    return encoder


def uniform_map(size: int, *, causal: bool) -> torch.Tensor:
    return uniform_maps(torch.ones(1, size, dtype=torch.bool), causal=causal)[0, 0]


def seen(text: Text, rows: torch.Tensor) -> WatchedText:
    return WatchedText(text, TinyEncoder().tokenize(text), rows[None, None].float())


def measured(*watched: WatchedText, causal: bool = False) -> dict[str, tuple[float, float]]:
    """Measure -> its value and its baseline."""
    meter = SurfaceMeter(one_headed(causal=causal), samples=50)
    meter.update(WatchedBatch.of(watched))
    table = meter.table()
    assert (table["low"].isna() | (table["low"] <= table["high"] + 1e-6)).all()
    return {row.measure: (row.value, row.baseline) for row in table.itertuples()}


def pattern(*watched: WatchedText, causal: bool = False) -> dict[str, float]:
    meter = PatternMeter(one_headed(causal=causal), samples=50)
    meter.update(WatchedBatch.of(watched))
    table = meter.table()
    assert table.columns.tolist() == ["layer", "head", "pattern", "share", "low", "high"]
    return dict(zip(table["pattern"], table["share"], strict=True))


# [CLS] go . [SEP]: every answer below is added up by hand.
TEXT = Text("t", ("go", "."))
MAP = torch.tensor([[0.5, 0.5, 0, 0], [0, 0, 1, 0], [0, 0.5, 0, 0.5], [0.25, 0, 0, 0.75]])


def test_every_measure_of_a_map_made_by_hand():
    found = {name: value for name, (value, _) in measured(seen(TEXT, MAP)).items()}
    quarter = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert found == pytest.approx(
        {
            "to_self": (0.5 + 0 + 0 + 0.75) / 4,
            "to_previous": (0 + 0 + 0.5 + 0) / 4,
            "to_next": (0.5 + 1 + 0.5) / 4,
            "to_first": (0.5 + 0.25) / 4,
            "to_separator": (0.5 + 0.75) / 4,
            "to_punctuation": 1 / 4,
            "separator_to_separator": 0.75,
            "other_to_separator": 0.5 / 3,
            "entropy": (LN2 + 0 + LN2 + quarter) / 4,
            "entropy_first": LN2,
        }
    )
    assert tuple(found) == MEASURES


def test_two_separators_of_128_tokens_get_a_sixty_fourth_of_uniform_attention():
    text = Text("t", tuple("a" * 125), (Span(0, 60), Span(60, 125)))
    assert measured(seen(text, torch.eye(128)))["to_separator"][1] == pytest.approx(1 / 64)


@pytest.mark.parametrize("causal", [False, True])
def test_a_uniform_map_gives_exactly_the_baseline(causal: bool):
    texts = [TEXT, Text("u", ("so", ",", "they", "went", "on", ".")), Text("v", ("yes",))]
    sizes = [len(TinyEncoder().tokenize(text).ids) for text in texts]
    uniform = [uniform_map(size, causal=causal) for size in sizes]
    for value, baseline in measured(*map(seen, texts, uniform), causal=causal).values():
        assert value == baseline


def test_means_are_over_texts_not_over_tokens_and_without_texts_that_lack_a_separator():
    bare = seen(Text("u", ("go", "on")), torch.eye(4))
    bare = WatchedText(bare.text, bare.tokens._replace(words=np.array([0, 0, 1, 1])), bare.maps)
    found = measured(seen(TEXT, MAP), bare)
    assert found["to_self"][0] == pytest.approx((1.25 / 4 + 1) / 2)
    assert found["to_separator"] == pytest.approx((1.25 / 4, 1 / 4))
    assert found["to_punctuation"][0] == pytest.approx(1 / 8)
    assert all(math.isnan(number) for number in measured(bare)["separator_to_separator"])


def test_a_decoder_has_a_past_to_look_at_and_no_separators_that_its_first_token_would_be():
    text = Text("t", ("dog", "ran", "off"))
    tokens = TinyEncoder().tokenize(text)
    tokens = tokens._replace(ids=tokens.ids[1:-1], words=tokens.words[1:-1])
    rows = torch.tensor([[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1.0]])
    found = measured(WatchedText(text, tokens, rows[None, None]), causal=True)
    uniform = (1 + 1 / 2 + 1 / 3) / 3
    assert found["to_first"] == pytest.approx((0.5, uniform))
    assert all(math.isnan(number) for name in found if "separator" in name for number in found[name])
    assert found["to_next"] == (0, 0)
    assert found["entropy"] == pytest.approx((LN2 / 3, (LN2 + math.log(3)) / 3))
    assert found["entropy_first"] == (0, 0)


LONG = Text("long", tuple("abcdefghij"), (Span(0, 5), Span(5, 10)))
SIZE = 13
SEGMENT = torch.tensor([0] * 7 + [1] * 6)
FLAT = uniform_map(SIZE, causal=False)
TO_MARKS = torch.zeros(SIZE, SIZE).index_fill(1, torch.tensor([0, 6, 12]), 1 / 3)
TO_NEIGHBOUR = torch.eye(SIZE).roll(1, 1)
WITHIN = (SEGMENT[:, None] == SEGMENT).float()
MADE = {
    "vertical": 0.7 * TO_MARKS + 0.3 * FLAT,
    "diagonal": 0.7 * TO_NEIGHBOUR + 0.3 * FLAT,
    "vertical+diagonal": 0.5 * TO_MARKS + 0.5 * TO_NEIGHBOUR,
    "block": 0.8 * WITHIN / WITHIN.sum(1, keepdim=True) + 0.2 * FLAT,
    "heterogeneous": FLAT,
}


@pytest.mark.parametrize("name", PATTERNS)
def test_a_map_of_each_pattern_is_told(name: str):
    assert pattern(seen(LONG, MADE[name])) == {each: float(each == name) for each in PATTERNS}


def test_a_block_needs_two_segments():
    assert pattern(seen(Text("one", tuple("abcdefghijk")), MADE["block"]))["heterogeneous"] == 1


def test_shares_are_of_texts():
    found = pattern(*(seen(LONG, MADE[name]) for name in ("vertical", "vertical", "vertical", "diagonal")))
    assert (found["vertical"], found["diagonal"]) == (0.75, 0.25)


def test_for_a_decoder_uniform_over_the_past_is_no_pattern():
    assert pattern(seen(LONG, uniform_map(SIZE, causal=True)), causal=True)["heterogeneous"] == 1
    before = torch.eye(SIZE).roll(1, 0)
    before[0] = torch.eye(SIZE)[0]
    assert pattern(seen(LONG, before), causal=True)["diagonal"] == 1


def test_texts_on_which_every_map_looks_alike_are_not_counted():
    meter = PatternMeter(one_headed())
    text = Text("t", (".", ","))
    meter.update(WatchedBatch.of([seen(text, uniform_map(4, causal=False))]))
    assert meter.undecided == 1
    assert meter.table()["share"].isna().all()
    assert TinyEncoder().tokenize(text).words.tolist() == [SPECIAL, 0, 1, SPECIAL]
