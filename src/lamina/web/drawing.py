"""The charts of saved results: as saved, or redrawn for some of the tasks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from lamina.errors import InputError
from lamina.figures import captions_of, draw, spec_of
from lamina.files.reading import open_regular, parse_json
from lamina.results import Result
from lamina.results.folder import is_as_saved
from lamina.results.index import NAME, ResultIndex, SavedResult, using
from lamina.results.result import without_nan

_HELD = 64
"""Sets of charts kept in memory."""
_LARGEST = 64 * 1024**2
"""Bytes of a saved chart."""

Specs = Mapping[str, dict[str, Any]]
"""Name of a chart -> its Vega-Lite specification."""


def charts_of(results: ResultIndex, entry: SavedResult, tasks: tuple[str, ...] = ()) -> Specs:
    """Every chart of a result, the most important first; only of the given tasks, if any."""
    if not tasks and (saved := _saved_charts(entry)):
        return saved
    with using(entry):
        return _drawn_charts(_ChartKey(results, entry.id, entry.saved, tasks))


def tasks_of(result: Result) -> list[str]:
    """The tasks in a result's tables, in order of appearance."""
    named = (table["task"] for table in result.tables.values() if "task" in table.columns)
    return list(dict.fromkeys(str(task) for column in named for task in column))


def rows_of_tasks(result: Result, tasks: tuple[str, ...]) -> Result:
    """The result with only the rows of these tasks, and all tables without tasks.

    Example:
        >>> import pandas as pd
        >>> from lamina.results import Provenance
        >>> scores = pd.DataFrame({"task": ["pos", "ner"], "value": [0.9, 0.8]})
        >>> result = Result("probe", {"scores": scores}, Provenance({}, {}, {}))
        >>> rows_of_tasks(result, ("ner",)).tables["scores"]["value"].tolist()
        [0.8]
    """
    tables = dict(result.tables)
    for name, column in product(tables, ("task", "task_a", "task_b")):
        table = tables[name]
        if column in table.columns:
            tables[name] = table[table[column].isin(tasks)]
    return replace(result, tables=tables)


def _saved_charts(entry: SavedResult) -> dict[str, dict[str, Any]]:
    """The charts in the folder; none if one of them cannot be used, so that all are drawn again."""
    read = {}
    for path in entry.folder.glob("*.vl.json"):
        name = path.name.removesuffix(".vl.json")
        if path.is_symlink() or not re.fullmatch(NAME, name):
            continue
        if not is_as_saved(entry.folder, path.name):
            return {}
        try:
            spec = without_nan(parse_json(_content(path).decode()))
            json.dumps(spec, ensure_ascii=False).encode()
        except (OSError, ValueError, RecursionError, InputError):
            return {}
        if not isinstance(spec, dict):
            return {}
        read[name] = spec
    captions = list(captions_of(entry.analysis))
    ranks = {name: rank for rank, name in enumerate(captions)}
    return {name: read[name] for name in sorted(read, key=lambda name: (ranks.get(name, len(ranks)), name))}


def _content(path: Path) -> bytes:
    with open_regular(path) as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"more than {_LARGEST:,} bytes")
    return content


class _ChartKey(NamedTuple):
    """What is drawn."""

    results: ResultIndex
    id: str
    saved: int
    """When the result was saved: a new one in the same folder is redrawn."""
    tasks: tuple[str, ...]


@lru_cache(maxsize=_HELD)
def _drawn_charts(what: _ChartKey) -> Specs:
    result = what.results.result(what.id)
    shown = rows_of_tasks(result, what.tasks) if what.tasks else result
    return {name: spec_of(chart) for name, chart in draw(shown).items()}
