"""Several models: their saved results side by side, and the differences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from lamina.analyses import get_analysis
from lamina.analyses.probing.contenders import tasks_of
from lamina.errors import InputError
from lamina.figures import captions_for, draw, spec_of
from lamina.result_index import Entry, ResultIndex, using
from lamina.results import Result
from lamina.web.api.answers import ERRORS, Typed
from lamina.web.api.results import Figure, FindingCard, Summary, summary_of
from lamina.web.app_state import AppState, State

router = APIRouter(
    prefix="/compare",
    tags=["compare"],
    responses={code: ERRORS[code] for code in (400, 401, 403, 404, 413, 422, 429, 503)},
)

_FURTHER = 4
"""Beside the first two: six models can be told apart in print."""
_Name = Annotated[Typed, Field(max_length=1000)]


class Several(BaseModel):
    """Models to compare, by their names in the list of models."""

    model: _Name
    other: _Name
    further: list[_Name] = Field(default=[], max_length=_FURTHER)


class Beside(BaseModel):
    """The same analysis of several models: the newest result of each that has one."""

    results: list[Summary]


class ReadAt(BaseModel):
    """A layer that a task is read from."""

    task: str
    model: str
    layer: int
    value: float
    low: float
    high: float
    tied: bool
    """Whether it is as good as the best layer of all models, as far as the texts tell."""


class Comparison(BaseModel):
    """What the saved results say about several models."""

    names: list[str]
    """Their names in the results."""
    beside: list[Beside]
    figures: list[Figure]
    """Probing results of all by relative depth, with differences; none if fewer than two were probed."""
    findings: list[FindingCard]
    layers: list[ReadAt]
    """For each task the best layer of every model, the best of all first."""
    left_out: list[str]
    """Tasks of models that could not be compared, each with the reason."""
    why_not: str
    """Why there are no figures."""
    diff: Summary | None
    """The newest `diff` result of the first two, if there is one."""


@router.post("")
def compared(app: State, several: Several) -> Comparison:
    """The saved results of several models, side by side by analysis, and the figures that show their differences."""
    models = [several.model, several.other, *several.further]
    own = [_results_of(app, model) for model in models]
    names = [_name(app, model) for model in models]
    newest = [{entry.analysis: entry for entry in reversed(entries)} for entries in own]
    shared = [name for name in dict.fromkeys(name for each in newest for name in each)
              if sum(name in each for each in newest) > 1]  # fmt: skip
    beside = [Beside(results=[summary_of(app, each[name]) for each in newest if name in each]) for name in shared]
    diff = app.results.newest("diff", " and ".join(names[:2]))
    found, why_not = _compared(app, [_probed(app, entries) for entries in own])
    return Comparison(
        names=names,
        beside=beside,
        figures=[] if found is None else _figures(found),
        findings=[] if found is None else [FindingCard(text=each.text, status=each.status) for each in found.findings],
        layers=[] if found is None else _layers(found),
        left_out=[] if found is None else list(found.provenance.skipped),
        why_not=why_not,
        diff=None if diff is None else summary_of(app, diff),
    )


def _name(app: AppState, model: str) -> str:
    with app.model(model) as encoder:
        return encoder.name


def _results_of(app: AppState, model: str) -> list[Entry]:
    """The newest first."""
    with app.model(model) as encoder:
        return app.results.of_model(encoder.fingerprint)


def _probed(app: AppState, entries: Sequence[Entry]) -> list[Entry]:
    """The newest probing results that have no task of a corpus in common."""
    found: list[Entry] = []
    covered: set[tuple[str, str]] = set()
    for entry in entries:
        if entry.analysis != "probe":
            continue
        with using(entry):
            asked = tasks_of(app.results.result(entry.id))
        if covered.isdisjoint(asked):
            found.append(entry)
            covered.update(asked)
    return found


def _compared(app: AppState, probed: Sequence[Sequence[Entry]]) -> tuple[Result | None, str]:
    """The comparison of all that were probed, or why there is none."""
    # Models of the same weights have the same results.
    entries = list({entry.id: entry for own in probed for entry in own}.values())
    if sum(bool(own) for own in probed) < 2:
        return None, "At least two of the models have to be probed on the same corpus first."
    try:
        with using(*entries):
            return _comparison(app.results, tuple((each.id, each.saved) for each in entries)), ""
    except InputError as error:
        return None, str(error)


@lru_cache(maxsize=8)
def _comparison(results: ResultIndex, ids: tuple[tuple[str, int], ...]) -> Result:
    """Cached as long as the folders hold the same results: reading all predictions takes seconds."""
    return get_analysis("compare")([results.result(id) for id, _ in ids])


def _figures(found: Result) -> list[Figure]:
    captions = captions_for(found)
    specs = {name: spec_of(chart) for name, chart in draw(found).items()}
    return [
        Figure(name=name, spec=spec, summary=str(spec.get("description", "")), caption=captions.get(name, ""))
        for name, spec in specs.items()
    ]


def _layers(found: Result) -> list[ReadAt]:
    table = found.tables["best_layers"]
    best = table.drop_duplicates(["task", "model"])
    return [ReadAt(**{name: row[name] for name in ReadAt.model_fields}) for row in best.to_dict("records")]
