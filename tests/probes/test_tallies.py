"""Scores from tallies against scikit-learn and scipy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr
from sklearn.metrics import accuracy_score, f1_score, r2_score

from lamina.probes.bank import DecisionTally, constant_tally
from lamina.probes.streams import ProbeTargets
from lamina.tasks.task import Metric

MEMBERS, TEXTS = 3, 7


def make(
    rng: np.random.Generator, rows: int, labels: tuple[str, ...], unscored: set[str], missing: float
) -> ProbeTargets:
    """Random targets; some decisions not rated, some gold labels without a column."""
    gold = rng.random((rows, len(labels))) < 0.4
    rated = rng.random(gold.shape) >= missing
    gold &= rated
    scored = rated & np.array([label not in unscored for label in labels])
    nothing = np.zeros((rows, 1, 2), np.int64)
    text, unseen = rng.integers(0, TEXTS, rows), rng.random((rows, 2)) < 0.1
    return ProbeTargets(labels, text, nothing, nothing, gold, rated, scored, unseen, TEXTS, ("new", "newer"))


def single(rng: np.random.Generator, rows: int) -> ProbeTargets:
    """One label per target, for some of them one that training never saw."""
    targets = make(rng, rows, ("a", "b", "c"), set(), 0.0)
    unseen = np.zeros((rows, 2), bool)
    unseen[rng.random(rows) < 0.15, 0] = True
    gold = np.eye(3, dtype=bool)[rng.integers(0, 3, rows)] & ~unseen.any(1, keepdims=True)
    return replace(targets, gold=gold, unseen=unseen)


def graded(rng: np.random.Generator, rows: int) -> ProbeTargets:
    targets = make(rng, rows, ("value",), set(), 0.0)
    return replace(targets, unseen=np.zeros((rows, 0), bool), unseen_labels=(), values=rng.normal(1, 2, rows))


def by_sklearn(targets: ProbeTargets, told: np.ndarray, rows: np.ndarray) -> float:
    """Binary decisions one after another; every unseen gold label is one more that nobody said."""
    mask = targets.scored[rows]
    missed = int(targets.unseen[rows].sum())
    true = np.concatenate([targets.gold[rows][mask], np.ones(missed, bool)])
    said = np.concatenate([(told >= 0)[rows][mask], np.zeros(missed, bool)])
    return float(f1_score(true, said, average="binary", zero_division=0.0))


def by_sklearn_macro(targets: ProbeTargets, told: np.ndarray, rows: np.ndarray) -> float:
    """What is not scored is neither gold nor said; unseen labels are columns that nobody says."""
    true = np.concatenate([targets.gold[rows] & targets.scored[rows], targets.unseen[rows]], axis=1)
    said = np.concatenate([(told >= 0)[rows] & targets.scored[rows], np.zeros_like(targets.unseen[rows])], axis=1)
    present = np.flatnonzero(true.any(0))
    return float(f1_score(true, said, labels=present, average="macro", zero_division=0))


def by_sklearn_accuracy(targets: ProbeTargets, told: np.ndarray, rows: np.ndarray) -> float:
    """An unseen label has a number that no probe can answer."""
    true = np.where(targets.unseen[rows].any(1), -1, targets.gold[rows].argmax(1))
    return float(accuracy_score(true, told[rows].argmax(1)))


def by_sklearn_r2(targets: ProbeTargets, told: np.ndarray, rows: np.ndarray) -> float:
    assert targets.values is not None
    return float(r2_score(targets.values[rows], told[rows, 0]))


def by_scipy(targets: ProbeTargets, told: np.ndarray, rows: np.ndarray) -> float:
    assert targets.values is not None
    return float(pearsonr(targets.values[rows], told[rows, 0]).statistic)


REFERENCES = {
    "f1": (lambda rng: make(rng, 40, ("a", "b", "c"), {"c"}, 0.1), by_sklearn),
    "macro_f1": (lambda rng: make(rng, 40, ("a", "b", "c"), {"c"}, 0.1), by_sklearn_macro),
    "accuracy": (lambda rng: single(rng, 40), by_sklearn_accuracy),
    "r2": (lambda rng: graded(rng, 40), by_sklearn_r2),
    "correlation": (lambda rng: graded(rng, 40), by_scipy),
}
"""Metric -> targets to score, and who else scores them."""


def tell(rng: np.random.Generator, targets: ProbeTargets) -> np.ndarray:
    """Random logits, or values that have something of the gold ones."""
    told = rng.normal(size=(MEMBERS, *targets.gold.shape))
    if targets.values is not None:
        told += np.arange(MEMBERS)[:, None, None] * targets.values[:, None]
    return told


def tally(metric: Metric, targets: ProbeTargets, told: np.ndarray, batches: int) -> DecisionTally:
    counted = DecisionTally.none(metric, len(told), targets)
    for rows in np.array_split(np.arange(len(targets)), batches):
        counted.add(torch.from_numpy(told[:, rows]), targets, rows)
    return counted


@pytest.mark.parametrize("metric", REFERENCES)
def test_a_score_is_that_of_scikit_learn_or_scipy_whatever_the_batches(metric):
    made, reference = REFERENCES[metric]
    rng = np.random.default_rng(3)
    targets = made(rng)
    told = tell(rng, targets)

    expected = [reference(targets, each, np.arange(len(targets))) for each in told]
    assert len(set(expected)) == MEMBERS
    for batches in (1, 4):
        assert tally(metric, targets, told, batches).value() == pytest.approx(expected)


@pytest.mark.parametrize("metric", REFERENCES)
@given(drawn=st.lists(st.integers(0, TEXTS - 1), min_size=2, max_size=12))
def test_weighted_texts_score_what_the_resampled_targets_score(metric, drawn):
    made, reference = REFERENCES[metric]
    rng = np.random.default_rng(11)
    targets = made(rng)
    told = tell(rng, targets)
    counted = tally(metric, targets, told, 3)
    weights = np.bincount(drawn, minlength=TEXTS)[None].astype(float)

    rows = np.concatenate([np.flatnonzero(targets.text == text) for text in drawn])
    expected = [[reference(targets, each, rows) for each in told]]
    np.testing.assert_allclose(counted.value(weights), expected, rtol=1e-6)
    some = counted.touched()
    np.testing.assert_allclose(counted.among(some).value(weights[:, some]), expected, rtol=1e-6)


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
def test_micro_f1_of_the_kinds_of_tasks_is_sklearn_s(labels, unscored, missing):
    rng = np.random.default_rng(3)
    targets = make(rng, 50, labels, unscored, missing)
    told = tell(rng, targets)

    expected = [by_sklearn(targets, each, np.arange(len(targets))) for each in told]
    assert tally("f1", targets, told, 4).value() == pytest.approx(expected)


def test_coreference_is_the_f1_of_label_1_and_rel_leaves_other_out():
    rng = np.random.default_rng(5)
    for labels, asked in ((("0", "1"), [1]), (("Cause", "Other", "Part"), [0, 2])):
        unscored = set(labels) - {labels[at] for at in asked}
        targets = make(rng, 60, labels, unscored, 0.0)
        targets.unseen[:] = 0
        told = tell(rng, targets)
        expected = [f1_score(targets.gold, each >= 0, labels=asked, average="micro") for each in told]
        assert tally("f1", targets, told, 3).value() == pytest.approx(expected)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_macro_f1_is_sklearn_s_with_labels_that_nobody_has(missing):
    rng = np.random.default_rng(13)
    targets = make(rng, 50, ("a", "b", "c", "never", "d"), {"c"}, missing)
    targets.gold[:, 3] = False
    told = tell(rng, targets)

    expected = [by_sklearn_macro(targets, each, np.arange(len(targets))) for each in told]
    assert tally("macro_f1", targets, told, 4).value() == pytest.approx(expected)
    assert tally("f1", targets, told, 4).value() != pytest.approx(expected)


def test_a_label_that_training_never_saw_is_an_error_by_every_metric():
    rng = np.random.default_rng(19)
    targets = single(rng, 60)
    assert 0 < targets.unseen.sum() < 30
    right = np.where(targets.gold, 3.0, -3.0)[None]

    missed = targets.unseen.any(1).mean()
    assert tally("accuracy", targets, right, 2).value() == pytest.approx(1 - missed)
    found = 1 - missed
    assert tally("f1", targets, right, 2).value() == pytest.approx(2 * found / (found + 1))
    # Three labels are told, the unseen one never is.
    assert tally("macro_f1", targets, right, 2).value() == pytest.approx(3 / 4)


def test_a_constant_scores_what_saying_it_of_everything_scores():
    rng = np.random.default_rng(23)
    targets = make(rng, 40, ("a", "b", "c"), {"c"}, 0.1)
    answer = np.array([True, False, True])
    everywhere = np.broadcast_to(np.where(answer, 1.0, -1.0), targets.gold.shape)
    for metric, reference in (("f1", by_sklearn), ("macro_f1", by_sklearn_macro)):
        expected = reference(targets, everywhere, np.arange(len(targets)))
        assert constant_tally(metric, answer, targets).value() == pytest.approx([expected])

    values = graded(rng, 40)
    assert values.values is not None
    assert constant_tally("r2", float(values.values.mean()), values).value() == pytest.approx([0.0], abs=1e-9)
    assert np.isnan(constant_tally("correlation", 1.0, values).value())


def test_texts_without_targets_are_not_touched():
    rng = np.random.default_rng(29)
    for metric, (made, _) in REFERENCES.items():
        targets = made(rng)
        some = targets.among([1, 4])
        counted = tally(metric, some, tell(rng, some), 2)

        assert counted.touched().tolist() == [1, 4], metric
        np.testing.assert_allclose(counted.among(counted.touched()).value(), counted.value())


def test_nothing_to_score_has_a_score_of_0_or_none():
    rng = np.random.default_rng(31)
    targets, values = make(rng, 5, ("a", "b"), set(), 0.0), graded(rng, 5)

    for metric in ("f1", "macro_f1", "accuracy"):
        assert DecisionTally.none(metric, 2, targets).value().tolist() == [0.0, 0.0]
    for metric in ("r2", "correlation"):
        assert np.isnan(DecisionTally.none(metric, 2, values).value()).all()
    same = replace(values, values=np.full(5, 2.5))
    assert np.isnan(tally("r2", same, tell(rng, same), 1).value()).all(), "all gold values are equal"


def test_only_graded_targets_have_values():
    targets = make(np.random.default_rng(0), 5, ("a",), set(), 0.0)
    with pytest.raises(ValueError, match="only graded targets"):
        tally("r2", targets, np.zeros((1, 5, 1)), 1)
