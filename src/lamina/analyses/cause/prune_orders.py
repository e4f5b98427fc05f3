"""In which order heads or blocks are taken away: by importance, by true effect, at random, from top or bottom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float

from lamina.analyses.cause.effects import measure
from lamina.analyses.cause.importance import gate_gradients, layer_normalised
from lamina.analyses.cause.targets import Target
from lamina.encoders.interventions import Interventions
from lamina.encoders.pruned import Removed

By = Literal["importance", "effect", "random", "top", "bottom"]
Component = Literal["head", "block"]
PrunedPart = tuple[int, int | None]
"""(block, head), both from 0; no head: the block."""
IMPORTANCE, EFFECT, RANDOM, TOP, BOTTOM = ORDERS = ("importance", "effect", "random", "top", "bottom")
_POINTS = 15
"""Of a curve, beside that of the whole model, where the step is not given."""


@dataclass(frozen=True)
class PruningOrder:
    """Parts of a model in the order in which they are taken away.

    Example:
        >>> PruningOrder("top", ((1, 0), (0, 0))).without(1)
        Removed(heads=frozenset({(1, 0)}), blocks=frozenset())
    """

    by: str
    parts: tuple[PrunedPart, ...]
    worth: Mapping[PrunedPart, float] | None = None
    """Importance, or the loss of score without the part alone: what the order follows."""

    def without(self, many: int) -> Removed:
        """The first so many of its parts."""
        return removed(self.parts[:many])


def removed(parts: Sequence[PrunedPart]) -> Removed:
    """Some parts, as they are taken away together.

    Example:
        >>> removed([(2, None), (0, None)]).names
        ['1', '3']
    """
    heads = frozenset((block, head) for block, head in parts if head is not None)
    return Removed(heads, frozenset(block for block, head in parts if head is None))


def parts_of(model: Interventions, component: Component) -> tuple[PrunedPart, ...]:
    """All heads, or all blocks, from the bottom up."""
    if component == "block":
        return tuple((block, None) for block in range(model.encoder.blocks))
    return model.heads


def points_of(many: int, step: int | None) -> list[int]:
    """How many parts are gone at each point of a curve; none and all included.

    Example:
        >>> points_of(6, None), points_of(72, None)[:3], points_of(10, 4)
        ([0, 1, 2, 3, 4, 5, 6], [0, 5, 10], [0, 4, 8, 10])
    """
    every = ceil(many / _POINTS) if step is None else step
    return [*range(0, many, every), many]


def orders(
    model: Interventions,
    target: Target,
    asked: Sequence[By],
    component: Component,
    *,
    points: Sequence[int],
    draws: int,
    seed: int,
    again: bool,
) -> list[PruningOrder]:
    """The orders asked for; importance and effects are those on `target`, whose texts a curve is not scored on.

    Args:
        model: whose parts are taken away.
        target: what they are to matter for.
        asked: some of `ORDERS`.
        component: what is taken away at a time.
        points: of the curve: how many are gone; effects are measured again after each with `again`.
        draws: of random orders.
        seed: of these.
        again: whether effects are measured again once parts are gone.
    """
    every = parts_of(model, component)

    def rising(worth: Mapping[PrunedPart, float]) -> tuple[PrunedPart, ...]:
        return tuple(sorted(every, key=worth.__getitem__))

    found: list[PruningOrder] = []
    for by in dict.fromkeys(asked):
        if by == IMPORTANCE:
            worth = importance(model, target, component)
            found.append(PruningOrder(by, rising(worth), worth))
        elif by == EFFECT:
            worth = harm(model, target, every, ())
            parts = _greedy(model, target, every, worth, points) if again else rising(worth)
            found.append(PruningOrder(by, parts, worth))
        elif by == RANDOM:
            found += [PruningOrder(by, _shuffled(every, seed, draw)) for draw in range(draws)]
        else:
            # Within a block by number: heads of a block have no order.
            found.append(
                PruningOrder(by, tuple(sorted(every, key=lambda part: _from_top(part) if by == TOP else part[0])))
            )
    return found


def importance(model: Interventions, target: Target, component: Component) -> dict[PrunedPart, float]:
    """The expected absolute gradient of a gate; that of heads is normalised by layer (Michel et al. 2019)."""
    if component == "block":
        found = _block_gradients(model, target)
        return {(block, None): float(each) for block, each in enumerate(found)}
    gradients = gate_gradients(model, target)
    blocks = np.array([block for block, _ in gradients.heads])
    values = layer_normalised(gradients.sums.sum(0), blocks)
    return dict(zip(gradients.heads, values.tolist(), strict=True))


def harm(
    model: Interventions, target: Target, parts: Sequence[PrunedPart], gone: Sequence[PrunedPart]
) -> dict[PrunedPart, float]:
    """How much worse the score becomes without each part, beside those that are gone already; below 0: better."""
    edits = [removed([*gone, part]).edit(model) for part in parts]
    what = f"{target.name} without each part of {model.encoder.name}"
    clean, *scores = measure(model, target, [*edits, *([removed(gone).edit(model)] if gone else [])], what=what)
    before = scores.pop().value if gone else clean.value
    sign = 1 if target.lower_is_better else -1
    return {part: sign * (each.value - before) for part, each in zip(parts, scores, strict=True)}


def _greedy(
    model: Interventions,
    target: Target,
    every: Sequence[PrunedPart],
    first: Mapping[PrunedPart, float],
    points: Sequence[int],
) -> tuple[PrunedPart, ...]:
    """At each point those that matter least once the others are gone."""
    gone: list[PrunedPart] = []
    for many in points[1:]:
        left = [part for part in every if part not in gone]
        worth = harm(model, target, left, gone) if gone and many < len(every) else first
        gone += sorted(left, key=worth.__getitem__)[: many - len(gone)]
    return tuple(gone)


def _shuffled(every: Sequence[PrunedPart], seed: int, draw: int) -> tuple[PrunedPart, ...]:
    rng = np.random.default_rng([seed, draw])
    return tuple(every[at] for at in rng.permutation(len(every)))


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
            found = torch.autograd.grad(loss, gates, allow_unused=True)[0] if loss.requires_grad else None
        if found is not None:
            # Windows of a text are parts of one loss: absolute only once they are together.
            np.add.at(by_item, target.owners[list(batch)], found.double().cpu().numpy())
    return np.abs(by_item).sum(0)
