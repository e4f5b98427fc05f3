"""Two models: saved results of both side by side, and their differences."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from lamina.analyses import get_analysis
from lamina.errors import InputError
from lamina.figures import captions_of, draw, spec_of
from lamina.result_index import Entry, using
from lamina.web.api.answers import ERRORS, Typed
from lamina.web.api.results import Figure, Summary, summary_of
from lamina.web.app_state import AppState, State

router = APIRouter(
    prefix="/compare",
    tags=["compare"],
    responses={code: ERRORS[code] for code in (400, 401, 403, 404, 413, 422, 429, 503)},
)


class Two(BaseModel):
    """Two models, by their names in the list of models."""

    model: Typed = Field(max_length=1000)
    other: Typed = Field(max_length=1000)


class Pair(BaseModel):
    """The same analysis of both models: the newest result of each."""

    a: Summary
    b: Summary


class Comparison(BaseModel):
    """What the saved results say about two models."""

    names: tuple[str, str]
    """Their names in the results."""
    pairs: list[Pair]
    figures: list[Figure]
    """Probing results of both by relative depth, with differences; none if either was not probed."""
    why_not: str
    """Why there is no such figure."""
    diff: Summary | None
    """The newest `diff` result of the two, if there is one."""


@router.post("")
def compared(app: State, two: Two) -> Comparison:
    """The saved results of two models, paired by analysis, and the figures that show their differences."""
    own = {name: _results_of(app, name) for name in (two.model, two.other)}
    first, second = own[two.model], own[two.other]
    pairs = [Pair(a=summary_of(app, first[each]), b=summary_of(app, second[each])) for each in first if each in second]
    figures, why_not = _figures(app, first.get("probe"), second.get("probe"))
    names = (_name(app, two.model), _name(app, two.other))
    diff = app.results.newest("diff", " and ".join(names))
    return Comparison(
        names=names,
        pairs=pairs,
        figures=figures,
        why_not=why_not,
        diff=None if diff is None else summary_of(app, diff),
    )


def _name(app: AppState, model: str) -> str:
    with app.model(model) as encoder:
        return encoder.name


def _results_of(app: AppState, model: str) -> dict[str, Entry]:
    """Analysis -> the newest result of this model."""
    with app.model(model) as encoder:
        own = app.results.of_model(encoder.fingerprint)
    found: dict[str, Entry] = {}
    for entry in own:
        found.setdefault(entry.analysis, entry)
    return found


def _figures(app: AppState, a: Entry | None, b: Entry | None) -> tuple[list[Figure], str]:
    if a is None or b is None:
        return [], "Both models have to be probed on the same corpus first."
    try:
        with using(a, b):
            both = get_analysis("compare")(app.results.result(a.id), app.results.result(b.id))
            specs = {name: spec_of(chart) for name, chart in draw(both).items()}
    except InputError as error:
        return [], str(error)
    captions = captions_of("compare")
    return [
        Figure(name=name, spec=spec, summary=str(spec.get("description", "")), caption=captions.get(name, ""))
        for name, spec in specs.items()
    ], ""
