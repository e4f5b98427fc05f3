"""Which targets are ambiguous, and what is shown of them."""

from __future__ import annotations

import numpy as np
import pytest

from lamina.analyses.probing.trace import ambiguous_targets, ambiguous_texts, trace_rows

LABELS = ("A", "B", "C")
WORDS = np.array([[[0, 2], [3, 4]]])


def test_the_rule_is_about_the_best_labels_mean_over_layers() -> None:
    # Means of the best labels: 0.7, and 0.75 although no layer agrees with the other.
    told = np.array([[[0.9, 0.1], [1.0, 0.5]], [[0.5, 0.1], [0.5, 0.5]]])

    assert ambiguous_targets(told).tolist() == [True, False]


def test_a_text_needs_two_ambiguous_targets_and_long_ones_come_last() -> None:
    text = np.array([0, 1, 1, 2, 2, 2, 3, 3])
    ambiguous = np.array([True, True, True, True, True, True, True, False])

    assert ambiguous_texts(text, ambiguous, [5, 5, 60, 5]) == [1, 2]
    assert ambiguous_texts(text, ambiguous, [5, 5, 5, 5]) == [2, 1]
    assert ambiguous_texts(text, ambiguous, [5, 5, 5, 5], most=1) == [2]


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
