"""How what is read changes from layer to layer: best layers, what is beside them, lower against upper half.

All differences are paired: the layers of a task are scored on the same resampled documents, and so are two tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lamina.analyses.probing.checkpoints import TaskRun
from lamina.analyses.probing.statistics import Resampling
from lamina.analyses.probing.summary import bootstrap, unconverged
from lamina.stats.best import best_set
from lamina.stats.family import Contrasts, bootstrap_family
from lamina.stats.intervals import interval
from lamina.stats.units import Units
from lamina.tasks.order_rules import BY_NAME
from lamina.tasks.task import Metric

METRIC: Metric = "accuracy"
TWIN, CONSTANT = "twin", "constant"


class LayerScore(NamedTuple):
    """One row of `layers.csv`: the layers of a task whose probes have converged."""

    task: str
    layer: int
    value: float
    """Accuracy, mean over seeds."""
    low: float
    high: float
    p_beaten: float
    """That another layer is better: max-T over the other layers, one-sided."""
    among_best: bool
    """Whether the layer can be the best: p_beaten is at least .05."""
    units: int


class Beside(NamedTuple):
    """One row of `beside.csv`: a layer of the model minus its twin, or minus the best constant answer."""

    task: str
    layer: int
    against: str
    """twin or constant."""
    value: float
    other: float
    estimate: float
    low: float
    high: float
    p_adjusted: float
    """Of one family over tasks, layers and both; two-sided."""
    units: int
    needed: int
    unit: str


class Change(NamedTuple):
    """One row of `changes.csv`; what is not available is NaN, and `reason` says why."""

    task: str
    kind: str
    """linear, surface, structure or inflection."""
    metric: str
    first: float
    """At layer 0."""
    stopping_layer: int
    """With the lowest loss on the texts that decide when to stop: not chosen by what is scored, and not the best."""
    chosen: float
    """At that layer."""
    chosen_low: float
    chosen_high: float
    rise: float
    """At that layer minus layer 0."""
    rise_low: float
    rise_high: float
    last: float
    """At the last layer."""
    fall: float
    """At the last layer minus that layer."""
    fall_low: float
    fall_high: float
    lower: float
    """Mean of layers 1 to the middle."""
    upper: float
    """Mean of the layers above."""
    change: float
    """Upper minus lower."""
    change_low: float
    """95 %, simultaneous over the tasks."""
    change_high: float
    p_adjusted: float
    """Of the change: one family over the tasks, two-sided."""
    units: int
    needed: int
    unit: str
    reason: str | None


class Contrast(NamedTuple):
    """One row of `contrasts.csv`: does one task rise from the lower to the upper half where another falls?"""

    linear: str
    structure: str
    linear_change: float
    structure_change: float
    difference: float
    """The change of the structural task minus that of the linear one."""
    low: float
    """95 %, simultaneous over all pairs."""
    high: float
    p_adjusted: float
    """One family over all pairs, two-sided."""
    units: int
    needed: int
    unit: str


class Reading(NamedTuple):
    """A task's accuracy by layer, and the same resampled."""

    task: str
    value: np.ndarray
    """[layer]"""
    drawn: np.ndarray
    """[sample, layer]"""
    beside: Mapping[str, tuple[np.ndarray, np.ndarray]]
    """Twin and constant answer: the same; NaN where a probe has not converged."""
    stopping: int
    """The layer with the lowest loss on stopping texts."""
    units: int
    """Documents (or texts) with a scored target."""
    unit: str
    """What these are."""
    converged: np.ndarray
    """[layer] Whether all probes of the model have."""
    ends: str
    """Which probes of layer 0, the stopping and the last layer have not converged, in words; empty if all have."""
    reason: str
    """The same of all layers."""

    @property
    def kind(self) -> str:
        """linear, surface, structure or inflection."""
        return BY_NAME[self.task].kind

    @property
    def change(self) -> tuple[float, np.ndarray]:
        """Upper minus lower half, and its draws; NaN where a probe has not converged."""
        value = float(_halves(self.value)[2])
        return (float("nan") if self.reason else value), _halves(self.drawn)[2]


_Test = tuple[float, float, float, float, int, int, str]
"""Estimate, simultaneous interval, adjusted p, units, how many are needed, and what they are."""


