"""Analyses as data; background computations: start, follow, cancel; and the tables that a page was given for them.

Tables are kept in the first result folder, so that jobs can read them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter
from fastapi import Path as PathParameter
from pydantic import BaseModel, ConfigDict, Field, model_validator

from lamina.corpora.tables.columns import number_in
from lamina.corpora.tables.files import delimited_rows, layout_of
from lamina.errors import CorpusError, InputError
from lamina.files.writing import write_text
from lamina.web.api.results import ResultSummary, summaries_of
from lamina.web.api.schema import ERRORS, Typed, whole
from lamina.web.jobs import BackgroundJob, CostEstimate, JobState
from lamina.web.requests import TABLES, allowed_data, default_data, is_job, job_request, tables_of
from lamina.web.state import AppState, State

if TYPE_CHECKING:
    from lamina.framework.declare import Analysis
    from lamina.framework.inputs import Input


analyses_router = APIRouter(
    prefix="/analyses", tags=["analyses"], responses={code: ERRORS[code] for code in (401, 403)}
)


class InputCard(BaseModel):
    """Something an analysis reads."""

    name: str
    """Its name in a request."""
    kind: str
    """model, texts, questions, suite or other."""
    help: str
    required: bool
    default: str | None
    """What this server uses if a request does not say."""
    choices: list[str]
    """What this server allows; empty if no job can read it."""


class TableCard(BaseModel):
    """What one table of a result holds."""

    rows: str
    """What one row is."""
    columns: list[str]
    optional: bool
    """Whether it is there only with some settings or some data."""
    format: Literal["csv", "parquet"]
    """In which it is saved; the server gives either as CSV."""


class AnalysisCard(BaseModel):
    """An analysis, as it declares itself."""

    name: str
    title: str
    question: str
    method: str
    cites: list[str]
    chapter: str
    version: int
    inputs: list[InputCard]
    data_options: dict[str, Any]
    """Which part of the data, in which form: a JSON schema."""
    settings: dict[str, Any]
    """A JSON schema."""
    tables: dict[str, TableCard]
    report: dict[str, Any] | None
    """The settings with which a report asks it; null where a report does not."""
    job: bool
    """Whether `POST /api/jobs` takes it."""


@analyses_router.get("")
def analyses(app: State) -> list[AnalysisCard]:
    """Every analysis, in the order of the report."""
    return [_card(app, analysis) for analysis in app.analyses]


def _card(app: AppState, analysis: Analysis) -> AnalysisCard:
    job = is_job(analysis)
    inputs = [_input(app, given, job=job, seeds=analysis.reads.seeds) for given in analysis.reads.given]
    report = None if analysis.report is None else dict(analysis.report)
    # Where this machine has none of its suites, there is nothing to start it with.
    job = job and all(card.choices for card in inputs)
    return AnalysisCard(**{**analysis.describe(), "inputs": inputs}, report=report, job=job)


def _input(app: AppState, given: Input, *, job: bool, seeds: bool) -> InputCard:
    data = job and given.kind != "model"
    choices = app.models.names(seeds=seeds) if given.kind == "model" else allowed_data(app, given)
    return InputCard(
        name=given.name,
        kind=given.kind,
        help=given.help,
        required=not isinstance(given.default, str),
        default=default_data(app, given) if data else None,
        choices=list(choices) if job else [],
    )


router = APIRouter(prefix="/jobs", tags=["jobs"], responses={code: ERRORS[code] for code in (401, 403, 404, 422)})


class JobRequest(BaseModel):
    """What to compute: the same table as `lamina run` reads, its inputs under the names of the analysis."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [{"analysis": "geometry", "model": "minilm", "data": {"name": "ewt", "limit": 100}}],
        },
    )

    analysis: Typed = Field(max_length=100)
    model: Typed = Field(max_length=1000)
    data: Typed | dict[str, Any] = Field(
        default_factory=dict,
        description="A name, or a table with `name` and data options; the server's own by default.",
    )
    settings: dict[str, Any] = Field(default_factory=dict, description="As `GET /api/analyses` describes them.")

    @model_validator(mode="after")
    def _readable(self) -> JobRequest:
        whole(json.dumps(self.model_dump(), ensure_ascii=False, default=str))
        return self


class JobProgress(BaseModel):
    """A computation and its progress."""

    id: str
    state: JobState
    command: str
    what: str
    done: float
    total: float | None
    message: str
    elapsed: float
    """Seconds that it has run, or ran."""
    estimate: float | None
    """Seconds that a trial expected of it; null if there was none."""
    result: ResultSummary | None
    """What was found, once it is done; null before, and where it left no result."""


@router.get("")
def listed(app: State) -> list[JobProgress]:
    """All computations, the newest first."""
    jobs = app.jobs.all()
    results = _results_of(app, jobs)
    return [_progress(job, results.get(job.id)) for job in jobs]


@router.post("", status_code=202, responses={code: ERRORS[code] for code in (400, 413, 429)})
def start(app: State, wanted: JobRequest) -> JobProgress:
    """Queue a computation; its result appears among the results when it is done."""
    request = job_request(app, wanted.model_dump(exclude_unset=True))
    table = request.table()
    return _progress(app.jobs.start(table, request.command, app.estimates.known(table)))


@router.get("/{id}")
def one(app: State, id: Annotated[str, PathParameter(max_length=40)]) -> JobProgress:
    """One computation."""
    job = app.jobs.get(id)
    return _progress(job, _results_of(app, [job]).get(id))


