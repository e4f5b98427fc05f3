"""Which columns a CoNLL-2012 file has, and which of them are annotated: found in one pass over the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from lamina.corpora.reading import Line, whole_number

WORD, POS, PARSE, LEMMA, FRAMESET, ENTITIES, ROLES = 3, 4, 5, 6, 7, 10, 11
_LEAST = 12
"""Columns of a sentence without predicates in OntoNotes."""
_BLANK = frozenset({"", "-", "_"})
_COLUMN_OF = {"pos": POS, "const": PARSE, "ner": ENTITIES}
_NUMBERED = 20
"""Sentences that show which column holds the number of the word."""


def is_blank(cell: str) -> bool:
    """Whether a cell says nothing.

    Example:
        >>> is_blank("_"), is_blank(""), is_blank("*")
        (True, True, False)
    """
    return cell in _BLANK


class Layout(NamedTuple):
    """The columns of one file."""

    dropped: int
    """Empty cells at the end of every row."""
    full: bool
    """Whether these are the columns of OntoNotes, not some of them."""
    width: int
    """Number of columns, where `full` does not hold."""
    number: int | None
    """The column with the number of the word."""
    first: int
    """The number of the first word."""
    running: bool
    """Whether numbers run on through a document instead of starting again in each sentence."""
    word: int
    annotated: frozenset[str]
    starred_entities: bool
    """Whether entities are written `(PER*`, `*`, `*)`; otherwise `(PER`, `_`, `PER)`."""
    unknown: frozenset[int]
    """Columns that are neither those of OntoNotes nor empty."""
    unbroken: bool
    """Whether every document is one block of rows."""

    def cells(self, row: str) -> list[str]:
        """The cells of a row."""
        cells = _cells(row)
        return cells[: len(cells) - self.dropped]

    def fits(self, width: int) -> bool:
        """Whether a row may have so many columns."""
        return width >= _LEAST if self.full else width == self.width

    @property
    def widths(self) -> str:
        """The number of columns that `fits`, in words."""
        return f"at least {_LEAST}" if self.full else f"{self.width}, as in most lines of the file"

    def said(self) -> Iterator[str]:
        """What a reader of the file should know, to be noted for each of its documents."""
        names = [*_COLUMN_OF, "srl", "chains"] if self.full else ["chains"]
        if absent := [name for name in names if name not in self.annotated]:
            yield f"documents without {', '.join(absent)} (columns that are empty in the whole file)"
        if self.unknown:
            columns = ", ".join(str(at + 1) for at in sorted(self.unknown))
            yield f"documents with columns of unknown content, which are not read (column {columns})"
        if self.unbroken:
            yield "documents without sentence breaks (each is one text)"


def survey(sentences: Iterable[Sequence[Line]]) -> Layout:
    """The layout of a file, given its sentences.

    Example:
        >>> layout = survey([[Line(1, "d\\t0\\t0\\tAda\\t_\\t(1)"), Line(2, "d\\t0\\t1\\tleft\\t_\\t")]])
        >>> layout.full, layout.word, layout.width, sorted(layout.annotated)
        (False, 3, 6, ['chains'])
    """
    seen = _Seen()
    for lines in sentences:
        seen.add(lines)
    return seen.layout()


class _Seen:
    """What the rows of a file have shown so far."""

    def __init__(self) -> None:
        self.rows = self.sentences = 0
        self.widths: Counter[int] = Counter()
        self.filled: set[int] = set()
        """Columns with a cell that is not blank, from the left, and the last two as -1 and -2."""
        self.starred: set[int] = set()
        """Columns with a star, from the left; coreference never has one."""
        self.has_end = False
        """Whether the last cell of any row is not empty."""
        self.sample: list[list[list[str]]] = []

    def add(self, lines: Sequence[Line]) -> None:
        rows = [_cells(line.text) for line in lines]
        self.sentences += 1
        self.rows += len(rows)
        self.widths.update(map(len, rows))
        if len(self.sample) < _NUMBERED:
            self.sample.append(rows)
        for row in rows:
            self.has_end |= row[-1] != ""
            self.filled.update(at for at, cell in enumerate(row) if cell not in _BLANK)
            self.filled.update(at for at in (-1, -2) if len(row) > 1 and row[at] not in _BLANK)
            self.starred.update(at for at, cell in enumerate(row[:-1]) if "*" in cell)

    def layout(self) -> Layout:
        dropped = int(not self.has_end and -2 in self.filled)
        widths = {width - dropped: count for width, count in self.widths.items()}
        full = 2 * sum(count for width, count in widths.items() if width >= _LEAST) > self.rows
        width = max(widths, key=lambda each: widths[each], default=0)
        number = 2 if full else _number_column(self.sample, width)
        word = WORD if full else 0 if number is None else number + 1
        # The number of columns varies with that of predicates; where it does, each of them is known.
        known = width if full and len(widths) > 1 else ROLES if full else word + 1
        extra = range(known, width - 1)
        first, running = _counting(self.sample, number)
        return Layout(
            dropped=dropped,
            full=full,
            width=width,
            number=number,
            first=first,
            running=running,
            word=word,
            annotated=self._annotated(full, dropped),
            starred_entities=ENTITIES in self.starred,
            unknown=frozenset(at for at in extra if at in self.filled and not (full and at in self.starred)),
            unbroken=running and self.sentences == 1 and self.rows > 1,
        )

    def _annotated(self, full: bool, dropped: int) -> frozenset[str]:
        found = {"chains"} if -1 - dropped in self.filled else set[str]()
        if full:
            found |= {name for name, at in _COLUMN_OF.items() if at in self.filled}
            predicates = LEMMA in self.filled or FRAMESET in self.filled
            found |= {"srl"} if predicates or any(at >= ROLES for at in self.starred) else set()
        return frozenset(found)


def _cells(row: str) -> list[str]:
    """Columns are separated by tabs, so that a cell can be empty, or else by spaces."""
    return [cell.strip() for cell in row.split("\t")] if "\t" in row else row.split()


def _number_column(sentences: Sequence[Sequence[Sequence[str]]], width: int) -> int | None:
    """The first column that counts the words of every sentence."""
    long = [rows for rows in sentences if len(rows) > 1 and all(len(row) == width for row in rows)]
    for at in range(min(3, width - 1)):
        if long and all(_counts([row[at] for row in rows]) for rows in long):
            return at
    if not long and width > 4:
        return 2
    return None


def _counts(cells: Sequence[str]) -> bool:
    numbers = [whole_number(cell) for cell in cells]
    return all(a is not None and b == a + 1 for a, b in pairwise(numbers))


def _counting(sentences: Sequence[Sequence[Sequence[str]]], number: int | None) -> tuple[int, bool]:
    """The first number, and whether the numbers run on from one sentence to the next."""
    spans = [(_start(rows, number), len(rows)) for rows in sentences]
    known = [(start, size) for start, size in spans if start is not None]
    if not known:
        return 0, False
    follows = (start + size == after for (start, size), (after, _) in pairwise(known))
    return min(known[0][0], 1), len(known) == 1 or any(follows)


def _start(rows: Sequence[Sequence[str]], number: int | None) -> int | None:
    """The number of a sentence's first word, if it has one."""
    return None if number is None or number >= len(rows[0]) else whole_number(rows[0][number])
