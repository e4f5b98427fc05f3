"""Tables: CSV, TSV, JSON lines, JSON lists, Parquet, Arrow. One text per row, one word per row, or one span per row.

Which column is what is decided by `lamina.corpora.tables.columns`, from the columns' names and the first rows. A user
says it with `table:NAME=COLUMN,...` in place of the format's name: `table:text=review,label=stars`. `text`, `text2`
(the second of a pair), `words`, `word`, `id`, `doc`, `start` and `end` say what a column is; any other name is an
annotation. A column may be given by its number, from 1. `header=no` and `header=yes` say whether the first line of a
text file names the columns.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from lamina.corpora.entities import TAG
from lamina.corpora.reading import Fault, Notes, Report, raise_fault
from lamina.corpora.tables.columns import (
    SAMPLED,
    TablePlan,
    is_list,
    merged,
    missing,
    plan_table,
    survey,
    text_of,
)
from lamina.corpora.tables.files import (
    ArrowKind,
    DelimitedLayout,
    TableRow,
    arrow_kind,
    arrow_rows,
    class_names,
    column_types,
    delimited_rows,
    fractions,
    is_lines,
    json_rows,
    json_sample,
    layout_of,
    list_of,
    schema_of,
    uneven,
    without_long_cells,
)
from lamina.corpora.tokenising import words_in
from lamina.errors import CorpusError
from lamina.files.reading import check_depth, parse_json
from lamina.types import Text

# Lists that a table holds as text: `['a', 'b']`, `["a", "b"]`, or words and their tags between spaces.

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
class ListColumns:
    """The columns whose cells are lists, written as text."""

    written: frozenset[str] = frozenset()
    """As JSON or as Python and NumPy print them."""
    spaced: frozenset[str] = frozenset()
    """As words between spaces."""

    @classmethod
    def of(cls, columns: Sequence[str], sample: Sequence[Mapping[str, Any]]) -> ListColumns:
        """The columns whose cells in the first rows are lists."""
        return cls(frozenset(column for column in columns if _all_lists([row.get(column) for row in sample])))

    def apply_all(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Rows with their lists as lists; those that have a cell that is none are left out."""
        converted = []
        for row in rows:
            with suppress(ValueError):
                converted.append(self.apply(row))
        return converted

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

    def tagged_texts(self, plan: TablePlan, sample: Sequence[Mapping[str, Any]]) -> frozenset[str]:
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
        value = parse_json(cell)
    except ValueError:
        value = _as_python(cell)
    if not isinstance(value, list):
        raise ValueError(f"{cell[:60]!r} is not a list")
    return value


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
    present = [cell for cell in cells if not missing(cell)]
    if not present or not all(isinstance(cell, str) and cell.strip()[:1] == "[" for cell in present):
        return False
    # A few that are no lists are faults of their rows.
    return 2 * sum(map(_is_list, present)) > len(present)


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


# From rows to texts.

BLOCK = "sentence_id"
"""The column that is added where blank lines separate sentences: the number of the sentence."""
_SAMPLED_CHARACTERS = 16_000_000
"""Characters that are looked at to decide what columns hold."""
_NAMED = 12
"""Columns that are named in a message."""


class _ReadRows(Protocol):
    def __call__(self, report: Report, columns: Sequence[str] | None = None) -> Iterator[TableRow]: ...


@dataclass(frozen=True)
class TableFile:
    """A file of rows, before it is decided what its columns hold."""

    path: Path
    make: str
    """What kind of file it is, in words."""
    columns: tuple[str, ...]
    rows: _ReadRows
    """The rows; where columns are named, at least these."""
    classes: Mapping[str, tuple[str, ...]]
    """Column -> names of its classes, where the file holds them."""
    graded: tuple[str, ...] = ()
    """The columns whose type says that they hold numbers with a fraction."""
    obvious: Mapping[str, str] | None = None
    """What the columns hold, in a file without a header where their content shows it."""
    named: bool = True
    """Whether the file names its columns."""
    blocks: bool = False
    """Whether blank lines separate groups of rows; these then have a column `BLOCK`."""

    def sample(self, size: int = SAMPLED) -> tuple[list[dict[str, Any]], bool]:
        """The first rows that can be read, fewer if they are very long; whether these are all."""
        rows: list[dict[str, Any]] = []
        characters = 0
        for row in self.rows(_ignored):
            if len(rows) == size or characters > _SAMPLED_CHARACTERS:
                return rows, False
            rows.append(row.values)
            characters += sum(len(cell) for cell in row.values.values() if isinstance(cell, str))
        return rows, True

    def in_words(self) -> str:
        """What it is, for messages."""
        named = ", ".join(self.columns[:_NAMED]) + (", ..." if len(self.columns) > _NAMED else "")
        return f"{self.make} with {len(self.columns)} columns ({named})"


