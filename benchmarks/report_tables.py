"""Compare two reports: `python -m benchmarks.report_tables BEFORE AFTER` compares every table of two folders.

Use it for a change that should change no numbers: run the default report before and after, with the same seeds on the
same machine. Results of another version of an analysis may differ; the largest difference is printed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from lamina.errors import LaminaError
from lamina.results import Result

ROUNDING = 1e-5
"""Relative tolerance, for sums in another order."""


class Compared(NamedTuple):
    """One table of one result."""

    analysis: str
    table: str
    same: bool
    note: str


def compare(before: Path, after: Path) -> list[Compared]:
    """Every table of every result that both folders have."""
    found = []
    for folder in sorted(path.parent for path in before.rglob("result.json")):
        other = after / folder.relative_to(before)
        try:
            one, two = Result.load(folder), Result.load(other)
        except LaminaError as error:
            found.append(Compared(folder.name, "", False, str(error)))
            continue
        raised = f"version {one.version or 1} and {two.version}; " if (one.version or 1) != two.version else ""
        for name, table in one.tables.items():
            if name not in two.tables:
                found.append(Compared(one.analysis, name, False, "is gone"))
                continue
            note = _differences(table, two.tables[name])
            found.append(Compared(one.analysis, name, not note or bool(raised), raised + (note or "equal")))
    return found


def _differences(one: pd.DataFrame, other: pd.DataFrame) -> str:
    """Description of the differences beyond rounding; empty if there are none."""
    if list(one.columns) != list(other.columns) or len(one) != len(other):
        return f"different shapes: {one.shape} and {other.shape}"
    said = []
    for column in one.columns:
        if pd.api.types.is_float_dtype(one[column]):
            a, b = one[column].to_numpy(float), other[column].to_numpy(float)
            if not np.allclose(a, b, rtol=ROUNDING, atol=ROUNDING, equal_nan=True):
                said.append(f"{column} differs by up to {np.nanmax(np.abs(a - b)):.2g}")
        elif one[column].astype(str).tolist() != other[column].astype(str).tolist():
            count = (one[column].astype(str).to_numpy() != other[column].astype(str).to_numpy()).sum()
            said.append(f"{column} differs in {count} rows")
    return ", ".join(said)


if __name__ == "__main__":
    compared = compare(Path(sys.argv[1]), Path(sys.argv[2]))
    for each in compared:
        print(f"{'same  ' if each.same else 'OTHER '} {each.analysis:<14} {each.table:<20} {each.note}")
    raise SystemExit(0 if all(each.same for each in compared) else 1)
