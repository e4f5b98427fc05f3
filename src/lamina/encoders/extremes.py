"""Whether numbers are finite, told from the smallest and the largest of them."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

_EXPONENTS = {torch.float16: 0x7C00, torch.bfloat16: 0x7F80}
"""Bits of the exponent of two-byte numbers; all ones in Inf and NaN."""


class Extremes(NamedTuple):
    """The smallest and the largest value, or 0 and 0 if all are finite; both NaN if any is."""

    low: float
    high: float

    @property
    def overflow(self) -> bool:
        """Whether some value is infinite."""
        return math.isinf(self.low) or math.isinf(self.high)

    @property
    def nan(self) -> bool:
        """Whether some value is NaN."""
        return math.isnan(self.low)


def extremes(values: Tensor) -> Tensor:
    """The two numbers of `Extremes`, on the device of the values: nothing waits for them.

    Example:
        >>> found = extremes(torch.tensor([1.0, torch.inf]))
        >>> Extremes(*found.tolist()).overflow
        True
    """
    ones = _EXPONENTS.get(values.dtype)
    # Whole numbers are compared several times faster on a CPU.
    if values.device.type == "cpu" and ones is not None and int((values.view(torch.int16) & ones).amax()) < ones:
        return torch.zeros(2)
    return torch.stack(values.aminmax()).float()
