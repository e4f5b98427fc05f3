"""The lines of BRAT's standoff files (`.ann`): text-bound annotations, relations, events, attributes, equivalences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from lamina.corpora.reading import Fault, Line, Report

LINE = re.compile(r"(?:[TREAMNX]\d\S*|#\S*|\*)\t.*")
"""Any line of such a file."""
_BOUND = re.compile(r"(?P<type>\S+) (?P<places>\d{1,9} \d{1,9}(?:;\d{1,9} \d{1,9})*)")
_NAMED = re.compile(r"([^\s:]+):(\S+)")


@dataclass(frozen=True, slots=True)
class Bound:
    """A text-bound annotation (T): a type and where it is."""

    id: str
    type: str
    places: tuple[tuple[int, int], ...]
    """Character ranges: several if it has a gap."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A relation (R), or a role of an event (E): two annotations and what connects them."""

    id: str
    label: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute (A) or modification (M) of an annotation."""

    id: str
    name: str
    target: str
    value: str | None


@dataclass
class Standoff:
    """The annotations of one document."""

    bound: dict[str, Bound] = field(default_factory=dict)
    events: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Event -> its type and its trigger."""
    roles: list[Pair] = field(default_factory=list)
    relations: list[Pair] = field(default_factory=list)
    attributes: list[Attribute] = field(default_factory=list)
    equivalences: list[tuple[str, ...]] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    """Ids of notes and normalisations."""

    def anchor(self, id: str) -> str:
        """The text-bound annotation of an id: itself, or the trigger of an event."""
        return self.events[id][1] if id in self.events else id

    def is_empty(self) -> bool:
        """Whether nothing is annotated."""
        return not self.bound and not self.ignored


def parse(path: Path, lines: Iterable[Line], text: str, report: Report) -> Standoff:
    """The annotations of a document with this text; every line that does not fit is a fault.

    Example:
        >>> from lamina.corpora.reading import raise_fault
        >>> lines = [Line(1, "T1\\tPer 0 3\\tAda"), Line(2, "A1\\tAlive T1")]
        >>> found = parse(Path("a.ann"), lines, "Ada left.", raise_fault)
        >>> found.bound["T1"].places, found.attributes[0].name
        (((0, 3),), 'Alive')
    """
    found = Standoff()
    used: list[tuple[int, str]] = []
    for line in lines:
        if not line.text.strip():
            continue
        id, tab, rest = line.text.partition("\t")
        try:
            if not tab or not LINE.fullmatch(line.text):
                raise _LineError(f"{line.text[:40]!r} is not an annotation", "an id such as T1, R1 or E1, and a tab")
            used += [(line.number, target) for target in _ADD[id[0]](found, id, rest, text)]
        except _LineError as error:
            report(Fault(path, line.number, error.what, error.expected))
    for number, target in used:
        if target not in found.bound and target not in found.events:
            report(Fault(path, number, f"it points at {target}", "the id of a T or an E in the same file"))
    return found


class _LineError(Exception):
    def __init__(self, what: str, expected: str) -> None:
        super().__init__(what)
        self.what, self.expected = what, expected


def _add_bound(found: Standoff, id: str, rest: str, text: str) -> list[str]:
    fields = rest.split("\t")
    match = _BOUND.fullmatch(fields[0].strip())
    if match is None or len(fields) < 2:
        raise _LineError(f"{id} is {rest[:40]!r}", "a type, a start, an end, a tab and the text between them")
    places = tuple(_range(part) for part in match["places"].split(";"))
    said = "\t".join(fields[1:])
    there = " ".join(text[start:end] for start, end in places)
    if any(start >= end or end > len(text) for start, end in places):
        raise _LineError(f"{id} is at {match['places']}", f"a range within the {len(text)} characters of the text")
    if there.split() != said.split():
        what = f"{id}: characters {match['places']} of the text are {there[:40]!r}"
        raise _LineError(what, f"{said[:40]!r} there, counted in Unicode characters from 0, line breaks included")
    if not there.strip():
        raise _LineError(f"{id} covers white space only", "at least one word")
    if id in found.bound:
        raise _LineError(f"a second {id}", "an id of its own")
    found.bound[id] = Bound(id, match["type"], _joined(places, text))
    return []


def _range(part: str) -> tuple[int, int]:
    start, end = part.split(" ")
    return int(start), int(end)


def _joined(places: tuple[tuple[int, int], ...], text: str) -> tuple[tuple[int, int], ...]:
    """The same characters; ranges with only white space between them are one (a line break within a name)."""
    joined = [places[0]]
    for start, end in places[1:]:
        before = joined[-1]
        if before[1] <= start and not text[before[1] : start].strip():
            joined[-1] = (before[0], end)
        else:
            joined.append((start, end))
    return tuple(joined)


def _add_relation(found: Standoff, id: str, rest: str, _text: str) -> list[str]:
    name, *arguments = rest.split() or [""]
    ends = [match[2] for argument in arguments if (match := _NAMED.fullmatch(argument))]
    if len(ends) != 2 or len(arguments) != 2:
        raise _LineError(f"{id} is {rest[:40]!r}", "a type and two arguments, as in Located Arg1:T1 Arg2:T2")
    found.relations.append(Pair(id, name, *ends))
    return ends


def _add_event(found: Standoff, id: str, rest: str, _text: str) -> list[str]:
    parts = [_NAMED.fullmatch(part) for part in rest.split()]
    named = [(match[1], match[2]) for match in parts if match is not None]
    if not named or len(named) != len(parts) or id in found.events:
        raise _LineError(f"{id} is {rest[:40]!r}", "TYPE:trigger and ROLE:argument, as in Merge:T2 Org:T1; one per id")
    (kind, trigger), *arguments = named
    found.events[id] = kind, trigger
    found.roles += [Pair(id, role, trigger, argument) for role, argument in arguments]
    return [trigger, *(argument for _, argument in arguments)]


def _add_attribute(found: Standoff, id: str, rest: str, _text: str) -> list[str]:
    parts = rest.split()
    if len(parts) < 2:
        raise _LineError(f"{id} is {rest[:40]!r}", "a name and the id it is about, and a value if there is one")
    found.attributes.append(Attribute(id, parts[0], parts[1], " ".join(parts[2:]) or None))
    # A relation may have one too; it has no words of its own.
    return [] if parts[1].startswith("R") else [parts[1]]


def _add_equivalence(found: Standoff, id: str, rest: str, _text: str) -> list[str]:
    _, *members = rest.split() or [""]
    if len(members) < 2:
        raise _LineError(f"{id} {rest[:40]!r}", "a type and two ids or more, as in Alias T1 T2")
    found.equivalences.append(tuple(members))
    return members


def _ignore(found: Standoff, id: str, _rest: str, _text: str) -> list[str]:
    found.ignored.append(f"{id}-{len(found.ignored) + 1}")
    return []


_ADD: dict[str, Callable[[Standoff, str, str, str], list[str]]] = {
    "T": _add_bound,
    "R": _add_relation,
    "E": _add_event,
    "A": _add_attribute,
    "M": _add_attribute,
    "*": _add_equivalence,
    "N": _ignore,
    "#": _ignore,
    "X": _ignore,
}
