"""Saved results: findings, charts, tables and provenance, to look at and to download."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel
from starlette.responses import Response

from lamina.figures import captions_for, to_svg
from lamina.results.finding import read_finding
from lamina.results.folder import WITH_CONTRASTS
from lamina.results.index import NAME, SavedResult, UnknownResultError, using
from lamina.stats.status import Status
from lamina.web.api.schema import ERRORS
from lamina.web.drawing import charts_of, tasks_of
from lamina.web.state import AppState, State

router = APIRouter(
    prefix="/results", tags=["results"], responses={code: ERRORS[code] for code in (400, 401, 403, 404, 422)}
)

ResultId = Annotated[str, Path(description="From the list of results.", max_length=12, pattern="^[0-9a-f]{1,12}$")]
Name = Annotated[str, Path(description="Of a chart or table.", pattern=NAME)]
Tasks = Annotated[
    list[str] | None, Query(alias="task", description="Only these tasks; all where none is named.", max_length=50)
]
Image = Literal["svg", "png", "pdf"]

_KINDS = {"svg": "image/svg+xml", "png": "image/png", "pdf": "application/pdf"}
_SCALE = 2
"""Pixels per point of a PNG."""


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
    return [summary_of(app, entry) for entry in app.results.entries()]


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
        **_facts(app, entry),
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
    found = _named(app.results.result(id).tables, name, "table", entry)
    return _file(found.to_csv(index=False), "text/csv; charset=utf-8", f"{entry.analysis}-{name}.csv")


@router.get("/{id}/charts/{name}.{kind}", response_class=Response)
def image(app: State, id: ResultId, name: Name, kind: Image, tasks: Tasks = None) -> Response:
    """One chart as an image for a paper or a slide."""
    import vl_convert

    entry = app.results.entry(id)
    known = _known(tasks_of(app.results.result(id)), tasks, entry) if tasks else ()
    spec = _named(charts_of(app.results, entry, known), name, "chart", entry)
    with using(entry):
        if kind == "svg":
            body: str | bytes = to_svg(spec)
        elif kind == "png":
            body = vl_convert.vegalite_to_png(spec, scale=_SCALE, allowed_base_urls=[])
        else:
            body = vl_convert.vegalite_to_pdf(spec, allowed_base_urls=[])
    return _file(body, _KINDS[kind], f"{entry.analysis}-{name}.{kind}")


def _known(there: list[str], asked: Sequence[str] | None, entry: SavedResult) -> tuple[str, ...]:
    for task in asked or ():
        _named(dict.fromkeys(there), task, "task", entry)
    return tuple(asked or ())


def _named(among: Mapping[str, Any], name: str, what: str, entry: SavedResult) -> Any:
    if name not in among:
        raise UnknownResultError(f"this {entry.analysis} result has no {what} {name!r}; it has: {', '.join(among)}")
    return among[name]


def _file(body: str | bytes, kind: str, name: str) -> Response:
    return Response(body, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'})


def summary_of(app: AppState, entry: SavedResult) -> ResultSummary:
    """A result as the list has it."""
    return ResultSummary(**_facts(app, entry))


def _facts(app: AppState, entry: SavedResult) -> dict[str, Any]:
    return {
        "id": entry.id,
        "name": entry.name,
        "analysis": entry.analysis,
        "title": app.words_of(entry.analysis)[0],
        "model": entry.model,
        "corpus": entry.corpus.get("name", ""),
        "split": entry.corpus.get("split", ""),
        "created": entry.created,
        "command": entry.head["provenance"].get("command", ""),
        "tables": list(entry.head["tables"]),
        "findings": _findings(entry.head),
    }


def _findings(head: Mapping[str, Any]) -> list[FindingCard]:
    """The findings of a result; those of older formats were not told as they were tested."""
    if head["format"] < WITH_CONTRASTS:
        return []
    found = map(read_finding, head.get("findings", []))
    return [FindingCard(text=each.text, status=each.status, weight=each.weight) for each in found]
