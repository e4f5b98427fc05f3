"""Saved results: findings, charts (as saved, or redrawn for some tasks), tables and provenance."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path as FilePath
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel
from starlette.responses import Response

from lamina.errors import InputError
from lamina.figures import captions_for, captions_of, draw, spec_of
from lamina.files.reading import open_regular, parse_json
from lamina.results import Result
from lamina.results.finding import read_finding
from lamina.results.folder import WITH_CONTRASTS, is_as_saved
from lamina.results.index import (
    NAME,
    ResultIndex,
    SavedResult,
    UnknownResultError,
    partial,
    partial_in_words,
    sample_in_words,
    using,
)
from lamina.results.result import without_nan
from lamina.stats.status import Status
from lamina.web.api.schema import ERRORS
from lamina.web.state import AppState, State
from lamina.web.workers import ChartImage

_CACHED_CHARTS = 64
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


def _content(path: FilePath) -> bytes:
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


@lru_cache(maxsize=_CACHED_CHARTS)
def _drawn_charts(what: _ChartKey) -> Specs:
    result = what.results.result(what.id)
    selected = rows_of_tasks(result, what.tasks) if what.tasks else result
    return {name: spec_of(chart) for name, chart in draw(selected).items()}


router = APIRouter(
    prefix="/results", tags=["results"], responses={code: ERRORS[code] for code in (400, 401, 403, 404, 422, 429, 504)}
)

ResultId = Annotated[str, Path(description="From the list of results.", max_length=12, pattern="^[0-9a-f]{1,12}$")]
Name = Annotated[str, Path(description="Of a chart or table.", pattern=NAME)]
Tasks = Annotated[
    list[str] | None, Query(alias="task", description="Only these tasks; all where none is named.", max_length=50)
]
_KINDS = {"svg": "image/svg+xml", "png": "image/png", "pdf": "application/pdf"}


class FindingCard(BaseModel):
    """What was found, in a sentence with its number, its interval and what it is compared with."""

    text: str
    status: Status
    """clear: the contrast of the sentence was shown; null: it is too small to mean anything; open: neither; untested:
    no outcome could have shown it."""
    weight: int = 0
    """How much the claim is worth, for ordering."""


class ResultSummary(BaseModel):
    """A result in the list."""

    id: str
    name: str
    """Its folder, relative to the one named at the start."""
    analysis: str
    title: str
    model: str
    corpus: str
    split: str
    created: str
    sample: str
    """What it saw and how it was asked: texts, limit, settings."""
    partial: str
    """Which comparable result saw more, in words; empty where none did. Shown with a badge, never in its place."""
    command: str
    """The command that reproduces it."""
    tables: list[str]
    findings: list[FindingCard]
    """Clear ones first; empty for results of older versions."""


class FigureCard(BaseModel):
    """One chart: a Vega-Lite specification, and the same in words."""

    name: str
    spec: dict[str, Any]
    summary: str
    caption: str


class ResultDetails(ResultSummary):
    """A result with its provenance and charts; tables and images have their own addresses."""

    question: str
    method: str
    figures: list[FigureCard]
    tasks: list[str]
    """Tasks that the charts can be filtered by."""
    rows: dict[str, int]
    """Table -> its number of rows."""
    provenance: dict[str, Any]


@router.get("")
def listed(app: State) -> list[ResultSummary]:
    """Every result in the named folders, the newest first."""
    return summaries_of(app, app.results.entries())


@router.get("/{id}")
def whole(app: State, id: ResultId, tasks: Tasks = None) -> ResultDetails:
    """One result: findings, charts and provenance."""
    entry, result = app.results.entry(id), app.results.result(id)
    _, question, method = app.words_of(result.analysis)
    captions = captions_for(result)
    figures = [
        FigureCard(name=name, spec=spec, summary=str(spec.get("description", "")), caption=captions.get(name, ""))
        for name, spec in charts_of(app.results, entry, _known(tasks_of(result), tasks, entry)).items()
    ]
    return ResultDetails(
        **_facts(app, entry, partial(app.results.entries())),
        question=question,
        method=method,
        figures=figures,
        tasks=tasks_of(result),
        rows={name: len(table) for name, table in result.tables.items()},
        provenance=entry.head["provenance"],
    )


@router.get("/{id}/tables/{name}.csv", response_class=Response)
def table(app: State, id: ResultId, name: Name) -> Response:
    """One complete table as CSV."""
    entry = app.results.entry(id)
    rows = _named(app.results.result(id).tables, name, "table", entry)
    return _file(rows.to_csv(index=False), "text/csv; charset=utf-8", f"{entry.analysis}-{name}.csv")


@router.get("/{id}/charts/{name}.{kind}", response_class=Response)
def image(app: State, id: ResultId, name: Name, kind: ChartImage, tasks: Tasks = None) -> Response:
    """One chart as an image for a paper or a slide."""
    entry = app.results.entry(id)
    known = _known(tasks_of(app.results.result(id)), tasks, entry) if tasks else ()
    spec = _named(charts_of(app.results, entry, known), name, "chart", entry)
    with using(entry):
        body = app.charts.draw(kind, spec)
    return _file(body, _KINDS[kind], f"{entry.analysis}-{name}.{kind}")


def _known(there: list[str], requested: Sequence[str] | None, entry: SavedResult) -> tuple[str, ...]:
    for task in requested or ():
        _named(dict.fromkeys(there), task, "task", entry)
    return tuple(requested or ())


def _named(among: Mapping[str, Any], name: str, what: str, entry: SavedResult) -> Any:
    if name not in among:
        raise UnknownResultError(f"this {entry.analysis} result has no {what} {name!r}; it has: {', '.join(among)}")
    return among[name]


def _file(body: str | bytes, kind: str, name: str) -> Response:
    return Response(body, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'})


def summaries_of(app: AppState, entries: Sequence[SavedResult]) -> list[ResultSummary]:
    """Results as the list has them; beside all others, some of them are partial."""
    smaller = partial(app.results.entries())
    return [ResultSummary(**_facts(app, entry, smaller)) for entry in entries]


def _facts(app: AppState, entry: SavedResult, smaller: Mapping[str, SavedResult]) -> dict[str, Any]:
    return {
        "id": entry.id,
        "name": entry.name,
        "analysis": entry.analysis,
        "title": app.words_of(entry.analysis)[0],
        "model": entry.model,
        "corpus": entry.corpus.get("name", ""),
        "split": entry.corpus.get("split", ""),
        "created": entry.created,
        "sample": sample_in_words(entry.corpus, entry.parameters),
        "partial": partial_in_words(entry, smaller[entry.id]) if entry.id in smaller else "",
        "command": entry.head["provenance"].get("command", ""),
        "tables": list(entry.head["tables"]),
        "findings": _findings(entry.head),
    }


def _findings(head: Mapping[str, Any]) -> list[FindingCard]:
    """The findings of a result; in older formats their sentences are not those that were tested."""
    if head["format"] < WITH_CONTRASTS:
        return []
    findings = map(read_finding, head.get("findings", []))
    return [FindingCard(text=finding.text, status=finding.status, weight=finding.weight) for finding in findings]
