"""Attention rollout (Abnar & Zuidema 2020): how much of each token's input is mixed into every token by a block."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

RESIDUAL = 0.5
"""What a token keeps of itself in every block: the residual connection counts as much as attention."""


def rollout(maps: Float[Tensor, "block head token token"]) -> Float[Tensor, "block token token"]:
    """From every token (row) down to the input tokens (column), after each block; rows sum to 1.

    A block's heads are averaged, and half of the mean is replaced by the token itself; blocks are multiplied, the last
    one first.

    Example:
        >>> maps = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]], [[[0.0, 1.0], [0.0, 1.0]]]])
        >>> rollout(maps)[-1].tolist()
        [[0.75, 0.25], [0.5, 0.5]]
    """
    one = torch.eye(maps.shape[-1], dtype=maps.dtype)
    mixed = (1 - RESIDUAL) * maps.mean(1) + RESIDUAL * one
    mixed /= mixed.sum(-1, keepdim=True)
    reached = [one]
    for block in mixed:
        reached.append(block @ reached[-1])
    return torch.stack(reached[1:])
