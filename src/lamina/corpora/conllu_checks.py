"""What can be wrong with a sentence in CoNLL-U."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.faults import Fault

COLUMNS = 10
_ID = re.compile(r"(\d+)(?:([-.])(\d+))?")
_EXPECTED_HEAD = "the number of another word of the sentence, or 0 for the root"


class Row(NamedTuple):
    """One line of a sentence, split at tabs."""

    line: int
    cells: Sequence[str]

    @property
    def is_word(self) -> bool:
        """Neither a multi-word token's line nor an empty node."""
        return self.cells[0].isdigit()

    @property
    def is_range(self) -> bool:
        """The line of a multi-word token."""
        return "-" in self.cells[0]

    @property
    def form(self) -> str:
        return self.cells[1]

    @property
    def head(self) -> str:
        return self.cells[6]

    @property
    def relation(self) -> str:
        return self.cells[7]


def check(path: Path, line: int, rows: Sequence[Row]) -> Iterator[Fault]:
    """Every fault of a sentence that starts at `line`; those of the tree only once its rows are sound.

    Example:
        >>> [fault.what for fault in check(Path("a.conllu"), 1, [Row(1, ["1", "Dogs"])])]
        ['2 columns']
    """
    if not rows:
        yield Fault(path, line, "a sentence without words", "at least one line of ten columns after the comments")
        return
    faults = [*_check_columns(path, rows)]
    faults = faults or [*_check_ids(path, rows)]
    yield from faults
    words = [row for row in rows if row.is_word]
    if not faults and any(row.head != "_" for row in words):
        faults = [*_check_heads(path, words)]
        yield from faults or _check_tree(path, words)


def _check_columns(path: Path, rows: Sequence[Row]) -> Iterator[Fault]:
    for row in rows:
        if len(row.cells) != COLUMNS:
            yield Fault(path, row.line, f"{len(row.cells)} columns", f"{COLUMNS} columns separated by tabs")
        elif "" in row.cells:
            what = f"column {list(row.cells).index('') + 1} is empty"
            yield Fault(path, row.line, what, "a value, or _ where there is none")


def _check_ids(path: Path, rows: Sequence[Row]) -> Iterator[Fault]:
    last = empty = covered = 0
    for row in rows:
        match = _ID.fullmatch(row.cells[0])
        if match is None:
            yield Fault(path, row.line, f"id {row.cells[0]!r}", "a number, a range such as 2-3, or an empty node (8.1)")
            return
        first, mark, second = int(match[1]), match[2], int(match[3] or 0)
        if mark == "-":
            fits, covered, expected = covered < first == last + 1 <= second, second, f"a range from word {last + 1}"
        elif mark == ".":
            fits, empty, expected = (first, second) == (last, empty + 1), second, f"{last}.{empty + 1}"
        else:
            fits, expected, last, empty = first == last + 1, str(last + 1), first, 0
        if not fits:
            yield Fault(path, row.line, f"id {row.cells[0]} does not follow the one before it", expected)
            return
    if last == 0:
        yield Fault(path, rows[0].line, "a sentence without words", "at least one word beside empty nodes")
    elif covered > last:
        yield Fault(path, rows[-1].line, f"a multi-word token up to word {covered}", f"one within the {last} words")


def _check_heads(path: Path, words: Sequence[Row]) -> Iterator[Fault]:
    for row in words:
        if not row.head.isdecimal():
            yield Fault(path, row.line, f"head {row.head!r} is not a number", _EXPECTED_HEAD)
        elif int(row.head) > len(words):
            yield Fault(path, row.line, f"head {row.head} lies outside the {len(words)} words", _EXPECTED_HEAD)
        elif row.relation == "_":
            yield Fault(path, row.line, "a head without a relation", "a relation such as nsubj in column 8")


def _check_tree(path: Path, words: Sequence[Row]) -> Iterator[Fault]:
    roots = [row for row in words if row.head == "0"]
    if len(roots) != 1:
        line = roots[1].line if roots else words[0].line
        yield Fault(path, line, f"{len(roots)} roots" if roots else "no root", "exactly one word with head 0")
    # 0 stands for the root; `sound` are the words known to reach it.
    heads = [0, *(int(row.head) for row in words)]
    sound = {0}
    for row, start in zip(words, range(1, len(heads)), strict=True):
        seen: list[int] = []
        at = start
        while at not in sound and at not in seen:
            seen.append(at)
            at = heads[at]
        if at not in sound:
            yield Fault(path, row.line, f"word {start} is its own ancestor", "a tree: heads that lead to the root")
            return
        sound.update(seen)
