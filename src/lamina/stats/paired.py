"""One paired difference of two systems on the same units."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Real

from lamina.stats.family import bootstrap_family, sign_flip_family
from lamina.stats.status import LEAST_UNITS, Contrast


def paired_difference(
    differences: Real[np.ndarray, " unit"], counts: Real[np.ndarray, " unit"], *, seed: int = 0
) -> Contrast:
    """The mean of differences over everything counted; units vary as wholes. A family of one.

    Example:
        >>> found = paired_difference(np.array([2.0, 1, 0, 3, 2, 1, 2]), np.full(7, 4))
        >>> [round(float(number), 2) for number in found[:4]]
        [0.39, 0.17, 0.62, 0.03]
    """
    return sign_flip_family(np.asarray(differences, float), np.asarray(counts, float), seed=seed).one()


def ratio_differences(
    one: Float[np.ndarray, "2 unit"], other: Float[np.ndarray, "2 unit"]
) -> tuple[Float[np.ndarray, " unit"], Float[np.ndarray, " unit"]]:
    """By unit, differences and counts of two scores that are ratios of sums: what `sign_flip_family` takes.

    Where the two do not count the same (F1, whose denominator has the predictions in it), differences are of residuals
    from the value that both have together; their sum by that of the counts is the difference of the scores either way.

    Args:
        one: hits and counts of one system, summed by unit.
        other: of the other.

    Example:
        >>> ahead, counts = ratio_differences(np.array([[2.0, 1.0], [4.0, 2.0]]), np.array([[1.0, 1.0], [2.0, 4.0]]))
        >>> round(float(ahead.sum() / counts.sum()), 6), round(3 / 6 - 2 / 6, 6)
        (0.166667, 0.166667)
    """
    if np.array_equal(one[1], other[1]):
        return one[0] - other[0], one[1]
    totals = one.sum(1), other.sum(1)
    together = (totals[0][0] + totals[1][0]) / max(totals[0][1] + totals[1][1], 1e-300)
    residuals = [
        (hits - together * counts) / max(total[1], 1e-300)
        for (hits, counts), total in zip((one, other), totals, strict=True)
    ]
    counts = (one[1] + other[1]) / 2
    return (residuals[0] - residuals[1]) * counts.sum(), counts


def drawn_contrast(
    estimate: float, draws: Float[np.ndarray, " sample"], units: int, *, least: int = LEAST_UNITS
) -> Contrast:
    """A contrast that is no sum over units, with its bootstrap draws. A family of one.

    Example:
        >>> draws = np.random.default_rng(0).normal(0.3, 0.1, 1000)
        >>> drawn_contrast(0.3, draws, 40).p < 0.05
        True
    """
    return bootstrap_family(np.array([estimate]), np.asarray(draws, float)[:, None], units, least=least).one()
