"""Tables in the terminal and as CSV: the counts of `lamina data stats`, the numbers of an analysis."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lamina.corpora.counting import Counts

Cell = str | int


class Table(NamedTuple):
    """Columns and rows."""

    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]


def volumes(counts: Mapping[str, Counts]) -> Table:
    """A row a split and annotation: how many texts and words there are, how many targets and kinds of label."""
    columns = ("split", "texts", "words", "annotation", "annotated", "targets", "labels")
    rows: list[tuple[Cell, ...]] = []
    for split, count in counts.items():
        for name in count.labels or [""]:
            kinds = len(count.labels.get(name, ()))
            rows.append((split, count.texts, count.words, name, count.annotated[name], count.targets[name], kinds))
    return Table(columns, rows)


def frequencies(counts: Mapping[str, Counts], annotation: str) -> Table:
    """A row a label, the most frequent first: how often it occurs in each split."""
    found = {split: count.labels.get(annotation, Counter()) for split, count in counts.items()}
    total = Counter[str]()
    for labels in found.values():
        total.update(labels)
    rows = [(label, *(labels[label] for labels in found.values())) for label, _ in total.most_common()]
    return Table((annotation, *found), rows)


def print_table(title: str, table: Table, notes: Sequence[str]) -> None:
    """Print it, with the notes below."""
    from rich.console import Console
    from rich.table import Table as RichTable

    drawn = RichTable(title=title)
    for at, column in enumerate(table.columns):
        numeric = any(isinstance(row[at], int) for row in table.rows)
        drawn.add_column(column, justify="right" if numeric else "left", no_wrap=not at)
    for row in table.rows:
        drawn.add_row(*(f"{cell:,}" if isinstance(cell, int) else cell for cell in row))
    # Labels may hold brackets, which are no markup.
    console = Console(markup=False, emoji=False, highlight=False)
    console.print(drawn)
    for note in notes:
        console.print(f"made: {note}")


def number(value: float, low: float | None = None, high: float | None = None) -> str:
    """To three places, its interval after it where it has one; a dash where it is not available.

    Example:
        >>> number(0.5), number(0.5, 0.25, 0.75), number(float("nan"), 0, 1)
        ('0.500', '0.500 [0.250, 0.750]', '-')
    """
    if math.isnan(value):
        return "-"
    spread = "" if low is None or high is None or math.isnan(low) else f" [{low:.3f}, {high:.3f}]"
    return f"{value:.3f}{spread}"


def write_csv(path: Path, table: Table) -> None:
    """Write it as CSV, columns first."""
    import csv

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table.columns)
        writer.writerows(table.rows)
