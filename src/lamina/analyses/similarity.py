"""Linear CKA: how alike two spaces are, whatever way each is turned or scaled, from sums that stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, sub

import numpy as np
import torch
from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over the rows of two matrices, all that HSIC of their linear kernels is made of.

    Moments of disjoint rows add up, and are taken off again by subtraction.

    Example:
        >>> x = torch.eye(5)
        >>> abs(hsic(Moments.of(x[:2], x[:2]) + Moments.of(x[2:], x[2:])) - hsic(Moments.of(x, x))) < 1e-12
        True
    """

    count: torch.Tensor
    """Rows."""
    x: torch.Tensor
    """[width of x] Sum of the rows of x."""
    y: torch.Tensor
    xy: torch.Tensor
    """[width of x, width of y] x transposed times y."""
    x_length: torch.Tensor
    """Sum of the squared lengths of the rows of x."""
    y_length: torch.Tensor
    both_lengths: torch.Tensor
    """Sum of the products of the two squared lengths."""
    x_by_y: torch.Tensor
    """[width of x] Sum of the rows of x, each times the squared length of its row of y."""
    y_by_x: torch.Tensor

    @classmethod
    def of(cls, x: Float[torch.Tensor, "row p"], y: Float[torch.Tensor, "row q"]) -> Moments:
        """Of paired rows, in double precision."""
        x, y = x.double(), y.double()
        long_x, long_y = x.square().sum(1), y.square().sum(1)
        rows = torch.tensor(len(x), dtype=torch.double)
        return cls(
            rows, x.sum(0), y.sum(0), x.T @ y, long_x.sum(), long_y.sum(), long_x @ long_y, long_y @ x, long_x @ y
        )

    def __add__(self, other: Moments) -> Moments:
        return self._with(other, add)

    def __sub__(self, other: Moments) -> Moments:
        return self._with(other, sub)

    def _with(self, other: Moments, how: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Moments:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Moments(*(how(mine, theirs) for mine, theirs in pairs))


def hsic(sums: Moments) -> float:
    """The unbiased estimate of HSIC (Song et al. 2012) with linear kernels, without a matrix of rows by rows.

    Not available (NaN) for fewer than four rows.
    """
    n = float(sums.count)
    if n < 4:
        return float("nan")
    # Kernel matrices K and L without their diagonals: the trace of K L, and the sums of K, of L and of K L.
    trace = sums.xy.square().sum() - sums.both_lengths
    whole_k = sums.x @ sums.x - sums.x_length
    whole_l = sums.y @ sums.y - sums.y_length
    product = sums.x @ sums.xy @ sums.y - sums.y_by_x @ sums.y - sums.x_by_y @ sums.x + sums.both_lengths
    found = trace + whole_k * whole_l / ((n - 1) * (n - 2)) - 2 * product / (n - 2)
    return float(found) / (n * (n - 3))


@dataclass(frozen=True, eq=False)
class Likeness:
    """What linear CKA of two spaces is made of; of disjoint rows these add up.

    Example:
        >>> x = torch.tensor([[0.0, 1.0], [2.0, 0.0], [1.0, 5.0], [4.0, 4.0], [0.0, 3.0]])
        >>> round(Likeness.of(x, 3 * x.flip(1)).cka(), 6)
        1.0
    """

    xy: Moments
    xx: Moments
    yy: Moments

    @classmethod
    def of(cls, x: Float[torch.Tensor, "row p"], y: Float[torch.Tensor, "row q"]) -> Likeness:
        """Of paired rows."""
        return cls(Moments.of(x, y), Moments.of(x, x), Moments.of(y, y))

    def __add__(self, other: Likeness) -> Likeness:
        return Likeness(self.xy + other.xy, self.xx + other.xx, self.yy + other.yy)

    def __sub__(self, other: Likeness) -> Likeness:
        return Likeness(self.xy - other.xy, self.xx - other.xx, self.yy - other.yy)

    def cka(self) -> float:
        """Debiased linear CKA: 1 for spaces that differ by rotation and scale, about 0 for unrelated ones.

        Plain CKA rises towards 1 where words are few for so many dimensions; this does not, and may fall a little below
        0 by chance. Not available where a space has no spread.
        """
        own, other = hsic(self.xx), hsic(self.yy)
        return hsic(self.xy) / (own * other) ** 0.5 if own > 0 and other > 0 else float("nan")


def jackknife(groups: Sequence[Likeness]) -> tuple[float, float, float]:
    """CKA of all groups together, with the 95 % interval that leaving out one group at a time gives.

    Example:
        >>> rows = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
        >>> value, low, high = jackknife([Likeness.of(part, part @ part.T @ part) for part in rows.split(10)])
        >>> low < value < high <= 1
        True
    """
    whole = reduce(add, groups)
    value = whole.cka()
    if len(groups) < 2:
        return value, float("nan"), float("nan")
    from scipy.stats import t

    without = np.array([(whole - each).cka() for each in groups])
    error = np.sqrt((len(groups) - 1) * np.mean((without - without.mean()) ** 2))
    half = float(t.ppf(0.975, len(groups) - 1) * error)
    return value, value - half, min(1.0, value + half)
