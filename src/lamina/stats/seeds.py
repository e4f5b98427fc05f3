"""Means over models that differ by their seed alone, with what the seeds add to an interval."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from lamina.stats.intervals import TAILS

ENOUGH_SEEDS = 5
"""Minimum number of seeds to estimate their spread; with fewer, intervals are over texts, for the models trained."""


def seed_shares(seeds: int, samples: int, rng: np.random.Generator) -> Float[np.ndarray, "sample seed"]:
    """Shares of the seeds' distances from their mean: sums of them follow Student's t around it.

    Drawing a handful of seeds with replacement would make intervals too narrow; these give the interval of a mean of
    so few normal numbers, and keep what several numbers of one seed have in common. With too few seeds, all are 0.

    Example:
        >>> values = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
        >>> drawn = 3 + seed_shares(5, 200_000, np.random.default_rng(0)) @ (values - 3)
        >>> np.quantile(drawn, [0.025, 0.975]).round().tolist()  # scipy.stats.t.interval(0.95, 4, 3, 0.5 ** 0.5)
        [1.0, 5.0]
    """
    if seeds < ENOUGH_SEEDS:
        return np.zeros((samples, seeds))
    heavy = np.sqrt(rng.chisquare(seeds - 1, (samples, 1)) / (seeds - 1))
    return rng.standard_normal((samples, seeds)) / heavy / np.sqrt(seeds * (seeds - 1))


def draws_over_seeds(values: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Draws of a mean over seeds, [sample, ...], of their values, [seed, ...], and draws, [seed, sample, ...].

    In each sample, all seeds have the same documents. From `ENOUGH_SEEDS` on the seeds vary too (`seed_shares`); with
    fewer, the interval is over documents alone and holds for these seeds. Two measures of as many seeds are drawn
    alike, so that their difference can be taken draw by draw.

    Example:
        >>> draws_over_seeds(np.array([1.5, 4.5]), np.array([[1.0, 2.0], [3.0, 6.0]])).tolist()
        [2.0, 4.0]
    """
    seeds, samples = draws.shape[:2]
    shares = seed_shares(seeds, samples, np.random.default_rng(seeds))
    return draws.mean(0) + np.tensordot(shares, values - values.mean(0), 1)


def shared_by_seeds(by_seed: Float[np.ndarray, "seed sample member"]) -> Float[np.ndarray, "sample member"]:
    """Draws of the mean over seeds, as far as they move because all seeds find the same units hard.

    What units do to one seed alone is also part of the seeds' distances from their mean, which `seed_shares` adds. To
    count it once, the draws are shrunk to what the seeds' draws have in common.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> alone = shared_by_seeds(rng.standard_normal((5, 1000, 2)))
        >>> together = shared_by_seeds(np.tile(rng.standard_normal((1000, 2)), (5, 1, 1)))
        >>> bool(alone.std() < 0.2), together.std().round(1).item()
        (True, 1.0)
    """
    mean = by_seed.mean(0)
    members = np.isfinite(mean).any(0)
    samples = np.isfinite(mean[:, members]).all(1)
    draws = mean[np.ix_(samples, members)]
    if len(draws) <= draws.shape[1] or not draws.size:
        return mean
    centre = draws.mean(0)
    alone = _alone(by_seed[:, samples][:, :, members])
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(draws.T)))
    some = values > 1e-9 * max(values.max(), 1e-12)
    root = np.sqrt(values[some])
    whitened = vectors[:, some] / root
    left, turned = np.linalg.eigh(np.eye(len(root)) - whitened.T @ alone @ whitened)
    shrink = whitened @ (turned * np.sqrt(left.clip(0, 1))) @ turned.T @ (vectors[:, some] * root).T
    drawn = mean.copy()
    drawn[np.ix_(samples, members)] = centre + (draws - centre) @ shrink
    return drawn


def seed_interval(
    values: Float[np.ndarray, " seed"], draws: Float[np.ndarray, "seed sample"], units: int
) -> tuple[float, float]:
    """The 95 % interval of a mean over seeds: variance over units plus variance over seeds, by Satterthwaite.

    NaN with fewer than `ENOUGH_SEEDS` seeds, which are too few to estimate their spread.

    Args:
        values: of every seed.
        draws: the same from resampled units, not widened; the same draws for all seeds.
        units: how many units were resampled.

    Example:
        >>> values = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
        >>> low, high = seed_interval(values, np.repeat(values[:, None], 100, 1), 40)
        >>> round(low, 2), round(high, 2)  # scipy.stats.t.interval(0.95, 4, 3, 0.5 ** 0.5)
        (1.04, 4.96)
    """
    if len(values) < ENOUGH_SEEDS:
        return np.nan, np.nan
    spread = _Spread.of(values[:, None], draws[:, :, None], units)
    variance, reach = spread.along(np.ones(1))
    half = reach * float(np.sqrt(variance))
    return float(values.mean()) - half, float(values.mean()) + half


