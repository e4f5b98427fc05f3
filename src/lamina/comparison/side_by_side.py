"""Saved results of several models side by side: which can be compared, and why others cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lamina.results.index import SavedResult

if TYPE_CHECKING:
    import pandas as pd

    from lamina.results import Result

_HARMLESS = frozenset({"samples", "seed", "twin", "reference", "tasks", "suite", "mdl", "store", "twin_limit"})
"""Settings that do not change what is measured, only how surely or what beside it."""
NO_RESULT = "no saved result of "
"""How the reason begins why something of a model is not compared."""
_NUMBERS = ("layer", "value", "low", "high")
_TWIN = "random"
_MOST = 24
"""Series of one table: more cannot be read side by side."""


class ModelResults(NamedTuple):
    """A model, or its random twin, with its newest result of each analysis."""

    name: str
    """In requests."""
    twin: bool
    entries: Mapping[str, SavedResult]


def newest_results(entries: Sequence[SavedResult]) -> dict[str, SavedResult]:
    """Analysis -> its newest result; `entries` come newest first."""
    return {entry.analysis: entry for entry in reversed(entries)}


def why_not_comparable(a: SavedResult, b: SavedResult) -> str:
    """Why two results of one analysis cannot be compared; empty where they can."""
    if a.head.get("version", 0) != b.head.get("version", 0):
        return f"made by different versions of the analysis ({a.head.get('version', 0)}, {b.head.get('version', 0)})"
    if _data(a) != _data(b):
        same = _corpus(a) == _corpus(b)
        on = f"other texts of {_corpus(a)}" if same else f"{a.model} on {_corpus(a)}, {b.model} on {_corpus(b)}"
        return f"measured on different texts ({on})"
    names = sorted({*a.parameters, *b.parameters} - _HARMLESS)
    unlike = [name for name in names if a.parameters.get(name) != b.parameters.get(name)]
    settings = [f"{name} {a.parameters.get(name)}, {b.parameters.get(name)}" for name in unlike]
    return f"different settings: {'; '.join(settings)}" if settings else ""


def _data(entry: SavedResult) -> tuple[str, ...]:
    return tuple(str(entry.corpus.get(name, "")) for name in ("name", "split", "fingerprint"))


def _corpus(entry: SavedResult) -> str:
    return f"{entry.corpus.get('name', '?')} {entry.corpus.get('split', '')}".strip()


class NotComparable(NamedTuple):
    """What is not compared, and why."""

    what: str
    why: str


def comparable_results(sides: Sequence[ModelResults]) -> tuple[dict[str, list[ModelResults]], list[NotComparable]]:
    """Analysis -> the sides whose results are like the first's that has it; and what is left out, with the reason."""
    comparable: dict[str, list[ModelResults]] = {}
    unlike, missing = [], {side.name: [] for side in sides}
    for analysis in dict.fromkeys(name for side in sides for name in side.entries):
        holders = [side for side in sides if analysis in side.entries]
        alike = [holders[0]]
        for side in holders[1:]:
            why = why_not_comparable(holders[0].entries[analysis], side.entries[analysis])
            if why:
                unlike.append(NotComparable(f"{analysis} of {side.name}", why))
            else:
                alike.append(side)
        for side in sides:
            if side not in holders:
                missing[side.name].append(analysis)
        if len(alike) > 1:
            comparable[analysis] = alike
    return comparable, [
        *unlike,
        *(NotComparable(name, f"{NO_RESULT}{', '.join(analyses)}") for name, analyses in missing.items() if analyses),
    ]


def layer_curves(result: Result, *, twin: bool) -> pd.DataFrame:
    """Numbers by layer with intervals, of the model or of its twin: `series,layer,value,low,high,relative_depth`.

    Read from any table that has them: whatever else its columns say names the series.

    Example:
        >>> import pandas as pd
        >>> from lamina.results import Provenance, Result
        >>> rows = [("m", 0, "size", 0.5, 0.4, 0.6), ("m", 2, "size", 0.7, 0.6, 0.8)]
        >>> rows += [("m (random)", 0, "size", 0.1, 0, 0.2)]
        >>> table = pd.DataFrame(rows, columns=["model", "layer", "measure", "value", "low", "high"])
        >>> result = Result("geometry", {"layers": table}, Provenance({"name": "m"}, {}, {}))
        >>> layer_curves(result, twin=False)[["series", "layer", "relative_depth"]].values.tolist()
        [['size', 0, 0.0], ['size', 2, 1.0]]
    """
    import pandas as pd

    parts = [part for table in result.tables.values() for part in _series(result, table, twin=twin)]
    columns = ["series", *_NUMBERS, "relative_depth"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _series(result: Result, table: pd.DataFrame, *, twin: bool) -> Iterator[pd.DataFrame]:
    if not {*_NUMBERS} <= {*table.columns} or "head" in table:
        return
    rows = _of_side(table, str(result.provenance.model.get("name", "")), twin=twin)
    rows = rows.dropna(subset=["layer", "value"])
    if rows.empty:
        return
    words = [name for name in rows.columns if _names_series(name, rows[name])]
    # What is the same in every row tells nothing apart.
    keys = [name for name in words if rows[name].nunique() > 1] or words
    names = rows[keys].astype(str).agg(" · ".join, axis=1) if keys else result.analysis
    rows = rows.assign(series=names, layer=rows["layer"].astype(int))
    # A table with several rows per layer tells of something else.
    if rows.duplicated(["series", "layer"]).any() or rows["series"].nunique() > _MOST:
        return
    last = int(rows["layer"].max())
    yield rows.assign(relative_depth=rows["layer"] / last if last else 0.0)


def _of_side(table: pd.DataFrame, model: str, *, twin: bool) -> pd.DataFrame:
    """The rows of the model or of its twin, all seeds together."""
    rows = table
    if "seed" in rows and (rows["seed"].astype(str) == "all").any():
        rows = rows[rows["seed"].astype(str) == "all"]
    if "metric" in rows and "task" in rows:
        # Each task by its own metric, which comes first.
        rows = rows[rows["metric"] == rows.groupby("task", sort=False)["metric"].transform("first")]
    chosen = False
    if "of" in rows and {"model", _TWIN} & {*rows["of"].astype(str)}:
        rows, chosen = rows[rows["of"] == (_TWIN if twin else "model")], True
    elif "model" in rows and model in {*rows["model"].astype(str)}:
        rows, chosen = rows[rows["model"] == (f"{model} ({_TWIN})" if twin else model)], True
    return rows if chosen or not twin else rows[:0]


def _names_series(name: str, column: pd.Series) -> bool:
    """Whether a column says in words what is measured."""
    about = {"model", "of", "seed", "tuning_seed", "split", "metric", "reason", "chose", "spread"}
    return name not in about and column.dtype.kind not in "fiub"


def all_layer_scores(result: Result, *, twin: bool) -> list[dict[str, Any]]:
    """The scores of the probe of all layers, of the model or of its twin, one per task."""
    table = result.tables.get("scores")
    if table is None or "of" not in table:
        return []
    whose = table["of"] == (_TWIN if twin else "model")
    scores = table[whose & (table["probe"] == "cumulative") & (table["seed"].astype(str) == "all")]
    records = []
    for task, rows in scores.groupby("task", sort=False):
        rows = rows[rows["metric"] == rows["metric"].iloc[0]]
        row = rows.loc[rows["layer"].astype(float).idxmax()]
        records.append({"task": str(task), **{name: row[name] for name in ("metric", "value", "low", "high")}})
    return records
