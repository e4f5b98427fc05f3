"""The numbers of all cells in one table, `cells.parquet`: one row per number that an analysis gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from lamina.files.writing import fresh_path
from lamina.framework.declare import ComparedItems, ComparedLayers, ComparedTasks, ComparedValues
from lamina.framework.registry import get_analysis
from lamina.results.finding import rows_of
from lamina.results.folder import answer_key
from lamina.studies.plan import CELLS, StudyCell

if TYPE_CHECKING:
    from lamina.results import Result

TABLE = "cells.parquet"
_TESTS = ("contrasts", "differences", "draws", "training", "baselines", "examples", "scores", "items")
"""Tables whose intervals belong to tests or single items, of analyses that declare no measures."""
_MOST_ROWS = 5000
"""Rows of a table of an analysis that declares no measures; larger ones hold single heads or items."""
_COUNTS = ("n", "count", "targets", "pairs", "words", "items", "units")
TWIN, CONTROL = ", untrained twin", ", control labels"
"""What measures of a model's baselines end with."""
_MEASURES = ("measure", "metric", "statistic", "score")


class CellRow(NamedTuple):
    """One row of `cells.parquet`."""

    study: str
    model: str
    revision: str
    """Of a hub model, or the step of a checkpoint."""
    corpus: str
    analysis: str
    """By its name in the study."""
    task: str
    """What is measured: a task, a relation, a group of items; empty where the measure says it all."""
    layer: int | None
    relative_depth: float
    """layer / L: layers of different models are compared by it."""
    measure: str
    value: float
    low: float
    """Of the 95 % interval; missing where the analysis gives none."""
    high: float
    n: float
    """What was scored: targets, items, texts."""
    version: int
    """Of the analysis."""
    fingerprint: str
    """The key of the answer: analysis, version, model, data and settings."""
    seconds: float
    """Wall time of the cell."""


_TYPES = {
    **dict.fromkeys(("study", "model", "revision", "corpus", "analysis", "task", "measure", "fingerprint"), "str"),
    **dict.fromkeys(("relative_depth", "value", "low", "high", "n", "seconds"), "float64"),
    "layer": "Int64",
    "version": "int64",
}


def rows_of_result(cell: StudyCell, result: Result, seconds: float) -> pd.DataFrame:
    """The rows of one cell."""
    analysis = get_analysis(result.analysis)
    declared = analysis.compares
    parts = list(_measured(result, declared))
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["task", "layer", "measure"])
    table = table.reindex(columns=["task", "layer", "measure", "value", "low", "high", "n"])
    table = table[table["value"].notna()]
    last = _last_layer(result)
    layers = pd.to_numeric(table["layer"], errors="coerce")
    texts = result.provenance.corpus.get("texts")
    counts = pd.to_numeric(table["n"], errors="coerce")
    about = {
        "study": cell.study, "model": cell.model, "revision": cell.revision, "corpus": cell.corpus,
        "analysis": cell.question, "version": result.version,
        "fingerprint": answer_key(result.question, result.version), "seconds": seconds,
    }  # fmt: skip
    whole = table.assign(
        **about,
        layer=layers,
        relative_depth=layers / last if last else np.nan,
        n=counts.fillna(float(texts)) if isinstance(texts, int) else counts,
    )
    ordered = whole[list(CellRow._fields)].reset_index(drop=True)
    return ordered.astype(_TYPES)


def _measured(result: Result, declared: object) -> Iterator[pd.DataFrame]:
    """What an analysis declares that models are compared by; of others, every table of numbers with intervals."""
    if isinstance(declared, ComparedTasks):
        yield from _of_tasks(result, declared)
    elif isinstance(declared, ComparedLayers):
        name = str(result.provenance.model.get("name", ""))
        table = result.tables[declared.table]
        for column, value in declared.rows.items():
            table = table[table[column].astype(str) == str(value).replace("{model}", name)]
        yield _as_rows(_with_twin(table, declared.column, name), "value", measure=declared.column)
    elif isinstance(declared, ComparedValues):
        table = result.tables[declared.table]
        for column, value in declared.rows.items():
            table = table[table[column].astype(str) == str(value)]
        yield _as_rows(table, declared.value[0], names=declared.names, fixed=declared.metric)
    else:
        tables = get_analysis(result.analysis).tables
        for name, about in tables.items():
            table = result.tables.get(name)
            if table is None or about.format != "csv" or name in _TESTS or not 0 < len(table) <= _MOST_ROWS:
                continue
            columns = list(about.columns)
            place = columns.index("low") if {"low", "high"} <= {*columns} else 0
            if place and pd.api.types.is_numeric_dtype(table[columns[place - 1]]) and "against" not in columns:
                fixed = "" if any(one in columns for one in _MEASURES) else columns[place - 1]
                prefix = "" if isinstance(declared, ComparedItems) and name == next(iter(tables)) else name
                yield _as_rows(table, columns[place - 1], fixed=fixed, prefix=prefix)


def _with_twin(table: pd.DataFrame, measure: str, model: str) -> pd.DataFrame:
    """Rows of other models than the one that was asked are those of its untrained twin, and are named so."""
    if "model" not in table:
        return table
    twin = table["model"].astype(str) != model
    return table.assign(**{measure: table[measure].astype(str).where(~twin, table[measure].astype(str) + TWIN)})


