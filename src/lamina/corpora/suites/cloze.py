"""Cloze suites: texts with one slot and what belongs into it, psycholinguistic diagnostics, and facts of relations.

Your own table (TSV, CSV or JSONL) has one text per row, with one slot written `[MASK]`, `<mask>`, `[Y]` or `___`,
and a column `answer`. `read_cloze` recognises two other layouts by what is in their files.

Ettinger's diagnostics, TSV files. CPRAG: a context of two sentences, the expected word and two that do not fit. ROLE: a
pair of contexts whose roles are reversed (`61-a`, `61-b`), the words people expect, and a target that fits the first.
NEG: an affirmative and a negative context, and the word that is true in each; `(a|an)` is the article that the word
takes.

Facts as in ParaRel and LAMA: JSON lines with `sub_label` and `obj_label`, one file per relation (`P36.jsonl`). Patterns
are JSON lines with `pattern` ("The capital of [X] is [Y]."), in a file of the same name; or with `relation` and
`template`, all in one file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lamina.corpora.corpus import fingerprint_of, first_of_each, sample_of_each
from lamina.corpora.reading import Fault, raise_fault
from lamina.corpora.suites.files import first_row, hashes_of, suite_root, table_files, table_rows
from lamina.corpora.tables.files import TableRow
from lamina.errors import CorpusError

SLOT = re.compile(r"\[MASK\]|<mask>|\[Y\]|_{3,}")
"""Where the answer goes."""
_TEXT = ("text", "sentence", "cloze", "prompt", "context", "query", "masked_sentence", "pattern")
"""What the column with the slot may be called."""
_COLUMNS = "a column with a text that has one slot ([MASK], [Y] or ___), and a column 'answer'"


class Cloze(NamedTuple):
    """A text with one slot."""

    id: str
    """Within its part."""
    part: str
    before: str
    after: str
    answers: tuple[str, ...]
    """What is right; the first is the usual one."""
    candidates: tuple[str, ...]
    """The candidates that the answers are compared with, themselves included; empty for the whole vocabulary."""

    @property
    def item(self) -> str:
        """Equal for the same text whatever the model."""
        return f"{self.part}/{self.id}"


@dataclass(frozen=True)
class Clozes:
    """Texts with a slot each, in the order of their files.

    Example:
        >>> suite = clozes_from([("Paris is in ___ .", "France"), ("A [MASK] barks.", "dog|puppy")], name="own")
        >>> suite.items[1].answers, suite.items[0].after
        (('dog', 'puppy'), ' .')
    """

    name: str
    fingerprint: str
    items: tuple[Cloze, ...] = field(repr=False)
    files: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """File name -> sha256."""
    left_out: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    """Why something is not among the items -> how many times."""

    def describe(self) -> dict[str, Any]:
        """What provenance says of it."""
        about = {"name": self.name, "fingerprint": self.fingerprint, "split": "", "files": dict(self.files)}
        return about | {"items": len(self.items), "parts": len({cloze.part for cloze in self.items})}

    def take(self, limit: int) -> Clozes:
        """The first items of every part; the others are counted in `left_out`."""
        first = first_of_each(self.items, limit, lambda cloze: cloze.part)
        return self._with(first, f"items beyond the first {limit:,} of a part", "take", limit)

    def sample(self, limit: int, seed: int = 0) -> Clozes:
        """At most `limit` items of every part, drawn at random; the others are counted in `left_out`."""
        drawn = sample_of_each(self.items, limit, lambda cloze: cloze.part, lambda cloze: cloze.item, seed)
        return self._with(drawn, f"items not drawn: {limit:,} of a part were", "sample", limit, seed)

    def _with(self, numbers: Sequence[int], why: str, *how: Any) -> Clozes:
        if len(numbers) == len(self.items):
            return self
        left_out = {**self.left_out, why: len(self.items) - len(numbers)}
        items = tuple(self.items[number] for number in numbers)
        return replace(self, items=items, fingerprint=fingerprint_of(self.fingerprint, *how), left_out=left_out)


def read_cloze(name_or_path: str | Path) -> Clozes | Diagnostics | Relations:
    """A cloze suite by name, or a file or folder in any of the layouts; recognised by the columns of its files.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.tsv"
        >>> _ = path.write_text("text\\tanswer\\nParis is the capital of ___.\\tFrance\\n")
        >>> read_cloze(path).items[0].item
        'own/2'
    """
    root = suite_root(name_or_path)
    files = table_files(root)
    name = str(name_or_path)
    # Files without a header or with notes only belong to no layout.
    columns = {path: frozenset(map(str, first_row(path).values)) for path in files}
    for in_layout, read in ((_is_diagnostics, _read_diagnostics), (_is_relations, _read_relations)):
        if chosen := [path for path in files if in_layout(columns[path])]:
            others = len(files) - len(chosen)
            return read(name, root, chosen, {"files in another layout": others} if others else {})
    items = tuple(cloze for path in files for cloze in _read(path))
    if not items:
        raise CorpusError(f"{root} holds no text with a slot; expected a table with {_COLUMNS}")
    hashes = hashes_of(root, files)
    return Clozes(name, fingerprint_of("clozes 1", hashes), items, hashes)


def clozes_from(rows: Iterable[tuple[str, str] | Cloze], name: str = "clozes") -> Clozes:
    """Clozes in memory: `Cloze`s, or pairs of a text with a slot and its answer (alternatives with `|`).

    Example:
        >>> clozes_from([("Paris is in France.", "France")])
        Traceback (most recent call last):
        lamina.errors.FormatError: clozes:1: no slot in 'Paris is in France.'; expected one [MASK], [Y] or ___
    """
    items = []
    for number, row in enumerate(rows, start=1):
        if isinstance(row, Cloze):
            items.append(row)
        else:
            items.append(_cloze(TableRow(number, {"text": row[0], "answer": row[1]}), "text", Path(name), name))
    return Clozes(name, fingerprint_of("clozes", items), tuple(items))


def _read(path: Path) -> Iterator[Cloze]:
    """The texts of one file, checked."""
    rows = iter(table_rows(path, _COLUMNS))
    first = next(rows, None)
    if first is None:
        return
    column = _text_column(first, path)
    lines: dict[str, int] = {}
    for row in (first, *rows):
        cloze = _cloze(row, column, path, path.stem)
        if cloze.item in lines:
            what = f"a second text {cloze.id!r} of part {cloze.part!r} (the first is at line {lines[cloze.item]})"
            raise_fault(Fault(path, row.number, what, "each id once in a part"))
        lines[cloze.item] = row.number
        yield cloze


def _text_column(row: TableRow, path: Path) -> str:
    """The column that holds the slot: by its name, or the only one with a slot."""
    named = {str(name).strip().lower(): str(name) for name in row.values}
    if "answer" not in named:
        there = ", ".join(map(str, row.values)) or "none"
        raise_fault(Fault(path, 1, f"no column 'answer' (the columns are: {there[:200]})", f"{_COLUMNS}, and a header"))
    if column := next((named[name] for name in _TEXT if name in named), None):
        return column
    slotted = [str(name) for name, cell in row.values.items() if isinstance(cell, str) and SLOT.search(cell)]
    if len(slotted) != 1:
        what = f"{len(slotted) or 'no'} columns with a slot" if slotted else "no column with a slot"
        raise_fault(Fault(path, row.number, what, _COLUMNS))
    return slotted[0]


def _cloze(row: TableRow, column: str, path: Path, part: str) -> Cloze:
    cells = {str(name).strip().lower(): value for name, value in row.values.items()}
    text = str(row.values.get(column) or "")
    before, after = split_slot(text, path, row.number)
    answers = _alternatives(cells.get("answer"))
    if not answers:
        raise_fault(Fault(path, row.number, "no answer", "what belongs into the slot; alternatives separated by |"))
    offered = _alternatives(cells.get("candidates"))
    candidates = tuple(dict.fromkeys((*answers, *offered))) if offered else ()
    if offered and len(candidates) == len(answers):
        raise_fault(Fault(path, row.number, "all candidates are answers", "candidates to tell the answer from"))
    return Cloze(
        _name(cells.get("id")) or str(row.number), _name(cells.get("part")) or part, before, after, answers, candidates
    )


def split_slot(text: str, path: Path, line: int, slot: re.Pattern[str] = SLOT) -> tuple[str, str]:
    """What comes before the slot of a text and what comes after it; anything but one slot is a fault."""
    slots = list(slot.finditer(text))
    if len(slots) != 1:
        what = f"{len(slots)} slots in {text[:80]!r}" if slots else f"no slot in {text[:80]!r}"
        raise_fault(Fault(path, line, what, "one [MASK], [Y] or ___"))
    return text[: slots[0].start()], text[slots[0].end() :]


def _alternatives(cell: Any) -> tuple[str, ...]:
    """Texts separated by `|`, or a JSON list of them."""
    parts = cell if isinstance(cell, list) else _name(cell).split("|")
    return tuple(dict.fromkeys(part for text in parts if (part := _name(text))))


def _name(cell: Any) -> str:
    return "" if cell is None or (isinstance(cell, float) and cell != cell) else str(cell).strip()


Polarity = Literal["affirmative", "negative"]
_COMPLETIONS = frozenset({"context_s2", "expected", "within_category", "between_category"})
_ROLES = frozenset({"context", "expected", "target"})
_NEGATIONS = frozenset({"context_aff", "context_neg", "target_aff", "target_neg"})
_CONSTRAINTS = {"H": "high", "L": "low"}
_LICENSED = {"Y": True, "N": False}
_ARTICLE = re.compile(r"\((a\|an|an\|a)\)")
_CHOICE = re.compile(r"\([^()]*\|[^()]*\)")


class Completion(NamedTuple):
    """A context with a word that people expect, and two that they do not."""

    id: str
    context: str
    expected: str
    within: str
    """Of the expected word's category."""
    between: str
    """Of another category."""
    constraint: str
    """high or low: how strongly people expect the expected word."""


