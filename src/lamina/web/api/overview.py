"""A model's card: what was found, its abilities by layer and its heads by role, and what has not been measured yet."""

from __future__ import annotations

from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel

from lamina.errors import LaminaError
from lamina.results.finding import plainly, strongest_first
from lamina.results.index import ResultIndex, SavedResult, using, whole_first
from lamina.web.api.results import FigureCard, FindingCard, ResultSummary, summaries_of
from lamina.web.api.schema import ERRORS
from lamina.web.requests import is_job, job_request
from lamina.web.state import AppState, BusyError, State

if TYPE_CHECKING:
    from lamina.framework.declare import Analysis

router = APIRouter(
    tags=["overview"], responses={code: ERRORS[code] for code in (400, 401, 403, 404, 409, 429, 503, 504)}
)

ModelName = Annotated[str, Path(max_length=1000)]

_CACHED_DRAWINGS = 8
"""Drawings of models kept in memory."""


class OverviewFinding(FindingCard):
    """A finding, and the result that it comes from."""

    result: str
    title: str


class PlainFinding(FindingCard):
    """A sentence of the paragraph: `text` has the test behind it."""

    plain: str
    """The claim without its statistics."""


class ChapterOfModel(BaseModel):
    """What was measured of one side of a model."""

    name: str
    title: str
    question: str
    results: list[ResultSummary]


class ModelOverview(BaseModel):
    """What was measured of a model."""

    model: str
    paragraph: list[PlainFinding]
    """The model in a paragraph, sentence by sentence, as the report begins."""
    findings: list[OverviewFinding]
    """Clear ones first."""
    glance: FigureCard | None
    """Abilities by layers and heads by roles, linked by the layer; null if neither was measured."""
    captions: list[str]
    """How to read its panels; without a figure, why it cannot be drawn."""
    chapters: list[ChapterOfModel]
    """Every chapter, with the newest result of each analysis."""
    report: bool
    """Whether a report lies in one of the folders: `/report` shows it."""


@router.get("/overview/{name:path}")
def overview(app: State, name: ModelName) -> ModelOverview:
    """What was measured of a model, by its weights; by its name, if it cannot be loaded."""
    from lamina.framework.outline import CHAPTERS, chapter_of

    entries = _newest(app, name)
    try:
        with using(*entries):
            paragraph, glance, captions = _glance(app.results, tuple((entry.id, entry.saved) for entry in entries))
    except LaminaError as error:
        # One result that cannot be read does not take the others away; its run says what is wrong with it.
        paragraph, glance, captions = [], None, [str(error)]
    chapters = []
    every = summaries_of(app, entries)
    for card in CHAPTERS:
        summaries = [summary for summary in every if chapter_of(summary.analysis) == card.name]
        leads = [analysis for analysis, _ in card.leads]
        summaries.sort(
            key=lambda summary, leads=leads: leads.index(summary.analysis) if summary.analysis in leads else len(leads)
        )
        about = {"name": card.name, "title": card.title, "question": card.question}
        chapters.append(ChapterOfModel(**about, results=summaries))
    return ModelOverview(
        model=name,
        paragraph=paragraph,
        findings=_in_turn(chapters),
        glance=glance,
        captions=captions,
        chapters=chapters,
        report=app.report is not None,
    )


def _in_turn(chapters: list[ChapterOfModel]) -> list[OverviewFinding]:
    """In the order of the report: clear ones first; among equals the headline of each chapter, then its others."""
    by_chapter = [
        [
            OverviewFinding(
                text=finding.text, status=finding.status, weight=finding.weight, result=summary.id, title=summary.title
            )
            for summary in chapter.results
            for finding in strongest_first(summary.findings)
        ]
        for chapter in chapters
    ]
    return list(
        strongest_first(finding for turn in zip_longest(*by_chapter) for finding in turn if finding is not None)
    )


def _newest(app: AppState, name: str) -> list[SavedResult]:
    """The newest result of each analysis, never a partial one beside a whole one, in the order of the report."""
    source = app.models.source(name)
    try:
        entries = app.results.of_model(app.fingerprint(name))
    except BusyError:
        raise
    except LaminaError:
        entries = whole_first(entry for entry in app.results.entries() if entry.model in (name, source))
    ranks = {analysis.name: rank for rank, analysis in enumerate(app.analyses)}
    newest = {entry.analysis: entry for entry in reversed(entries)}
    return sorted(newest.values(), key=lambda entry: (ranks.get(entry.analysis, len(ranks)), entry.analysis))


