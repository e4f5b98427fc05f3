"""What breaks without a head that has a role, against the other heads of its layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from lamina.analyses.cause.effects import MISSING, Effect, ScoreChange, effects_of, margin_of, mean_scores
from lamina.analyses.cause.importance import PERMUTED, RankAgreement, agreement_between, can_succeed, corrected
from lamina.analyses.cause.roles_heads import HeadRole
from lamina.analyses.cause.targets import TargetScores
from lamina.stats.family import permutation_family
from lamina.stats.ranks import rank_correlation
from lamina.stats.status import status_of
from lamina.stats.units import Units

ROLES = (
    "layer", "head", "role", "finds", "target", "effect", "low", "high", "others", "difference", "diff_low",
    "diff_high", "p_adjusted", "units", "needed", "worse",
)  # fmt: skip
HEADS = ("layer", "head", "role", "has_role", "finds", "target", "effect", "low", "high")
GROUPS = (
    "role", "target", "heads", "of", "difference", "diff_low", "diff_high", "p_adjusted", "units", "needed", "rho",
    "rho_low", "rho_high", "rho_p_adjusted", "rho_units", "rho_needed",
)  # fmt: skip

Place = tuple[int, int]
"""Block and head, from 0."""


class HeadAblations(NamedTuple):
    """A target of a model as it is and without each head."""

    target: str
    lower_is_better: bool
    units: tuple[str, ...]
    before: TargetScores
    after: Mapping[Place, TargetScores]

    @property
    def harm(self) -> int:
        """1 where higher scores are worse, else -1."""
        return 1 if self.lower_is_better else -1

    def change(self, place: Place) -> ScoreChange:
        """What a target is without one head, against the whole model."""
        return ScoreChange(self.before, self.after[place], self.units)

    def values(self, shape: tuple[int, int]) -> Float[np.ndarray, "block head"]:
        """The effect of every head; NaN where a head cannot be taken away."""
        found = np.full(shape, np.nan)
        for place, after in self.after.items():
            found[place] = after.value - self.before.value
        return found


class RoleNeed(NamedTuple):
    """A role, and a target that needs it (or one that does not, beside it)."""

    role: HeadRole
    without: HeadAblations


def role_rows(needed: Sequence[RoleNeed]) -> list[tuple[Any, ...]]:
    """One row per head with a role and target: its effect against the mean of the heads of its layer without the role.

    Differences are paired by document; all rows are one family. p is one-sided, that the head does more harm.
    """
    cases = [(role, without, place) for role, without in needed for place in _with_role(role, without)]
    others = [_others(*case) for case in cases]
    effects = effects_of([without.change(place) for _, without, place in cases])
    compared = [at for at, beside in enumerate(others) if beside is not None]
    tests = dict.fromkeys(range(len(cases)), MISSING)
    changes, signs = [], []
    for at in compared:
        _, without, place = cases[at]
        beside = others[at]
        if beside is not None:
            changes.append(ScoreChange(beside, without.after[place], without.units))
            signs.append(without.harm)
    tests |= dict(zip(compared, effects_of(changes, harm=signs), strict=True))
    rows = []
    for at, (role, without, place) in enumerate(cases):
        effect, test = effects[at], tests[at]
        status = status_of(test.low, test.high, test.p, needed=test.needed, margin=margin_of(without.target))
        worse = status == "clear" and test.effect * without.harm > 0
        named = place[0] + 1, place[1] + 1, role.name, float(role.finds[place]), without.target
        beside = test.baseline - without.before.value
        rows.append((*named, effect.effect, effect.low, effect.high, beside, *test[2:], worse))
    return rows


def head_rows(needed: Sequence[RoleNeed]) -> Iterator[tuple[Any, ...]]:
    """One row per head, role and target, whether the head has the role or not; all heads of a target are a family."""
    families: dict[str, list[Effect]] = {}
    for role, without in needed:
        places = sorted(without.after)
        if without.target not in families:
            families[without.target] = effects_of([without.change(place) for place in places])
        for place, effect in zip(places, families[without.target], strict=True):
            named = (role.name, bool(role.has[place]), float(role.finds[place]), without.target)
            yield place[0] + 1, place[1] + 1, *named, effect.effect, effect.low, effect.high


def group_rows(needed: Sequence[RoleNeed], *, samples: int, seed: int) -> list[tuple[Any, ...]]:
    """One row per role and target: all heads with the role against the others of their layers, and all heads by rank.

    Both are tested twice, and p is the larger: over documents, with the heads as they are, and over permutations within
    layers of which heads have the role, or of what each head finds; a role is clear where it holds against both. All
    rows are one family.
    """
    rows, changes, observed, permuted, ranked = [], [], [], [], []
    for role, without in needed:
        beside = {place: each for place in _with_role(role, without) if (each := _others(role, without, place))}
        orders = _orders(role.has.shape, seed)
        effects = without.values(role.has.shape)
        rows.append((role.name, without.target, len(beside), len(without.after)))
        if beside:
            others, own = (mean_scores(each) for each in (list(beside.values()), [without.after[at] for at in beside]))
            changes.append(ScoreChange(others, own, without.units))
        has = role.has & np.isfinite(effects)
        observed.append(float(_leads(effects, has)))
        permuted.append(_leads(effects, np.take_along_axis(has[None], orders, -1)))
        ranked.append(_rank_correlation(role, without, orders, samples=samples, seed=seed))
    tests = iter(effects_of(changes))
    by_chance = permutation_family(np.array(observed), np.stack(permuted, 1), alternative="two-sided")
    found = []
    for row, chance, drawn, rho in zip(rows, by_chance, permuted, corrected(ranked), strict=True):
        test = next(tests) if row[2] else MISSING
        p = float(np.maximum(test.p, chance)) if can_succeed(drawn) else np.nan
        found.append((*row, *test[2:5], p, test.units, test.needed, *rho[:6]))
    return found


def within_layers(values: Float[np.ndarray, "*draws block head"]) -> Float[np.ndarray, "*draws place"]:
    """Of every head, how far it is from the mean of its layer.

    Example:
        >>> within_layers(np.array([[1.0, 3.0], [5.0, 5.0]])).tolist()
        [-1.0, 1.0, 0.0, 0.0]
    """
    centred = values - values.mean(-1, keepdims=True)
    return centred.reshape(*values.shape[:-2], -1)


def _orders(shape: tuple[int, int], seed: int) -> Int[np.ndarray, "sample block head"]:
    """Permutations of the heads of each layer; the same for all roles."""
    rng = np.random.default_rng(seed)
    return rng.permuted(np.broadcast_to(np.arange(shape[1]), (PERMUTED, *shape)).copy(), axis=-1)


def _leads(effects: Float[np.ndarray, "block head"], has: Bool[np.ndarray, "*draws block head"]) -> np.ndarray:
    """The sum over heads with a role of what sets each apart from the mean of the others of its layer."""
    kept = np.isfinite(effects).all(-1)
    values, chosen = effects[kept], has[..., kept, :]
    many, total = chosen.sum(-1), values.sum(-1)
    rest = values.shape[-1] - many
    own = (values * chosen).sum(-1)
    lead = own - many * (total - own) / np.maximum(rest, 1)
    return np.where((many > 0) & (rest > 0), lead, 0).sum(-1)


def _rank_correlation(
    role: HeadRole, without: HeadAblations, orders: np.ndarray, *, samples: int, seed: int
) -> RankAgreement:
    """Spearman's, of what heads find and how much worse the model is without them, both within layers."""
    blocks = sorted({block for block, _ in without.after})
    finds = role.finds[blocks]
    heads = [(block, head) for block in blocks for head in range(finds.shape[1])]
    if not np.isfinite(finds).all() or any(place not in without.after for place in heads):
        return RankAgreement(np.nan, np.full(samples, np.nan), np.full(PERMUTED, np.nan), 0, np.nan, len(heads))
    units = Units.of(without.units, "item")
    hits = np.stack([units.sums(without.after[place].hits - without.before.hits) for place in heads])
    counts = units.sums(without.before.counts)

    def harms(weights: Float[np.ndarray, "draw unit"]) -> Float[np.ndarray, "draw place"]:
        effects = without.harm * (weights @ hits.T) / np.maximum(weights @ counts, 1e-9)[:, None]
        return within_layers(effects.reshape(-1, *finds.shape))

    centred, own = within_layers(finds), harms(np.ones((1, len(units))))[0]
    drawn = harms(units.weights(samples=samples, seed=seed).astype(float))
    shuffled = np.take_along_axis(centred.reshape(finds.shape)[None], orders[:, blocks], -1).reshape(len(orders), -1)
    return agreement_between(
        float(rank_correlation(centred, own)),
        rank_correlation(np.broadcast_to(centred, drawn.shape), drawn),
        rank_correlation(shuffled, np.broadcast_to(own, shuffled.shape)),
        units=len(units),
        heads=len(heads),
    )


def _with_role(role: HeadRole, without: HeadAblations) -> list[Place]:
    return [place for place in sorted(without.after) if role.has[place]]


def _others(role: HeadRole, without: HeadAblations, place: Place) -> TargetScores | None:
    """The mean over the heads of the same layer that have not the role; None where there are none."""
    same = [other for other in without.after if other[0] == place[0] and not role.has[other]]
    return mean_scores([without.after[other] for other in same]) if same else None
