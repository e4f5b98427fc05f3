"""Running text to words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.corpora.tokenising import split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Dehner's uncles", ["Dehner", "'s", "uncles"]),
        ("They\u2019ve won\u2019t", ["They", "\u2019ve", "wo", "n\u2019t"]),
        ("Polly O'Keefe, re-elected", ["Polly", "O'Keefe", ",", "re", "-", "elected"]),
        ("In 2,000.5 U.S. dollars.", ["In", "2,000.5", "U.S.", "dollars", "."]),
        ("हिन्दी में।", ["हिन्दी", "में", "।"]),
        ("1990s", ["1990s"]),
        ("", []),
    ],
)
def test_the_rule(text, words):
    assert list(split_words(text).words) == words


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60), st.lists(st.integers(-5, 70), max_size=6))
def test_no_visible_character_is_lost_and_cuts_are_boundaries(text, cuts):
    split = split_words(text, cuts)
    assert "".join(split.words) == "".join(text.split())
    assert all(text[start:end] == word for word, (start, end) in zip(split.words, split.offsets, strict=True))
    for start, end in split.offsets:
        assert not any(start < cut < end for cut in cuts)


def test_a_span_holds_the_words_inside_and_nothing_else():
    split = split_words("Ann met Bob Suter.")
    span = split.span(8, 17)
    assert span is not None
    assert split.words[span.start : span.end] == ("Bob", "Suter")
    assert split.span(3, 4) is None
