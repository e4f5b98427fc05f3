"""Lists that a table holds as text: `['a', 'b']`, `["a", "b"]`, or words and their tags between spaces."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lamina.corpora.cells import is_list, missing
from lamina.corpora.rows import Plan
from lamina.files.reading import check_depth, parse_json

_STRING = r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+\""""
_STRINGS = re.compile(rf"\[\s*(?:(?:{_STRING})\s*,?\s*)*+\]", re.DOTALL)
_ONE = re.compile(_STRING, re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_LONGEST = 1_000_000
"""Characters of a list."""
_FITTING = 0.9
"""Share of the rows with one tag per word; the others are faults."""
_REPEATED = 0.5
"""Most different tags per tag, for words between spaces to be tags."""


@dataclass(frozen=True)
class Lists:
    """The columns whose cells are lists, written as text."""

    written: frozenset[str] = frozenset()
    """As JSON or as Python and NumPy print them."""
    spaced: frozenset[str] = frozenset()
    """As words between spaces."""

    @classmethod
    def of(cls, columns: Sequence[str], sample: Sequence[Mapping[str, Any]]) -> Lists:
        """The columns whose cells in the first rows are lists."""
        return cls(frozenset(column for column in columns if _all_lists([row.get(column) for row in sample])))

    def apply_all(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Rows with their lists as lists; those that have a cell that is none are left out."""
        found = []
        for row in rows:
            with suppress(ValueError):
                found.append(self.apply(row))
        return found

    def apply(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row with its lists as lists; a ValueError says which cell is none."""
        if not self.written and not self.spaced:
            return dict(row)
        return {column: self._cell(column, cell) for column, cell in row.items()}

    def _cell(self, column: str, cell: Any) -> Any:
        if not isinstance(cell, str) or not cell.strip():
            return cell
        if column in self.spaced:
            return cell.split()
        return list_in(cell) if column in self.written else cell

    def tagged_texts(self, plan: Plan, sample: Sequence[Mapping[str, Any]]) -> frozenset[str]:
        """The column of running text, and those of its tags, if there is one tag per word between spaces."""
        if plan.layout != "texts" or plan.split or len(plan.texts) != 1:
            return frozenset()
        text = plan.texts[0]
        others = [name for name in (*(label.name for label in plan.labels), *plan.unused) if name != text]
        tagged = [name for name in others if _are_tags(name, text, sample)]
        return frozenset([text, *(name for name in tagged if name not in self.written)]) if tagged else frozenset()


def list_in(cell: str) -> list[Any]:
    """The list that is written in a cell; a ValueError says that there is none.

    Example:
        >>> list_in("['Dogs' 'bark']"), list_in('["NOUN", "VERB"]'), list_in("[{'start': 0}]")
        (['Dogs', 'bark'], ['NOUN', 'VERB'], [{'start': 0}])
    """
    cell = cell.strip()
    try:
        found = parse_json(cell)
    except ValueError:
        found = _as_python(cell)
    if not isinstance(found, list):
        raise ValueError(f"{cell[:60]!r} is not a list")
    return found


def _as_python(cell: str) -> Any:
    if len(cell) > _LONGEST:
        raise ValueError(f"a list of {len(cell):,} characters")
    if _SURROGATE.search(cell):
        raise ValueError(f"{cell[:60]!r} contains an unpaired surrogate")
    try:
        if _STRINGS.fullmatch(cell):
            # NumPy leaves the commas out; Python would join such strings.
            return [ast.literal_eval(one) for one in _ONE.findall(cell)]
        check_depth(cell)
        return ast.literal_eval(cell)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        raise ValueError(f"{cell[:60]!r} is not a list") from None


def _all_lists(cells: Sequence[Any]) -> bool:
    held = [cell for cell in cells if not missing(cell)]
    if not held or not all(isinstance(cell, str) and cell.strip()[:1] == "[" for cell in held):
        return False
    # A few that are no lists are faults of their rows.
    return 2 * sum(map(_is_list, held)) > len(held)


def _is_list(cell: str) -> bool:
    try:
        list_in(cell)
    except ValueError:
        return False
    return True


def _are_tags(name: str, text: str, sample: Sequence[Mapping[str, Any]]) -> bool:
    """Whether there is one tag per word in (almost) every row, and the same tags come again and again."""
    pairs = [(row.get(text), row.get(name)) for row in sample if not missing(row.get(text))]
    tags: list[Any] = [cell.split() if isinstance(cell, str) else cell for _, cell in pairs]
    if not pairs or not all(is_list(cell) and all(isinstance(tag, str | int) for tag in cell) for cell in tags):
        return False
    counts = [len(str(words).split()) for words, _ in pairs]
    fitting = sum(len(cell) == count for cell, count in zip(tags, counts, strict=True))
    if fitting < _FITTING * len(counts) or sum(counts) < 2 * len(counts):
        return False
    flat = [tag for cell in tags for tag in cell]
    return len(set(flat)) <= _REPEATED * len(flat)
