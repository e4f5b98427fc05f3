"""What perturbed input shows, in sentences and in a small table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

import pandas as pd

from lamina.analyses.behaviour.perturb_answers import QA
from lamina.analyses.behaviour.perturb_probes import BY_WORD, PROBE
from lamina.analyses.behaviour.perturb_targets import LOSS, PAIRS, named
from lamina.analyses.behaviour.perturbations import Perturbation
from lamina.framework.declare import Overview
from lamina.results import Result
from lamina.results.finding import Finding, Source, finding, not_tested, number, percent, rows_of
from lamina.stats.status import Contrast

TWIN = "twin"
"""What changes are compared with."""
_SHUFFLED = {"how": "shuffled", "strength": 1.0}
_NATS = 0.05
"""A difference in loss that means nothing, in nats per piece."""


def tell_findings(result: Result) -> Iterator[Finding]:
    """What is left when all words are shuffled, target by target, beside the twin and each word's label."""
    for row in _shuffled(result, "perturb"):
        yield from _loss(result, row) if row.target == LOSS else _score(result, row)


def _shuffled(result: Result, name: str, target: str | None = None) -> list[Any]:
    """The rows of a table in which all words are shuffled."""
    table = result.tables[name]
    rows = table[(table["how"] == "shuffled") & (table["strength"] == 1)]
    return list(rows_of(rows if target is None else rows[rows["target"] == target]))


def _loss(result: Result, row: Any) -> Iterator[Finding]:
    """By how much shuffling raises the loss, and whether by more than the twin's."""
    verb = "raises" if row.difference > 0 else "lowers"
    source = Source("perturb", {**_SHUFFLED, "target": LOSS})
    yield finding(
        claim=f"Shuffling all words {verb} the loss from {number(row.baseline)} to {number(row.value)} nats per token",
        whether=f"shuffling all words {verb} the loss",
        absent="Shuffling all words leaves the loss as it is",
        contrast="difference",
        test=_of_row(row),
        source=source,
        unit=row.unit,
        margin=_NATS,
    )
    for beside in _shuffled(result, "contrasts", LOSS):
        more = "more" if beside.difference > 0 else "less"
        yield finding(
            claim=f"Shuffling all words raises the loss {more} than that of the twin with random weights",
            whether=f"shuffling all words raises the loss {more} than that of the twin with random weights",
            absent="Shuffling all words changes the loss as much as that of the twin with random weights",
            contrast="change minus the twin's, in nats",
            test=_of_row(beside),
            source=Source("contrasts", {**_SHUFFLED, "target": LOSS, "against": TWIN}),
            unit=beside.unit,
            importance=("beats control",),
            margin=_NATS,
        )


def _of_row(row: Any) -> Contrast:
    return Contrast.of(row, "difference", "diff_low", "diff_high")


def _score(result: Result, row: Any) -> Iterator[Finding]:
    """What is above chance with all words shuffled, and which share of what is so as written; probes beside labels."""
    (left,) = _shuffled(result, "remains", row.target)
    where = {**_SHUFFLED, "target": row.target}
    source = [Source("remains", where), Source("perturb", where)]
    what = _what(row.target)
    side = "above" if left.difference > 0 else "below"
    whether = f"{what} stays {side} chance with all words shuffled"
    if not isfinite(left.remains):
        yield not_tested(whether, f"as written, {what} is not clearly above chance", source=source)
        return
    yield finding(
        claim=f"With all words shuffled, {what} is {percent(row.value)}: {percent(left.remains)} of its lead over "
        "chance is left"
        if left.difference > 0
        else f"With all words shuffled, {what} falls below chance, to {percent(row.value)}",
        whether=whether,
        absent=f"With all words shuffled, {what} is at chance",
        contrast=f"{what} minus chance",
        test=_of_row(left),
        source=source,
        unit=left.unit,
    )
    for beside in _shuffled(result, "contrasts", row.target):
        if beside.against != BY_WORD:
            continue
        control = {"target": row.target, "control": BY_WORD}
        table = result.tables["controls"]
        (known,) = rows_of(table[(table["target"] == row.target) & (table["control"] == BY_WORD)])
        yield finding(
            claim=f"With all words shuffled, {what} is {percent(row.value)}; each word's most frequent label gives "
            f"{percent(known.value)}",
            whether=f"with all words shuffled, {what} differs from what each word's most frequent label gives",
            absent=f"With all words shuffled, {what} is what each word's most frequent label gives",
            contrast="difference",
            test=_of_row(beside),
            source=[Source("contrasts", {**where, "against": BY_WORD}), Source("perturb", where),
                    Source("controls", control)],
            unit=beside.unit,
            importance=("beats control",),
        )  # fmt: skip


def _what(target: str) -> str:
    if target == PAIRS:
        return "accuracy on minimal pairs"
    if target == QA:
        return "F1 of the answers"
    return f"a probe's accuracy on {target.removeprefix(PROBE)}"


def describe(result: Result) -> Iterator[Overview]:
    """One row per perturbation and strength, one column per target: the change."""
    table = result.tables["perturb"]
    targets = list(dict.fromkeys(table["target"]))
    about = result.provenance
    rows: dict[tuple[str, float], dict[str, str]] = {}
    for row in rows_of(table):
        # Of content and function words, the share left out differs from target to target.
        key = (row.how, 0.0 if row.how in ("content", "function") else row.strength)
        rows.setdefault(key, {})[row.target] = number(row.difference, row.diff_low, row.diff_high)
    shown: list[tuple[str | int, ...]] = [
        (named(Perturbation(how, strength)), *(cells.get(target, "-") for target in targets))  # type: ignore[arg-type]
        for (how, strength), cells in rows.items()
    ]
    base = _unperturbed(table, targets)
    yield Overview(
        f"{about.model['name']} on {about.corpus['name']}: change by perturbation",
        ("perturbation", *(f"{target} ({base[target]} unperturbed)" for target in targets)),
        shown,
    )


def _unperturbed(table: pd.DataFrame, targets: list[str]) -> Mapping[str, str]:
    """Target -> the score of all words, which every perturbation that leaves none out is compared with."""
    whole = table[~table["how"].isin(["cut_first", "cut_last", "content", "function"])]
    found = {}
    for target in targets:
        own = whole[whole["target"] == target]
        found[target] = number(float(own["baseline"].iloc[0]), digits=3) if len(own) else "n/a"
    return found
