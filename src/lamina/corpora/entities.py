"""Entities and mentions from tags (IOB, BIOES) and brackets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from lamina.types import Span

Scheme = Literal["IOB1", "IOB2", "BIOES"]
TAG = re.compile(r"O|[BIESLUMW]-\S+")
_SAME = {"L": "E", "U": "S", "M": "I", "W": "S"}
"""Letters of BILOU, BMES and BIEOW -> those of BIOES."""


class _Tag(NamedTuple):
    prefix: str
    """B, I, E, S or O."""
    type: str

    @classmethod
    def parse(cls, tag: str) -> _Tag:
        prefix, _, kind = tag.partition("-")
        return cls(_SAME.get(prefix, prefix), kind)


class TaggedSpan(NamedTuple):
    """One entity."""

    type: str
    span: Span


def scheme_of(sentences: Iterable[Sequence[str]]) -> Scheme:
    """The tagging scheme of a file.

    An E-, S-, L- or U- anywhere makes it BIOES. Otherwise it depends on how entities begin that do not directly follow
    one of their own type: with I- in IOB1, with B- in IOB2. The more frequent one wins; a tie means IOB2.

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
    """Position and description of every tag that the scheme does not allow there.

    In IOB1 any tag has one meaning anywhere; see `needless_begins`.

    Example:
        >>> list(check_tags(["O", "I-PER"], "IOB2"))
        [(1, 'I-PER after O, with nothing to continue')]
    """
    before, name = _Tag("O", ""), "the start of the sentence"
    for position, (text, tag) in enumerate(zip(tags, map(_Tag.parse, tags), strict=True)):
        pending = before.prefix in ("B", "I")
        continues = pending and tag.prefix in ("I", "E") and tag.type == before.type
        if scheme != "IOB1" and tag.prefix in ("I", "E") and not continues:
            yield position, f"{text} after {name}, with nothing to continue"
        elif scheme == "BIOES" and pending and not continues:
            yield position, f"{text} after {name}, which E- or L- should have ended"
        before, name = tag, text
    if scheme == "BIOES" and before.prefix in ("B", "I"):
        yield len(tags) - 1, f"{name} at the end of the sentence, which E- or L- should have ended"


def needless_begins(tags: Sequence[str], scheme: Scheme) -> bool:
    """Whether, in IOB1, a B- follows no entity of its type: not as the scheme has it, but clear.

    Example:
        >>> needless_begins(["O", "B-PER"], "IOB1"), needless_begins(["I-PER", "B-PER"], "IOB1")
        (True, False)
    """
    parsed = [_Tag("O", ""), *map(_Tag.parse, tags)]
    return scheme == "IOB1" and any(tag.prefix == "B" and tag.type != before.type for before, tag in pairwise(parsed))


def spans_of(tags: Sequence[str], scheme: Scheme) -> list[TaggedSpan]:
    """The entities of one sentence; its tags have to be checked first.

    Example:
        >>> spans_of(["B-PER", "I-PER", "O", "B-LOC"], "IOB2")[1]
        TaggedSpan(type='LOC', span=Span(start=3, end=4))
    """
    spans: list[TaggedSpan] = []
    start, before = 0, _Tag("O", "")
    for position, tag in enumerate([*map(_Tag.parse, tags), _Tag("O", "")]):
        begins = tag.prefix in ("B", "S") or tag.type != before.type or (scheme == "BIOES" and before.prefix in "ES")
        if begins:
            if before.prefix != "O":
                spans.append(TaggedSpan(before.type, Span(start, position)))
            start = position
        before = tag
    return spans


STACKED = re.compile(r"\|(?:O|[BIESLUMW]-\S+)(?=\||$)")
"""A further tag in the same cell, of an entity within another."""


