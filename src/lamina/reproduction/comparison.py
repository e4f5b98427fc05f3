"""Published numbers beside ours: one row per number, with the difference and its interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from lamina.reproduction.papers import PublishedTable
from lamina.results import Result

SCALES = {"%": 100.0}
"""Unit of a published number -> what ours are multiplied by."""


class ComparedNumber(NamedTuple):
    """A published number and ours."""

    table: str
    row: str
    column: str
    unit: str
    published: float
    ours: float
    """NaN where this run has no such number."""
    low: float
    """Bounds of the 95 % interval of ours; NaN where there is none."""
    high: float
    difference: float
    """Ours minus the published one; of layers, of their shares of the models' depths."""
    diff_low: float
    """The published number is taken as it stands: the interval is that of ours."""
    diff_high: float
    verdict: str
    """agrees: the interval of the difference holds 0; above, below; no interval; not run."""
    run: str
    """The run that ours comes from."""


def compare_numbers(tables: Iterable[PublishedTable], results: Mapping[str, Result]) -> pd.DataFrame:
    """All published numbers of these tables, with what the runs' results have of them.

    Example:
        >>> compare_numbers([], {}).columns.tolist()[:3]
        ['table', 'row', 'column']
    """
    rows = [number for table in tables for number in _numbers(table, results)]
    return pd.DataFrame(rows, columns=list(ComparedNumber._fields))


def _numbers(table: PublishedTable, results: Mapping[str, Result]) -> Iterator[ComparedNumber]:
    runs = [(name, results[name]) for name in table.runs if name in results]
    rows: list[ComparedNumber] = []
    for row, published in table.rows.items():
        for index, (column, unit, value) in enumerate(zip(table.columns, table.units, published, strict=True)):
            selection = table.values[min(index, len(table.values) - 1)]
            rows.append(_compared(table, row, column, unit, value, selection, runs, results))
    yield from rows
    if table.mean:
        yield from _means(table, rows)


def _runs_of(
    table: PublishedTable, row: str, runs: Sequence[tuple[str, Result]], results: Mapping[str, Result]
) -> Sequence[tuple[str, Result]]:
    """The runs that may have a row: those of its table, or the one that the row itself names (`run:table`)."""
    named = str(table.selections.get(row, {}).get("from", "")).partition(":")[0]
    return runs if not named else [(named, results[named])] if named in results else []


def _compared(
    table: PublishedTable, row: str, column: str, unit: str, value: float, selection: Mapping[str, Any],
    runs: Sequence[tuple[str, Result]], results: Mapping[str, Result],
) -> ComparedNumber:  # fmt: skip
    for name, result in _runs_of(table, row, runs, results):
        ours = _ours(table, row, selection, result)
        if ours is None or not math.isfinite(ours[0]):
            continue
        scale = SCALES.get(unit, 1.0)
        mean, low, high = (number * scale for number in ours)
        of_theirs, of_ours = (table.layers or 1, last_layer(result)) if unit == "layer" else (1, 1)
        difference, below, above = (number / of_ours - value / of_theirs for number in (mean, low, high))
        return ComparedNumber(
            table.id, row, column, unit, value, mean, low, high, difference, below, above, _verdict(below, above), name
        )
    nan, state = math.nan, "not there" if runs else "not run"
    return ComparedNumber(table.id, row, column, unit, value, nan, nan, nan, nan, nan, nan, state, "")


def _verdict(low: float, high: float) -> str:
    if not (math.isfinite(low) and math.isfinite(high)):
        return "no interval"
    return "agrees" if low <= 0 <= high else "above" if low > 0 else "below"


def _ours(
    table: PublishedTable, row: str, selection: Mapping[str, Any], result: Result
) -> tuple[float, float, float] | None:
    """Our number for a row with its bounds; None where the result has no such row."""
    of_row = dict(table.selections.get(row, {selection.get("key", table.key): row}))
    apart = str(of_row.pop("from", "")).partition(":")[2]
    source = result.tables.get(apart or selection.get("from", table.table))
    if source is None or source.empty or of_row.pop("absent", False):
        return None
    best, value = of_row.pop("best", None), of_row.pop("value", selection["value"])
    selected = of_row if apart else {**table.where, **selection.get("where", {}), **of_row}
    rows = source
    for name, wanted in selected.items():
        if name not in rows:
            return None
        rows = rows[_fits(rows[name], wanted, table, result)]
    if rows.empty:
        return None
    chosen = rows.loc[rows[best].astype(float).idxmax()] if best else rows.iloc[0]
    numbers = (value, selection.get("low"), selection.get("high"))
    mean, low, high = (math.nan if name is None else float(chosen[name]) for name in numbers)
    return mean, low, high


def _fits(column: pd.Series, wanted: Any, table: PublishedTable, result: Result) -> pd.Series:
    """Which rows have the value wanted: `last` is the last layer, {model} the model's name, a list any of its entries.

    The layer of a model of another depth is the one at the same share of its depth.
    """
    if column.name == "layer":
        last = last_layer(result)
        number = last if wanted == "last" else round(int(wanted) * last / (table.layers or last))
        return pd.to_numeric(column, errors="coerce") == number
    name = str(result.provenance.model.get("name", ""))
    several = wanted if isinstance(wanted, list) else [wanted]
    texts = {("" if one is None else str(one)).replace("{model}", name) for one in several}
    return column.fillna("").astype(str).isin(texts)


def last_layer(result: Result) -> int:
    """The number of the last layer, or block, in a result's tables; 1 where none has layers."""
    layers = [
        pd.to_numeric(table["layer"], errors="coerce").max() for table in result.tables.values() if "layer" in table
    ]
    numbers = [int(layer) for layer in layers if pd.notna(layer)]
    return max([layer for layer in numbers if layer], default=1)


def _means(table: PublishedTable, rows: Sequence[ComparedNumber]) -> Iterator[ComparedNumber]:
    """Means over the rows that both have: like with like. They have no interval: rows are not resampled here."""
    for column, unit in zip(table.columns, table.units, strict=True):
        both = [row for row in rows if row.column == column and math.isfinite(row.ours)]
        if both:
            theirs, ours = (sum(values) / len(both) for values in ([r.published for r in both], [r.ours for r in both]))
            name = f"{table.mean} ({len(both)})"
            nan = math.nan
            yield ComparedNumber(
                table.id, name, column, unit, theirs, ours, nan, nan, ours - theirs, nan, nan, "no interval",
                both[0].run,
            )  # fmt: skip
