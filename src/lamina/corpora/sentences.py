"""Sentences of running text, for contexts that come without any.

The rule: a sentence ends after `.`, `!` or `?` (with the quotes, brackets and `[1]`s that close there) where white
space and then a capital, a digit or a letter of a script without capitals follows, and at every line break; after the
full stops of Chinese, Japanese and Hindi it ends in any case. A full stop does not end a sentence after a title
(`Dr.`), a month (`Feb.`), `e.g.` and their kind, a number's `No.`, or a single capital letter (`John F. Kennedy`,
`the U.S. Army`); so a sentence that ends in `the U.S.` is joined to the next one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

_ABBREVIATIONS = re.compile(
    r"mrs?|ms|dr|prof|rev|fr|gen|col|maj|lt|sgt|cap?t|cmdr|adm|gov|sen|rep|hon|pres|sts?|mt|ft|messrs"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
    r"|nos?|vols?|pp?|figs?|eq|ch|sec|art|op|eds?|vs?|viz|cf|ca?|approx|al|e\.?g|i\.?e"
    r"|bros|inc|corp|co|ltd|dept|univ|assn",
    re.IGNORECASE,
)
# By their codes, for they look like others: full stops of Chinese and Japanese, the danda, Arabic's question mark.
_FULL = "\u3002\uff01\uff1f\u0964"
_CLOSERS = "\"')\\]\u2019\u201d\u00bb\u300d\u300f"
_END = re.compile(rf"[{_FULL}]+[{_CLOSERS}]*|[.!?\u061f]+[{_CLOSERS}]*(?:\[[\w ]{{1,20}}\])*(?=\s)|\n")
_LAST_WORD = re.compile(r"(?:[^\W\d_]\.)*[^\W_]+$")
_OPENERS = " \t\r\n\"'([\u2018\u201c\u201e\u00ab\u00bf\u00a1\u300c\u300e"


def split_sentences(text: str, whole: Iterable[tuple[int, int]] = ()) -> list[tuple[int, int]]:
    """Where each sentence starts and ends, in characters, white space left out; none ends inside a range of `whole`.

    Example:
        >>> text = "Dr. Ann met J. R. Smith. They talked! In the U.S. it rained."
        >>> [text[start:end] for start, end in split_sentences(text)]
        ['Dr. Ann met J. R. Smith.', 'They talked!', 'In the U.S. it rained.']
        >>> [text[start:end] for start, end in split_sentences(text, whole=[(20, 30)])]
        ['Dr. Ann met J. R. Smith. They talked!', 'In the U.S. it rained.']
    """
    kept = list(whole)
    ends = [end for end in _ends(text) if not any(start < end < last for start, last in kept)]
    found = []
    for start, end in pairwise([0, *ends, len(text)]):
        part = text[start:end]
        if part.strip():
            found.append((start + len(part) - len(part.lstrip()), start + len(part.rstrip())))
    return found


def _ends(text: str) -> Iterable[int]:
    for mark in _END.finditer(text):
        certain = mark[0][0] in _FULL or mark[0] == "\n"
        abbreviated = mark[0] == "." and _abbreviated(text, mark.start())
        if certain or (_starts_sentence(text, mark.end()) and not abbreviated):
            yield mark.end()


def _starts_sentence(text: str, at: int) -> bool:
    """Whether what follows, past white space and opening quotes, is a letter or digit that is no small letter."""
    while at < len(text) and text[at] in _OPENERS:
        at += 1
    return at < len(text) and text[at].isalnum() and not text[at].islower()


def _abbreviated(text: str, stop: int) -> bool:
    """Whether the full stop at this place belongs to the word before it."""
    word = _LAST_WORD.search(text[max(0, stop - 20) : stop])
    if word is None:
        return False
    last = word[0]
    initial = len(last.rpartition(".")[2]) == 1 and last[-1].isupper()
    return initial or _ABBREVIATIONS.fullmatch(last) is not None
