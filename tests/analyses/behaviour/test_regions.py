"""Regions' surprisals against sums by hand, and items judged by language models, masked models and counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from lamina.analyses.behaviour.inputs import NGrams
from lamina.analyses.behaviour.judging import counted, judge_item, passages_of
from lamina.corpora.suites.syntaxgym import Metric, RegionItem, parse
from lamina.models.language.language_model import PassageScore, language_model, score_passages
from tests.language_models import tiny_causal, tiny_masked

SENTENCES = {
    "good": {1: "The lazy dog", 2: "", 3: "barked unhesitatingly", 4: "."},
    "bad": {1: "The lazy dogs", 2: ",", 3: "sat far", 4: "away"},
}


def item(formula: str, metric: Metric = "sum") -> RegionItem:
    return RegionItem("1", "syntaxgym", "other", "own", SENTENCES, (parse(formula),), metric, 0.5)


def scored(good: dict[int, list[float]], bad: dict[int, list[float]]) -> list[PassageScore]:
    """Log-probabilities by word, in place of a model's."""
    made = []
    for words in (good, bad):
        spans = np.array([word for word, own in words.items() for _ in own])
        made.append(
            PassageScore("", -math.log(2) * np.concatenate([*map(np.array, words.values())]), spans, len(words))
        )
    return made


def test_a_causal_models_region_is_the_sum_of_its_pieces_in_bits() -> None:
    """Against the whole model's own logits, one sentence at a time."""
    encoder = tiny_causal()
    model = language_model(encoder)
    asked = item("(3;%good%) < (*;%bad%)")
    outcome = judge_item(asked, list(score_passages(model, passages_of(asked))))
    assert outcome is not None
    assert encoder.whole is not None
    assert model.start is not None
    expected = []
    for condition, after in (("good", "The lazy dog"), ("bad", "")):
        text = asked.text(condition)
        given = encoder.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids = torch.tensor([[model.start, *given["input_ids"]]])
        with torch.no_grad():
            logprobs = encoder.whole(ids).logits[0].double().log_softmax(-1)
        bits = [-float(logprobs[at, piece]) / math.log(2) for at, piece in enumerate(given["input_ids"])]
        end = len(text) if condition == "bad" else text.index(" .")
        inside = [at for at, (start, _) in enumerate(given["offset_mapping"]) if len(after) <= start < end]
        expected.append(sum(bits[at] for at in inside))
    assert outcome.surprisals == f"(3;%good%) {expected[0]:.2f}, (*;%bad%) {expected[1]:.2f}"
    assert outcome.margin == pytest.approx(expected[1] - expected[0], abs=1e-3)
    assert outcome.plain == float(expected[0] < expected[1])


def test_a_masked_model_hides_pieces_or_the_rest_of_a_word_but_never_a_region() -> None:
    model = language_model(tiny_masked())
    asked = item("(1;%good%) < (1;%bad%)")
    by_piece, by_word = (
        list(score_passages(model, passages_of(asked), masking=masking)) for masking in ("piece", "word")
    )
    whole = [word for word in range(by_piece[0].parts) if (by_piece[0].spans == word).sum() == 1]
    same = np.isin(by_piece[0].spans, whole)
    # Words of one piece are hidden alone either way, though a region may have several of them.
    assert same.sum() >= 3
    assert by_piece[0].logprobs[same] == pytest.approx(by_word[0].logprobs[same], abs=1e-4)
    assert judge_item(asked, by_piece) is not None


@pytest.mark.parametrize(
    ("metric", "good"), [("sum", 9.0), ("mean", 3.0), ("median", 2.0), ("range", 5.0), ("max", 6.0), ("min", 1.0)]
)
def test_metrics_of_a_region(metric: Metric, good: float) -> None:
    scores = scored({0: [1], 1: [1], 2: [1], 3: [6.0], 4: [1.0, 2.0], 5: [1]}, {word: [4.0] for word in range(7)})
    outcome = judge_item(item(f"(3;%good%) = {good}", metric), scores)
    assert outcome is not None
    assert outcome.plain == 1.0


def test_per_token_divides_by_pieces() -> None:
    scores = scored({0: [1], 1: [1], 2: [1], 3: [6.0], 4: [1.0, 2.0], 5: [1]}, {word: [4.0] for word in range(7)})
    outcome = judge_item(item("(3;%good%) < (3;%bad%)"), scores)
    assert outcome is not None
    assert (outcome.plain, outcome.per_token) == (0.0, 1.0)
    assert (outcome.margin, outcome.margin_per_token) == (-1.0, 1.0)


def test_empty_regions_have_a_sum_of_0_and_nothing_else() -> None:
    scores = scored({word: [2.0] for word in range(6)}, {word: [4.0] for word in range(7)})
    empty = judge_item(item("(2;%good%) < (2;%bad%)"), scores)
    assert empty is not None
    assert empty.plain == 1.0
    assert judge_item(item("(2;%good%) < (2;%bad%)", "mean"), scores) is None
    # A comma that the tokenizer drops is missing, not free.
    lost = scored({word: [2.0] for word in range(6)}, {word: [4.0] for word in (0, 1, 2, 4, 5, 6)})
    assert judge_item(item("(2;%good%) < (2;%bad%)"), lost) is None
    assert judge_item(item("(1;%good%) < (1;%bad%)"), lost) is not None


def test_counts_cannot_tell_what_their_window_does_not_hold() -> None:
    """A bigram model ties where the word before is the same, and ties are chance."""
    asked = RegionItem(
        "1", "", "", "own",
        {"good": {1: "The dog near us", 2: "barks"}, "bad": {1: "The dogs near us", 2: "barks"}},
        (parse("(2;%good%) < (2;%bad%)"),), "sum", 0.5,
    )  # fmt: skip
    grams = NGrams.of([["the", "dog", "barks"], ["the", "dogs", "bark"]], order=2)
    outcome = judge_item(asked, [counted(grams, passage, lower=True) for passage in passages_of(asked)])
    assert outcome is not None
    assert (outcome.plain, outcome.tied) == (0.5, True)
