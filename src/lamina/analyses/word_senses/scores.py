"""Rows of tables: shares with intervals over documents, and families of paired differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Real, Shaped

from lamina.analyses.word_senses.static import bag_of
from lamina.analyses.word_senses.targets import SenseTargets
from lamina.stats.best import best_set, cross_fit
from lamina.stats.bootstrap import ratio_draws
from lamina.stats.family import Contrasts, bootstrap_family, sign_flip_family
from lamina.stats.intervals import interval
from lamina.stats.status import LEAST_UNITS
from lamina.stats.units import CHOOSING, SCORED, UnitKind, Units, halve

SENSES = ("layer", "measure", "value", "low", "high", "baseline")
DIFFERENCES = (
    "layer", "measure", "against", "window", "family", "value", "baseline", "difference", "low", "high", "p_adjusted",
    "units", "needed",
)  # fmt: skip
BEST = ("measure", "layer", "value", "p_beaten", "among_best")
CHOSEN = "chosen"
"""The layer that is best on other documents."""
MOST_FREQUENT, SCORED_MAJORITY, LAYER_0, TWIN = "most_frequent", "scored_majority", "layer_0", "twin"
"""What the model is compared with, beside static vectors by their names."""
CONSTANTS, BAGS = "constant answers", "bags of words"
"""Families of comparisons of the chosen layer: with the same answer always, and with static vectors."""
Interval = tuple[float, float, float]


class Row(NamedTuple):
    """One row of senses.csv."""

    layer: int | None
    measure: str
    value: float
    low: float
    high: float
    baseline: float


@dataclass(frozen=True)
class Resampled:
    """Units and how often each bootstrap sample draws them."""

    units: Units
    samples: int
    seed: int

    @classmethod
    def of(cls, names: Iterable[str], kind: UnitKind, *, samples: int, seed: int) -> Resampled:
        """By the unit's name of each thing that is counted."""
        return cls(Units.of(names, kind), samples, seed)

    def ratio(self, top: Shaped[np.ndarray, " thing"], bottom: Shaped[np.ndarray, " thing"]) -> Interval:
        """The ratio of two sums with its 95 % interval; NaN where there is nothing below."""
        return self.ratio_of_sums(*(self.units.sums(np.asarray(side, float)) for side in (top, bottom)))

    def ratio_of_sums(self, top: Float[np.ndarray, " unit"], bottom: Float[np.ndarray, " unit"]) -> Interval:
        """The same of sums by unit."""
        if bottom.sum() <= 0:
            return float("nan"), float("nan"), float("nan")
        return float(top.sum() / bottom.sum()), *interval(self.draws(top, bottom))

    def draws(
        self, top: Float[np.ndarray, " unit *kinds"], bottom: Float[np.ndarray, " unit *counted"]
    ) -> Float[np.ndarray, " sample *kinds"]:
        """Bootstrap draws of the ratio of sums by unit."""
        return ratio_draws(top, bottom, self.units, samples=self.samples, seed=self.seed)


class Pair(NamedTuple):
    """Two systems on the same targets: right answers by unit."""

    layer: int | None
    against: str
    own: Float[np.ndarray, " unit"]
    theirs: Float[np.ndarray, " unit"]


def paired_rows(
    measure: str, family: str, pairs: Sequence[Pair], counts: Float[np.ndarray, " unit"]
) -> Iterator[tuple]:
    """One family of paired differences by sign flips of whole units: rows of differences.csv.

    Example:
        >>> own, theirs = np.array([3.0, 4, 2, 4, 3, 4]), np.array([1.0, 2, 1, 1, 2, 2])
        >>> (row,) = paired_rows("knn5.ambiguous", "layers", [Pair(1, "twin", own, theirs)], np.full(6, 4.0))
        >>> [round(each, 3) for each in row[5:8]], round(row[10], 3)
        ([0.833, 0.375, 0.458], 0.031)
    """
    if not pairs or counts.sum() <= 0:
        return
    tests = sign_flip_family(np.stack([pair.own - pair.theirs for pair in pairs], 1), counts, bounds=(-1.0, 1.0))
    values = [(pair.own.sum() / counts.sum(), pair.theirs.sum() / counts.sum()) for pair in pairs]
    yield from difference_rows(measure, family, [(pair.layer, pair.against) for pair in pairs], values, tests)


