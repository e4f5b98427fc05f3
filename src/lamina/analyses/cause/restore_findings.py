"""What fine-tuning undone shows, in sentences and as a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lamina.analyses.cause.restore_layers import RANDOM, TRANSFER
from lamina.framework.declare import Overview
from lamina.results import Result
from lamina.results.finding import Finding, Source, best_in_words, cell, finding, number, rows_of
from lamina.stats.status import SURE, Contrast, Status, status_of
from lamina.training.recipes import LOWER_IS_BETTER

POINT = 0.01
"""A loss of score that counts as none."""
NAMES = {"f1": "F1", "exact_match": "exact match"}
"""Metric -> its name in a sentence, where that is another."""
SINGLE, LINEAR = "single layers", "linear heads"
"""Kinds of rows of the table `best`."""
_DONE = {"restore": "put back", "freeze": "frozen while tuning", "reset": "drawn anew before tuning"}


def metric_of(result: Result) -> str:
    """The task's own metric: the first that is noted."""
    return str(result.tables["references"]["metric"].iloc[0])


def tell_findings(result: Result) -> Iterator[Finding]:
    """The lower half, how far layers can go back, single layers, linear heads, and layers frozen or drawn anew."""
    if result.tables["effects"].empty:
        return
    rows = list(rows_of(result.tables["effects"]))
    changed = {how: [row for row in rows if row.how == how] for how in dict.fromkeys(row.how for row in rows)}
    restored, seeds = changed.get("restore", []), int(result.provenance.parameters.get("seeds", 1))
    yield from _halves(restored)
    yield from _how_far("restore", [row for row in restored if row.first == 0], seeds)
    yield from _single(result, [row for row in restored if row.first == row.last])
    yield from _linear(result, changed.get(TRANSFER, []))
    yield from _how_far("freeze", changed.get("freeze", []), seeds)
    yield from _how_far("reset", changed.get("reset", []), seeds)


def _contrast(row: Any) -> Contrast:
    return Contrast.of(row, "effect")


def _cost(row: Any) -> float:
    """Above 0 where the score is worse, whatever the metric."""
    return float(row.effect) if row.metric in LOWER_IS_BETTER else -float(row.effect)


def _status(row: Any) -> Status:
    return status_of(row.low, row.high, row.p_adjusted, needed=row.needed, margin=POINT)


def _source(row: Any) -> Source:
    return Source("effects", {"how": row.how, "first": row.first, "last": row.last})


def _name(row: Any) -> str:
    return NAMES.get(row.metric, str(row.metric))


def _told(row: Any, **words: Any) -> Finding:
    """A finding about the difference of one row from the model without the change."""
    said = {"contrast": "difference", "test": _contrast(row), "unit": row.unit, "margin": POINT, "digits": 3}
    return finding(**{**said, "source": _source(row), **words})