def middle(layers: int) -> int:
    """The last layer of the lower half, of layers 0 to L.

    Example:
        >>> middle(7), middle(13), middle(2)
        (3, 6, 1)
    """
    return max(1, (layers - 1) // 2)


def _halves(by_layer: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means of the lower and the upper half without layer 0, and their difference; NaN for a single block."""
    cut = middle(by_layer.shape[-1]) + 1
    lower = by_layer[..., 1:cut].mean(-1)
    upper = by_layer[..., cut:].mean(-1) if by_layer.shape[-1] > cut else np.full(by_layer.shape[:-1], np.nan)
    return lower, upper, upper - lower


def read_runs(runs: Sequence[TaskRun], units: Units, *, samples: int, seed: int) -> list[Reading]:
    """All tasks on the same resampled documents; `units` has that of every scored text."""
    texts = Resampling(units, samples, seed)
    return [_read(run, texts, [seed, number]) for number, run in enumerate(runs)]


def _read(run: TaskRun, texts: Resampling, seed: list[int]) -> Reading:
    drawn = bootstrap(run, texts, seed)
    draws = drawn["model"][METRIC]
    own = run.outcomes_of("model")
    single = [at for at, cut in enumerate(own[0].cuts) if cut.probe == "layer"]
    loss = np.mean([outcome.learned.loss for outcome in own], axis=0)[single]
    stopping, last = int(loss.argmin()), len(single) - 1
    constant = run.constant[METRIC]
    layers = np.arange(len(single))
    sides = {CONSTANT: (np.repeat(constant.value()[:1], len(layers)), np.repeat(texts.score(constant), len(layers), 1))}
    if "random" in drawn:
        twin = run.outcomes_of("random")
        at = [number for number, cut in enumerate(twin[0].cuts) if cut.probe == "layer"]
        done = np.array([not unconverged(twin, "layer", [int(layer)]) for layer in layers])
        values = drawn["random"][METRIC]
        sides[TWIN] = np.where(done, values.value[at], np.nan), values.pooled[:, at]
    converged = np.array([not unconverged(own, "layer", [int(layer)]) for layer in layers])
    reasons = unconverged(own, "layer", [0, stopping, last]), unconverged(own, "layer")
    places = draws.value[single], draws.pooled[:, single], sides, stopping
    return Reading(run.task.name, *places, draws.texts, texts.units.kind, converged, *reasons)


def layer_rows(readings: Sequence[Reading]) -> list[LayerScore]:
    """Which layers of every task can be the best."""
    rows = []
    for reading in readings:
        known = np.flatnonzero(reading.converged)
        if not len(known):
            continue
        # Draws of accuracies are spread for few documents already.
        found = best_set(reading.value[known], reading.drawn[:, known], reading.units, widen=False)
        ends = [interval(reading.drawn[:, layer]) for layer in known]
        rows += [
            LayerScore(
                reading.task, int(layer), float(reading.value[layer]), *end, float(p), bool(inside), reading.units
            )
            for layer, end, p, inside in zip(known, ends, found.p, found.among, strict=True)
        ]
    return rows


def beside_rows(readings: Sequence[Reading]) -> list[Beside]:
    """Every layer minus its twin and minus the best constant answer, as one family."""
    members = [
        (reading, int(layer), against)
        for reading in readings
        for layer in np.flatnonzero(reading.converged)
        for against in (TWIN, CONSTANT)
        if against in reading.beside and np.isfinite(reading.beside[against][0][layer])
    ]
    estimates = [reading.value[layer] - reading.beside[against][0][layer] for reading, layer, against in members]
    draws = [reading.drawn[:, layer] - reading.beside[against][1][:, layer] for reading, layer, against in members]
    found = _family(estimates, draws, [(reading.units, reading.unit) for reading, *_ in members])
    return [
        Beside(
            reading.task, layer, against, float(reading.value[layer]), float(reading.beside[against][0][layer]), *test
        )
        for (reading, layer, against), test in zip(members, found, strict=True)
    ]


def change_rows(readings: Sequence[Reading]) -> list[Change]:
    """What changes within every task; the changes are one family."""
    values, draws = zip(*(reading.change for reading in readings), strict=True)
    found = _family(values, draws, [(reading.units, reading.unit) for reading in readings])
    return [_change(reading, test) for reading, test in zip(readings, found, strict=True)]


def _change(reading: Reading, test: _Test) -> Change:
    value, drawn, stopping = reading.value, reading.drawn, reading.stopping
    known = not reading.ends
    first, top, last = (float(value[at]) if known else np.nan for at in (0, stopping, -1))
    rise, fall = drawn[:, stopping] - drawn[:, 0], drawn[:, -1] - drawn[:, stopping]
    (low, high), (rise_low, rise_high), (fall_low, fall_high) = (
        interval(each) if known else (np.nan, np.nan) for each in (drawn[:, stopping], rise, fall)
    )
    lower, upper, _ = (np.nan if reading.reason else float(each) for each in _halves(value))
    row = (first, stopping, top, low, high, top - first, rise_low, rise_high, last, last - top, fall_low, fall_high)
    return Change(reading.task, reading.kind, METRIC, *row, lower, upper, *test, reading.reason or None)


def half_contrasts(readings: Sequence[Reading]) -> list[Contrast]:
    """Structural against linear tasks: by how much more they gain from the lower to the upper half; one family."""
    told = [each for each in readings if np.isfinite(each.change[0])]
    pairs = [
        (one, other)
        for one in told
        if one.kind == "linear"
        for other in told
        if other.kind == "structure"
    ]  # fmt: skip
    estimates = [other.change[0] - one.change[0] for one, other in pairs]
    draws = [other.change[1] - one.change[1] for one, other in pairs]
    found = _family(estimates, draws, [(min(one.units, other.units), one.unit) for one, other in pairs])
    return [
        Contrast(one.task, other.task, one.change[0], other.change[0], *test)
        for (one, other), test in zip(pairs, found, strict=True)
    ]


def _family(
    estimates: Sequence[float], draws: Sequence[np.ndarray], units: Sequence[tuple[int, str]]
) -> Iterator[_Test]:
    if not estimates:
        return
    # Draws of accuracies are spread for few documents already.
    counts = np.array([count for count, _ in units], float)
    tests: Contrasts = bootstrap_family(
        np.array(estimates, float), np.stack(draws, 1), counts, bounds=(-1.0, 1.0), widen=False
    )
    for (_, unit), (estimate, low, high, p, count, needed) in zip(units, zip(*tests, strict=True), strict=True):
        yield float(estimate), float(low), float(high), float(p), int(count), int(needed), unit