class RolePair(NamedTuple):
    """Two contexts in which the roles of two nouns are reversed."""

    id: str
    good: str
    """The context that the target fits."""
    reversed: str
    target: str
    expected_good: tuple[str, ...]
    """What people say after `good`."""
    expected_reversed: tuple[str, ...]


class Negation(NamedTuple):
    """A statement and its negation, and the word with which each is true."""

    id: str
    affirmative: str
    negative: str
    true_affirmative: str
    true_negative: str
    licensed: bool | None
    """Whether people would say it so; None where the file does not tell."""

    def context(self, polarity: Polarity, word: str) -> str:
        """The context before a word, with the article that the word takes.

        Example:
            >>> item = Negation("0", "An ant is (a|an)", "An ant is not (a|an)", "insect", "tool", None)
            >>> item.context("negative", "tool"), item.context("affirmative", "insect")
            ('An ant is not a', 'An ant is an')
        """
        context = self.affirmative if polarity == "affirmative" else self.negative
        return _ARTICLE.sub("an" if word[:1].lower() in "aeiou" else "a", context)


@dataclass(frozen=True)
class Diagnostics:
    """The items of the diagnostics, by part (file)."""

    name: str
    fingerprint: str
    parts: Mapping[str, tuple[Completion, ...] | tuple[RolePair, ...] | tuple[Negation, ...]] = field(repr=False)
    files: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """File name -> sha256."""
    left_out: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    """Why something is not among the items -> how many times."""

    def describe(self) -> dict[str, Any]:
        """What provenance says of it."""
        about = {"name": self.name, "fingerprint": self.fingerprint, "split": "", "files": dict(self.files)}
        return about | {"items": sum(map(len, self.parts.values())), "parts": len(self.parts)}

    def take(self, limit: int) -> Diagnostics:
        """The first items of every part; the others are counted in `left_out`."""
        first = {name: range(min(limit, len(items))) for name, items in self.parts.items()}
        return self._with(first, f"items beyond the first {limit:,} of a part", "take", limit)

    def sample(self, limit: int, seed: int = 0) -> Diagnostics:
        """At most `limit` items of every part, drawn at random; the others are counted in `left_out`."""
        drawn = {
            name: sample_of_each(items, limit, lambda _: "", lambda item: item.id, seed)
            for name, items in self.parts.items()
        }
        return self._with(drawn, f"items not drawn: {limit:,} of a part were", "sample", limit, seed)

    def _with(self, numbers: Mapping[str, Sequence[int]], why: str, *how: Any) -> Diagnostics:
        parts: dict[str, Any] = {
            name: tuple(self.parts[name][number] for number in some) for name, some in numbers.items()
        }
        fewer = sum(map(len, self.parts.values())) - sum(map(len, parts.values()))
        if not fewer:
            return self
        fingerprint = fingerprint_of(self.fingerprint, *how)
        return replace(self, parts=parts, fingerprint=fingerprint, left_out={**self.left_out, why: fewer})


