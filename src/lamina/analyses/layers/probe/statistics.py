"""The numbers behind the paper's figures, and how sure they are: pure functions of arrays.

Scores `p` are those of the cumulative probes P(0)..P(L); the last axis is always the layer, so that every
statistic of a score is, unchanged, a statistic of thousands of resampled scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from lamina.probes.bank import DecisionTally
from lamina.stats.intervals import first_possible, widening
from lamina.stats.seeds import ENOUGH_SEEDS, seed_shares, shared_by_seeds
from lamina.stats.units import Units
from lamina.tasks.task import Metric

_CHUNK = 128
"""Samples weighed at a time: bounds memory, changes no number."""
_BOUNDS: dict[Metric, tuple[float, float]] = {"r2": (-np.inf, 1.0), "correlation": (-1.0, 1.0)}
"""Metric -> what its values lie between; 0 and 1 for all others."""


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


def largest_kl(reach: float, layers: int) -> float:
    """The most bits from equal weights that softmax weights can have whose logits lie within `reach` of 0.

    Example:
        >>> round(largest_kl(0.06, 7), 4), round(largest_kl(3.0, 7), 2)
        (0.0026, 2.66)
    """
    raised = np.exp(np.where(np.tri(layers - 1, layers), reach, -reach)) if layers > 1 else np.ones((1, 1))
    return float(kl_from_uniform(raised / raised.sum(-1, keepdims=True)).max())


def differentials(p: Float[np.ndarray, "*samples layer"]) -> Float[np.ndarray, "*samples step"]:
    """What each layer adds: D(l) = P(l) - P(l-1), for l = 1..L."""
    return np.diff(p, axis=-1)


def moment(p: Float[np.ndarray, "*samples layer"]) -> np.ndarray:
    """The differentials times their layers, summed: the expected layer times the whole gain."""
    return differentials(p) @ np.arange(1, p.shape[-1])


def expected_layer(p: Float[np.ndarray, "*samples layer"]) -> np.ndarray:
    """The mean layer under the differentials, negative ones kept; NaN where P(L) = P(0).

    Example:
        >>> round(float(expected_layer(np.array([0.5, 0.75, 0.875]))), 3)
        1.333
    """
    whole = p[..., -1] - p[..., 0]
    return np.divide(moment(p), whole, out=np.full_like(whole, np.nan, dtype=float), where=whole != 0)


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


def kl_interval(p: Float[np.ndarray, " layer"], sampled: Float[np.ndarray, "sample layer"]) -> tuple[float, float]:
    """The 95 % interval of K(D), by inverting tests.

    Noise can only raise K(D) where gains are equal and only lower it where one layer has everything, so the quantiles
    of its draws may miss the truth nearly always. Instead, possible truths are tested, on a path from equal gains
    through those found to all in the largest. With the draws' errors added, each truth has a distribution of K(D); the
    interval has the truths under which the K(D) found is in the middle 95 %.

    Example:
        >>> errors = np.random.default_rng(0).normal(0, 0.05, (1000, 4))
        >>> p = np.array([0.5, 0.6, 0.7, 0.8])
        >>> kl_interval(p, p + errors)[0]  # gains may be equal
        0.0
    """
    gains = differentials(p).clip(min=0)
    if len(gains) < 2 or not gains.any():
        return np.nan, np.nan
    estimate = float(kl_of_differentials(p))
    errors = differentials(sampled) - differentials(p)
    equal = np.full_like(gains, gains.mean())
    largest = np.where(np.arange(len(gains)) == gains.argmax(), gains.sum(), 0.0)

    def truth(start: Float[np.ndarray, " step"], share: float) -> Float[np.ndarray, " step"]:
        return start + share * (gains - start)

    # Rounding must not decide whether two equal numbers are equal.
    near = first_possible(lambda share: _kl_of_gains(truth(equal, share) + errors) >= estimate - 1e-9)
    far = first_possible(lambda share: _kl_of_gains(truth(largest, share) + errors) <= estimate + 1e-9)
    least, most = (float(_kl_of_gains(truth(*end))) for end in ((equal, near), (largest, far)))
    return min(least, estimate), max(most, estimate)


def _kl_of_gains(gains: Float[np.ndarray, "*samples step"]) -> np.ndarray:
    return kl_of_differentials(np.insert(np.cumsum(gains, -1), 0, 0.0, axis=-1))


class Resampling:
    """Documents (texts where there is one document) drawn again and again, the same for all that is scored on them.

    How often a sample draws a document follows from its name and the seed (`weights_of`): the same document is drawn
    alike in every corpus, task and result. Two things matter with few documents only. Draws are spread by `widening`.
    And for F1 and accuracy, every draw adds a right and a wrong decision of random weight (on average 1/2 each,
    Jeffreys' prior for a share): ten right decisions out of ten do not show that the eleventh is right.
    """

    def __init__(self, units: Units | int, samples: int, seed: int) -> None:
        """`units` has the unit of every text by its number; where texts have no names, how many there are."""
        self.units = Units.of(map(str, range(units)), "text") if isinstance(units, int) else units
        owner = np.array(self.units.owner, int)
        self._order = np.argsort(owner, kind="stable")
        self._starts = np.searchsorted(owner[self._order], np.arange(len(self.units)))
        self._weights = self.units.weights(samples=samples, seed=seed)
        self._added = np.random.default_rng(seed).gamma(0.5, size=(samples, 2))

    @property
    def samples(self) -> int:
        """How many times."""
        return len(self._weights)

    def count(self, tally: DecisionTally) -> int:
        """Units with anything counted."""
        return len(self._by_unit(tally).touched())

    def score(self, tally: DecisionTally) -> Float[np.ndarray, "sample member"]:
        """The score of every member on every draw."""
        return self.scores([tally])[0]

    def scores(self, tallies: Sequence[DecisionTally]) -> Float[np.ndarray, "tally sample member"]:
        """The same for several tallies of one metric and as many members, by one product: many small ones are slow."""
        summed = [self._by_unit(tally) for tally in tallies]
        counted = [tally.touched() for tally in summed]
        # Units without a decision weigh nothing; a rare label has few others.
        touched = np.unique(np.concatenate(counted))
        whole = DecisionTally(tallies[0].metric, np.concatenate([tally.among(touched).sums for tally in summed], 1))
        added = _right_and_wrong(whole)
        if added is not None:
            whole = DecisionTally(whole.metric, np.concatenate([whole.sums, added], 2))
        drawn = []
        for start in range(0, self.samples, _CHUNK):
            some = slice(start, start + _CHUNK)
            weights = self._weights[some, touched].astype(float)
            drawn.append(whole.value(weights if added is None else np.hstack([weights, self._added[some]])))
        bounds = _BOUNDS.get(whole.metric, (0.0, 1.0))
        by_tally = np.split(np.concatenate(drawn), len(tallies), axis=1)
        values = [tally.value() for tally in tallies]
        widened = zip(values, by_tally, (widening(len(units)) for units in counted), strict=True)
        return np.stack([(value + (some - value) * wider).clip(*bounds) for value, some, wider in widened])

    def _by_unit(self, tally: DecisionTally) -> DecisionTally:
        return DecisionTally(tally.metric, np.add.reduceat(tally.sums[:, :, self._order], self._starts, axis=2))


def _right_and_wrong(tally: DecisionTally) -> Float[np.ndarray, "part member 2"] | None:
    """As two units: one right decision, and one wrong one; None where the score is not a share of decisions."""
    if tally.metric not in ("f1", "accuracy"):
        return None
    added = np.ones((*tally.sums.shape[:2], 2))
    added[0, :, 1] = 0
    return added


@dataclass(frozen=True, eq=False)
class ScoreDraws:
    """Resampled scores of probes that differ in nothing but their seed, or in the seed of the model they are of.

    A unit here is what varies beside texts: one seed of the probes; where models of several fine-tuning seeds were
    probed, one of these models with all its probes, since probes of one model have that model in common.
    """

    tallies: tuple[DecisionTally, ...]
    """One per seed of the probes, and per model."""
    by_seed: Float[np.ndarray, "seed sample member"]
    """Only documents (or texts) resampled."""
    units: tuple[int, ...]
    """The unit of each tally."""
    shares: Float[np.ndarray, "sample unit"]
    """What each draw adds of every unit's distance from the mean over units."""
    resampling: Resampling
    """The draws of documents."""

    @classmethod
    def of(
        cls,
        tallies: Iterable[DecisionTally],
        texts: Resampling,
        rng: np.random.Generator,
        units: Sequence[int] | None = None,
    ) -> ScoreDraws:
        """Resample texts; from `ENOUGH_SEEDS` units on, units vary too. By default, every tally is a unit."""
        listed = tuple(tallies)
        unit_of_tally = tuple(range(len(listed)) if units is None else units)
        shares = seed_shares(len(set(unit_of_tally)), texts.samples, rng)
        return cls(listed, texts.scores(listed), unit_of_tally, shares, texts)

    @cached_property
    def pooled(self) -> Float[np.ndarray, "sample member"]:
        """The mean over units; texts and, from `ENOUGH_SEEDS` units on, units vary together."""
        by_unit = means_by_unit(self.by_seed, self.units)
        if len(by_unit) < ENOUGH_SEEDS:
            return by_unit.mean(0)
        values = means_by_unit(self._values, self.units)
        drawn = shared_by_seeds(by_unit) + self.shares @ (values - self.value)
        return drawn.clip(*_BOUNDS.get(self.tallies[0].metric, (0.0, 1.0)))

    @property
    def value(self) -> Float[np.ndarray, " member"]:
        """The mean over units, nothing resampled."""
        return self.by_unit.mean(0)

    @property
    def by_unit(self) -> Float[np.ndarray, "unit member"]:
        """The values themselves."""
        return means_by_unit(self._values, self.units)

    @property
    def drawn_by_unit(self) -> Float[np.ndarray, "unit sample member"]:
        """Their draws over texts, not widened: what variances are taken of."""
        values = self.by_unit[:, None]
        return values + (means_by_unit(self.by_seed, self.units) - values) / widening(self.texts)

    @cached_property
    def texts(self) -> int:
        """How many documents (or texts) were resampled: those with a decision."""
        return max(self.resampling.count(tally) for tally in self.tallies)

    @property
    def _values(self) -> Float[np.ndarray, "seed member"]:
        return np.stack([tally.value() for tally in self.tallies])

    def over_seeds(self, values: Float[np.ndarray, " seed"]) -> Float[np.ndarray, " sample"]:
        """Draws of a number that each seed has one of, which no resampling of texts can move."""
        by_unit = means_by_unit(values, self.units)
        return by_unit.mean() + self.shares @ (by_unit - by_unit.mean())


def means_by_unit(values: np.ndarray, units: Sequence[int]) -> np.ndarray:
    """[seed, ...] -> [unit, ...]: the mean over the seeds of every unit, units in ascending order.

    Example:
        >>> means_by_unit(np.array([1.0, 2.0, 5.0, 6.0]), [0, 0, 3, 3]).tolist()
        [1.5, 5.5]
    """
    unit_of_seed = np.asarray(units)
    return np.stack([values[unit_of_seed == unit].mean(0) for unit in np.unique(unit_of_seed)])
