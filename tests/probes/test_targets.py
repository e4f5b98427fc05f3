"""Targets as arrays: the tokens of exactly their words, labels, and what counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.probes.streams import find_targets
from lamina.tasks import annotation_task, get_task
from lamina.testing import TinyEncoder
from lamina.types import Edge, Span, Text

ENCODER = TinyEncoder()


@st.composite
def spans(draw, size: int) -> Span:
    start = draw(st.integers(0, size - 1))
    return Span(start, draw(st.integers(start + 1, size)))


@st.composite
def annotated_texts(draw) -> list[Text]:
    made = []
    for number in range(draw(st.integers(1, 4))):
        words = tuple(draw(st.lists(st.text("abc", min_size=1, max_size=9), min_size=1, max_size=6)))
        cut = draw(st.integers(1, len(words)))
        segments = (Span(0, cut), Span(cut, len(words))) if cut < len(words) else (Span(0, cut),)
        labels = st.sampled_from(["ARG0", "ARG1", "ARGM-TMP"])
        edges = [
            Edge((draw(labels),), draw(spans(len(words))), draw(spans(len(words))))
            for _ in range(draw(st.integers(0, 4)))
        ]
        made.append(Text(f"t{number}", words, segments, {"srl": tuple(edges)}))
    return made


@given(annotated_texts())
def test_token_ranges_cover_exactly_the_words_tokens(texts):
    tokens = [ENCODER.tokenize(text) for text in texts]
    targets = find_targets(get_task("srl"), texts, tokens, ("ARG0", "ARG1"))

    edges = [(number, edge) for number, text in enumerate(texts) for edge in text.edges["srl"]]
    assert len(targets) == len(edges)
    assert targets.texts == len(texts)
    for row, (number, edge) in enumerate(edges):
        assert edge.other is not None
        assert targets.text[row] == number
        for which, span in enumerate((edge.span, edge.other)):
            start, end = targets.tokens[row, which]
            words = tokens[number].words
            assert set(words[start:end].tolist()) - {-1} == set(span)
            assert words[start] == span.start
            assert words[end - 1] == span.end - 1
            outside = [*words[:start], *words[end:]]
            assert set(outside).isdisjoint(span)
            assert targets.words[row, which].tolist() == [span.start, span.end]
        assert targets.gold[row].tolist() == [edge.labels[0] == label for label in targets.labels]
        assert targets.unseen[row].sum() == (edge.labels[0] not in targets.labels)


@given(annotated_texts(), st.data())
def test_among_takes_the_targets_of_some_texts(texts, data):
    targets = find_targets(get_task("srl"), texts, [ENCODER.tokenize(text) for text in texts], ("ARG0", "ARG1"))
    chosen = data.draw(st.sets(st.integers(0, len(texts) - 1)))
    rest = set(range(len(texts))) - chosen

    some, others = targets.among(chosen), targets.among(rest)

    assert set(some.text.tolist()) <= chosen
    assert len(some) + len(others) == len(targets)
    assert (some.labels, some.texts, some.arity) == (targets.labels, targets.texts, 2)
    for name in ("text", "tokens", "words", "gold", "rated", "scored", "unseen"):
        kept = getattr(targets, name)[np.isin(targets.text, [*chosen])]
        np.testing.assert_array_equal(getattr(some, name), kept)


def test_what_is_trained_on_and_what_is_scored():
    pair = (Span(0, 1), Span(1, 2))
    texts = [Text("a", ("x", "y"), edges={"rel": (Edge(("Other",), *pair), Edge(("Cause",), *pair))})]
    found = find_targets(get_task("rel"), texts, [ENCODER.tokenize(text) for text in texts], ("Cause", "Other"))

    assert found.rated.all()
    assert found.scored.tolist() == [[True, False], [True, False]]
    assert found.gold.tolist() == [[False, True], [True, False]]


def test_labels_not_rated_are_neither_trained_on_nor_scored():
    edge = Edge(("aware",), Span(0, 1), Span(1, 2), rated=("aware", "moved"))
    texts = [Text("a", ("x", "y"), edges={"spr": (edge,)})]
    found = find_targets(get_task("spr"), texts, [ENCODER.tokenize(text) for text in texts], ("aware", "moved", "new"))

    for mask in (found.rated, found.scored):
        assert mask.tolist() == [[True, True, False]]


def test_unseen_labels_that_are_not_scored_are_not_missed():
    pair = (Span(0, 1), Span(1, 2))
    texts = [Text("a", ("x", "y"), edges={"rel": (Edge(("Other",), *pair), Edge(("New",), *pair))})]
    found = find_targets(get_task("rel"), texts, [ENCODER.tokenize(text) for text in texts], ("Cause",))

    assert found.unseen_labels == ("New",)
    assert found.unseen.tolist() == [[False], [True]]
    assert not found.gold.any()


def test_texts_without_targets_keep_their_numbers_and_lists_must_match():
    texts = [Text("a", ("x",)), Text("b", ("y",), edges={"pos": (Edge(("N",), Span(0, 1)),)})]
    tokens = [ENCODER.tokenize(text) for text in texts]

    found = find_targets(get_task("pos"), texts, tokens, ("N",))
    assert (found.text.tolist(), found.texts) == ([1], 2)
    none = find_targets(get_task("pos"), texts[:1], tokens[:1], ("N",))
    assert (len(none), none.texts, none.tokens.shape, none.gold.shape) == (0, 1, (0, 1, 2), (0, 1))
    with pytest.raises(ValueError, match="zip"):
        find_targets(get_task("pos"), texts, tokens[:1], ("N",))


def test_values_of_graded_targets_go_with_them():
    values = (1.5, -2.0, 0.25)
    edges = tuple(Edge((), Span(at, at + 1), value=value) for at, value in enumerate(values))
    texts = [Text("a", ("x", "y", "z"), edges={"mood": edges}), Text("b", ("x",), edges={"mood": edges[:1]})]
    task = annotation_task("mood", texts)
    found = find_targets(task, texts, [ENCODER.tokenize(text) for text in texts], ("value",))

    assert found.graded
    assert not found.single_label
    assert found.values is not None
    assert found.values.tolist() == [1.5, -2.0, 0.25, 1.5]
    assert found.rated.all()
    assert not found.gold.any()
    for some, expected in ((found.among([1]), [1.5]), (found.chosen(np.array([2, 0])), [0.25, 1.5])):
        assert some.values is not None
        assert some.values.tolist() == expected


def test_chosen_takes_some_targets_by_number_or_by_yes_and_no():
    edges = tuple(Edge(("NV"[at % 2],), Span(at, at + 1)) for at in range(4))
    texts = [Text("a", tuple("wxyz"), edges={"pos": edges})]
    found = find_targets(get_task("pos"), texts, [ENCODER.tokenize(text) for text in texts], ("N", "V"))

    one, other = found.chosen(np.array([1, 3])), found.chosen(np.array([False, True, False, True]))
    assert one.words.tolist() == other.words.tolist() == [[[1, 2]], [[3, 4]]]
    assert one.gold.tolist() == [[False, True]] * 2
    assert (one.texts, one.labels) == (1, ("N", "V"))


@pytest.mark.parametrize(
    ("edges", "labels", "expected"),
    [
        ([("N",), ("V",)], ("N", "V"), True),
        ([("N",), ("NEW",)], ("N", "V"), True),
        ([("N", "V"), ("V",)], ("N", "V"), False),
        ([(), ("V",)], ("N", "V"), False),
        ([("N",), ("N",)], ("N",), False),
    ],
    ids=["one each", "unseen", "two", "none", "a single label in all"],
)
def test_single_label_is_one_label_out_of_several_for_every_target(edges, labels, expected):
    made = tuple(Edge(each, Span(at, at + 1)) for at, each in enumerate(edges))
    texts = [Text("a", ("x", "y"), edges={"pos": made})]
    found = find_targets(get_task("pos"), texts, [ENCODER.tokenize(text) for text in texts], labels)
    assert found.single_label is expected


def test_labels_rated_in_part_are_not_one_out_of_all():
    edge = Edge(("N",), Span(0, 1), rated=("N",))
    texts = [Text("a", ("x",), edges={"pos": (edge,)})]
    found = find_targets(get_task("pos"), texts, [ENCODER.tokenize(text) for text in texts], ("N", "V"))
    assert not found.single_label
