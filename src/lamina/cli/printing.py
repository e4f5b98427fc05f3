"""What commands print: tables, and errors in one sentence."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from safetensors import SafetensorError

from lamina.errors import LaminaError
from lamina.files.writing import error_number

_OUT_OF_MEMORY = re.compile(r"can't allocate memory|out of memory|Cannot allocate memory", re.IGNORECASE)
"""Messages of torch when memory runs out, on a CPU or a GPU."""

Cell = str | int


class TextTable(NamedTuple):
    """Columns and rows."""

    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]


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


def in_one_sentence(error: Exception) -> str | None:
    """What to tell a user about an error that is not a bug in lamina; None for one that seems to be.

    Example:
        >>> in_one_sentence(PermissionError(13, "Permission denied", "results"))
        'results: Permission denied'
        >>> in_one_sentence(ZeroDivisionError())
    """
    if isinstance(error, LaminaError):
        return str(error)
    if isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(str(error)):
        return (
            "not enough memory; finished work is saved. Ask for less (--limit, a smaller model), or close other "
            "programs, and run the same command again"
        )
    number = error_number(error)
    if number is None or not isinstance(error, OSError | RuntimeError | SafetensorError):
        return None
    if number in (errno.ENOSPC, errno.EDQUOT):
        return (
            "no space left on the disk; finished work is saved. Free some space (`lamina store gc` removes leftovers) "
            "and run the same command again"
        )
    named = f"{error.filename}: " if isinstance(error, OSError) and error.filename is not None else ""
    return f"{named}{os.strerror(number)}"
