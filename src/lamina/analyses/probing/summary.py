"""One line a task, the figure 1 of the paper: where its answers appear, and which task comes before which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from lamina.analyses.probing.outcomes import Outcome, TaskRun, Whose
from lamina.analyses.probing.statistics import (
    Draws,
    before,
    center_of_gravity,
    expected_layer,
    holm,
    interval,
    kl_from_uniform,
    kl_of_differentials,
)

ENOUGH_SEEDS = 5
"""With fewer, the spread over seeds is a range and no interval, and nothing is tested on it."""


class Summary(NamedTuple):
    """One row of `summary.csv`; what is not available is NaN."""

    task: str
    f1_first: float
    """Of P(0)."""
    f1_full: float
    """Of P(L)."""
    center_of_gravity: float
    cog_low: float
    """The smallest over seeds; from 5 seeds on the lower end of the interval over seeds."""
    cog_high: float
    expected_layer: float
    """Not available where the interval of P(L) - P(0) includes 0."""
    el_low: float
    el_high: float
    kl_mixing: float
    kl_differential: float
    selectivity: float
    """Model minus control, at the single layer that does best on the texts that decide when to stop."""


class Order(NamedTuple):
    """One row of `order.csv`."""

    task_a: str
    task_b: str
    statistic: str
    """expected_layer or center_of_gravity."""
    probability: float
    """That a comes before b; ties count half."""


class OrderTest(NamedTuple):
    """One row of `order_tests.csv`: is the order of two tasks more than chance?"""

    task_a: str
    task_b: str
    statistic: str
    p: float
    """Two-sided, from the bootstrap."""
    p_holm: float
    """Corrected by Holm over all pairs of the statistic."""


class Place(NamedTuple):
    """A task's place in the network, resampled; NaN where it is not available."""

    task: str
    seeds: int
    expected_layer: np.ndarray
    center_of_gravity: np.ndarray


def summarise(run: TaskRun, drawn: Mapping[Whose, Draws]) -> tuple[Summary, Place]:
    """A task's line, and the draws that its place can be compared with other tasks' by."""
    own = [outcome for outcome in run.outcomes if outcome.of == "model"]
    draws = drawn["model"]
    mixing = len(own[0].weights)
    # With `mix` alone there is P(L) and nothing to compare it with.
    whole = mixing == len(run.norms)
    p, sampled = draws.value[:mixing], draws.pooled[:, :mixing]
    gravity, gravity_draws, (cog_low, cog_high), kl = _gravity(own, draws) if mixing else _nowhere(len(sampled))
    layer, layer_draws = _expected(p, sampled) if whole else (np.nan, np.full(len(sampled), np.nan))
    row = Summary(
        run.task.name,
        float(p[0]) if whole else np.nan,
        float(p[-1]) if mixing else np.nan,
        gravity,
        cog_low,
        cog_high,
        layer,
        *interval(layer_draws),
        kl,
        float(kl_of_differentials(p)) if whole else np.nan,
        _selectivity(run, drawn),
    )
    return row, Place(run.task.name, len(own), layer_draws, gravity_draws)


_Gravity = tuple[float, np.ndarray, tuple[float, float], float]


def _gravity(own: Sequence[Outcome], draws: Draws) -> _Gravity:
    full = np.stack([outcome.weights[-1] for outcome in own]).astype(float)
    each = center_of_gravity(full)
    sampled = draws.over_seeds(each)
    spread = interval(sampled) if len(own) >= ENOUGH_SEEDS else (float(each.min()), float(each.max()))
    return float(each.mean()), sampled, spread, float(kl_from_uniform(full).mean())


def _nowhere(samples: int) -> _Gravity:
    return np.nan, np.full(samples, np.nan), (np.nan, np.nan), np.nan


def _expected(p: np.ndarray, sampled: np.ndarray) -> tuple[float, np.ndarray]:
    low, high = interval(sampled[:, -1] - sampled[:, 0])
    if low <= 0 <= high:
        return np.nan, np.full(len(sampled), np.nan)
    return float(expected_layer(p)), expected_layer(sampled)


def _selectivity(run: TaskRun, drawn: Mapping[Whose, Draws]) -> float:
    if "control" not in drawn:
        return np.nan
    own, control = (next(each for each in run.outcomes if each.of == of) for of in ("model", "control"))
    stopping = np.mean([outcome.stopping for outcome in run.outcomes if outcome.of == "model"], axis=0)
    both = [at for at, cut in enumerate(own.cuts) if cut.probe == "layer" and cut in control.cuts]
    if not both:
        return np.nan
    best = max(both, key=lambda at: stopping[at])
    return float(drawn["model"].value[best] - drawn["control"].value[control.cuts.index(own.cuts[best])])


def order(places: Sequence[Place]) -> Iterator[Order]:
    """The probability of every order of two tasks, by either statistic."""
    for a, b in combinations(places, 2):
        yield Order(a.task, b.task, "expected_layer", before(a.expected_layer, b.expected_layer))
        yield Order(a.task, b.task, "center_of_gravity", before(a.center_of_gravity, b.center_of_gravity))


def order_tests(pairs: Sequence[Order], places: Sequence[Place]) -> list[OrderTest]:
    """The p-value of every pair, alone and corrected for all of them; none where there are too few seeds for one."""
    few = any(place.seeds < ENOUGH_SEEDS for place in places)
    tests = []
    for statistic in dict.fromkeys(pair.statistic for pair in pairs):
        own = [pair for pair in pairs if pair.statistic == statistic]
        samples = len(places[0].expected_layer)
        p = [np.nan if few else _two_sided(pair.probability, samples) for pair in own]
        tests += [OrderTest(*pair[:3], *both) for pair, *both in zip(own, p, holm(p).tolist(), strict=True)]
    return tests


def _two_sided(probability: float, samples: int) -> float:
    """Never below what so many samples can tell."""
    tail = min(probability, 1 - probability)
    return min(1.0, 2 * (tail * samples + 1) / (samples + 1))
