"""A model's score under a perturbation beside its own without it: paired by item, resampled by document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from lamina.analyses.behaviour.perturb.perturbations import Perturbation
from lamina.stats.family import Alternative, Contrasts, sign_flip_family
from lamina.stats.intervals import interval
from lamina.stats.status import SURE
from lamina.stats.units import Units

_HOW = ("how", "strength", "target")
TEST = ("difference", "diff_low", "diff_high", "p_adjusted", "units", "needed", "unit")
PERTURB = (*_HOW, "value", "low", "high", "baseline", *TEST)
REMAINS = (*_HOW, "chance", "remains", "low", "high", *TEST)
CONTRASTS = (*_HOW, "against", *TEST)
ITEMS = ("item", "group", "value", "baseline", "target", "how", "strength", "unit")


@dataclass(frozen=True)
class PerturbedItems:
    """One target under one perturbation: a score is the sum of `hits` by the sum of `counts`.

    Example:
        >>> one = np.ones(2)
        >>> items = PerturbedItems("pairs", Perturbation("shuffled", 1), ("a", "b"), ("a", "b"), one / 2, one, one, one)
        >>> items.value, items.baseline
        (0.5, 1.0)
    """

    target: str
    perturbation: Perturbation
    names: tuple[str, ...]
    """Texts, pairs or questions: equal whatever the model."""
    units: tuple[str, ...]
    """What is drawn with replacement: the document of each item, or the item."""
    hits: Float[np.ndarray, " item"]
    """Perturbed: right answers, or minus the log-probability."""
    counts: Float[np.ndarray, " item"]
    """Of how many answers or pieces."""
    base_hits: Float[np.ndarray, " item"]
    """The same of the same words as they are written."""
    base_counts: Float[np.ndarray, " item"]
    chance: float | None = None
    """What needs no model scores on these words; None where a score has no such level."""
    kind: str = "document"
    """What the units are: document, text or item."""

    @property
    def value(self) -> float:
        """The score under the perturbation."""
        return float(_ratio(self.hits.sum(), self.counts.sum()))

    @property
    def baseline(self) -> float:
        """The score of the same words without it."""
        return float(_ratio(self.base_hits.sum(), self.base_counts.sum()))

    def sampled(self, samples: int, seed: int) -> Float[np.ndarray, "2 sample"]:
        """The score and the baseline in each bootstrap sample; the same documents are drawn for both."""
        columns = (self.hits, self.counts, self.base_hits, self.base_counts)
        drawn = _sums(self.units, columns, samples, seed)
        return np.stack([_ratio(drawn[0], drawn[1]), _ratio(drawn[2], drawn[3])])


def score_of(
    units: Sequence[str], hits: np.ndarray, counts: np.ndarray, *, samples: int, seed: int
) -> tuple[float, float, float]:
    """A score that has no perturbation, with its interval over units.

    Example:
        >>> score_of(["a", "b"], np.array([1.0, 1.0]), np.array([2.0, 2.0]), samples=20, seed=0)
        (0.5, 0.5, 0.5)
    """
    drawn = _sums(units, (hits, counts), samples, seed)
    return float(_ratio(hits.sum(), counts.sum())), *interval(_ratio(drawn[0], drawn[1]))


def _sums(units: Sequence[str], columns: Sequence[np.ndarray], samples: int, seed: int) -> np.ndarray:
    """[column, sample] Sums over units drawn with replacement."""
    every = Units.of(units, "document")
    return (every.weights(samples=samples, seed=seed).astype(float) @ every.sums(np.column_stack(columns))).T


class PerturbRows(NamedTuple):
    """What a model's items say, as rows of tables."""

    scores: list[tuple]
    remains: list[tuple]


def score_rows(items: Iterable[PerturbedItems], *, samples: int, seed: int) -> PerturbRows:
    """Scores with paired differences; and, of a target whose chance is known, the share above chance that remains.

    Example:
        >>> one, names = np.ones(6), tuple("abcdef")
        >>> shuffled = Perturbation("shuffled", 1)
        >>> items = PerturbedItems("pairs", shuffled, names, names, one * 0.75, one, one, one, chance=0.5)
        >>> told = score_rows([items], samples=50, seed=0)
        >>> told.scores[0][3], told.scores[0][7], told.remains[0][4]
        (0.75, -0.25, 0.5)
    """
    by_target: dict[str, list[PerturbedItems]] = {}
    for member in items:
        by_target.setdefault(member.target, []).append(member)
    rows = PerturbRows([], [])
    for family in by_target.values():
        drawn = [member.sampled(samples, seed) for member in family]
        for member, (draws, _), test in zip(family, drawn, _members(changes(family)), strict=True):
            head = (*member.perturbation, member.target, member.value, *interval(draws), member.baseline)
            rows.scores.append((*head, *test, member.kind))
        known = [(member, draws) for member, draws in zip(family, drawn, strict=True) if member.chance is not None]
        if not known:
            continue
        above = _members(above_chance([member for member, _ in known]))
        before = above_chance([member for member, _ in known], unperturbed=True).p
        for (member, draws), test, p in zip(known, above, before, strict=True):
            left = _remaining(member, *draws) if p < SURE else (np.nan,) * 3
            rows.remains.append((*member.perturbation, member.target, member.chance, *left, *test, member.kind))
    return rows


