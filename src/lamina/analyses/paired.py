"""Paired differences of shares on the same documents: how large, and whether more than chance."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Real
from scipy.stats import norm
from scipy.stats import t as student

from lamina.analyses.findings import number, status_of
from lamina.analyses.resampling import CHOOSING, SCORED, Halves, document_of, weights_of
from lamina.results import Status
from lamina.types import Text

MOST_UNITS = 1000
"""Documents whose sums are kept apart; more share rows, so that memory does not grow with the corpus."""
_STEEPEST = {True: 20.0, False: 1e6}
"""Of the search for a saddlepoint: where differences are whole numbers it is never farther out."""
_BISECTIONS = 60
SURE = 0.05
"""The p-value, corrected by Holm, below which a difference counts."""
DIFFERENCE = ("difference", "diff_low", "diff_high", "p_holm")
"""Columns of a paired difference; see `surely_ahead`."""


class UnitSums:
    """Sums per unit: the document, or the text where the corpus is one document.

    A unit is what is resampled and what pairs two systems. Counts below 2**24 are exact.

    Example:
        >>> from lamina.analyses.resampling import halve
        >>> texts = [Text(str(at), ("word",), doc=f"d{at // 2}") for at in range(8)]
        >>> sums = UnitSums(1, halve(texts, seed=0))
        >>> for text in texts:
        ...     sums.add(np.array([1.0]), text)
        >>> sums.values().tolist(), sorted(sums.halves().tolist())
        ([[2.0], [2.0], [2.0], [2.0]], [0, 0, 1, 1])
    """

    def __init__(self, size: int, halves: Halves, *, most: int = MOST_UNITS) -> None:
        self._size, self._halves, self._most = size, halves, most
        self._sums: dict[tuple[int, str], np.ndarray] = {}
        self._shared = False

    def add(self, values: Real[np.ndarray, " size"], text: Text) -> None:
        """One text's part of its unit's sums, or that of several texts of one unit."""
        name = self._name(text)
        self._put((self._halves.of(text), self._row(name) if self._shared else name), np.asarray(values, np.float32))
        if len(self._sums) > self._most and not self._shared:
            self._shared = True
            kept, self._sums = self._sums, {}
            for (half, unit), held in kept.items():
                self._put((half, self._row(unit)), held)

    def together(
        self, texts: Sequence[Text], of: Int[np.ndarray, " thing"]
    ) -> Iterator[tuple[Text, Int[np.ndarray, " own"]]]:
        """Things of texts, `of` being the number of each thing's text, by unit: a text of the unit, and its things.

        Example:
            >>> texts = [Text(str(at), ("word",), doc=f"d{at % 2}") for at in range(4)]
            >>> sums = UnitSums(1, Halves(frozenset(), "document"))
            >>> [(text.doc, own.tolist()) for text, own in sums.together(texts, np.array([0, 0, 1, 2, 3]))]
            [('d0', [0, 1, 3]), ('d1', [2, 4])]
        """
        numbers: dict[str, int] = {}
        units = np.array([numbers.setdefault(self._name(text), len(numbers)) for text in texts], int)[of]
        order = np.argsort(units, kind="stable")
        starts = np.flatnonzero(np.diff(units[order], prepend=-1))
        for own in np.split(order, starts[1:]) if len(order) else ():
            yield texts[int(of[own[0]])], own

    def values(self) -> Float[np.ndarray, "unit size"]:
        """One row per unit; their order does not depend on that of the texts."""
        return np.array([self._sums[unit] for unit in sorted(self._sums)], np.float32).reshape(
            len(self._sums), self._size
        )

    def total(self, half: int | None = None) -> Float[np.ndarray, " size"]:
        """Over the units of one half, or of both."""
        values = self.values()
        return (values if half is None else values[self.halves() == half]).sum(0, dtype=float)

    def halves(self) -> Int[np.ndarray, " unit"]:
        """The half each unit belongs to."""
        return np.array([half for half, _ in sorted(self._sums)], int)

    def weights(self, *, samples: int, seed: int) -> Float[np.ndarray, "sample unit"]:
        """How often each bootstrap sample draws each unit; the same for all systems."""
        drawn = [weights_of(name, samples=samples, seed=seed) for _, name in sorted(self._sums)]
        return np.array(drawn, np.float32).reshape(len(drawn), samples).T

    def _name(self, text: Text) -> str:
        return document_of(text) if self._halves.by == "document" else text.id

    def _put(self, unit: tuple[int, str], values: np.ndarray) -> None:
        self._sums[unit] = self._sums[unit] + values if unit in self._sums else values

    def _row(self, name: str) -> str:
        digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return str(int.from_bytes(digest, "big") % (self._most // 2))


class CrossFit(NamedTuple):
    """The best of several systems, and what choosing it is worth."""

    system: int
    """The best on all units."""
    hits: Float[np.ndarray, " unit"]
    """Of the system that the other half chose: no unit is scored by a system that it helped to choose."""
    agrees: bool
    """Whether both halves chose the best; only then are the hits its own."""


def cross_fit(hits: Real[np.ndarray, "unit system"], halves: Int[np.ndarray, " unit"]) -> CrossFit:
    """Choose the best system on one half of the units and score it on the other, then the other way round.

    Example:
        >>> hits = np.array([[2, 1], [3, 0], [0, 2], [1, 2]])
        >>> cross_fit(hits, np.array([0, 0, 1, 1]))
        CrossFit(system=0, hits=array([1, 0, 0, 1]), agrees=False)
    """
    chosen = np.array([int(hits[halves == half].sum(0).argmax()) for half in (CHOOSING, SCORED)])
    best = int(hits.sum(0).argmax())
    return CrossFit(best, hits[np.arange(len(hits)), chosen[1 - halves]], bool((chosen == best).all()))


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


def holm(p_values: Sequence[float] | Float[np.ndarray, " test"]) -> np.ndarray:
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


def surely_ahead(rows: pd.DataFrame) -> pd.Series:
    """Which rows show a lead that earns a name: the interval lies above 0, and so does the corrected test.

    Both are asked, since each guards against another kind of luck: `p_holm` against that of many tries, the
    interval (where it is cross-fitted) against that of being the best of them.

    Example:
        >>> rows = [(0.2, 0.1, 0.3, 0.01), (0.2, 0.1, 0.3, 0.2), (-0.2, -0.3, -0.1, 0.01)]
        >>> surely_ahead(pd.DataFrame(rows, columns=list(DIFFERENCE))).tolist()
        [True, False, False]
    """
    return (rows["p_holm"] < SURE) & (rows["diff_low"] > 0)


def status_of_difference(low: float, high: float, p_holm: float) -> Status:
    """As `status_of` says of its interval, but clear only where the corrected test agrees.

    Example:
        >>> status_of_difference(0.1, 0.3, 0.01), status_of_difference(0.1, 0.3, 0.2)
        ('clear', 'open')
    """
    status = status_of(low, high, 0.0)
    return "open" if status == "clear" and not p_holm < SURE else status


def p_in_words(p: float) -> str:
    """A p-value as findings say it.

    Example:
        >>> p_in_words(0.0312), p_in_words(1e-9), p_in_words(1.0)
        ('p = .031', 'p < .001', 'p = 1.000')
    """
    return "p < .001" if p < 0.001 else f"p = {number(p, digits=3)}"
