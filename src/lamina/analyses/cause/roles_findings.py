"""What joining roles and use shows, in sentences and in small tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from lamina.analyses.cause.judgements import PAIRS
from lamina.analyses.cause.linked import ALL, COREFERENCE, LINK
from lamina.analyses.cause.loss import LOSS
from lamina.analyses.cause.roles_heads import NEXT, PREVIOUS, SINK
from lamina.analyses.cause.roles_targets import QA_OBJECTS
from lamina.analyses.declaration import Overview
from lamina.analyses.legacy import legacy_finding, status_of
from lamina.findings import Finding, cell, number, p_in_words, rows_of
from lamina.results import Result
from lamina.stats.status import NEGLIGIBLE, SURE, Status

SURFACE = (PREVIOUS, NEXT, SINK)
"""Roles that no relation needs."""
_NATS = 0.05
"""A change in loss that means nothing, in nats per piece."""
_SHOWN = 8
_CALLED = {
    PAIRS: "the accuracy on pairs that need agreement",
    LOSS: "the loss",
    QA_OBJECTS: "the F1 of answers that are objects",
}


def target_in_words(target: str) -> str:
    """What is scored, within a sentence.

    Example:
        >>> target_in_words("link:obj@6"), target_in_words("link:all@6")
        ('the share of obj attached at layer 6', 'the share of all words attached at layer 6')
    """
    if not target.startswith(LINK):
        return _CALLED.get(target, target)
    relation, _, layer = target.removeprefix(LINK).rpartition("@")
    if relation == COREFERENCE:
        return f"the share of antecedents found at layer {layer}"
    return f"the share of {'all words' if relation == ALL else relation} attached at layer {layer}"


def harm(rows: pd.DataFrame, column: str) -> pd.Series:
    """A column so that above 0 is worse, whatever the target.

    Example:
        >>> harm(pd.DataFrame({"target": ["loss", "pairs"], "difference": [0.5, -0.25]}), "difference").tolist()
        [0.5, 0.25]
    """
    return rows[column].where(rows["target"] == LOSS, -rows[column])


def tell_findings(result: Result) -> Iterator[Finding]:
    """Heads with a relation, whether finding goes with use, and heads that attend to neighbours or nothing."""
    table, groups = result.tables["roles"], result.tables["groups"]
    own = table[~table["role"].isin(SURFACE)].dropna(subset=["difference", "p_adjusted"])
    if len(own):
        yield _most_used(result, own)
    ranked = groups[~groups["role"].isin(SURFACE)].dropna(subset=["rho", "rho_low"])
    if len(ranked):
        yield _foretold(ranked)
    surface = groups[groups["role"].isin(SURFACE)].dropna(subset=["difference", "diff_low"])
    for _, rows in surface.groupby("role", sort=False):
        yield from (_surface(row) for row in rows_of(rows.head(1)))


def _most_used(result: Result, rows: pd.DataFrame) -> Finding:
    worse = harm(rows, "difference")
    sure = rows[(rows["p_adjusted"] < SURE) & (worse > 0)]
    row = next(rows_of(rows.loc[[worse.loc[(sure if len(sure) else rows).index].idxmax()]]))
    heads = len(rows[["layer", "head"]].drop_duplicates())
    matter = len(sure[["layer", "head"]].drop_duplicates())
    claim = (
        f"{matter} of {heads} heads with a role matter more for what needs it than the other heads of their layer "
        f"(p < {number(SURE)} after Holm), most of all"
        if matter
        else f"None of {heads} heads with a role surely matters more for what needs it than the others of its layer; "
        "the closest is"
    )
    text = (
        f"{claim} head {row.layer}-{row.head}, which finds {number(row.finds)} of {row.role}: without it "
        f"{target_in_words(row.target)} changes by {_signed(row.effect, row.low, row.high)}, without another head of "
        f"the layer by {_signed(row.others)}, a difference of "
        f"{_signed(row.difference, row.diff_low, row.diff_high)} ({p_in_words(row.p_adjusted)})"
    )
    return legacy_finding(
        f"{text}{_control(result, row)}{_of_twin(result)}.", _status(row, row.p_adjusted), row.difference, row.diff_low,
        row.diff_high, 0.0,
    )  # fmt: skip


def _control(result: Result, row: Any) -> str:
    """The same head on all other relations."""
    table = result.tables.get("controls")
    if table is None:
        return ""
    own = table[(table["layer"] == row.layer) & (table["head"] == row.head) & (table["role"] == row.role)]
    found = next(rows_of(own), None)
    if found is None:
        return ""
    return f"; for all other relations it is {_signed(found.difference, found.diff_low, found.diff_high)}"


def _of_twin(result: Result) -> str:
    table = result.tables.get("twin")
    if table is None:
        return ""
    own = table[~table["role"].isin(SURFACE)]
    sure = own[(own["p_adjusted"] < SURE) & (harm(own, "difference") > 0)]
    many, all_ = (len(each[["layer", "head"]].drop_duplicates()) for each in (sure, own))
    return f"; in the twin with random weights {many} of the same {all_} heads do"


def _foretold(rows: pd.DataFrame) -> Finding:
    sure = rows[(rows["rho_p_adjusted"] < SURE) & (rows["rho"] > 0)]
    row = next(rows_of((sure if len(sure) else rows).nlargest(1, "rho")))
    told = f"rho {number(row.rho, row.rho_low, row.rho_high)}, {p_in_words(row.rho_p_adjusted)}"
    text = (
        f"What a head finds goes with what breaks without it (rank correlation over all heads within layers) for "
        f"{len(sure)} of {len(rows)} roles and targets; highest for {row.role} and "
        f"{target_in_words(row.target)}: {told}."
    )
    status = status_of(row.rho_low, row.rho_high, 0.0)
    status = "open" if status == "clear" and not row.rho_p_adjusted < SURE else status
    return legacy_finding(text, status, row.rho, row.rho_low, row.rho_high, 0.0)


def _surface(row: Any) -> Finding:
    called = {SINK: "Sinks", PREVIOUS: "Heads that attend to the previous token"}.get(
        row.role, "Heads that attend to the next token"
    )
    text = (
        f"{called} ({row.heads} of {row.of}): {target_in_words(row.target)} without one of them differs by "
        f"{_signed(row.difference, row.diff_low, row.diff_high)} from that without another head of the layer "
        f"({p_in_words(row.p_adjusted)} by permutation within layers, after Holm)."
    )
    return legacy_finding(text, _status(row, row.p_adjusted), row.difference, row.diff_low, row.diff_high, 0.0)


def _status(row: Any, p_adjusted: float) -> Status:
    negligible = _NATS if row.target == LOSS else NEGLIGIBLE
    status = status_of(row.diff_low, row.diff_high, 0.0, negligible=negligible)
    return "open" if status == "clear" and not p_adjusted < SURE else status


def describe(result: Result) -> Iterator[Overview]:
    """The heads with a role whose loss hurts most, and every role as a whole."""
    table = result.tables["roles"]
    shown = table.loc[harm(table, "difference").dropna().nlargest(_SHOWN).index]
    rows = [
        (
            f"{row.layer}-{row.head}", row.role, cell(row.finds), row.target, cell(row.effect, row.low, row.high),
            cell(row.others), cell(row.difference, row.diff_low, row.diff_high), _p(row.p_adjusted),
        )
        for row in rows_of(shown)
    ]  # fmt: skip
    columns = ("head", "role", "finds", "target", "effect", "others", "difference", "Holm")
    yield Overview(f"{result.provenance.model['name']}: heads with a role, what hurts most", columns, rows)
    groups = [
        (
            row.role, row.target, row.heads, cell(row.difference, row.diff_low, row.diff_high), _p(row.p_adjusted),
            cell(row.rho, row.rho_low, row.rho_high), _p(row.rho_p_adjusted),
        )
        for row in rows_of(result.tables["groups"])
    ]  # fmt: skip
    yield Overview(
        f"{result.provenance.model['name']}: roles",
        ("role", "target", "heads", "difference", "Holm", "rho of finding and harm", "Holm"),
        groups,
    )


def _p(p: float) -> str:
    return "-" if p != p else p_in_words(p)


def _signed(value: float, low: float | None = None, high: float | None = None) -> str:
    return ("+" if value >= 0 else "") + number(value, low, high, digits=3)
