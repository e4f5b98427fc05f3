"""What taking away one part at a time does to a target, as rows of tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from lamina.analyses.cause.ablate_parts import Part
from lamina.analyses.cause.effects import Effect, effect_of, measure
from lamina.analyses.cause.importance import GateGradients, agreement_of, gate_gradients
from lamina.analyses.cause.targets import Scores, Target
from lamina.encoders.interventions import Interventions
from lamina.stats.family import holm

EFFECTS = ("component", "layer", "head", "how", "target", "baseline", "value", "effect", "low", "high", "p_adjusted")
AGREEMENT = ("target", "how", "of", "importance", "rho", "low", "high", "again", "heads")
NORMALISED, PLAIN = "layer-normalised", "as it is"
"""Importance by the norm of its layer, and without."""


class Ablated(NamedTuple):
    """A target of a model as it is, and without each part."""

    target: Target
    parts: tuple[Part, ...]
    before: Scores
    after: tuple[Scores, ...]
    """Without each part; the mean of its draws where it is drawn."""
    gradients: GateGradients | None
    """With respect to gates; None where heads are not taken away."""

    def effects(self) -> list[Effect]:
        """What each part is worth."""
        return [
            # Of several draws, the mean is no whole number.
            effect_of(self.before, after, self.target.units)
            for part, after in zip(self.parts, self.after, strict=True)
        ]


def ablate_parts(parts: Interventions, target: Target, plan: Sequence[Part], *, seed: int) -> Ablated:
    """Score a target as it is and without each part, and take the gradients of gates where heads are among them."""
    edits = [edit for part in plan for edit in part.edits]
    what = f"{target.name} of {parts.encoder.name} without {len(plan)} parts"
    before, *found = measure(parts, target, edits, seed=seed, what=what)
    made = iter(found)
    after = tuple(_mean([next(made) for _ in part.edits]) for part in plan)
    with_heads = any(part.head is not None for part in plan)
    return Ablated(target, tuple(plan), before, after, gate_gradients(parts, target) if with_heads else None)


def effect_rows(ablated: Iterable[Ablated]) -> Iterator[tuple[Any, ...]]:
    """One row per target, part and how; p is corrected for all parts of one target and how."""
    for each in ablated:
        effects = each.effects()
        hows = np.array([part.how for part in each.parts])
        p_adjusted = np.full(len(effects), np.nan)
        for how in dict.fromkeys(hows.tolist()):
            p_adjusted[hows == how] = holm([effect.p for effect, own in zip(effects, hows == how, strict=True) if own])
        for part, effect, p in zip(each.parts, effects, p_adjusted.tolist(), strict=True):
            head = None if part.head is None else part.head + 1
            yield part.component, part.block + 1, head, part.how, each.target.name, *effect[:5], p


def agreement_rows(ablated: Iterable[Ablated], of: str, *, samples: int, seed: int) -> Iterator[tuple[Any, ...]]:
    """One row per target, how and kind of importance; all heads have to be among the parts."""
    for each in ablated:
        if each.gradients is None:
            continue
        for how in dict.fromkeys(part.how for part in each.parts if part.head is not None):
            chosen = [
                (part, after)
                for part, after in zip(each.parts, each.after, strict=True)
                if part.head is not None and part.how == how
            ]
            if tuple((part.block, part.head) for part, _ in chosen) != each.gradients.heads:
                continue
            for importance in (NORMALISED, PLAIN):
                found = agreement_of(
                    each.gradients,
                    each.before,
                    [after for _, after in chosen],
                    each.target.units,
                    normalised=importance == NORMALISED,
                    samples=samples,
                    seed=seed,
                )
                yield each.target.name, how, of, importance, *found, len(chosen)


def _mean(scores: Sequence[Scores]) -> Scores:
    return Scores(*(np.mean(each, axis=0) for each in zip(*scores, strict=True)))
