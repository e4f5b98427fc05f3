"""The numbers behind the paper's figures, and how sure they are: pure functions of arrays.

Scores `p` are F1 of the cumulative probes P(0)..P(L); the last axis is always the layer, so that every
statistic of a score is, unchanged, a statistic of thousands of resampled scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lamina.analyses.probing.checkpoints import Outcome, TaskRun, Whose
from lamina.probes.targets import Counts

_CHUNK = 128
"""Samples weighed at a time: bounds memory, changes no number."""


def center_of_gravity(weights: Float[np.ndarray, "*samples layer"]) -> np.ndarray:
    """The mean layer under mixing weights.

    Example:
        >>> float(center_of_gravity(np.array([0.25, 0.25, 0.5])))
        1.25
    """
    return weights @ np.arange(weights.shape[-1])


def kl_from_uniform(weights: Float[np.ndarray, "*samples layer"]) -> np.ndarray:
    """KL(weights || uniform) in bits: 0 for equal weights, log2 of their number where one has everything.

    Example:
        >>> float(kl_from_uniform(np.array([0.0, 1.0, 0.0, 0.0])))
        2.0
    """
    logs = np.log2(weights * weights.shape[-1], out=np.zeros_like(weights, dtype=float), where=weights > 0)
    return (weights * logs).sum(-1)


def differentials(p: Float[np.ndarray, "*samples layer"]) -> Float[np.ndarray, "*samples step"]:
    """What each layer adds: D(l) = P(l) - P(l-1), for l = 1..L."""
    return np.diff(p, axis=-1)


def expected_layer(p: Float[np.ndarray, "*samples layer"]) -> np.ndarray:
    """The mean layer under the differentials, negative ones kept; NaN where P(L) = P(0).

    Example:
        >>> round(float(expected_layer(np.array([0.5, 0.75, 0.875]))), 3)
        1.333
    """
    steps = differentials(p)
    whole = steps.sum(-1)
    moment = steps @ np.arange(1, p.shape[-1])
    return np.divide(moment, whole, out=np.full_like(whole, np.nan, dtype=float), where=whole != 0)


def kl_of_differentials(p: Float[np.ndarray, "*samples layer"]) -> np.ndarray:
    """K(D) in bits: negative differentials set to 0, the rest renormalised; NaN where none is positive.

    Example:
        >>> float(kl_of_differentials(np.array([0.5, 0.75, 0.625])))
        1.0
    """
    gains = differentials(p).clip(min=0)
    whole = gains.sum(-1, keepdims=True)
    defined = whole > 0
    shares = np.divide(gains, whole, out=np.zeros_like(gains, dtype=float), where=defined)
    return np.where(defined[..., 0], kl_from_uniform(shares), np.nan)


def interval(draws: Float[np.ndarray, " sample"]) -> tuple[float, float]:
    """The middle 95 % of the draws that exist; NaN where none does."""
    real = draws[np.isfinite(draws)]
    if not len(real):
        return np.nan, np.nan
    low, high = np.quantile(real, [0.025, 0.975])
    return float(low), float(high)


def before(a: Float[np.ndarray, " sample"], b: Float[np.ndarray, " sample"]) -> float:
    """The probability that a is smaller than b in one draw; ties count half, draws where either is missing do not.

    Example:
        >>> before(np.array([1.0, 2.0, 3.0, np.nan]), np.array([2.0, 2.0, 1.0, 1.0]))
        0.5
    """
    both = np.isfinite(a) & np.isfinite(b)
    if not both.any():
        return np.nan
    a, b = a[both], b[both]
    return float(((a < b) + 0.5 * (a == b)).mean())


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Holm's correction: what each p-value becomes when all are tested together; missing ones stay missing.

    Example:
        >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
        [0.03, 0.06, 0.06]
    """
    given = np.asarray(p_values, dtype=float)
    adjusted = np.full_like(given, np.nan)
    order = np.argsort(given)[: np.isfinite(given).sum()]
    steps = given[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.maximum.accumulate(steps).clip(max=1)
    return adjusted


class Resampling:
    """Texts drawn with replacement, again and again: the same draws for everything scored on the same texts."""

    def __init__(self, texts: int, samples: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        drawn = (np.bincount(rng.integers(0, texts, texts), minlength=texts) for _ in range(samples))
        self._weights = np.stack([counts.astype(np.uint16) for counts in drawn])

    @property
    def samples(self) -> int:
        """How many times."""
        return len(self._weights)

    def f1(self, counts: Counts) -> Float[np.ndarray, "sample member"]:
        """F1 of every member on every draw."""
        # Texts without a decision weigh nothing; a rare label has few others.
        touched = counts.touched()
        some = counts.among(touched)
        chunks = range(0, self.samples, _CHUNK)
        return np.concatenate([some.f1(self._weights[at : at + _CHUNK, touched].astype(float)) for at in chunks])


@dataclass(frozen=True, eq=False)
class Draws:
    """Resampled scores of probes that differ in nothing but their seed."""

    counts: tuple[Counts, ...]
    """One per seed."""
    by_seed: Float[np.ndarray, "seed sample member"]
    """Only texts resampled."""
    seeds: np.ndarray
    """[sample, seed] Which seeds were drawn, with replacement."""

    @classmethod
    def of(cls, counts: Iterable[Counts], texts: Resampling, rng: np.random.Generator) -> Draws:
        """Draw as many seeds as there are, for every draw of texts."""
        each = tuple(counts)
        drawn = rng.integers(0, len(each), (texts.samples, len(each)))
        return cls(each, np.stack([texts.f1(one) for one in each]), drawn)

    @property
    def pooled(self) -> Float[np.ndarray, "sample member"]:
        """Seeds and texts resampled together: the mean over the seeds drawn."""
        samples = np.arange(len(self.seeds))
        return np.mean([self.by_seed[drawn, samples] for drawn in self.seeds.T], axis=0)

    @property
    def value(self) -> Float[np.ndarray, " member"]:
        """The mean over seeds, nothing resampled."""
        return np.mean([each.f1() for each in self.counts], axis=0)

    def over_seeds(self, values: Float[np.ndarray, " seed"]) -> Float[np.ndarray, " sample"]:
        """Draws of a number that each seed has one of, which no resampling of texts can move."""
        return values[self.seeds].mean(1)


def bootstrap(runs: Sequence[TaskRun], texts: Resampling, seed: int) -> list[dict[Whose, Draws]]:
    """The joint bootstrap, by task and kind of probe: one draw of texts serves all tasks, each task draws its seeds."""
    drawn: list[dict[Whose, Draws]] = []
    for number, run in enumerate(runs):
        counts: dict[Whose, list[Counts]] = {}
        for outcome in run.outcomes:
            counts.setdefault(outcome.of, []).append(outcome.counts)
        # Seeds of the same number start from the same weights: model, twin and control draw the same ones.
        drawn.append({of: Draws.of(own, texts, np.random.default_rng([seed, number])) for of, own in counts.items()})
    return drawn


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