def _is_diagnostics(columns: frozenset[str]) -> bool:
    """Whether a table with these columns is one of the diagnostics."""
    return any(needed <= columns for needed in (_COMPLETIONS, _ROLES, _NEGATIONS))


def _read_diagnostics(name: str, root: Path, files: Iterable[Path], left_out: Mapping[str, int]) -> Diagnostics:
    """The diagnostics in these files, one part per file, called by the file's name."""
    parts: dict[str, Any] = {}
    files = list(files)
    for path in files:
        rows = list(table_rows(path, "the columns of a diagnostic"))
        if path.stem in parts:
            raise CorpusError(f"{root} has two files {path.name}; each part of the diagnostics needs a name of its own")
        parts[path.stem] = _items(path, rows)
    hashes = hashes_of(root, files)
    return Diagnostics(name, fingerprint_of("lm_diagnostics 1", hashes), parts, hashes, dict(left_out))


def _items(path: Path, rows: list[TableRow]) -> tuple[Any, ...]:
    columns = frozenset(map(str, rows[0].values))
    if columns >= _COMPLETIONS:
        return tuple(_completion(path, row) for row in rows)
    if columns >= _NEGATIONS:
        return tuple(_negation(path, row) for row in rows)
    return _role_pairs(path, rows)


def _completion(path: Path, row: TableRow) -> Completion:
    contexts = (str(row.values.get(column) or "").strip() for column in ("context_s1", "context_s2"))
    context = " ".join(context_part for context_part in contexts if context_part)
    expected, within, between = (
        _cell(path, row, column) for column in ("expected", "within_category", "between_category")
    )
    constraint = str(row.values.get("constraint") or "").strip()
    constraint = _CONSTRAINTS.get(constraint.upper()[:1], constraint)
    return Completion(_id(row), context, expected, within, between, constraint)


