"""Scores from counts against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from lamina.probes.targets import Counts, Targets, count_decisions
from lamina.tasks.task import Average

MEMBERS, TEXTS = 3, 7


def make(rng: np.random.Generator, rows: int, labels: tuple[str, ...], unscored: set[str], missing: float) -> Targets:
    """Random targets; some decisions not rated, some gold labels without a column."""
    gold = rng.random((rows, len(labels))) < 0.4
    rated = rng.random(gold.shape) >= missing
    gold &= rated
    scored = rated & np.array([label not in unscored for label in labels])
    nothing = np.zeros((rows, 1, 2), np.int64)
    text, unseen = rng.integers(0, TEXTS, rows), rng.random((rows, 2)) < 0.1
    return Targets(labels, text, nothing, nothing, gold, rated, scored, unseen, TEXTS, ("new", "newer"))


def by_sklearn(targets: Targets, decided: np.ndarray, rows: np.ndarray) -> float:
    """Binary decisions one after another; every unseen gold label is one more that nobody said."""
    mask = targets.scored[rows]
    missed = int(targets.unseen[rows].sum())
    true = np.concatenate([targets.gold[rows][mask], np.ones(missed, bool)])
    said = np.concatenate([decided[rows][mask], np.zeros(missed, bool)])
    return float(f1_score(true, said, average="binary", zero_division=0.0))


def by_sklearn_macro(targets: Targets, decided: np.ndarray, rows: np.ndarray) -> float:
    """What is not scored is neither gold nor said; unseen labels are columns that nobody says."""
    true = np.concatenate([targets.gold[rows] & targets.scored[rows], targets.unseen[rows]], axis=1)
    said = np.concatenate([decided[rows] & targets.scored[rows], np.zeros_like(targets.unseen[rows])], axis=1)
    present = np.flatnonzero(true.any(0))
    return float(f1_score(true, said, labels=present, average="macro", zero_division=0))


def count(targets: Targets, decided: np.ndarray, batches: int, average: Average = "micro") -> Counts:
    counts = Counts.for_average(average, MEMBERS, targets)
    for rows in np.array_split(np.arange(len(targets)), batches):
        count_decisions(counts, torch.from_numpy(decided[:, rows]), targets, rows)
    return counts


@pytest.mark.parametrize(
    ("labels", "unscored", "missing"),
    [
        (("NOUN", "VERB", "ADJ", "ADV"), set(), 0.0),
        (("0", "1"), {"0"}, 0.0),
        (("Cause", "Other", "Part"), {"Other"}, 0.0),
        (("aware", "moved", "existed"), set(), 0.3),
    ],
    ids=["pos", "coref", "rel", "spr"],
)
def test_micro_f1_is_sklearn_s(labels, unscored, missing):
    rng = np.random.default_rng(3)
    targets = make(rng, 50, labels, unscored, missing)
    decided = rng.random((MEMBERS, *targets.gold.shape)) < 0.5

    counts = count(targets, decided, batches=4)

    everything = np.arange(len(targets))
    assert counts.f1() == pytest.approx([by_sklearn(targets, each, everything) for each in decided])
    assert count(targets, decided, 1).f1().tolist() == counts.f1().tolist()


def test_coreference_is_the_f1_of_label_1_and_rel_leaves_other_out():
    rng = np.random.default_rng(5)
    for labels, asked in ((("0", "1"), [1]), (("Cause", "Other", "Part"), [0, 2])):
        unscored = set(labels) - {labels[at] for at in asked}
        targets = make(rng, 60, labels, unscored, 0.0)
        targets.unseen[:] = 0
        decided = rng.random((MEMBERS, *targets.gold.shape)) < 0.5
        expected = [f1_score(targets.gold, each, labels=asked, average="micro") for each in decided]
        assert count(targets, decided, 3).f1() == pytest.approx(expected)


def test_multi_label_micro_f1_without_masks():
    rng = np.random.default_rng(7)
    targets = make(rng, 60, ("a", "b", "c"), set(), 0.0)
    targets.unseen[:] = 0
    decided = rng.random((MEMBERS, *targets.gold.shape)) < 0.5

    expected = [f1_score(targets.gold, each, average="micro") for each in decided]
    assert count(targets, decided, 2).f1() == pytest.approx(expected)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_macro_f1_is_sklearn_s(missing):
    rng = np.random.default_rng(13)
    targets = make(rng, 50, ("a", "b", "c", "never", "d"), {"c"}, missing)
    targets.gold[:, 3] = False
    decided = rng.random((MEMBERS, *targets.gold.shape)) < 0.5

    counts = count(targets, decided, batches=4, average="macro")

    expected = [by_sklearn_macro(targets, each, np.arange(len(targets))) for each in decided]
    assert counts.f1() == pytest.approx(expected)
    assert count(targets, decided, 4).f1() != pytest.approx(expected)


@given(st.lists(st.integers(0, TEXTS - 1), min_size=1, max_size=12))
@settings(max_examples=50, deadline=None)
def test_weighted_macro_f1_is_that_of_the_resampled_texts(drawn):
    rng = np.random.default_rng(17)
    targets = make(rng, 40, ("a", "b", "c"), {"c"}, 0.1)
    decided = rng.random((MEMBERS, *targets.gold.shape)) < 0.5
    counts = count(targets, decided, 3, "macro")
    weights = np.bincount(drawn, minlength=TEXTS)[None].astype(float)

    rows = np.concatenate([np.flatnonzero(targets.text == text) for text in drawn])
    expected = [by_sklearn_macro(targets, each, rows) for each in decided]
    np.testing.assert_allclose(counts.f1(weights), [expected])
    some = counts.touched()
    np.testing.assert_allclose(counts.among(some).f1(weights[:, some]), [expected])


@given(st.lists(st.integers(0, TEXTS - 1), min_size=1, max_size=12))
@settings(max_examples=50, deadline=None)
def test_weighted_f1_is_that_of_the_resampled_texts(drawn):
    rng = np.random.default_rng(11)
    targets = make(rng, 40, ("a", "b", "c"), {"c"}, 0.1)
    decided = rng.random((MEMBERS, *targets.gold.shape)) < 0.5
    weights = np.bincount(drawn, minlength=TEXTS)[None].astype(float)

    rows = np.concatenate([np.flatnonzero(targets.text == text) for text in drawn])
    expected = [by_sklearn(targets, each, rows) for each in decided]
    np.testing.assert_allclose(count(targets, decided, 3).f1(weights), [expected])


def test_nothing_said_and_nothing_gold_is_0():
    assert Counts.none(2, 3).f1().tolist() == [0.0, 0.0]
