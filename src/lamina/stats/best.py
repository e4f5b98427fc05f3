"""Which layers (or heads, or systems) are best: a confidence set; regrets; the score of one that was chosen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Real
from scipy.special import ndtri

from lamina.stats.family import Contrasts, bootstrap_family
from lamina.stats.intervals import TAILS, as_normal, from_normal
from lamina.stats.status import LEAST_UNITS, SURE
from lamina.stats.units import CHOOSING, SCORED


class BestSet(NamedTuple):
    """Which members can be the best."""

    among: Bool[np.ndarray, " member"]
    """Members that no other was shown to beat; the true best, all of them where several are, in 95 % of samples."""
    p: Float[np.ndarray, " member"]
    """That some other member is better, adjusted for all members: below .05 it leaves the set; NaN without a score."""
    first: int
    """The member with the best score; the one shown, not the one proven."""


def best_set(
    scores: Float[np.ndarray, " member"],
    draws: Float[np.ndarray, "sample member"],
    units: int,
    *,
    higher: bool = True,
    widen: bool = True,
) -> BestSet:
    """The confidence set of the best members: one leaves it when another beats it.

    Members are compared with all others at once by max-T over `(score of the other - its score) / standard error`. The
    one that is beaten most leaves, then those that remain are compared again, until none is beaten (the model
    confidence set; Hansen et al. 2011). Nothing has to be held out: the set is a statement about all members, not about
    the chosen one.

    Args:
        scores: of the members; NaN where one has none.
        draws: the same from resampled units, the same draws for all members.
        units: how many units were resampled.
        higher: whether higher scores are better.
        widen: whether to make up for few units (see `as_normal`).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> scores = np.array([0.5, 0.8, 0.81])
        >>> draws = scores + rng.normal(0, 0.05, (1000, 1)) + rng.normal(0, 0.02, (1000, 3))
        >>> best_set(scores, draws, 100).among.tolist()
        [False, True, True]
    """
    sign = 1.0 if higher else -1.0
    values, drawn = sign * np.asarray(scores, float), sign * np.asarray(draws, float)
    known = np.flatnonzero(np.isfinite(values) & np.isfinite(drawn).any(0))
    p = np.full(len(values), np.nan)
    if not len(known):
        return BestSet(np.zeros(len(values), bool), p, -1)
    first = int(known[values[known].argmax()])
    remaining, surest = known, 0.0
    while len(remaining):
        reached, null = _leads(values[remaining], drawn[:, remaining], units if widen else None)
        order = np.argsort(-reached)
        # Of each draw the largest of the members from each on, in this order.
        largest = np.maximum.accumulate(null[:, order][:, ::-1], 1)[:, ::-1]
        adjusted = (1 + (largest >= reached[order]).sum(0)) / (1 + len(drawn))
        adjusted = np.where(reached[order] > 0, np.maximum.accumulate(adjusted), 1.0)
        surest = max(surest, float(adjusted[0]))
        if surest >= SURE:
            p[remaining[order]] = np.maximum(adjusted, surest)
            break
        # The one that is beaten most leaves, and with it what others are compared with.
        p[remaining[order[0]]] = surest
        remaining = np.delete(remaining, order[0])
    with np.errstate(invalid="ignore"):
        return BestSet(np.where(np.isfinite(p), p >= SURE, False), p, first)


def _leads(
    values: Float[np.ndarray, " member"], drawn: Float[np.ndarray, "sample member"], units: int | None
) -> tuple[Float[np.ndarray, " member"], Float[np.ndarray, "sample member"]]:
    """The largest standardised lead of another member over each, and the same of centred draws."""
    reached, null = np.full(len(values), -np.inf), np.full(drawn.shape, -np.inf)
    for member in range(len(values)):
        others = np.delete(np.arange(len(values)), member)
        if not len(others):
            continue
        lead = values[others] - values[member]
        apart = drawn[:, others] - drawn[:, [member]]
        apart = np.where(np.isfinite(apart), apart, lead)
        error = apart.std(0)
        moving = error > 1e-12
        scale = np.where(moving, error, 1)
        null[:, member] = np.where(moving, (apart - lead) / scale, -np.inf).max(1)
        # A lead that never varies is sure.
        sure = bool((lead[~moving] > 0).any())
        reached[member] = np.inf if sure else np.where(moving, lead / scale, -np.inf).max()
    return reached if units is None else as_normal(reached, units), null


class Leads(NamedTuple):
    """How far the first member lies ahead of each other one, and which can be the best."""

    best: BestSet
    """All members where none was shown to be better than any other."""
    contrasts: Contrasts
    """Of the first minus each member (so that it is above 0 whatever is better), simultaneous over the others; p: that
    some other member is better than this one. NaN for the first itself."""


def leads(
    scores: Float[np.ndarray, " member"],
    draws: Float[np.ndarray, "sample member"],
    units: int,
    *,
    higher: bool = True,
    least: int = LEAST_UNITS,
) -> Leads:
    """A confidence set and the contrasts behind it, for the claim that some members are best and the others are not.

    Where all members are alike they all are the best, and in 95 % of samples none leaves the set.

    Args:
        scores: of the members; NaN where one has none.
        draws: the same from resampled units, the same draws for all members.
        units: how many units were resampled.
        higher: whether higher scores are better.
        least: with fewer units nothing is tested, and all members can be the best.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> scores = np.array([0.5, 0.8, 0.81])
        >>> found = leads(scores, scores + rng.normal(0, 0.02, (1000, 3)), 100)
        >>> found.best.among.tolist(), found.contrasts.estimate.round(2).tolist()
        ([False, True, True], [0.31, 0.01, nan])
    """
    best = best_set(scores, draws, units, higher=higher)
    sign = 1.0 if higher else -1.0
    scored = np.isfinite(best.p)
    others = scored & (np.arange(len(scores)) != best.first)
    apart = sign * (scores[best.first] - np.where(others, scores, np.nan))
    drawn = sign * (draws[:, [best.first]] - np.where(others, draws, np.nan))
    contrasts = bootstrap_family(apart, drawn, units, least=least)
    known = units >= least
    return Leads(
        best._replace(among=best.among if known else scored),
        contrasts._replace(p=np.where(others & (contrasts.needed == 0), best.p, np.nan)),
    )


class Regrets(NamedTuple):
    """What is lost by each member instead of the truly best one; 0 or more."""

    estimate: Float[np.ndarray, " member"]
    """The highest score minus its score."""
    low: Float[np.ndarray, " member"]
    """95 %, of each member by itself, whichever member is the best."""
    high: Float[np.ndarray, " member"]


def regrets(
    scores: Float[np.ndarray, " member"],
    draws: Float[np.ndarray, "sample member"],
    units: int,
    *,
    higher: bool = True,
) -> Regrets:
    """How far each member is behind the best, which is not known (multiple comparisons with the best; Hsu 1981).

    The lower end allows for the best having been picked: no other member may be so far ahead by chance. The upper end
    need not, since it is the largest of the single ends and the true best is one of them.

    Args:
        scores: of the members; NaN where one has none.
        draws: the same from resampled units, the same draws for all members.
        units: how many units were resampled.
        higher: whether higher scores are better.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> scores = np.array([0.5, 0.8, 0.81])
        >>> found = regrets(scores, scores + rng.normal(0, 0.02, (1000, 3)), 100)
        >>> found.estimate.round(2).tolist(), found.low.round(2).tolist(), found.high.round(2).tolist()
        ([0.31, 0.01, 0.0], [0.24, 0.0, 0.0], [0.37, 0.07, 0.05])
    """
    sign = 1.0 if higher else -1.0
    values, drawn = sign * np.asarray(scores, float), sign * np.asarray(draws, float)
    known = np.flatnonzero(np.isfinite(values) & np.isfinite(drawn).any(0))
    estimate, low, high = (np.full(len(values), np.nan) for _ in range(3))
    for member in known.tolist():
        others = known[known != member]
        lead = values[others] - values[member]
        apart = drawn[:, others] - drawn[:, [member]]
        apart = np.where(np.isfinite(apart), apart, lead)
        error = apart.std(0)
        moving = error > 1e-12
        ahead = np.where(moving, (apart - lead) / np.where(moving, error, 1), 0.0)
        estimate[member] = max(0.0, lead.max(initial=0.0))
        if units < 2:
            continue
        together = float(np.quantile(ahead.max(1, initial=0.0), TAILS[1]))
        reach = float(from_normal(max(together, 0.0), units)), float(from_normal(float(ndtri(TAILS[1])), units))
        low[member] = max(0.0, (lead - reach[0] * error).max(initial=0.0))
        high[member] = max(0.0, (lead + reach[1] * error).max(initial=0.0))
    return Regrets(estimate, low, high)


class CrossFit(NamedTuple):
    """The best of several systems, and what choosing it is worth."""

    system: int
    """The best on all units."""
    hits: Float[np.ndarray, " unit"]
    """Of the system that the other half chose: no unit is scored by a system that it helped to choose."""
    agrees: bool
    """Whether both halves chose the best; only then are the hits its own."""


def cross_fit(hits: Real[np.ndarray, "unit system"], halves: Int[np.ndarray, " unit"]) -> CrossFit:
    """Choose the best system on one half of the units and score it on the other, then the other way round.

    Example:
        >>> hits = np.array([[2, 1], [3, 0], [0, 2], [1, 2]])
        >>> cross_fit(hits, np.array([0, 0, 1, 1]))
        CrossFit(system=0, hits=array([1, 0, 0, 1]), agrees=False)
    """
    chosen = np.array([int(hits[halves == half].sum(0).argmax()) for half in (CHOOSING, SCORED)])
    best = int(hits.sum(0).argmax())
    return CrossFit(best, hits[np.arange(len(hits)), chosen[1 - halves]], bool((chosen == best).all()))
