"""Which targets are ambiguous, and what is shown of them."""

from __future__ import annotations

import numpy as np
import pytest

from lamina.analyses.layers.probe.predictions import TaskBeliefs, ambiguous_targets, trace_rows, traces_across

LABELS = ("A", "B", "C")
WORDS = np.array([[[0, 2], [3, 4]]])


def test_the_rule_is_about_the_best_labels_mean_over_layers() -> None:
    # Means of the best labels: 0.7, and 0.75 although no layer agrees with the other.
    told = np.array([[[0.9, 0.1], [1.0, 0.5]], [[0.5, 0.1], [0.5, 0.5]]])

    assert ambiguous_targets(told).tolist() == [True, False]


def beliefs(task: str, text: list[int], unsure: list[bool], seeds: int = 1) -> TaskBeliefs:
    """Targets of these texts; those that are unsure say .5 and .4 at every layer."""
    told = np.array([[0.5, 0.4] if each else [0.9, 0.1] for each in unsure])
    spans = np.tile([[[0, 1]]], (len(text), 1, 1))
    gold, rated = np.tile([True, False], (len(text), 1)), np.ones((len(text), 2), bool)
    by_seed = {seed: np.stack([told] * 3) for seed in range(seeds)}
    return TaskBeliefs(task, ["A", "B"], np.array(text), spans, gold, rated, by_seed)


def chosen(tasks: list[TaskBeliefs], lengths: list[int], most: int = 8) -> list[str]:
    rows = traces_across(tasks, [(f"s{at}", ["word"] * length) for at, length in enumerate(lengths)], most)
    return list(dict.fromkeys(row.text_id for row in rows))


def test_a_text_of_one_task_needs_two_ambiguous_targets_and_long_ones_come_last() -> None:
    pos = beliefs("pos", [0, 1, 1, 2, 2, 2, 3, 3], [True, True, True, True, True, True, True, False])

    assert chosen([pos], [5, 5, 60, 5]) == ["s1", "s2"]
    assert chosen([pos], [5, 5, 5, 5]) == ["s2", "s1"]
    assert chosen([pos], [5, 5, 5, 5], most=1) == ["s2"]


def test_texts_in_which_several_tasks_are_in_doubt_come_first() -> None:
    pos = beliefs("pos", [0, 0, 0, 1, 2], [True] * 5)
    dep = beliefs("dep", [1, 2, 2, 3], [True, True, True, True])

    # One target of each task is enough; of two such texts, the one with more targets is first; s3 has one target.
    assert chosen([pos, dep], [5, 5, 5, 5]) == ["s2", "s1", "s0"]
    assert chosen([pos, dep], [5, 5, 60, 5]) == ["s1", "s0", "s2"]


def test_a_task_that_no_chosen_text_shows_adds_one() -> None:
    pos, dep = beliefs("pos", [0, 0, 0], [True] * 3), beliefs("dep", [1, 1, 2, 2], [True] * 4)

    assert chosen([pos, dep], [5, 5, 5], most=1) == ["s0", "s1"]


def test_only_ambiguous_targets_are_shown_of_every_seed() -> None:
    pos = beliefs("pos", [0, 0, 0], [True, False, True], seeds=2)
    rows = traces_across([pos, beliefs("dep", [0], [False])], [("s0", ["a", "b"])])

    assert {(row.task, row.seed) for row in rows} == {("pos", 0), ("pos", 1)}
    # Two targets, two labels, three layers, two seeds.
    assert len(rows) == 24


def test_without_doubt_or_tasks_there_is_nothing_to_show() -> None:
    assert traces_across([], [("s0", ["a"])]) == []
    assert traces_across([beliefs("pos", [0, 0], [False, False])], [("s0", ["a", "b"])]) == []


def test_gold_labels_and_the_strongest_wrong_one_are_shown() -> None:
    told = np.array([[[0.1, 0.9, 0.3]], [[0.3, 0.1, 0.4]]], np.float16)
    rows = trace_rows("dep", "s1", WORDS, told, LABELS, np.array([[True, False, False]]), 1)

    assert [(row.label, row.gold, row.layer) for row in rows] == [
        ("A", True, 0),
        ("A", True, 1),
        ("B", False, 0),
        ("B", False, 1),
    ]
    assert {(row.text_id, row.task, row.seed, row.span1, row.span2) for row in rows} == {("s1", "dep", 1, "0:2", "3:4")}
    assert [row.probability for row in rows] == pytest.approx([0.1, 0.3, 0.9, 0.1], abs=1e-3)


def test_a_label_nobody_rated_is_not_called_wrong() -> None:
    told = np.array([[[0.1, 0.9, 0.3]]])
    gold, rated = np.array([[True, False, False]]), np.array([[True, False, True]])

    assert [row.label for row in trace_rows("spr", "s1", WORDS, told, LABELS, gold, 0, rated=rated)] == ["A", "C"]


def test_without_gold_labels_the_two_strongest_are_shown() -> None:
    told = np.array([[[0.1, 0.9, 0.3]]])
    rows = trace_rows("pos", "typed", WORDS[:, :1], told, LABELS, None, 0)

    assert [(row.label, row.gold, row.span2) for row in rows] == [("B", None, ""), ("C", None, "")]
