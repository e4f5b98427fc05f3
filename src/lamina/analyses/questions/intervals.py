"""Means over seeds with their intervals: documents are resampled, and from five seeds on seeds with them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import t as student

from lamina.stats.seeds import ENOUGH_SEEDS


class Spread(NamedTuple):
    """A mean over seeds with its 95 % interval; interval and p are missing where fewer than two units were drawn."""

    value: Float[np.ndarray, "*kinds"]
    low: Float[np.ndarray, "*kinds"]
    high: Float[np.ndarray, "*kinds"]
    p: Float[np.ndarray, "*kinds"]
    """Two-sided, that the value is 0."""


def over_seeds(
    values: Float[np.ndarray, " seed *kinds"],
    draws: Float[np.ndarray, " seed sample *kinds"],
    units: Int[np.ndarray, "*kinds"] | int,
) -> Spread:
    """The mean over seeds; `draws` are the same numbers over resampled documents.

    The interval is Student's around the standard error of the draws: percentiles of a bootstrap over a handful of
    documents are too narrow. Degrees of freedom follow from the documents (`units`) and, where they are drawn, from
    the seeds, weighted by their parts in the variance (Welch and Satterthwaite).

    Example:
        >>> draws = np.random.default_rng(0).normal(0.3, 0.1, (1, 1000))
        >>> found = over_seeds(np.array([0.3]), draws, 20)
        >>> round(float(found.low), 1), round(float(found.high), 1), bool(found.p < 0.05)
        (0.1, 0.5, True)
    """
    seeds = len(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.asarray(values.mean(0), float)
        units = np.where(np.asarray(units) > 1, units, np.nan)
        # A bootstrap draws around the mean of the sample, so its variance is too small by a factor of (n - 1) / n.
        variance = _variance(draws.mean(0)) * units / (units - 1)
        freedom = units - 1
        if seeds >= ENOUGH_SEEDS:
            between = values.var(0, ddof=1) / seeds
            parts = variance**2 / freedom + between**2 / (seeds - 1)
            variance = variance + between
            freedom = np.where(parts > 0, variance**2 / parts, freedom)
        error = np.sqrt(variance)
        reach = student.ppf(0.975, freedom) * error
        p = 2 * student.sf(np.abs(value) / error, freedom)
        # Where all documents are alike there is no error to divide by: as sure as flipping their signs can be.
        p = np.where(error > 0, p, np.where(value == 0, 1.0, 2.0 ** (1 - units)))
    return Spread(value, value - reach, value + reach, np.where(np.isfinite(value) & np.isfinite(units), p, np.nan))


def _variance(draws: Float[np.ndarray, " sample *kinds"]) -> Float[np.ndarray, "*kinds"]:
    """Over the samples that drew anything."""
    real = np.isfinite(draws)
    count = np.maximum(real.sum(0), 1)
    mean = np.where(real, draws, 0).sum(0) / count
    squares = np.where(real, np.square(draws - mean), 0).sum(0) / count
    return np.where(real.any(0), squares, np.nan)