def seed_spread(values: Float[np.ndarray, " seed"]) -> tuple[float, float, float]:
    """The standard deviation over seeds, and its 95 % interval by the chi-square distribution.

    Example:
        >>> [round(number, 2) for number in seed_spread(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))]
        [1.58, 0.95, 4.54]
    """
    from scipy.stats import chi2

    free = len(values) - 1
    if free < 1:
        return np.nan, np.nan, np.nan
    spread = float(np.std(values, ddof=1))
    low, high = (float(spread * np.sqrt(free / chi2.ppf(tail, free))) for tail in (0.975, 0.025))
    return spread, low, high


def seed_ratio_interval(
    tops: Float[np.ndarray, " seed"],
    bottoms: Float[np.ndarray, " seed"],
    draws: tuple[Float[np.ndarray, "seed sample"], Float[np.ndarray, "seed sample"]],
    units: int,
) -> tuple[float, float]:
    """The 95 % interval of the mean top over the mean bottom, by Fieller's theorem; see `seed_interval`.

    It has the ratios m at which the mean of `top - m * bottom` does not differ significantly from 0. NaN with fewer
    than `ENOUGH_SEEDS` seeds, and where the bottom itself does not: then any ratio is possible.

    Args:
        tops: of every seed.
        bottoms: of every seed.
        draws: tops and bottoms from resampled units, not widened; the same draws for all seeds.
        units: how many units were resampled.

    Example:
        >>> tops, bottoms = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.ones(5)
        >>> still = tuple(np.repeat(each[:, None], 100, 1) for each in (tops, bottoms))
        >>> [round(end, 2) for end in seed_ratio_interval(tops, bottoms, still, 40)]
        [1.04, 4.96]
    """
    if len(tops) < ENOUGH_SEEDS:
        return np.nan, np.nan
    spread = _Spread.of(np.stack([tops, bottoms], -1), np.stack(draws, -1), units)
    top, bottom = float(tops.mean()), float(bottoms.mean())
    if not bottom:
        return np.nan, np.nan
    _, reach = spread.along(np.array([1.0, -top / bottom]))
    (tt, tb), (_, bb) = reach**2 * spread.both
    a, b, c = bottom**2 - bb, top * bottom - tb, top**2 - tt
    if not a > 0:
        return np.nan, np.nan
    root = float(np.sqrt(max(b**2 - a * c, 0.0)))
    return float((b - root) / a), float((b + root) / a)


class _Spread(NamedTuple):
    """The covariance of means over seeds, in its two parts."""

    by_units: Float[np.ndarray, "kind kind"]
    """Because all seeds find the same units hard."""
    by_seeds: Float[np.ndarray, "kind kind"]
    units: int
    seeds: int

    @classmethod
    def of(
        cls, values: Float[np.ndarray, "seed kind"], draws: Float[np.ndarray, "seed sample kind"], units: int
    ) -> _Spread:
        known = draws[:, np.isfinite(draws).all((0, 2))]
        n = max(units, 2)
        # A bootstrap's variance is too small by (n - 1) / n.
        common = (np.atleast_2d(np.cov(known.mean(0).T)) - _alone(known)) * n / (n - 1)
        lengths, directions = np.linalg.eigh(common)
        shared = (directions * lengths.clip(0)) @ directions.T
        return cls(shared, np.atleast_2d(np.cov(values.T)) / len(values), n, len(values))

    @property
    def both(self) -> Float[np.ndarray, "kind kind"]:
        return self.by_units + self.by_seeds

    def along(self, contrast: Float[np.ndarray, " kind"]) -> tuple[float, float]:
        """Variance of a contrast, and Student's quantile with Satterthwaite's degrees of freedom."""
        parts = [max(float(contrast @ part @ contrast), 0.0) for part in (self.by_units, self.by_seeds)]
        whole = sum(parts)
        if not whole:
            return 0.0, 0.0
        inverse = sum(part**2 / free for part, free in zip(parts, (self.units - 1, self.seeds - 1), strict=True))
        return whole, float(stdtrit(whole**2 / inverse, TAILS[1]))


def _alone(by_seed: Float[np.ndarray, "seed sample member"]) -> Float[np.ndarray, "member member"]:
    """The covariance of the mean over seeds, as far as units move one seed alone."""
    seeds, samples = by_seed.shape[:2]
    apart = by_seed - by_seed.mean(0)
    apart = apart - apart.mean(1, keepdims=True)
    return np.einsum("sbi,sbj->ij", apart, apart) / (samples - 1) / (seeds - 1) / seeds
