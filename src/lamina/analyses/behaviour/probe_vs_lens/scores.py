"""Scores of probe and lens by layer, the first layer of each, and words that only one of them gets right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from lamina.analyses.behaviour.probe_vs_lens.answers import LayerAnswers, Of, TaskAnswers
from lamina.analyses.behaviour.probe_vs_lens.tasks import RELATION
from lamina.stats.best import BestSet, best_set
from lamina.stats.family import Contrasts, bootstrap_family, sign_flip_family
from lamina.stats.intervals import interval
from lamina.stats.status import SURE
from lamina.stats.units import Units

REACHED = 0.95
"""Share of the best gain over the baseline at which something counts as reached."""
MEASURES = ("accuracy", "probability")
WAYS: tuple[Of, Of] = ("probe", "lens")
NOT_ABOVE = "not above the baseline"
LATER = "later"
"""In place of a way: from probe to lens."""
_EXAMPLES = 8
"""Words of each kind that are shown, per task and layer."""
Row = tuple[Any, ...]


class LayerCurve(NamedTuple):
    """A measure by layer, and the same over resampled documents."""

    value: Float[np.ndarray, " layer"]
    draws: Float[np.ndarray, "sample layer"]

    def interval(self, layer: int) -> tuple[float, float]:
        """95 %."""
        return interval(self.draws[:, layer])

    def minus(self, other: LayerCurve) -> LayerCurve:
        """The difference, over the same documents."""
        return LayerCurve(self.value - other.value, self.draws - other.draws)


class FirstLayer(NamedTuple):
    """The first layer at which something is reached."""

    layer: float
    draws: Float[np.ndarray, " sample"]
    best: int
    """The layer with the highest value."""
    reason: str = ""
    """Why there is no such layer, or which layers have no probe."""
    place: float = np.nan
    """Where between two layers it is reached, by interpolation: whole layers hardly move from sample to sample."""
    places: Float[np.ndarray, " sample"] | None = None
    """The same of every sample."""


class ResampledWords:
    """Means over words, whose documents are drawn again and again."""

    def __init__(self, answers: TaskAnswers, *, samples: int, seed: int) -> None:
        names = [answers.items.items[word.passage].document for word in answers.words]
        self.kind = "pattern" if answers.task == RELATION else "document"
        if len(set(names)) == 1:
            # One document cannot be resampled: its texts are.
            names = [answers.items.passages[word.passage].id for word in answers.words]
            self.kind = "text"
        self.units = Units.of(names, "document")
        self._weights = self.units.weights(samples=samples, seed=seed).astype(float)
        self.sizes = self.units.sums(np.ones(len(names)))
        """Words of each unit."""

    def curve(self, values: Float[np.ndarray, "word layer"]) -> LayerCurve:
        """The mean of each column."""
        sums = self.units.sums(values)
        size = self._weights @ self.sizes
        draws = np.divide(
            self._weights @ sums,
            size[:, None],
            out=np.full((len(size), sums.shape[1]), np.nan),
            where=size[:, None] > 0,
        )
        return LayerCurve(values.mean(0), draws)


class TaskScores:
    """The scores of one task."""

    def __init__(self, task_answers: TaskAnswers, *, samples: int, seed: int) -> None:
        self.answers = task_answers
        self._resampled = ResampledWords(task_answers, samples=samples, seed=seed)
        self.units = len(self._resampled.units)
        """Documents, or patterns, that vary ..."""
        self.unit = self._resampled.kind
        """... and what they are."""
        prior = task_answers.vocabulary.prior
        least = {
            "accuracy": (task_answers.gold == prior.argmax()).astype(float),
            "probability": prior[task_answers.gold],
        }
        self.baselines = {measure: self._resampled.curve(values[:, None]) for measure, values in least.items()}
        """What the most frequent class in training gets, and the share of each class there."""
        self.tests = {measure: self._above(measure, values) for measure, values in least.items()}
        """Measure -> [way, layer] how far each layer is above that."""
        self.curves = {
            (*key, measure): self._resampled.curve(_values(answers, task_answers, measure))
            for key, answers in task_answers.answers.items()
            for measure in MEASURES
        }

    def _above(self, measure: str, least: Float[np.ndarray, " word"]) -> Contrasts:
        values = np.stack([_values(self.answers.answers["model", of], self.answers, measure) for of in WAYS], axis=1)
        return gains(self._resampled.units.sums(values - least[:, None, None]), self._resampled.sizes)

    def best(self, of: Of, measure: str) -> BestSet:
        """The layers that can be the best."""
        curve = self.curves["model", of, measure]
        return best_set(curve.value, curve.draws, self.units)

    def rows(self, lens: str) -> Iterator[Row]:
        """Of the table `scores`."""
        for (model, of, measure), curve in self.curves.items():
            yield from self._rows(of, model, lens if of == "lens" and model == "model" else "plain", measure, curve)
        for measure in MEASURES:
            gap = self.curves["model", "probe", measure].minus(self.curves["model", "lens", measure])
            yield from self._rows("gap", "model", lens, measure, gap)
        coverage = self.answers.answers["model", "lens"].mass
        if coverage is not None:
            yield from self._rows("lens", "model", lens, "coverage", self._resampled.curve(coverage))

    def _rows(self, of: str, model: str, lens: str, measure: str, curve: LayerCurve) -> Iterator[Row]:
        least = float(self.baselines[measure].value[0]) if measure in self.baselines and of != "gap" else np.nan
        used = lens if of in ("lens", "gap") else ""
        best = None
        if model == "model" and of != "gap" and measure in MEASURES:
            best = best_set(curve.value, curve.draws, self.units)
        for layer, value in enumerate(curve.value.tolist()):
            low, high = curve.interval(layer)
            among = (np.nan, "") if best is None else (best.p[layer], _yes(best.among[layer]))
            where = (
                self.answers.task,
                of,
                model,
                used,
                layer,
                measure,
                value,
                low,
                high,
                least,
                len(self.answers.gold),
            )
            yield *where, *among

    def layers(self, measure: str, later: Sequence[float]) -> Iterator[Row]:
        """Of the table `layers`: the first layers of probe and lens, and the test of the distance between them."""
        least = self.baselines[measure]
        probe, lens = (self.first(of, measure) for of in WAYS)
        for way, (of, first_layer) in enumerate(zip(WAYS, (probe, lens), strict=True)):
            curve = self.curves["model", of, measure]
            best = (first_layer.best, float(curve.value[first_layer.best]), *curve.interval(first_layer.best))
            test = [float(values[way, first_layer.best]) for values in self.tests[measure]]
            where = (self.answers.task, measure, of, first_layer.layer, *_whole(interval(first_layer.draws)))
            yield *where, *best, float(least.value[0]), *test, self.unit, first_layer.reason
        reason = "; ".join(
            f"{of}: {way_layer.reason}" for of, way_layer in zip(WAYS, (probe, lens), strict=True) if way_layer.reason
        )
        between = (lens.layer - probe.layer, *_whole(interval(lens.draws - probe.draws)))
        yield self.answers.task, measure, LATER, *between, *[np.nan] * 5, *later, self.unit, reason

    def later(self, measure: str) -> tuple[float, Float[np.ndarray, " sample"]]:
        """Layers from probe to lens, interpolated between layers; and in every sample."""
        probe, lens = (self.first(of, measure) for of in WAYS)
        if probe.places is None or lens.places is None:
            return np.nan, np.full(len(probe.draws), np.nan)
        return lens.place - probe.place, lens.places - probe.places

    def first(self, of: Of, measure: str) -> FirstLayer:
        """The first layer of the probe, or of the lens."""
        curve = self.curves["model", of, measure]
        best = int(np.where(np.isnan(curve.value), -np.inf, curve.value).argmax())
        p = self.tests[measure].p[WAYS.index(of), best]
        return first(curve, self.baselines[measure], sure=bool(p < SURE))

    def joint(self) -> Iterator[Row]:
        """Of the table `joint`: shares of words that probe, lens, both or neither get right at the same layer."""
        probe, lens = (self._right(of) for of in WAYS)
        for yes, by_lens in ((True, True), (True, False), (False, True), (False, False)):
            curve = self._resampled.curve(np.where(np.isnan(probe), np.nan, (probe == yes) & (lens == by_lens)))
            for layer, value in enumerate(curve.value.tolist()):
                yield self.answers.task, layer, _yes(yes), _yes(by_lens), value, *curve.interval(layer)

    def _right(self, of: Of) -> np.ndarray:
        return _values(self.answers.answers["model", of], self.answers, "accuracy")

    def examples(self, piece: Callable[[int], str]) -> Iterator[Row]:
        """Of the table `examples`: the widest gaps at the probe's first layer, and at the last layer."""
        probe, lens = (self.answers.answers["model", of] for of in WAYS)
        by_probe, by_lens = (self._right(of) == 1 for of in WAYS)
        first_of_probe = self.first("probe", "probability").layer
        layers = {probe.label.shape[1] - 1} | (set() if np.isnan(first_of_probe) else {int(first_of_probe)})
        for layer in sorted(layers):
            gap = probe.gold[:, layer] - lens.gold[:, layer]
            kinds = (
                ("probe, not lens", by_probe & ~by_lens, -gap),
                ("lens, not probe", by_lens & ~by_probe, gap),
            )
            for kind, which, order in kinds:
                words = np.flatnonzero(which[:, layer] & (probe.label[:, layer] >= 0))
                for word in words[np.argsort(order[words], kind="stable")][:_EXAMPLES]:
                    yield self.answers.task, layer, kind, *self._example(int(word), layer, piece)

    def _example(self, number: int, layer: int, piece: Callable[[int], str]) -> Row:
        answers, labels = self.answers, self.answers.vocabulary.labels
        probe, lens = (answers.answers["model", of] for of in WAYS)
        sentence, word = answers.items.sentence(answers.words[number])
        item, gold = answers.items.item_of(answers.words[number]), labels[answers.gold[number]]
        by_probe = labels[probe.label[number, layer]], float(probe.gold[number, layer])
        by_lens = labels[lens.label[number, layer]], float(lens.gold[number, layer])
        top = "" if lens.top is None else piece(int(lens.top[number, layer]))
        return item, sentence, word, gold, *by_probe, *by_lens, top

    def items(self) -> Iterator[Row]:
        """Of the table `items`: one row per word, at the last layer."""
        probe, lens = (self.answers.answers["model", of] for of in WAYS)
        labels = (*self.answers.vocabulary.labels, "")
        for number, (word, gold) in enumerate(zip(self.answers.words, self.answers.gold.tolist(), strict=True)):
            key = f"{self.answers.task}/{self.answers.items.item_of(word)}"
            right = float(lens.label[number, -1] == gold)
            predicted = labels[probe.label[number, -1]], labels[lens.label[number, -1]]
            yield key, self.answers.task, right, labels[gold], *predicted, probe.gold[number, -1], lens.gold[number, -1]


