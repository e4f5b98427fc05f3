"""Facts of relations and the patterns that ask for them, in the layouts of ParaRel and of LAMA.

Facts are JSON lines with `sub_label` and `obj_label`, one file per relation (`P36.jsonl`). Patterns are JSON lines
with `pattern` ("The capital of [X] is [Y]."), in a file of the same name; or with `relation` and `template`, all in one
file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.reading import Fault, raise_fault
from lamina.corpora.suites.files import hashes_of, table_rows
from lamina.corpora.tables.files import TableRow
from lamina.errors import CorpusError

_FACT, _PATTERN, _TEMPLATE = (
    frozenset({"sub_label", "obj_label"}), frozenset({"pattern"}), frozenset({"relation", "template"})
)  # fmt: skip
_SUBJECT, _OBJECT = "[X]", "[Y]"
WITHOUT_PATTERNS = "relations without a pattern"
NAMES = {
    "P1001": "applies to jurisdiction", "P101": "field of work", "P103": "native language", "P106": "occupation",
    "P108": "employer", "P127": "owned by", "P1303": "instrument", "P131": "located in", "P136": "genre",
    "P1376": "capital of", "P138": "named after", "P140": "religion", "P1412": "languages spoken",
    "P159": "headquarters", "P17": "country", "P176": "manufacturer", "P178": "developer", "P19": "place of birth",
    "P190": "twin city", "P20": "place of death", "P264": "record label", "P27": "citizenship", "P276": "location",
    "P279": "subclass of", "P30": "continent", "P31": "instance of", "P36": "capital", "P361": "part of",
    "P364": "original language", "P37": "official language", "P39": "position held", "P407": "language of work",
    "P413": "position played", "P449": "original network", "P463": "member of", "P47": "shares border with",
    "P495": "country of origin", "P527": "has part", "P530": "diplomatic relation", "P740": "place of formation",
    "P937": "work location",
}  # fmt: skip
"""Wikidata's properties in LAMA's T-REx, in short."""


class Fact(NamedTuple):
    """A subject, and the object that a relation gives it."""

    subject: str
    object: str

    @property
    def id(self) -> str:
        """Within its relation."""
        return f"{self.subject} -> {self.object}"


class Pattern(NamedTuple):
    """A sentence with a place for the subject and one for the object."""

    before: str
    """The object; the subject may be here as [X] ..."""
    after: str
    """... or here."""

    @property
    def text(self) -> str:
        """As it is written."""
        return f"{self.before}{_OBJECT}{self.after}"

    def of(self, subject: str) -> tuple[str, str]:
        """What comes before the object and what comes after it, for one subject.

        Example:
            >>> Pattern("The capital of [X] is ", ".").of("France")
            ('The capital of France is ', '.')
        """
        return self.before.replace(_SUBJECT, subject), self.after.replace(_SUBJECT, subject)

    @property
    def ends(self) -> bool:
        """Whether nothing but punctuation follows the object.

        Example:
            >>> Pattern("[X] is in ", " .").ends, Pattern("", " is the capital of [X].").ends
            (True, False)
        """
        return not re.search(r"\w", self.after)

    def fits(self, object: str) -> bool:
        """Whether an article right before the object is the one that the object takes.

        Example:
            >>> Pattern("[X] plays an ", ".").fits("piano"), Pattern("[X] is a ", ".").fits("painter")
            (False, True)
        """
        article = self.before.split()[-1:]
        vowel = object[:1].lower() in "aeiou"
        return not ((article == ["a"] and vowel) or (article == ["an"] and not vowel))


@dataclass(frozen=True)
class Relation:
    """One relation: its facts, and the patterns that ask for their objects."""

    id: str
    name: str
    """In words; the id where it is not known."""
    facts: tuple[Fact, ...] = field(repr=False)
    patterns: tuple[Pattern, ...] = field(repr=False)

    @cached_property
    def objects(self) -> Counter[str]:
        """Every object of the relation, and how many facts have it."""
        return Counter(fact.object for fact in self.facts)

    @cached_property
    def objects_of(self) -> dict[str, set[str]]:
        """Subject -> its objects: some have several."""
        objects: dict[str, set[str]] = {}
        for fact in self.facts:
            objects.setdefault(fact.subject, set()).add(fact.object)
        return objects


@dataclass(frozen=True)
class Relations:
    """The relations of a suite that have patterns."""

    name: str
    fingerprint: str
    relations: tuple[Relation, ...] = field(repr=False)
    files: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """File name -> sha256."""
    left_out: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    """Why something is not among them -> how many times."""

    def describe(self) -> dict[str, Any]:
        """What provenance says of it."""
        about = {"name": self.name, "fingerprint": self.fingerprint, "split": "", "files": dict(self.files)}
        facts, patterns = (
            sum(len(getattr(relation, what)) for relation in self.relations) for what in ("facts", "patterns")
        )
        return about | {"relations": len(self.relations), "facts": facts, "patterns": patterns}


def holds(columns: frozenset[str]) -> bool:
    """Whether a table with these columns holds facts or patterns; one that gives answers is a suite of its own."""
    return "answer" not in columns and any(needed <= columns for needed in (_FACT, _PATTERN, _TEMPLATE))


def read(name: str, root: Path, files: Iterable[Path], left_out: Mapping[str, int]) -> Relations:
    """The relations whose facts and patterns are in these files."""
    files = list(files)
    facts: dict[str, tuple[Fact, ...]] = {}
    patterns: dict[str, list[Pattern]] = {}
    names: dict[str, str] = {}
    counted = Counter(left_out)
    for path in files:
        rows = list(table_rows(path, "facts or patterns"))
        columns = frozenset(map(str, rows[0].values))
        if columns >= _FACT:
            if path.stem in facts:
                raise CorpusError(f"{root} has two files of facts called {path.name}; name the folder that is meant")
            every = [_fact(path, row) for row in rows]
            facts[path.stem] = tuple(dict.fromkeys(every))
            counted["facts that are duplicates"] += len(every) - len(facts[path.stem])
        else:
            for id, pattern, label in _patterns(path, rows):
                patterns.setdefault(id, []).append(pattern)
                names |= {id: label} if label else {}
    relations = [
        Relation(id, names.get(id) or NAMES.get(id, id), relation_facts, tuple(dict.fromkeys(patterns[id])))
        for id, relation_facts in facts.items()
        if id in patterns
    ]
    if not relations:
        missing = "patterns ({'pattern': '[X] ... [Y].'})" if facts else "facts ({'sub_label': ..., 'obj_label': ...})"
        raise CorpusError(f"{root} has no {missing} for its relations; expected files of both with the same names")
    counted[WITHOUT_PATTERNS] = len(facts) - len(relations)
    counted["relations without a fact"] = len(patterns.keys() - facts.keys())
    hashes = hashes_of(root, files)
    return Relations(name, fingerprint_of("relations 1", hashes), tuple(relations), hashes, dict(+counted))


def _fact(path: Path, row: TableRow) -> Fact:
    cells = [str(row.values.get(column) or "").strip() for column in ("sub_label", "obj_label")]
    if not all(cells):
        raise_fault(Fault(path, row.number, "no subject or no object", "sub_label and obj_label"))
    return Fact(*cells)


def _patterns(path: Path, rows: Iterable[TableRow]) -> Iterator[tuple[str, Pattern, str]]:
    """Relation, pattern, and the relation's name where the file has it."""
    for row in rows:
        text = str(row.values.get("pattern") or row.values.get("template") or "")
        for slot in (_SUBJECT, _OBJECT):
            if text.count(slot) != 1:
                raise_fault(
                    Fault(path, row.number, f"{text.count(slot) or 'no'} {slot} in {text[:80]!r}", f"one {slot}")
                )
        before, _, after = text.partition(_OBJECT)
        id = str(row.values.get("relation") or path.stem) if "template" in row.values else path.stem
        yield id, Pattern(before, after), str(row.values.get("label") or "")
