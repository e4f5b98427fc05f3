"""The score against what is left of a model, and what share of it can go before the score falls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lamina.analyses.cause.effects import measure
from lamina.analyses.cause.prune_orders import BOTTOM, EFFECT, IMPORTANCE, RANDOM, TOP, PruningOrder
from lamina.analyses.cause.targets import Target, TargetScores
from lamina.encoders.interventions import Interventions
from lamina.encoders.pruned import Removed
from lamina.stats.bootstrap import ratio_draws
from lamina.stats.family import Contrasts, bootstrap_family
from lamina.stats.intervals import column_intervals
from lamina.stats.seeds import draws_over_seeds
from lamina.stats.units import Units

CURVE = ("by", "removed", "left", "share_left", "value", "low", "high")
SHARES = ("by", "within", "removed", "share", "low", "high")
CONTRASTS = (
    "by", "against", "share", "other_share", "difference", "low", "high", "p_adjusted", "units", "needed",
)  # fmt: skip
COMPARED = ((IMPORTANCE, RANDOM), (EFFECT, RANDOM), (TOP, BOTTOM))
"""Orders of which the share that can go is compared."""
POINT = 0.01
"""How much worse a score may become: a point of an accuracy or F1 (of 100), a hundredth of a loss."""


class ScoreDraws(NamedTuple):
    """A score, and the same score of resampled documents."""

    value: Float[np.ndarray, " *points"]
    drawn: Float[np.ndarray, " sample *points"]

    @property
    def interval(self) -> tuple[Float[np.ndarray, " *points"], Float[np.ndarray, " *points"]]:
        """95 %; not available where nothing was drawn."""
        return column_intervals(self.drawn)

    def minus(self, other: ScoreDraws) -> ScoreDraws:
        """The difference from another score of the same documents, draw by draw."""
        return ScoreDraws(self.value - other.value, self.drawn - other.drawn)


def score_draws(scores: Sequence[TargetScores], units: Sequence[str], *, samples: int, seed: int) -> ScoreDraws:
    """Scores of the same items, [point], and their draws over units, [sample, point]; one unit cannot be drawn.

    Example:
        >>> one = TargetScores(np.array([1.0, 1.0]), np.array([2.0, 2.0]))
        >>> found = score_draws([one], ["a", "b"], samples=20, seed=0)
        >>> float(found.value[0]), found.drawn.shape
        (0.5, (20, 1))
    """
    by = Units.of(units, "document")
    hits, counts = (by.sums(np.stack([each[part] for each in scores], 1)) for part in (0, 1))
    drawn = ratio_draws(hits, counts, by, samples=samples, seed=seed)
    totals = hits.sum(0), counts.sum(0)
    return ScoreDraws(totals[0] / totals[1], drawn if len(by) > 1 else np.full_like(drawn, np.nan))


@dataclass(frozen=True, eq=False)
class PruningCurve:
    """The score at each point of one order; of random orders the mean."""

    by: str
    removed: Int[np.ndarray, " point"]
    many: int
    """Parts of the whole model."""
    scored: ScoreDraws
    lower_is_better: bool
    answers: int = 0
    """Answers, or pieces, that are scored at each point."""
    units: int = 0
    """Documents (pairs, questions) that are resampled."""

    def rows(self) -> Iterator[tuple]:
        """See `CURVE`."""
        low, high = self.scored.interval
        for at, gone in enumerate(self.removed.tolist()):
            left = self.many - gone
            yield self.by, gone, left, left / self.many, float(self.scored.value[at]), float(low[at]), float(high[at])

    @property
    def share(self) -> ScoreDraws:
        """The share that can go: up to the last point before the first that is worse than the whole model by more."""
        value, drawn = self.scored
        return ScoreDraws(
            self._gone(value[None])[0] / self.many,
            np.where(np.isfinite(drawn).all(1), self._gone(np.nan_to_num(drawn)) / self.many, np.nan),
        )

    def _gone(self, values: Float[np.ndarray, "draw point"]) -> Float[np.ndarray, " draw"]:
        whole = values[:, :1]
        worse = values - whole * (1 + POINT) if self.lower_is_better else whole - POINT - values
        fits = worse <= _ROUNDING
        last = np.where(fits.all(1), fits.shape[1], fits.argmin(1)) - 1
        return self.removed[last].astype(float)


_ROUNDING = 1e-9


def curves(
    model: Interventions,
    target: Target,
    orders: Sequence[PruningOrder],
    points: Sequence[int],
    *,
    samples: int,
    seed: int,
) -> list[PruningCurve]:
    """The score of a target without the first parts of each order."""
    wanted = list(dict.fromkeys(order.without(many) for order in orders for many in points if many))
    what = f"{target.name} of what is left of {model.encoder.name}"
    clean, *scores = measure(model, target, [each.edit(model) for each in wanted], what=what)
    known = {Removed(): clean, **dict(zip(wanted, scores, strict=True))}
    found = {
        by: [
            score_draws([known[order.without(many)] for many in points], target.units, samples=samples, seed=seed)
            for order in orders
            if order.by == by
        ]
        for by in dict.fromkeys(order.by for order in orders)
    }
    shape = {"removed": np.array(points), "many": points[-1], "answers": int(clean.counts.sum())}
    shape["units"] = len(set(target.units))
    return [
        PruningCurve(by, scored=_over_draws(each, target), lower_is_better=target.lower_is_better, **shape)
        for by, each in found.items()
    ]


def _over_draws(each: Sequence[ScoreDraws], target: Target) -> ScoreDraws:
    """The mean over random orders; from 5 on, its draws are over orders too, in all points alike."""
    if len(each) == 1:
        return each[0]
    values = np.stack([one.value for one in each])
    drawn = draws_over_seeds(values, np.stack([one.drawn for one in each]))
    # A share has bounds, which Student's t does not know; a loss has none above.
    return ScoreDraws(values.mean(0), drawn.clip(0, None if target.lower_is_better else 1))


def share_rows(found: Sequence[PruningCurve]) -> Iterator[tuple]:
    """See `SHARES`."""
    for curve in found:
        share = curve.share
        gone = round(float(share.value) * curve.many)
        yield curve.by, _within(curve), gone, float(share.value), *map(float, share.interval)


def contrast_rows(found: Sequence[PruningCurve]) -> list[tuple]:
    """See `CONTRASTS`: the share that can go by one order minus that by another; one family."""
    curves = {curve.by: curve for curve in found}
    pairs = [pair for pair in COMPARED if all(by in curves for by in pair)]
    if not pairs:
        return []
    shares = {by: curve.share for by, curve in curves.items()}
    apart = [shares[by].minus(shares[other]) for by, other in pairs]
    tests = share_contrasts(
        np.array([float(each.value) for each in apart]),
        np.stack([each.drawn for each in apart], 1),
        found[0].units,
    )
    return [
        (by, other, float(shares[by].value), float(shares[other].value), *each)
        for (by, other), *each in zip(pairs, *tests, strict=True)
    ]


def share_contrasts(
    estimates: Float[np.ndarray, " pair"], drawn: Float[np.ndarray, "sample pair"], units: int
) -> Contrasts:
    """Differences of shares, two-sided, as one family. Shares are steps: a difference may be the same in all draws.

    Example:
        >>> found = share_contrasts(np.array([0.5]), np.full((999, 1), 0.5), 20)
        >>> found.low.item(), found.p.item()
        (0.5, 0.001)
    """
    tests = bootstrap_family(estimates, drawn, units, bounds=(-1.0, 1.0))
    settled = np.isfinite(drawn).all(0) & (np.ptp(drawn, axis=0) < _ROUNDING) & (tests.needed == 0)
    least = 1 / (1 + len(drawn))
    low, high = (np.where(settled, estimates, ends) for ends in (tests.low, tests.high))
    p = np.where(settled, np.where(np.abs(estimates) > _ROUNDING, least, 1.0), tests.p)
    return tests._replace(low=low, high=high, p=p)


def _within(curve: PruningCurve) -> str:
    return "1 %" if curve.lower_is_better else "1 point"
