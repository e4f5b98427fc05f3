"""What patched states show, in sentences and in small tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from lamina.analyses.cause.ablate_findings import decisive
from lamina.analyses.cause.patch_pairs import EVERYWHERE, POSITIONS
from lamina.analyses.cause.patch_questions import ANSWER, RANDOM, ROLES, SUPPORT
from lamina.framework.declare import Overview
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, layers_in_words, number, rows_of
from lamina.stats.status import NEGLIGIBLE, SURE, Contrast

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
            clear = any(each.status == "clear" for each in over)
            roles = ("question",) if clear else ("support", "answer", "question")
            for role in roles if swapped == "asked" else ("answer", "question"):
                yield from _role(result, swapped, role)
    if "pairs" in result.tables:
        yield from _pairs(result)


def _handover(result: Result) -> Iterator[Finding]:
    """Where states of the support turn more answers than the answers' own, and where it is the other way round."""
    tests = _own(result.tables["differences"], swapped="asked", role=ANSWER, against=SUPPORT)
    sure = tests[(tests["p_adjusted"] < SURE) & ((tests["low"] > NEGLIGIBLE) | (tests["high"] < -NEGLIGIBLE))]
    sides = [part for part in (sure[sure["difference"] < 0], sure[sure["difference"] > 0]) if len(part)]
    for part in sides or ([tests] if len(tests) else []):
        if sides:
            row = next(rows_of(part.loc[[part["difference"].abs().idxmax()]]))
        else:
            row = decisive(tests.assign(worse=False), "difference", "low", "high", NEGLIGIBLE)
        layers = [int(layer) for layer in part["layer"]] if sides else [int(row.layer)]
        more, less = ("the support", "the answers") if row.difference < 0 else ("the answers", "the support")
        shares = (row.other, row.turned) if row.difference < 0 else (row.turned, row.other)
        yield finding(
            claim=(
                f"At {layers_in_words(layers)} states of {more} turn more answers than those of {less} (layer "
                f"{row.layer}: {number(shares[0])} and {number(shares[1])})"
            ),
            whether="states of the support or the answers' own turn more answers at any layer",
            absent="States of the support turn as many answers as the answers' own at every layer",
            contrast=f"layer {row.layer}: answers minus support",
            test=Contrast.of(row, "difference"),
            source=Source("differences", {"swapped": "asked", "role": ANSWER, "against": SUPPORT}),
            unit=_unit(result),
            importance=("answers", "localised"),
        )


def _role(result: Result, swapped: str, role: str) -> Iterator[Finding]:
    """At which layers states of a role turn more answers than random tokens; the contrast is that difference."""
    where = {"swapped": swapped, "role": role, "against": RANDOM}
    tests = _own(result.tables["differences"], **where)
    if tests.empty:
        return
    more = (tests["p_adjusted"] < SURE) & (tests["low"] > -NEGLIGIBLE) & (tests["high"] > NEGLIGIBLE)
    tests = tests.assign(worse=more & (tests["difference"] > 0))
    row = decisive(tests, "difference", "low", "high", NEGLIGIBLE)
    layers = [int(layer) for layer in tests.loc[tests["worse"], "layer"]] or [int(row.layer)]
    fewer = "more" if row.difference > 0 else "fewer"
    exchanged = f"{_SWAPPED[swapped]} has changed places"
    yield finding(
        claim=(
            f"Where {exchanged}, states of the {role} turn {fewer} answers than random tokens at "
            f"{layers_in_words(layers)} (layer {row.layer}: {number(row.turned)}, random tokens {number(row.other)})"
        ),
        whether=f"states of the {role} turn more answers than random tokens where {exchanged}",
        absent=f"Where {exchanged}, states of the {role} turn no more answers than random tokens",
        contrast=f"layer {row.layer}: {role} minus random tokens",
        test=Contrast.of(row, "difference"),
        source=Source("differences", where),
        unit=_unit(result),
        importance=("answers", "beats control", "localised"),
    )


def _unit(result: Result) -> str:
    """What differences of questions are paired by."""
    return "text" if "texts" in result.provenance.corpus.get("scored_from", {}) else "document"


def _pairs(result: Result) -> Iterator[Finding]:
    """Whether good sentences are likelier on shared words, and which states take that away."""
    (gap,) = rows_of(_own(result.tables["gaps"], words="shared"))
    first = finding(
        claim="On the words that both sentences of a pair have, good sentences are "
        + ("likelier" if gap.gap > 0 else "less likely"),
        whether="good sentences are likelier than bad ones on the words that both have",
        absent="On the words that both sentences of a pair have, good sentences are as likely as bad ones",
        contrast="nats per pair",
        test=Contrast.of(gap, "gap"),
        source=Source("gaps", {"words": "shared"}),
        unit="pair",
        importance=("answers",),
        margin=_NATS,
    )
    yield first
    if first.status != "clear" or gap.gap <= 0:
        return
    for position, called in (("word", "the words that differ"), ("after", "the words after them")):
        tests = _own(result.tables["contrasts"], position=position)
        if tests.empty:
            continue
        tests = tests.assign(worse=(tests["p_adjusted"] < SURE) & (tests["low"] < -_NATS))
        row = decisive(tests, "difference", "low", "high", _NATS)
        layers = [int(layer) for layer in tests.loc[tests["worse"], "layer"]] or [int(row.layer)]
        yield finding(
            claim=(
                f"States of {called} take away more of what makes good sentences likelier than random tokens do, at "
                f"{layers_in_words(layers)} (layer {row.layer}: change {number(row.effect)}, with random tokens "
                f"{number(row.other)})"
            ),
            whether=f"states of {called} take away more of what makes good sentences likelier than random tokens do",
            absent=f"States of {called} take away no more of what makes good sentences likelier than random tokens do",
            contrast=f"layer {row.layer}: difference in nats per pair",
            test=Contrast.of(row, "difference"),
            source=Source("contrasts", {"position": position}),
            unit="pair",
            importance=("answers", "beats control", "localised"),
            margin=_NATS,
        )


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
