"""Show that a change leaves all numbers alone: compare every table of every analysis, cell by cell.

Two ways, each before and after the change, on one machine:

- the recorded inputs (a small fixed input per analysis, `tests/analyses/test_versions.py`), also of another checkout:
  `python -m benchmarks.report_tables record CHECKOUT FOLDER`, then `... compare BEFORE AFTER`;
- two reports or folders of results: `python -m benchmarks.report_tables compare BEFORE AFTER`.

Tables, columns and values that were renamed since commit 1d040bd are listed in `RENAMED`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

ROUNDING = 1e-5
"""Relative tolerance, for sums in another order."""
INPUTS = "tests/analyses/test_versions.py"
_FOLDER = "LAMINA_RECORDED_TABLES"


class Names(NamedTuple):
    """What has another name in an analysis."""

    analysis: str
    tables: dict[str, str]
    columns: dict[str, str]
    values: dict[str, str]
    """Of columns of words; a value is renamed where it stands alone."""


RENAMED = {
    "said": Names(
        "probe_vs_lens",
        {"said": "scores"},
        {
            "known": "probe",
            "said": "lens",
            "known_probability": "probe_probability",
            "said_probability": "lens_probability",
        },
        {
            "known": "probe",
            "said": "lens",
            "known, not said": "probe, not lens",
            "said, not known": "lens, not probe",
            "said: not above the baseline": "lens: not above the baseline",
            "known: not above the baseline": "probe: not above the baseline",
        },
    ),
    "pairs": Names("pairs", {}, {"told": "surprisals"}, {}),
    "cloze": Names("cloze", {}, {"said": "top"}, {}),
    "contextualize": Names("contextualize", {}, {"found": "share", "said": "predicted"}, {}),
    "erase": Names("erase", {}, {}, {"cannot be told": "open"}),
}
"""Analysis -> its names today."""


class Compared(NamedTuple):
    """One table of one result."""

    analysis: str
    table: str
    columns: int
    equal: int
    renamed: int
    """Of the columns, those with another name."""
    note: str
    """Description of all differences; empty if there are none."""


def pytest_runtest_call(item: pytest.Item) -> None:
    """As a plugin of pytest: save the tables of each recorded input."""
    module: Any = getattr(item, "module", None)
    if not hasattr(module, "numbers_of") or "name" not in getattr(item, "funcargs", {}):
        return
    numbers_of, folder = module.numbers_of, Path(os.environ[_FOLDER]) / item.funcargs["name"]  # pyright: ignore[reportAttributeAccessIssue]

    def saved(result: Any) -> Any:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "about.json").write_text(json.dumps({"analysis": result.analysis, "version": result.version}))
        for name, table in result.tables.items():
            table.to_parquet(folder / f"{name}.parquet")
        return numbers_of(result)

    module.numbers_of = saved
    item.addfinalizer(lambda: setattr(module, "numbers_of", numbers_of))


def record(checkout: Path, folder: Path) -> int:
    """Run the recorded inputs with the code of a checkout and save all tables."""
    paths = [str(checkout.resolve() / "src"), str(checkout.resolve()), str(Path(__file__).resolve().parent)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), _FOLDER: str(folder.resolve())}
    command = [sys.executable, "-m", "pytest", INPUTS, "-p", Path(__file__).stem, "-q", "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=checkout, env=environment, check=False).returncode


def compare(before: Path, after: Path) -> Iterator[Compared]:
    """Every table of every result in `before`, with the same in `after`."""
    for folder in sorted({path.parent for name in ("about.json", "result.json") for path in before.rglob(name)}):
        analysis, tables = _tables(folder)
        names = RENAMED.get(analysis, Names(analysis, {}, {}, {}))
        moved = {analysis: names.analysis}
        other = after.joinpath(*(moved.get(part, part) for part in folder.relative_to(before).parts))
        if not other.is_dir():
            yield Compared(names.analysis, "", 0, 0, 0, "is missing")
            continue
        _, theirs = _tables(other)
        for name, table in tables.items():
            yield _compared(names, name, table, theirs.get(names.tables.get(name, name)))
        for name in theirs.keys() - {names.tables.get(name, name) for name in tables}:
            yield Compared(names.analysis, name, 0, 0, 0, "is new")


def _tables(folder: Path) -> tuple[str, dict[str, pd.DataFrame]]:
    if (folder / "about.json").exists():
        about = json.loads((folder / "about.json").read_text())
        return about["analysis"], {path.stem: pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))}
    from lamina.results import Result

    result = Result.load(folder)
    return result.analysis, dict(result.tables)


def _compared(names: Names, name: str, one: pd.DataFrame, other: pd.DataFrame | None) -> Compared:
    title = names.tables.get(name, name)
    if other is None:
        return Compared(names.analysis, title, len(one.columns), 0, 0, "is missing")
    if len(one) != len(other):
        return Compared(names.analysis, title, len(one.columns), 0, 0, f"{len(one)} rows, then {len(other)}")
    equal, renamed, notes = 0, 0, []
    for column in one.columns:
        today = column if column in other else names.columns.get(column, column)
        if today not in other:
            notes.append(f"{column} is missing")
            continue
        renamed += today != column
        difference = _difference(one[column], other[today], names.values)
        equal += not difference
        notes += [f"{today} {difference}"] if difference else []
    added = set(other.columns) - {names.columns.get(column, column) for column in one.columns} - set(one.columns)
    notes += [f"{column} is new" for column in sorted(added)]
    return Compared(names.analysis, title, len(one.columns), equal, renamed, ", ".join(notes))


def _difference(one: pd.Series, other: pd.Series, values: dict[str, str]) -> str:
    """Description of the differences beyond rounding; empty if there are none."""
    if pd.api.types.is_float_dtype(one):
        a, b = one.to_numpy(float, na_value=np.nan), other.to_numpy(float, na_value=np.nan)
        if np.allclose(a, b, rtol=ROUNDING, atol=ROUNDING, equal_nan=True):
            return ""
        return f"differs by up to {np.nanmax(np.abs(a - b)):.2g}"
    # As objects first: texts keep missing values, which are unequal to themselves.
    a, b = ([values.get(text, text) for text in map(str, column.astype(object))] for column in (one, other))
    count = sum(text != today for text, today in zip(a, b, strict=True))
    return f"differs in {count} rows" if count else ""


def main(arguments: list[str]) -> int:
    """Record, or compare and print one line per table that differs, and a summary."""
    if arguments[:1] == ["record"]:
        return record(Path(arguments[1]), Path(arguments[2]))
    compared = list(compare(*map(Path, arguments[-2:])))
    for table in compared:
        if table.note:
            equal = f"{table.equal} of {table.columns} columns equal"
            print(f"{table.analysis:<18} {table.table:<16} {equal}: {table.note}")
    analyses = Counter(table.analysis for table in compared)
    columns, equal, renamed = (
        sum(getattr(table, name) for table in compared) for name in ("columns", "equal", "renamed")
    )
    print(
        f"{len(analyses)} analyses, {len(compared)} tables: {equal:,} of {columns:,} columns equal ({renamed} of them "
        "with another name)"
    )
    return int(any(table.note for table in compared))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
