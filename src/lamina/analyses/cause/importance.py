"""How important each head is by the gradient of a gate on it, and how well that predicts what happens without it.

The gate multiplies what a head hands on and is 1; the importance of a head is the expected absolute gradient of the
loss of a text with respect to its gate, over the norm of those of its layer (Michel et al. 2019). One backward pass
gives all heads at once, where taking each away takes a run for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lamina.models.interventions.interventions import Interventions
from lamina.models.running.batching import is_out_of_memory
from lamina.progress import progress
from lamina.stats.correlations import rank_correlation
from lamina.stats.family import bootstrap_family, permutation_family
from lamina.stats.intervals import column_intervals
from lamina.stats.status import SURE
from lamina.stats.units import Units
from lamina.targets.target import Target, TargetScores

IMPORTANCE = ("layer", "head", "importance", "low", "high")
AGREED = ("rho", "low", "high", "p_adjusted", "units", "needed", "again")


class GateGradients(NamedTuple):
    """Absolute gradients of the loss of texts with respect to gates, summed by unit."""

    units: tuple[str, ...]
    """What is drawn with replacement: documents, or items; sorted."""
    sums: Float[np.ndarray, "unit head"]
    """Over the unit's items; heads in the order of `Interventions.heads`."""
    heads: tuple[tuple[int, int], ...]
    """(block, head), both from 0."""

    def drawn(self, *, samples: int, seed: int) -> Float[np.ndarray, "sample head"]:
        """The sums over units drawn with replacement; samples that drew none are left out."""
        weights = Units.of(self.units, "item").weights(samples=samples, seed=seed).astype(float)
        return weights[weights.any(1)] @ self.sums


