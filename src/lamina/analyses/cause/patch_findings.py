"""What patched states show, in sentences and in small tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import pandas as pd

from lamina.analyses.cause.patch_pairs import EVERYWHERE, POSITIONS
from lamina.analyses.cause.patch_questions import RANDOM, ROLES
from lamina.analyses.declaration import Overview
from lamina.analyses.legacy import legacy_finding, status_of
from lamina.findings import Finding, cell, layers_in_words, number, rows_of
from lamina.results import Result
from lamina.stats.status import SURE, Status

_TABLES = {"asked": "asked", "answer": "patch"}
"""What changed places -> its table; the more telling one first."""
_SWAPPED = {"asked": "what the question names", "answer": "the answer"}
_NATS = 0.05
"""A change of a difference of log-probabilities that means nothing."""


def tell_findings(result: Result) -> Iterator[Finding]:
    """Of questions, where each role decides; of pairs, where the difference is."""
    for swapped, name in _TABLES.items():
        if name in result.tables:
            over = list(_handover(result)) if swapped == "asked" else []
            yield from over
            told = ("question",) if over else ("support", "answer", "question")
            for role in told if swapped == "asked" else ("answer", "question"):
                yield from _role(result, swapped, role)
    if "pairs" in result.tables:
        yield from _pairs(result)


def _handover(result: Result) -> Iterator[Finding]:
    """Up to which layer the support decides, and from which layer on the answers' own states do."""
    support, answer = (_turning(result, "asked", role) for role in ("support", "answer"))
    layers = sorted(set(result.tables["asked"]["layer"]), reverse=True)
    # Unbroken from the last layer down.
    deciding = list(takewhile(lambda layer: layer in answer, layers))
    if not support or not deciding:
        return
    until, since = max(support), deciding[-1]
    if until >= since:
        return
    own, other = (
        _at(result.tables["asked"], layer=layer, role=role) for layer, role in ((since, "answer"), (until, "support"))
    )
    control = _at(result.tables["controls"], swapped="asked", control=RANDOM, layer=since, role="answer")
    yield legacy_finding(
        f"What makes a word the answer is in the support up to layer {until}, where its states turn "
        f"{number(other.turned, other.low, other.high)} of the answers, and in the answers' own states from layer "
        f"{since} on: {number(own.turned, own.low, own.high)}; as many random tokens turn "
        f"{number(control.turned, control.low, control.high)}.",
        "clear", own.turned, own.low, own.high, control.turned,
    )  # fmt: skip


def _turning(result: Result, swapped: str, role: str) -> list[int]:
    """Layers at which a role turns more answers than random tokens, corrected over all layers and roles."""
    tests = _own(result.tables["differences"], swapped=swapped, role=role)
    return [row.layer for row in rows_of(tests) if row.p_adjusted < SURE and row.difference > 0]


def _at(table: pd.DataFrame, **values: Any) -> Any:
    (row,) = rows_of(_own(table, **values))
    return row


def _role(result: Result, swapped: str, role: str) -> Iterator[Finding]:
    """The layer at which a role turns most answers, and those at which it turns more than random tokens."""
    table = _own(result.tables[_TABLES[swapped]], role=role)
    tests = _own(result.tables["differences"], swapped=swapped, role=role)
    if tests.empty:
        return
    best = max(rows_of(table), key=lambda row: (row.turned, -row.layer))
    control = _at(result.tables["controls"], swapped=swapped, role=role, control=RANDOM, layer=best.layer)
    test = _at(tests, layer=best.layer)
    turning = _turning(result, swapped, role)
    where = f" (clearly fewer at {layers_in_words(turning)})" if turning else ""
    share = number(best.turned, best.low, best.high)
    most = (
        f"turn most answers at layer {best.layer}: {share}" if best.turned else f"turn no answer at any layer: {share}"
    )
    yield legacy_finding(
        f"Where {_SWAPPED[swapped]} has changed places, states of the {role} {most}; as many random tokens turn "
        f"{number(control.turned, control.low, control.high)}{where}.",
        _status(test), best.turned, best.low, best.high, control.turned,
    )  # fmt: skip


def _status(test: Any) -> Status:
    """Clear where the difference from random tokens holds after correction over all layers and roles."""
    found = status_of(test.low, test.high, 0.0)
    return "open" if found == "clear" and not test.p_adjusted < SURE else found


def _pairs(result: Result) -> Iterator[Finding]:
    """How much of the difference on shared words patches take away, at the first and the last layer."""
    table = result.tables["pairs"]
    (gap,) = rows_of(_own(result.tables["gaps"], words="shared"))
    said = number(gap.gap, gap.low, gap.high)
    if gap.low <= 0 <= gap.high:
        yield legacy_finding(
            f"On the words that both sentences of a pair have, good sentences are not clearly likelier than bad ones "
            f"({said} nats), so patches have nothing to take away.",
            "open", gap.gap, gap.low, gap.high, 0.0,
        )  # fmt: skip
        return
    for position, called in (("word", "the words that differ"), ("after", "the words after them")):
        own = sorted(rows_of(_own(table, position=position)), key=lambda row: row.layer)
        if not own:
            continue
        first, last = own[0], own[-1]
        least = min(own, key=lambda row: row.effect)
        yield legacy_finding(
            f"Good sentences are likelier by {said} nats on the words that both have. States of {called} change that "
            f"by {number(first.effect, first.low, first.high)} at layer {first.layer}, by "
            f"{number(least.effect, least.low, least.high)} at layer {least.layer} (most), and by "
            f"{number(last.effect, last.low, last.high)} at layer {last.layer}{_twin(result, position, least.layer)}.",
            status_of(least.low, least.high, 0.0, negligible=_NATS), least.effect, least.low, least.high, 0.0,
        )  # fmt: skip


def _twin(result: Result, position: str, layer: int) -> str:
    beside = result.tables["beside"]
    for row in rows_of(_own(beside, model="twin", position=position, layer=layer)):
        return f"; those of the twin with random weights by {number(row.effect, row.low, row.high)} at layer {layer}"
    return ""


def describe(result: Result) -> Iterator[Overview]:
    """One row per layer: the share of answers that turn by role, and the change of pairs by position."""
    for swapped, name in _TABLES.items():
        if name in result.tables:
            title = f"Answers that turn where {_SWAPPED[swapped]} has changed places"
            yield _grid(title, result.tables[name], "role", "turned", ROLES)
    if "pairs" in result.tables:
        title = "Change of the difference of log-probabilities (nats per pair)"
        yield _grid(title, result.tables["pairs"], "position", "effect", (*POSITIONS, EVERYWHERE))


def _grid(title: str, table: pd.DataFrame, by: str, value: str, order: tuple[str, ...]) -> Overview:
    known = {(row["layer"], row[by]): row for row in table.to_dict("records")}
    there = [each for each in order if each in set(table[by])]
    rows = []
    for layer in sorted(set(table["layer"])):
        found = [known.get((layer, each)) for each in there]
        rows.append((int(layer), *("-" if row is None else cell(row[value]) for row in found)))
    return Overview(title, ("layer", *there), rows)


def _own(table: pd.DataFrame, **values: Any) -> pd.DataFrame:
    for column, value in values.items():
        table = pd.DataFrame(table[table[column] == value])
    return table
