"""Targets and texts: a string is one label, never its letters; what is neither is said."""

from __future__ import annotations

from typing import Any

import pytest

from lamina import Edge, Span, Text
from lamina.errors import SpanError

ONE = Span(0, 1)


def test_one_label_may_be_a_string_and_several_a_list() -> None:
    given: list[Any] = ["positive", ["positive"], ("positive",)]

    assert {Edge(each, ONE).labels for each in given} == {("positive",)}
    assert Edge("a", ONE, rated=given[0]).rated == ("positive",)
    assert Edge(["a", "b"], ONE).labels == ("a", "b")
    assert Edge((), ONE, value=2).value == 2.0


def test_words_and_edges_may_be_lists_and_one_edge_may_stand_alone() -> None:
    given: Any = {"mood": Edge("good", ONE), "pos": [Edge("ADV", ONE)]}
    text = Text("a", ["So"], edges=given)

    assert text == Text("a", ("So",), edges={"mood": (Edge("good", ONE),), "pos": (Edge("ADV", ONE),)})


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Edge(3, ONE), "labels of an edge are strings, .*got 3"),
        (lambda: Edge(("a", 1), ONE), "labels of an edge are strings"),
        (lambda: Edge({"a"}, ONE), "labels of an edge are strings"),
        (lambda: Edge(None, ONE), "labels of an edge are strings"),
        (lambda: Edge("a", ONE, rated=3), "rated of an edge are strings"),
        (lambda: Edge("a", (0, 1)), "an edge is between spans, as Span"),
        (lambda: Edge("a", ONE, (1, 2)), "an edge is between spans, as Span"),
        (lambda: Edge("a", None), "an edge is between spans, as Span"),
        (lambda: Edge("a", ONE, value="much"), "value of an edge is a finite number; got 'much'"),
        (lambda: Edge("a", ONE, value=float("nan")), "value of an edge is a finite number"),
        (lambda: Text("t", "Dogs bark"), "text 't': words are a tuple of strings"),
        (lambda: Text("t", ("So",), edges={"mood": "good"}), "text 't': mood holds 'good'; give a tuple of Edge"),
        (lambda: Text("t", ("So",), edges={"mood": Edge("a", Span(1, 2))}), "outside its 1 words"),
    ],
    ids=[f"{number:02}" for number in range(13)],
)
def test_anything_else_is_said(make: Any, why: str) -> None:
    with pytest.raises(SpanError, match=why):
        make()