def drawn_rows(
    measure: str,
    against: str,
    values: Float[np.ndarray, "layer 2"],
    draws: Float[np.ndarray, "sample layer"],
    units: int,
) -> Iterator[tuple]:
    """Every layer of a measure minus what it is compared with, one family by bootstrap: rows of differences.csv.

    Args:
        measure: its name.
        against: what is subtracted.
        values: of the measure, and of what is subtracted.
        draws: of the difference.
        units: how many are resampled.
    """
    tests = bootstrap_family(values[:, 0] - values[:, 1], draws, units, bounds=(-2.0, 2.0))
    yield from difference_rows(
        measure, f"{against}, layers", [(layer, against) for layer in range(len(values))], values, tests
    )


def difference_rows(
    measure: str,
    family: str,
    members: Sequence[tuple[int | None, str]],
    values: Iterable[Sequence[float]],
    tests: Contrasts,
) -> Iterator[tuple]:
    """Rows of differences.csv; `members` are layers and what they are compared with, `values` both sides' scores."""
    for (layer, against), (value, baseline), *numbers in zip(members, values, *tests, strict=True):
        yield layer, measure, against, bag_of(against)[1], family, float(value), float(baseline), *map(float, numbers)


def best_rows(
    measure: str, values: Float[np.ndarray, " layer"], draws: Float[np.ndarray, "sample layer"], units: int
) -> Iterator[tuple]:
    """Which layers can be the best: rows of best.csv."""
    best_layers = best_set(values, draws, units)
    for layer, (value, p, among) in enumerate(zip(values, best_layers.p, best_layers.among, strict=True)):
        yield measure, layer, float(value), float(p), bool(among)


