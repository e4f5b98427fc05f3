"""Spearman's rank correlation, of many draws at once."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Real
from scipy.stats import rankdata


def rank_correlation(
    one: Real[np.ndarray, "*draws member"], other: Real[np.ndarray, "*draws member"]
) -> Float[np.ndarray, "*draws"]:
    """Spearman's rho along the last axis; NaN where all values of a side are equal.

    Example:
        >>> rank_correlation(np.array([1, 2, 3, 4]), np.array([1, 3, 2, 4])).round(2).item()
        0.8
    """
    ranks = [rankdata(side, axis=-1) for side in np.broadcast_arrays(one, other)]
    left, right = (side - side.mean(-1, keepdims=True) for side in ranks)
    size = np.sqrt((left**2).sum(-1) * (right**2).sum(-1))
    return np.divide((left * right).sum(-1), size, out=np.full(np.shape(size), np.nan), where=size > 0)