class PlannedTable:
    """A table of which it is known what its columns hold."""

    def __init__(self, table: TableFile, chosen: Mapping[str, str], sampled: int) -> None:
        self._table = table
        if table.blocks and not table.named and not chosen:
            raise CorpusError("blank lines separate groups of rows, so a row may be a word; say which, as word=COLUMN")
        columns = (*table.columns, BLOCK) if table.blocks else table.columns
        wanted = {name: _by_number(column, table) for name, column in chosen.items() if name != "header"}
        sample, complete = table.sample(sampled)
        whole = None
        if not complete and sampled >= SAMPLED:
            # The first rows of a sorted table have one label, and rare values, and columns of JSON, come late.
            seen = survey((row.values for row in table.rows(_ignored)), sample)
            whole, sample = seen.values, [*sample, *seen.telling]
        columns = tuple(dict.fromkeys([*columns, *(column for row in sample for column in row)]))
        self._lists = ListColumns.of(columns, sample)
        sample = self._lists.apply_all(sample)
        make = partial(
            plan_table,
            columns,
            values=whole,
            classes=table.classes,
            graded=table.graded,
            chosen=wanted or table.obvious or None,
        )
        plan = make(sample)
        texts = self._lists.tagged_texts(plan, sample)
        if texts:
            # Running text with as many tags as it has words between spaces is split there.
            self._lists = replace(self._lists, spaced=texts)
            plan = make(self._lists.apply_all(sample))
        # Blank lines mean nothing unless a row is a word.
        self.plan: TablePlan = _without_blocks(plan) if table.blocks and plan.layout != "words" else plan
        self.tags = _iob_columns(plan, sample, table.classes)

    def read(self, report: Report, noted: Notes, unlabelled: bool = True) -> Iterator[Text]:
        """The texts of all rows; what is not used is noted, and so are texts without a label, or they are faults."""
        path = self._table.path
        for note in self.plan.notes():
            noted.add_file(note, path.name)
        annotations = [label.annotation for label in self.plan.labels]
        for line, text in self._texts(report):
            if len(text.edges) == len(annotations):
                yield text
                continue
            bare = [annotation for annotation in annotations if annotation not in text.edges]
            if not unlabelled:
                report(Fault(path, line, f"an empty {bare[0]}", "a label in every row"))
                continue
            for annotation in bare:
                noted.add(f"texts without {annotation}", text.id, text.doc)
            yield text

    def _texts(self, report: Report) -> Iterator[tuple[int, Text]]:
        """The texts of all rows, each with its line; those that cannot be used are faults."""
        path, plan, stem = self._table.path, self.plan, self._table.path.stem
        for line, row in self._lined(report):
            try:
                text = text_of(row, plan, f"{stem}-{line}")
            except (CorpusError, TypeError, ValueError, OverflowError, AttributeError) as error:
                report(Fault(path, line, str(error), "a text with its labels in every row"))
            else:
                yield line, text

    def _lined(self, report: Report) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """One row per text, with the line of the first row it was made of."""
        if self.plan.layout == "texts":
            yield from self._rows(report)
            return
        lines: dict[int, int] = {}
        for number, row in merged(self._numbered(report, lines), self.plan):
            yield lines[number], row
            # The rows of the texts before are done with.
            for done in [earlier for earlier in lines if earlier <= number]:
                del lines[done]

    def _numbered(self, report: Report, lines: dict[int, int]) -> Iterator[Mapping[str, Any]]:
        for number, (line, row) in enumerate(self._rows(report), start=1):
            lines[number] = line
            yield row

    def _rows(self, report: Report) -> Iterator[tuple[int, Mapping[str, Any]]]:
        path, lists = self._table.path, self._lists
        has_lists = bool(lists.written or lists.spaced)
        for number, values, _ in self._table.rows(report, self._columns()):
            try:
                row = lists.apply(values) if has_lists else values
            except ValueError as error:
                report(Fault(path, number, str(error), "a list, as in the rows before"))
            else:
                yield number, row

    def _columns(self) -> list[str]:
        plan = self.plan
        wanted = [*plan.texts, *(label.name for label in plan.labels), plan.id, plan.doc, *(plan.ends or ())]
        return [column for column in wanted if column is not None]


def _ignored(_: Fault) -> None:
    """Faults are reported when the rows are read as texts."""