def layer_rows(scores: Sequence[TaskScores]) -> Iterator[Row]:
    """Of the table `layers`, task by task; how much later is tested for all tasks together."""
    tests = {}
    for measure in MEASURES:
        estimates, draws = zip(*(task.later(measure) for task in scores), strict=True)
        family = later_family(np.array(estimates), np.column_stack(draws), np.array([task.units for task in scores]))
        tests[measure] = [np.ravel(values).tolist() for values in family]
    for number, task in enumerate(scores):
        for measure in MEASURES:
            yield from task.layers(measure, [column[number] for column in tests[measure]])


def later_family(
    later: Float[np.ndarray, " task"], draws: Float[np.ndarray, "sample task"], units: np.ndarray
) -> Contrasts:
    """Layers from probe to lens, of all tasks."""
    return bootstrap_family(later, draws, units.astype(float))


def gains(sums: Float[np.ndarray, "unit way layer"], words: Float[np.ndarray, " unit"]) -> Contrasts:
    """How far probe and lens are above the baseline, by layer: one family, one-sided; signs of units are flipped.

    Args:
        sums: of the differences from the baseline over the words of a unit; NaN at layers without a probe.
        words: of each unit.
    """
    there = np.isfinite(sums)
    counts = np.where(there, words[:, None, None], 0)
    return sign_flip_family(np.where(there, sums, 0), counts, alternative="greater", bounds=(-1.0, 1.0))


