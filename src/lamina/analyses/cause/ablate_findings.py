"""What taking parts away shows, in sentences and in small tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from lamina.analyses.cause.ablate_effects import NEXT, NORMALISED
from lamina.analyses.cause.ablate_parts import RANDOM
from lamina.analyses.cause.effects import margin_of
from lamina.analyses.cause.judgements import PAIRS
from lamina.analyses.cause.loss import LOSS
from lamina.framework.declare import Overview
from lamina.results import Result
from lamina.results.finding import (
    Finding,
    Source,
    best_in_words,
    cell,
    finding,
    not_tested,
    number,
    p_in_words,
    rows_of,
)
from lamina.stats.status import SURE, Contrast

_WEAK = 0.1
"""A rank correlation that means nothing."""
_SHOWN = 5
"""Heads, and blocks, of a target in the terminal."""


def tell_findings(result: Result) -> Iterator[Finding]:
    """Target by target: how many heads and blocks matter, which block matters most; then what gradients say."""
    table, contrasts = result.tables["effects"], result.tables["contrasts"]
    for target in dict.fromkeys(table["target"]):
        heads, blocks = (_first_how(table, str(target), component) for component in ("head", "block"))
        beside = _first_how(contrasts[contrasts["against"] == RANDOM], str(target), "head")
        if len(beside):
            yield _heads(result, beside, str(target))
        elif len(heads):
            yield _parts(result, heads, str(target))
        if len(blocks):
            yield _parts(result, blocks, str(target))
            leads = _first_how(contrasts[contrasts["against"] == NEXT], str(target), "block")
            yield from (_lead(result, row, blocks, str(target)) for row in rows_of(leads))
    yield from _agreement(result)


def unit_of_target(result: Result, target: str) -> str:
    """What effects on a target are paired by.

    Example:
        >>> from lamina.results import Provenance
        >>> unit_of_target(Result("ablate", {}, Provenance({}, {}, {})), "pairs")
        'pair'
    """
    if target == PAIRS:
        return "pair"
    return "text" if "texts" in result.provenance.corpus.get("scored_from", {}) else "document"


def decisive(rows: pd.DataFrame, effect: str, low: str, high: str, margin: float) -> Any:
    """The row of a family that decides whether any member matters; the names are those of its columns.

    Of those that surely do harm, the one that does most; else of those that surely do good; else, unless all lie
    within the margin, the one that is nearest to being sure. What was not tested decides only where nothing else does.
    """
    within = (rows[low] >= -margin) & (rows[high] <= margin)
    for chosen in (rows["worse"].astype(bool), (rows["p_adjusted"] < SURE) & ~within):
        if chosen.any():
            return next(rows_of(rows.loc[[rows.loc[chosen, effect].abs().idxmax()]]))
    pools = (rows[~within & (rows["needed"] == 0)], rows[~within], rows)
    pool = next(each for each in pools if len(each))
    # Where p is not available, the largest difference.
    order = pool.assign(size=-pool[effect].abs()).sort_values(["p_adjusted", "size"], na_position="last")
    return next(rows_of(order.head(1)))


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


def _first_how(table: pd.DataFrame, target: str, component: str) -> pd.DataFrame:
    """The rows of one kind of part, taken away in the first of the ways."""
    rows = table[(table["target"] == target) & (table["component"] == component)]
    return rows[rows["how"] == rows["how"].iloc[0]] if len(rows) else rows


def _heads(result: Result, rows: pd.DataFrame, target: str) -> Finding:
    """Whether heads matter more than random components of their size; the contrast is head minus random component."""
    row = decisive(rows, "difference", "diff_low", "diff_high", margin_of(target))
    many, head = int(rows["worse"].sum()), f"head {row.layer}-{int(row.head)}"
    value, other = (number(each, digits=3) for each in (row.value, row.other))
    if many:
        claim = (
            f"{_count(many, len(rows))} {_matter(many)} to {plain(target)} more than random components of their size; "
            f"without {head} it is {value}, without a random component {other}"
        )
    else:
        claim = f"{named(target)} is better without {head} ({value}) than without a random component ({other})"
    where = {"component": "head", "how": row.how, "target": target}
    sources = [
        Source("contrasts", {**where, "against": RANDOM, "layer": row.layer, "head": row.head}),
        Source("contrasts", {**where, "against": RANDOM}),
    ]
    if many:
        sources.append(Source("contrasts", {**where, "against": RANDOM, "worse": True}))
    return finding(
        claim=claim,
        whether=f"any head matters to {plain(target)} more than a random component of its size",
        absent=f"No head matters to {plain(target)} more than a random component of its size",
        contrast=f"{head} minus random component",
        test=Contrast.of(row, "difference", "diff_low", "diff_high"),
        source=sources,
        unit=unit_of_target(result, target),
        importance=("answers", "beats control"),
        margin=margin_of(target),
        digits=3,
    )


def _parts(result: Result, rows: pd.DataFrame, target: str) -> Finding:
    """Whether parts matter, against the model as it is: blocks, and heads where nothing is as large as they are."""
    row = decisive(rows, "effect", "low", "high", margin_of(target))
    thing = "layer" if row.component == "block" else "head"
    name = f"layer {row.layer}" if row.component == "block" else f"head {row.layer}-{int(row.head)}"
    skipped = " when skipped" if row.component == "block" else ""
    many = int(rows["worse"].sum())
    where = {"component": row.component, "how": row.how, "target": target}
    if many:
        claim = f"{_count(many, len(rows), thing)} {_matter(many)} to {plain(target)}{skipped}"
    else:
        claim = f"{named(target)} is better without {name}"
    value, before = (number(each, digits=3) for each in (row.value, row.baseline))
    return finding(
        claim=f"{claim}; without {name} it is {value} instead of {before}",
        whether=f"any {thing} matters to {plain(target)}{skipped}",
        absent=f"No {thing} matters to {plain(target)}{skipped}",
        contrast=f"change without {name}",
        test=Contrast.of(row, "effect"),
        source=[Source("effects", where), *([Source("effects", {**where, "worse": True})] if many else [])],
        unit=unit_of_target(result, target),
        importance=("answers",),
        margin=margin_of(target),
        digits=3,
    )


def _lead(result: Result, row: Any, blocks: pd.DataFrame, target: str) -> Finding:
    """Which blocks matter most: the contrast is the first minus the strongest that is compared with it."""
    among = blocks["among_best"].astype(bool).tolist()
    best = best_in_words(blocks["layer"].tolist(), among) or f"layer {row.layer}"
    when = f"{'one of ' if best.startswith('layers') else ''}{best} is skipped"
    highest = "highest" if target == LOSS else "lowest"
    value, other = (number(each, digits=3) for each in (row.value, row.other))
    where = {"component": "block", "how": row.how, "target": target}
    return finding(
        claim=(
            f"{named(target)} is {highest} when {when}: without layer {row.layer} it is {value}, without layer "
            f"{row.against_layer} {other}"
        ),
        whether=f"{plain(target)} is {highest} when {when}",
        absent=f"{named(target)} is as {highest.removesuffix('est')} without any layer",
        contrast=f"layer {row.layer} minus layer {row.against_layer}",
        test=Contrast.of(row, "difference", "diff_low", "diff_high"),
        source=[
            Source("contrasts", {**where, "against": NEXT}),
            Source("effects", where | ({"among_best": True} if any(among) else {})),
        ],
        unit=unit_of_target(result, target),
        importance=("answers", "localised"),
        margin=0,
        digits=3,
    )


def _count(many: int, of: int, thing: str = "head") -> str:
    return f"{many} of {of} {thing}{'' if of == 1 else 's'}"


def _matter(many: int) -> str:
    return "matters" if many == 1 else "matter"


def _matching(table: pd.DataFrame, row: Any, *, component: str) -> Any | None:
    """The row of another component in the same layer."""
    same = (table["component"] == component) & (table["layer"] == row.layer)
    own = table[same & (table["how"] == row.how) & (table["target"] == row.target)]
    return next(rows_of(own), None)


def _agreement(result: Result) -> Iterator[Finding]:
    """Whether importance by gradient predicts effects, on the first target; the contrast is the rank correlation."""
    table = result.tables.get("agreement")
    if table is None:
        return
    row = next(rows_of(table[(table["importance"] == NORMALISED) & (table["of"] == "model")]), None)
    if row is None or row.rho != row.rho:
        return
    whether = f"gradient importance predicts the effect of ablating a head on {plain(row.target)}"
    where = {name: getattr(row, name) for name in ("target", "how", "of", "importance")}
    source = Source("agreement", where)
    if row.p_adjusted != row.p_adjusted and not row.needed:
        yield not_tested(
            whether, f"of {row.heads} heads no order is unlikely by chance", source=[source], importance=["answers"]
        )
        return
    against = "orders heads against their effects" if row.rho < 0 else "predicts the effect of ablating a head"
    yield finding(
        claim=f"Gradient importance {against} on {plain(row.target)}",
        whether=whether,
        absent=f"Gradient importance does not predict the effect of ablating a head on {plain(row.target)}",
        contrast="rank correlation",
        test=Contrast.of(row, "rho"),
        source=source,
        unit=unit_of_target(result, row.target),
        importance=("answers",) if row.rho > 0 else ("answers", "surprises"),
        margin=_WEAK,
    )


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
                rows.append(
                    (
                        name,
                        cell(row.effect, row.low, row.high),
                        "-" if row.p_adjusted != row.p_adjusted else p_in_words(row.p_adjusted),
                        beside,
                    )
                )
        baseline = cell(float(own["baseline"].iloc[0]))
        yield Overview(
            f"{result.provenance.model['name']}: {target} ({baseline} as it is), {how}, what hurts most",
            ("without", "effect", "p", "random component"),
            rows,
        )


def named(target: str) -> str:
    """A target at the start of a sentence.

    Example:
        >>> named("loss"), named("probe:pos@3")
        ('The loss', 'The probe of pos (probe:pos@3)')
    """
    said = plain(target)
    return said[0].upper() + said[1:]


def plain(target: str) -> str:
    """A target within a sentence.

    Example:
        >>> plain("loss")
        'the loss'
    """
    if target.startswith("probe:"):
        return f"the probe of {target.removeprefix('probe:').partition('@')[0]} ({target})"
    return {
        LOSS: "the loss",
        "pairs": "accuracy on minimal pairs",
        "qa": "F1 of answers",
        "qa_em": "exact match of answers",
        "tags": "accuracy of tags",
        "classes": "accuracy of classes",
    }.get(target, target)