def _without_blocks(plan: TablePlan) -> TablePlan:
    unused = {column: why for column, why in plan.unused.items() if column != BLOCK}
    labels = tuple(label for label in plan.labels if label.name != BLOCK)
    return replace(plan, id=None if plan.id == BLOCK else plan.id, unused=unused, labels=labels)


def _iob_columns(
    plan: TablePlan, sample: Sequence[Mapping[str, Any]], classes: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """The columns of tags that mark where entities begin, but are not called `ner`."""
    columns = []
    for label in plan.labels:
        if label.kind == "tags" and label.annotation != "ner":
            cells = [row.get(label.name) for row in sample]
            given = (tag for cell in cells for tag in (cell if isinstance(cell, list) else [cell]))
            tags = set(classes.get(label.name, ())) or {str(tag) for tag in given if tag is not None}
            if any(tag.startswith("B-") for tag in tags) and all(map(TAG.fullmatch, tags)):
                columns.append(label.name)
    return tuple(columns)


def _by_number(column: str, table: TableFile) -> str:
    """A column given by its number, if none has that name."""
    if column not in table.columns and column.isdecimal() and 0 < int(column[:6]) <= len(table.columns):
        return table.columns[int(column[:6]) - 1]
    return column


_EXAMPLE = "--format 'table:text=COLUMN,label=COLUMN' (text2=COLUMN for the second text of a pair)"
_LOOKED_AT = 200
"""Rows that tell whether a file is a table with texts."""
_LONGEST_REASON = 600
"""Characters of a message; a table may have thousands of columns."""


def open_table(path: Path, header: bool | None = None) -> TableFile | None:
    """The table in a file; None if it is none. `header` overrides whether the first line names the columns.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.csv"
        >>> _ = path.write_text("text;label\\nDogs bark;1\\n")
        >>> open_table(path).in_words()
        'a table separated by semicolons with 2 columns (text, label)'
    """
    if not path.is_file():
        return None
    make = arrow_kind(path)
    if make is not None:
        schema = schema_of(path, make)
        read = partial(_arrow_rows, path, make)
        classes, graded = class_names(schema), fractions(schema)
        return TableFile(path, f"a table in {make}", tuple(column_types(schema)), read, classes, graded)
    where = list_of(path)
    if where is not None or is_lines(path):
        return _json_table(path, where)
    layout = layout_of(path, header)
    if layout is None:
        return None
    obvious = None if layout.header else _obvious(layout)
    blocks = layout.blocks and obvious is None and BLOCK not in layout.columns
    return TableFile(
        path,
        f"a table separated by {layout.separator}",
        layout.columns,
        partial(_delimited_rows, path, layout, blocks),
        {},
        obvious=obvious,
        named=layout.header,
        blocks=blocks,
    )


def _arrow_rows(
    path: Path, make: ArrowKind, report: Report, columns: Sequence[str] | None = None
) -> Iterator[TableRow]:
    return without_long_cells(arrow_rows(path, make, columns, report), path, report)


def _json_table(path: Path, where: str | None) -> TableFile | None:
    columns: dict[str, None] = {}
    for row in json_sample(path, where, _LOOKED_AT):
        columns.update(dict.fromkeys(row))
    kind = "JSON lines" if where is None else "a JSON list"

    def read(report: Report, columns: Sequence[str] | None = None) -> Iterator[TableRow]:  # noqa: ARG001 - as any table
        return without_long_cells(json_rows(path, where, report), path, report)

    return TableFile(path, kind, tuple(columns), read, {}) if columns else None


def _delimited_rows(
    path: Path,
    layout: DelimitedLayout,
    blocks: bool,
    report: Report,
    columns: Sequence[str] | None = None,  # noqa: ARG001 - as any table
) -> Iterator[TableRow]:
    block = 1
    for row in delimited_rows(path, layout, report):
        if blocks:
            block += row.after_blank
            row.values[BLOCK] = str(block)
        yield row


def _obvious(layout: DelimitedLayout) -> Mapping[str, str] | None:
    """One or two columns of running text and one of labels, in a file without a header; None if it is not so clear."""
    texts, labels = [], []
    for index, column in enumerate(layout.columns):
        cells = [cells[index].strip() for cells in layout.sample]
        if sum(len(words_in(cell)) for cell in cells) >= 3 * len(cells):
            texts.append(column)
        elif all(cells) and (2 * len(set(cells)) <= len(cells) or len(cells) < 10):
            labels.append(column)
    if len(labels) != 1 or len(texts) not in (1, 2) or len(texts) + 1 != len(layout.columns):
        return None
    return dict(zip(("text", "text2"), texts, strict=False)) | {"label": labels[0]}


def looks_like(path: Path) -> bool:
    """Whether a file is a table and it is clear which column holds texts."""
    return has_columns(path, {})


def has_columns(path: Path, chosen: Mapping[str, str]) -> bool:
    """Whether a file is a table with the columns that a user named."""
    try:
        table = open_table(path, _header(chosen))
        return table is not None and _planned_at_sight(table, chosen) is not None
    except CorpusError:
        return False


def explain(path: Path, chosen: Mapping[str, str] | None = None) -> str:
    """Which column holds what, in one sentence; empty if the file cannot be read."""
    try:
        planned = _planned(path, chosen or {}, SAMPLED)
    except CorpusError:
        return ""
    if planned is None:
        return ""
    hints = [f"column {column!r} has IOB tags: table:ner={column} reads them as entities" for column in planned.tags]
    return "; ".join([replace(planned.plan, unused={}).in_words(), *hints])


def why_not(path: Path) -> str | None:
    """Why a table cannot be read, and what to do; None if the file is not a table, or can be read."""
    try:
        table = open_table(path)
    except CorpusError as error:
        return str(error)
    if table is None:
        return None
    try:
        _planned_at_sight(table, {})
    except CorpusError as error:
        why = str(error)[:_LONGEST_REASON]
        way = "" if "--format" in why else f": {_EXAMPLE}"
        return f"{path} is {table.in_words()}, and no reader fits: {why}{way}"
    return None


def read(
    path: Path,
    report: Report = raise_fault,
    noted: Notes | None = None,
    chosen: Mapping[str, str] | None = None,
    *,
    own_ids: bool = True,
    unlabelled: bool = True,
) -> Iterator[Text]:
    """The texts of a table; `chosen` says which column is what, as in `plan_table`. What is not used is noted.

    Without `own_ids`, texts are named by their lines, whatever the table calls them. Without `unlabelled`, an empty
    cell in a column of labels is a fault.
    """
    try:
        planned = _planned(path, chosen or {}, SAMPLED)
    except CorpusError as error:
        way = "" if "--format" in str(error) else f", or {_EXAMPLE}"
        report(Fault(path, 0, str(error)[:_LONGEST_REASON], f"columns that hold texts and labels{way}"))
        return
    if planned is None:
        # The path is the fault's already.
        why = (uneven(path) or "no table").removeprefix(f"{path} is ")
        report(Fault(path, 1, why, "columns separated by tabs, commas, semicolons or |; JSON; Parquet; Arrow"))
        return
    if not own_ids:
        planned.plan = replace(planned.plan, id=None)
    yield from planned.read(report, noted or Notes(), unlabelled)


def parse_columns(text: str) -> dict[str, str]:
    """What a user says about the columns, as `NAME=COLUMN,...`.

    Example:
        >>> parse_columns("text=review, rating:value=stars")
        {'text': 'review', 'rating:value': 'stars'}
    """
    chosen: dict[str, str] = {}
    for part in text.split(","):
        name, equals, column = (piece.strip() for piece in part.partition("="))
        if not name or not equals or not column:
            raise CorpusError(f"{part.strip()!r} does not say which column is what; write it as in {_EXAMPLE}")
        if name in chosen:
            raise CorpusError(f"{name} is given two columns, {chosen[name]!r} and {column!r}; give it one")
        chosen[name] = column
    if chosen.get("header", "no") not in ("yes", "no"):
        raise CorpusError(f"header is yes or no, not {chosen['header']!r}")
    return chosen


def _planned(path: Path, chosen: Mapping[str, str], sampled: int) -> PlannedTable | None:
    """The table in a file, planned; None if the file is not a table; CorpusError if its columns are ambiguous."""
    table = open_table(path, _header(chosen))
    return None if table is None else PlannedTable(table, chosen, sampled)


def _header(chosen: Mapping[str, str]) -> bool | None:
    """Whether the first line names the columns, where a user chose that."""
    return {"yes": True, "no": False}.get(chosen.get("header", ""))


def _planned_at_sight(table: TableFile, chosen: Mapping[str, str]) -> PlannedTable:
    """Planned by the first rows; by all of them where a column is empty in the first ones, which may be the texts."""
    try:
        return PlannedTable(table, chosen, _LOOKED_AT)
    except CorpusError:
        first, complete = table.sample(_LOOKED_AT)
        filled = {column for row in first for column, cell in row.items() if not missing(cell)}
        if complete or filled.issuperset(table.columns):
            raise
        return PlannedTable(table, chosen, SAMPLED)
