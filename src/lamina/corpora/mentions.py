"""Named brackets, `(7` ... `7)`: how coreference columns and CoNLL-U's `Entity=` write nested and crossing mentions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from lamina.types import Span

_MARK = re.compile(r"(\()?([^()|]+)(\))?")


class Cell(NamedTuple):
    """What one row says: the marks, and the word positions an opening or closing one stands for."""

    marks: str
    start: int
    """The first word of a mention opened here."""
    end: int
    """One past the last word of a mention closed here."""


class Mention(NamedTuple):
    """One mention: what its opening bracket says, and its words."""

    name: str
    span: Span


def pair(cells: Iterable[Cell], key: Callable[[str], str] = str) -> list[Mention]:
    """The mentions, outer before inner. `key` picks from a bracket's text the name that opening and closing share.

    A mention without words (one that lies on an empty node) is left out. Raises ValueError with a message for the
    reader's fault where a bracket has no partner.

    Example:
        >>> found = pair([Cell("(1|(2)", 0, 1), Cell("_", 1, 2), Cell("1)", 2, 3)])
        >>> [(mention.name, mention.span.start, mention.span.end) for mention in found]
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
                    raise ValueError(f"mention {name!r} is closed at word {cell.end} and was never opened")
                ends[waiting[key(name)].pop()] = cell.end
            if not opens and not closes:
                raise ValueError(f"{name!r} at word {cell.end} neither opens nor closes a mention")
    for at, (name, start) in enumerate(opened):
        if at not in ends:
            raise ValueError(f"mention {name!r} is opened at word {start + 1} and never closed")
    found = [Mention(name, Span(start, ends[at])) for at, (name, start) in enumerate(opened) if start < ends[at]]
    return sorted(found, key=lambda mention: (mention.span.start, -mention.span.end))
