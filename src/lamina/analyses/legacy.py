"""What analyses used before `lamina.stats`; goes with the last of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Real
from scipy.stats import norm
from scipy.stats import t as student

from lamina.findings import Finding, number
from lamina.stats.status import NEGLIGIBLE, SURE, Status

Interval = tuple[float, float]
MOST_FINDINGS = 4
_STEEPEST = {True: 20.0, False: 1e6}
_BISECTIONS = 60
DIFFERENCE = ("difference", "diff_low", "diff_high", "p_adjusted")


@dataclass(frozen=True)
class LegacyText(Finding):
    """A finding whose sentence was written by hand."""

    written: str = ""

    @property
    def text(self) -> str:
        return f"{self.written} {self.note}".strip()


def legacy_finding(text, status, value=None, low=None, high=None, against=None):  # noqa
    return LegacyText(text, "", status, value, low, high, written=text)


def status_of(
    low: float, high: float, against: float, interval: Interval | None = None, *, negligible: float = NEGLIGIBLE
) -> Status:
    """Clear where the interval does not hold `against`, null where it lies close around it, open otherwise.

    Where `against` has an interval too, clear means that the two do not overlap.

    Example:
        >>> status_of(0.89, 0.91, 0.51), status_of(0.4, 0.7, 0.51), status_of(0.50, 0.52, 0.51)
        ('clear', 'open', 'null')
        >>> status_of(0.89, 0.91, 0.86, (0.83, 0.90))
        'open'
    """
    bottom, top = interval or (against, against)
    if not all(map(math.isfinite, (low, high, against, bottom, top))):
        return "open"
    if top - negligible <= low and high <= bottom + negligible:
        return "null"
    return "open" if low <= top and bottom <= high else "clear"


def finding(
    text: str,
    value: float,
    low: float,
    high: float,
    against: float,
    interval: Interval | None = None,
    *,
    negligible: float = NEGLIGIBLE,
) -> Finding:
    """A finding whose status the interval decides; `{number}`, `{against}` in the text are filled in.

    `interval` is that of `against`, where it has one.

    Example:
        >>> finding("Layer 3 is best: F1 {number}; its twin reaches {against}.", 0.9, 0.89, 0.91, 0.51).text
        'Layer 3 is best: F1 .90 [.89, .91]; its twin reaches .51.'
    """
    beside = number(against, *(interval or (None, None)))
    said = text.format(number=number(value, low, high), against=beside)
    return legacy_finding(
        said, status_of(low, high, against, interval, negligible=negligible), value, low, high, against
    )


class Difference(NamedTuple):
    """A mean difference per counted thing; interval and p are missing where fewer than two units have any."""

    value: Float[np.ndarray, "*kinds"]
    low: Float[np.ndarray, "*kinds"]
    """95 %, not corrected for several tests."""
    high: Float[np.ndarray, "*kinds"]
    p: Float[np.ndarray, "*kinds"]
    """Two-sided, that the difference is 0."""


def paired_difference(
    differences: Real[np.ndarray, " unit *kinds"], counts: Real[np.ndarray, " unit"], *, whole: bool = True
) -> Difference:
    """The mean of differences over everything counted; units vary as wholes.

    The interval is Student's with the jackknife's standard error, leaving out one unit at a time: with few units of
    unequal size it is a little too large rather than too small. The test is that of flipped signs (see
    `sign_flip_p`): far out, where corrected tests look, Student's would be too sure of differences that are mostly of
    one sign.

    Args:
        differences: summed over the unit: hits of one system minus hits of another.
        counts: of the things summed over.
        whole: whether differences are whole numbers.

    Example:
        >>> found = paired_difference(np.array([2.0, 1.0, 0.0, 3.0]), np.array([4, 4, 4, 4]))
        >>> [round(float(each), 2) for each in found]
        [0.38, -0.14, 0.89, 0.22]
    """
    held = counts > 0
    units, total = int(held.sum()), float(counts.sum())
    missing = np.full(differences.shape[1:], np.nan)
    own, weights = differences[held].astype(float), counts[held].astype(float)
    value = own.sum(0) / total if units else missing
    if units < 2:
        return Difference(value, missing, missing, missing)
    along = (-1, *[1] * (own.ndim - 1))
    moved = (own - value * weights.reshape(along)) / (total - weights).reshape(along)
    error = np.sqrt((units - 1) / units * np.square(moved).sum(0))
    reach = student.ppf(0.975, units - 1) * error
    return Difference(value, value - reach, value + reach, sign_flip_p(own, whole=whole))


def sign_flip_p(differences: Real[np.ndarray, " unit *kinds"], *, whole: bool = True) -> Float[np.ndarray, "*kinds"]:
    """The share of sign flips whose sum is as far from 0 as the sum of these differences, two-sided.

    Where two systems are alike, a unit is as likely to be ahead as behind, so all flips are equally likely. There are
    too many to try: the share is Lugannani and Rice's saddlepoint approximation, which is good to a few tenths of its
    size even for shares of one in a million. No p is below that of all units on one side.

    Args:
        differences: one sum per unit.
        whole: whether they are whole numbers: flipped sums are then 2 apart, which the approximation makes up for.

    Example:
        >>> sign_flip_p(np.array([1.0] * 13 + [-1.0])).round(4).item(), 2 * (1 + 14) / 2**14
        (0.0022, 0.0018310546875)
    """
    own = differences.astype(float)
    if not whole:
        own = own / np.maximum(np.abs(own).mean(0), np.finfo(float).tiny)
    reached = np.maximum(np.abs(own.sum(0)) - whole, 0)
    low, high = np.zeros_like(reached), np.full_like(reached, _STEEPEST[whole])
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        below = (own * np.tanh(middle * own)).sum(0) < reached
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    tilted = high * own
    # log cosh, and 1 / cosh squared.
    cumulant = (np.logaddexp(tilted, -tilted) - np.log(2)).sum(0)
    curvature = (np.square(own) * (1 - np.square(np.tanh(tilted)))).sum(0)
    steps = np.sqrt(np.maximum(2 * (high * reached - cumulant), 0))
    # Near 0 the approximation is 0 / 0, and the share is 1.
    far = steps > 1e-3
    wide = np.where(far, np.maximum(high * np.sqrt(curvature), np.finfo(float).tiny), 1)
    tail = norm.sf(steps) + norm.pdf(steps) * (1 / wide - 1 / np.where(far, steps, 1))
    # Where nearly all units are on one side the approximation breaks down; Chernoff's bound holds everywhere.
    tail = np.minimum(tail, np.exp(-np.square(steps) / 2))
    return np.where(far, np.clip(2 * tail, 2.0 ** (1 - len(own)), 1), 1.0)


def surely_ahead(rows: pd.DataFrame) -> pd.Series:
    """Which rows show a lead that earns a name: the interval lies above 0, and so does the corrected test.

    Both are asked, since each guards against another kind of luck: `p_adjusted` against that of many tries, the
    interval (where it is cross-fitted) against that of being the best of them.

    Example:
        >>> rows = [(0.2, 0.1, 0.3, 0.01), (0.2, 0.1, 0.3, 0.2), (-0.2, -0.3, -0.1, 0.01)]
        >>> surely_ahead(pd.DataFrame(rows, columns=list(DIFFERENCE))).tolist()
        [True, False, False]
    """
    return (rows["p_adjusted"] < SURE) & (rows["diff_low"] > 0)


def status_of_difference(low: float, high: float, p_adjusted: float) -> Status:
    """As `status_of` says of its interval, but clear only where the corrected test agrees.

    Example:
        >>> status_of_difference(0.1, 0.3, 0.01), status_of_difference(0.1, 0.3, 0.2)
        ('clear', 'open')
    """
    status = status_of(low, high, 0.0)
    return "open" if status == "clear" and not p_adjusted < SURE else status
