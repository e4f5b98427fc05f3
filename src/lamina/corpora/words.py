"""Words of running text, for corpora that come without any.

The rule, in order: abbreviations of single letters (`U.S.`), names with an apostrophe (`O'Brien`), numbers with their
points and commas (`2,000.5`), clitics split from their word as treebanks do (`Ann` + `'s`, `do` + `n't`), runs of
letters, and every other visible character by itself (so `re-elected` is three words). Scripts written without spaces
stay in runs. A cut is always a boundary between words: that is how annotated mentions keep their own words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from lamina.types import Span

# Python's \w leaves out combining marks and joiners, which belong to words in Hebrew, Arabic and Indic scripts.
_LETTER = r"[\w\u0300-\u036f\u0591-\u05bd\u064b-\u065f\u0900-\u0963\u0966-\u0e4e\u200c\u200d]"
_APOSTROPHE = r"['\u2019]"
_CLITIC = rf"{_APOSTROPHE}(?:s|re|ve|ll|d|m)\b"
_NAME = rf"\b[^\W\d_]{_APOSTROPHE}{_LETTER}{{3,}}"
_NOT = rf"n{_APOSTROPHE}t\b"
_WORD = re.compile(
    rf"(?:[^\W\d_]\.){{2,}}|{_NAME}|\d+(?:[.,]\d+)*\b|{_CLITIC}|{_NOT}|{_LETTER}+?(?={_NOT})|{_LETTER}+|[^\w\s]",
    re.IGNORECASE,
)


class Split(NamedTuple):
    """The words of a text, with where each stands in it."""

    words: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]
    """Start and end of each word, in characters."""

    def span(self, start: int, end: int) -> Span | None:
        """The words that lie wholly within these characters, or None where there is none."""
        inside = [i for i, (first, last) in enumerate(self.offsets) if start <= first and last <= end]
        return Span(inside[0], inside[-1] + 1) if inside else None


def split_words(text: str, cuts: Iterable[int] = ()) -> Split:
    """Split running text into words, with a boundary at every character offset of `cuts`.

    Example:
        >>> split_words("Ann didn't see the U.S. in 2,000 years.").words
        ('Ann', 'did', "n't", 'see', 'the', 'U.S.', 'in', '2,000', 'years', '.')
        >>> split_words("foobar", cuts=[3]).words
        ('foo', 'bar')
    """
    bounds = sorted({0, len(text), *(cut for cut in cuts if 0 < cut < len(text))})
    offsets = tuple(match.span() for start, end in pairwise(bounds) for match in _WORD.finditer(text, start, end))
    return Split(tuple(text[start:end] for start, end in offsets), offsets)
