"""A target's score as it is and under each change, paired by document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import t as student

from lamina.analyses.cause.targets import Scores, Target
from lamina.analyses.legacy import sign_flip_p
from lamina.encoders.interventions import RESAMPLED, Edit, Interventions, lengths_alike
from lamina.progress import progress


class Effect(NamedTuple):
    """A score without and with a change; the interval is of the difference, 95 %."""

    baseline: float
    value: float
    effect: float
    """`value - baseline`: above 0 is worse for a loss, below 0 for an accuracy."""
    low: float
    high: float
    p: float
    """Two-sided, that the change changes nothing; not corrected for several tests."""


def measure(
    parts: Interventions, target: Target, edits: Sequence[Edit], *, seed: int = 0, what: str | None = None
) -> list[Scores]:
    """The scores of all items as they are, and then under each edit."""
    return [target.score(each) for each in keep(parts, target, edits, seed=seed, what=what)]


def keep(
    parts: Interventions, target: Target, edits: Sequence[Edit], *, seed: int = 0, what: str | None = None
) -> list[Float[np.ndarray, "row kept"]]:
    """What a target keeps of all its rows as they are, and then under each edit; scores are made of it."""
    donors = lengths_alike(target.rows, seed) if any(map(_from_another_text, edits)) else None
    kept: list[np.ndarray | None] = [None] * (len(edits) + 1)
    with progress(what or f"{target.name} of {parts.encoder.name}", len(target.rows) * len(kept)) as advance:
        for made in parts.run(target.rows, edits, layers=target.layers, donors=donors, places=target.places):
            at = 0 if made.edit is None else made.edit + 1
            found = target.read(made.rows, made.states)
            held = kept[at]
            if held is None:
                held = kept[at] = np.zeros((len(target.rows), found.shape[1]))
            held[list(made.rows)] = found
            advance(len(made.rows))
    return [each for each in kept if each is not None]


def effect_of(before: Scores, after: Scores, units: Sequence[str], *, whole: bool) -> Effect:
    """How much a change moves a score, paired by unit.

    The interval is Student's with the jackknife's standard error, leaving out one unit at a time; the test is that of
    flipped signs. Neither is available with fewer than two units.

    Example:
        >>> ones = np.ones(4)
        >>> found = effect_of(Scores(ones, ones), Scores(np.array([0.0, 1, 0, 0]), ones), list("abcd"), whole=True)
        >>> round(found.effect, 2), round(found.p, 2)
        (-0.75, 0.28)
    """
    names, owner = np.unique(units, return_inverse=True)
    sums = np.stack([np.bincount(owner, each, len(names)) for each in (*before, *after)])
    totals = sums.sum(1)
    baseline, value = totals[0] / totals[1], totals[2] / totals[3]
    held = (sums[1] > 0) | (sums[3] > 0)
    own, many = sums[:, held], int(held.sum())
    if many < 2:
        return Effect(baseline, value, value - baseline, np.nan, np.nan, np.nan)
    left = totals[:, None] - own
    others = left[2] / left[3] - left[0] / left[1]
    error = np.sqrt((many - 1) / many * np.square(others - others.mean()).sum())
    reach = student.ppf(0.975, many - 1) * error
    same = np.array_equal(own[1], own[3])
    moved = own[2] - own[0] if same else own[2] / totals[3] - own[0] / totals[1]
    p = float(sign_flip_p(moved, whole=whole and same))
    effect = value - baseline
    return Effect(float(baseline), float(value), float(effect), float(effect - reach), float(effect + reach), p)


def _from_another_text(edit: Edit) -> bool:
    return any(each.fill is RESAMPLED for each in edit.mixed.values())
