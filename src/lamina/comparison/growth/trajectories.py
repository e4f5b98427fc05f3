"""What an analysis measured at every checkpoint of a series, with the same bootstrap draws at all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lamina.comparison.measures import layer_draws, value_draws
from lamina.comparison.predictions import shared_items
from lamina.comparison.probes import sample_models, tasks_over
from lamina.comparison.similarity import GROUPS, CkaSums, jackknife_draws, leave_out
from lamina.comparison.tables import METRICS, ModelResults
from lamina.framework.declare import (
    Comparable,
    ComparedItems,
    ComparedLayers,
    ComparedTasks,
    ComparedValues,
)
from lamina.models.contract import SPECIAL, Encoder
from lamina.probes.edge import LayerCut
from lamina.results import Result
from lamina.stats.intervals import interval
from lamina.stats.seeds import draws_over_seeds
from lamina.stats.status import NEGLIGIBLE
from lamina.types import Text

SETTLING = "settling"
"""In place of an analysis: how alike layers are to those of the end."""
SIMILARITY = "similarity to the end"
_SHARES = ("accuracy", "F1", "macro-F1", "accuracy of the best head")
"""Measures that are never below 0."""
_MANY = 10**6
"""Units of numbers of which only intervals are known: their draws are not widened."""
_MOST_WORDS = 4000
"""Words whose states are compared with those of the end."""


class Quantity(NamedTuple):
    """What is followed through a training."""

    analysis: str
    task: str
    layer: int | None
    """None for a number of the whole model."""
    measure: str
    ability: bool
    """Whether more of it is knowing more, so that it has an onset."""
    chance: float
    """NaN where that is not known."""
    margin: float
    """Differences this small mean nothing."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """One quantity at one checkpoint or more."""

    value: Float[np.ndarray, " step"]
    draws: Float[np.ndarray, "sample step"]
    """From resampled texts, spread for few units; NaN where only the value is known."""
    units: int

    def ends(self, step: int, bounds: tuple[float, float] = (-np.inf, np.inf)) -> tuple[float, float]:
        """The 95 % interval at a step, within what the quantity can be."""
        low, high = interval(self.draws[:, step])
        return max(low, bounds[0]), min(high, bounds[1])


def bounds_of(quantity: Quantity) -> tuple[float, float]:
    """What a quantity lies between: shares and F1 between 0 and 1; draws are spread for few units, and may leave that.

    Example:
        >>> bounds_of(Quantity("pairs", "all", None, "accuracy", True, 0.5, 0.02))
        (0.0, 1.0)
    """
    if not quantity.ability:
        return -np.inf, np.inf
    return (0.0 if quantity.measure in _SHARES or quantity.measure.startswith("share") else -np.inf), 1.0


Measured = dict[Quantity, Measurement]
"""All quantities of one checkpoint (with one step each), or of a training."""


def measured(
    results: Sequence[Result | None], declared: Comparable, analysis: str, *, samples: int, seed: int
) -> list[Measured]:
    """What results of one analysis say, one per checkpoint; None stands for a checkpoint without a result.

    Checkpoints are resampled alike wherever results keep what texts, items or documents have.
    """
    known = {str(place): result for place, result in enumerate(results) if result is not None}
    likeness: list[Measured] = [{} for _ in results]
    if known:
        read = {
            ComparedTasks: _tasks,
            ComparedItems: _items,
            ComparedLayers: _layers,
            ComparedValues: _values,
        }[type(declared)]
        for place, quantity, value, draws, units in read(known, declared, analysis, samples, seed):
            if draws is None:
                draws = np.full(samples, np.nan)
            likeness[int(place)][quantity] = Measurement(np.array([value]), _as_many(draws, samples)[:, None], units)
    return likeness


_Row = tuple[str, Quantity, float, "np.ndarray | None", int]


def _as_many(draws: Float[np.ndarray, " sample"], samples: int) -> Float[np.ndarray, " sample"]:
    """As many draws as the others have; those that are missing do not exist."""
    padded = np.full(samples, np.nan)
    padded[: min(samples, len(draws))] = draws[:samples]
    return padded


def _tasks(
    results: Mapping[str, Result], declared: ComparedTasks, analysis: str, samples: int, seed: int
) -> Iterator[_Row]:
    for comparison in tasks_over(results, declared):
        metric = METRICS.get(comparison.metric, comparison.metric)
        for model in sample_models(comparison, samples, seed):
            place, task = model.entry.model, model.entry.task
            chance = _constant(results[place], task, comparison.metric)
            quantity = Quantity(analysis, comparison.task, None, metric, True, chance, NEGLIGIBLE)
            cuts = [(None, LayerCut("cumulative", model.entry.last))]
            cuts += [(cut.layer, cut) for cut in model.cuts("layer")]
            for layer, cut in cuts:
                score = model.converged(cut)
                if score.compared and np.isfinite(score.value):
                    yield place, quantity._replace(layer=layer), score.value, score.draws, score.units


def _constant(result: Result, task: str, metric: str) -> float:
    """The score of the best constant answer."""
    scores = result.tables["scores"]
    rows = scores[(scores["task"] == task) & (scores["metric"] == metric) & (scores["probe"] == "constant")]
    values = rows.loc[rows["of"] == "model", "value"]
    return float(values.max()) if len(values) else np.nan


def _items(
    results: Mapping[str, Result], declared: ComparedItems, analysis: str, samples: int, seed: int
) -> Iterator[_Row]:
    shared = shared_items([ModelResults(place, (result,)) for place, result in results.items()], declared)
    accuracy = shared.metric == "accuracy"
    chance = np.nan if declared.chance is None or not accuracy else declared.chance
    measure = "accuracy" if accuracy else declared.measure
    for group in shared.draws(samples=samples, seed=seed):
        about = Quantity(analysis, group.group, None, measure, declared.ability, chance, NEGLIGIBLE)
        for column, place in enumerate(results):
            yield place, about, float(group.value[column]), group.draws[:, column], group.items


def _layers(
    results: Mapping[str, Result], declared: ComparedLayers, analysis: str, samples: int, seed: int
) -> Iterator[_Row]:
    for place, result in results.items():
        for measure in declared.measures:
            about = Quantity(analysis, measure.title, None, measure.unit, measure.ability, np.nan, measure.margin)
            by_layer = layer_draws(result, declared, measure, samples=samples, seed=seed)
            for layer, value in by_layer.values.items():
                drawn = by_layer.draws.get(int(str(layer)))
                units = by_layer.units or _MANY
                yield place, about._replace(layer=int(str(layer))), float(value), drawn, units


def _values(
    results: Mapping[str, Result], declared: ComparedValues, analysis: str, samples: int, seed: int
) -> Iterator[_Row]:
    for place, result in results.items():
        for number in value_draws(result, declared, samples=samples, seed=seed):
            about = Quantity(analysis, number.row.task, None, number.row.metric, declared.ability, np.nan, NEGLIGIBLE)
            yield place, about, number.row.value, number.draws, number.units or _MANY


def along(checkpoints: Sequence[Measured]) -> Measured:
    """Quantities at several checkpoints as one, with NaN where a checkpoint does not have one; constants as at the end.

    Example:
        >>> quantity = Quantity("probe", "pos", 1, "F1", True, 0.2, 0.02)
        >>> one = {quantity: Measurement(np.array([0.5]), np.array([[0.4], [0.6]]), 10)}
        >>> along([one, {}, one])[quantity].value.tolist()
        [0.5, nan, 0.5]
    """
    # Of a quantity whose chance differs (constant answers to other targets), the one of the last checkpoint.
    names = {quantity._replace(chance=np.nan)[:4]: quantity for checkpoint in checkpoints for quantity in checkpoint}
    by_name = [{quantity[:4]: part for quantity, part in checkpoint.items()} for checkpoint in checkpoints]
    joined: Measured = {}
    for name, quantity in names.items():
        parts = [checkpoint.get(name) for checkpoint in by_name]
        samples = next(len(part.draws) for part in parts if part is not None)
        none = Measurement(np.full(1, np.nan), np.full((samples, 1), np.nan), 0)
        whole = [none if part is None else part for part in parts]
        joined[quantity] = Measurement(
            np.concatenate([part.value for part in whole]),
            np.concatenate([part.draws for part in whole], axis=1),
            min(part.units for part in parts if part is not None),
        )
    return joined


def over_seeds(trainings: Sequence[Measured]) -> Measured:
    """The mean over trainings with the same steps; from 5 on, trainings vary too, with fewer it holds for these."""
    if len(trainings) == 1:
        return trainings[0]
    by_name = [{quantity[:4]: part for quantity, part in training.items()} for training in trainings]
    joined: Measured = {}
    for quantity in trainings[0]:
        parts = [training.get(quantity[:4]) for training in by_name]
        known = [part for part in parts if part is not None]
        if len(known) == len(trainings):
            values = np.stack([part.value for part in known])
            draws = draws_over_seeds(values, np.stack([part.draws for part in known]))
            joined[quantity] = Measurement(values.mean(0), draws, min(part.units for part in known))
    return joined


# How alike each layer is to what it will be at the end.


@dataclass(frozen=True, eq=False)
class LayerVectors:
    """Vectors of the same words at every layer of a checkpoint."""

    vectors: tuple[torch.Tensor, ...]
    """One per layer, [word, width], in half precision."""
    starts: tuple[int, ...]
    """The first word of each group of texts."""

    @classmethod
    def of(cls, encoder: Encoder, texts: Sequence[Text]) -> LayerVectors:
        """Of texts, in their order; words are means of their tokens."""
        by_text: dict[str, list[torch.Tensor]] = {}
        for activations in encoder.encode(texts, ("states",)):
            words = torch.from_numpy(activations.tokens.words).long()
            inside = words != SPECIAL
            states = activations.states
            if states is None or not inside.any():
                continue
            count = int(words.max()) + 1
            sums = torch.zeros(count, *states.shape[1:]).index_add_(0, words[inside], states[inside].float().cpu())
            means = sums / torch.bincount(words[inside], minlength=count).clamp(min=1)[:, None, None]
            by_text[activations.text] = list(means.half().unbind(1))
        read = [by_text[text.id] for text in texts if text.id in by_text]
        sizes = np.cumsum([0, *(len(text[0]) for text in read)])
        groups = min(GROUPS, len(read))
        starts = [int(sizes[place]) for place in np.linspace(0, len(read), groups, endpoint=False).astype(int)]
        return cls(tuple(torch.cat(layer) for layer in zip(*read, strict=True)), tuple(starts))

    def similarity(self, end: LayerVectors, *, samples: int, seed: int) -> Measured:
        """Linear CKA of each layer with the same layer of the end."""
        likeness: Measured = {}
        for layer, (one, other) in enumerate(zip(self.vectors, end.vectors, strict=True)):
            bounds = [*self.starts, len(one)]
            parts = [
                CkaSums.of(one[start:stop].float(), other[start:stop].float())
                for start, stop in pairwise(bounds)
                if stop > start
            ]
            measure = leave_out(parts)
            if not np.isfinite(measure.value):
                continue
            drawn = jackknife_draws(measure, samples=samples, seed=seed)
            quantity = Quantity(SETTLING, SIMILARITY, layer, "CKA", False, np.nan, NEGLIGIBLE)
            likeness[quantity] = Measurement(np.array([measure.value]), drawn[:, None], len(parts))
        return likeness


def some_words(texts: Sequence[Text], most: int = _MOST_WORDS) -> list[Text]:
    """The first texts up to about this many words, without annotations."""
    chosen, words = [], 0
    for text in texts:
        chosen.append(replace(text, edges={}, segments=()) if text.segments else replace(text, edges={}))
        words += len(text.words)
        if words >= most:
            break
    return chosen
