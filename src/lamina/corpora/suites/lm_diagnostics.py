"""Ettinger's psycholinguistic diagnostics, in the layout of their TSV files.

CPRAG: a context of two sentences, the expected word and two that do not fit. ROLE: a pair of contexts whose roles are
reversed (`61-a`, `61-b`), the words people expect, and a target that fits the first. NEG: an affirmative and a negative
context, and the word that is true in each; `(a|an)` is the article that the word takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lamina.corpora.corpus import fingerprint_of, sample_of_each
from lamina.corpora.reading import Fault, raise_fault
from lamina.corpora.suites.files import hashes_of, table_rows
from lamina.corpora.tables.files import TableRow
from lamina.errors import CorpusError

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


def holds(columns: frozenset[str]) -> bool:
    """Whether a table with these columns is one of the diagnostics."""
    return any(needed <= columns for needed in (_COMPLETIONS, _ROLES, _NEGATIONS))


def read(name: str, root: Path, files: Iterable[Path], left_out: Mapping[str, int]) -> Diagnostics:
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
