"""Two models: what was measured of both, side by side, and where they differ."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from lamina import analyses
from lamina.errors import InputError
from lamina.figures import draw, spec_of
from lamina.report.wording import section_of
from lamina.web.api.answers import ERRORS, Typed
from lamina.web.api.results import Figure, Summary, summary_of
from lamina.web.desk import Desk, TheDesk
from lamina.web.shelf import Entry

router = APIRouter(
    prefix="/compare", tags=["compare"], responses={code: ERRORS[code] for code in (400, 401, 403, 404, 413, 422, 429)}
)


class Two(BaseModel):
    """Two models, by the names of the list of models."""

    model: Typed = Field(max_length=1000)
    other: Typed = Field(max_length=1000)


class Pair(BaseModel):
    """The same analysis of both models: the newest result of each."""

    a: Summary
    b: Summary


class Comparison(BaseModel):
    """What the saved results say of two models."""

    names: tuple[str, str]
    """As the results name them."""
    pairs: list[Pair]
    figures: list[Figure]
    """Probing results of both on relative depth, with differences; none where either was not probed."""
    why_not: str
    """Why there is no such figure."""
    diff: Summary | None
    """What `lamina diff` found between them, where it was asked."""


@router.post("")
def compared(desk: TheDesk, two: Two) -> Comparison:
    """The saved results of two models, paired by analysis, and the figures that show their differences."""
    own = {name: _results_of(desk, name) for name in (two.model, two.other)}
    first, second = own[two.model], own[two.other]
    pairs = [Pair(a=summary_of(first[each]), b=summary_of(second[each])) for each in first if each in second]
    figures, why_not = _figures(desk, first.get("probe"), second.get("probe"))
    names = (_name(desk, two.model), _name(desk, two.other))
    diff = desk.shelf.newest("diff", " and ".join(names))
    return Comparison(
        names=names,
        pairs=pairs,
        figures=figures,
        why_not=why_not,
        diff=None if diff is None else summary_of(diff),
    )


def _name(desk: Desk, model: str) -> str:
    with desk.model(model) as encoder:
        return encoder.name


def _results_of(desk: Desk, model: str) -> dict[str, Entry]:
    """Analysis -> the newest result of this model."""
    with desk.model(model) as encoder:
        own = desk.shelf.of_model(encoder.fingerprint)
    found: dict[str, Entry] = {}
    for entry in own:
        found.setdefault(entry.analysis, entry)
    return found


def _figures(desk: Desk, a: Entry | None, b: Entry | None) -> tuple[list[Figure], str]:
    if a is None or b is None:
        return [], "Both models have to be probed on the same corpus first."
    try:
        both = analyses.compare(desk.shelf.result(a.id), desk.shelf.result(b.id))
    except InputError as error:
        return [], str(error)
    captions = section_of("compare").captions
    specs = {name: spec_of(chart) for name, chart in draw(both).items()}
    return [
        Figure(name=name, spec=spec, summary=str(spec.get("description", "")), caption=captions.get(name, ""))
        for name, spec in specs.items()
    ], ""
