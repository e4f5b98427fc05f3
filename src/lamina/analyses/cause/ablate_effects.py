"""What taking away one part at a time does to a target, as rows of tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from lamina.analyses.cause.ablate_parts import RANDOM_COMPONENT, AblatedPart
from lamina.analyses.cause.effects import TESTED, ScoreChange, does_harm, effects_of, mean_scores, measure
from lamina.analyses.cause.importance import AGREED, GateGradients, agreement_of, corrected, gate_gradients
from lamina.analyses.cause.targets import Target, TargetScores
from lamina.encoders.interventions import Interventions
from lamina.stats.best import BestSet, best_set
from lamina.stats.bootstrap import ratio_draws
from lamina.stats.family import bootstrap_family
from lamina.stats.status import LEAST_UNITS, SURE, Contrast
from lamina.stats.units import Units

EFFECTS = (
    "component",
    "layer",
    "head",
    "how",
    "target",
    "baseline",
    "value",
    *TESTED,
    "worse",
    "p_beaten",
    "among_best",
)
CONTRASTS = (
    "component", "layer", "head", "how", "target", "against", "against_layer", "against_head", "value", "other",
    "difference", "diff_low", "diff_high", "p_adjusted", "units", "needed", "worse",
)  # fmt: skip
AGREEMENT = ("target", "how", "of", "importance", *AGREED, "heads")
NORMALISED, PLAIN = "layer-normalised", "as it is"
"""Importance by the norm of its layer, and without."""
NEXT = "next"
"""In contrasts: the block that the one that matters most is compared with."""


class AblationScores(NamedTuple):
    """A target of a model as it is, and without each part."""

    target: Target
    parts: tuple[AblatedPart, ...]
    before: TargetScores
    after: tuple[TargetScores, ...]
    """Without each part; the mean of its draws where it is drawn."""
    gradients: GateGradients | None
    """With respect to gates; None where heads are not taken away."""

    def families(self) -> Iterator[list[int]]:
        """Numbers of the parts that are tested together: those of one kind, taken away in one way."""
        for kind in dict.fromkeys((part.component, part.how) for part in self.parts):
            yield [at for at, part in enumerate(self.parts) if (part.component, part.how) == kind]

    def random_of(self, part: AblatedPart) -> int | None:
        """The number of the random component of a head's layer."""
        for at, other in enumerate(self.parts):
            if (other.component, other.block, other.how) == (RANDOM_COMPONENT, part.block, part.how):
                return at
        return None

    def change(self, at: int, than: int | None = None) -> ScoreChange:
        """A part's scores, against those of the whole model or of another part."""
        return ScoreChange(self.before if than is None else self.after[than], self.after[at], self.target.units)


def ablate_parts(parts: Interventions, target: Target, plan: Sequence[AblatedPart], *, seed: int) -> AblationScores:
    """Score a target as it is and without each part, and take the gradients of gates where heads are among them."""
    edits = [edit for part in plan for edit in part.edits]
    what = f"{target.name} of {parts.encoder.name} without {len(plan)} parts"
    before, *found = measure(parts, target, edits, seed=seed, what=what)
    made = iter(found)
    after = tuple(mean_scores([next(made) for _ in part.edits]) for part in plan)
    with_heads = any(part.head is not None for part in plan)
    return AblationScores(target, tuple(plan), before, after, gate_gradients(parts, target) if with_heads else None)


def effect_rows(ablated: Iterable[AblationScores], *, samples: int, seed: int) -> Iterator[tuple[Any, ...]]:
    """One row per target, part and how; a family are the parts of one kind, target and how."""
    for each in ablated:
        rows: dict[int, tuple[Any, ...]] = {}
        for family in each.families():
            effects = effects_of([each.change(at) for at in family])
            most = _most(*_harm_draws(each, family, samples=samples, seed=seed))
            for at, effect, p, among in zip(family, effects, most.p, most.among, strict=True):
                part = each.parts[at]
                named = (part.component, part.block + 1, _head(part), part.how, each.target.name)
                rows[at] = (*named, *effect, does_harm(effect, each.target), float(p), bool(among))
        yield from (rows[at] for at in range(len(each.parts)))


