"""Dropout masks made of (seed, step) alone: a counter-based generator gives the same bits on every device."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""The constants of SplitMix64 (Steele, Lea and Flood 2014)."""
_LANES = 4
"""Masked numbers per 64 bits: each is decided by 16 of them, so a rate is right to 1 in 65,536."""


def kept(shape: tuple[int, ...], rate: float, *, key: tuple[int, ...], device: str | torch.device) -> Bool[Tensor, ...]:
    """Which numbers are kept when a share of `rate` is dropped; `key` (numbers of at least 0) says which draw.

    Example:
        >>> one, same, other = (kept((2, 9), 0.5, key=(0, step), device="cpu") for step in (7, 7, 8))
        >>> torch.equal(one, same), torch.equal(one, other)
        (True, False)
    """
    return kept_from(torch.tensor([draw_start(key)], device=device), shape, rate)[0]


def kept_from(starts: Int64[Tensor, " draw"], shape: tuple[int, ...], rate: float) -> Bool[Tensor, ...]:
    """Several draws at once, each from its own start; on a GPU nothing but the starts has to be copied there."""
    count = torch.Size(shape).numel()
    counters = torch.arange(1, -(-count // _LANES) + 1, device=starts.device)
    bits = _mixed(counters * _signed(_GOLDEN) + starts.unsqueeze(1)).view(torch.int16)
    # The smallest share of the 2**16 values, from the least one up, is dropped.
    return (bits[:, :count] >= round(rate * 2**16) - 2**15).view(len(starts), *shape)


def _mixed(z: Tensor) -> Tensor:
    """SplitMix64's output function; products of 64-bit integers wrap around on every device."""
    z = (z ^ _shifted(z, 30)) * _signed(_FIRST)
    z = (z ^ _shifted(z, 27)) * _signed(_SECOND)
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, by: int) -> Tensor:
    """To the right, filled with zeros: torch's own shift copies the sign."""
    return (z >> by) & ((1 << (64 - by)) - 1)


def draw_start(key: tuple[int, ...]) -> int:
    """One number of 64 bits, with a sign, out of several: where a draw begins."""
    state = 0
    for part in key:
        z = (state + part * _GOLDEN + _GOLDEN) % 2**64
        z = (z ^ (z >> 30)) * _FIRST % 2**64
        z = (z ^ (z >> 27)) * _SECOND % 2**64
        state = z ^ (z >> 31)
    return _signed(state)


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number
