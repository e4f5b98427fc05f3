"""The analyses as data: questions, inputs, settings, and which of them can be started as jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel

from lamina.web.api.schema import ERRORS
from lamina.web.requests import allowed_data, default_data, is_job
from lamina.web.state import AppState, State

if TYPE_CHECKING:
    from lamina.framework.declare import Analysis
    from lamina.framework.inputs import Input

router = APIRouter(prefix="/analyses", tags=["analyses"], responses={code: ERRORS[code] for code in (401, 403)})


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
    kept: Literal["csv", "parquet"]
    """As what it is saved; the server gives either as CSV."""


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


@router.get("")
def analyses(app: State) -> list[AnalysisCard]:
    """Every analysis, in the order of the report."""
    return [_card(app, each) for each in app.analyses]


def _card(app: AppState, analysis: Analysis) -> AnalysisCard:
    job = is_job(analysis)
    inputs = [_input(app, each, job=job, seeds=analysis.reads.seeds) for each in analysis.reads.given]
    report = None if analysis.report is None else dict(analysis.report)
    # Where this machine has none of its suites, there is nothing to start it with.
    job = job and all(each.choices for each in inputs)
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
