"""Failure cases out of the table of pairs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, recall_score

from lamina.analyses.words.contextualize.scores import (
    DecisionGrid,
    WordBootstrap,
    at_least_half,
    by_word,
    failure_cases,
    pieces_of,
    scores_by_pieces,
)
from lamina.analyses.words.occurrences import find_words
from lamina.stats.intervals import interval
from lamina.testing import TinyEncoder
from tests.analyses.words.conftest import corpus_of, sentences

COLUMNS = ["representation", "layer", "context", "word", "class", "contexts", "share"]
PIECES = {"suit": 1, "bank": 1, "apple": 2, "unhesitating": 4}


def pairs(*rows: tuple, layer: int = 2) -> pd.DataFrame:
    """(word, class, contexts, found alone, found in its text) at a layer, with other rows around it."""
    full = [("m", layer, "full", *row[:3], row[4]) for row in rows]
    alone = [("m", layer, "0", *row[:3], row[3]) for row in rows]
    others = [("m", 0, "full", *row[:3], 1.0) for row in rows] + [("m", layer, "2", *row[:3], 0.0) for row in rows]
    bags = [("P-m input", None, "0", *row[:3], 0.0) for row in rows]
    return pd.DataFrame([*full, *alone, *others, *bags], columns=COLUMNS).astype({"layer": "Int64"})


TABLE = pairs(
    ("suit", "act", 3, 1.0, 0.4),
    ("bank", "group", 1, 0.5, 0.0),
    ("bank", "object", 7, 0.2, 0.6),
    ("apple", "food", 2, 1.0, 1.0),
    ("unhesitating", "act", 2, 0.0, 0.0),
    ("unhesitating", "state", 9, 1.0, 0.0),
)


def test_each_kind_with_most_contexts_first():
    found = failure_cases(TABLE, PIECES)
    assert list(found.columns) == [
        "kind", "representation", "layer", "word", "class", "contexts", "pieces", "without", "full",
    ]  # fmt: skip
    assert [tuple(row) for row in found[["kind", "word", "class"]].itertuples(index=False)] == [
        ("many pieces", "unhesitating", "state"),
        ("many pieces", "unhesitating", "act"),
        ("context hurts", "unhesitating", "state"),
        ("context hurts", "suit", "act"),
        ("context hurts", "bank", "group"),
        ("context helps", "bank", "object"),
    ]
    assert found.iloc[0][["layer", "contexts", "pieces", "without", "full"]].tolist() == [2, 9, 4, 1.0, 0.0]


def test_another_layer_has_no_scores_alone_and_so_no_contexts_that_hurt():
    found = failure_cases(TABLE, PIECES, layer=0)
    assert set(found["kind"]) == {"many pieces"}
    assert found["without"].isna().all()
    assert found["full"].eq(1).all()


def test_nothing_found_is_an_empty_table():
    assert failure_cases(pairs(("apple", "food", 2, 1.0, 1.0)), PIECES).empty


def test_scores_by_pieces():
    found = scores_by_pieces(TABLE, PIECES)
    assert found["pieces"].tolist() == [1, 2, 3]
    assert found["pairs"].tolist() == [3, 1, 2]
    assert found["words"].tolist() == [2, 1, 1]
    assert found["without"].tolist() == pytest.approx([1.7 / 3, 1, 0.5])
    assert found["full"].tolist() == pytest.approx([1 / 3, 1, 0])


def test_pieces_of_several_words_count_together():
    assert pieces_of(TinyEncoder(), ["new york", "שלום", "😀"]) == {"new york": 3, "שלום": 2, "😀": 1}


# At least half of the contexts, and F1 over the grid of decisions.

DATA = find_words(corpus_of(sentences()), TinyEncoder(), most_contexts=4)


def answers(seed: int) -> np.ndarray:
    """The gold classes, some of them wrong."""
    draw = np.random.default_rng(seed)
    return DATA.gold ^ (draw.random(DATA.gold.shape) < 0.3)


def grids(said: np.ndarray, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Gold and decisions, one (pair, class) cell at a time."""
    rows = []
    for pair in DATA.pairs:
        if DATA.split[pair.word] == split:
            for label in range(len(DATA.classes)):
                contexts = list(pair.contexts)
                rows.append([2 * answers_[contexts, label].sum() >= len(contexts) for answers_ in (DATA.gold, said)])
    table = np.array(rows).reshape(-1, len(DATA.classes), 2)
    return table[..., 0], table[..., 1]