@lru_cache(maxsize=_CACHED_DRAWINGS)
def _glance(
    index: ResultIndex, saved: tuple[tuple[str, int], ...]
) -> tuple[list[PlainFinding], FigureCard | None, list[str]]:
    """The paragraph, and the figure with its captions; made once for the same results: a new one has another time."""
    from lamina.analyses.overview import ability_layers, head_roles
    from lamina.analyses.overview import summary as summary_of
    from lamina.figures import spec_of
    from lamina.figures.overview import CAPTIONS, abilities, beside, roles

    results = [index.result(id) for id, _ in saved]
    paragraph = [
        PlainFinding(text=finding.text, status=finding.status, weight=finding.weight, plain=plainly(finding))
        for finding in summary_of(results)
    ]
    able, heads = ability_layers(results), head_roles(results)
    panels = {
        **({"abilities": abilities(able)} if len(able) else {}),
        **({"roles": roles(heads)} if len(heads) else {}),
    }
    if not panels:
        return paragraph, None, []
    summary = " ".join(str(panel.to_dict().get("description", "")) for panel in panels.values())
    captions = [CAPTIONS[name] for name in panels]
    spec = spec_of(beside(*panels.values()))
    return paragraph, FigureCard(name="glance", spec=spec, summary=summary, caption=" ".join(captions)), captions


class MissingAnalysis(BaseModel):
    """An analysis that was not run for a model, and what it would take."""

    analysis: str
    title: str
    question: str
    chapter: str
    wanted: dict[str, Any]
    """What to send to `POST /api/jobs`: as a report asks it."""
    state: Literal["waiting", "trying", "known", "failed", "off"]
    """Of the estimate. It comes from a trial run; trials run one after another, or not at all with --no-estimates."""
    seconds: float | None
    memory: int | None
    """Bytes."""
    why: str
    """Why it cannot be measured, or not be estimated."""


@router.get("/unmeasured/{name:path}")
def unmeasured(app: State, name: ModelName) -> list[MissingAnalysis]:
    """Analyses of a report that this model has no result of, with an estimate for this machine.

    Not which layer to use: that is asked of a table with one kind of label, on a page of its own.
    """
    from lamina.framework.inputs import SeveralModels

    done = {entry.analysis for entry in _newest(app, name)}
    wanted = [
        analysis
        for analysis in app.analyses
        if analysis.report is not None
        and is_job(analysis)
        and analysis.name not in done
        and not isinstance(analysis.reads, SeveralModels)
    ]
    refused = _refused(app, name, wanted)
    return [_estimated(app, name, analysis, refused.get(analysis.name)) for analysis in wanted]


def _refused(app: AppState, name: str, analyses: list[Analysis]) -> dict[str, str]:
    """Analysis -> why this model cannot be asked it."""
    from lamina.framework.passports import refused_analyses

    passport = app.examined(name).passport
    silent = [analysis.name for analysis in analyses if analysis.reads.speaks and passport.language_head is None]
    return dict.fromkeys(silent, "the model has no language-model head") | refused_analyses(passport, analyses)


def _estimated(app: AppState, name: str, analysis: Analysis, refused: str | None) -> MissingAnalysis:
    from lamina.framework.outline import chapter_of
    from lamina.web.jobs import CostEstimate

    wanted = {"analysis": analysis.name, "model": name, "settings": dict(analysis.report or {})}
    try:
        request = job_request(app, wanted) if refused is None else None
        estimate = CostEstimate("failed", why=refused or "") if request is None else app.estimates.get(request.table())
    except LaminaError as error:
        estimate = CostEstimate("failed", why=str(error))
    return MissingAnalysis(
        analysis=analysis.name,
        title=analysis.title,
        question=analysis.question,
        chapter=chapter_of(analysis.name),
        wanted=wanted,
        state=estimate.state,
        seconds=estimate.seconds,
        memory=estimate.memory,
        why=estimate.why,
    )
