"""When two runs of a model agree."""

from __future__ import annotations

import torch
from torch import Tensor

TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-6, torch.float16: 2e-2, torch.bfloat16: 1e-1}
"""Relative error of a vector up to which two runs agree. Seen where nothing is wrong: up to 1e-5 in float32 (the thirty
blocks of smollm2), 2e-3 in float16, 2e-2 in bfloat16. Planted faults change states by more than 1e-2 in float32."""

IN_ONE_BATCH = {torch.float32: 2e-5, torch.float64: 1e-9, torch.float16: 1e-3, torch.bfloat16: 5e-3}
"""The same for rows of one batch, which are computed alike: usually they agree to the last bit. An untrained BERT
moves earlier words by no more than a thousandth when later ones change."""

SHARE = {torch.float16: 0.5, torch.bfloat16: 0.5}
"""Share of a layer's tokens that have to agree, where it is not all: in half precision, rounding sends a token to
another expert now and then, while faults change most tokens."""


def apart(one: Tensor, other: Tensor, share: float = 1.0) -> float:
    """The largest relative error of a vector (last dimension); infinite if one is not a number.

    With a share, the largest among that share of each layer's tokens that agree best.

    Vectors that are very short beside the others of their layer count as long as a thousandth of the mean.

    Example:
        >>> round(apart(torch.tensor([[1.0, 0.0], [3.0, 4.0]]), torch.tensor([[1.0, 0.0], [3.0, 4.5]])), 3)
        0.092
    """
    # Parts of one model may be on several devices.
    one, other = one.double(), other.to(one.device).double()
    if one.shape != other.shape:
        return float("inf")
    if not one.numel():
        return 0.0
    lengths = other.norm(dim=-1)
    floor = 1e-3 * lengths.mean(dim=-1, keepdim=True) if lengths.dim() else lengths
    errors = (one - other).norm(dim=-1) / torch.maximum(lengths, floor).clamp_min(1e-30)
    if not torch.isfinite(errors).all():
        return float("inf")
    if share < 1 and errors.dim():
        errors = errors.quantile(share, dim=-1, interpolation="lower")
    return errors.max().item()
