"""Tables: CSV, TSV, JSON lines, JSON lists, Parquet, Arrow. One text per row, one word per row, or one span per row.

Which column is what is decided by `lamina.corpora.rows`, from the columns' names and the first rows. A user says it
with `table:NAME=COLUMN,...` in place of the format's name: `table:text=review,label=stars`. `text`, `text2` (the second
of a pair), `words`, `word`, `id`, `doc`, `start` and `end` say what a column is; any other name is an annotation. A
column may be given by its number, from 1. `header=no` and `header=yes` say whether the first line of a text file names
the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from lamina.corpora import arrow_tables, delimited, json_tables
from lamina.corpora.delimited import Row
from lamina.corpora.notes import Notes
from lamina.corpora.reading import Fault, Report, raise_fault
from lamina.corpora.rows import SAMPLED
from lamina.corpora.table_plans import BLOCK, Planned, Table
from lamina.corpora.tokenising import words_in
from lamina.errors import CorpusError
from lamina.types import Text

_EXAMPLE = "--format 'table:text=COLUMN,label=COLUMN' (text2=COLUMN for the second text of a pair)"
_LOOKED_AT = 200
"""Rows that tell whether a file is a table with texts."""
_LONGEST_REASON = 600
"""Characters of a message; a table may have thousands of columns."""


def open_table(path: Path, header: bool | None = None) -> Table | None:
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
    make = arrow_tables.make_of(path)
    if make is not None:
        schema = arrow_tables.schema_of(path, make)
        read = partial(_arrow_rows, path, make)
        classes, graded = arrow_tables.class_names(schema), arrow_tables.fractions(schema)
        return Table(path, f"a table in {make}", delimited.unique_names(schema.names), read, classes, graded)
    where = json_tables.list_of(path)
    if where is not None or json_tables.is_lines(path):
        return _json_table(path, where)
    layout = delimited.layout_of(path, header)
    if layout is None:
        return None
    obvious = None if layout.header else _obvious(layout)
    blocks = layout.blocks and obvious is None and BLOCK not in layout.columns
    return Table(
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
    path: Path, make: arrow_tables.Make, report: Report, columns: Sequence[str] | None = None
) -> Iterator[Row]:
    return delimited.without_long_cells(arrow_tables.rows_of(path, make, columns, report), path, report)


def _json_table(path: Path, where: str | None) -> Table | None:
    columns: dict[str, None] = {}
    for row in json_tables.sample_of(path, where, _LOOKED_AT):
        columns.update(dict.fromkeys(row))
    kind = "JSON lines" if where is None else "a JSON list"

    def read(report: Report, columns: Sequence[str] | None = None) -> Iterator[Row]:  # noqa: ARG001 - as any table
        return delimited.without_long_cells(json_tables.rows_of(path, where, report), path, report)

    return Table(path, kind, tuple(columns), read, {}) if columns else None


def _delimited_rows(
    path: Path,
    layout: delimited.Layout,
    blocks: bool,
    report: Report,
    columns: Sequence[str] | None = None,  # noqa: ARG001 - as any table
) -> Iterator[Row]:
    block = 1
    for row in delimited.rows_of(path, layout, report):
        if blocks:
            block += row.after_blank
            row.values[BLOCK] = str(block)
        yield row


def _obvious(layout: delimited.Layout) -> Mapping[str, str] | None:
    """One or two columns of running text and one of labels, in a file without a header; None if it is not so clear."""
    texts, labels = [], []
    for at, column in enumerate(layout.columns):
        cells = [cells[at].strip() for cells in layout.sample]
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
        return _planned(path, chosen, _LOOKED_AT) is not None
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
    """Why a table cannot be read, and what to do; None if the file is no table, or can be read."""
    try:
        table = open_table(path)
    except CorpusError as error:
        return str(error)
    if table is None:
        return None
    try:
        Planned(table, {}, _LOOKED_AT)
    except CorpusError as error:
        return f"{path} is {table.in_words()}, and no reader fits: {str(error)[:_LONGEST_REASON]}: {_EXAMPLE}"
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
        report(Fault(path, 0, str(error)[:_LONGEST_REASON], f"columns that hold texts and labels, or {_EXAMPLE}"))
        return
    if planned is None:
        report(Fault(path, 1, "no table", "columns separated by tabs, commas, semicolons or |; JSON; Parquet; Arrow"))
        return
    if not own_ids:
        planned.plan = replace(planned.plan, id=None)
    yield from planned.read(report, noted or Notes(), unlabelled)


def parse_columns(said: str) -> dict[str, str]:
    """What a user says about the columns, as `NAME=COLUMN,...`.

    Example:
        >>> parse_columns("text=review, rating:value=stars")
        {'text': 'review', 'rating:value': 'stars'}
    """
    chosen: dict[str, str] = {}
    for part in said.split(","):
        name, equals, column = (each.strip() for each in part.partition("="))
        if not name or not equals or not column:
            raise CorpusError(f"{part.strip()!r} does not say which column is what; write it as in {_EXAMPLE}")
        if name in chosen:
            raise CorpusError(f"{name} is given two columns, {chosen[name]!r} and {column!r}; give it one")
        chosen[name] = column
    if chosen.get("header", "no") not in ("yes", "no"):
        raise CorpusError(f"header is yes or no, not {chosen['header']!r}")
    return chosen


def _planned(path: Path, chosen: Mapping[str, str], sampled: int) -> Planned | None:
    """The table in a file with what its columns hold; None if it is none, a CorpusError if that cannot be told."""
    table = open_table(path, {"yes": True, "no": False}.get(chosen.get("header", "")))
    return None if table is None else Planned(table, chosen, sampled)
