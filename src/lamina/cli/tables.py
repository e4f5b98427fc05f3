"""Tables in the terminal and as CSV: the counts of `lamina data stats`, the first numbers of an analysis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lamina.corpora.corpus import CorpusCounts

Cell = str | int


class TextTable(NamedTuple):
    """Columns and rows."""

    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]


def volumes(counts: Mapping[str, CorpusCounts]) -> TextTable:
    """One row per split and annotation: numbers of texts, words, targets and different labels."""
    columns = ("split", "texts", "words", "annotation", "annotated", "targets", "labels")
    rows: list[tuple[Cell, ...]] = []
    for split, count in counts.items():
        for name in count.labels or [""]:
            kinds = len(count.labels.get(name, ()))
            rows.append((split, count.texts, count.words, name, count.annotated[name], count.targets[name], kinds))
    return TextTable(columns, rows)


def frequencies(counts: Mapping[str, CorpusCounts], annotation: str) -> TextTable:
    """One row per label, the most frequent first: how often it occurs in each split."""
    counted = {split: count.labels.get(annotation, Counter()) for split, count in counts.items()}
    total = Counter[str]()
    for labels in counted.values():
        total.update(labels)
    rows = [(label, *(labels[label] for labels in counted.values())) for label, _ in total.most_common()]
    return TextTable((annotation, *counted), rows)


def print_table(title: str, table: TextTable, notes: Sequence[str]) -> None:
    """Print the table, with the notes below it."""
    from rich.console import Console
    from rich.table import Table as RichTable

    drawn = RichTable(title=title)
    for number, column in enumerate(table.columns):
        numeric = any(isinstance(row[number], int) for row in table.rows)
        drawn.add_column(column, justify="right" if numeric else "left", no_wrap=not number)
    for row in table.rows:
        drawn.add_row(*(f"{cell:,}" if isinstance(cell, int) else cell for cell in row))
    # Labels may contain brackets, which are not markup.
    console = Console(markup=False, emoji=False, highlight=False)
    console.print(drawn)
    for note in notes:
        console.print(f"made: {note}")


def write_csv(path: Path, table: TextTable) -> None:
    """Write the table as CSV, with a header row."""
    import csv

    from lamina.files.writing import fresh_path

    path.parent.mkdir(parents=True, exist_ok=True)
    with fresh_path(path) as fresh, fresh.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table.columns)
        writer.writerows(table.rows)
