"""Tables as text: CSV, TSV and their relatives, with or without a header, read one row at a time.

The delimiter (tab, comma, semicolon or vertical bar) is the one that splits the first lines into the same number of
cells. Quotes enclose cells, which may then contain delimiters and line breaks, except in tab-separated files whose
lines split evenly without them: there a quotation mark is part of the text, as in the GLUE benchmark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from lamina.corpora.reading import Fault, Line, Report, head_lines, read_lines
from lamina.corpora.rows import is_column_name

_DELIMITERS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "vertical bars"}
_SAMPLE = 1 << 16
"""Bytes inspected to find the layout; if not even one line ends there, `_LONGEST_LINE`."""
_LONGEST_LINE = 1 << 24
_MOST_LINES = 10_000
"""Lines of one quoted cell; a quotation mark that is never closed would take in the rest of the file."""
_EVEN, _EVEN_BELOW_NAMES = 0.9, 0.5
"""Share of the rows that have as many cells as the first, in a table; the others are faults. The second number is for
tables whose first row clearly names the columns."""
_LONGEST_BLOCK = 100
"""Rows between two blank lines, on average, if these mean anything."""
_RUNNING = 3
"""Spaces per cell, on average, in a column of running text."""
_LONGEST_NAME = 60
"""Characters of a column's name."""
_END = Line(0, "")
"""After the last line."""


LONGEST_CELL = 10_000_000
"""Characters of a cell, in a table of any kind."""


class Row(NamedTuple):
    """One row of a table."""

    number: int
    """The line it starts on, counted from 1; the number of the row in a file without lines."""
    values: dict[str, Any]
    """Column -> cell."""
    after_blank: bool = False
    """Whether a blank line comes before it."""


class Layout(NamedTuple):
    """How a file is divided into cells."""

    delimiter: str
    quoted: bool
    columns: tuple[str, ...]
    """The names in the header; the columns' numbers, from 1, if there is no header."""
    header: bool
    sample: tuple[tuple[str, ...], ...]
    """The first rows, without the header."""
    blocks: bool
    """Whether blank lines separate groups of rows."""

    @property
    def separator(self) -> str:
        """The delimiter in words."""
        return _DELIMITERS[self.delimiter]


def layout_of(path: Path, header: bool | None = None) -> Layout | None:
    """How a file is divided into cells; None if it is not a table. `header` overrides whether it has one.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.csv"
        >>> _ = path.write_text('text,label\\n"Dogs, too, bark",1\\nCats do not,0\\n')
        >>> found = layout_of(path)
        >>> found.columns, found.separator, found.sample[0]
        (('text', 'label'), 'commas', ('Dogs, too, bark', '1'))
    """
    lines = head_lines(path, _SAMPLE) or head_lines(path, _LONGEST_LINE)
    if not lines or "\0" in lines[0] or "\r" in lines[0]:
        return None
    found = max((_Attempt.of(lines, *way) for way in _ways(lines)), key=_Attempt.merit, default=None)
    if found is None or not found.is_table:
        return None
    first, *rest = found.records
    has_header = _is_header(first, rest) if header is None else header
    if not has_header and (not rest or (found.delimiter != "\t" and _is_prose(lines, found.delimiter))):
        return None
    columns = unique_names(first) if has_header else unique_names([""] * len(first))
    kept = tuple(tuple(cells) for cells in (rest if has_header else found.records) if len(cells) == len(first))
    if not has_header and sum(any(map(str.strip, cells)) for cells in zip(*kept, strict=True)) < 2:
        # Indented lines: nothing but white space before the delimiter.
        return None
    return Layout(found.delimiter, found.quoted, columns, has_header, kept, _in_blocks(lines))


