"""How unlike two heads are: Jensen-Shannon divergences of their attention, all pairs at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from jaxtyping import Float

from lamina.analyses.attention_maps.watching import Watched

SMOOTHING = 0.001
"""The share of every distribution that is spread evenly over the text's tokens; the paper's."""

_AT_ONCE = 2**19
"""Numbers whose logarithm is taken in one go: fewer stay in a core's cache, but then threads spend their time waiting
for the interpreter (measured: 1.4 to 1.9 times as slow at 2**16)."""
_WORTH_A_THREAD = 2**13
"""Cells of a map; handing out fewer costs more than it saves."""


class DivergenceMeter:
    """Sums, over all tokens of all texts, the divergence (in nats) between every two heads.

    Example:
        >>> from lamina.analyses.attention_maps.watching import watch
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> meter = DivergenceMeter()
        >>> skipped = watch(TinyEncoder(), SAMPLE_TEXTS, [meter])
        >>> meter.summed.shape, bool((meter.mean <= np.log(2)).all())
        ((4, 4), True)
    """

    def __init__(self) -> None:
        self.tokens = 0
        """How many tokens' attention was compared."""
        self.summed: Float[np.ndarray, "head head"] = np.zeros((0, 0))
        """Heads in the order of blocks, summed over tokens as in the paper."""

    def update(self, watched: Watched) -> None:
        """See `Meter.update`."""
        found = divergences(watched.maps.flatten(0, 1))
        self.summed = found + self.summed if self.tokens else found
        self.tokens += watched.maps.shape[-1]

    @property
    def mean(self) -> Float[np.ndarray, "head head"]:
        """A token's mean: from 0 to log 2."""
        return self.summed / max(self.tokens, 1)


def divergences(maps: Float[torch.Tensor, "head row token"]) -> Float[np.ndarray, "head head"]:
    """Jensen-Shannon divergences, in nats, between heads' smoothed distributions, summed over rows.

    `JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2`, where a head's own entropy is that of its mixture with itself, so
    that the divergence of a head from itself is 0 exactly. In single precision: right to about 1e-6 a token.

    Example:
        >>> two = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])
        >>> divergences(two).round(3).tolist()
        [[0.0, 0.689], [0.689, 0.0]]
    """
    # Halved: the sum of two heads' numbers is their mixture.
    smooth = maps.float().flatten(1).mul(1 - SMOOTHING).add_(SMOOTHING / maps.shape[-1]).mul_(0.5).numpy()
    threads = min(torch.get_num_threads(), 1 + smooth.shape[1] // _WORTH_A_THREAD)
    if threads == 1:
        mixed = _mixed_entropies(smooth)
    else:
        # numpy lets go of the interpreter while it computes.
        with ThreadPoolExecutor(threads) as pool:
            mixed = np.sum(list(pool.map(_mixed_entropies, np.array_split(smooth, threads, axis=1))), axis=0)
    own = mixed.diagonal()
    upper = np.maximum(np.triu(mixed - (own[:, None] + own) / 2, 1), 0)
    return upper + upper.T


def _mixed_entropies(halves: Float[np.ndarray, "head cell"]) -> Float[np.ndarray, "head head"]:
    """The entropy of every two heads' mixture, the first not after the second."""
    heads, cells = halves.shape
    step = max(1, _AT_ONCE // heads)
    entropies = np.zeros((heads, heads))
    mixture, logs = (np.empty((heads, step), np.float32) for _ in range(2))
    for start in range(0, cells, step):
        part = np.ascontiguousarray(halves[:, start : start + step])
        for head in range(heads):
            room = np.s_[: heads - head, : part.shape[1]]
            mixed = np.add(part[head:], part[head], out=mixture[room])
            entropies[head, head:] -= np.vecdot(mixed, np.log(mixed, out=logs[room]))
    return entropies