class Scores:
    """Which scored targets each system gets right."""

    def __init__(self, data: SenseTargets, *, samples: int, seed: int) -> None:
        self.data = data
        numbers = dict.fromkeys(data.text[data.scored].tolist())
        texts = [data.texts[number] for number in numbers]
        names = [data.units[number] for number in data.text[data.scored]]
        kind = "document" if len({text.doc for text in texts}) > 1 else "text"
        self.resampled = Resampled.of(names, kind, samples=samples, seed=seed)
        halves = halve(texts, seed)
        half = {data.units[number]: halves.of(text) for number, text in zip(numbers, texts, strict=True)}
        self._halves = np.array([half[name] for name in self.units.names])
        self.most_frequent = data.right(data.most_frequent[data.word[data.scored]])
        self.scored_majority = data.right(self._scored_majority())
        constant = int(data.frequency.sum(0).argmax())
        self.constant = data.right(np.full(len(data.scored), constant))
        self.every = np.ones(len(data.scored), bool)

    @property
    def units(self) -> Units:
        """Documents; texts where there is one document only."""
        return self.resampled.units

    @cached_property
    def counts(self) -> Float[np.ndarray, " unit"]:
        """Scored targets of ambiguous words."""
        return self.units.sums(self.data.ambiguous.astype(float))

    def _scored_majority(self) -> Int[np.ndarray, " scored"]:
        """Each word's best constant answer on the scored texts: for one half of the documents by the other half's.

        A word that the other half does not have keeps its most frequent sense in training; chosen on the same texts,
        the answer of a word that occurs once would always be right.
        """
        data = self.data
        words, halves = data.word[data.scored], self._halves[np.array(self.units.owner, int)]
        chosen = data.most_frequent[words].copy()
        total = max(1.0, float(data.frequency.sum(1).max()))
        for half in (CHOOSING, SCORED):
            inside, other = halves == half, halves != half
            right = np.zeros((len(data.words), len(data.labels)), np.float32)
            np.add.at(right, words[other], data.gold[data.scored[other]].astype(np.float32))
            known = right[words].sum(1) > 0
            # Ties are decided by how often the word has these senses in training.
            best = (right + 1e-3 * data.frequency / total).argmax(1)
            chosen[inside & known] = best[words[inside & known]]
        return chosen

    def rows(self, layer: int | None, predicted: Mapping[str, np.ndarray], prefix: str = "") -> Iterator[Row]:
        """Two rows for what asks occurrences of the same word, one for what asks other words."""
        for name, senses in predicted.items():
            right = self.data.right(senses)
            if name.startswith("across"):
                yield Row(layer, f"{prefix}{name}.all", *self._share(right, self.every), self._mean(self.constant))
                continue
            for part, mask in (("ambiguous", self.data.ambiguous), ("all", self.every)):
                beside = self._mean(self.most_frequent, mask)
                yield Row(layer, f"{prefix}{name}.{part}", *self._share(right, mask), beside)

    def constant_rows(self) -> Iterator[Row]:
        """What answering the same always gets right, of ambiguous words."""
        beside = self._mean(self.most_frequent, self.data.ambiguous)
        for name, right in ((MOST_FREQUENT, self.most_frequent), (SCORED_MAJORITY, self.scored_majority)):
            yield Row(None, f"{name}.ambiguous", *self._share(right, self.data.ambiguous), beside)

    def ambiguous(self, right: Bool[np.ndarray, " scored"]) -> Float[np.ndarray, " unit"]:
        """Right answers of ambiguous words, by document."""
        return self.units.sums((right & self.data.ambiguous).astype(float))

    def chosen(self, by_layer: Sequence[np.ndarray]) -> tuple[int, Float[np.ndarray, " unit"]]:
        """The best layer, and right answers at the layer that the other half of the documents finds best."""
        chosen = cross_fit(np.stack([self.ambiguous(right) for right in by_layer], 1), self._halves)
        return chosen.system, chosen.hits

    def chosen_row(self, layer: int, hits: Float[np.ndarray, " unit"], prefix: str = "") -> Row:
        """The row of the chosen layer."""
        baseline = self._mean(self.most_frequent, self.data.ambiguous)
        return Row(layer, f"{prefix}{CHOSEN}.ambiguous", *self.resampled.ratio_of_sums(hits, self.counts), baseline)

    def best(self, measure: str, by_layer: Sequence[np.ndarray]) -> Iterator[tuple]:
        """Which layers can be the best."""
        hits = np.stack([self.ambiguous(right) for right in by_layer], 1)
        draws = self.resampled.draws(hits, self.counts)
        yield from best_rows(measure, hits.sum(0) / self.counts.sum(), draws, int((self.counts > 0).sum()))

    def _share(self, right: np.ndarray, mask: np.ndarray) -> Interval:
        return self.resampled.ratio(right & mask, mask)

    def _mean(self, right: np.ndarray, mask: np.ndarray | None = None) -> float:
        return float(right[mask].mean()) if mask is not None else float(right.mean())


class WordMeans:
    """Means over words by layer, each word weighed; words are resampled."""

    def __init__(self, words: Sequence[str], weights: Real[np.ndarray, " word"], *, samples: int, seed: int) -> None:
        self.resampled = Resampled.of(words, "word type", samples=samples, seed=seed)
        self._weights = np.asarray(weights, float)

    def mean(self, values: Float[np.ndarray, " word"]) -> Interval:
        """A mean with its interval, which is missing where fewer than 6 words cannot tell how words vary.

        Example:
            >>> WordMeans("ab", np.array([1, 1]), samples=100, seed=0).mean(np.array([0.0, 1.0]))
            (0.5, nan, nan)
        """
        value, low, high = self.resampled.ratio(values * self._weights, self._weights)
        return (value, low, high) if len(self.resampled.units) >= LEAST_UNITS else (value, float("nan"), float("nan"))

    def by_layer(
        self, values: Float[np.ndarray, "word layer"]
    ) -> tuple[Float[np.ndarray, " layer"], Float[np.ndarray, "sample layer"]]:
        """Means and their draws."""
        sums, units = self.resampled.units.sums, self._weights
        top, bottom = sums(values * units[:, None]), sums(units)
        return top.sum(0) / bottom.sum(), self.resampled.draws(top, bottom)

    def __len__(self) -> int:
        return len(self.resampled.units)
