"""Rows of tables: shares with intervals over documents, and paired differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Real

from lamina.analyses.legacy import paired_difference
from lamina.analyses.word_senses.targets import SenseTargets
from lamina.stats.best import cross_fit
from lamina.stats.family import holm
from lamina.stats.intervals import ratio_intervals as intervals
from lamina.stats.units import halve, weights_of

SENSES = ("layer", "measure", "value", "low", "high", "baseline")
DIFFERENCES = ("layer", "measure", "against", "difference", "low", "high", "p_adjusted")
CHOSEN = "chosen"
"""The layer that is best on other documents."""
MOST_FREQUENT, LAYER_0, TWIN = "most_frequent", "layer_0", "twin"
"""What the model is compared with, beside static vectors by their names."""
LEAST_WORDS = 5
"""Fewer words cannot tell how words vary."""
Interval = tuple[float, float, float]


class Row(NamedTuple):
    """One row of senses.csv."""

    layer: int | None
    measure: str
    value: float
    low: float
    high: float
    baseline: float


class Units:
    """What is resampled: documents (or texts, or words), by the keys of the things that are counted."""

    def __init__(self, keys: Sequence[str], *, samples: int, seed: int) -> None:
        self.names, self.of = np.unique(np.array(keys, dtype=object).astype(str), return_inverse=True)
        drawn = [weights_of(str(name), samples=samples, seed=seed) for name in self.names]
        self._weights = np.stack(drawn, 1) if drawn else np.zeros((samples, 0), np.float32)

    def sums(self, values: Real[np.ndarray, " thing"]) -> Float[np.ndarray, " unit"]:
        """Over the things of each unit."""
        return np.bincount(self.of, np.asarray(values, float), len(self.names))

    def ratio(self, top: Real[np.ndarray, " thing"], bottom: Real[np.ndarray, " thing"]) -> Interval:
        """The ratio of two sums with its 95 % interval; NaN where there is nothing below."""
        return self.ratio_of_sums(self.sums(top), self.sums(bottom))

    def ratio_of_sums(self, top: Float[np.ndarray, " unit"], bottom: Float[np.ndarray, " unit"]) -> Interval:
        """The same of sums by unit."""
        if bottom.sum() <= 0:
            return float("nan"), float("nan"), float("nan")
        low, high = intervals(self._weights @ top, self._weights @ bottom)
        return float(top.sum() / bottom.sum()), float(low), float(high)


class Scores:
    """Which scored targets each system gets right."""

    def __init__(self, data: SenseTargets, *, samples: int, seed: int) -> None:
        self.data = data
        keys = [data.units[number] for number in data.text[data.scored]]
        self.units = Units(keys, samples=samples, seed=seed)
        numbers = dict.fromkeys(data.text[data.scored].tolist())
        texts = [data.texts[number] for number in numbers]
        halves = halve(texts, seed)
        half = {data.units[number]: halves.of(text) for number, text in zip(numbers, texts, strict=True)}
        self._halves = np.array([half[str(name)] for name in self.units.names])
        self.most_frequent = data.right(data.most_frequent[data.word[data.scored]])
        constant = int(data.frequency.sum(0).argmax())
        self.constant = data.right(np.full(len(data.scored), constant))
        self.every = np.ones(len(data.scored), bool)

    def rows(self, layer: int | None, predicted: Mapping[str, np.ndarray], prefix: str = "") -> Iterator[Row]:
        """Two rows for what asks occurrences of the same word, one for what asks other words."""
        for name, each in predicted.items():
            right = self.data.right(each)
            if name.startswith("across"):
                yield Row(layer, f"{prefix}{name}.all", *self._share(right, self.every), self._mean(self.constant))
                continue
            for part, mask in (("ambiguous", self.data.ambiguous), ("all", self.every)):
                beside = self._mean(self.most_frequent, mask)
                yield Row(layer, f"{prefix}{name}.{part}", *self._share(right, mask), beside)

    def ambiguous(self, right: np.ndarray) -> Float[np.ndarray, " unit"]:
        """Right answers of ambiguous words, by document."""
        return self.units.sums(right & self.data.ambiguous)

    def chosen(self, by_layer: Sequence[np.ndarray]) -> tuple[int, Float[np.ndarray, " unit"]]:
        """The best layer, and right answers at the layer that the other half of the documents finds best."""
        found = cross_fit(np.stack([self.ambiguous(each) for each in by_layer], 1), self._halves)
        return found.system, found.hits

    def chosen_row(self, layer: int, hits: Float[np.ndarray, " unit"], prefix: str = "") -> Row:
        """The row of the chosen layer."""
        counts = self.units.sums(self.data.ambiguous)
        baseline = self._mean(self.most_frequent, self.data.ambiguous)
        return Row(layer, f"{prefix}{CHOSEN}.ambiguous", *self.units.ratio_of_sums(hits, counts), baseline)

    def differences(
        self, measure: str, own: Mapping[int | None, np.ndarray], others: Mapping[str, Mapping[int | None, np.ndarray]]
    ) -> Iterator[tuple]:
        """Right answers by document of each layer minus those of others; p corrected over layers (Holm)."""
        counts = self.units.sums(self.data.ambiguous)
        for against, theirs in others.items():
            layers = [layer for layer in own if layer in theirs]
            if not layers:
                continue
            gaps = np.stack([own[layer] - theirs[layer] for layer in layers], 1)
            found = paired_difference(gaps, counts)
            corrected = holm(np.atleast_1d(found.p))
            for at, layer in enumerate(layers):
                numbers = (float(each[at]) for each in (found.value, found.low, found.high, corrected))
                yield layer, measure, against, *numbers

    def _share(self, right: np.ndarray, mask: np.ndarray) -> Interval:
        return self.units.ratio(right & mask, mask)

    def _mean(self, right: np.ndarray, mask: np.ndarray | None = None) -> float:
        return float(right[mask].mean()) if mask is not None else float(right.mean())


def mean_over_words(
    words: Iterable[str], values: Float[np.ndarray, " word"], weights: Real[np.ndarray, " word"], *, samples: int,
    seed: int,
) -> Interval:  # fmt: skip
    """A weighted mean over words with an interval that resamples words; without one where there are fewer than 5.

    Example:
        >>> mean_over_words("ab", np.array([0.0, 1.0]), np.array([1, 1]), samples=100, seed=0)
        (0.5, nan, nan)
    """
    units = Units(list(words), samples=samples, seed=seed)
    value, low, high = units.ratio(values * weights, weights)
    return (value, low, high) if len(units.names) >= LEAST_WORDS else (value, float("nan"), float("nan"))