def rows_of(path: Path, layout: Layout, report: Report) -> Iterator[Row]:
    """The rows of a table; one with too few or too many cells is a fault."""
    size = len(layout.columns)
    pending = layout.header
    for record in _records(read_lines(path, report), layout.delimiter, layout.quoted):
        if record.wrong:
            report(Fault(path, record.number, record.wrong, "cells of text, whole or in quotation marks"))
        elif pending:
            pending = False
        elif len(record.cells) != size:
            what = f"{len(record.cells)} columns"
            expected = f"{size} columns separated by {layout.separator}, as in the first line"
            report(Fault(path, record.number, what, expected))
        else:
            yield Row(record.number, dict(zip(layout.columns, record.cells, strict=False)), record.after_blank)


class _Record(NamedTuple):
    number: int
    cells: list[str]
    after_blank: bool
    wrong: str = ""


def _records(lines: Iterable[Line | None], delimiter: str, quoted: bool) -> Iterator[_Record]:
    """The cells of each row, which may extend over several lines."""
    coming = iter(lines)
    blank = False
    while (line := next(coming, _END)) is not _END:
        if line is None:
            continue
        if not line.text.strip(" "):
            blank = True
        elif "\0" in line.text:
            yield _Record(line.number, [], blank, "a NUL byte")
        elif not quoted or '"' not in line.text:
            cells = line.text.split(delimiter)
            yield _Record(line.number, cells, blank, _too_long(cells) if len(line.text) > LONGEST_CELL else "")
            blank = False
        else:
            record, unused = _quoted_record(line, coming, delimiter)
            # The lines that an unclosed quotation mark took in are rows of their own.
            coming = chain(unused, coming) if unused else coming
            yield record._replace(after_blank=blank)
            blank = False


def _quoted_record(line: Line, following: Iterator[Line | None], delimiter: str) -> tuple[_Record, list[Line]]:
    """The row that starts on this line, and the lines that were looked at but belong to other rows."""
    cells: list[str] = []
    taken: list[Line] = []
    text, at = line.text, 0
    while True:
        if text.startswith('"', at):
            parts: list[str] = []
            at += 1
            while (end := _closing(text, at)) < 0:
                parts.append(text[at:])
                further = next(following, _END)
                if further is _END or len(taken) > _MOST_LINES:
                    more = [] if further is None or further is _END else [further]
                    return _Record(line.number, [], False, "a quotation mark is opened and never closed"), taken + more
                # A line that cannot be read has been reported; the rest of its cell is kept.
                text, at = ("", 0) if further is None else (further.text, 0)
                taken += [] if further is None else [further]
            parts.append(text[at:end])
            cells.append("\n".join(parts).replace('""', '"'))
            at = end + 1
            if at < len(text) and not text.startswith(delimiter, at):
                return _Record(line.number, [], False, "text after a closing quotation mark"), taken
        else:
            end = text.find(delimiter, at)
            cells.append(text[at:] if end < 0 else text[at:end])
            at = len(text) if end < 0 else end
        if at >= len(text):
            return _Record(line.number, cells, False, _too_long(cells)), []
        at += 1


def _too_long(cells: Iterable[Any]) -> str:
    """What is wrong with a row that has a very long cell; empty if it has none."""
    longest = max((len(cell) for cell in cells if isinstance(cell, str)), default=0)
    return f"a cell of {longest:,} characters, more than {LONGEST_CELL:,}" if longest > LONGEST_CELL else ""


def without_long_cells(rows: Iterable[Row], path: Path, report: Report) -> Iterator[Row]:
    """The rows of a table that is not divided by delimiters; one with a very long cell is a fault."""
    for row in rows:
        if wrong := _too_long(row.values.values()):
            report(Fault(path, row.number, wrong, "texts of reasonable length"))
        else:
            yield row


def _closing(text: str, at: int) -> int:
    """Where the quotation mark is that closes a cell, doubled ones skipped; -1 if it is not on this line."""
    while (found := text.find('"', at)) >= 0:
        if not text.startswith('"', found + 1):
            return found
        at = found + 2
    return -1