def _negation(path: Path, row: TableRow) -> Negation:
    affirmative, negative = (_cell(path, row, column) for column in ("context_aff", "context_neg"))
    for context in (affirmative, negative):
        if _CHOICE.search(_ARTICLE.sub("", context)):
            raise_fault(Fault(path, row.number, f"a choice in {context!r}", "no choice but (a|an)"))
    licensed = _LICENSED.get(str(row.values.get("licensing") or "").strip().upper()[:1])
    targets = (_cell(path, row, column) for column in ("target_aff", "target_neg"))
    return Negation(_id(row), affirmative, negative, next(targets), next(targets), licensed)


def _role_pairs(path: Path, rows: Iterable[TableRow]) -> tuple[RolePair, ...]:
    by_item: dict[str, dict[str, TableRow]] = {}
    for row in rows:
        id, dash, condition = _id(row).rpartition("-")
        if not dash or condition not in ("a", "b"):
            raise_fault(Fault(path, row.number, f"item {_id(row)!r}", "NUMBER-a or NUMBER-b"))
        if condition in by_item.setdefault(id, {}):
            raise_fault(Fault(path, row.number, f"a second item {_id(row)!r}", "each item once"))
        by_item[id][condition] = row
    pairs = []
    for id, both in by_item.items():
        if len(both) < 2:
            row = next(iter(both.values()))
            raise_fault(Fault(path, row.number, f"item {_id(row)!r} has no partner", "items in pairs, -a and -b"))
        good, reversed = both["a"], both["b"]
        target = _cell(path, good, "target").split()[0]
        contexts = (_cell(path, good, "context"), _cell(path, reversed, "context"))
        pairs.append(RolePair(id, *contexts, target, _expected(path, good), _expected(path, reversed)))
    return tuple(pairs)


def _expected(path: Path, row: TableRow) -> tuple[str, ...]:
    """What people say; of an answer in several words, the first is what comes next."""
    return tuple(answer.split()[0] for answer in _cell(path, row, "expected").split("|") if answer.split())


def _id(row: TableRow) -> str:
    return str(row.values.get("item") or row.number - 2).strip()


def _cell(path: Path, row: TableRow, column: str) -> str:
    text = str(row.values.get(column) or "").strip()
    if not text:
        raise_fault(Fault(path, row.number, f"nothing in column {column!r}", "text"))
    return text


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


def _is_relations(columns: frozenset[str]) -> bool:
    """Whether a table with these columns holds facts or patterns; one that gives answers is a suite of its own."""
    return "answer" not in columns and any(needed <= columns for needed in (_FACT, _PATTERN, _TEMPLATE))


def _read_relations(name: str, root: Path, files: Iterable[Path], left_out: Mapping[str, int]) -> Relations:
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
