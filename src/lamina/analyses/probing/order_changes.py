"""How what is read changes from layer to layer: from the lower to the upper half, and from the best layer to the last.

All differences are paired: the layers of a task are scored on the same resampled texts, and so are two tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lamina.analyses.probing.checkpoints import TaskRun
from lamina.analyses.probing.statistics import Resampling, before, interval, two_sided
from lamina.analyses.probing.summary import bootstrap, unconverged
from lamina.stats.family import holm
from lamina.tasks.order_rules import BY_NAME
from lamina.tasks.task import Metric

METRIC: Metric = "accuracy"


class Change(NamedTuple):
    """One row of `changes.csv`; what is not available is NaN, and `reason` says why."""

    task: str
    kind: str
    """linear, surface, structure or inflection."""
    metric: str
    first: float
    """At layer 0."""
    best_layer: int
    """With the lowest loss on the texts that decide when to stop: not chosen by what is scored."""
    best: float
    best_low: float
    best_high: float
    rise: float
    """Best minus layer 0."""
    rise_low: float
    rise_high: float
    last: float
    """At the last layer."""
    fall: float
    """Last minus best."""
    fall_low: float
    fall_high: float
    lower: float
    """Mean of layers 1 to the middle."""
    upper: float
    """Mean of the layers above."""
    change: float
    """Upper minus lower."""
    change_low: float
    change_high: float
    p: float
    """Of the change, two-sided, from the bootstrap."""
    p_adjusted: float
    """Corrected by Holm over the tasks."""
    reason: str


class Contrast(NamedTuple):
    """One row of `contrasts.csv`: does one task rise from the lower to the upper half where another falls?"""

    linear: str
    structure: str
    linear_change: float
    structure_change: float
    difference: float
    """The change of the structural task minus that of the linear one."""
    low: float
    high: float
    p: float
    p_adjusted: float
    """Corrected by Holm over all pairs."""


class _Read(NamedTuple):
    """A task's accuracy by layer, and the same resampled."""

    run: TaskRun
    value: np.ndarray
    """[layer]"""
    drawn: np.ndarray
    """[sample, layer]"""
    best: int
    ends: str
    """Which probes of layer 0, the best and the last layer have not converged, in words; empty if all have."""
    reason: str
    """The same of all layers."""

    @property
    def change(self) -> tuple[float, np.ndarray]:
        return float(_halves(self.value)[2]), _halves(self.drawn)[2]


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


def change_rows(runs: Sequence[TaskRun], *, samples: int, seed: int) -> tuple[list[Change], list[Contrast]]:
    """What changes within every task, and between linear and structural ones."""
    texts = Resampling(runs[0].targets.texts, samples, seed)
    read = [_read(run, texts, [seed, number]) for number, run in enumerate(runs)]
    changes = [_change(each) for each in read]
    changes = [
        row._replace(p_adjusted=p) for row, p in zip(changes, holm([row.p for row in changes]).tolist(), strict=True)
    ]
    contrasts = list(_contrasts(read))
    corrected = holm([row.p for row in contrasts]).tolist() if contrasts else []
    return changes, [row._replace(p_adjusted=p) for row, p in zip(contrasts, corrected, strict=True)]


def _read(run: TaskRun, texts: Resampling, seed: list[int]) -> _Read:
    draws = bootstrap(run, texts, seed)["model"][METRIC]
    own = run.outcomes_of("model")
    single = [at for at, cut in enumerate(own[0].cuts) if cut.probe == "layer"]
    loss = np.mean([outcome.learned.loss for outcome in own], axis=0)[single]
    best, last = int(loss.argmin()), len(single) - 1
    reasons = unconverged(own, "layer", [0, best, last]), unconverged(own, "layer")
    return _Read(run, draws.value[single], draws.pooled[:, single], best, *reasons)


def _change(read: _Read) -> Change:
    value, drawn, best = read.value, read.drawn, read.best
    task = read.run.task.name
    place = (task, BY_NAME[task].kind, METRIC)
    known = not read.ends
    first, top, last = (float(value[at]) if known else np.nan for at in (0, best, -1))
    rise, fall = drawn[:, best] - drawn[:, 0], drawn[:, -1] - drawn[:, best]
    (low, high), (rise_low, rise_high), (fall_low, fall_high) = (
        interval(each) if known else (np.nan, np.nan) for each in (drawn[:, best], rise, fall)
    )
    lower, upper, change = (np.nan if read.reason else float(each) for each in _halves(value))
    moved = read.change[1]
    change_low, change_high, p = (*interval(moved), _p(moved)) if np.isfinite(change) else (np.nan, np.nan, np.nan)
    best_row = (first, best, top, low, high, top - first, rise_low, rise_high, last, last - top, fall_low, fall_high)
    return Change(*place, *best_row, lower, upper, change, change_low, change_high, p, np.nan, read.reason)


def _p(draws: np.ndarray) -> float:
    return two_sided(before(draws, np.zeros_like(draws)), int(np.isfinite(draws).sum()))


def _contrasts(read: Sequence[_Read]) -> Iterator[Contrast]:
    told = [each for each in read if not each.reason and np.isfinite(each.change[0])]
    kinds = {
        kind: [each for each in told if BY_NAME[each.run.task.name].kind == kind] for kind in ("linear", "structure")
    }
    for one in kinds["linear"]:
        for other in kinds["structure"]:
            (falls, fallen), (rises, risen) = one.change, other.change
            apart = risen - fallen
            names = (one.run.task.name, other.run.task.name)
            yield Contrast(*names, falls, rises, rises - falls, *interval(apart), _p(apart), np.nan)
