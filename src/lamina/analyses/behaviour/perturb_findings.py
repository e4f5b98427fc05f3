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
from lamina.analyses.declaration import Overview
from lamina.analyses.legacy import legacy_finding, status_of
from lamina.findings import Finding, number, rows_of
from lamina.results import Result

_NATS = 0.05
"""A difference in loss that means nothing, in nats per piece."""


def tell_findings(result: Result) -> Iterator[Finding]:
    """What is left when all words are shuffled, target by target."""
    table = result.tables["perturb"]
    for row in rows_of(table[(table["how"] == "shuffled") & (table["strength"] == 1)]):
        yield _loss(result, row) if row.target == LOSS else _score(result, row)


def _loss(result: Result, row: Any) -> Finding:
    """By how much shuffling raises the loss, beside the twin and beside n-grams that stay whole."""
    whole = [each for each in _rows(result, "perturb", LOSS, "shuffled") if each.strength > 1]
    longest = max(whole, key=lambda each: each.strength, default=None)
    kept = "" if longest is None else (
        f", with n-grams of {longest.strength:g} words kept whole by "
        f"{number(longest.difference, longest.diff_low, longest.diff_high)}"
    )  # fmt: skip
    twin = next((each for each in _rows(result, "twin", LOSS, "shuffled") if each.strength == 1), None)
    against, interval, beside = 0.0, None, ""
    if twin is not None:
        against, interval = twin.difference, (twin.diff_low, twin.diff_high)
        beside = f"; that of the twin with random weights by {number(against, *interval)}"
    verb = "raises" if row.diff_low > 0 else "changes"
    return legacy_finding(
        f"Shuffling all words {verb} the loss from {number(row.baseline)} to {number(row.value)} nats per piece, by "
        f"{number(row.difference, row.diff_low, row.diff_high)}{kept}{beside}.",
        status_of(row.diff_low, row.diff_high, against, interval, negligible=_NATS),
        row.difference, row.diff_low, row.diff_high, against,
    )  # fmt: skip


def _score(result: Result, row: Any) -> Finding:
    """Which share of a score above chance is left: that was not syntax."""
    remains = result.tables["remains"]
    (left,) = rows_of(
        remains[(remains["how"] == "shuffled") & (remains["strength"] == 1) & (remains["target"] == row.target)]
    )
    says = (
        f"With all words shuffled, {_what(row.target)} {number(row.value, row.low, row.high)} instead of "
        f"{number(row.baseline)}"
    )
    beside = _beside(result, row.target)
    if not isfinite(left.remains):
        low, high = row.diff_low, row.diff_high
        return legacy_finding(
            f"{says}{beside}; the score as written is not clearly above chance ({number(left.chance)}), so nothing "
            "can be lost.",
            status_of(low, high, 0.0), row.difference, low, high, 0.0,
        )  # fmt: skip
    share = "{} % [{}, {}]".format(*(round(100 * each) for each in (left.remains, left.low, left.high)))
    return legacy_finding(
        f"{says}{beside}: {share} of what is above chance ({number(left.chance)}) remains: that part was not syntax.",
        status_of(left.low, left.high, 0.0), left.remains, left.low, left.high, 0.0,
    )  # fmt: skip


def _what(target: str) -> str:
    if target == PAIRS:
        return "accuracy on minimal pairs is"
    if target == QA:
        return "F1 of the answers is"
    return f"a probe's accuracy on {target.removeprefix(PROBE)} is"


def _beside(result: Result, target: str) -> str:
    """What the word alone, or the twin, gives."""
    controls = result.tables["controls"]
    by_word = list(rows_of(controls[(controls["target"] == target) & (controls["control"] == BY_WORD)]))
    if by_word:
        return f"; each word's most frequent label gives {number(by_word[0].value, by_word[0].low, by_word[0].high)}"
    twin = next((each for each in _rows(result, "twin", target, "shuffled") if each.strength == 1), None)
    return "" if twin is None else f" (twin with random weights: {number(twin.value, twin.low, twin.high)})"


def _rows(result: Result, name: str, target: str, how: str) -> list[Any]:
    table = result.tables.get(name)
    if table is None:
        return []
    return list(rows_of(table[(table["target"] == target) & (table["how"] == how)]))


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
