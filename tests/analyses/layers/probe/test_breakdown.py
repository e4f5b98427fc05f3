"""Scores of parts of the targets, against scikit-learn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import f1_score

from lamina.analyses.layers.probe.statistics import Resampling
from lamina.analyses.layers.probe.tables import break_down
from lamina.analyses.layers.probe.training import ProbeOutcome, TaskRun
from lamina.probes.bank import DecisionTally, LearningRecord
from lamina.probes.edge import LayerCut
from lamina.probes.streams import ProbeTargets
from lamina.tasks import Task, get_task

TEXTS, SIZE = 6, 60
LABELS = ("A", "B", "C")


def targets(seed: int = 0, unseen: tuple[str, ...] = ()) -> ProbeTargets:
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 30, (SIZE, 2))
    spans = np.stack([start, start + 1], -1)
    gold = rng.random((SIZE, 3)) < 0.4
    rated = rng.random((SIZE, 3)) < 0.8
    unseen_labels = tuple(sorted(set(unseen)))
    missed = np.zeros((SIZE, len(unseen_labels)), bool)
    missed[range(len(unseen)), [unseen_labels.index(label) for label in unseen]] = True
    text = np.sort(rng.integers(0, TEXTS, SIZE))
    return ProbeTargets(LABELS, text, spans, spans, gold & rated, rated, rated, missed, TEXTS, unseen_labels)


def run(asked: ProbeTargets, seeds: int = 2) -> TaskRun:
    rng = np.random.default_rng(1)
    cuts = (LayerCut("cumulative", 0), LayerCut("cumulative", 1))
    told = [rng.random((2, SIZE, 3)).astype(np.float16) for _ in range(seeds)]
    none = DecisionTally.none("f1", 2, asked)
    learned = LearningRecord(
        np.zeros(2), np.ones(2, int), np.ones(2, int), np.zeros(2), np.ones(2, bool), np.zeros(2, bool), np.ones(2)
    )
    outcomes = (
        ProbeOutcome("model", seed, cuts, {"f1": none}, none, learned, np.eye(2), np.ones(2), each)
        for seed, each in enumerate(told)
    )
    constant = {"f1": DecisionTally.none("f1", 1, asked)}
    return TaskRun(get_task("dep"), asked, tuple(outcomes), constant, constant, np.ones(SIZE, bool), np.ones(2))


def parts(asked: TaskRun, frequency: np.ndarray) -> dict:
    rows = break_down(asked, frequency, Resampling(TEXTS, 50, 0), 0)
    return {(row.by, row.group, row.layer): row for row in rows}


def expected(asked: TaskRun, layer: int, rows: np.ndarray) -> float:
    """By scikit-learn: every decision that counts is one binary prediction; unseen labels are missed ones."""
    scored = asked.targets.scored[rows]
    gold = asked.targets.gold[rows][scored]
    missed = np.ones(asked.targets.unseen[rows].sum(), bool)
    values = []
    for outcome in asked.outcomes:
        assert outcome.probabilities is not None
        said = (outcome.probabilities[layer, rows] >= 0.5)[scored]
        values.append(f1_score(np.concatenate([gold, missed]), np.concatenate([said, ~missed])))
    return float(np.mean(values))


def test_parts_by_target_agree_with_scikit_learn() -> None:
    asked = run(targets(unseen=("X",) * 5))
    frequency = np.random.default_rng(2).choice([0, 1, 4, 5, 19, 20, 99, 100, 1000], SIZE)
    words = asked.targets.words
    between = np.maximum(np.abs(words[:, 0, 0] - words[:, 1, 0]) - 1, 0)
    found = parts(asked, frequency)

    for layer in (0, 1):
        for by, group, rows in [
            ("frequency", "0", frequency == 0),
            ("frequency", "1-4", (frequency >= 1) & (frequency <= 4)),
            ("frequency", "100+", frequency >= 100),
            ("seen", "unseen", frequency == 0),
            ("seen", "seen", frequency > 0),
            ("distance", "0", between == 0),
            ("distance", "3-5", (between >= 3) & (between <= 5)),
            ("distance", ">10", between > 10),
        ]:
            part = found[by, group, layer]
            assert part.count == rows.sum() > 0
            assert part.value == pytest.approx(expected(asked, layer, np.flatnonzero(rows))), (by, group)
            assert part.low <= part.high


def test_every_target_is_in_one_part() -> None:
    found = parts(run(targets()), np.arange(SIZE) * 3)

    for by in ("distance", "frequency", "seen"):
        assert sum(part.count for key, part in found.items() if key[0] == by and key[2] == 0) == SIZE


def test_labels_and_their_mean_agree_with_scikit_learn() -> None:
    asked = run(targets())
    found = parts(asked, np.ones(SIZE, int))
    by_label = []
    for column, label in enumerate(LABELS):
        alone = replace(asked, targets=_only(asked.targets, column))
        by_label.append(expected(alone, 1, np.arange(SIZE)))
        assert found["label", label, 1].value == pytest.approx(by_label[-1])
        assert found["label", label, 1].count == asked.targets.gold[:, column].sum()
    assert found["macro", "all", 1].value == pytest.approx(np.mean(by_label))


def _only(asked: ProbeTargets, column: int) -> ProbeTargets:
    scored = np.zeros_like(asked.scored)
    scored[:, column] = asked.scored[:, column]
    return replace(asked, scored=scored)


def test_a_label_that_training_never_saw_is_shown_as_missed() -> None:
    found = parts(run(targets(unseen=("X", "X", "Y"))), np.ones(SIZE, int))

    assert (found["label", "X", 0].count, found["label", "X", 0].value) == (2, 0)
    assert found["label", "Y", 1].count == 1
    labels = [part.value for key, part in found.items() if key[0] == "label" and key[2] == 0]
    assert found["macro", "all", 0].value == pytest.approx(np.mean(labels))


def test_without_cumulative_probes_or_labels_there_is_nothing_to_break_down() -> None:
    asked = run(targets())
    unsaid = replace(asked, outcomes=tuple(replace(each, predicted=None) for each in asked.outcomes))
    single = tuple(replace(each, weights=np.ones((0, 2)), gamma=np.ones(0)) for each in asked.outcomes)
    graded = replace(asked, task=Task("mood", "Mood", "mood", 2, graded=True))

    for bare in (unsaid, replace(asked, outcomes=single), graded):
        assert not parts(bare, np.ones(SIZE, int))
