"""How differently every two heads attend: divergences of their distributions, with intervals."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from lamina.analyses.findings import finding, rows_of
from lamina.analyses.resampling import BY_DOCUMENT, StreamedBootstrap, Unit, intervals
from lamina.analyses.watching import Watched
from lamina.encoders import Encoder
from lamina.results import Finding

DIVERGENCES = ("layer_a", "head_a", "layer_b", "head_b", "value", "mean", "low", "high")
"""Columns of `divergences.csv`."""
SMOOTHING = 0.001
"""The share of every distribution that is spread evenly over the text's tokens; the paper's."""

_AT_ONCE = 2**19
"""Numbers whose logarithm is taken in one go: fewer stay in a core's cache, but then threads spend their time waiting
for the interpreter (measured: 1.4 to 1.9 times as slow at 2**16)."""
_WORTH_A_THREAD = 2**13
"""Cells of a map; handing out fewer costs more than it saves."""
_RESAMPLED = 2**26
"""Numbers that bootstrap samples may hold, 256 MiB: models of more than about 500 heads get fewer samples."""
_FEWEST = 100


class Apart(NamedTuple):
    """Mean divergence per token between every two heads, heads in the order of blocks."""

    mean: Float[np.ndarray, "head head"]
    """From 0 to log 2."""
    low: Float[np.ndarray, "head head"]
    high: Float[np.ndarray, "head head"]


class DivergenceMeter:
    """Sums, over all tokens of all texts, the divergence (in nats) between every two heads.

    Example:
        >>> from lamina.analyses.watching import watch
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> meter = DivergenceMeter(TinyEncoder(), samples=50)
        >>> skipped = watch(TinyEncoder(), SAMPLE_TEXTS, [meter])
        >>> apart = meter.apart()
        >>> meter.summed.shape, bool((apart.mean <= np.log(2)).all()), bool((apart.low <= apart.high).all())
        ((4, 4), True, True)
    """

    def __init__(self, encoder: Encoder, *, samples: int = 500, seed: int = 0, unit: Unit = BY_DOCUMENT) -> None:
        self._heads, self._unit = encoder.heads, unit
        count = encoder.blocks * encoder.heads
        self._pairs = np.triu_indices(count, 1)
        pairs = len(self._pairs[0])
        samples = min(samples, max(_FEWEST, _RESAMPLED // (pairs + 1)))
        self._sums = StreamedBootstrap(pairs + 1, samples=samples, seed=seed)
        self.tokens = 0
        """How many tokens' attention was compared."""
        self.summed: Float[np.ndarray, "head head"] = np.zeros((count, count))
        """Heads in the order of blocks, summed over tokens as in the paper."""

    def update(self, watched: Watched) -> None:
        """See `Meter.update`."""
        found, tokens = divergences(watched.maps.flatten(0, 1)), watched.maps.shape[-1]
        self.summed = self.summed + found
        self.tokens += tokens
        self._sums.add(np.append(found[self._pairs], tokens), self._unit.of(watched.text))

    def apart(self) -> Apart:
        """A token's mean, with the 95 % interval over resampled documents or texts."""
        drawn = self._sums.samples
        sides = [np.zeros_like(self.summed) for _ in range(2)]
        for side, found in zip(sides, intervals(drawn[:, :-1], drawn[:, -1]), strict=True):
            side[self._pairs] = found
        low, high = (side + side.T for side in sides)
        return Apart(self.summed / max(self.tokens, 1), low, high)

    def table(self) -> pd.DataFrame:
        """One row per pair of heads, blocks and heads counted from 1."""
        places = (each for pair in self._pairs for each in (pair // self._heads + 1, pair % self._heads + 1))
        values = (each[self._pairs] for each in (self.summed, *self.apart()))
        return pd.DataFrame(dict(zip(DIVERGENCES, (*places, *values), strict=True)))


def divergences(maps: Float[torch.Tensor, "head row token"]) -> Float[np.ndarray, "head head"]:
    """Jensen-Shannon divergences, in nats, between heads' smoothed distributions, summed over rows.

    `JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2`, where a head's own entropy is that of its mixture with itself, so
    that the divergence of a head from itself is 0 exactly. In single precision: exact to about 1e-6 per token.

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


def most_alike(table: pd.DataFrame) -> Iterable[Finding]:
    """The two heads that attend most alike, beside the mean of all pairs; none for results without intervals.

    Example:
        >>> rows = [(1, 1, 1, 2, 4.0, 0.04, 0.03, 0.05), (1, 1, 2, 1, 36.0, 0.36, 0.34, 0.38)]
        >>> [(each.text[:35], each.value) for each in most_alike(pd.DataFrame(rows, columns=list(DIVERGENCES)))]
        [('Heads 1-1 and 1-2 attend most alike', 0.04)]
    """
    if not {"low", "high"} <= set(table) or table["mean"].isna().any() or len(table) < 2:
        return
    for row in rows_of(table.nsmallest(1, "mean")):
        yield finding(
            f"Heads {row.layer_a}-{row.head_a} and {row.layer_b}-{row.head_b} attend most alike: divergence {{number}} "
            "nats per token; two heads have {against} on average.",
            row.mean, row.low, row.high, float(table["mean"].mean()),
        )  # fmt: skip
