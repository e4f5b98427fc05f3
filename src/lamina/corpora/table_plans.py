"""A table of any make, and what its columns hold: from rows to texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from lamina.corpora.delimited import Row
from lamina.corpora.entities import TAG
from lamina.corpora.list_cells import Lists
from lamina.corpora.notes import Notes
from lamina.corpora.reading import Fault, Report
from lamina.corpora.rows import SAMPLED, Plan, merged, plan_table, text_of, values_by_column
from lamina.errors import CorpusError
from lamina.types import Text

BLOCK = "sentence_id"
"""The column that is added where blank lines separate sentences: the number of the sentence."""
_SAMPLED_CHARACTERS = 16_000_000
"""Characters that are looked at to decide what columns hold."""
_NAMED = 12
"""Columns that are named in a message."""


class _Rows(Protocol):
    def __call__(self, report: Report, columns: Sequence[str] | None = None) -> Iterator[Row]: ...


@dataclass(frozen=True)
class Table:
    """A file of rows, before it is decided what its columns hold."""

    path: Path
    make: str
    """What kind of file it is, in words."""
    columns: tuple[str, ...]
    rows: _Rows
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


class Planned:
    """A table of which it is known what its columns hold."""

    def __init__(self, table: Table, chosen: Mapping[str, str], sampled: int) -> None:
        self._table = table
        if table.blocks and not table.named and not chosen:
            raise CorpusError("blank lines separate groups of rows, so a row may be a word; say which, as word=COLUMN")
        columns = (*table.columns, BLOCK) if table.blocks else table.columns
        wanted = {name: _by_number(column, table) for name, column in chosen.items() if name != "header"}
        sample, complete = table.sample(sampled)
        # The first rows of a sorted table have one label, and rare values come late.
        look_on = not complete and sampled >= SAMPLED
        whole = values_by_column(row.values for row in table.rows(_ignored)) if look_on else None
        self._lists = Lists.of(columns, sample)
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
        self.plan: Plan = _without_blocks(plan) if table.blocks and plan.layout != "words" else plan
        self.tags = _iob_columns(plan, sample, table.classes)

    def read(self, report: Report, noted: Notes, unlabelled: bool = True) -> Iterator[Text]:
        """The texts of all rows; what is not used is noted, and so are texts without a label, or they are faults."""
        path = self._table.path
        for said in self.plan.notes():
            noted.add_file(said, path.name)
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
            for done in [each for each in lines if each <= number]:
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


def _without_blocks(plan: Plan) -> Plan:
    unused = {column: why for column, why in plan.unused.items() if column != BLOCK}
    labels = tuple(label for label in plan.labels if label.name != BLOCK)
    return replace(plan, id=None if plan.id == BLOCK else plan.id, unused=unused, labels=labels)


def _iob_columns(
    plan: Plan, sample: Sequence[Mapping[str, Any]], classes: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """The columns of tags that mark where entities begin, but are not called `ner`."""
    found = []
    for label in plan.labels:
        if label.kind == "tags" and label.annotation != "ner":
            cells = [row.get(label.name) for row in sample]
            given = (each for cell in cells for each in (cell if isinstance(cell, list) else [cell]))
            tags = set(classes.get(label.name, ())) or {str(each) for each in given if each is not None}
            if any(tag.startswith("B-") for tag in tags) and all(map(TAG.fullmatch, tags)):
                found.append(label.name)
    return tuple(found)


def _by_number(column: str, table: Table) -> str:
    """A column given by its number, if none has that name."""
    if column not in table.columns and column.isdecimal() and 0 < int(column[:6]) <= len(table.columns):
        return table.columns[int(column[:6]) - 1]
    return column
