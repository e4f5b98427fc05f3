"""How many tokens share a batch: found by timing the batches themselves, and halved when memory runs out."""

from __future__ import annotations

import torch

_CPU_TOKENS = 2048
_FIRST_TOKENS = 8192
_MOST_TOKENS = 131_072
_TIMED = 2
"""Batches that are timed at each size."""
_GAIN = 1.05
"""A size is worth doubling as long as tokens per second rise by this much."""
_FULL = 0.7
"""Share of its size that a batch needs to count."""


class BatchSize:
    """The number of tokens of a batch, padding included.

    Example:
        >>> size = BatchSize(torch.device("cuda"))
        >>> for rate in (1e5, 1e6, 1e6, 1.3e6, 1.3e6, 1.2e6, 1.2e6):
        ...     size.note(size.tokens, rate, room=True)
        >>> size.tokens
        16384
        >>> size.halve(16000)
        >>> size.tokens
        8000
    """

    def __init__(self, device: torch.device, tokens: int | None = None) -> None:
        self.tokens = tokens or (_FIRST_TOKENS if device.type == "cuda" else _CPU_TOKENS)
        self.settled = tokens is not None or device.type != "cuda"
        """Whether timing can no longer change it."""
        self._rates: list[float] = []
        self._best = 0.0
        self._warm = False

    def note(self, tokens: int, rate: float, *, room: bool) -> None:
        """A batch of so many tokens ran at so many per second; `room` says whether memory allows twice as many."""
        if self.settled or not _FULL * self.tokens <= tokens <= self.tokens:
            return
        if not self._warm:
            self._warm = True  # the first batch loads kernels; not timed
            return
        self._rates.append(rate)
        if len(self._rates) < _TIMED:
            return
        rate, self._rates = max(self._rates), []
        if rate < _GAIN * self._best:
            self.tokens //= 2
            self.settled = True
        elif room and 2 * self.tokens <= _MOST_TOKENS:
            self._best = rate
            self.tokens *= 2
        else:
            self.settled = True

    def halve(self, tokens: int) -> None:
        """A batch of so many tokens did not fit into memory."""
        self.tokens = max(1, min(self.tokens, tokens) // 2)
        self.settled = True


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether a GPU or this machine ran out of memory.

    Example:
        >>> is_out_of_memory(RuntimeError("CUDA error: out of memory")), is_out_of_memory(RuntimeError("shapes"))
        (True, False)
    """
    said = str(error)
    return isinstance(error, torch.OutOfMemoryError) or "out of memory" in said or "can't allocate memory" in said
