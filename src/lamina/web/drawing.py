"""The charts of saved results: as saved, or redrawn for some of the tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from lamina.figures import captions_of, draw, spec_of
from lamina.result_index import Entry, ResultIndex
from lamina.results import Result

_HELD = 64
"""Sets of charts kept in memory."""

Specs = Mapping[str, dict[str, Any]]
"""Name of a chart -> its Vega-Lite specification."""


def charts_of(results: ResultIndex, entry: Entry, tasks: tuple[str, ...] = ()) -> Specs:
    """Every chart of a result, the most important first; only of the given tasks, if any."""
    if not tasks and (saved := _saved(entry)):
        return saved
    return _drawn(_Drawing(results, entry.id, str(entry.head.get("key")), tasks))


def tasks_of(result: Result) -> list[str]:
    """The tasks in a result's tables, in order of appearance."""
    named = (table["task"] for table in result.tables.values() if "task" in table.columns)
    return list(dict.fromkeys(str(task) for column in named for task in column))


def of_tasks(result: Result, tasks: tuple[str, ...]) -> Result:
    """The result with only the rows of these tasks, and all tables without tasks.

    Example:
        >>> import pandas as pd
        >>> from lamina.results import Provenance
        >>> scores = pd.DataFrame({"task": ["pos", "ner"], "value": [0.9, 0.8]})
        >>> result = Result("probe", {"scores": scores}, Provenance({}, {}, {}))
        >>> of_tasks(result, ("ner",)).tables["scores"]["value"].tolist()
        [0.8]
    """
    tables = dict(result.tables)
    for name, column in product(tables, ("task", "task_a", "task_b")):
        table = tables[name]
        if column in table.columns:
            tables[name] = table[table[column].isin(tasks)]
    return replace(result, tables=tables)


def _saved(entry: Entry) -> dict[str, dict[str, Any]]:
    read = {}
    for path in entry.folder.glob("*.vl.json"):
        if path.is_symlink():
            continue
        try:
            spec = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        if not isinstance(spec, dict):
            return {}
        read[path.name.removesuffix(".vl.json")] = spec
    captions = list(captions_of(entry.analysis))
    ranks = {name: rank for rank, name in enumerate(captions)}
    return {name: read[name] for name in sorted(read, key=lambda name: (ranks.get(name, len(ranks)), name))}


class _Drawing(NamedTuple):
    """What is drawn."""

    results: ResultIndex
    id: str
    key: str
    """Of the result: a new one in the same folder is redrawn."""
    tasks: tuple[str, ...]


@lru_cache(maxsize=_HELD)
def _drawn(what: _Drawing) -> Specs:
    result = what.results.result(what.id)
    shown = of_tasks(result, what.tasks) if what.tasks else result
    return {name: spec_of(chart) for name, chart in draw(shown).items()}
