"""Accuracies of suites by paradigm, term and field: intervals over items, tests against chance, paired differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, Int

from lamina.analyses.behaviour.pairs.judging import SCORES, Score, Verdicts
from lamina.corpora.suites.minimal_pairs import ALL, UNNAMED
from lamina.stats.family import Contrasts, bootstrap_family, chance_family, sign_flip_family
from lamina.stats.intervals import interval, share_interval
from lamina.stats.units import weights_of

Level = Literal["paradigm", "term", "field", "all"]


class JudgedItem(Protocol):
    """What is right or wrong."""

    @property
    def item(self) -> str: ...
    @property
    def field(self) -> str: ...
    @property
    def term(self) -> str: ...
    @property
    def paradigm(self) -> str: ...


class ParadigmGroup(NamedTuple):
    """Paradigms that are averaged; each counts as much as any other."""

    level: Level
    name: str
    field: str
    term: str
    members: tuple[int, ...]
    """Numbers of the paradigms."""


class MeanAccuracy(NamedTuple):
    """A share of right items, averaged over paradigms."""

    value: float
    low: float
    """95 %, from items drawn with replacement within their paradigm."""
    high: float


@dataclass(frozen=True)
class Accuracies:
    """Verdicts of several models ("speakers") on the same items."""

    items: Sequence[JudgedItem]
    verdicts: Mapping[str, Verdicts]
    """Speaker -> its verdicts, the model's first, which has all; others have NaN for items that they did not score."""
    chances: Float[np.ndarray, " item"]
    samples: int
    seed: int

    @cached_property
    def paradigms(self) -> dict[str, Int[np.ndarray, " item"]]:
        """Name -> the numbers of its items."""
        numbers: dict[str, list[int]] = {}
        for number, item in enumerate(self.items):
            numbers.setdefault(item.paradigm, []).append(number)
        return {name: np.array(items) for name, items in numbers.items()}

    def groups(self, level: Level) -> list[ParadigmGroup]:
        """The paradigms, terms or fields in the order of the items; those without a name are no group."""
        first = [self.items[int(members[0])] for members in self.paradigms.values()]
        if level == "all":
            return [ParadigmGroup("all", ALL, ALL, ALL, tuple(range(len(first))))]
        named: dict[str, list[int]] = {}
        for number, item in enumerate(first):
            named.setdefault(getattr(item, level), []).append(number)
        return [
            ParadigmGroup(
                level,
                name,
                _one(first[member].field for member in members),
                _one(first[member].term for member in members),
                tuple(members),
            )
            for name, members in named.items()
            if name != UNNAMED
        ]

    @property
    def model(self) -> str:
        """The first speaker."""
        return next(iter(self.verdicts))

    def count(self, group: ParadigmGroup, speaker: str | None = None) -> int:
        """Its items that the speaker scored; by default the model."""
        answered = np.isfinite(self.verdicts[speaker or self.model].value["plain"])
        paradigms = list(self.paradigms.values())
        return sum(int(answered[paradigms[member]].sum()) for member in group.members)

    def accuracy(self, group: ParadigmGroup, speaker: str, score: Score) -> MeanAccuracy:
        """The mean over a group's paradigms."""
        estimate = self._over(group, (speaker, score))
        if estimate.low == estimate.high and estimate.value in (0, 1):
            count = self.count(group, speaker)
            return MeanAccuracy(estimate.value, *share_interval(round(estimate.value) * count, count))
        return estimate

    def chance(self, group: ParadigmGroup) -> float:
        """What chance gives, averaged over the group's paradigms; NaN where that is not known of one."""
        paradigms = list(self.paradigms.values())
        return float(np.mean([self.chances[paradigms[member]].mean() for member in group.members]))

    def against_chance(self, groups: Sequence[ParadigmGroup], score: Score) -> Contrasts:
        """Accuracy of the model minus chance, of groups that are one family; ties are left out."""
        values = self.verdicts[self.model].value[score]
        # By name, so that the order of paradigms changes nothing.
        names = sorted(self.paradigms)
        places = [names.index(name) for name in self.paradigms]
        paradigms = [self.paradigms[name] for name in names]
        right = np.array([int((values[numbers] == 1).sum()) for numbers in paradigms])
        counts = np.array([int(np.isin(values[numbers], (0, 1)).sum()) for numbers in paradigms])
        chances = np.array([self.chances[numbers].mean() for numbers in paradigms])
        members = [[places[member] for member in group.members] for group in groups]
        return chance_family(right, counts, chances, members, seed=self.seed)

    def differences(self, groups: Sequence[ParadigmGroup], other: str, score: Score) -> Contrasts:
        """How much more often the model is right than another speaker, of groups that are one family.

        Items that both scored are paired, and paradigms count alike: an item counts one over their number.
        """
        differences = self.verdicts[self.model].value[score] - self.verdicts[other].value[score]
        there = np.isfinite(differences)
        shares = np.zeros((len(differences), len(groups)))
        paradigms = [numbers[there[numbers]] for numbers in self.paradigms.values()]
        for column, group in enumerate(groups):
            members = [paradigms[member] for member in group.members if len(paradigms[member])]
            for numbers in members:
                shares[numbers, column] = 1 / len(numbers) / len(members)
        # By name, so that the order of items changes nothing.
        order = np.argsort([item.item for item in self.items], kind="stable")
        ahead = np.where(there, differences, 0)[:, None] * shares
        return sign_flip_family(ahead[order], shares[order], seed=self.seed, bounds=(-1.0, 1.0))

    def between(
        self, groups: Sequence[ParadigmGroup], score: Score
    ) -> tuple[list[tuple[ParadigmGroup, ParadigmGroup]], Contrasts]:
        """Every two groups, and by how much the model is right more often in the first; one family."""
        pairs = list(combinations(groups, 2))
        spreads = {group.name: self._spread(group, score) for group in groups}
        estimates = np.array([spreads[one.name][0] - spreads[other.name][0] for one, other in pairs])
        draws = np.stack([spreads[one.name][1] - spreads[other.name][1] for one, other in pairs], axis=1)
        units = np.array([float(self.count(one) + self.count(other)) for one, other in pairs])
        return pairs, bootstrap_family(estimates, draws, units, bounds=(-1.0, 1.0))

    def _spread(self, group: ParadigmGroup, score: Score) -> tuple[float, Float[np.ndarray, " sample"]]:
        """The mean over paradigms, and its draws. A bootstrap of n items varies too little, by (n - 1) / n."""
        column = list(self._values).index((self.model, score))
        means, draws = [], []
        for member in group.members:
            mean, drawn = (part[..., column] for part in self._by_paradigm[member])
            count = len(list(self.paradigms.values())[member])
            means.append(float(mean))
            drawn = np.where(np.isfinite(drawn), drawn, mean)
            draws.append(mean + (drawn - mean) * np.sqrt(count / max(count - 1, 1)))
        return float(np.mean(means)), np.mean(draws, axis=0)

    @cached_property
    def _values(self) -> dict[tuple[str, Score], Float[np.ndarray, " item"]]:
        """What is averaged: the verdicts of every speaker."""
        return {(speaker, score): given.value[score] for speaker, given in self.verdicts.items() for score in SCORES}

    @cached_property
    def _by_paradigm(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Of each paradigm the means [column], and the means of resampled items [sample, column]."""
        return list(self._each_paradigm())

    def _each_paradigm(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        values = np.column_stack(list(self._values.values()))
        there = np.isfinite(values)
        filled = np.where(there, values, 0)
        for numbers in self.paradigms.values():
            keys = [self.items[int(number)].item for number in numbers]
            weights = np.stack([weights_of(key, samples=self.samples, seed=self.seed) for key in keys], axis=1)
            with np.errstate(invalid="ignore"):
                means = filled[numbers].sum(0) / there[numbers].sum(0)
                yield means, weights @ filled[numbers] / (weights @ there[numbers])

    def _over(self, group: ParadigmGroup, column: tuple[str, Score]) -> MeanAccuracy:
        number = list(self._values).index(column)
        means = np.array([self._by_paradigm[member][0][number] for member in group.members])
        draws = np.stack([self._by_paradigm[member][1][:, number] for member in group.members])
        # A paradigm of which a sample has no item does not count in that sample.
        there = np.isfinite(draws)
        with np.errstate(invalid="ignore"):
            drawn = np.where(there, draws, 0).sum(0) / there.sum(0)
        return MeanAccuracy(
            float(means[np.isfinite(means)].mean()) if np.isfinite(means).any() else np.nan, *interval(drawn)
        )


def _one(names: Iterable[str]) -> str:
    """The name that all have; `all` if they differ."""
    distinct = list(dict.fromkeys(names))
    return distinct[0] if len(distinct) == 1 else ALL
