"""Accuracies of suites by paradigm, term and field: intervals over items, tests against chance, paired differences."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import beta, binomtest

from lamina.analyses.behaviour.verdicts import SCORES, Score, Verdicts
from lamina.analyses.probing.statistics import interval
from lamina.corpora.minimal_pairs import ALL, UNNAMED
from lamina.stats.family import holm
from lamina.stats.units import weights_of

Level = Literal["paradigm", "term", "field", "all"]
_DRAWS = 20_000
"""Suites answered by chance, to test means over several paradigms."""


class Item(Protocol):
    """What is right or wrong."""

    @property
    def item(self) -> str: ...
    @property
    def field(self) -> str: ...
    @property
    def term(self) -> str: ...
    @property
    def paradigm(self) -> str: ...


class Group(NamedTuple):
    """Paradigms that are averaged; each counts as much as any other."""

    level: Level
    name: str
    field: str
    term: str
    members: tuple[int, ...]
    """Numbers of the paradigms."""


class Accuracy(NamedTuple):
    """A share of right items, averaged over paradigms."""

    value: float
    low: float
    """95 %, from items drawn with replacement within their paradigm."""
    high: float


class Against(NamedTuple):
    """How likely chance alone is this far from what it expects, two-sided."""

    chance: float
    p: float


@dataclass(frozen=True)
class Accuracies:
    """What several models ("speakers") made of the same items."""

    items: Sequence[Item]
    verdicts: Mapping[str, Verdicts]
    """Speaker -> its verdicts, the model's first, which has all; others have NaN for items that they were not asked."""
    chances: Float[np.ndarray, " item"]
    samples: int
    seed: int

    @cached_property
    def paradigms(self) -> dict[str, Int[np.ndarray, " own"]]:
        """Name -> the numbers of its items."""
        found: dict[str, list[int]] = {}
        for number, item in enumerate(self.items):
            found.setdefault(item.paradigm, []).append(number)
        return {name: np.array(own) for name, own in found.items()}

    def groups(self, level: Level) -> list[Group]:
        """The paradigms, terms or fields in the order of the items; those without a name are no group."""
        first = [self.items[int(own[0])] for own in self.paradigms.values()]
        if level == "all":
            return [Group("all", ALL, ALL, ALL, tuple(range(len(first))))]
        named: dict[str, list[int]] = {}
        for number, item in enumerate(first):
            named.setdefault(getattr(item, level), []).append(number)
        return [
            Group(level, name, _one(first[at].field for at in own), _one(first[at].term for at in own), tuple(own))
            for name, own in named.items()
            if name != UNNAMED
        ]

    @property
    def model(self) -> str:
        """The first speaker."""
        return next(iter(self.verdicts))

    def count(self, group: Group, speaker: str | None = None) -> int:
        """Its items that the speaker was asked, by default the model."""
        asked = np.isfinite(self.verdicts[speaker or self.model].value["plain"])
        own = list(self.paradigms.values())
        return sum(int(asked[own[at]].sum()) for at in group.members)

    def accuracy(self, group: Group, speaker: str, score: Score) -> Accuracy:
        """The mean over a group's paradigms."""
        found = self._over(group, (speaker, score))
        if found.low == found.high and found.value in (0, 1):
            count = self.count(group, speaker)
            return Accuracy(found.value, *exact_interval(round(found.value) * count, count))
        return found

    def difference(self, group: Group, other: str, score: Score) -> Accuracy:
        """How much more often the model is right than another speaker on the items that both were asked."""
        return self._over(group, (other, score, "less"))

    def against_chance(self, group: Group, score: Score) -> Against:
        """An exact binomial test for one paradigm; of several, the mean is tested by drawing answers at random."""
        values = self.verdicts[self.model].value[score]
        paradigms = list(self.paradigms.values())
        own = [paradigms[at] for at in group.members]
        chances = np.array([self.chances[numbers].mean() for numbers in own])
        chance = float(chances.mean())
        if not np.isfinite(chance):
            return Against(chance, float("nan"))
        if len(own) == 1:
            right, decided = (int((values[own[0]] == 1).sum()), int(np.isin(values[own[0]], (0, 1)).sum()))
            return Against(chance, float(binomtest(right, decided, chance).pvalue) if decided else 1.0)
        drawn, expected, reached = np.zeros(_DRAWS), 0.0, 0.0
        for numbers, by_chance in zip(own, chances, strict=True):
            tied = values[numbers][~np.isin(values[numbers], (0, 1))]
            decided = len(numbers) - len(tied)
            rng = _rng(f"{self.seed}:{self.items[int(numbers[0])].paradigm}")
            drawn += (rng.binomial(decided, by_chance, _DRAWS) + tied.sum()) / len(numbers)
            expected += (decided * by_chance + tied.sum()) / len(numbers)
            reached += values[numbers].mean()
        # Sums of the same numbers in another order may differ in their last digit.
        as_far = int((np.abs(drawn - expected) >= abs(reached - expected) - 1e-9).sum())
        return Against(chance, (1 + as_far) / (1 + _DRAWS))

    @cached_property
    def _values(self) -> dict[tuple[str, ...], Float[np.ndarray, " item"]]:
        """What is averaged: the verdicts of every speaker, and by how much the model's are better."""
        found: dict[tuple[str, ...], np.ndarray] = {}
        for speaker, verdicts in self.verdicts.items():
            for score in SCORES:
                found[speaker, score] = verdicts.value[score]
                found[speaker, score, "less"] = self.verdicts[self.model].value[score] - verdicts.value[score]
        return found

    @cached_property
    def _by_paradigm(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Of each paradigm the means [column], and the means of resampled items [sample, column]."""
        return list(self._each_paradigm())

    def _each_paradigm(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        values = np.column_stack(list(self._values.values()))
        there = np.isfinite(values)
        held = np.where(there, values, 0)
        for numbers in self.paradigms.values():
            keys = [self.items[int(number)].item for number in numbers]
            weights = np.stack([weights_of(key, samples=self.samples, seed=self.seed) for key in keys], axis=1)
            with np.errstate(invalid="ignore"):
                means = held[numbers].sum(0) / there[numbers].sum(0)
                yield means, weights @ held[numbers] / (weights @ there[numbers])

    def _over(self, group: Group, column: tuple[str, ...]) -> Accuracy:
        at = list(self._values).index(column)
        means = np.array([self._by_paradigm[member][0][at] for member in group.members])
        draws = np.stack([self._by_paradigm[member][1][:, at] for member in group.members])
        # A paradigm of which a sample has no item does not count in that sample.
        there = np.isfinite(draws)
        with np.errstate(invalid="ignore"):
            drawn = np.where(there, draws, 0).sum(0) / there.sum(0)
        return Accuracy(
            float(means[np.isfinite(means)].mean()) if np.isfinite(means).any() else np.nan, *interval(drawn)
        )


def _rng(key: str) -> np.random.Generator:
    """Random numbers that follow from the key alone, so that the order of paradigms changes nothing."""
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def corrected(tests: Sequence[Against]) -> list[float]:
    """Holm's correction of tests that belong together; a test without a p has none."""
    return holm([each.p for each in tests]).tolist()


def exact_interval(right: int, count: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval of a share: where all items came out alike, resampling them shows no spread.

    Example:
        >>> [round(end, 3) for end in exact_interval(100, 100)]
        [0.964, 1.0]
    """
    low = 0.0 if right == 0 else float(beta.ppf(0.025, right, count - right + 1))
    high = 1.0 if right == count else float(beta.ppf(0.975, right + 1, count - right))
    return low, high


def _one(names: Iterable[str]) -> str:
    """The name that all have; `all` if they differ."""
    found = list(dict.fromkeys(names))
    return found[0] if len(found) == 1 else ALL
