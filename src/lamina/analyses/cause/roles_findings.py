"""What joining roles and use shows, in sentences and in small tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from lamina.analyses.cause.ablate_findings import decisive, unit_of_target
from lamina.analyses.cause.effects import margin_of
from lamina.analyses.cause.judgements import PAIRS
from lamina.analyses.cause.linked import ALL, COREFERENCE, LINK
from lamina.analyses.cause.loss import LOSS
from lamina.analyses.cause.roles_heads import NEXT, PREVIOUS, SINK
from lamina.analyses.cause.roles_targets import QA_OBJECTS
from lamina.framework.declare import Overview
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, not_tested, number, p_in_words, rows_of
from lamina.stats.status import SURE, Contrast

SURFACE = (PREVIOUS, NEXT, SINK)
"""Roles that no relation needs."""
_WEAK = 0.1
"""A rank correlation that means nothing."""
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
        ('the share of obj attached (link:obj@6)', 'the share of all words attached (link:all@6)')
    """
    if not target.startswith(LINK):
        return _CALLED.get(target, target)
    relation = target.removeprefix(LINK).rpartition("@")[0]
    if relation == COREFERENCE:
        return f"the share of antecedents found ({target})"
    return f"the share of {'all words' if relation == ALL else relation} attached ({target})"


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
    own = table[~table["role"].isin(SURFACE)].dropna(subset=["difference"])
    if len(own):
        yield _most_used(result, own)
    ranked = groups[~groups["role"].isin(SURFACE)].dropna(subset=["rho"])
    if len(ranked):
        yield _predicted(result, ranked)
    surface = groups[groups["role"].isin(SURFACE)].dropna(subset=["difference"])
    for _, rows in surface.groupby("role", sort=False):
        yield from (_surface(result, row) for row in rows_of(rows.head(1)))


def _most_used(result: Result, rows: pd.DataFrame) -> Finding:
    """Whether any head with a role matters more for what needs it; the contrast is the head minus the others."""
    row = decisive(rows, "difference", "diff_low", "diff_high", margin_of(""))
    target, head = target_in_words(row.target), f"head {row.layer}-{row.head}"
    effect, others = (_signed(value) for value in (row.effect, row.others))
    where = {name: getattr(row, name) for name in ("layer", "head", "role", "target")}
    return finding(
        claim=(
            f"Head {row.layer}-{row.head}, which finds {row.role}, matters for it more than the other heads of its "
            f"layer: without it {target} changes by {effect}, without another head by {others}"
        ),
        whether="any head with a role matters for what needs it more than the other heads of its layer",
        absent="No head with a role matters for what needs it more than the other heads of its layer",
        contrast=f"{row.role}, {head} minus others of its layer",
        test=Contrast.of(row, "difference", "diff_low", "diff_high"),
        source=Source("roles", where),
        unit=unit_of_target(result, row.target),
        importance=("answers", "beats control", "localised"),
        digits=3,
        note=f"{_counted(rows)} {_of_twin(result)}".strip(),
    )


def _counted(rows: pd.DataFrame) -> str:
    """How many heads matter for any of their roles, as a sentence."""
    many, every = (len(each[["layer", "head"]].drop_duplicates()) for each in (rows[rows["worse"]], rows))
    return f"Of {every} heads with a role {many} {'does' if many == 1 else 'do'}."


def _of_twin(result: Result) -> str:
    table = result.tables.get("twin")
    if table is None:
        return ""
    own = table[~table["role"].isin(SURFACE)]
    many, every = (len(each[["layer", "head"]].drop_duplicates()) for each in (own[own["worse"]], own))
    return f"In the twin with random weights {many} of the same {every}."


def _predicted(result: Result, rows: pd.DataFrame) -> Finding:
    """Whether what heads find goes with what breaks without them; the contrast is the rank correlation."""
    tests = rows.assign(
        effect=rows["rho"], low=rows["rho_low"], high=rows["rho_high"], p_adjusted=rows["rho_p_adjusted"],
        units=rows["rho_units"], needed=rows["rho_needed"], worse=(rows["rho_p_adjusted"] < SURE) & (rows["rho"] > 0),
    )  # fmt: skip
    row = decisive(tests, "effect", "low", "high", _WEAK)
    source = Source("groups", {"role": row.role, "target": row.target})
    any_role = "what heads find of any role goes with what breaks without them"
    if row.p_adjusted != row.p_adjusted and not row.needed:
        return not_tested(
            any_role, f"of {row.of} heads no order is unlikely by chance", source=[source], importance=["answers"]
        )
    target, more = target_in_words(row.target), "worse" if row.effect > 0 else "better"
    return finding(
        claim=f"The more heads find of {row.role}, the {more} is {target} without them",
        whether=any_role,
        absent="What heads find of their roles does not go with what breaks without them",
        contrast=f"{row.role}, rank correlation within layers",
        test=Contrast.of(row, "effect"),
        source=source,
        unit=unit_of_target(result, row.target),
        importance=("answers",) if row.effect > 0 else ("answers", "surprises"),
        margin=_WEAK,
    )


def _surface(result: Result, row: Any) -> Finding:
    """Whether heads that attend to neighbours or nothing matter; the contrast is these heads minus the others."""
    called = {SINK: "sinks", PREVIOUS: "heads that attend to the previous token"}.get(
        row.role, "heads that attend to the next token"
    )
    target = target_in_words(row.target)
    source = Source("groups", {"role": row.role, "target": row.target})
    harmful = row.difference * (1 if row.target == LOSS else -1) > 0
    whether = f"{called} matter to {target} otherwise than the other heads of their layers"
    if row.p_adjusted != row.p_adjusted and not row.needed:
        heads = f"{row.heads} head{'s' if row.heads > 1 else ''}"
        reason = f"{heads} with the role cannot be told from heads drawn at random within layers"
        return not_tested(whether, reason, source=[source], importance=["answers"])
    return finding(
        claim=(
            f"{called[:1].upper()}{called[1:]} ({row.heads} of {row.of} heads) matter "
            f"{'more' if harmful else 'less'} to {target} than the other heads of their layers"
        ),
        whether=whether,
        absent=f"{called[:1].upper()}{called[1:]} matter to {target} as the other heads of their layers do",
        contrast="without one of them minus without another head of its layer",
        test=Contrast.of(row, "difference", "diff_low", "diff_high"),
        source=source,
        unit=unit_of_target(result, row.target),
        importance=("beats control",),
        margin=margin_of(row.target),
        digits=3,
    )


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
    columns = ("head", "role", "finds", "target", "effect", "others", "difference", "p")
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
        ("role", "target", "heads", "difference", "p", "rho of finding and harm", "p"),
        groups,
    )


def _p(p: float) -> str:
    return "-" if p != p else p_in_words(p)


def _signed(value: float, low: float | None = None, high: float | None = None) -> str:
    return ("+" if value >= 0 else "") + number(value, low, high, digits=3)
