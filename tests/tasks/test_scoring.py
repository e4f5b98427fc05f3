"""Micro-F1 and the constant baseline, against scikit-learn and brute force."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from lamina.errors import TaskError
from lamina.tasks import (
    Task,
    best_constant,
    constant_baseline,
    decisions,
    get_task,
    label_set,
    micro_f1,
    score_constant,
)
from lamina.types import Edge, Span, Text

LABELS = ("a", "b", "c", "d")
TASK = Task("toy", "Toy", "toy", 1, "micro-F1 over all labels but d", "anything", unscored=frozenset({"d"}))


@st.composite
def _corpora(draw):
    """Texts of one word, with random labels among random ratings."""
    texts = []
    for number in range(draw(st.integers(1, 12))):
        rated = draw(st.none() | st.sets(st.sampled_from(LABELS)))
        labels = draw(st.sets(st.sampled_from(LABELS if rated is None else sorted(rated) or LABELS)))
        if rated is not None:
            labels &= rated
        edge = Edge(tuple(sorted(labels)), Span(0, 1), rated=None if rated is None else tuple(sorted(rated)))
        texts.append(Text(str(number), ("w",), edges={"toy": (edge,)}))
    return texts


def _targets(texts):
    return [edge for text in texts for edge in TASK.targets(text)]


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 5))
def test_micro_f1_is_that_of_scikit_learn(seed, targets, labels):
    random = np.random.default_rng(seed)
    gold, predicted, mask = random.random((3, targets, labels)) < 0.5
    assert micro_f1(gold, predicted) == pytest.approx(f1_score(gold.ravel(), predicted.ravel(), zero_division=0))
    expected = f1_score(gold[mask], predicted[mask], zero_division=0) if mask.any() else 0.0
    assert micro_f1(gold, predicted, mask) == pytest.approx(expected)


def test_micro_f1_is_scikit_learns_multi_label_average():
    random = np.random.default_rng(0)
    gold, predicted = random.random((2, 40, 6)) < 0.3
    assert micro_f1(gold, predicted) == pytest.approx(f1_score(gold, predicted, average="micro"))


def test_excluded_labels_and_unrated_decisions_do_not_count():
    targets = [Edge(("a", "d"), Span(0, 1), rated=("a", "d", "zz")), Edge(("b",), Span(0, 1))]
    gold, mask = decisions(TASK, targets, LABELS)
    assert gold.tolist() == [[True, False, False, True], [False, True, False, False]]
    assert mask.tolist() == [[True, False, False, False], [True, True, True, False]]
    assert micro_f1(gold, np.ones_like(gold), mask) == pytest.approx(2 * 2 / (2 + 4))


def test_a_label_outside_the_set_is_refused():
    with pytest.raises(TaskError, match="'b' is not in the label set"):
        decisions(TASK, [Edge(("b",), Span(0, 1))], ("a",))


@given(_corpora())
def test_no_set_of_labels_beats_the_best_constant(texts):
    labels = label_set(TASK, texts)
    gold, mask = decisions(TASK, _targets(texts), labels)
    answers = chain.from_iterable(combinations(range(len(labels)), size) for size in range(len(labels) + 1))

    def brute(answer):
        predicted = np.zeros_like(gold)
        predicted[:, list(answer)] = True
        return micro_f1(gold, predicted, mask)

    best = max(map(brute, answers))
    constant = best_constant(TASK, texts)
    assert score_constant(TASK, constant, texts) == pytest.approx(best)
    assert brute([labels.index(label) for label in constant]) == pytest.approx(best)
    assert "d" not in constant


@given(_corpora())
def test_the_best_constant_under_macro_f1_says_everything(texts):
    macro = TASK.averaged("macro")
    labels = label_set(TASK, texts)
    gold, mask = decisions(TASK, _targets(texts), labels)
    held = (gold & mask).any(0)
    # Decisions that do not count are neither gold nor said.
    expected = [f1_score(true, said) for true, said in zip((gold & mask).T, mask.T, strict=True) if true.any()]
    constant = best_constant(macro, texts)
    assert constant == tuple(label for label, is_held in zip(labels, held, strict=True) if is_held)
    assert score_constant(macro, constant, texts) == pytest.approx(np.mean(expected) if expected else 0.0)
    assert (macro.metric, macro.scoring) == ("macro_f1", "macro-F1 over all labels but d")


def test_a_plain_majority_would_score_nothing_in_relations():
    def related(label):
        return Text(label, ("a", "b"), edges={"rel": (Edge((label,), Span(0, 1), Span(1, 2)),)})

    train = [related("Other")] * 6 + [related("A")] * 3 + [related("B")]
    assert best_constant(get_task("rel"), train) == ("A",)
    # Of two scored targets one is A: 2 * 1 / (2 predicted + 2 gold).
    assert constant_baseline(get_task("rel"), train, [related("A"), related("B")]) == pytest.approx(0.5)
    assert score_constant(get_task("rel"), ("Other",), train) == 0.0


def test_a_graded_task_is_not_scored_by_f1():
    graded = Task("mood", "Mood", "mood", 1, graded=True)
    assert graded.metric == "r2"
    for average in ("micro", "macro"):
        with pytest.raises(TaskError, match=f"mood is graded: it is scored by R2 and correlation, not by {average}-F1"):
            graded.averaged(average)


def test_a_graded_task_has_one_label_and_targets_with_a_value():
    graded = Task("mood", "Mood", "mood", 1, graded=True)
    edges = (Edge(("x",), Span(0, 1), value=1.5), Edge(("y",), Span(0, 1)))
    text = Text("s", ("w",), edges={"mood": edges})
    assert label_set(graded, [text]) == ("value",)
    assert graded.targets(text) == (Edge((), Span(0, 1), value=1.5),)


def test_labels_are_sorted_and_nothing_scores_nothing():
    text = Text("s", ("w",), edges={"toy": (Edge(("c", "a"), Span(0, 1)),)})
    assert label_set(TASK, [text]) == ("a", "c")
    assert best_constant(TASK, []) == ()
    assert score_constant(TASK, (), []) == 0.0