def gate_gradients(parts: Interventions, target: Target) -> GateGradients:
    """The gradient of each item's loss with respect to a gate on every head, absolute, summed by unit."""
    heads = parts.heads
    by_item = np.zeros((len(target.items), len(heads)))
    waiting = [list(batch) for batch in parts.encoder.row_groups([len(row.ids) for row in target.rows])][::-1]
    with progress(f"gradients of {target.name} in {parts.encoder.name}", len(target.rows)) as advance:
        while waiting:
            batch = waiting.pop()
            try:
                gradients = _gradients(parts, target, batch)
            except RuntimeError as error:
                if len(batch) == 1 or not is_out_of_memory(error):
                    raise
                waiting += [batch[len(batch) // 2 :], batch[: len(batch) // 2]]
                continue
            # Windows of a text are parts of one loss: absolute only once they are together.
            np.add.at(by_item, target.owners[batch], gradients)
            advance(len(batch))
    units, owner = np.unique(target.units, return_inverse=True)
    sums = np.zeros((len(units), len(heads)))
    np.add.at(sums, owner, np.abs(by_item))
    return GateGradients(tuple(units.tolist()), sums, heads)


def _gradients(parts: Interventions, target: Target, batch: Sequence[int]) -> Float[np.ndarray, "row head"]:
    with_heads = len({block for block, _ in parts.heads})
    gates = torch.ones(len(batch), with_heads, parts.encoder.heads, device=parts.encoder.device, requires_grad=True)
    states = parts.gated_states([target.rows[row] for row in batch], gates, target.layers)
    with torch.enable_grad():
        loss = target.loss(batch, states).sum()
        # A target below all heads has no gradient at all.
        gradients: Tensor | None = (
            torch.autograd.grad(loss, gates, allow_unused=True)[0] if loss.requires_grad else None
        )
    whole = torch.zeros_like(gates) if gradients is None else gradients
    return whole.detach().flatten(1).double().cpu().numpy()


def layer_normalised(
    importance: Float[np.ndarray, "*draws head"], blocks: Int[np.ndarray, " head"]
) -> Float[np.ndarray, "*draws head"]:
    """Each head's by the Euclidean norm of those of its block; 0 where no head of the block has any.

    Example:
        >>> layer_normalised(np.array([3.0, 4.0, 0.0]), np.array([0, 0, 1])).tolist()
        [0.6, 0.8, 0.0]
    """
    normalised = np.zeros_like(importance)
    for block in np.unique(blocks):
        in_block = importance[..., blocks == block]
        norm = np.sqrt(np.square(in_block).sum(-1, keepdims=True))
        normalised[..., blocks == block] = np.divide(in_block, norm, out=np.zeros_like(in_block), where=norm > 0)
    return normalised


def importance_rows(gradients: GateGradients, *, samples: int, seed: int) -> list[tuple[int, int, float, float, float]]:
    """Layer and head (from 1), importance and its interval over units.

    Example:
        >>> found = GateGradients(("a", "b"), np.array([[3.0, 4.0], [3.0, 4.0]]), ((0, 0), (0, 1)))
        >>> [tuple(round(each, 2) for each in row) for row in importance_rows(found, samples=20, seed=0)]
        [(1, 1, 0.6, 0.6, 0.6), (1, 2, 0.8, 0.8, 0.8)]
    """
    blocks = _blocks(gradients)
    value = layer_normalised(gradients.sums.sum(0), blocks)
    drawn = gradients.drawn(samples=samples, seed=seed)
    low, high = column_intervals(layer_normalised(drawn, blocks))
    return [
        (block + 1, head + 1, *numbers)
        for (block, head), *numbers in zip(gradients.heads, value.tolist(), low.tolist(), high.tolist(), strict=True)
    ]


class RankAgreement(NamedTuple):
    """A rank correlation over heads (Spearman's), with what it may be tested by."""

    rho: float
    draws: Float[np.ndarray, " sample"]
    """The same of resampled units, on Fisher's scale, around the value."""
    permuted: Float[np.ndarray, " sample"]
    """The same with the importance of heads permuted."""
    units: int
    again: float
    """That of the effects with themselves, measured again on as many other units: what noise leaves to be reached."""
    heads: int


def agreement_of(
    gradients: GateGradients,
    before: TargetScores,
    after: Sequence[TargetScores],
    units: Sequence[str],
    *,
    normalised: bool,
    samples: int,
    seed: int,
) -> RankAgreement:
    """How alike importance and the size of the true effect order the heads.

    Both are computed from the same resampled documents in every bootstrap sample. Noise in an order
    pulls every correlation towards 0: draws are shifted (on Fisher's scale) to have the value in their middle. The
    interval is one of what as many other documents would show; with more of them, less noise, correlations are higher.

    Args:
        gradients: of all heads of `after`, in their order.
        before: scores of the model as it is.
        after: scores without each head.
        units: of the items scored.
        normalised: whether importance is normalised by layer.
        samples: bootstrap samples.
        seed: of the draw.
    """
    by = Units.of(units, "item")
    by_unit = [[by.sums(values) for values in scores] for scores in (before, *after)]
    blocks = _blocks(gradients)

    def sizes(weights: Float[np.ndarray, "draw unit"]) -> Float[np.ndarray, "draw head"]:
        scored = np.stack([_ratio(weights @ hits, weights @ counts) for hits, counts in by_unit], axis=-1)
        return np.abs(scored[:, 1:] - scored[:, :1])

    def importance(weights: Float[np.ndarray, "draw unit"]) -> Float[np.ndarray, "draw head"]:
        important = weights @ gradients.sums
        return layer_normalised(important, blocks) if normalised else important

    whole = np.ones((1, len(by)))
    cheap, true = importance(whole), sizes(whole)
    rho = float(rank_correlation(cheap, true)[0])
    weights = by.weights(samples=samples, seed=seed).astype(float)
    drawn = rank_correlation(importance(weights), sizes(weights))
    orders = np.random.default_rng(seed).permuted(np.tile(np.arange(len(after)), (PERMUTED, 1)), axis=1)
    permuted = rank_correlation(cheap[0][orders], np.broadcast_to(true, orders.shape))
    half = _halves(len(by), seed)
    halves = rank_correlation(sizes(half), sizes(1 - half)) if len(by) > 1 else np.array([np.nan])
    again = float(halves[np.isfinite(halves)].mean()) if np.isfinite(halves).any() else np.nan
    # Spearman and Brown: of twice as many units as a half has.
    return RankAgreement(rho, _around(rho, drawn, len(after)), permuted, len(by), 2 * again / (1 + again), len(after))


def agreement_between(
    rho: float, drawn: Float[np.ndarray, " sample"], permuted: Float[np.ndarray, " sample"], *, units: int, heads: int
) -> RankAgreement:
    """A rank correlation with those of resampled units and those of permuted heads."""
    return RankAgreement(rho, _around(rho, drawn, heads), permuted, units, np.nan, heads)


def corrected(agreements: Sequence[RankAgreement]) -> list[tuple[float, ...]]:
    """Rank correlations tested together, as columns (`AGREED`).

    p is the larger of two: that documents alone make it differ from 0, and that importance has nothing to do with the
    effects of heads, so that any order of it was as likely; a correlation is clear where it holds against both. It is
    NaN where no order of so few heads is unlikely.
    """
    if not agreements:
        return []
    rho = np.array([agreement.rho for agreement in agreements])
    tests = bootstrap_family(
        np.array([_fisher(agreement.rho, agreement.heads) for agreement in agreements]),
        np.stack([agreement.draws for agreement in agreements], 1),
        np.array([agreement.units for agreement in agreements], float),
    )
    by_chance = permutation_family(
        rho, np.stack([agreement.permuted for agreement in agreements], 1), alternative="two-sided"
    )
    rows = []
    for number, agreement in enumerate(agreements):
        p = np.maximum(tests.p[number], by_chance[number]) if can_succeed(agreement.permuted) else np.nan
        ends = np.tanh(tests.low[number]), np.tanh(tests.high[number])
        rows.append(
            (agreement.rho, *map(float, ends), float(p), agreement.units, int(tests.needed[number]), agreement.again)
        )
    return rows


def can_succeed(permuted: Float[np.ndarray, " sample"]) -> bool:
    """Whether the farthest of all permutations is rarer than 5 %, two-sided; else no outcome could be.

    Example:
        >>> can_succeed(np.array([1.0, -1.0] * 20)), can_succeed(np.linspace(-1, 1, 100))
        (False, True)
    """
    size = np.abs(permuted[np.isfinite(permuted)])
    return bool(len(size) and (size >= size.max() * (1 - 1e-9)).mean() < SURE)


def _around(rho: float, drawn: Float[np.ndarray, " sample"], heads: int) -> Float[np.ndarray, " sample"]:
    """Resampled correlations on Fisher's scale, moved so that the value is their middle."""
    scaled = _fisher(drawn, heads)
    return scaled + _fisher(rho, heads) - np.nanmedian(scaled) if np.isfinite(scaled).any() else scaled


def _fisher(rho: Any, heads: int) -> Any:
    """A rank correlation on Fisher's scale; 1, which has no place there, lies half a step above the next largest."""
    edge = 1 - 6 / (heads * (heads**2 - 1)) if heads > 1 else 0.0
    return np.arctanh(np.clip(rho, -edge, edge))


def _halves(units: int, seed: int) -> Float[np.ndarray, "split unit"]:
    """Random halves of the units: 1 for those of the one, 0 for those of the other."""
    rng = np.random.default_rng(seed)
    return (rng.permuted(np.tile(np.arange(units), (_SPLITS, 1)), axis=1) < units // 2).astype(float)


_SPLITS = 20
"""How often units are halved."""
PERMUTED = 1999
"""Permutations of importance over heads."""


def _blocks(gradients: GateGradients) -> Int[np.ndarray, " head"]:
    return np.array([block for block, _ in gradients.heads])


def _ratio(hits: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.divide(hits, counts, out=np.full(counts.shape, np.nan), where=counts > 0)