class _Attempt(NamedTuple):
    """The first lines, divided in one way."""

    delimiter: str
    quoted: bool
    records: list[list[str]]
    faults: int

    @classmethod
    def of(cls, lines: Sequence[str], delimiter: str, quoted: bool) -> _Attempt:
        numbered = (Line(number, text) for number, text in enumerate(lines, start=1))
        records = list(_records(numbered, delimiter, quoted))
        if len(records) > 1 and records[-1].wrong:
            # The sample may end inside a cell.
            records.pop()
        sound = [record.cells for record in records if not record.wrong]
        return cls(delimiter, quoted, sound, len(records) - len(sound))

    @property
    def is_table(self) -> bool:
        if not self.records or len(self.records[0]) < 2:
            return False
        return self._evenness >= (_EVEN_BELOW_NAMES if _names_columns(self.records[0]) else _EVEN)

    @property
    def _evenness(self) -> float:
        """The share of rows with as many cells as the first."""
        widths = Counter(map(len, self.records))
        return widths[len(self.records[0])] / (widths.total() + self.faults) if self.records else 0.0

    def merit(self) -> tuple[bool, float]:
        return self.is_table, round(self._evenness, 2)


def _ways(lines: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Delimiters with and without quotes, the preferred ones first."""
    joined = "\n".join(lines)
    for delimiter in _DELIMITERS:
        if delimiter in joined:
            if delimiter == "\t":
                yield from [("\t", True), ("\t", False)] if _has_escapes(lines) else [("\t", False), ("\t", True)]
            else:
                yield delimiter, True


def _has_escapes(lines: Sequence[str]) -> bool:
    """Whether cells seem to be quoted by a program: marks are doubled in some, and all that open are closed."""
    attempt = _Attempt.of(lines, "\t", True)
    doubled = any('""' in cell and cell.strip().startswith('"') for line in lines for cell in line.split("\t"))
    return doubled and not attempt.faults


def _names_columns(cells: Sequence[str]) -> bool:
    """Whether some cells are what columns are usually called."""
    known = sum(map(is_column_name, cells))
    # In running text a comma is followed by a space, and then by any word.
    return known > 1 or (known == 1 and not any(cell.startswith(" ") for cell in cells))


def _is_header(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names the columns: short and different names, unlike the cells below them."""
    names = [name.strip() for name in first]
    if any(len(name) > _LONGEST_NAME for name in names):
        return False
    if _names_columns(first):
        return True
    below = [cells for cells in rest if len(cells) == len(names)]
    if not below or len(set(names)) < len(names) or any(map(_is_number, names)):
        return False
    return any(_differs(name, [cells[at] for cells in below]) for at, name in enumerate(names)) and not any(
        " " in name and name[-1:] in ".!?" for name in names
    )


def _differs(name: str, cells: Sequence[str]) -> bool:
    """Whether a name stands above numbers, or is one word above running text."""
    spaces = sum(cell.strip().count(" ") for cell in cells)
    return all(map(_is_number, cells)) or (" " not in name and spaces >= _RUNNING * len(cells))


def _is_prose(lines: Sequence[str], mark: str) -> bool:
    """Whether a mark is followed by a space, as in running text, more often than not."""
    joined = "\n".join(lines)
    return 2 * joined.count(f"{mark} ") > joined.count(mark)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Column names without a repetition; a column without a name is called by its number.

    Example:
        >>> unique_names(["", "text", "text"])
        ('1', 'text', 'text (2)')
    """
    times: Counter[str] = Counter()
    found = []
    for number, name in enumerate((name.strip() for name in names), start=1):
        times[name] += 1
        found.append(str(number) if not name else name if times[name] == 1 else f"{name} ({times[name]})")
    return tuple(found)


def _in_blocks(lines: Sequence[str]) -> bool:
    """Whether blank lines separate groups of rows, rather than each row or the end."""
    stripped = [line.strip() for line in lines]
    while stripped and not stripped[-1]:
        stripped.pop()
    blank = sum(not line for line in stripped)
    rows = len(stripped) - blank
    return _LONGEST_BLOCK * blank > rows > 1.5 * blank > 0
