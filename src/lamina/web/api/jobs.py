"""Analyses as data, and background computations: start, follow, cancel."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field, model_validator

from lamina.web.api.results import ResultSummary, summaries_of
from lamina.web.api.schema import ERRORS, Typed, whole
from lamina.web.jobs import BackgroundJob, JobState
from lamina.web.requests import allowed_data, default_data, is_job, job_request
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
def one(app: State, id: Annotated[str, Path(max_length=40)]) -> JobProgress:
    """One computation."""
    job = app.jobs.get(id)
    return _progress(job, _results_of(app, [job]).get(id))


@router.delete("/{id}")
def cancel(app: State, id: Annotated[str, Path(max_length=40)]) -> JobProgress:
    """Cancel a computation; finished parts are kept. One that is over is taken off the list."""
    over = app.jobs.get(id).over
    return _progress(app.jobs.dismiss(id) if over else app.jobs.cancel(id))


def _results_of(app: AppState, jobs: Sequence[BackgroundJob]) -> dict[str, ResultSummary]:
    """Id of each job that is done -> the result that it left."""
    # The server may have been started with a folder as seen from where it was started.
    done = {pathlib.Path(job.request.get("out", "")).resolve(): job.id for job in jobs if job.state == "done"}
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
