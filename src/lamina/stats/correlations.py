"""Correlations, plain, by ranks and partial, with intervals that resample documents."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Real

from lamina.stats.intervals import interval
from lamina.stats.units import weights_of


def rank_correlation(
    one: Real[np.ndarray, "*draws member"], other: Real[np.ndarray, "*draws member"]
) -> Float[np.ndarray, "*draws"]:
    """Spearman's rho along the last axis; NaN where all values of a side are equal.

    Example:
        >>> rank_correlation(np.array([1, 2, 3, 4]), np.array([1, 3, 2, 4])).round(2).item()
        0.8
    """
    from scipy.stats import rankdata

    ranks = [rankdata(side, axis=-1) for side in np.broadcast_arrays(one, other)]
    left, right = (side - side.mean(-1, keepdims=True) for side in ranks)
    size = np.sqrt((left**2).sum(-1) * (right**2).sum(-1))
    return np.divide((left * right).sum(-1), size, out=np.full(np.shape(size), np.nan), where=size > 0)


def kendall_correlation(
    one: Real[np.ndarray, "*draws member"], other: Real[np.ndarray, "*draws member"]
) -> Float[np.ndarray, "*draws"]:
    """Kendall's tau along the last axis: pairs in the same order minus pairs in the other, as a share of all pairs.

    A tie counts for neither; NaN where a value is missing.

    Example:
        >>> kendall_correlation(np.array([1, 2, 3, 4]), np.array([1, 3, 2, 4])).round(2).item()
        0.67
    """
    left, right = np.broadcast_arrays(np.asarray(one, float), np.asarray(other, float))
    first, second = np.triu_indices(left.shape[-1], 1)
    signs = np.sign(left[..., second] - left[..., first]) * np.sign(right[..., second] - right[..., first])
    return np.asarray(signs.mean(-1))


Kind = Literal["pearson", "spearman"]
"""Of the numbers themselves, or of their ranks."""
KINDS: tuple[Kind, ...] = ("pearson", "spearman")


class Correlation(NamedTuple):
    """A correlation and its 95 % interval; NaN where one of the variables does not vary."""

    value: float
    low: float
    high: float


class Correlations:
    """All correlations among variables of the same words.

    Every bootstrap sample draws documents with replacement and ranks its words again. The draws follow from the
    documents' names, so the order of words changes nothing.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> length = rng.normal(size=400)
        >>> noise = rng.normal(size=400)
        >>> variables = {"length": length, "surprisal": length + noise, "both": length + noise}
        >>> found = Correlations(variables, [f"d{at // 10}" for at in range(400)], samples=200, seed=0)
        >>> value, low, high = found.of("surprisal", "length", "pearson")
        >>> low < 0.5**0.5 < high, bool(abs(value - np.corrcoef(length, length + noise)[0, 1]) < 1e-6)
        (True, True)
    """

    def __init__(
        self,
        variables: dict[str, Float[np.ndarray, " word"]],
        documents: Sequence[str],
        *,
        samples: int,
        seed: int,
    ) -> None:
        self._at = {name: number for number, name in enumerate(variables)}
        values = np.column_stack([*variables.values()]).astype(float)
        names = sorted(set(documents))
        self.units = len(names)
        """How many documents there are."""
        place = {name: number for number, name in enumerate(names)}
        document = np.array([place[name] for name in documents], dtype=np.int64)
        # The first sample is the corpus itself: every document once.
        drawn = np.ones((len(names), 1 + samples), np.float32)
        for number, name in enumerate(names):
            drawn[number, 1:] = weights_of(name, samples=samples, seed=seed)
        self._matrices: dict[Kind, np.ndarray] = {
            "pearson": _of_numbers(values, document, drawn),
            "spearman": _of_ranks(values, document, drawn),
        }

    def of(self, one: str, other: str, kind: Kind, *, given: str | None = None) -> Correlation:
        """Of two variables; what is left of it when both are regressed on `given` (partial correlation)."""
        draws = self.draws(one, other, kind, given=given)
        return Correlation(float(draws[0]), *interval(draws[1:]))

    def draws(self, one: str, other: str, kind: Kind, *, given: str | None = None) -> Float[np.ndarray, " draw"]:
        """The correlation itself, then that of every bootstrap sample; the same samples for all correlations."""
        matrices, a, b = self._matrices[kind], self._at[one], self._at[other]
        draws = matrices[:, a, b]
        if given is None:
            return draws
        c = self._at[given]
        return _partial(draws, matrices[:, a, c], matrices[:, b, c])


def _of_numbers(
    values: Float[np.ndarray, "word variable"], document: Int[np.ndarray, " word"], drawn: Float[np.ndarray, "doc draw"]
) -> Float[np.ndarray, "draw variable variable"]:
    """By way of each document's sums, so that no draw visits the words again."""
    spread = values.std(0)
    varies = spread > 1e-9 * np.abs(values).max(0).clip(1)
    scaled = np.where(varies, (values - values.mean(0)) / np.where(varies, spread, 1), 0.0).T
    # One at a time: all products of all words would not fit.
    moments = chain([np.ones(len(values))], scaled, (one * other for one in scaled for other in scaled))
    sums = np.column_stack([np.bincount(document, moment, minlength=len(drawn)) for moment in moments])
    return _matrices(drawn.T.astype(float) @ sums, values.shape[1])


def _of_ranks(
    values: Float[np.ndarray, "word variable"], document: Int[np.ndarray, " word"], drawn: Float[np.ndarray, "doc draw"]
) -> Float[np.ndarray, "draw variable variable"]:
    """Ranks among the words of each draw, from -0.5 to 0.5; equal values share the mean of their ranks."""
    groups = [np.unique(column, return_inverse=True)[1] for column in values.T]
    sums = np.zeros((drawn.shape[1], 1 + values.shape[1] + values.shape[1] ** 2))
    for draw, by_document in enumerate(drawn.T):
        weights = by_document[document].astype(float)
        if not (size := weights.sum()):
            continue
        ranks = np.empty_like(values)
        for column, group in enumerate(groups):
            sizes = np.bincount(group, weights)
            ranks[:, column] = ((np.cumsum(sizes) - sizes / 2) / size - 0.5)[group]
        weighted = ranks * weights[:, None]
        sums[draw] = np.concatenate([[size], weighted.sum(0), (weighted.T @ ranks).ravel()])
    return _matrices(sums, values.shape[1])


def _matrices(sums: Float[np.ndarray, "draw moment"], size: int) -> Float[np.ndarray, "draw variable variable"]:
    """The correlations that follow from sums of moments; NaN for what does not vary, and for a draw of nothing."""
    many = np.where(sums[:, 0] > 0, sums[:, 0], np.nan)
    means = sums[:, 1 : 1 + size] / many[:, None]
    products = sums[:, 1 + size :].reshape(-1, size, size) / many[:, None, None]
    covariance = products - means[:, :, None] * means[:, None, :]
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    # Rounding leaves a trace of variance in what does not vary; values are of the order of 1.
    spread = np.sqrt(np.where(variance > 1e-10, variance, np.nan))
    return (covariance / (spread[:, :, None] * spread[:, None, :])).clip(-1, 1)


def _partial(ab: np.ndarray, ac: np.ndarray, bc: np.ndarray) -> np.ndarray:
    """The correlation of a and b, what c explains of either taken off; NaN where c explains all of one."""
    left = (1 - ac**2) * (1 - bc**2)
    return np.divide(ab - ac * bc, np.sqrt(left), out=np.full_like(ab, np.nan), where=left > 1e-12)
