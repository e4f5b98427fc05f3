"""BRAT standoff: `NAME.ann` with annotations and `NAME.txt` with the text they point into, by character.

One text per line of the document. Words are split at white space if the text is pre-tokenised (as for plain text),
otherwise by `corpora.tokenising`; a word is cut where an annotation starts or ends inside it, so that an annotation is
always whole words. `ner` holds the text-bound annotations (T) that no event has as its trigger; `rel` the relations
(R); `event` the triggers of events (E) with their types, `event_role` a trigger and each argument; `attribute_NAME`
one attribute (A, M), whose label is its value, or `true` if it has none; `chains` the equivalences (`*`). If a file has
more than ten types that end in a number (`Ada_Lovelace-3`, as in LitBank), these are names of chains, not types.

Counted and left out: annotations with a gap (their words are not one span) or over several lines, relations and roles
between two lines, attributes of relations, notes (`#`) and normalisations (N). A document has only annotations that
occur in it. An empty `.ann` says nothing, so that its texts have none. BioNLP's `.a1` and `.a2` are read as one file.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.formats.lines import is_pre_tokenised
from lamina.corpora.reading import Fault, Line, Notes, Report, head_lines, raise_fault, read_lines
from lamina.corpora.tokenising import Split, split_words
from lamina.errors import FormatError
from lamina.files.reading import read_regular
from lamina.types import Edge, Span, Text

# The lines of BRAT's standoff files (`.ann`): text-bound annotations, relations, events, attributes, equivalences.

LINE = re.compile(r"(?:[TREAMNX]\d\S*|#\S*|\*)\t.*")
"""Any line of such a file."""
_BOUND = re.compile(r"(?P<type>\S+) (?P<places>\d{1,9} \d{1,9}(?:;\d{1,9} \d{1,9})*)")
_NAMED = re.compile(r"([^\s:]+):(\S+)")


@dataclass(frozen=True, slots=True)
class BratSpan:
    """A text-bound annotation (T): a type and where it is."""

    id: str
    type: str
    places: tuple[tuple[int, int], ...]
    """Character ranges: several if it has a gap."""


@dataclass(frozen=True, slots=True)
class BratRelation:
    """A relation (R), or a role of an event (E): two annotations and what connects them."""

    id: str
    label: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class BratAttribute:
    """An attribute (A) or modification (M) of an annotation."""

    id: str
    name: str
    target: str
    value: str | None


@dataclass
class BratAnnotations:
    """The annotations of one document."""

    bound: dict[str, BratSpan] = field(default_factory=dict)
    events: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Event -> its type and its trigger."""
    roles: list[BratRelation] = field(default_factory=list)
    relations: list[BratRelation] = field(default_factory=list)
    attributes: list[BratAttribute] = field(default_factory=list)
    equivalences: list[tuple[str, ...]] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    """Ids of notes and normalisations."""

    def anchor(self, id: str) -> str:
        """The text-bound annotation of an id: itself, or the trigger of an event."""
        return self.events[id][1] if id in self.events else id

    def is_empty(self) -> bool:
        """Whether nothing is annotated."""
        return not self.bound and not self.ignored


def parse(path: Path, lines: Iterable[Line], text: str, report: Report) -> BratAnnotations:
    """The annotations of a document with this text; every line that does not fit is a fault.

    Example:
        >>> from lamina.corpora.reading import raise_fault
        >>> lines = [Line(1, "T1\\tPer 0 3\\tAda"), Line(2, "A1\\tAlive T1")]
        >>> annotations = parse(Path("a.ann"), lines, "Ada left.", raise_fault)
        >>> annotations.bound["T1"].places, annotations.attributes[0].name
        (((0, 3),), 'Alive')
    """
    annotations = BratAnnotations()
    used: list[tuple[int, str]] = []
    for line in lines:
        if not line.text.strip():
            continue
        id, tab, rest = line.text.partition("\t")
        try:
            if not tab or not LINE.fullmatch(line.text):
                raise _BratLineError(
                    f"{line.text[:40]!r} is not an annotation", "an id such as T1, R1 or E1, and a tab"
                )
            used += [(line.number, target) for target in _ADD[id[0]](annotations, id, rest, text)]
        except _BratLineError as error:
            report(Fault(path, line.number, error.what, error.expected))
    for number, target in used:
        if target not in annotations.bound and target not in annotations.events:
            report(Fault(path, number, f"it points at {target}", "the id of a T or an E in the same file"))
    return annotations


