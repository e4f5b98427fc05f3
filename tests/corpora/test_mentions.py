"""Named brackets around mentions, and names of sentences and documents."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.corpora.entities import BracketMention, MentionCell, mentions_in
from lamina.corpora.reading import Heading
from lamina.types import Span


def cells(*marks: str) -> list[MentionCell]:
    return [MentionCell(mark, at, at + 1) for at, mark in enumerate(marks)]


def test_mentions_may_cross_and_repeat() -> None:
    assert mentions_in(cells("(1(2", "1)", "2)")) == [BracketMention("2", Span(0, 3)), BracketMention("1", Span(0, 2))]
    assert mentions_in(cells("(1", "(1)", "1)")) == [BracketMention("1", Span(0, 3)), BracketMention("1", Span(1, 2))]


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ("(1", "never closed"),
        ("1)", "never opened"),
        ("1", "neither"),
        ("()", "without a name"),
        ("(1)(", "without a name"),
    ],
)
def test_brackets_without_partner(marks: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mentions_in(cells(marks))


@st.composite
def mentions(draw: st.DrawFn) -> list[BracketMention]:
    """Mentions of different chains, so that nothing says which of two brackets of one name is meant."""
    starts = draw(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), max_size=6))
    return [BracketMention(f"c{at}", Span(start, start + size)) for at, (start, size) in enumerate(starts)]


def written(found: list[BracketMention]) -> list[str]:
    column = []
    for at in range(12):
        marks = [f"({name})" for name, span in found if span == Span(at, at + 1)]
        marks += [f"({name}" for name, span in found if span.start == at and len(span) > 1]
        marks += [f"{name})" for name, span in found if span.end == at + 1 and len(span) > 1]
        column.append("|".join(marks) or "-")
    return column


@given(mentions())
def test_mentions_come_back(found: list[BracketMention]) -> None:
    assert sorted(mentions_in(cells(*written(found)))) == sorted(found)


def test_headings() -> None:
    heading = Heading("file")
    heading.next_sentence(["# newdoc id = d1", "#sent_id=s1", "# newpar id = p1", "# text = newdoc = x"])
    assert (heading.sentence, heading.doc) == ("s1", "d1")
    heading.next_sentence(["# newpar"])
    assert (heading.sentence, heading.doc) == ("file-2", "d1")
    heading.next_sentence(["# newdoc id =", "# sent_id ="])
    assert (heading.sentence, heading.doc) == ("file-3", "file-doc2")