def first(curve: LayerCurve, least: LayerCurve, *, sure: bool) -> FirstLayer:
    """The first layer that has `REACHED` of the best layer's gain over a baseline, whose curve has one column.

    There is none where the best layer is not clearly above the baseline (`sure`).

    Example:
        >>> by_layer = LayerCurve(np.array([0.5, 0.78, 0.8]), np.array([[0.5, 0.70, 0.8], [0.5, 0.79, 0.8]]))
        >>> found = first(by_layer, LayerCurve(np.array([0.4]), np.array([[0.4], [0.4]])), sure=True)
        >>> found.layer, found.draws.tolist(), found.best, round(found.place, 2)
        (1.0, [2.0, 1.0], 2, 1.0)
    """
    values = np.where(np.isnan(curve.value), -np.inf, curve.value)
    best = int(values.argmax())
    nothing = np.full(len(curve.draws), np.nan)
    if not np.isfinite(values[best]):
        return FirstLayer(np.nan, nothing, best, "no probe has converged")
    if not sure:
        return FirstLayer(np.nan, nothing, best, NOT_ABOVE)
    missing = int(np.isnan(curve.value).sum())
    reason = f"{missing} layers n/a (not converged)" if missing else ""
    layer, place = _reached(curve.value[None], least.value)
    layers, places = _reached(curve.draws, least.draws[:, 0])
    return FirstLayer(float(layer[0]), layers, best, reason, float(place[0]), places)


