"""Control labels: random, but one a word type, always the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import TaskError
from lamina.tasks import (
    annotation_task,
    control_labels,
    control_task,
    get_task,
    label_set,
    seen_targets,
    share_seen,
)
from lamina.types import Edge, Span, Text

POS = get_task("pos")


def _tagged(words, tags, name="s"):
    edges = tuple(Edge((tag,), Span(i, i + 1)) for i, tag in enumerate(tags))
    return Text(name, tuple(words), edges={"pos": edges})


@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("XYZ")), min_size=1, max_size=30),
    st.integers(0, 5),
    st.randoms(use_true_random=False),
)
def test_one_label_a_word_type_whatever_the_order(pairs, seed, random):
    texts = [_tagged([word], [tag], str(i)) for i, (word, tag) in enumerate(pairs)]
    shuffled = random.sample(texts, len(texts))
    one, other = control_task(POS, texts, seed), control_task(POS, shuffled, seed)
    given_labels: dict[str, set] = {}
    for text in texts:
        assert one.targets(text) == other.targets(text)
        given_labels.setdefault(text.words[0], set()).add(one.targets(text)[0].labels)
    assert all(len(labels) == 1 for labels in given_labels.values())
    assert set(label_set(one, texts)) <= set(label_set(POS, texts))


def test_labels_follow_the_training_distribution_and_the_seed():
    train = [_tagged(["x"] * 10, ["NOUN"] * 7 + ["VERB"] * 3)]
    words = [f"w{i}" for i in range(4000)]
    scored = _tagged(words, ["?"] * len(words))
    drawn = {seed: [e.labels[0] for e in control_task(POS, train, seed).targets(scored)] for seed in (0, 1)}
    assert Counter(drawn[0])["NOUN"] / len(words) == pytest.approx(0.7, abs=0.03)
    agreement = sum(a == b for a, b in zip(drawn[0], drawn[1], strict=True)) / len(words)
    assert agreement == pytest.approx(0.7**2 + 0.3**2, abs=0.03)


def test_the_words_of_both_spans_are_the_key():
    task = get_task("srl")
    edges = tuple(Edge((f"ARG{i}",), Span(i, i + 1), Span(4, 6)) for i in range(4))
    text = Text("s", ("a", "b", "a", "c", "x", "y"), edges={"srl": edges})
    labels = control_labels(task, [text], seed=3)
    assert labels(text, edges[0]) == labels(text, edges[2])
    assert share_seen(task, [text], [text]) == (1.0, 1.0)


def test_several_labels_and_masks_stay_as_in_the_task():
    task = get_task("spr")
    kinds = [("volition", "awareness"), ("time",)]
    edges = tuple(
        Edge(kinds[i % 2] if i % 3 else (), Span(i, i + 1), Span(0, 1), rated=kinds[i % 2]) for i in range(12)
    )
    text = Text("s", tuple(f"w{i}" for i in range(12)), edges={"spr": edges})
    targets = control_task(task, [text], seed=0).targets(text)
    assert [target.rated for target in targets] == [edge.rated for edge in edges]
    assert all(target.labels in ((), target.rated) for target in targets)
    unseen = Edge((), Span(0, 1), Span(1, 2), rated=("purpose", "time"))
    assert set(control_labels(task, [text], seed=0)(text, unseen)) <= {"time"}


def test_the_control_keeps_the_tasks_filters_and_metric():
    dep = get_task("dep")
    edges = (Edge(("root",), Span(0, 1), Span(0, 1)), Edge(("obj",), Span(1, 2), Span(0, 1)))
    text = Text("s", ("see", "dogs"), edges={"dep": edges})
    control = control_task(dep, [text], seed=0)
    assert [target.labels for target in control.targets(text)] == [("obj",)]
    assert (control.name, control.metric, control.arity) == ("dep (control)", dep.metric, 2)
    assert control.targets(Text("other", ("x",))) == ()


@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from([-1.0, 0.5, 2.0])), min_size=1, max_size=30),
    st.integers(0, 5),
    st.randoms(use_true_random=False),
)
def test_control_values_are_one_a_word_type_and_of_those_in_training(pairs, seed, random):
    texts = [
        Text(str(number), (word,), edges={"mood": (Edge((), Span(0, 1), value=value),)})
        for number, (word, value) in enumerate(pairs)
    ]
    task = annotation_task("mood", texts)
    one = control_task(task, texts, seed)
    other = control_task(task, random.sample(texts, len(texts)), seed)
    given_values: dict[str, set] = {}
    for text in texts:
        assert one.targets(text) == other.targets(text)
        given_values.setdefault(text.words[0], set()).add(one.targets(text)[0].value)
    assert all(len(values) == 1 for values in given_values.values())
    assert set().union(*given_values.values()) <= {value for _, value in pairs}
    assert (one.graded, one.metric) == (True, "r2")


def test_control_values_follow_the_training_distribution():
    train = [
        Text(str(at), ("x",), edges={"mood": (Edge((), Span(0, 1), value=1.0 if at < 7 else 3.0),)}) for at in range(10)
    ]
    edges = tuple(Edge((), Span(at, at + 1), value=0.0) for at in range(4000))
    scored = Text("s", tuple(f"w{at}" for at in range(4000)), edges={"mood": edges})
    drawn = [edge.value for edge in control_task(annotation_task("mood", train), train, 0).targets(scored)]
    assert Counter(drawn)[1.0] / len(drawn) == pytest.approx(0.7, abs=0.03)
    assert set(drawn) == {1.0, 3.0}


def test_seen_targets_are_those_whose_words_training_has_in_the_same_roles():
    dep = get_task("dep")

    def text(*pairs):
        words = tuple(word for pair in pairs for word in pair)
        edges = tuple(Edge(("x",), Span(2 * at, 2 * at + 1), Span(2 * at + 1, 2 * at + 2)) for at in range(len(pairs)))
        return Text("s", words, edges={"dep": edges})

    train, scored = text("ab", "cd"), text("ab", "ba", "ad", "Ab", "cd")
    expected = [True, False, False, False, True]
    assert seen_targets(dep, [train], [scored, Text("none", ("x",)), train]) == [*expected, True, True]
    assert seen_targets(dep, [], [scored]) == [False] * 5
    assert share_seen(dep, [train], [scored]).targets == pytest.approx(2 / 5)


def test_share_seen_counts_targets_and_keys():
    train = [_tagged("ab", "XX")]
    assert share_seen(POS, train, [_tagged("aaac", "XXXX")]) == (0.75, 0.5)


def test_nothing_to_draw_from_or_to_score_is_said():
    with pytest.raises(TaskError, match="no target to draw"):
        control_labels(POS, [], seed=0)
    with pytest.raises(TaskError, match="no target to draw control values"):
        control_task(replace(POS, graded=True), [], seed=0)
    with pytest.raises(TaskError, match="nothing to score"):
        share_seen(POS, [], [])
