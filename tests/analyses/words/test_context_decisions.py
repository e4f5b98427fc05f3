"""At least half of the contexts, and F1 over the grid of decisions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, recall_score

from lamina.analyses.words.contextualize.scores import DecisionGrid, WordBootstrap, at_least_half, by_word
from lamina.analyses.words.occurrences import find_words
from lamina.stats.intervals import interval
from lamina.testing import TinyEncoder
from tests.analyses.words.conftest import corpus_of, sentences

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


@settings(max_examples=20, deadline=None)
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