def _reached(
    curves: Float[np.ndarray, "sample layer"], least: Float[np.ndarray, " sample"]
) -> tuple[Float[np.ndarray, " sample"], Float[np.ndarray, " sample"]]:
    """The first layer with enough of the best gain; and the place between it and the layer before with just so much.

    Example:
        >>> _reached(np.array([[0.0, 0.5, 1.0]]), np.zeros(1))
        (array([2.]), array([1.9]))
    """
    gains = np.where(np.isnan(curves), -np.inf, curves - least[:, None])
    level = REACHED * gains.max(1)
    layer = (gains >= level[:, None] - 1e-12).argmax(1)
    rows = np.arange(len(gains))
    reached, before = gains[rows, layer], gains[rows, np.maximum(layer - 1, 0)]
    between = (layer > 0) & np.isfinite(before) & (reached > before)
    part = np.divide(level - before, reached - before, out=np.ones(len(gains)), where=between)
    return layer.astype(float), np.where(between, layer - 1 + part, layer)


def _values(answers: LayerAnswers, task: TaskAnswers, measure: str) -> Float[np.ndarray, "word layer"]:
    if measure == "probability":
        return answers.gold
    return np.where(answers.label < 0, np.nan, answers.label == task.gold[:, None])


def _whole(ends: tuple[float, float]) -> tuple[float, float]:
    """An interval of layers, widened to whole ones."""
    return float(np.floor(ends[0])), float(np.ceil(ends[1]))


def _yes(condition: bool) -> str:
    return "yes" if condition else "no"
