"""A model's score under a perturbation beside its own without it: paired by item, resampled by document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from lamina.analyses.behaviour.perturbations import Perturbation
from lamina.stats.units import weights_of

PERTURB = ("how", "strength", "target", "value", "low", "high", "baseline", "difference", "diff_low", "diff_high")
REMAINS = ("how", "strength", "target", "chance", "remains", "low", "high")
ITEMS = ("item", "group", "value", "baseline", "target", "how", "strength", "unit")


@dataclass(frozen=True)
class Items:
    """One target under one perturbation: a score is the sum of `hits` by the sum of `counts`.

    Example:
        >>> one = np.ones(2)
        >>> items = Items("pairs", Perturbation("shuffled", 1), ("a", "b"), ("a", "b"), one / 2, one, one, one)
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
    return float(_ratio(hits.sum(), counts.sum())), *_interval(_ratio(drawn[0], drawn[1]))


def _sums(units: Sequence[str], columns: Sequence[np.ndarray], samples: int, seed: int) -> np.ndarray:
    """[column, sample] Sums over units drawn with replacement."""
    names, owner = np.unique(units, return_inverse=True)
    sums = np.zeros((len(columns), len(names)))
    for row, each in enumerate(columns):
        np.add.at(sums[row], owner, each)
    drawn = np.zeros((len(columns), samples))
    for unit, name in enumerate(names.tolist()):
        drawn += sums[:, unit, None] * weights_of(name, samples=samples, seed=seed)
    return drawn


class Told(NamedTuple):
    """What a model's items say, as rows of tables."""

    scores: list[tuple]
    remains: list[tuple]


def tell(items: Iterable[Items], *, samples: int, seed: int) -> Told:
    """Scores with paired differences; and, of a target whose chance is known, the share above chance that remains.

    Example:
        >>> one, names = np.ones(4), tuple("abcd")
        >>> items = Items("pairs", Perturbation("shuffled", 1), names, names, one * 0.75, one, one, one, chance=0.5)
        >>> told = tell([items], samples=50, seed=0)
        >>> told.scores[0][3], told.scores[0][7], told.remains[0][4]
        (0.75, -0.25, 0.5)
    """
    told = Told([], [])
    for each in items:
        head = (*each.perturbation, each.target)
        drawn, base = each.sampled(samples, seed)
        told.scores.append(
            (*head, each.value, *_interval(drawn), each.baseline, each.value - each.baseline, *_interval(drawn - base))
        )
        if each.chance is not None:
            told.remains.append((*head, each.chance, *_remaining(each, drawn, base, each.chance)))
    return told


def item_rows(items: Sequence[Items]) -> pd.DataFrame:
    """One row per item and perturbation; the mean of an item's words or pieces."""
    rows = (row for each in items for row in _rows(each))
    return pd.DataFrame(list(rows), columns=list(ITEMS))


def _rows(items: Items) -> Iterator[tuple]:
    (how, strength), target = items.perturbation, items.target
    group = f"{target} {how} {strength:g}"
    values, base = _ratio(items.hits, items.counts), _ratio(items.base_hits, items.base_counts)
    for name, unit, value, before in zip(items.names, items.units, values.tolist(), base.tolist(), strict=True):
        yield f"{group}: {name}", group, value, before, target, how, strength, unit


def _remaining(items: Items, drawn: np.ndarray, base: np.ndarray, chance: float) -> tuple[float, float, float]:
    """Not available where the score without a perturbation is not clearly above chance: there is nothing to lose."""
    if not len(base) or not np.nanquantile(base, 0.025) > chance:
        return np.nan, np.nan, np.nan
    share = (items.value - chance) / (items.baseline - chance)
    return share, *_interval((drawn - chance) / np.where(base > chance, base - chance, np.nan))


def _ratio(hits: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.divide(hits, counts, out=np.full(np.shape(counts), np.nan), where=np.asarray(counts) > 0)


def _interval(drawn: np.ndarray) -> tuple[float, float]:
    if not np.isfinite(drawn).any():
        return np.nan, np.nan
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return float(low), float(high)
