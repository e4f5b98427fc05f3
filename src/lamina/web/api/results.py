"""Saved results: what was run, its charts and its tables, to look at and to take away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel
from starlette.responses import Response

from lamina.figures import to_svg
from lamina.report.wording import section_of
from lamina.web.api.answers import ERRORS
from lamina.web.desk import TheDesk
from lamina.web.drawing import charts_of, tasks_of
from lamina.web.shelf import Entry, UnknownResultError

router = APIRouter(prefix="/results", tags=["results"], responses={code: ERRORS[code] for code in (401, 403, 404, 422)})

ResultId = Annotated[str, Path(description="From the list of results.", max_length=12, pattern="^[0-9a-f]{1,12}$")]
Name = Annotated[str, Path(description="Of a chart or table.", max_length=100, pattern=r"^[\w-]+$")]
Tasks = Annotated[
    list[str] | None, Query(alias="task", description="Only these tasks; all where none is named.", max_length=50)
]
Image = Literal["svg", "png", "pdf"]

_KINDS = {"svg": "image/svg+xml", "png": "image/png", "pdf": "application/pdf"}
_SCALE = 2
"""Pixels of a PNG for each point of the chart."""


class Summary(BaseModel):
    """A result in the list."""

    id: str
    name: str
    """Its folder, as seen from the one named at the start."""
    analysis: str
    title: str
    model: str
    corpus: str
    split: str
    created: str
    command: str
    """What to type to make it again."""
    tables: list[str]


class Figure(BaseModel):
    """One chart: a Vega-Lite specification, and the same in words."""

    name: str
    spec: dict[str, Any]
    summary: str
    caption: str


class Whole(Summary):
    """A result with all that is known of it; tables and images have addresses of their own."""

    question: str
    method: str
    figures: list[Figure]
    tasks: list[str]
    """By which the charts can be asked for."""
    rows: dict[str, int]
    """Table -> its number of rows."""
    provenance: dict[str, Any]


@router.get("")
def listed(desk: TheDesk) -> list[Summary]:
    """Every result in the named folders, the newest first."""
    return [summary_of(entry) for entry in desk.shelf.entries()]


@router.get("/{id}")
def whole(desk: TheDesk, id: ResultId, tasks: Tasks = None) -> Whole:
    """One result: charts, provenance and how to read it."""
    entry, result = desk.shelf.entry(id), desk.shelf.result(id)
    section = section_of(result.analysis)
    figures = [
        Figure(name=name, spec=spec, summary=str(spec.get("description", "")), caption=section.captions.get(name, ""))
        for name, spec in charts_of(desk.shelf, entry, _known(tasks_of(result), tasks, entry)).items()
    ]
    return Whole(
        **_facts(entry),
        question=section.question,
        method=section.method,
        figures=figures,
        tasks=tasks_of(result),
        rows={name: len(table) for name, table in result.tables.items()},
        provenance=entry.head["provenance"],
    )


@router.get("/{id}/tables/{name}.csv", response_class=Response)
def table(desk: TheDesk, id: ResultId, name: Name) -> Response:
    """One table, all of it, as CSV."""
    entry = desk.shelf.entry(id)
    found = _named(desk.shelf.result(id).tables, name, "table", entry)
    return _file(found.to_csv(index=False), "text/csv; charset=utf-8", f"{entry.analysis}-{name}.csv")


@router.get("/{id}/charts/{name}.{kind}", response_class=Response)
def image(desk: TheDesk, id: ResultId, name: Name, kind: Image, tasks: Tasks = None) -> Response:
    """One chart as an image for a paper or a slide."""
    import vl_convert

    entry = desk.shelf.entry(id)
    known = _known(tasks_of(desk.shelf.result(id)), tasks, entry) if tasks else ()
    spec = _named(charts_of(desk.shelf, entry, known), name, "chart", entry)
    if kind == "svg":
        body: str | bytes = to_svg(spec)
    elif kind == "png":
        body = vl_convert.vegalite_to_png(spec, scale=_SCALE, allowed_base_urls=[])
    else:
        body = vl_convert.vegalite_to_pdf(spec, allowed_base_urls=[])
    return _file(body, _KINDS[kind], f"{entry.analysis}-{name}.{kind}")


def _known(there: list[str], asked: Sequence[str] | None, entry: Entry) -> tuple[str, ...]:
    for task in asked or ():
        _named(dict.fromkeys(there), task, "task", entry)
    return tuple(asked or ())


def _named(among: Mapping[str, Any], name: str, what: str, entry: Entry) -> Any:
    if name not in among:
        raise UnknownResultError(f"this {entry.analysis} result has no {what} {name!r}; it has: {', '.join(among)}")
    return among[name]


def _file(body: str | bytes, kind: str, name: str) -> Response:
    return Response(body, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'})


def summary_of(entry: Entry) -> Summary:
    """A result as the list has it."""
    return Summary(**_facts(entry))


def _facts(entry: Entry) -> dict[str, Any]:
    provenance = entry.head["provenance"]
    corpus = provenance.get("corpus", {})
    return {
        "id": entry.id,
        "name": entry.name,
        "analysis": entry.analysis,
        "title": section_of(entry.analysis).title,
        "model": entry.model,
        "corpus": str(corpus.get("name", "")),
        "split": str(corpus.get("split", "")),
        "created": str(provenance.get("created", "")),
        "command": str(provenance.get("command", "")),
        "tables": list(entry.head["tables"]),
    }
