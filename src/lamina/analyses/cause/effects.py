"""A target's score as it is and under each change, paired by document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from lamina.models.interventions.edited_runs import RESAMPLED, Edit, lengths_alike
from lamina.models.interventions.interventions import Interventions
from lamina.progress import progress
from lamina.results import Result
from lamina.results.finding import (
    rows_of,
)
from lamina.stats.bootstrap import ratio_draws
from lamina.stats.family import sign_flip_family
from lamina.stats.intervals import interval, share_interval
from lamina.stats.paired import ratio_differences
from lamina.stats.status import NEGLIGIBLE, SURE, status_of
from lamina.stats.units import Units
from lamina.targets.target import LOSS, PAIRS, Target, TargetScores


class Effect(NamedTuple):
    """A score without and with a change; the interval is of the difference, 95 %, simultaneous over a family."""

    baseline: float
    value: float
    effect: float
    """`value - baseline`: above 0 is worse for a loss, below 0 for an accuracy."""
    low: float
    """NaN where documents are too few, or too unequal, for an interval."""
    high: float
    p: float
    """That the change changes nothing, adjusted for the family; NaN where it could not reach .05."""
    units: int = 0
    """Documents (pairs, questions) that have the thing."""
    needed: int = 0
    """0; where even the best outcome could not reach .05, how many would be needed at least."""


MISSING = Effect(np.nan, np.nan, np.nan, np.nan, np.nan, np.nan)
"""Where there is nothing to compare with."""


class ScoreChange(NamedTuple):
    """The scores of the same items without and with a change, or with one change and with another."""

    before: TargetScores
    after: TargetScores
    units: Sequence[str]
    """The document of each item, or the item."""


NATS = 0.05
"""A change in loss that means nothing, in nats per piece."""
TESTED = ("effect", "low", "high", "p_adjusted", "units", "needed")
"""Columns of a tested effect, in the order of `Effect`."""


def margin_of(target: str) -> float:
    """A change of a target that means nothing.

    Example:
        >>> margin_of("loss"), margin_of("pairs")
        (0.05, 0.02)
    """
    return NATS if target == LOSS else NEGLIGIBLE


def does_harm(test: Effect, target: Target) -> bool:
    """Whether a change surely makes a target worse, by more than the margin."""
    status = status_of(test.low, test.high, test.p, needed=test.needed, margin=margin_of(target.name))
    return status == "clear" and (test.effect > 0) == target.lower_is_better


def measure(
    parts: Interventions, target: Target, edits: Sequence[Edit], *, seed: int = 0, what: str | None = None
) -> list[TargetScores]:
    """The scores of all items as they are, and then under each edit."""
    return [target.score(values) for values in keep(parts, target, edits, seed=seed, what=what)]


def keep(
    parts: Interventions, target: Target, edits: Sequence[Edit], *, seed: int = 0, what: str | None = None
) -> list[Float[np.ndarray, "row kept"]]:
    """What a target keeps of all its rows as they are, and then under each edit; scores are made of it."""
    donors = lengths_alike(target.rows, seed) if any(map(_from_another_text, edits)) else None
    by_run: list[np.ndarray | None] = [None] * (len(edits) + 1)
    with progress(what or f"{target.name} of {parts.encoder.name}", len(target.rows) * len(by_run)) as advance:
        for batch in parts.run(target.rows, edits, layers=target.layers, donors=donors, places=target.places):
            run = 0 if batch.edit is None else batch.edit + 1
            read = target.read(batch.rows, batch.states)
            whole = by_run[run]
            if whole is None:
                whole = by_run[run] = np.zeros((len(target.rows), read.shape[1]))
            whole[list(batch.rows)] = read
            advance(len(batch.rows))
    return [values for values in by_run if values is not None]


def effects_of(changes: Sequence[ScoreChange], *, harm: int | Sequence[int] = 0) -> list[Effect]:
    """How much each of a family of changes moves a score, paired by unit and corrected together (`sign_flip_family`).

    Changes may be of several targets, whose items are of other documents: a unit without the thing is 0. Where scores
    are ratios of unequal counts, differences are of residuals from the value that both have together. Where no answer
    changes, the interval is the exact one of a share of 0.

    Args:
        changes: the family.
        harm: 1 or -1, for all or for each, asks whether scores rise, or fall: p is one-sided, the interval stays
            two-sided.

    Example:
        >>> ones, names = np.ones(8), list("abcdefgh")
        >>> worse = ScoreChange(TargetScores(ones, ones), TargetScores(0 * ones, ones), names)
        >>> one_wrong = np.array([0.0, 1, 1, 1, 1, 1, 1, 1])
        >>> same = ScoreChange(TargetScores(ones, ones), TargetScores(one_wrong, ones), names)
        >>> [(round(each.effect, 2), round(each.p, 3)) for each in effects_of([worse, same])]
        [(-1.0, 0.008), (-0.12, 1.0)]
    """
    if not changes:
        return []
    names = sorted({name for change in changes for name in change.units})
    rows = {name: row for row, name in enumerate(names)}
    differences, counts = np.zeros((2, len(names), len(changes)))
    for member, change in enumerate(changes):
        owner = [rows[name] for name in change.units]
        before, after = (
            np.stack([np.bincount(owner, values, len(names)) for values in scores]) for scores in change[:2]
        )
        differences[:, member], counts[:, member] = ratio_differences(after, before)
    tests = sign_flip_family(differences, counts)
    signs = np.asarray(harm)
    one_sided = sign_flip_family(signs * differences, counts, alternative="greater") if signs.any() else tests
    low, high = (np.where(np.isfinite(ends), ends, np.nan) for ends in (tests.low, tests.high))
    for member, change in enumerate(changes):
        # Of right and wrong answers that are all alike, as many as could differ unseen.
        if not differences[:, member].any() and np.array_equal(change.before.hits, change.before.hits.round()):
            high[member] = share_interval(0, int(tests.units[member]))[1]
            low[member] = -high[member]
    return [
        Effect(
            change.before.value, change.after.value, float(tests.estimate[member]), float(low[member]),
            float(high[member]), float(one_sided.p[member]), int(one_sided.units[member]),
            int(one_sided.needed[member]),
        )
        for member, change in enumerate(changes)
    ]  # fmt: skip


def effect_of(before: TargetScores, after: TargetScores, units: Sequence[str]) -> Effect:
    """How much one change moves a score, paired by unit: a family of one.

    Example:
        >>> ones = np.ones(4)
        >>> found = effect_of(TargetScores(ones, ones), TargetScores(np.array([0.0, 1, 0, 0]), ones), list("abcd"))
        >>> round(found.effect, 2), found.p, found.needed
        (-0.75, nan, 6)
    """
    return effects_of([ScoreChange(before, after, units)])[0]


def mean_scores(scores: Sequence[TargetScores]) -> TargetScores:
    """The mean of several scores of the same items, as of several random draws."""
    return TargetScores(*(np.mean(values, axis=0) for values in zip(*scores, strict=True)))


def score_interval(scores: TargetScores, units: Sequence[str], *, samples: int, seed: int) -> tuple[float, float]:
    """The 95 % interval of a score over units; where all items are right, or none, the exact one of as many draws.

    Example:
        >>> ones, texts = np.ones(20), [str(text) for text in range(20)]
        >>> [round(end, 2) for end in score_interval(TargetScores(ones, ones), texts, samples=9, seed=0)]
        [0.83, 1.0]
    """
    by = Units.of(units, "item")
    hits, counts = by.sums(scores.hits), by.sums(scores.counts)
    if np.isin(scores.hits, (0, 1)).all() and scores.value in (0, 1):
        return share_interval(len(by) * int(scores.value), len(by))
    return interval(ratio_draws(hits, counts, by, samples=samples, seed=seed))


def _from_another_text(edit: Edit) -> bool:
    return any(mixed.fill is RESAMPLED for mixed in edit.mixed.values())


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
    pool = next(rows_left for rows_left in pools if len(rows_left))
    # Where p is not available, the largest difference.
    order = pool.assign(size=-pool[effect].abs()).sort_values(["p_adjusted", "size"], na_position="last")
    return next(rows_of(order.head(1)))


def harm_of(rows: pd.DataFrame, column: str = "effect") -> pd.Series:
    """A column of effects so that above 0 is worse, whatever the target.

    Example:
        >>> harm_of(pd.DataFrame({"target": ["loss", "pairs"], "effect": [0.5, -0.25]})).tolist()
        [0.5, 0.25]
    """
    return rows[column].where(rows["target"] == LOSS, -rows[column])


def worst_of(rows: pd.DataFrame) -> Any:
    """The row of the part without which the target suffers most.

    Example:
        >>> worst_of(pd.DataFrame({"target": ["pairs", "pairs"], "effect": [0.5, -0.25]})).effect
        -0.25
    """
    return next(rows_of(rows.assign(harm=harm_of(rows)).nlargest(1, "harm")))
