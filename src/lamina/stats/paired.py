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
