"""The score against what is left of a model, and what share of it can go before the score falls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lamina.analyses.cause.effects import measure
from lamina.analyses.cause.prune_orders import RANDOM, Order
from lamina.analyses.cause.targets import Scores, Target
from lamina.encoders.interventions import Interventions
from lamina.encoders.pruned import Removed
from lamina.stats.seeds import draws_over_seeds
from lamina.stats.units import weights_of

CURVE = ("by", "removed", "left", "share_left", "value", "low", "high")
SHARES = ("by", "within", "removed", "share", "low", "high", "difference", "diff_low", "diff_high")
POINT = 0.01
"""How much worse a score may become: a point of an accuracy or F1 (of 100), a hundredth of a loss."""


class Value(NamedTuple):
    """A score, and the same score of documents drawn with replacement."""

    value: Float[np.ndarray, " *points"]
    drawn: Float[np.ndarray, " sample *points"]

    @property
    def interval(self) -> tuple[Float[np.ndarray, " *points"], Float[np.ndarray, " *points"]]:
        """95 %; not available where nothing was drawn."""
        return interval(self.drawn)

    def minus(self, other: Value) -> Value:
        """The difference from another score of the same documents, draw by draw."""
        return Value(self.value - other.value, self.drawn - other.drawn)


def interval(drawn: Float[np.ndarray, " sample *points"]) -> tuple[np.ndarray, np.ndarray]:
    """Where 95 % of the draws lie.

    Example:
        >>> [float(each) for each in interval(np.linspace(0, 1, 101))]
        [0.025, 0.975]
    """
    if not np.isfinite(drawn).any():
        missing = np.full(drawn.shape[1:], np.nan)
        return missing, missing
    low, high = np.nanquantile(drawn, [0.025, 0.975], axis=0)
    return low, high


def valued(scores: Sequence[Scores], units: Sequence[str], *, samples: int, seed: int) -> Value:
    """Scores of the same items, [point], and their draws over units, [sample, point]; one unit cannot be drawn.

    Example:
        >>> one = Scores(np.array([1.0, 1.0]), np.array([2.0, 2.0]))
        >>> found = valued([one], ["a", "b"], samples=20, seed=0)
        >>> float(found.value[0]), found.drawn.shape
        (0.5, (20, 1))
    """
    names, owner = np.unique(units, return_inverse=True)
    sums = np.array([[np.bincount(owner, part, len(names)) for part in each] for each in scores])
    weights = np.array([weights_of(name, samples=samples, seed=seed) for name in names.tolist()], float)
    drawn = np.einsum("pcu,us->csp", sums, weights)
    told = (drawn[1] > 0) & (len(names) > 1)
    ratios = np.divide(drawn[0], drawn[1], out=np.full(drawn[0].shape, np.nan), where=told)
    totals = sums.sum(2)
    return Value(totals[:, 0] / totals[:, 1], ratios)


@dataclass(frozen=True, eq=False)
class Curve:
    """The score at each point of one order; of random orders the mean."""

    by: str
    removed: Int[np.ndarray, " point"]
    many: int
    """Parts of the whole model."""
    scored: Value
    lower_is_better: bool
    answers: int = 0
    """Answers, or pieces, that are scored at each point."""

    def rows(self) -> Iterator[tuple]:
        """See `CURVE`."""
        low, high = self.scored.interval
        for at, gone in enumerate(self.removed.tolist()):
            left = self.many - gone
            yield self.by, gone, left, left / self.many, float(self.scored.value[at]), float(low[at]), float(high[at])

    @property
    def share(self) -> Value:
        """The share that can go: up to the last point before the first that is worse than the whole model by more."""
        value, drawn = self.scored
        return Value(
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
    model: Interventions, target: Target, orders: Sequence[Order], points: Sequence[int], *, samples: int, seed: int
) -> list[Curve]:
    """The score of a target without the first parts of each order."""
    wanted = list(dict.fromkeys(order.without(many) for order in orders for many in points if many))
    what = f"{target.name} of what is left of {model.encoder.name}"
    clean, *scores = measure(model, target, [each.edit(model) for each in wanted], what=what)
    known = {Removed(): clean, **dict(zip(wanted, scores, strict=True))}
    found = {
        by: [
            valued([known[order.without(many)] for many in points], target.units, samples=samples, seed=seed)
            for order in orders
            if order.by == by
        ]
        for by in dict.fromkeys(order.by for order in orders)
    }
    shape = {"removed": np.array(points), "many": points[-1], "answers": int(clean.counts.sum())}
    return [
        Curve(by, scored=_over_draws(each, target), lower_is_better=target.lower_is_better, **shape)
        for by, each in found.items()
    ]


def _over_draws(each: Sequence[Value], target: Target) -> Value:
    """The mean over random orders; from 5 on, its draws are over orders too, in all points alike."""
    if len(each) == 1:
        return each[0]
    values = np.stack([one.value for one in each])
    drawn = draws_over_seeds(values, np.stack([one.drawn for one in each]))
    # A share has bounds, which Student's t does not know; a loss has none above.
    return Value(values.mean(0), drawn.clip(0, None if target.lower_is_better else 1))


def share_rows(found: Sequence[Curve]) -> Iterator[tuple]:
    """See `SHARES`: the difference is that from the share that can go at random."""
    at_random = next((curve.share for curve in found if curve.by == RANDOM), None)
    for curve in found:
        share = curve.share
        low, high = map(float, share.interval)
        gone = round(float(share.value) * curve.many)
        beside = (np.nan, np.nan, np.nan)
        if at_random is not None and curve.by != RANDOM:
            apart = share.minus(at_random)
            beside = (float(apart.value), *map(float, apart.interval))
        yield curve.by, "1 %" if curve.lower_is_better else "1 point", gone, float(share.value), low, high, *beside
