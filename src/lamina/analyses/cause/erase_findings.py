"""What erasing shows, in sentences and in small tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from lamina.analyses.cause.ablate_findings import named
from lamina.analyses.cause.erase_concepts import CONCEPT, CONTROL, RANDOM, WHATS
from lamina.analyses.cause.erase_effects import OPEN, UNKNOWN, UNUSED, USED, margin_of
from lamina.analyses.cause.loss import LOSS
from lamina.analyses.declaration import Overview
from lamina.analyses.legacy import legacy_finding
from lamina.findings import Finding, cell, layers_in_words, number, p_in_words, rows_of
from lamina.results import Result
from lamina.stats.status import Status
from lamina.tasks import TASKS

_TITLES = {task.name: task.title for task in TASKS}
_SAID = {
    USED: "known and used",
    UNUSED: "known and not used",
    OPEN: "known, but whether it is used cannot be told",
    UNKNOWN: "not readable in the first place",
}


def tell_findings(result: Result) -> Iterator[Finding]:
    """One sentence per task and target."""
    table = result.tables["erase"]
    for (task, target), own in table.groupby(["task", "target"], sort=False):
        yield _finding(result, str(task), str(target), own)


def _finding(result: Result, task: str, target: str, rows: pd.DataFrame) -> Finding:
    concept = rows[rows["what"] == CONCEPT]
    by_verdict = {verdict: own["layer"].tolist() for verdict, own in concept.groupby("verdict")}
    differences = result.tables["differences"]
    same = (differences["task"] == task) & (differences["target"] == target)
    beside = differences[same & (differences["against"] == RANDOM)].set_index("layer")
    among = by_verdict.get(USED) or concept["layer"].tolist()
    harm = beside.loc[among, "difference"] * (1 if target == LOSS else -1)
    layer = int(harm.idxmax()) if harm.notna().any() else int(among[0])
    most = {row.what: row for row in rows_of(rows[rows["layer"] == layer])}
    more = next(rows_of(beside.loc[[layer]]))
    parts = [
        f"{said} at {layers_in_words(by_verdict[verdict])}" for verdict, said in _SAID.items() if verdict in by_verdict
    ]
    taken = _variances(result, task, layer)
    own = most[CONCEPT]
    unit = " nats per piece" if target == LOSS else ""
    return legacy_finding(
        f"{named(target)} and {_title(task)}: {'; '.join(parts)}. Erasing it at layer {layer} (rank {own.rank}, "
        f"{taken[CONCEPT]} of the variance) changes the score from {number(own.baseline)} by {_signed(own)}{unit}, "
        f"random subspaces of that rank ({taken[RANDOM]}) by {_signed(most[RANDOM])}, that of a control task "
        f"({taken[CONTROL]}) by {_signed(most[CONTROL])}; concept minus random {_signed(more, 'difference')}, "
        f"{p_in_words(more.p_adjusted)}, margin {number(margin_of(target))}.",
        _status(by_verdict), more.difference, more.low, more.high, 0.0,
    )  # fmt: skip


def _variances(result: Result, task: str, layer: int) -> dict[str, str]:
    """What is erased -> the share of the states' variance that it takes, in words."""
    table = result.tables["subspaces"]
    own = table[(table["task"] == task) & (table["layer"] == layer)]
    return {what: f"{100 * own.loc[own['what'] == what, 'variance'].mean():.0f} %" for what in WHATS}


def _title(task: str) -> str:
    """Within a sentence."""
    title = _TITLES.get(task, task)
    return title[:1].lower() + title[1:]


def _status(by_verdict: dict[Any, list[int]]) -> Status:
    if USED in by_verdict:
        return "clear"
    return "null" if set(by_verdict) == {UNUSED} else "open"


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


def _signed(row: Any, column: str = "effect") -> str:
    value = getattr(row, column)
    return ("+" if value >= 0 else "") + number(value, row.low, row.high, digits=3)