def stacked_spans(cells: Sequence[str]) -> list[TaggedSpan]:
    """The entities of one sentence whose cells hold a tag per nesting level (`B-ORG|B-LOC`), outer before inner.

    An I- or E- continues the outermost entity of its type; a ValueError names one that continues nothing.

    Example:
        >>> stacked_spans(["B-ORG|S-LOC", "I-ORG"])
        [TaggedSpan(type='ORG', span=Span(start=0, end=2)), TaggedSpan(type='LOC', span=Span(start=0, end=1))]
    """
    spans: list[TaggedSpan] = []
    pending: list[tuple[str, int]] = []
    for position, cell in enumerate([*cells, "O"]):
        going: list[tuple[str, int]] = []
        for tag in map(_Tag.parse, cell.split("|")):
            if tag.prefix in ("B", "S"):
                entity = tag.type, position
            elif tag.prefix in ("I", "E"):
                entity = next((candidate for candidate in pending if candidate[0] == tag.type), None)
                if entity is None:
                    raise ValueError(f"{tag.prefix}-{tag.type} at word {position + 1}, with nothing to continue")
                pending.remove(entity)
            else:
                continue
            if tag.prefix in ("S", "E"):
                spans.append(TaggedSpan(tag.type, Span(entity[1], position + 1)))
            else:
                going.append(entity)
        spans += [TaggedSpan(kind, Span(start, position)) for kind, start in pending]
        pending = going
    return sorted(spans, key=lambda tagged: (tagged.span.start, -tagged.span.end))


_MARK = re.compile(r"(\()?([^()|]+)(\))?")


class MentionCell(NamedTuple):
    """One row: its brackets, and the word positions that an opening or closing bracket refers to."""

    marks: str
    start: int
    """The first word of a mention opened here."""
    end: int
    """One past the last word of a mention closed here."""


class BracketMention(NamedTuple):
    """One mention: the text of its opening bracket, and its words."""

    name: str
    span: Span


def chain_of(mention: str) -> str:
    """A chain's name, from `12` (OntoNotes, OntoGUM) or `person-12-Wikipedia_title` (GUM).

    Example:
        >>> chain_of("12"), chain_of("person-12-Ada_Lovelace")
        ('12', '12')
    """
    fields = mention.split("-")
    return fields[1] if len(fields) > 1 and fields[1].isdecimal() else mention


def mentions_in(cells: Iterable[MentionCell], key: Callable[[str], str] = str) -> list[BracketMention]:
    """The mentions, outer before inner. `key` extracts from a bracket the name that opening and closing share.

    A mention without words (on an empty node) is left out. Raises ValueError, with a message for the reader's fault,
    if a bracket has no partner.

    Example:
        >>> mentions = mentions_in([MentionCell("(1|(2)", 0, 1), MentionCell("_", 1, 2), MentionCell("1)", 2, 3)])
        >>> [(mention.name, mention.span.start, mention.span.end) for mention in mentions]
        [('1', 0, 3), ('2', 0, 1)]
    """
    waiting: dict[str, list[int]] = {}
    opened: list[tuple[str, int]] = []
    ends: dict[int, int] = {}
    for cell in cells:
        if cell.marks in ("_", "-"):
            continue
        if _MARK.sub("", cell.marks).strip("|"):
            raise ValueError(f"{cell.marks!r} at word {cell.end} has a bracket without a name")
        for opens, name, closes in _MARK.findall(cell.marks):
            if opens:
                waiting.setdefault(key(name), []).append(len(opened))
                opened.append((name, cell.start))
            if closes:
                if not waiting.get(key(name)):
                    raise ValueError(f"mention {name!r} is closed at word {cell.end} but never opened")
                ends[waiting[key(name)].pop()] = cell.end
            if not opens and not closes:
                raise ValueError(f"{name!r} at word {cell.end} neither opens nor closes a mention")
    for number, (name, start) in enumerate(opened):
        if number not in ends:
            raise ValueError(f"mention {name!r} is opened at word {start + 1} but never closed")
    mentions = [
        BracketMention(name, Span(start, ends[number]))
        for number, (name, start) in enumerate(opened)
        if start < ends[number]
    ]
    return sorted(mentions, key=lambda mention: (mention.span.start, -mention.span.end))
