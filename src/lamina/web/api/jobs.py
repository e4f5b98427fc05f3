"""Computations that take longer than a click: started, watched and cancelled."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Annotated, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from lamina.errors import InputError
from lamina.web.api.answers import ERRORS, Typed
from lamina.web.desk import Desk, TheDesk
from lamina.web.jobs import Job, State

router = APIRouter(prefix="/jobs", tags=["jobs"], responses={code: ERRORS[code] for code in (401, 403, 404, 422)})

Analysis = Literal[
    "geometry", "probe", "attention", "heads", "headmap", "contextualize", "neighbours", "phases", "diff", "finetune"
]

# As the report does it: a small model learns to answer generated stories within a minute.
_STORIES = {"task": "babi", "data": "stories", "babi-tasks": "1", "lr": "2e-4", "batch": "16"}
_STEPS = {"schedule": "constant", "max-steps": "120"}


class Wanted(BaseModel):
    """What to compute."""

    analysis: Analysis
    model: Typed = Field(max_length=1000)
    other: Typed | None = Field(None, max_length=1000, description="diff: the model to compare with.")
    corpus: Typed | None = Field(None, max_length=200, description="One of the server's; the first where not given.")
    limit: int | None = Field(None, ge=1, le=1_000_000, description="Only the first so many texts.")


class Progress(BaseModel):
    """A computation, and how far it is."""

    id: str
    state: State
    command: str
    what: str
    done: float
    total: float | None
    message: str


@router.get("")
def listed(desk: TheDesk) -> list[Progress]:
    """All computations, the newest first."""
    return [_progress(job) for job in desk.jobs.all()]


@router.post("", status_code=202, responses={code: ERRORS[code] for code in (400, 413, 429)})
def start(desk: TheDesk, wanted: Wanted) -> Progress:
    """Queue a computation; its result appears among the results when it is done."""
    if not desk.settings.folders:
        raise InputError("there is no folder to write to; start the server with one: lamina serve results")
    folder = _folder(desk.settings.folders[0], wanted)
    return _progress(desk.jobs.start([*_arguments(desk, wanted), "--out", str(folder)], folder))


@router.get("/{id}")
def one(desk: TheDesk, id: Annotated[str, Path(max_length=40)]) -> Progress:
    """One computation."""
    return _progress(desk.jobs.get(id))


@router.delete("/{id}")
def cancel(desk: TheDesk, id: Annotated[str, Path(max_length=40)]) -> Progress:
    """Stop a computation; what it has finished is kept."""
    return _progress(desk.jobs.cancel(id))


def _arguments(desk: Desk, wanted: Wanted) -> list[str]:
    """The command of lamina that computes it."""
    limit = [] if wanted.limit is None else ["--limit", str(wanted.limit)]
    model = desk.models.source(wanted.model)
    if wanted.analysis == "finetune":
        return ["finetune", model, *(f"--{name}={value}" for name, value in (_STORIES | _STEPS).items())]
    if wanted.analysis == "phases":
        return ["phases", model, "--data", "stories", *limit]
    corpus = wanted.corpus or desk.settings.corpora[0]
    if corpus not in desk.settings.corpora:
        raise InputError(
            f"the corpus {corpus!r} was not named when this server was started; there are: "
            f"{', '.join(desk.settings.corpora)}"
        )
    models = [model]
    if wanted.analysis == "diff":
        if wanted.other is None:
            raise InputError("diff compares two models; name the other")
        models.append(desk.models.source(wanted.other))
    return [wanted.analysis, *models, "--corpus", corpus, *limit]


def _folder(root: FilePath, wanted: Wanted) -> FilePath:
    names = [FilePath(name).name for name in (wanted.model, wanted.other) if name]
    return root / "-".join([wanted.analysis, *names, *filter(None, [wanted.corpus]), str(wanted.limit or "")]).strip(
        "-"
    )


def _progress(job: Job) -> Progress:
    return Progress(
        id=job.id,
        state=job.state,
        command=job.command,
        what=job.what,
        done=job.done,
        total=job.total,
        message=job.message,
    )