def _halves(rows: Sequence[Any]) -> Iterator[Finding]:
    """Whether what fine-tuning changed in the lower layers matters, beside what it changed above them."""
    blocks = max((row.last for row in rows), default=0)
    spans = {(row.first, row.last): row for row in rows}
    half, rest = spans.get((0, blocks // 2)), spans.get((blocks // 2 + 1, blocks))
    if half is None or blocks < 2:
        return
    score = f"with {_layers(half)} put back {_name(half)} is {number(half.value)}"
    beside = f", with {_layers(rest)} put back {number(rest.value)}" if rest is not None else ""
    yield _told(
        half,
        claim=f"What fine-tuning changed in the lower half matters: {score}{beside}"
        if _cost(half) > 0
        else f"Without what fine-tuning changed in the lower half the model does better: {score}{beside}",
        whether="what fine-tuning changed in the lower half matters",
        absent=f"What fine-tuning changed in the lower half hardly matters: {score}{beside}",
        contrast=f"{_layers(half)} put back minus tuned",
        source=[_source(each) for each in (half, rest) if each is not None],
        importance=("answers", "localised"),
    )


def _how_far(how: str, rows: Sequence[Any], seeds: int) -> Iterator[Finding]:
    """The most layers that can be changed for less than a point; where not even the fewest can, these."""
    if not rows:
        return
    ordered = sorted(rows, key=lambda row: row.last - row.first)
    free = [_status(row) == "null" or (_status(row) == "clear" and _cost(row) < 0) for row in ordered]
    count = free.index(False) if False in free else len(free)
    row, done = ordered[max(count - 1, 0)], _DONE[how]
    scores = f"{_name(row)} {number(row.value, digits=3)} against {number(row.baseline, digits=3)}"
    better = "better" if _cost(row) < 0 else "worse"
    yield _told(
        row,
        claim=f"With {_layers(row)} {done} the model does {better}: {scores}",
        whether=f"{_layers(row)} can be {done} within 1 point",
        absent=f"{_layers(row).capitalize()} can be {done} within 1 point: {scores}",
        importance=("answers",),
        note="One training each: how much other seeds differ is not in the interval."
        if how != "restore" and seeds == 1
        else "",
    )


def _single(result: Result, rows: Sequence[Any]) -> Iterator[Finding]:
    """The layers whose tuning matters most, if that of any does."""
    if len(rows) < 2:
        return
    if all(_status(row) == "null" for row in rows):
        most = max(rows, key=lambda row: max(abs(row.low), abs(row.high)))
        yield _told(
            most,
            claim="",
            whether="",
            absent=f"No single layer needs its tuning: put back alone, each costs less than 1 point, as layer "
            f"{most.first} does",
            importance=("answers", "localised"),
        )
        return
    yield from _best(
        result,
        SINGLE,
        claim="Of single layers, the tuning of {best} matters most: put back alone, layer {first} leaves {name} at "
        "{value}, layer {other} at {other_value}",
        whether="the tuning of any single layer matters more than that of another",
        absent="The tuning of no single layer matters more than that of another",
    )


def _best(result: Result, what: str, *, claim: str, whether: str, absent: str) -> Iterator[Finding]:
    """Which layers are among the best; the contrast is that of the first with the layer outside that is closest."""
    table = result.tables["best"]
    rows = [row for row in rows_of(table) if row.what == what]
    if len(rows) < 2:
        return
    first = next(row for row in rows if row.lead != row.lead)
    outside = [row for row in rows if not row.among_best]
    others = outside or [row for row in rows if row.lead == row.lead]
    other = max(others, key=lambda row: (row.p_beaten, -row.lead)) if outside else max(others, key=lambda row: row.lead)
    best = best_in_words([row.layer for row in rows], [row.among_best for row in rows])
    scores = {"value": number(first.value, digits=3), "other_value": number(other.value, digits=3)}
    yield finding(
        claim=claim.format(best=best, first=first.layer, name=_name(first), other=other.layer, **scores),
        whether=whether,
        absent=absent,
        contrast=f"difference of layers {first.layer} and {other.layer}",
        test=Contrast(other.lead, other.low, other.high, other.p_beaten, int(other.units), int(other.needed)),
        source=Source("best", {"what": what}),
        unit=first.unit,
        importance=("localised",),
        margin=POINT,
        digits=3,
    )


def _linear(result: Result, rows: Sequence[Any]) -> Iterator[Finding]:
    """Whether a linear head on a frozen layer does as well as tuning everything; which layers are best for one."""
    if not rows:
        return
    alike = [row for row in rows if _status(row) == "null" or (_status(row) == "clear" and _cost(row) < 0)]
    behind = [row for row in rows if row not in alike and row.p_adjusted < SURE and _cost(row) > 0]
    if alike:
        row = min(alike, key=_cost)
    elif len(behind) == len(rows):
        # That none reaches it is as sure as the least sure of the differences.
        row = max(behind, key=lambda row: (row.p_adjusted, -_cost(row)))
    else:
        row = min((row for row in rows if row not in behind), key=_cost)
    scores = f"{_name(row)} {number(row.value, digits=3)} on layer {row.first}, tuned {number(row.baseline, digits=3)}"
    head = f"a linear head on frozen layer {row.first}"
    yield _told(
        row,
        claim=f"No linear head on a frozen layer does as well as tuning all layers: {scores}"
        if _cost(row) > 0
        else f"{head.capitalize()} does better than tuning all layers: {scores}",
        whether=f"{head} does as well as tuning all layers, within 1 point",
        absent=f"{head.capitalize()} does as well as tuning all layers: {scores}",
        source=Source("effects", {"how": row.how}),
        importance=("answers",),
    )
    yield from _best(
        result,
        LINEAR,
        claim="A linear head does best on frozen {best}: {name} {value} on layer {first}, {other_value} on "
        "layer {other}",
        whether="any frozen layer is better for a linear head than another",
        absent="No frozen layer is better for a linear head than another",
    )


def _layers(row: Any) -> str:
    return f"layer {row.first}" if row.first == row.last else f"layers {row.first} to {row.last}"


def describe(result: Result) -> Iterator[Overview]:
    """One row per change and layers, and one per linear head."""
    about, metric = result.provenance, metric_of(result)
    rows: list[tuple[str | int, ...]] = [
        (row.what, "", cell(row.value, row.low, row.high), "")
        for row in rows_of(result.tables["references"])
        if row.metric == metric
    ]
    values = _intervals(result)
    for row in rows_of(result.tables["effects"]):
        if row.how == RANDOM:
            continue
        layers = str(row.first) if row.first == row.last else f"{row.first}-{row.last}"
        score = values[(row.how, row.first, row.last)]
        rows.append((row.how, layers, cell(*score), cell(row.effect, row.low, row.high)))
    title = f"{about.model['name']}: {about.model.get('task', 'its task')} on {about.corpus['name']}"
    yield Overview(title, ("what", "layers", metric, "difference from tuned"), rows)


def _intervals(result: Result) -> dict[tuple[Any, ...], tuple[float, float, float]]:
    """How, first and last layer -> the score with its interval."""
    found: dict[tuple[Any, ...], tuple[float, float, float]] = {}
    for row in rows_of(result.tables["restore"]):
        found[row.how, row.first, row.last] = (row.value, row.low, row.high)
    if "transfer" in result.tables:
        for row in rows_of(result.tables["transfer"]):
            found[TRANSFER, row.layer, row.layer] = (row.value, row.low, row.high)
    return found