def contrast_rows(ablated: Iterable[AblationScores], *, samples: int, seed: int) -> Iterator[tuple[Any, ...]]:
    """Heads against random components of their layers; and the block that matters most against the next.

    Differences are of scores; `worse`: the part surely does more harm than what it is compared with.
    """
    for each in ablated:
        sign = 1 if each.target.lower_is_better else -1
        for family in each.families():
            parts = [each.parts[at] for at in family]
            if parts[0].component == RANDOM_COMPONENT:
                continue
            beside = [each.random_of(part) if part.head is not None else None for part in parts]
            pairs = [(at, other) for at, other in zip(family, beside, strict=True) if other is not None]
            for (at, other), effect in zip(pairs, effects_of([each.change(*pair) for pair in pairs]), strict=True):
                worse = does_harm(effect, each.target)
                yield *_places(each, at, other, RANDOM_COMPONENT), effect.value, effect.baseline, *effect[2:], worse
            if parts[0].component == "block" and len(family) > 1:
                first, other, test = _leading_part(each, family, samples=samples, seed=seed)
                low, high = (test.low, test.high) if sign > 0 else (-test.high, -test.low)
                named = _places(each, first, other, NEXT)
                scores = each.after[first].value, each.after[other].value
                tested = (sign * test.estimate, low, high, *test[3:])
                yield *named, *scores, *tested, bool(test.p < SURE)


def agreement_rows(ablated: Iterable[AblationScores], of: str, *, samples: int, seed: int) -> list[tuple[Any, ...]]:
    """One row per target, how and kind of importance, tested together; all heads have to be among the parts."""
    named, found = [], []
    for each in ablated:
        if each.gradients is None:
            continue
        for family in each.families():
            chosen = [(each.parts[at], each.after[at]) for at in family if each.parts[at].head is not None]
            if tuple((part.block, part.head) for part, _ in chosen) != each.gradients.heads:
                continue
            for importance in (NORMALISED, PLAIN):
                agreement = agreement_of(
                    each.gradients, each.before, [after for _, after in chosen], each.target.units,
                    normalised=importance == NORMALISED, samples=samples, seed=seed,
                )  # fmt: skip
                named.append((each.target.name, chosen[0][0].how, of, importance))
                found.append(agreement)
    return [(*name, *numbers, each.heads) for name, numbers, each in zip(named, corrected(found), found, strict=True)]


def _harm_draws(ablated: AblationScores, family: Sequence[int], *, samples: int, seed: int) -> tuple[Any, Any, int]:
    """How much worse a target is without each part: values, draws, and how many units there are."""
    units = Units.of(ablated.target.units, "item")
    sign = 1 if ablated.target.lower_is_better else -1

    def drawn(scores: TargetScores) -> Float[np.ndarray, " sample"]:
        return ratio_draws(units.sums(scores.hits), units.sums(scores.counts), units, samples=samples, seed=seed)

    before = drawn(ablated.before)
    draws = np.stack([sign * (drawn(ablated.after[at]) - before) for at in family], 1)
    values = np.array([sign * (ablated.after[at].value - ablated.before.value) for at in family])
    return values, draws, len(units)


def _most(values: Float[np.ndarray, " part"], draws: Float[np.ndarray, "sample part"], units: int) -> BestSet:
    """Which parts can be those that matter most; all of them where there are too few units to say."""
    most = best_set(values, draws, units)
    return most if units >= LEAST_UNITS else most._replace(among=np.isfinite(values), p=np.full(len(values), np.nan))


def _leading_part(
    ablated: AblationScores, family: Sequence[int], *, samples: int, seed: int
) -> tuple[int, int, Contrast]:
    """The part without which the target suffers most, the part it is compared with, and by how much it leads.

    Where some parts were shown not to matter most (`best_set`), the comparison is with that of them which is hardest to
    tell from the first; else with that of all others.
    """
    values, draws, units = _harm_draws(ablated, family, samples=samples, seed=seed)
    most = _most(values, draws, units)
    others = np.flatnonzero(~most.among) if not most.among.all() else np.arange(len(family))
    others = others[others != most.first]
    # Parts that are alike may each be left out by chance: the claim about any of them is tested over all pairs.
    one, two = np.triu_indices(len(family), 1)
    sign = np.where(values[one] >= values[two], 1, -1)
    lead, apart = sign * (values[one] - values[two]), sign * (draws[:, one] - draws[:, two])
    pairs = bootstrap_family(lead, apart, units)
    at = {frozenset((a, b)): pair for pair, (a, b) in enumerate(zip(one.tolist(), two.tolist(), strict=True))}
    of = [at[frozenset((most.first, int(other)))] for other in others]
    # The one that is hardest to tell from the first; without a p, the one with the next largest effect.
    place = int(np.lexsort((-lead[of], np.nan_to_num(pairs.p[of])))[-1])
    estimate, low, high, p = (float(each[of[place]]) for each in pairs[:4])
    test = Contrast(estimate, low, high, p, units, int(pairs.needed[of[place]]))
    return family[most.first], family[int(others[place])], test


def _places(ablated: AblationScores, at: int, other: int, against: str) -> tuple[Any, ...]:
    part, beside = ablated.parts[at], ablated.parts[other]
    named = (part.component, part.block + 1, _head(part), part.how, ablated.target.name)
    return *named, against, beside.block + 1, _head(beside)


def _head(part: AblatedPart) -> int | None:
    return None if part.head is None else part.head + 1
