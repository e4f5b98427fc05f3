"""Sentences of running text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.corpora.tokenising import split_sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["It rained.", "Then it stopped!", "Why?", "Nobody knows."],
        ['He said: "No."', '"Yes," she said.', "(That was all.)", "The end."],
        ["Dr. A. B. Smith of St. Louis met Gen. Grant in Feb. 1864.", "They talked."],
        ["It cost $5.5 million, e.g. The Times says so.", "See No. 7."],
        ["Known since 1900.[3]", "It was new.[citation needed]", "Not any more."],
        ["The price fell to 3.07.", "111,529 people left."],
        ["He asked why... and went.", "The U.S. Army stayed."],
        ["天气很好。", "我们走吧\uff01"],
    ],
)
def test_the_rule(sentences):
    text = " ".join(sentences)
    assert [text[start:end] for start, end in split_sentences(text)] == sentences


def test_line_breaks_end_sentences():
    text = "A heading\n\nsome text\n"
    assert [text[start:end] for start, end in split_sentences(text)] == ["A heading", "some text"]
    assert split_sentences(" \n ") == []


@given(st.text(alphabet="aB1 .!?\n\"'()é", max_size=60), st.integers(0, 60), st.integers(1, 20))
def test_nothing_is_lost_and_nothing_whole_is_cut(text, start, size):
    whole = (start, min(start + size, len(text)))
    found = split_sentences(text, whole=[whole])
    covered = {at for first, last in found for at in range(first, last)}
    assert covered >= {at for at, character in enumerate(text) if not character.isspace()}
    assert found == sorted(found)
    for first, last in found:
        assert not whole[0] < last < len(text[: whole[1]].rstrip()) or whole[0] >= whole[1]
        assert text[first:last] == text[first:last].strip()
