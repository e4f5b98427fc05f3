"""The score by the share of a model that is left, and the share that can be removed before the score falls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.analyses.cause.effects import measure
from lamina.analyses.cause.importance import gate_gradients, layer_normalised
from lamina.models.interventions.interventions import Interventions
from lamina.models.interventions.pruned import RemovedParts
from lamina.stats.bootstrap import ratio_draws
from lamina.stats.family import Contrasts, bootstrap_family
from lamina.stats.intervals import column_intervals
from lamina.stats.seeds import draws_over_seeds
from lamina.stats.units import Units
from lamina.targets.target import Target, TargetScores

# The order in which heads or blocks are removed: by importance, by effect, at random, from top or bottom.

By = Literal["importance", "effect", "random", "top", "bottom"]
Component = Literal["head", "block"]
PrunedPart = tuple[int, int | None]
"""(block, head), both from 0; no head: the block."""
IMPORTANCE, EFFECT, RANDOM, TOP, BOTTOM = ORDERS = ("importance", "effect", "random", "top", "bottom")
_POINTS = 15
"""Default number of points of a curve, besides the whole model."""


@dataclass(frozen=True)
class PruningOrder:
    """Parts of a model in the order in which they are removed.

    Example:
        >>> PruningOrder("top", ((1, 0), (0, 0))).without(1)
        RemovedParts(heads=frozenset({(1, 0)}), blocks=frozenset())
    """

    by: str
    parts: tuple[PrunedPart, ...]
    worth: Mapping[PrunedPart, float] | None = None
    """Importance, or the loss of score without the part alone: what the order follows."""

    def without(self, many: int) -> RemovedParts:
        """The first `many` of its parts."""
        return removed(self.parts[:many])


def removed(parts: Sequence[PrunedPart]) -> RemovedParts:
    """Parts that are removed together.

    Example:
        >>> removed([(2, None), (0, None)]).names
        ['1', '3']
    """
    heads = frozenset((block, head) for block, head in parts if head is not None)
    return RemovedParts(heads, frozenset(block for block, head in parts if head is None))


def parts_of(model: Interventions, component: Component) -> tuple[PrunedPart, ...]:
    """All heads, or all blocks, from the bottom up."""
    if component == "block":
        return tuple((block, None) for block in range(model.encoder.blocks))
    return model.heads


def points_of(many: int, step: int | None) -> list[int]:
    """Number of removed parts at each point of a curve, none and all included.

    Example:
        >>> points_of(6, None), points_of(72, None)[:3], points_of(10, 4)
        ([0, 1, 2, 3, 4, 5, 6], [0, 5, 10], [0, 4, 8, 10])
    """
    every = ceil(many / _POINTS) if step is None else step
    return [*range(0, many, every), many]


def orders(
    model: Interventions,
    target: Target,
    chosen: Sequence[By],
    component: Component,
    *,
    points: Sequence[int],
    draws: int,
    seed: int,
    again: bool,
) -> list[PruningOrder]:
    """Removal orders; importance and effects are measured on `target`, whose texts are not those of the curve.

    Args:
        model: whose parts are removed.
        target: what importance and effects are measured on.
        chosen: some of `ORDERS`.
        component: heads or blocks.
        points: numbers of removed parts at the points of the curve.
        draws: number of random orders.
        seed: of the random orders.
        again: whether effects are measured again after each point.
    """
    every = parts_of(model, component)

    def rising(worth: Mapping[PrunedPart, float]) -> tuple[PrunedPart, ...]:
        return tuple(sorted(every, key=worth.__getitem__))

    made_orders: list[PruningOrder] = []
    for by in dict.fromkeys(chosen):
        if by == IMPORTANCE:
            worth = importance(model, target, component)
            made_orders.append(PruningOrder(by, rising(worth), worth))
        elif by == EFFECT:
            worth = harm(model, target, every, ())
            parts = _greedy(model, target, every, worth, points) if again else rising(worth)
            made_orders.append(PruningOrder(by, parts, worth))
        elif by == RANDOM:
            made_orders += [PruningOrder(by, _shuffled(every, seed, draw)) for draw in range(draws)]
        else:
            # Within a block by number: heads of a block have no order.
            made_orders.append(
                PruningOrder(by, tuple(sorted(every, key=lambda part: _from_top(part) if by == TOP else part[0])))
            )
    return made_orders


def importance(model: Interventions, target: Target, component: Component) -> dict[PrunedPart, float]:
    """The expected absolute gradient of a gate; that of heads is normalised by layer (Michel et al. 2019)."""
    if component == "block":
        gradients_of_blocks = _block_gradients(model, target)
        return {(block, None): float(gradient) for block, gradient in enumerate(gradients_of_blocks)}
    gradients = gate_gradients(model, target)
    blocks = np.array([block for block, _ in gradients.heads])
    values = layer_normalised(gradients.sums.sum(0), blocks)
    return dict(zip(gradients.heads, values.tolist(), strict=True))


def harm(
    model: Interventions, target: Target, parts: Sequence[PrunedPart], gone: Sequence[PrunedPart]
) -> dict[PrunedPart, float]:
    """How much worse the score becomes without each part, in addition to `gone`; below 0: better."""
    edits = [removed([*gone, part]).edit(model) for part in parts]
    what = f"{target.name} without each part of {model.encoder.name}"
    clean, *scores = measure(model, target, [*edits, *([removed(gone).edit(model)] if gone else [])], what=what)
    before = scores.pop().value if gone else clean.value
    sign = 1 if target.lower_is_better else -1
    return {part: sign * (ablated.value - before) for part, ablated in zip(parts, scores, strict=True)}


def _greedy(
    model: Interventions,
    target: Target,
    every: Sequence[PrunedPart],
    first: Mapping[PrunedPart, float],
    points: Sequence[int],
) -> tuple[PrunedPart, ...]:
    """At each point, the parts that matter least given what is removed already."""
    gone: list[PrunedPart] = []
    for many in points[1:]:
        left = [part for part in every if part not in gone]
        worth = harm(model, target, left, gone) if gone and many < len(every) else first
        gone += sorted(left, key=worth.__getitem__)[: many - len(gone)]
    return tuple(gone)


def _shuffled(every: Sequence[PrunedPart], seed: int, draw: int) -> tuple[PrunedPart, ...]:
    rng = np.random.default_rng([seed, draw])
    return tuple(every[number] for number in rng.permutation(len(every)))


def _from_top(part: PrunedPart) -> int:
    return -part[0]


def _block_gradients(model: Interventions, target: Target) -> Float[np.ndarray, " block"]:
    """Absolute gradients of gates on what blocks add, summed over items."""
    encoder = model.encoder
    by_item = np.zeros((len(target.items), encoder.blocks))
    for batch in encoder.row_groups([len(row.ids) for row in target.rows]):
        gates = torch.ones(len(batch), encoder.blocks, device=encoder.device, requires_grad=True)
        states = model.gated_block_states([target.rows[row] for row in batch], gates, target.layers)
        with torch.enable_grad():
            loss = target.loss(batch, states).sum()
            # A target that looks at the embeddings alone has no gradient at all.
            gradients = torch.autograd.grad(loss, gates, allow_unused=True)[0] if loss.requires_grad else None
        if gradients is not None:
            # Windows of a text are parts of one loss: absolute only once they are together.
            np.add.at(by_item, target.owners[list(batch)], gradients.double().cpu().numpy())
    return np.abs(by_item).sum(0)


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
    hits, counts = (by.sums(np.stack([one[part] for one in scores], 1)) for part in (0, 1))
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
    """Answers, or tokens, that are scored at each point."""
    units: int = 0
    """Documents (pairs, questions) that are resampled."""

    def rows(self) -> Iterator[tuple]:
        """See `CURVE`."""
        low, high = self.scored.interval
        for point, gone in enumerate(self.removed.tolist()):
            left = self.many - gone
            yield (
                self.by,
                gone,
                left,
                left / self.many,
                float(self.scored.value[point]),
                float(low[point]),
                float(high[point]),
            )

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
    clean, *scores = measure(model, target, [of_order.edit(model) for of_order in wanted], what=what)
    known = {RemovedParts(): clean, **dict(zip(wanted, scores, strict=True))}
    by_order = {
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
        PruningCurve(by, scored=_over_draws(of_order, target), lower_is_better=target.lower_is_better, **shape)
        for by, of_order in by_order.items()
    ]


def _over_draws(orders: Sequence[ScoreDraws], target: Target) -> ScoreDraws:
    """The mean over random orders; from 5 on, its draws are over orders too, in all points alike."""
    if len(orders) == 1:
        return orders[0]
    values = np.stack([one.value for one in orders])
    drawn = draws_over_seeds(values, np.stack([one.drawn for one in orders]))
    # A share has bounds, which Student's t does not know; a loss has none above.
    return ScoreDraws(values.mean(0), drawn.clip(0, None if target.lower_is_better else 1))


def share_rows(curves: Sequence[PruningCurve]) -> Iterator[tuple]:
    """See `SHARES`."""
    for curve in curves:
        share = curve.share
        gone = round(float(share.value) * curve.many)
        yield curve.by, _within(curve), gone, float(share.value), *map(float, share.interval)


def contrast_rows(drawn: Sequence[PruningCurve]) -> list[tuple]:
    """See `CONTRASTS`: the share that can go by one order minus that by another; one family."""
    curves = {curve.by: curve for curve in drawn}
    pairs = [pair for pair in COMPARED if all(by in curves for by in pair)]
    if not pairs:
        return []
    shares = {by: curve.share for by, curve in curves.items()}
    apart = [shares[by].minus(shares[other]) for by, other in pairs]
    tests = share_contrasts(
        np.array([float(numbers.value) for numbers in apart]),
        np.stack([numbers.drawn for numbers in apart], 1),
        drawn[0].units,
    )
    return [
        (by, other, float(shares[by].value), float(shares[other].value), *numbers)
        for (by, other), *numbers in zip(pairs, *tests, strict=True)
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
