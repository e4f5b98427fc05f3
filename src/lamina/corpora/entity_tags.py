"""Schemes of entity tags: IOB1, IOB2 and BIOES (which BILOU is under other letters)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from lamina.types import Span

Scheme = Literal["IOB1", "IOB2", "BIOES"]
TAG = re.compile(r"O|[BIESLU]-\S+")
_SAME = {"L": "E", "U": "S"}
"""BILOU's letters in BIOES."""


class _Tag(NamedTuple):
    prefix: str
    """B, I, E, S or O."""
    type: str

    @classmethod
    def parse(cls, tag: str) -> _Tag:
        prefix, _, kind = tag.partition("-")
        return cls(_SAME.get(prefix, prefix), kind)


class Tagged(NamedTuple):
    """One entity."""

    type: str
    span: Span


def scheme_of(sentences: Iterable[Sequence[str]]) -> Scheme:
    """The scheme that the tags of a file are in.

    An E-, S-, L- or U- anywhere makes it BIOES. Otherwise it depends on how entities begin that do not touch one of
    their type just before: with I- in IOB1, with B- in IOB2; the more frequent wins, and IOB2 where they are even.

    Example:
        >>> scheme_of([["I-PER", "I-PER", "O"]]), scheme_of([["B-PER", "I-PER", "O"]]), scheme_of([["U-PER", "O"]])
        ('IOB1', 'IOB2', 'BIOES')
    """
    inside = begin = 0
    for tags in sentences:
        before = _Tag("O", "")
        for tag in map(_Tag.parse, tags):
            if tag.prefix in ("E", "S"):
                return "BIOES"
            if tag.type != before.type:
                inside += tag.prefix == "I"
                begin += tag.prefix == "B"
            before = tag
    return "IOB1" if inside > begin else "IOB2"


def check_tags(tags: Sequence[str], scheme: Scheme) -> Iterator[tuple[int, str]]:
    """Place and description of every tag that may not stand where it does.

    Example:
        >>> list(check_tags(["O", "I-PER"], "IOB2"))
        [(1, 'I-PER after O, where nothing is to be continued')]
    """
    before, name = _Tag("O", ""), "the start of the sentence"
    for at, (text, tag) in enumerate(zip(tags, map(_Tag.parse, tags), strict=True)):
        pending = before.prefix in ("B", "I")
        continues = pending and tag.prefix in ("I", "E") and tag.type == before.type
        if scheme == "IOB1":
            if tag.prefix == "B" and tag.type != before.type:
                yield at, f"{text} after {name}, where there is nothing of its type to part from"
        elif tag.prefix in ("I", "E") and not continues:
            yield at, f"{text} after {name}, where nothing is to be continued"
        elif scheme == "BIOES" and pending and not continues:
            yield at, f"{text} after {name}, which E- or L- should have ended"
        before, name = tag, text
    if scheme == "BIOES" and before.prefix in ("B", "I"):
        yield len(tags) - 1, f"{name} at the end of the sentence, which E- or L- should have ended"


def spans_of(tags: Sequence[str], scheme: Scheme) -> list[Tagged]:
    """The entities of one sentence whose tags have been checked.

    Example:
        >>> spans_of(["B-PER", "I-PER", "O", "B-LOC"], "IOB2")[1]
        Tagged(type='LOC', span=Span(start=3, end=4))
    """
    found: list[Tagged] = []
    start, before = 0, _Tag("O", "")
    for at, tag in enumerate([*map(_Tag.parse, tags), _Tag("O", "")]):
        begins = tag.prefix in ("B", "S") or tag.type != before.type or (scheme == "BIOES" and before.prefix in "ES")
        if begins:
            if before.prefix != "O":
                found.append(Tagged(before.type, Span(start, at)))
            start = at
        before = tag
    return found
