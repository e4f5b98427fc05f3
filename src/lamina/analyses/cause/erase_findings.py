"""What erasing shows, in sentences and in small tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from lamina.analyses.cause.ablate_findings import named, plain, unit_of_target
from lamina.analyses.cause.effects import margin_of
from lamina.analyses.cause.erase_concepts import CONCEPT, CONTROL, RANDOM
from lamina.analyses.cause.erase_effects import OPEN, UNKNOWN, UNUSED, USED, variances_alike
from lamina.analyses.cause.loss import LOSS
from lamina.framework.declare import Overview
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, layers_in_words, not_tested, number, percent, rows_of
from lamina.stats.status import Contrast, status_of
from lamina.tasks import TASKS

_TITLES = {task.name: task.title for task in TASKS}
_OTHERS = {
    RANDOM: "random subspaces of equal variance",
    CONTROL: "the subspace of a control task",
    CONCEPT: "nothing",
}


def tell_findings(result: Result) -> Iterator[Finding]:
    """One sentence per task and target."""
    table = result.tables["erase"]
    for (task, target), own in table.groupby(["task", "target"], sort=False):
        yield _finding(result, str(task), str(target), own[own["what"] == CONCEPT])


def _finding(result: Result, task: str, target: str, concept: pd.DataFrame) -> Finding:
    layers = {verdict: list(map(int, own["layer"])) for verdict, own in concept.groupby("verdict")}
    if USED in layers:
        # Of each layer the contrast that holds least; of these the one with the largest difference.
        least = [_least(result, task, target, layer) for layer in layers[USED]]
        _, kind, row = max(least, key=lambda each: abs(each[0].estimate))
        return _told(result, task, target, kind, row, layers[USED], USED)
    if UNUSED in layers and set(layers) <= {UNUSED, UNKNOWN}:
        nulls = [_null(result, task, target, layer) for layer in layers[UNUSED]]
        _, kind, row = max(nulls, key=lambda each: max(abs(each[0].low), abs(each[0].high)))
        return _told(result, task, target, kind, row, layers[UNUSED], UNUSED)
    reasons = {layer: _reason(result, task, layer) for layer in layers.get(OPEN, [])}
    open_ = [layer for layer, reason in reasons.items() if not reason]
    if open_:
        least = [_least(result, task, target, layer) for layer in open_]
        _, kind, row = min(least, key=lambda each: (each[0].p != each[0].p, each[0].p))
        return _told(result, task, target, kind, row, open_, OPEN)
    reason = next(iter(reasons.values()), "no linear probe was shown to read it")
    readable = Source("readable", {"task": task})
    whether = f"{plain(target)} needs {_title(task)} where it is readable"
    return not_tested(whether, reason, source=[readable], importance=["answers"])


def _contrasts(result: Result, task: str, target: str, layer: int) -> list[tuple[Contrast, str, Any]]:
    """What has to harm for a concept to be used at a layer: contrast, what it is compared with, its row."""
    where = {"task": task, "target": target, "layer": layer}
    found: list[tuple[Contrast, str, Any]] = []
    for kind in (RANDOM, CONTROL):
        row = next(rows_of(Source("differences", {**where, "against": kind}).rows(result.tables["differences"])))
        found.append((Contrast.of(row, "difference"), kind, row))
    row = next(rows_of(Source("erase", {**where, "what": CONCEPT}).rows(result.tables["erase"])))
    return [*found, (Contrast.of(row, "effect"), CONCEPT, row)]


def _least(result: Result, task: str, target: str, layer: int) -> tuple[Contrast, str, Any]:
    """The contrast of a layer that holds least: the claim is as sure as that."""
    untested = [each for each in _contrasts(result, task, target, layer) if each[0].needed]
    harm = 1 if target == LOSS else -1
    # A clear effect in the other direction is no harm.
    return next(
        iter(untested),
        max(
            _contrasts(result, task, target, layer),
            key=lambda each: (each[0].p == each[0].p and each[0].estimate * harm < 0, each[0].p),
        ),
    )


def _null(result: Result, task: str, target: str, layer: int) -> tuple[Contrast, str, Any]:
    """The contrast of a layer that is known to be within the margin."""
    return next(each for each in _contrasts(result, task, target, layer) if _status(each[0], target) == "null")


def _status(test: Contrast, target: str) -> str:
    return status_of(test.low, test.high, test.p, needed=test.needed, margin=margin_of(target))


def _told(result: Result, task: str, target: str, kind: str, row: Any, layers: list[int], verdict: str) -> Finding:
    """A finding about a concept at some layers, by one contrast at one of them."""
    where, title = layers_in_words(layers), _title(task)
    other = row.other if kind != CONCEPT else row.baseline
    beside = _OTHERS[kind] if kind != CONCEPT else "nothing"
    claim = (
        f"{named(target)} needs {title} at {where}, where it is readable: without it at layer {row.layer} it is "
        f"{number(row.value, digits=3)}, without {beside} {number(other, digits=3)}"
    )
    no_more = "leaves it as it is" if kind == CONCEPT else f"does no more to it than erasing {_OTHERS[kind]}"
    at = {"task": task, "layer": row.layer, "target": target}
    rows = {"task": task, "target": target, "what": CONCEPT}
    return finding(
        claim=claim,
        whether=f"{plain(target)} needs {title} at {where}, where it is readable",
        absent=f"{named(target)} does not need {title} at {where}, where it is readable: erasing it {no_more}",
        contrast=f"layer {row.layer}: concept minus {'whole model' if kind == CONCEPT else _OTHERS[kind]}",
        test=Contrast.of(row, "effect" if kind == CONCEPT else "difference"),
        source=[
            Source("erase", rows | {"verdict": verdict}),
            Source("erase", at | {"what": CONCEPT})
            if kind == CONCEPT
            else Source("differences", at | {"against": kind}),
        ],
        unit=unit_of_target(result, target),
        importance=("answers", "beats control", "localised"),
        margin=margin_of(target),
        digits=3,
        note=_variances(result, task, target, int(row.layer)),
    )


def _variances(result: Result, task: str, target: str, layer: int) -> str:
    """What the subspaces take of the variance, in words."""
    rows = Source("differences", {"task": task, "target": target, "layer": layer}).rows(result.tables["differences"])
    by = {row.against: row for row in rows_of(rows)}
    return (
        f"The concept takes {percent(by[RANDOM].variance)} of the variance at layer {layer}, random subspaces "
        f"{percent(by[RANDOM].other_variance)}, the control task {percent(by[CONTROL].other_variance)}."
    )


def _reason(result: Result, task: str, layer: int) -> str:
    """Why a layer has no verdict whatever its effects; empty where effects decide."""
    read = next(rows_of(Source("readable", {"task": task, "layer": layer}).rows(result.tables["readable"])))
    if read.before != read.before or read.after != read.after:
        return f"probes did not converge at layer {layer}"
    if read.needed:
        return f"{int(read.units):,} documents are too few to tell what is readable; at least {read.needed} are needed"
    if not read.gone:
        return f"a probe may still read it after erasing at layer {layer}"
    for row in rows_of(Source("differences", {"task": task, "layer": layer}).rows(result.tables["differences"])):
        if row.against == RANDOM and not variances_alike(row.variance, row.other_variance):
            return (
                f"the concept takes {percent(row.variance)} of the variance at layer {layer}, random subspaces "
                f"{percent(row.other_variance)}"
            )
    return ""


def _title(task: str) -> str:
    """Within a sentence."""
    title = _TITLES.get(task, task)
    return title[:1].lower() + title[1:]


def describe(result: Result) -> Iterator[Overview]:
    """One table per task and target: what is readable, and what erasing it does."""
    table = result.tables["erase"]
    readable = {(row.task, row.layer): row for row in rows_of(result.tables["readable"])}
    for (task, target), own in table.groupby(["task", "target"], sort=False):
        rows: list[tuple[str | int, ...]] = []
        for layer in map(int, dict.fromkeys(own["layer"])):
            by_what = {row.what: row for row in rows_of(own[own["layer"] == layer])}
            read = readable[task, layer]
            probe = f"{cell(read.before)} -> {cell(read.after)}"
            effects = [
                cell(each.effect, each.low, each.high)
                for each in (by_what[kind] for kind in (CONCEPT, RANDOM, CONTROL))
            ]
            rows.append((layer, probe, *effects, by_what[CONCEPT].verdict))
        constant = cell(readable[task, int(own["layer"].iloc[0])].constant)
        baseline = cell(float(own["baseline"].iloc[0]))
        yield Overview(
            f"{result.provenance.model['name']}: {task} erased, {target} ({baseline} as it is)",
            ("layer", f"probe (constant {constant})", "concept", "random subspace", "control", "verdict"),
            rows,
        )