@router.delete("/{id}")
def cancel(app: State, id: Annotated[str, PathParameter(max_length=40)]) -> JobProgress:
    """Cancel a computation; finished parts are kept. One that is over is taken off the list."""
    over = app.jobs.get(id).over
    return _progress(app.jobs.dismiss(id) if over else app.jobs.cancel(id))


def _results_of(app: AppState, jobs: Sequence[BackgroundJob]) -> dict[str, ResultSummary]:
    """Id of each job that is done -> the result that it left."""
    # The server may have been started with a folder as seen from where it was started.
    done = {Path(job.request.get("out", "")).resolve(): job.id for job in jobs if job.state == "done"}
    if not done:
        return {}
    there = [entry for entry in app.results.entries() if entry.folder.resolve() in done]
    summaries = summaries_of(app, there)
    return {done[entry.folder.resolve()]: summary for entry, summary in zip(there, summaries, strict=True)}


def _progress(job: BackgroundJob, result: ResultSummary | None = None) -> JobProgress:
    return JobProgress(
        id=job.id,
        state=job.state,
        command=job.command,
        what=job.what,
        done=job.done,
        total=job.total,
        message=job.message,
        elapsed=round(job.elapsed, 1),
        estimate=job.estimate,
        result=result,
    )


tables_router = APIRouter(
    prefix="/tables", tags=["tables"], responses={code: ERRORS[code] for code in (400, 401, 403, 413)}
)
_MOST_TABLES = 50
"""Tables that are kept; for more, some have to be removed."""
_MOST_CLASSES = 50
"""Different values up to which a column looks like labels."""
_WORDS_OF_TEXT = 3
"""Words per cell, on average, from which on a column looks like running text."""


class GivenTable(BaseModel):
    """A table as text."""

    name: str = Field(max_length=200)
    """Of its file; the kept one is called like it."""
    text: str
    """CSV or TSV, with or without names of columns in the first line."""


class TableColumn(BaseModel):
    """One column of a table."""

    name: str
    looks_like: Literal["text", "labels", "values", "ids", "other"]
    values: int
    """How many different ones it has."""
    examples: list[str]


class KeptTable(BaseModel):
    """A table that jobs can read."""

    name: str
    """As jobs name it (`data`)."""
    rows: int
    columns: list[TableColumn]


@tables_router.post("", status_code=201)
def keep(app: State, given: GivenTable) -> KeptTable:
    """Keep a table, and say what its columns look like."""
    if not app.settings.folders:
        raise InputError("there is no folder to write to; start the server with one: lamina serve results")
    tables = tables_of(app)
    stem = re.sub(r"[^\w-]+", "-", Path(given.name).stem)[:40].strip("-") or "table"
    suffix = ".tsv" if given.name.lower().endswith(".tsv") else ".csv"
    name = f"{stem}-{hashlib.sha256(given.text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}{suffix}"
    if name not in tables and len(tables) >= _MOST_TABLES:
        raise InputError(f"{_MOST_TABLES} tables are kept; remove some from {app.settings.folders[0] / TABLES}")
    path = app.settings.folders[0] / TABLES / name
    if name not in tables:
        path.parent.mkdir(exist_ok=True)
        write_text(path, given.text)
    try:
        return _described(name, path)
    except InputError:
        path.unlink()
        raise


def _described(name: str, path: Path) -> KeptTable:
    layout = layout_of(path)
    if layout is None:
        raise CorpusError(f"{name} is not a table: save it as CSV or TSV, with names of columns in the first line")
    faults: list[str] = []
    rows = [row.values for row in delimited_rows(path, layout, lambda fault: faults.append(str(fault)))]
    if faults:
        raise CorpusError(faults[0].replace(str(path), name))
    if not rows:
        raise CorpusError(f"{name} has no rows")
    return KeptTable(name=name, rows=len(rows), columns=[_column(column, rows) for column in layout.columns])


def _column(name: str, rows: list[dict[str, str]]) -> TableColumn:
    cells = [str(row[name]).strip() for row in rows]
    filled = [cell for cell in cells if cell]
    counts = Counter(filled)
    words = sum(len(cell.split()) for cell in filled) / max(1, len(filled))
    kind: Literal["text", "labels", "values", "ids", "other"] = "other"
    if words >= _WORDS_OF_TEXT:
        kind = "text"
    elif _is_scale(filled):
        kind = "values"
    elif 1 < len(counts) <= min(_MOST_CLASSES, max(2, len(filled) // 2)):
        kind = "labels"
    elif len(counts) == len(filled):
        kind = "ids"
    return TableColumn(
        name=name, looks_like=kind, values=len(counts), examples=[cell[:80] for cell in list(counts)[:3]]
    )


def _is_scale(cells: list[str]) -> bool:
    """Whether all cells are numbers, some of them fractions."""
    numbers = [number_in(cell) for cell in cells]
    return None not in numbers and any(number is not None and number % 1 for number in numbers)


class JobEstimate(BaseModel):
    """What a computation would take on this machine."""

    state: Literal["waiting", "trying", "known", "failed", "off"]
    seconds: float | None
    memory: int | None
    why: str


@tables_router.post("/estimate", responses={code: ERRORS[code] for code in (404, 422)})
def estimate(app: State, wanted: JobRequest) -> JobEstimate:
    """What a computation would take; it is tried once, so ask again until it is known."""
    cost: CostEstimate = app.estimates.get(job_request(app, wanted.model_dump(exclude_unset=True)).table())
    return JobEstimate(state=cost.state, seconds=cost.seconds, memory=cost.memory, why=cost.why)