class _BratLineError(Exception):
    def __init__(self, what: str, expected: str) -> None:
        super().__init__(what)
        self.what, self.expected = what, expected


def _add_bound(annotations: BratAnnotations, id: str, rest: str, text: str) -> list[str]:
    fields = rest.split("\t")
    match = _BOUND.fullmatch(fields[0].strip())
    if match is None or len(fields) < 2:
        raise _BratLineError(f"{id} is {rest[:40]!r}", "a type, a start, an end, a tab and the text between them")
    places = tuple(_range(part) for part in match["places"].split(";"))
    quoted = "\t".join(fields[1:])
    there = " ".join(text[start:end] for start, end in places)
    if any(start >= end or end > len(text) for start, end in places):
        raise _BratLineError(f"{id} is at {match['places']}", f"a range within the {len(text)} characters of the text")
    if there.split() != quoted.split():
        what = f"{id}: characters {match['places']} of the text are {there[:40]!r}"
        raise _BratLineError(what, f"{quoted[:40]!r} there, counted in Unicode characters from 0, line breaks included")
    if not there.strip():
        raise _BratLineError(f"{id} covers white space only", "at least one word")
    if id in annotations.bound:
        raise _BratLineError(f"a second {id}", "an id of its own")
    annotations.bound[id] = BratSpan(id, match["type"], _joined(places, text))
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


def _add_relation(annotations: BratAnnotations, id: str, rest: str, _text: str) -> list[str]:
    name, *arguments = rest.split() or [""]
    ends = [match[2] for argument in arguments if (match := _NAMED.fullmatch(argument))]
    if len(ends) != 2 or len(arguments) != 2:
        raise _BratLineError(f"{id} is {rest[:40]!r}", "a type and two arguments, as in Located Arg1:T1 Arg2:T2")
    annotations.relations.append(BratRelation(id, name, *ends))
    return ends


def _add_event(annotations: BratAnnotations, id: str, rest: str, _text: str) -> list[str]:
    parts = [_NAMED.fullmatch(part) for part in rest.split()]
    named = [(match[1], match[2]) for match in parts if match is not None]
    if not named or len(named) != len(parts) or id in annotations.events:
        raise _BratLineError(
            f"{id} is {rest[:40]!r}", "TYPE:trigger and ROLE:argument, as in Merge:T2 Org:T1; one per id"
        )
    (kind, trigger), *arguments = named
    annotations.events[id] = kind, trigger
    annotations.roles += [BratRelation(id, role, trigger, argument) for role, argument in arguments]
    return [trigger, *(argument for _, argument in arguments)]


def _add_attribute(annotations: BratAnnotations, id: str, rest: str, _text: str) -> list[str]:
    parts = rest.split()
    if len(parts) < 2:
        raise _BratLineError(f"{id} is {rest[:40]!r}", "a name and the id it is about, and a value if there is one")
    annotations.attributes.append(BratAttribute(id, parts[0], parts[1], " ".join(parts[2:]) or None))
    # A relation may have one too; it has no words of its own.
    return [] if parts[1].startswith("R") else [parts[1]]


def _add_equivalence(annotations: BratAnnotations, id: str, rest: str, _text: str) -> list[str]:
    _, *members = rest.split() or [""]
    if len(members) < 2:
        raise _BratLineError(f"{id} {rest[:40]!r}", "a type and two ids or more, as in Alias T1 T2")
    annotations.equivalences.append(tuple(members))
    return members


def _ignore(annotations: BratAnnotations, id: str, _rest: str, _text: str) -> list[str]:
    annotations.ignored.append(f"{id}-{len(annotations.ignored) + 1}")
    return []


