"""Background computations: start, follow, cancel."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field, model_validator

from lamina.web.api.schema import ERRORS, Typed, whole
from lamina.web.jobs import BackgroundJob, JobState
from lamina.web.requests import job_request
from lamina.web.state import State

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


@router.get("")
def listed(app: State) -> list[JobProgress]:
    """All computations, the newest first."""
    return [_progress(job) for job in app.jobs.all()]


@router.post("", status_code=202, responses={code: ERRORS[code] for code in (400, 413, 429)})
def start(app: State, wanted: JobRequest) -> JobProgress:
    """Queue a computation; its result appears among the results when it is done."""
    request = job_request(app, wanted.model_dump(exclude_unset=True))
    table = request.table()
    return _progress(app.jobs.start(table, request.command, app.estimates.known(table)))


@router.get("/{id}")
def one(app: State, id: Annotated[str, Path(max_length=40)]) -> JobProgress:
    """One computation."""
    return _progress(app.jobs.get(id))


@router.delete("/{id}")
def cancel(app: State, id: Annotated[str, Path(max_length=40)]) -> JobProgress:
    """Cancel a computation; finished parts are kept. One that is over is taken off the list."""
    over = app.jobs.get(id).over
    return _progress(app.jobs.dismiss(id) if over else app.jobs.cancel(id))


def _progress(job: BackgroundJob) -> JobProgress:
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
    )
