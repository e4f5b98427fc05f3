"""What an analysis measured at every checkpoint of a series, on common bootstrap draws, and when an ability begins."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from lamina.comparison.measures import layer_draws, value_draws
from lamina.comparison.predictions import ALL, shared_items
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
from lamina.stats.correlations import rank_correlation
from lamina.stats.family import alike_in_all_units, bootstrap_family, permutation_family
from lamina.stats.intervals import interval
from lamina.stats.seeds import draws_over_seeds
from lamina.stats.status import NEGLIGIBLE, Contrast, status_of
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


_STILL = 1e-9
"""Draws this close are equal."""
_PERMUTATIONS = 5000
_LEAST_LAYERS = 5
"""With fewer, no order of layers has a chance below .05, two-sided."""


class Onset(NamedTuple):
    """One row of `onsets.csv`."""

    series: str
    seed: str
    """The trainings that it is of: a name, or all."""
    analysis: str
    task: str
    layer: int | None
    """None for a number of the whole model."""
    measure: str
    kind: str
    """ability (more of it is knowing more), measure, or settling (likeness to the end)."""
    onset: float
    """The first checkpoint from which on the ability stays above the untrained model and above chance; NaN where it
    was not shown to be above them at the end, and of measures that are no abilities."""
    low: float
    """The ability begins after this step ..."""
    high: float
    """... and at this step at the latest: 95 %, never narrower than the steps of two checkpoints in a row."""
    half: float
    """The step at which it is half-way from the untrained model to the end, by the logarithm of steps."""
    half_low: float
    half_high: float
    untrained: float
    end: float
    chance: float
    """NaN where it is not known."""
    above: float
    """At the end: the value minus that of the untrained model, or minus chance if that is higher; of measures that are
    no abilities, minus the untrained model's."""
    above_low: float
    """95 %, simultaneous over its family."""
    above_high: float
    p_adjusted: float
    """Two-sided, by max-T over its family: of a series, the numbers of the whole model, or those of single layers and
    of groups of items."""
    units: int
    needed: int
    reason: str
    """Why there is no onset."""


class Order(NamedTuple):
    """One row of `orders.csv`: two abilities of one series that both have an onset."""

    series: str
    seed: str
    analysis_a: str
    task_a: str
    analysis_b: str
    task_b: str
    earlier: float
    """Share of bootstrap draws in which a's onset comes first."""
    same: float
    """In which both have it at the same checkpoint."""
    later: float
    difference: float
    """Expected step of b over that of a, in doublings: above 0 where a grows first."""
    low: float
    """95 %, simultaneous over all pairs of the series."""
    high: float
    p_adjusted: float
    """Two-sided, by max-T over all pairs of the series."""
    units: int
    needed: int


class Grown(NamedTuple):
    """What a training shows of one quantity, with its draws."""

    quantity: Quantity
    onset: Onset
    first: Int[np.ndarray, " sample"]
    """The number of the onset's step in every draw; as many as there are steps where it never stays above."""
    half: Float[np.ndarray, " sample"]
    """The half-way step in every draw, as a logarithm."""
    expected: tuple[float, Float[np.ndarray, " sample"]]
    """The expected step and its draws, as logarithms."""


def position(steps: Sequence[int]) -> Float[np.ndarray, " step"]:
    """Steps on a scale on which a doubling is 1; step 0 is put before step 1.

    Example:
        >>> position([0, 1, 3]).tolist()
        [0.0, 1.0, 2.0]
    """
    return np.log2(1 + np.asarray(steps, float))


def first_staying(above: Bool[np.ndarray, "*draws step"]) -> Int[np.ndarray, "*draws"]:
    """The first step from which on all are above; their number where the last is not.

    Example:
        >>> first_staying(np.array([[True, False, True, True], [True, True, True, False]])).tolist()
        [2, 4]
    """
    steps = above.shape[-1]
    return steps - np.cumprod(above[..., ::-1], axis=-1).sum(-1)


def halfway(
    values: Float[np.ndarray, "*draws step"], places: Float[np.ndarray, " step"]
) -> tuple[Float[np.ndarray, "*draws"], Int[np.ndarray, "*draws"]]:
    """Where values are first half-way from the first to the last, and the number of the step at or after it.

    Example:
        >>> place, step = halfway(np.array([0.0, 0.2, 0.8, 1.0]), np.array([0.0, 1.0, 2.0, 3.0]))
        >>> round(float(place), 2), int(step)
        (1.5, 2)
    """
    change = values[..., -1:] - values[..., :1]
    with np.errstate(invalid="ignore", divide="ignore"):
        progress = (values - values[..., :1]) / change
    reached = progress >= 0.5
    step = np.where(reached.any(-1), reached.argmax(-1), values.shape[-1] - 1)
    before = np.maximum(step - 1, 0)
    there, earlier = (np.take_along_axis(progress, index[..., None], -1)[..., 0] for index in (step, before))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(there > earlier, (0.5 - earlier) / (there - earlier), 1.0)
    place = places[before] + share.clip(0, 1) * (places[step] - places[before])
    return np.where(np.isfinite(change[..., 0]) & (change[..., 0] != 0), place, np.nan), step


