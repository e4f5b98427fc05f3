"""95 % intervals: of bootstrap draws, of a mean of few units, of a share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from jaxtyping import Bool, Float, Real
from scipy.special import ndtr, ndtri, stdtr, stdtrit

LEVEL = 0.95
"""Of every interval."""
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)


def interval(draws: Real[np.ndarray, " sample"]) -> tuple[float, float]:
    """The middle 95 % of the draws that exist; NaN where none does.

    Example:
        >>> interval(np.array([1.0, 2.0, 3.0, np.nan]))
        (1.05, 2.95)
    """
    low, high = column_intervals(np.asarray(draws, float)[:, None])
    return float(low[0]), float(high[0])


def column_intervals(draws: Real[np.ndarray, " sample *kinds"]) -> tuple[np.ndarray, np.ndarray]:
    """The middle 95 % over samples of each kind; draws that do not exist (NaN) are left out.

    Example:
        >>> low, high = column_intervals(np.array([[0.5, np.nan], [1.0, np.nan], [np.nan, np.nan]]))
        >>> low.round(4).tolist(), high.round(4).tolist()
        ([0.5125, nan], [0.9875, nan])
    """
    draws = np.asarray(draws, float)
    finite = np.isfinite(draws)
    if finite.all() and len(draws):
        low, high = np.quantile(draws, TAILS, axis=0)
        return np.asarray(low), np.asarray(high)
    low, high = np.full(draws.shape[1:], np.nan), np.full(draws.shape[1:], np.nan)
    some = finite.any(0)
    if some.any():
        masked = np.where(finite, draws, np.nan)[:, some]
        low[some], high[some] = np.nanquantile(masked, TAILS, axis=0)
    return low, high


def ratio_intervals(
    sums: Real[np.ndarray, " sample *kinds"], counts: Real[np.ndarray, " sample *counted"]
) -> tuple[np.ndarray, np.ndarray]:
    """The 95 % interval of `sums / counts` over samples; samples that drew nothing are left out.

    Example:
        >>> low, high = ratio_intervals(np.array([[1.0], [2.0], [0.0]]), np.array([2.0, 2.0, 0.0]))
        >>> low.round(4).tolist(), high.round(4).tolist()
        ([0.5125], [0.9875])
    """
    sums = np.asarray(sums, float)
    shape = np.shape(counts)
    counts = np.asarray(counts, float).reshape(*shape, *[1] * (sums.ndim - len(shape)))
    return column_intervals(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))


@cache
def widening(units: int) -> float:
    """How much wider than its bootstrap draws a 95 % interval is: 1 for many units.

    A bootstrap's variance is too small by (n - 1) / n, and Student's distribution is wider than the normal one
    (Hesterberg 2015).

    Example:
        >>> round(widening(5), 2), round(widening(10_000), 2)
        (1.58, 1.0)
    """
    n = max(units, 2)
    return float(stdtrit(n - 1, TAILS[1]) / ndtri(TAILS[1]) * np.sqrt(n / (n - 1)))


def widened_intervals(
    values: Float[np.ndarray, " *kinds"],
    draws: Real[np.ndarray, " sample *kinds"],
    units: Real[np.ndarray, " *kinds"] | int,
) -> tuple[np.ndarray, np.ndarray]:
    """The middle 95 % of draws around their value, wider where units are few (see `widening`).

    NaN where fewer than two units were resampled.

    Example:
        >>> draws = np.array([[0.0], [1.0], [2.0]])
        >>> low, high = widened_intervals(np.array([1.0]), draws, 5)
        >>> low.round(2).tolist(), high.round(2).tolist()
        ([-0.5], [2.5])
    """
    values = np.asarray(values, float)
    counts = np.broadcast_to(np.asarray(units, float), values.shape)
    several = counts > 1
    unique, place = np.unique(np.where(several, counts, 2), return_inverse=True)
    wider = np.array([widening(int(count)) for count in unique])[place].reshape(values.shape)
    low, high = column_intervals(values + (np.asarray(draws, float) - values) * wider)
    return np.where(several, low, np.nan), np.where(several, high, np.nan)


def as_normal(statistic: Real[np.ndarray, "*member"], units: Real[np.ndarray, "*counted"] | int) -> np.ndarray:
    """Estimates over their bootstrap errors, as far out on the normal scale as Student's distribution says they are.

    With few units a bootstrap's errors are too small and vary. Far out, where the largest of many statistics lies, a
    common factor (`widening`) is not enough.

    Example:
        >>> as_normal(np.array([2.0, 4.0]), 10).round(2).tolist(), as_normal(np.array([4.0]), 10**6).round(2).tolist()
        ([1.69, 2.86], [4.0])
    """
    n = np.maximum(units, 2)
    return np.asarray(-ndtri(stdtr(n - 1, -np.abs(statistic) * np.sqrt((n - 1) / n))) * np.sign(statistic))


def from_normal(critical: float, units: Real[np.ndarray, "*counted"] | int) -> np.ndarray:
    """The inverse of `as_normal`: how many bootstrap errors an interval reaches.

    Example:
        >>> bool(np.isclose(as_normal(from_normal(2.5, 8), 8), 2.5))
        True
    """
    n = np.maximum(units, 2)
    return np.asarray(-stdtrit(n - 1, ndtr(-critical)) * np.sqrt(n / (n - 1)))


def student_interval(values: Float[np.ndarray, " unit"]) -> tuple[float, float]:
    """Student's interval of a mean; NaN with fewer than two values.

    Example:
        >>> [round(end, 3) for end in student_interval(np.array([1.0, 2.0, 3.0]))]
        [-0.484, 4.484]
    """
    n = len(values)
    if n < 2:
        return np.nan, np.nan
    reach = stdtrit(n - 1, TAILS[1]) * np.std(values, ddof=1) / np.sqrt(n)
    return float(np.mean(values) - reach), float(np.mean(values) + reach)


def share_interval(right: int, count: int) -> tuple[float, float]:
    """Clopper and Pearson's interval of a share: holds where all items came out alike and resampling shows no spread.

    Example:
        >>> [round(end, 3) for end in share_interval(100, 100)]
        [0.964, 1.0]
    """
    if not count:
        return np.nan, np.nan
    # Imported here: it takes longer than everything else that a command needs of scipy.
    from scipy.stats import binomtest

    ends = binomtest(right, count).proportion_ci(LEVEL, "exact")
    return float(ends.low), float(ends.high)


def first_possible(as_observed: Callable[[float], Bool[np.ndarray, " sample"]]) -> float:
    """The first of the truths on a path, from 0 to 1, that a test does not reject: the end of an inverted interval.

    A truth is rejected where fewer than 2.5 % of its draws are as far out as what was observed. For statistics that
    noise can only raise, or only lower, whose draws' quantiles may miss the truth nearly always.

    Example:
        >>> errors = np.random.default_rng(0).normal(0, 0.1, 10_000)
        >>> end = first_possible(lambda truth: truth + errors >= 0.5)
        >>> round(end, 1)  # 0.5 - 1.96 * 0.1
        0.3
    """
    if as_observed(0.0).mean() >= TAILS[0]:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if as_observed(middle).mean() >= TAILS[0] else (middle, high)
    return high


_HALVINGS = 10
