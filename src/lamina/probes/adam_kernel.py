"""Adam's step as one pass over memory, in Triton, which comes with torch for CUDA on Linux.

torch's own fused Adam knows one rate for all and does not clip: with what has to be done around it, weights, gradients
and moments are read and written almost twice as often, a quarter of a training step on an H200.
"""

from __future__ import annotations

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

_BLOCK = 1024


@triton.jit
def _step(
    weights, gradients, first, second, most, rates, scales, corrections, size, boost,
    beta1: tl.constexpr, beta2: tl.constexpr, epsilon: tl.constexpr, block: tl.constexpr,
) -> None:  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * block + tl.arange(0, block)
    inside = place < size
    offset = member * size + place
    gradient = tl.load(gradients + offset, mask=inside, other=0.0) * tl.load(scales + member)
    mean = tl.load(first + offset, mask=inside, other=0.0)
    mean = mean + (1 - beta1) * (gradient - mean)
    square = beta2 * tl.load(second + offset, mask=inside, other=0.0) + (1 - beta2) * gradient * gradient
    largest = tl.maximum(tl.load(most + offset, mask=inside, other=0.0), square)
    change = mean / tl.load(corrections) / (tl.sqrt(largest) / tl.load(corrections + 1) + epsilon)
    weight = tl.load(weights + offset, mask=inside, other=0.0) - tl.load(rates + member) * boost * change
    tl.store(first + offset, mean, mask=inside)
    tl.store(second + offset, square, mask=inside)
    tl.store(most + offset, largest, mask=inside)
    tl.store(weights + offset, weight, mask=inside)


def take_step(
    weights: Tensor,
    gradients: Tensor,
    moments: tuple[Tensor, ...],
    *,
    rates: Tensor,
    scales: Tensor,
    corrections: Tensor,
    boost: float,
    betas: tuple[float, float],
    epsilon: float,
) -> None:
    """Update the weights of all members, and their moments, in place.

    Args:
        weights: [member, ...], one parameter of every member.
        gradients: of the same shape.
        moments: mean, mean square and largest mean square of the gradients.
        rates: [member] Learning rates.
        scales: [member] What gradients are multiplied by, to clip them.
        corrections: what the moments are divided by since they started at 0: the mean, and the root of the square.
        boost: the rate of this parameter, as a multiple.
        betas: how much of the moments is kept.
        epsilon: added to the root of the square.
    """
    size = weights[0].numel()
    grid = (triton.cdiv(size, _BLOCK), len(weights))
    _step[grid](  # pyright: ignore[reportIndexIssue]
        weights, gradients, *moments, rates, scales, corrections, size, float(boost),
        beta1=betas[0], beta2=betas[1], epsilon=epsilon, block=_BLOCK,
    )  # fmt: skip


def works_on(device: torch.device) -> bool:
    """Whether the kernel can be compiled here and does what it should."""
    one = torch.ones(2, 3, device=device)
    moments = tuple(torch.zeros_like(one) for _ in range(3))
    settings = {"rates": torch.tensor([0.5, 0.0], device=device), "scales": torch.ones(2, device=device)}
    settings["corrections"] = torch.tensor([0.1, 0.001**0.5], device=device)
    take_step(one, one.clone(), moments, **settings, boost=1.0, betas=(0.9, 0.999), epsilon=1e-8)
    # The first step of Adam is as long as the rate.
    return torch.allclose(one.cpu(), torch.tensor([[0.5] * 3, [1.0] * 3]), atol=1e-4)