def _of_tasks(result: Result, declared: ComparedTasks) -> Iterator[pd.DataFrame]:
    """Scores of the probes, all seeds together, and where in the depth tasks are."""
    scores = result.tables[declared.scores]
    scores = scores[scores["seed"].astype(str) == "all"]
    if "tuning_seed" in scores:
        scores = scores[scores["tuning_seed"].astype(str).isin(["", "all", "nan"])]
    of = scores["of"].map({"model": "", "random": TWIN, "control": CONTROL}).fillna("")
    kind = scores["probe"].map({"cumulative": "cumulative probe", "layer": "single layer", "mix": "all layers mixed"})
    measure = scores["metric"].astype(str) + ", " + kind.fillna(scores["probe"].astype(str)) + of
    yield _as_rows(scores.assign(measure=measure, metric=measure), "value", names=("task",), measure="measure")
    summary = result.tables["summary"]
    ends = {"expected_layer": ("el_low", "el_high"), "center_of_gravity": ("cog_low", "cog_high")}
    for place in declared.places:
        if place in summary:
            low, high = ends.get(place, ("", ""))
            part = summary[["task", place]].rename(columns={place: "value"})
            part = part.assign(low=summary.get(low, np.nan), high=summary.get(high, np.nan), layer=np.nan, n=np.nan)
            yield part.assign(measure=place.replace("_", " "))


def _as_rows(
    table: pd.DataFrame,
    value: str,
    *,
    names: Sequence[str] = (),
    measure: str = "",
    fixed: str = "",
    prefix: str = "",
) -> pd.DataFrame:
    """A long-form table in the columns of `cells.parquet`, as far as it has them."""
    if "seed" in table and (table["seed"].astype(str) == "all").any():
        table = table[table["seed"].astype(str) == "all"]
    column = measure or next((one for one in _MEASURES if one in table and one != value), "")
    named = list(names) or [
        str(one) for one in table.columns
        if not pd.api.types.is_numeric_dtype(table[one]) and one not in ("model", "reason", "unit", "seed", column)
        and not pd.api.types.is_bool_dtype(table[one])
    ]  # fmt: skip
    if not names and "head" in table and "head" not in named:
        named.append("head")
    task = pd.Series("", index=table.index)
    for one in named:
        text = table[one].map(lambda cell: "" if pd.isna(cell) else str(cell))
        text = "head " + text if one == "head" else text
        task = task.where(text == "", task.where(task == "", task + " · ") + text)
    measured = table[column].astype(str) if column and not fixed else pd.Series(fixed or value, index=table.index)
    measured = prefix + ": " + measured if prefix else measured
    count = next((one for one in _COUNTS if one in table), "")
    return pd.DataFrame(
        {
            "task": task,
            "layer": table.get("layer", np.nan),
            "measure": measured,
            "value": table[value],
            "low": table.get("low", np.nan),
            "high": table.get("high", np.nan),
            "n": table[count] if count else np.nan,
        }
    )


def _last_layer(result: Result) -> int:
    """L, by the deepest layer that any table of the result has."""
    deepest = 0
    for table in result.tables.values():
        if "layer" in table:
            layers = pd.to_numeric(table["layer"], errors="coerce").dropna()
            deepest = max(deepest, int(layers.max()) if len(layers) else 0)
    return deepest


def rows_path(out: Path, cell: StudyCell) -> Path:
    """Where the rows of a cell lie until the table is made."""
    return out / CELLS / f"{cell.label}.parquet"


def write_rows(out: Path, cell: StudyCell, result: Result, seconds: float) -> None:
    """Write the rows of one cell: the table is put together from them, and no result is read again for that."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = rows_path(out, cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = rows_of_result(cell, result, seconds)
    with fresh_path(path) as fresh:
        pq.write_table(pa.Table.from_pandas(rows, schema=schema(), preserve_index=False), fresh)


def schema() -> Any:
    """The columns of `cells.parquet` and their types."""
    import pyarrow as pa

    types = {"str": pa.string(), "float64": pa.float64(), "Int64": pa.int64(), "int64": pa.int64()}
    return pa.schema([(name, types[_TYPES[name]]) for name in CellRow._fields])


def write_table(out: Path, cells: Iterable[StudyCell]) -> int:
    """Put the rows of all cells into one table, one cell in memory at a time; returns their number."""
    import pyarrow.parquet as pq

    count = 0
    with fresh_path(out / TABLE) as fresh, pq.ParquetWriter(fresh, schema()) as writer:
        for cell in cells:
            path = rows_path(out, cell)
            if path.is_file():
                table = pq.read_table(path, schema=schema())
                writer.write_table(table)
                count += table.num_rows
    return count


def read_cells(path: Path) -> pd.DataFrame:
    """The table of a study, by its folder or its file.

    Example:
        >>> read_cells(Path("studies/pipeline"))["model"].unique()  # doctest: +SKIP
        ['minilm' 'mpnet']
    """
    import pyarrow.parquet as pq

    file = path / TABLE if path.is_dir() else path
    return pq.read_table(file).to_pandas(ignore_metadata=True).astype(_TYPES)


def rows(table: pd.DataFrame) -> Iterator[Any]:
    """The rows of the table, with attributes."""
    return rows_of(table)
