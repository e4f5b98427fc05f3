"""What taking parts away shows, in sentences and in small tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from lamina.analyses.cause.ablate_effects import NORMALISED
from lamina.analyses.cause.ablate_parts import RANDOM
from lamina.analyses.cause.loss import LOSS
from lamina.analyses.declaration import Overview
from lamina.analyses.legacy import legacy_finding, status_of
from lamina.findings import Finding, cell, number, p_in_words, rows_of
from lamina.results import Result
from lamina.stats.status import NEGLIGIBLE, SURE, Status

_NATS = 0.05
"""A change in loss that means nothing, in nats per piece."""
_SHOWN = 5
"""Heads, and blocks, of a target in the terminal."""
_INSTEAD = {
    "mean": "hands on its mean",
    "zero": "hands on zeros",
    "resample": "hands on what it makes of another text",
}
_UNITS = {LOSS: " nats per piece"}


def tell_findings(result: Result) -> Iterator[Finding]:
    """Target by target: the head and the block that matter most, how many matter, and what gradients say."""
    table = result.tables["effects"]
    for target in dict.fromkeys(table["target"]):
        for component in ("head", "block"):
            own = table[(table["target"] == target) & (table["component"] == component)]
            if len(own):
                yield _most(result, own[own["how"] == own["how"].iloc[0]], target)
        yield from _agreement(result, target)


def harm_of(rows: pd.DataFrame) -> pd.Series:
    """Effects so that above 0 is worse, whatever the target.

    Example:
        >>> harm_of(pd.DataFrame({"target": ["loss", "pairs"], "effect": [0.5, -0.25]})).tolist()
        [0.5, 0.25]
    """
    return rows["effect"].where(rows["target"] == LOSS, -rows["effect"])


def worst_of(rows: pd.DataFrame) -> Any:
    """The row of the part without which the target suffers most.

    Example:
        >>> worst_of(pd.DataFrame({"target": ["pairs", "pairs"], "effect": [0.5, -0.25]})).effect
        -0.25
    """
    return next(rows_of(rows.assign(harm=harm_of(rows)).nlargest(1, "harm")))


def _most(result: Result, rows: pd.DataFrame, target: str) -> Finding:
    """The part whose loss hurts most, beside random components and the twin, and how many parts matter."""
    row = worst_of(rows)
    block = row.component == "block"
    what = f"layer {row.layer} is skipped" if block else f"head {row.layer}-{int(row.head)} {_INSTEAD[row.how]}"
    sure = rows[rows["p_adjusted"] < SURE]
    worse = int((harm_of(sure) > 0).sum())
    if worse:
        claim = f"{named(target)} suffers most when {what}"
    else:
        claim = (
            f"No single {'layer' if block else 'head'} can be shown to matter to {_plain(target)}; the most when {what}"
        )
    moved = f"from {number(row.baseline)} by {_signed(row)}{_UNITS.get(target, '')}, {p_in_words(row.p_adjusted)}"
    against, interval, beside = _beside(result, row)
    status = status_of(row.low, row.high, against, interval, negligible=_NATS if target == LOSS else NEGLIGIBLE)
    # More than a random component, and more than chance among so many parts.
    if status == "clear" and not (row.p_adjusted < SURE and abs(row.effect) > abs(against)):
        status: Status = "open"
    counted = f"{worse} of {len(rows)} {'layers' if block else 'heads'} make it worse when they are gone, " + (
        f"{len(sure) - worse} better (p < .05)"
    )
    return legacy_finding(f"{claim}: {moved}{beside}. {counted}.", status, row.effect, row.low, row.high, against)


def _beside(result: Result, row: Any) -> tuple[float, tuple[float, float] | None, str]:
    """What a part is compared with (a random component of its layer, or no change), and that and the twin in words."""
    found = _matching(result.tables["effects"], row, component=RANDOM) if row.component == "head" else None
    against, interval, told = 0.0, None, ""
    if found is not None:
        against, interval = found.effect, (found.low, found.high)
        told = f"; a random component of its size in that layer: {_signed(found)}"
    twin = result.tables.get("twin")
    if twin is not None:
        own = twin[(twin["target"] == row.target) & (twin["component"] == row.component) & (twin["how"] == row.how)]
        if len(own):
            told += f"; the most in the twin with random weights: {_signed(worst_of(own))}"
    return against, interval, told


def _matching(table: pd.DataFrame, row: Any, *, component: str) -> Any | None:
    """The row of another component in the same layer."""
    same = (table["component"] == component) & (table["layer"] == row.layer)
    own = table[same & (table["how"] == row.how) & (table["target"] == row.target)]
    return next(rows_of(own), None)


def _agreement(result: Result, target: str) -> Iterator[Finding]:
    table = result.tables.get("agreement")
    if table is None:
        return
    kept = table[(table["target"] == target) & (table["importance"] == NORMALISED)]
    row = next(rows_of(kept[kept["of"] == "model"]), None)
    if row is None:
        return
    twin = next(rows_of(kept[(kept["of"] == "twin") & (kept["how"] == row.how)]), None)
    beside = "" if twin is None else f"; in the twin with random weights {number(twin.rho, twin.low, twin.high)}"
    yield legacy_finding(
        f"Importance by gradient orders the {row.heads} heads as their effects on {_plain(target)} do ({row.how}) with "
        f"a rank correlation of {number(row.rho, row.low, row.high)}; the effects measured again on as many other "
        f"items would agree by {number(row.again)}{beside}.",
        status_of(row.low, row.high, 0.0), row.rho, row.low, row.high, 0.0,
    )  # fmt: skip


def describe(result: Result) -> Iterator[Overview]:
    """One table per target and how: the parts that matter most, beside a random component of the same layer."""
    table = result.tables["effects"]
    for (target, how), own in table.groupby(["target", "how"], sort=False):
        rows: list[tuple[str | int, ...]] = []
        for component in ("head", "block"):
            some = own[own["component"] == component]
            for row in rows_of(some.assign(harm=harm_of(some)).nlargest(_SHOWN, "harm")):
                name = f"layer {row.layer}" if component == "block" else f"head {row.layer}-{int(row.head)}"
                random = _matching(table, row, component=RANDOM) if component == "head" else None
                beside = "-" if random is None else cell(random.effect, random.low, random.high)
                rows.append((name, cell(row.effect, row.low, row.high), p_in_words(row.p_adjusted), beside))
        baseline = cell(float(own["baseline"].iloc[0]))
        yield Overview(
            f"{result.provenance.model['name']}: {target} ({baseline} as it is), {how}, what hurts most",
            ("without", "effect", "Holm", "random component"),
            rows,
        )


def named(target: str) -> str:
    """A target at the start of a sentence.

    Example:
        >>> named("loss"), named("probe:pos@3")
        ('The loss', 'The probe of pos at layer 3')
    """
    said = _plain(target)
    return said[0].upper() + said[1:]


def _plain(target: str) -> str:
    task, _, layer = target.removeprefix("probe:").partition("@")
    if target.startswith("probe:"):
        return f"the probe of {task} at layer {layer}"
    return {
        LOSS: "the loss",
        "pairs": "accuracy on minimal pairs",
        "qa": "F1 of answers",
        "qa_em": "exact match of answers",
        "tags": "accuracy of tags",
        "classes": "accuracy of classes",
    }.get(target, target)


def _signed(row: Any) -> str:
    sign = "+" if row.effect >= 0 else ""
    return sign + number(row.effect, row.low, row.high, digits=3)
