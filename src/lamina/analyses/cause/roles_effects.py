"""What breaks without a head that has a role, against the other heads of its layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import rankdata

from lamina.analyses.cause.effects import Effect, effect_of
from lamina.analyses.cause.roles_heads import Role
from lamina.analyses.cause.targets import Scores
from lamina.stats.family import holm
from lamina.stats.units import weights_of

ROLES = (
    "layer", "head", "role", "finds", "target", "effect", "low", "high", "others", "difference", "diff_low",
    "diff_high", "p_adjusted",
)  # fmt: skip
HEADS = ("layer", "head", "role", "has_role", "finds", "target", "effect", "low", "high")
GROUPS = (
    "role", "target", "heads", "of", "difference", "diff_low", "diff_high", "p_adjusted", "rho", "rho_low", "rho_high",
    "rho_p_adjusted",
)  # fmt: skip
_PERMUTED = 9999
"""Permutations of a test."""

Place = tuple[int, int]
"""Block and head, from 0."""


class Without(NamedTuple):
    """A target of a model as it is and without each head."""

    target: str
    lower_is_better: bool
    whole: bool
    units: tuple[str, ...]
    before: Scores
    after: Mapping[Place, Scores]

    def effect(self, place: Place) -> Effect:
        """Of one head."""
        return effect_of(self.before, self.after[place], self.units)

    def values(self, shape: tuple[int, int]) -> Float[np.ndarray, "block head"]:
        """The effect of every head; NaN where a head cannot be taken away."""
        found = np.full(shape, np.nan)
        for place, after in self.after.items():
            found[place] = after.value - self.before.value
        return found


class Needed(NamedTuple):
    """A role, and a target that needs it (or one that does not, beside it)."""

    role: Role
    without: Without


def role_rows(needed: Sequence[Needed]) -> list[tuple[Any, ...]]:
    """One row per head with a role and target: its effect against the mean of the heads of its layer without the role.

    p is of the difference, paired by document, and corrected for all rows.
    """
    rows, p = [], []
    for role, without in needed:
        for place in _with_role(role, without):
            effect, beside = without.effect(place), _others(role, without, place)
            against = Effect(*[np.nan] * 6)
            if beside is not None:
                against = effect_of(beside, without.after[place], without.units)
            others = against.baseline - without.before.value
            finds = float(role.finds[place])
            told = (effect.effect, effect.low, effect.high, others, against.effect, against.low, against.high)
            rows.append((place[0] + 1, place[1] + 1, role.name, finds, without.target, *told))
            p.append(against.p)
    return [(*row, float(corrected)) for row, corrected in zip(rows, holm(p), strict=True)]


def head_rows(needed: Sequence[Needed]) -> Iterator[tuple[Any, ...]]:
    """One row per head, role and target, whether the head has the role or not."""
    for role, without in needed:
        for place in sorted(without.after):
            effect = without.effect(place)
            told = (role.name, bool(role.has[place]), float(role.finds[place]), without.target)
            yield place[0] + 1, place[1] + 1, *told, effect.effect, effect.low, effect.high


def group_rows(needed: Sequence[Needed], *, samples: int, seed: int) -> list[tuple[Any, ...]]:
    """One row per role and target: all heads with the role against the others of their layers, and all heads by rank.

    `p_adjusted` permutes within layers which heads have the role, `rho_p_adjusted` what each head finds; both are corrected
    for all rows. Intervals are over documents, with the heads as they are.
    """
    rows: list[list[Any]] = []
    for role, without in needed:
        beside = {place: each for place in _with_role(role, without) if (each := _others(role, without, place))}
        places = list(beside)
        told = [role.name, without.target, len(places), len(without.after)]
        difference = [np.nan] * 4
        if places:
            own = _mean([without.after[place] for place in places])
            found = effect_of(_mean([beside[place] for place in places]), own, without.units)
            effects = without.values(role.has.shape)
            p = permuted_p(effects, role.has & np.isfinite(effects), seed=seed)
            difference = [found.effect, found.low, found.high, p]
        rows.append([*told, *difference, *_rank_correlation(role, without, samples=samples, seed=seed)])
    for column in (GROUPS.index("p_adjusted"), GROUPS.index("rho_p_adjusted")):
        corrected = holm([row[column] for row in rows])
        for row, p in zip(rows, corrected.tolist(), strict=True):
            row[column] = p
    return [tuple(row) for row in rows]


def permuted_p(effects: Float[np.ndarray, "block head"], has: Bool[np.ndarray, "block head"], *, seed: int) -> float:
    """How often heads drawn within the layers differ from the others there as much as those with a role, two-sided.

    Example:
        >>> effects = np.array([[9.0, 0, 0, 0, 0], [8.0, 0, 0, 0, 0]])
        >>> round(permuted_p(effects, effects > 5, seed=0), 2)
        0.04
    """
    rng = np.random.default_rng(seed)
    observed = np.zeros(1)
    drawn = np.zeros(_PERMUTED)
    for own, chosen in zip(effects, has, strict=True):
        there = np.isfinite(own)
        values, many = own[there], int(chosen[there].sum())
        if not 0 < many < len(values):
            continue
        rest = len(values) - many
        # The sum over a layer's heads with the role of what sets each apart from the mean of the others.
        total = values.sum()
        observed += _lead(values[chosen[there]].sum(), total, many, rest)
        order = rng.random((_PERMUTED, len(values))).argsort(1)[:, :many]
        drawn += _lead(values[order].sum(1), total, many, rest)
    reached = np.abs(drawn) >= np.abs(observed) * (1 - 1e-9)
    return float((1 + reached.sum()) / (1 + _PERMUTED))


def within_layers(values: Float[np.ndarray, "block head"]) -> Float[np.ndarray, " place"]:
    """Of every head, how far it is from the mean of its layer.

    Example:
        >>> within_layers(np.array([[1.0, 3.0], [5.0, 5.0]])).tolist()
        [-1.0, 1.0, 0.0, 0.0]
    """
    return (values - values.mean(1, keepdims=True)).ravel()


def _lead(own: Any, total: float, many: int, rest: int) -> Any:
    return own - many * (total - own) / rest


def _rank_correlation(role: Role, without: Without, *, samples: int, seed: int) -> list[float]:
    """Spearman's, of what heads find and how much worse the model is without them, both within layers.

    With an interval over documents, and a p-value over permutations within layers.
    """
    blocks = sorted({block for block, _ in without.after})
    finds = role.finds[blocks]
    heads = [[(block, head) for head in range(finds.shape[1])] for block in blocks]
    if not np.isfinite(finds).all() or any(place not in without.after for own in heads for place in own):
        return [np.nan] * 4
    names, owner = np.unique(without.units, return_inverse=True)

    def by_unit(each: np.ndarray) -> np.ndarray:
        return np.bincount(owner, each, len(names))

    hits = np.stack([by_unit(without.after[place].hits - without.before.hits) for own in heads for place in own])
    counts = by_unit(without.before.counts)
    weights = np.stack([weights_of(name, samples=samples, seed=seed) for name in names.tolist()])
    weights = np.concatenate([np.ones((len(names), 1)), weights], 1)
    sign = 1 if without.lower_is_better else -1
    harm = sign * (hits @ weights) / np.maximum(counts @ weights, 1e-9)
    centred = within_layers(finds)
    drawn = [_spearman(centred, within_layers(each.reshape(finds.shape))) for each in harm.T]
    low, high = np.nanquantile(drawn[1:], [0.025, 0.975]) if np.isfinite(drawn[1:]).any() else (np.nan, np.nan)
    own = within_layers(harm[:, 0].reshape(finds.shape))
    rng = np.random.default_rng(seed)
    permuted = [_spearman(rng.permuted(centred.reshape(finds.shape), axis=1).ravel(), own) for _ in range(999)]
    p = (1 + sum(abs(each) >= abs(drawn[0]) - 1e-12 for each in permuted)) / (1 + len(permuted))
    return [drawn[0], float(low), float(high), p if np.isfinite(drawn[0]) else np.nan]


def _spearman(one: np.ndarray, other: np.ndarray) -> float:
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])


def _with_role(role: Role, without: Without) -> list[Place]:
    return [place for place in sorted(without.after) if role.has[place]]


def _others(role: Role, without: Without, place: Place) -> Scores | None:
    """The mean over the heads of the same layer that have not the role; None where there are none."""
    same = [other for other in without.after if other[0] == place[0] and not role.has[other]]
    return _mean([without.after[other] for other in same]) if same else None


def _mean(scores: Sequence[Scores]) -> Scores:
    return Scores(*(np.mean(each, axis=0) for each in zip(*scores, strict=True)))
