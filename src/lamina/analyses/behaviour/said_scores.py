"""By layer: how much is known and said, where each is first reached, and what is known but not said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from lamina.analyses.behaviour.said_answers import Answers, Asked, Of
from lamina.stats.units import weights_of

REACHED = 0.95
"""Share of the best gain over the baseline at which something counts as reached."""
MEASURES = ("accuracy", "probability")
WAYS: tuple[Of, Of] = ("known", "said")
NOT_ABOVE = "not above the baseline"
_EXAMPLES = 8
"""Words of each kind that are shown, per task and layer."""
Row = tuple[Any, ...]


class Curve(NamedTuple):
    """A measure by layer, and the same over resampled documents."""

    value: Float[np.ndarray, " layer"]
    draws: Float[np.ndarray, "sample layer"]

    def interval(self, layer: int) -> tuple[float, float]:
        """95 %."""
        return _interval(self.draws[:, layer])

    def minus(self, other: Curve) -> Curve:
        """The difference, over the same documents."""
        return Curve(self.value - other.value, self.draws - other.draws)


class First(NamedTuple):
    """The first layer at which something is reached."""

    layer: float
    draws: Float[np.ndarray, " sample"]
    best: int
    """The layer with the highest value."""
    reason: str = ""
    """Why there is no such layer, or which could not be looked at."""


class Resampled:
    """Means over words, whose documents are drawn again and again."""

    def __init__(self, asked: Asked, *, samples: int, seed: int) -> None:
        documents = [asked.items.items[word.passage].document for word in asked.words]
        names, self._unit = np.unique(documents, return_inverse=True)
        if len(names) == 1:
            # One document cannot be resampled: its texts are.
            texts = [asked.items.passages[word.passage].id for word in asked.words]
            names, self._unit = np.unique(texts, return_inverse=True)
        self._weights = np.stack([weights_of(str(name), samples=samples, seed=seed) for name in names], 1).astype(float)
        self._sizes = np.bincount(self._unit).astype(float)

    def curve(self, values: Float[np.ndarray, "word layer"]) -> Curve:
        """The mean of each column."""
        sums = np.zeros((len(self._sizes), values.shape[1]))
        np.add.at(sums, self._unit, values)
        size = self._weights @ self._sizes
        draws = np.divide(
            self._weights @ sums,
            size[:, None],
            out=np.full((len(size), sums.shape[1]), np.nan),
            where=size[:, None] > 0,
        )
        return Curve(values.mean(0), draws)


class TaskScores:
    """Everything that is told of one task."""

    def __init__(self, asked: Asked, *, samples: int, seed: int) -> None:
        self.asked = asked
        self._resampled = Resampled(asked, samples=samples, seed=seed)
        prior = asked.vocabulary.prior
        least = {"accuracy": (asked.gold == prior.argmax()).astype(float), "probability": prior[asked.gold]}
        self.baselines = {measure: self._resampled.curve(each[:, None]) for measure, each in least.items()}
        """What the most frequent class in training gets, and the share of each class there."""
        self.curves = {
            (*key, measure): self._resampled.curve(_values(answers, asked, measure))
            for key, answers in asked.answers.items()
            for measure in MEASURES
        }

    def rows(self, lens: str) -> Iterator[Row]:
        """Of the table `said`."""
        for (model, of, measure), curve in self.curves.items():
            yield from self._rows(of, model, lens if of == "said" and model == "model" else "plain", measure, curve)
        for measure in MEASURES:
            gap = self.curves["model", "known", measure].minus(self.curves["model", "said", measure])
            yield from self._rows("gap", "model", lens, measure, gap)
        coverage = self.asked.answers["model", "said"].mass
        if coverage is not None:
            yield from self._rows("said", "model", lens, "coverage", self._resampled.curve(coverage))

    def _rows(self, of: str, model: str, lens: str, measure: str, curve: Curve) -> Iterator[Row]:
        least = float(self.baselines[measure].value[0]) if measure in self.baselines and of != "gap" else np.nan
        used = lens if of in ("said", "gap") else ""
        for layer, value in enumerate(curve.value.tolist()):
            low, high = curve.interval(layer)
            yield self.asked.task, of, model, used, layer, measure, value, low, high, least, len(self.asked.gold)

    def layers(self) -> Iterator[Row]:
        """Of the table `layers`: where it is first known and first said, and how much later."""
        for measure in MEASURES:
            least = self.baselines[measure]
            known, said = (self.first(of, measure) for of in WAYS)
            for of, each in zip(WAYS, (known, said), strict=True):
                curve = self.curves["model", of, measure]
                best = (each.best, float(curve.value[each.best]), *curve.interval(each.best))
                ends = _whole(_interval(each.draws))
                yield self.asked.task, measure, of, each.layer, *ends, *best, float(least.value[0]), each.reason
            reason = "; ".join(
                f"{of}: {each.reason}" for of, each in zip(WAYS, (known, said), strict=True) if each.reason
            )
            between = (said.layer - known.layer, *_whole(_interval(said.draws - known.draws)))
            yield self.asked.task, measure, "later", *between, np.nan, np.nan, np.nan, np.nan, np.nan, reason

    def first(self, of: Of, measure: str) -> First:
        """The first layer at which it is known, or said."""
        return first(self.curves["model", of, measure], self.baselines[measure])

    def joint(self) -> Iterator[Row]:
        """Of the table `joint`: shares of words that are known or said, both or neither, at the same layer."""
        known, said = (self._right(of) for of in WAYS)
        for yes, told in ((True, True), (True, False), (False, True), (False, False)):
            curve = self._resampled.curve(np.where(np.isnan(known), np.nan, (known == yes) & (said == told)))
            for layer, value in enumerate(curve.value.tolist()):
                yield self.asked.task, layer, _yes(yes), _yes(told), value, *curve.interval(layer)

    def _right(self, of: Of) -> np.ndarray:
        return _values(self.asked.answers["model", of], self.asked, "accuracy")

    def examples(self, piece: Callable[[int], str]) -> Iterator[Row]:
        """Of the table `examples`: the widest gaps where it is first known, and at the last layer."""
        known, said = (self.asked.answers["model", of] for of in WAYS)
        by_probe, by_lens = (self._right(of) == 1 for of in WAYS)
        at = self.first("known", "probability").layer
        layers = {known.label.shape[1] - 1} | (set() if np.isnan(at) else {int(at)})
        for layer in sorted(layers):
            gap = known.gold[:, layer] - said.gold[:, layer]
            kinds = (
                ("known, not said", by_probe & ~by_lens, -gap),
                ("said, not known", by_lens & ~by_probe, gap),
            )
            for kind, which, order in kinds:
                found = np.flatnonzero(which[:, layer] & (known.label[:, layer] >= 0))
                for word in found[np.argsort(order[found], kind="stable")][:_EXAMPLES]:
                    yield self.asked.task, layer, kind, *self._example(int(word), layer, piece)

    def _example(self, number: int, layer: int, piece: Callable[[int], str]) -> Row:
        asked, labels = self.asked, self.asked.vocabulary.labels
        known, said = (asked.answers["model", of] for of in WAYS)
        sentence, word = asked.items.sentence(asked.words[number])
        item, gold = asked.items.item_of(asked.words[number]), labels[asked.gold[number]]
        by_probe = labels[known.label[number, layer]], float(known.gold[number, layer])
        by_lens = labels[said.label[number, layer]], float(said.gold[number, layer])
        top = "" if said.top is None else piece(int(said.top[number, layer]))
        return item, sentence, word, gold, *by_probe, *by_lens, top

    def items(self) -> Iterator[Row]:
        """Of the table `items`: one row per word, at the last layer."""
        known, said = (self.asked.answers["model", of] for of in WAYS)
        labels = (*self.asked.vocabulary.labels, "")
        for number, (word, gold) in enumerate(zip(self.asked.words, self.asked.gold.tolist(), strict=True)):
            key = f"{self.asked.task}/{self.asked.items.item_of(word)}"
            right = float(said.label[number, -1] == gold)
            told = labels[known.label[number, -1]], labels[said.label[number, -1]]
            yield key, self.asked.task, right, labels[gold], *told, known.gold[number, -1], said.gold[number, -1]


def first(curve: Curve, least: Curve) -> First:
    """The first layer that has `REACHED` of the best layer's gain over a baseline, whose curve has one column.

    There is none where the best layer is not clearly above the baseline.

    Example:
        >>> by_layer = Curve(np.array([0.5, 0.78, 0.8]), np.array([[0.5, 0.70, 0.8], [0.5, 0.79, 0.8]]))
        >>> first(by_layer, Curve(np.array([0.4]), np.array([[0.4], [0.4]])))
        First(layer=1.0, draws=array([2., 1.]), best=2, reason='')
    """
    values = np.where(np.isnan(curve.value), -np.inf, curve.value)
    best = int(values.argmax())
    nothing = np.full(len(curve.draws), np.nan)
    if not np.isfinite(values[best]):
        return First(np.nan, nothing, best, "no probe has converged")
    low, _ = _interval(curve.draws[:, best] - least.draws[:, 0])
    if not low > 0:
        return First(np.nan, nothing, best, NOT_ABOVE)
    missing = int(np.isnan(curve.value).sum())
    reason = f"{missing} layers n/a (not converged)" if missing else ""
    layer = float(_reached(curve.value[None], least.value)[0])
    return First(layer, _reached(curve.draws, least.draws[:, 0]), best, reason)


def _reached(curves: Float[np.ndarray, "sample layer"], least: Float[np.ndarray, " sample"]) -> np.ndarray:
    gains = np.where(np.isnan(curves), -np.inf, curves - least[:, None])
    return (gains >= REACHED * gains.max(1, keepdims=True) - 1e-12).argmax(1).astype(float)


def _values(answers: Answers, asked: Asked, measure: str) -> Float[np.ndarray, "word layer"]:
    if measure == "probability":
        return answers.gold
    return np.where(answers.label < 0, np.nan, answers.label == asked.gold[:, None])


def _interval(draws: Float[np.ndarray, " sample"]) -> tuple[float, float]:
    drawn = draws[np.isfinite(draws)]
    if not len(drawn):
        return np.nan, np.nan
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def _whole(ends: tuple[float, float]) -> tuple[float, float]:
    """An interval of layers, widened to whole ones."""
    return float(np.floor(ends[0])), float(np.ceil(ends[1]))


def _yes(told: bool) -> str:
    return "yes" if told else "no"