@given(seed=st.integers(0, 10_000), split=st.sampled_from(["dev", "test"]))
def test_micro_f1_is_that_of_sklearn_on_the_same_grid(seed, split):
    said = answers(seed)
    gold, decided = grids(said, split)
    counts = DecisionGrid.of(DATA, split).count(said)
    words = np.flatnonzero([own == split for own in DATA.split])
    scores = WordBootstrap(DATA.words, words, samples=3, seed=0).f1(counts)
    assert scores.value[-1] == pytest.approx(f1_score(gold, decided, average="micro"))
    each = f1_score(gold, decided, average=None, zero_division=np.nan)
    assert np.nan_to_num(scores.value[:-1]) == pytest.approx(np.nan_to_num(each))


def test_recall_is_over_the_pairs_own_class():
    said = answers(7)
    grid = DecisionGrid.of(DATA, "test")
    words = np.flatnonzero([own == "test" for own in DATA.split])
    own = [2 * said[list(pair.contexts), pair.label].sum() >= len(pair.contexts) for pair in grid.pairs]
    scores = WordBootstrap(DATA.words, words, samples=3, seed=0).recall(grid.count(said))
    assert scores.value[-1] == pytest.approx(recall_score([True] * len(own), own))
    assert scores.pairs[-1] == len(own)


def test_exactly_half_is_enough_and_the_own_class_always_holds():
    pairs = DecisionGrid.of(DATA, "test").pairs
    every = at_least_half(DATA.gold, pairs)
    assert every[np.arange(len(pairs)), [pair.label for pair in pairs]].all()
    (even,) = [pair for pair in DATA.pairs if len(pair.contexts) == 2][:1]
    said = np.zeros_like(DATA.gold)
    said[even.contexts[0], 0] = True
    assert at_least_half(said, [even])[0].tolist() == [True] + [False] * (len(DATA.classes) - 1)


def test_only_pairs_with_enough_contexts_are_in_the_frequent_grid():
    grid = DecisionGrid.of(DATA, "test", least=3)
    assert 0 < len(grid.pairs) < len(DecisionGrid.of(DATA, "test").pairs)
    assert all(len(pair.contexts) >= 3 for pair in grid.pairs)


def test_words_as_one_grid():
    gold = np.zeros((len(DATA.words), len(DATA.classes)), bool)
    np.logical_or.at(gold, DATA.word, DATA.gold)
    said = gold ^ (np.random.default_rng(1).random(gold.shape) < 0.2)
    inside = np.flatnonzero([own == "test" for own in DATA.split])
    scores = WordBootstrap(DATA.words, inside, samples=3, seed=0).f1(by_word(DATA, "test", said))
    assert scores.value[-1] == pytest.approx(f1_score(gold[inside], said[inside], average="micro"))


def test_intervals_hold_the_value_and_seeds_widen_them():
    words = np.flatnonzero([own == "test" for own in DATA.split])
    draws = WordBootstrap(DATA.words, words, samples=400, seed=0)
    one, other = (draws.f1(DecisionGrid.of(DATA, "test").count(said)) for said in (answers(1), DATA.gold))
    low, high = interval(one.draws[:, -1])
    assert low < one.value[-1] < high
    few, many = draws.pooled([one, other]), draws.pooled([one, other] * 3)
    assert few.value[-1] == many.value[-1] == pytest.approx((one.value[-1] + other.value[-1]) / 2)
    narrow, wide = (interval(each.draws[:, -1]) for each in (few, many))
    # Two seeds say too little about others; from five on they are drawn with the words.
    assert narrow[1] - narrow[0] < high - low < wide[1] - wide[0]
    assert interval(np.array([np.nan])) != interval(np.array([1.0]))