_ADD: dict[str, Callable[[BratAnnotations, str, str, str], list[str]]] = {
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


_ENDINGS = (".ann", ".a1")
_CHAIN = re.compile(r".+-\d+")
_MANY = 10
"""Types that end in a number, from which on they are names of chains."""
_NO_VALUE = "true"
_TOKEN = re.compile(r"\S+")
EMPTY = "documents with an empty .ann (no annotation, as far as the file shows)"
CUT = "texts with a word that is cut where an annotation starts or ends inside it"
GAPS = "annotations with a gap, left out"
LINES = "annotations over several lines, left out"
APART = "relations or roles whose two sides are not in one line, or one of them is left out"
IGNORED = "notes, normalisations and attributes of relations, left out"
CHAINS = "documents whose numbered types are read as names of chains"


def looks_like(path: Path) -> bool:
    """Whether the file is `.ann` (or `.a1`) and its lines are BRAT's; an empty one is what the others beside it are."""
    if path.suffix.lower() not in _ENDINGS or not path.is_file():
        return False
    lines = first_lines(path)
    return all(LINE.fullmatch(line) for line in lines)


def first_lines(path: Path) -> list[str]:
    """The first lines of a file, or of the first file beside it with the same ending that is not empty."""
    for file in (path, *sorted(path.parent.glob(f"*{path.suffix}"))):
        if lines := [line for line in head_lines(file) if line.strip()]:
            return lines
    return []


def companions(path: Path) -> tuple[Path, ...]:
    """The text, and the second file of annotations if there is one."""
    others = [path.with_suffix(".txt"), *([path.with_suffix(".a2")] if path.suffix == ".a1" else [])]
    return tuple(other for other in others if other.is_file())


def read(path: Path, report: Report = raise_fault, noted: Notes | None = None) -> Iterator[Text]:
    """One text per line of the document; a document with a fault is left out.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "d.ann"
        >>> _ = path.with_suffix(".txt").write_text("Ada Lovelace met Babbage.")
        >>> _ = path.write_text("T1\\tPer 0 12\\tAda Lovelace\\nT2\\tPer 17 24\\tBabbage\\nR1\\tMet Arg1:T1 Arg2:T2\\n")
        >>> text = next(read(path))
        >>> text.words, text.edges["rel"][0].other
        (('Ada', 'Lovelace', 'met', 'Babbage', '.'), Span(start=3, end=4))
    """
    faults: list[Fault] = []
    text = read_text(path.with_suffix(".txt"), faults.append)
    files = (path, *(other for other in companions(path) if other.suffix == ".a2"))
    lines = [line for file in files for line in read_lines(file, faults.append) if line is not None]
    annotations = parse(path, lines, text, faults.append) if text is not None else BratAnnotations()
    for fault in faults:
        report(fault)
    if not faults and text is not None:
        whole = is_pre_tokenised(text)
        yield from _BratDocument(path.stem, text, annotations, noted or Notes()).texts(whole)


def read_text(path: Path, report: Report) -> str | None:
    """The text of a document, line breaks as they are, since offsets count them; None after a fault."""
    if not path.is_file():
        report(Fault(path, 0, "file not found", "the text beside its annotations"))
        return None
    try:
        return read_regular(path).decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"byte 0x{error.object[error.start]:02x} at position {error.start + 1} is not UTF-8"
        report(Fault(path, 0, what, "text saved as UTF-8"))
        return None


class _BratPlace(NamedTuple):
    """Where an annotation is."""

    line: int
    start: int
    end: int
    """In characters of the document."""


class _BratDocument:
    """One document: its lines, and its annotations placed in them."""

    def __init__(self, name: str, text: str, annotations: BratAnnotations, noted: Notes) -> None:
        self.name, self.text, self.annotations, self.noted = name, text, annotations, noted
        lines = text.split("\n")
        self.starts = [0, *accumulate(len(line) + 1 for line in lines)]
        self.places = {id: place for id in annotations.bound if (place := self._place(id)) is not None}
        numbered = {one.type for one in annotations.bound.values() if _CHAIN.fullmatch(one.type)}
        self.chain_types = numbered if len(numbered) > _MANY else set[str]()

    def _place(self, id: str) -> _BratPlace | None:
        places = self.annotations.bound[id].places
        (start, end), *more = places
        line = bisect_right(self.starts, start) - 1
        if more or end > self.starts[line + 1]:
            self.noted.add(GAPS if more else LINES, f"{self.name}:{id}", self.name)
            return None
        return _BratPlace(line, start, end)

    def texts(self, at_spaces: bool) -> Iterator[Text]:
        if self.annotations.is_empty():
            self.noted.add(EMPTY, self.name)
        if self.chain_types:
            self.noted.add(CHAINS, self.name)
        for id in self.annotations.ignored:
            self.noted.add(IGNORED, f"{self.name}:{id}", self.name)
        edges = self._edges()
        cuts: defaultdict[int, set[int]] = defaultdict(set)
        for place in self.places.values():
            cuts[place.line] |= {place.start, place.end}
        for number, (start, end) in enumerate(pairwise(self.starts)):
            line = self.text[start : end - 1]
            split, cut = _words(line, [position - start for position in cuts[number]], at_spaces)
            if not split.words:
                continue
            id = f"{self.name}-{number + 1}"
            if cut:
                self.noted.add(CUT, id, self.name)
            yield Text(
                id,
                split.words,
                edges={name: _placed(per_line.get(number, ()), split, start) for name, per_line in edges.items()},
                doc=self.name,
                glued=split.glued,
            )

    def _edges(self) -> dict[str, dict[int, list[_BratEdge]]]:
        """Annotation -> line -> its edges, in characters."""
        annotations = self.annotations
        triggers = {trigger for _, trigger in annotations.events.values()}
        spans: list[tuple[str, str, str]] = []
        for id, one in annotations.bound.items():
            if one.type in self.chain_types:
                spans.append(("chains", one.type, id))
            elif id not in triggers:
                spans.append(("ner", one.type, id))
        spans += [("event", kind, trigger) for kind, trigger in annotations.events.values()]
        spans += [("chains", chain, id) for chain, id in _chains(annotations.equivalences)]
        for one in annotations.attributes:
            if one.target in annotations.bound or one.target in annotations.events:
                spans.append((f"attribute_{one.name.lower()}", one.value or _NO_VALUE, one.target))
            else:
                self.noted.add(IGNORED, f"{self.name}:{one.id}", self.name)
        edges: dict[str, dict[int, list[_BratEdge]]] = {}
        for name, label, id in spans:
            per_line = edges.setdefault(name, {})
            if (place := self.places.get(annotations.anchor(id))) is not None:
                per_line.setdefault(place.line, []).append(_BratEdge(label, place))
        for name, pairs in (("rel", annotations.relations), ("event_role", annotations.roles)):
            for pair in pairs:
                self._add_pair(edges.setdefault(name, {}), pair)
        return edges

    def _add_pair(self, per_line: dict[int, list[_BratEdge]], pair: BratRelation) -> None:
        first, second = (self.places.get(self.annotations.anchor(id)) for id in (pair.first, pair.second))
        if first is None or second is None or first.line != second.line:
            self.noted.add(APART, f"{self.name}:{pair.id}:{pair.label}:{pair.second}", self.name)
        else:
            per_line.setdefault(first.line, []).append(_BratEdge(pair.label, first, second))


class _BratEdge(NamedTuple):
    """An edge, in characters."""

    label: str
    place: _BratPlace
    other: _BratPlace | None = None


def _placed(sketches: Iterable[_BratEdge], split: Split, start: int) -> tuple[Edge, ...]:
    def span(place: _BratPlace) -> Span:
        words = split.span(place.start - start, place.end - start)
        if words is None:
            raise FormatError(f"characters {place.start} to {place.end} hold no word")
        return words

    edges = [Edge((one.label,), span(one.place), span(one.other) if one.other else None) for one in sketches]
    return tuple(sorted(edges, key=lambda edge: (edge.span.start, -edge.span.end)))


def _words(line: str, cuts: Sequence[int], at_spaces: bool) -> tuple[Split, bool]:
    """The words of a line, and whether one of them is cut."""
    whole = _at_spaces(line, ()) if at_spaces else split_words(line)
    starts = [start for start, _ in whole.offsets]
    words = ((cut, bisect_left(starts, cut) - 1) for cut in cuts)
    if not any(index >= 0 and cut < whole.offsets[index][1] for cut, index in words):
        return whole, False
    return (_at_spaces(line, cuts) if at_spaces else split_words(line, cuts)), True


def _at_spaces(line: str, cuts: Sequence[int]) -> Split:
    bounds = sorted({0, len(line), *(cut for cut in cuts if 0 < cut < len(line))})
    offsets = tuple(match.span() for start, end in pairwise(bounds) for match in _TOKEN.finditer(line, start, end))
    return Split(tuple(line[start:end] for start, end in offsets), offsets)


def _chains(equivalences: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Chain and member; equivalences that share a member are one chain."""
    chain_of: dict[str, list[str]] = {}
    for members in equivalences:
        shared = {id(chain): chain for member in members if (chain := chain_of.get(member)) is not None}
        # The smaller chains join the largest, so that a member moves seldom.
        largest = max(shared.values(), key=len, default=[])
        for chain in shared.values():
            if chain is not largest:
                largest += chain
                chain_of |= dict.fromkeys(chain, largest)
        for member in members:
            if member not in chain_of:
                largest.append(member)
                chain_of[member] = largest
    chains = {id(chain): chain for chain in chain_of.values()}
    for number, chain in enumerate(chains.values(), start=1):
        yield from ((str(number), member) for member in chain)