def expected_place(
    values: Float[np.ndarray, "*draws step"], places: Float[np.ndarray, " step"]
) -> Float[np.ndarray, "*draws"]:
    """Where a value is gained on average: what each step gains, placed in the middle between it and the step before.

    Example:
        >>> float(expected_place(np.array([0.0, 0.5, 1.0]), np.array([0.0, 1.0, 3.0])))
        1.25
    """
    middles = (places[1:] + places[:-1]) / 2
    gains = values[..., -1] - values[..., 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        place = (np.diff(values, axis=-1) @ middles) / gains
    return np.where(gains != 0, place, np.nan)


def above_reference(quantity: Quantity, values: Float[np.ndarray, "*draws step"]) -> Float[np.ndarray, "*draws step"]:
    """Values minus the untrained model's, or minus chance where that is higher; the untrained model comes first.

    Where the untrained model's is not available, as of a probe that had not converged, chance stands for it.
    """
    reference = values[..., :1]
    if quantity.ability and np.isfinite(quantity.chance):
        reference = np.fmax(reference, quantity.chance)
    return values[..., 1:] - reference


def grown(series: str, seed: str, steps: Sequence[int], training: Measured) -> list[Grown]:
    """Onset and half-way step of every quantity; the first of the steps is the untrained model's.

    That a quantity is above its reference (or, where it is no ability, differs from it) at the end is tested: numbers
    of the whole model are one family, those of layers and groups another. Where that is clear, its onset is the first
    checkpoint from which on it stays above by more than the margin. The same in every draw of texts gives the interval,
    and since nothing is known between two checkpoints, its lower end is the checkpoint before.
    """
    complete = {
        quantity: part
        for quantity, part in training.items()
        if np.isfinite(above_reference(quantity, part.value)[-1]) and quantity.analysis != SETTLING
    }
    headlines = {quantity: part for quantity, part in complete.items() if is_headline(quantity, complete)}
    others = {quantity: part for quantity, part in complete.items() if quantity not in headlines}
    complete, tests = headlines | others, _at_the_end(headlines) + _at_the_end(others)
    growths = [
        _grown((series, seed), steps, quantity, part, test)
        for (quantity, part), test in zip(complete.items(), tests, strict=True)
    ]
    for quantity, part in training.items():
        if quantity.analysis == SETTLING and np.isfinite(part.value).all():
            none = Contrast(float(part.value[-1] - part.value[0]), np.nan, np.nan, np.nan)
            growths.append(_grown((series, seed), steps, quantity, part, none, settling=True))
    return growths


def is_headline(quantity: Quantity, among: Collection[Quantity]) -> bool:
    """Whether it is a number of the whole model: not of one layer, nor of one group of items where they have a mean."""
    grouped = any(other.analysis == quantity.analysis and other.task == ALL for other in among)
    return quantity.layer is None and (not grouped or quantity.task == ALL)


def _at_the_end(training: Measured) -> list[Contrast]:
    """Quantities of a series as one family."""
    if not training:
        return []
    estimates = np.array([above_reference(quantity, part.value)[-1] for quantity, part in training.items()])
    draws = np.stack([above_reference(quantity, part.draws)[:, -1] for quantity, part in training.items()], axis=1)
    units = np.array([part.units for part in training.values()], float)
    contrasts = bootstrap_family(estimates, draws, units, widen=False).members()
    still = np.ptp(draws, axis=0) < _STILL
    return [
        alike_in_all_units(test.estimate, test.units, len(contrasts)) if same and abs(test.estimate) > _STILL else test
        for test, same in zip(contrasts, still.tolist(), strict=True)
    ]


def _grown(
    about: tuple[str, str],
    steps: Sequence[int],
    quantity: Quantity,
    part: Measurement,
    test: Contrast,
    *,
    settling: bool = False,
) -> Grown:
    trained, places = list(steps[1:]), position(steps)
    margin = quantity.margin
    # What is not available at a step (a probe that had not converged) is not above in an onset, and may be in the lower
    # end of its interval.
    known = np.isfinite(part.value)
    above = above_reference(quantity, part.value) > margin
    exists = np.isfinite(part.draws[:, known]).all(1)
    drawn = part.draws[exists]
    above_drawn = above_reference(quantity, drawn) > margin
    first, earliest = first_staying(above_drawn), first_staying(above_drawn | ~known[1:])
    reference = quantity.chance if np.isnan(part.value[0]) else part.value[0]
    used = known | (np.arange(len(steps)) == 0)
    values, value_draws = (np.where(np.isnan(some), reference, some) for some in (part.value[used], drawn[:, used]))
    place, step = halfway(values, places[used])
    half_draws, _ = halfway(value_draws, places[used])
    expected = expected_place(value_draws, places[used])
    steps_used = np.asarray(steps)[used]
    status = status_of(test.low, test.high, test.p, needed=test.needed, margin=margin)
    clear = settling or status == "clear"
    onset = low = high = half = half_low = half_high = np.nan
    reason = ""
    if not clear:
        reason = {"null": "no change", "untested": "too few units"}.get(status, "no change was shown")
    elif quantity.ability and test.estimate < 0:
        reason = "below the untrained model or chance at the end"
    elif quantity.ability:
        number = int(first_staying(above))
        if number == len(trained):
            reason = "not above by more than the margin"
        else:
            least, most = interval(earliest.astype(float))[0], interval(first.astype(float))[1]
            lowest = min(int(least), int(first_staying(above | ~known[1:])))
            highest = max(int(np.ceil(most)), number)
            onset, low = float(trained[number]), float(steps[lowest])
            high = float(trained[highest]) if highest < len(trained) else np.inf
    if clear and np.isfinite(place):
        half = float(np.exp2(place) - 1)
        ends = interval(half_draws)
        edges = np.exp2(np.array(ends)) - 1
        before, after = (float(steps_used[max(int(step) - back, 0)]) for back in (1, 0))
        half_low, half_high = min(before, float(edges[0])), max(after, float(edges[1]))
    value = (float(part.value[0]), float(part.value[-1]), quantity.chance)
    row = Onset(
        *about,
        *quantity[:4],
        "settling" if settling else "ability" if quantity.ability else "measure",
        *(onset, low, high, half, half_low, half_high),
        *value,
        *(test.estimate, test.low, test.high, test.p, part.units, test.needed, reason),
    )
    whole_first = np.full(len(part.draws), len(trained))
    whole_half, whole_expected = (np.full(len(part.draws), np.nan) for _ in range(2))
    whole_first[exists], whole_half[exists], whole_expected[exists] = first, half_draws, expected
    centre = float(expected_place(values, places[used]))
    return Grown(quantity, row, whole_first, whole_half, (centre, whole_expected))


def orders(growths: Sequence[Grown]) -> list[Order]:
    """Every pair of abilities that have an onset; those by layer alone at their best layer."""
    chosen = _one_per_task([entry for entry in growths if np.isfinite(entry.onset.onset)])
    pairs = [(a, b) if a.expected[0] <= b.expected[0] else (b, a) for a, b in combinations(chosen, 2)]
    if not pairs:
        return []
    estimates = np.array([b.expected[0] - a.expected[0] for a, b in pairs])
    draws = np.stack([b.expected[1] - a.expected[1] for a, b in pairs], axis=1)
    units = np.array([min(a.onset.units, b.onset.units) for a, b in pairs], float)
    tests = bootstrap_family(estimates, draws, units, widen=False)
    rows = []
    for number, (a, b) in enumerate(pairs):
        shares = (float((a.first < b.first).mean()), float((a.first == b.first).mean()))
        rows.append(
            Order(
                *a.onset[:2],
                *(a.quantity.analysis, a.quantity.task, b.quantity.analysis, b.quantity.task),
                *(shares[0], shares[1], float((a.first > b.first).mean())),
                *tests.member(number),
            )
        )
    return rows


def _one_per_task(growths: Sequence[Grown]) -> list[Grown]:
    """Of each task the number of the whole model; where it is by layer alone, of its best layer at the end."""
    best: dict[tuple[str, str], Grown] = {}
    for entry in growths:
        key = (entry.quantity.analysis, entry.quantity.task)
        before = best.get(key)
        whole = entry.quantity.layer is None
        if before is None or whole or (before.quantity.layer is not None and entry.onset.end > before.onset.end):
            best[key] = entry
    return list(best.values())


class BottomUp(NamedTuple):
    """Whether lower layers settle before upper ones."""

    first: int
    """The layer that is half-way to its end first."""
    last: int
    test: Contrast
    """Rank correlation of layers with their half-way steps; p by permuted layers, its interval from resampled texts."""


def bottom_up(growths: Sequence[Grown], *, seed: int = 0) -> BottomUp | None:
    """Rank correlation of layers and the steps at which they are half-way to what they are at the end."""
    layers = [entry for entry in growths if entry.quantity.analysis == SETTLING and np.isfinite(entry.onset.half)]
    if len(layers) < 3:
        return None
    halves = np.array([entry.onset.half for entry in layers])
    numbers = np.array([entry.quantity.layer or 0 for entry in layers])
    rng = np.random.default_rng([seed, len(layers)])
    drawn = np.stack([entry.half for entry in layers], axis=1)
    shuffled = rng.permuted(np.tile(halves, (_PERMUTATIONS, 1)), axis=1)
    estimate = float(rank_correlation(numbers, halves))
    low, high = interval(rank_correlation(np.broadcast_to(numbers, drawn.shape), drawn))
    permuted = rank_correlation(np.broadcast_to(numbers, shuffled.shape), shuffled)
    p = permutation_family(np.array([estimate]), permuted[:, None], alternative="two-sided")
    needed = _LEAST_LAYERS if len(layers) < _LEAST_LAYERS else 0
    first, last = (int(numbers[int(place)]) for place in (halves.argmin(), halves.argmax()))
    return BottomUp(first, last, Contrast(estimate, low, high, float(p[0]), len(layers), needed))