def _members(tests: Contrasts) -> list[tuple[float, ...]]:
    """Difference, interval, p, units and how many are needed, member by member."""
    return [tuple(map(float, member)) for member in zip(*tests, strict=True)]


def _by_unit(items: Sequence[PerturbedItems], columns: Sequence[np.ndarray]) -> np.ndarray:
    """[unit, member] Sums of one column per member over units; units that a member does not have are 0."""
    names = sorted({unit for member_items in items for unit in member_items.units})
    number = {name: index for index, name in enumerate(names)}
    sums = np.zeros((len(names), len(items)))
    for member, (member_items, column) in enumerate(zip(items, columns, strict=True)):
        np.add.at(sums[:, member], [number[unit] for unit in member_items.units], column)
    return sums


def _lost(items: PerturbedItems) -> Float[np.ndarray, " item"]:
    """Perturbed minus unperturbed; where they differ in how much is counted, the latter as much as the former."""
    return items.hits - items.base_hits * _ratio(items.counts.sum(), items.base_counts.sum())


def changes(items: Sequence[PerturbedItems]) -> Contrasts:
    """Score under each perturbation of a target minus that of the same words without it; one family."""
    return sign_flip_family(
        _by_unit(items, [_lost(member) for member in items]), _by_unit(items, [member.counts for member in items])
    )


def above_chance(items: Sequence[PerturbedItems], *, unperturbed: bool = False) -> Contrasts:
    """Score under each perturbation of a target minus chance; one family. `unperturbed`: of the same words."""
    pairs = [
        (member.base_hits, member.base_counts) if unperturbed else (member.hits, member.counts) for member in items
    ]
    ahead = [hits - (member.chance or 0.0) * counts for member, (hits, counts) in zip(items, pairs, strict=True)]
    how: Alternative = "greater" if unperturbed else "two-sided"
    return sign_flip_family(
        _by_unit(items, ahead), _by_unit(items, [counts for _, counts in pairs]), alternative=how, bounds=(-1.0, 1.0)
    )


def beyond(items: Sequence[PerturbedItems], others: Sequence[PerturbedItems]) -> Contrasts:
    """How much more the score changes under each perturbation than another model's, on the same items; one family."""
    apart = [_lost(one) - _lost(other) for one, other in zip(items, others, strict=True)]
    return sign_flip_family(_by_unit(items, apart), _by_unit(items, [member.counts for member in items]))


def ahead_of(items: Sequence[PerturbedItems], hits: Sequence[Float[np.ndarray, " item"]]) -> Contrasts:
    """Score under each perturbation minus that of answers that need no model, on the same items; one family."""
    apart = [member.hits - other for member, other in zip(items, hits, strict=True)]
    return sign_flip_family(
        _by_unit(items, apart), _by_unit(items, [member.counts for member in items]), bounds=(-1.0, 1.0)
    )


def contrast_rows(items: Sequence[PerturbedItems], tests: Contrasts, against: str) -> list[tuple]:
    """Of the table `contrasts`."""
    return [
        (*member.perturbation, member.target, against, *test, member.kind)
        for member, test in zip(items, _members(tests), strict=True)
    ]


def item_rows(items: Sequence[PerturbedItems]) -> pd.DataFrame:
    """One row per item and perturbation; the mean of an item's words or pieces."""
    rows = (row for member in items for row in _rows(member))
    return pd.DataFrame(list(rows), columns=list(ITEMS))


def _rows(items: PerturbedItems) -> Iterator[tuple]:
    (how, strength), target = items.perturbation, items.target
    group = f"{target} {how} {strength:g}"
    values, base = _ratio(items.hits, items.counts), _ratio(items.base_hits, items.base_counts)
    for name, unit, value, before in zip(items.names, items.units, values.tolist(), base.tolist(), strict=True):
        yield f"{group}: {name}", group, value, before, target, how, strength, unit


def _remaining(items: PerturbedItems, drawn: np.ndarray, base: np.ndarray) -> tuple[float, float, float]:
    chance = items.chance or 0.0
    share = (items.value - chance) / (items.baseline - chance)
    return share, *interval((drawn - chance) / np.where(base > chance, base - chance, np.nan))


def _ratio(hits: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.divide(hits, counts, out=np.full(np.shape(counts), np.nan), where=np.asarray(counts) > 0)
