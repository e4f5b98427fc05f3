"""Means over models that differ by their seed alone, with what the seeds add to an interval."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

ENOUGH_SEEDS = 5
"""With fewer, their spread cannot be told: intervals are over texts, for the mean of the models that were trained."""


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
