"""Running text split into words and sentences."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
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
    """The words of a text, with their positions."""

    words: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]
    """Start and end of each word, in characters."""

    @property
    def glued(self) -> tuple[int, ...]:
        """The words that follow the one before without anything between them, as in `Text.glued`.

        Example:
            >>> split_words("Ann didn't.").glued
            (2, 3)
        """
        ends = enumerate(pairwise(self.offsets), start=1)
        return tuple(index for index, ((_, end), (start, _)) in ends if start == end)

    def span(self, start: int, end: int) -> Span | None:
        """The words that lie completely within these characters, or None if there are none."""
        first = bisect_left(self.offsets, (start, -1))
        last = bisect_right(self.offsets, end, key=lambda offset: offset[1])
        return Span(first, last) if first < last else None

    def exact_span(self, start: int, end: int) -> Span:
        """The words of these characters; an error if they hold no word, or only a part of one.

        Example:
            >>> split_words("Dogs bark.").exact_span(0, 9)
            Span(start=0, end=2)
        """
        span = self.span(start, end)
        if span is None:
            raise ValueError(f"the characters [{start}, {end}) hold no whole word")
        # Only the words next to them can lie on both sides.
        for neighbour in (span.start - 1, span.end):
            first, last = self.offsets[neighbour] if 0 <= neighbour < len(self.words) else (end, end)
            if first < start < last or first < end < last:
                raise ValueError(f"the characters [{start}, {end}) cut the word {self.words[neighbour][:40]!r}")
        return span


def split_words(text: str, cuts: Iterable[int] = ()) -> Split:
    """Split running text into words, with a boundary at every character offset of `cuts`.

    Example:
        >>> split_words("Ann didn't see the U.S. in 2,000 years.").words
        ('Ann', 'did', "n't", 'see', 'the', 'U.S.', 'in', '2,000', 'years', '.')
        >>> split_words("foobar", cuts=[3]).words
        ('foo', 'bar')
    """
    bounds = sorted({0, len(text), *(cut for cut in cuts if 0 < cut < len(text))})
    parts = (map(re.Match.span, _WORD.finditer(text, start, end)) for start, end in pairwise(bounds))
    offsets = tuple(chain.from_iterable(parts))
    return Split(tuple([text[start:end] for start, end in offsets]), offsets)


def find_words(text: str, words: Sequence[str]) -> Split:
    """Words of another tokenisation, found one after the other in the text they come from.

    Example:
        >>> find_words("New York's", ["New York", "'s"]).offsets
        ((0, 8), (8, 10))
    """
    end, offsets = 0, []
    for word in words:
        start = text.find(word, end)
        if start < 0:
            raise ValueError(f"the word {word[:40]!r} is not in the text after character {end}")
        end = start + len(word)
        offsets.append((start, end))
    return Split(tuple(words), tuple(offsets))


def words_in(text: str) -> tuple[str, ...]:
    """The words of running text, without their positions.

    Example:
        >>> words_in("Ann didn't.")
        ('Ann', 'did', "n't", '.')
    """
    return tuple(_WORD.findall(text))


_ABBREVIATIONS = re.compile(
    r"mrs?|ms|dr|prof|rev|fr|gen|col|maj|lt|sgt|cap?t|cmdr|adm|gov|sen|rep|hon|pres|sts?|mt|ft|messrs"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
    r"|nos?|vols?|pp?|figs?|eq|ch|sec|art|op|eds?|vs?|viz|cf|ca?|approx|al|e\.?g|i\.?e"
    r"|bros|inc|corp|co|ltd|dept|univ|assn",
    re.IGNORECASE,
)
# As codes, since they look like other characters: Chinese and Japanese full stops, danda, Arabic question mark.
_FULL = "\u3002\uff01\uff1f\u0964"
_CLOSERS = "\"')\\]\u2019\u201d\u00bb\u300d\u300f"
# A run of stops is tried as a whole: trying it again from each of its stops would take quadratic time.
_STOP = "[.!?\u061f]"
_END = re.compile(rf"[{_FULL}]+[{_CLOSERS}]*|(?<!{_STOP}){_STOP}++[{_CLOSERS}]*+(?:\[[\w ]{{1,20}}\])*(?=\s)|\n")
_LAST_WORD = re.compile(r"(?:[^\W\d_]\.)*[^\W_]+$")
_OPENERS = " \t\r\n\"'([\u2018\u201c\u201e\u00ab\u00bf\u00a1\u300c\u300e"


def split_sentences(
    text: str, whole: Iterable[tuple[int, int]] = (), ends: Iterable[int] | None = None
) -> list[tuple[int, int]]:
    """Character range of each sentence, without white space; no sentence ends inside a range of `whole`.

    `ends` are the text's `sentence_ends`, where they are known already.

    Example:
        >>> text = "Dr. Ann met J. R. Smith. They talked! In the U.S. it rained."
        >>> [text[start:end] for start, end in split_sentences(text)]
        ['Dr. Ann met J. R. Smith.', 'They talked!', 'In the U.S. it rained.']
        >>> [text[start:end] for start, end in split_sentences(text, whole=[(20, 30)])]
        ['Dr. Ann met J. R. Smith. They talked!', 'In the U.S. it rained.']
    """
    unbroken = _merged(whole)
    starts = [start for start, _ in unbroken]
    # Of these ranges, only the last one that starts before an end can reach over it.
    known = sentence_ends(text) if ends is None else ends
    final = [end for end in known if not (index := bisect_left(starts, end)) or unbroken[index - 1][1] <= end]
    sentences = []
    for start, end in pairwise([0, *final, len(text)]):
        part = text[start:end]
        if part.strip():
            sentences.append((start + len(part) - len(part.lstrip()), start + len(part.rstrip())))
    return sentences


def sentences_of(places: Iterable[tuple[int, int]], sentences: Sequence[tuple[int, int]]) -> set[int]:
    """The numbers of the sentences in which these character ranges start.

    Example:
        >>> sentences_of([(12, 14), (10, 11)], [(0, 10), (11, 20)])
        {1}
    """
    starts = [start for start, _ in sentences]
    candidates = ((first, bisect_right(starts, first) - 1) for first, _ in places)
    return {number for first, number in candidates if number >= 0 and first < sentences[number][1]}


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same characters as ranges that do not overlap, in order."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def sentence_ends(text: str) -> Iterator[int]:
    """Where sentences end: the offset after each last character but that of the text.

    Example:
        >>> list(sentence_ends("They talked! In the U.S. it rained."))
        [12]
    """
    for mark in _END.finditer(text):
        certain = mark[0][0] in _FULL or mark[0] == "\n"
        abbreviated = mark[0] == "." and _abbreviated(text, mark.start())
        if certain or (_starts_sentence(text, mark.end()) and not abbreviated):
            yield mark.end()


def _starts_sentence(text: str, position: int) -> bool:
    """Whether the next character, after white space and opening quotes, is a letter or digit, but not lower case."""
    while position < len(text) and text[position] in _OPENERS:
        position += 1
    return position < len(text) and text[position].isalnum() and not text[position].islower()


def _abbreviated(text: str, stop: int) -> bool:
    """Whether the full stop at this position belongs to the word before it."""
    word = _LAST_WORD.search(text[max(0, stop - 20) : stop])
    if word is None:
        return False
    last = word[0]
    initial = len(last.rpartition(".")[2]) == 1 and last[-1].isupper()
    return initial or _ABBREVIATIONS.fullmatch(last) is not None
