"""How differently every two heads attend: divergences of their distributions, with intervals."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lamina.analyses.attention_maps.behaviours import LEAD, digits_of
from lamina.analyses.attention_maps.head_means import UnitRows
from lamina.analyses.watched import WatchedBatch
from lamina.encoders import Encoder
from lamina.findings import Finding, Source, finding, number, rows_of
from lamina.stats.family import Contrasts, sign_flip_family
from lamina.stats.intervals import ratio_intervals
from lamina.stats.status import Contrast
from lamina.stats.units import BY_DOCUMENT, MOST_UNITS, Unit

DIVERGENCES = ("layer_a", "head_a", "layer_b", "head_b", "value", "mean", "low", "high", *LEAD, "closest")
"""Columns of `divergences.csv`."""
SMOOTHING = 0.001
"""The share of every distribution that is spread evenly over the text's tokens; the paper's."""

_AT_ONCE = 2**19
"""Numbers whose logarithm is taken in one go: fewer stay in a core's cache, but then threads spend their time waiting
for the interpreter (measured: 1.4 to 1.9 times as slow at 2**16)."""
_IN_ONE_KERNEL, _CELLS_IN_A_SUM = 2**24, 2**12
"""On an accelerator: numbers whose logarithm is taken in one go, and how many of them one sum has."""
_WORTH_A_THREAD = 2**13
"""Cells of a map; handing out fewer costs more than it saves."""
_RESAMPLED = 2**26
"""Numbers that bootstrap samples may hold, 256 MiB: models of more than about 500 heads get fewer samples."""
_FEWEST = 100
_HELD, _FEWEST_UNITS = 2**25, 64
"""Numbers that sums of documents may hold, 256 MiB, and the documents that are kept apart whatever their size."""
_TESTED = 50_000
"""Pairs that are tested, those of 316 heads; more take minutes."""


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
        self.samples = min(samples, max(_FEWEST, _RESAMPLED // (pairs + 1)))
        """Of the bootstrap: fewer of models with very many heads."""
        self._seed = seed
        self._rows = UnitRows(pairs + 1, most=min(MOST_UNITS, max(_FEWEST_UNITS, _HELD // (pairs + 1))))
        self._summed = torch.zeros(count, count, dtype=torch.float64)
        self.tokens = 0
        """How many tokens' attention was compared."""

    @property
    def summed(self) -> Float[np.ndarray, "head head"]:
        """Heads in the order of blocks, summed over tokens as in the paper."""
        return self._summed.cpu().numpy()

    def update(self, batch: WatchedBatch) -> None:
        """See `Meter.update`."""
        heads = batch.groups[0] if len(batch.groups) == 1 else torch.cat(batch.groups, 1)
        found = divergences(heads, batch.sizes)
        self._summed = self._summed.to(found.device) + found.sum(0)
        self.tokens += sum(len(each.ids) for each in batch.tokens)
        one, other = (torch.from_numpy(each).to(found.device) for each in self._pairs)
        sums = torch.cat([found[:, one, other], batch.sizes[:, None]], 1)
        self._rows.add(sums, [self._unit.of(text) for text in batch.texts])

    def apart(self) -> Apart:
        """A token's mean, with the 95 % interval over resampled documents or texts."""
        drawn = self._rows.draws(samples=self.samples, seed=self._seed)
        sides = [np.zeros_like(self.summed) for _ in range(2)]
        for side, found in zip(sides, ratio_intervals(drawn[:, :-1], drawn[:, -1]), strict=True):
            side[self._pairs] = found
        low, high = (side + side.T for side in sides)
        return Apart(self.summed / max(self.tokens, 1), low, high)

    def table(self) -> pd.DataFrame:
        """One row per pair of heads, blocks and heads counted from 1."""
        places = (each for pair in self._pairs for each in (pair // self._heads + 1, pair % self._heads + 1))
        value, mean, low, high = (each[self._pairs] for each in (self.summed, *self.apart()))
        tests = closeness(self._rows.values())
        closest = np.arange(len(mean)) == mean.argmin()
        columns = (*places, value, mean, low, high, *tests, closest)
        table = pd.DataFrame(dict(zip(DIVERGENCES, columns, strict=True)))
        return table.astype({"units": int, "needed": int})


def closeness(sums: Float[np.ndarray, "unit column"]) -> Contrasts:
    """The mean divergence of all pairs minus that of each: are two heads closer, or farther apart, than heads are?

    One family of all pairs, signs of whole documents flipped, two-sided. Of very many pairs there are no tests.

    Args:
        sums: of documents: divergences of each pair, then tokens.
    """
    pairs, tokens = sums[:, :-1], sums[:, -1]
    closer = pairs.mean(1, keepdims=True) - pairs
    if pairs.shape[1] <= _TESTED:
        return sign_flip_family(closer, tokens)
    missing = np.full(pairs.shape[1], np.nan)
    estimate = closer.sum(0) / tokens.sum()
    return Contrasts(estimate, missing, missing, missing, np.full(len(missing), len(tokens)), np.zeros(len(missing)))


def divergences(
    maps: Float[Tensor, "text head token token"], sizes: Int[Tensor, " text"]
) -> Float[Tensor, "text head head"]:
    """Jensen-Shannon divergences, in nats, between heads' smoothed distributions, summed over a text's tokens.

    `JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2`, where a head's own entropy is that of its mixture with itself, so
    that the divergence of a head from itself is 0 exactly. Logarithms are taken in single precision and summed in
    double: exact to about 1e-6 per token. Texts may be padded: what is beyond `sizes` does not count.

    Example:
        >>> two = torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
        >>> divergences(two[None], torch.tensor([2]))[0].round(decimals=3).tolist()
        [[0.0, 0.689], [0.689, 0.0]]
    """
    inside = torch.arange(maps.shape[-1], device=maps.device) < sizes[:, None]
    cells = (inside[:, :, None] & inside[:, None])[:, None]
    # Halved: the sum of two heads' numbers is their mixture. Padding stays 0, and adds nothing to an entropy.
    spread = (SMOOTHING / 2 / sizes).view(-1, 1, 1, 1)
    halves = torch.where(cells, maps.float() * ((1 - SMOOTHING) / 2) + spread, 0).flatten(2)
    mixed = _mixed_entropies_by_numpy(halves) if maps.device.type == "cpu" else _mixed_entropies(halves)
    own = mixed.diagonal(0, -2, -1)
    upper = (mixed - (own[:, :, None] + own[:, None]) / 2).triu(1).clamp_min(0)
    return upper + upper.mT


def _mixed_entropies(halves: Float[Tensor, "text head cell"]) -> Float[Tensor, "text head head"]:
    """The entropy of every two heads' mixture, the first not after the second."""
    texts, heads, cells = halves.shape
    entropies = torch.zeros(texts, heads, heads, dtype=torch.float64, device=halves.device)
    # As many texts at a time as fit the room, and as many cells of them: in pieces whose sums keep their precision.
    some = min(texts, max(1, _IN_ONE_KERNEL // (heads * _CELLS_IN_A_SUM)))
    for start in range(0, texts, some):
        for first in range(0, cells, _CELLS_IN_A_SUM):
            part = halves[start : start + some, :, first : first + _CELLS_IN_A_SUM].contiguous()
            for head in range(heads):
                mixed = part[:, head:] + part[:, head : head + 1]
                entropies[start : start + some, head, head:] += torch.special.entr(mixed).sum(-1)
    return entropies


def _mixed_entropies_by_numpy(halves: Float[Tensor, "text head cell"]) -> Float[Tensor, "text head head"]:
    """The same on a CPU, where numpy's logarithm is several times faster than torch's."""
    found = []
    for text in halves.numpy():
        # Padding is at the end of every row of a map; without it there is less to do.
        there = np.ascontiguousarray(text[:, text[0] > 0])
        threads = min(torch.get_num_threads(), 1 + there.shape[1] // _WORTH_A_THREAD)
        parts = np.array_split(there, threads, axis=1)
        if threads == 1:
            found.append(_entropies_of_one(there))
            continue
        # numpy lets go of the interpreter while it computes.
        with ThreadPoolExecutor(threads) as pool:
            found.append(np.sum(list(pool.map(_entropies_of_one, parts)), axis=0))
    return torch.from_numpy(np.stack(found))


def _entropies_of_one(halves: Float[np.ndarray, "head cell"]) -> Float[np.ndarray, "head head"]:
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
    """The two heads that attend most alike, beside the mean of all pairs; none for results of older versions.

    Example:
        >>> rows = [
        ...     (1, 1, 1, 2, 3.0, 0.003, 0.0023, 0.004, 0.1785, 0.17, 0.19, 0.002, 20, 0, True),
        ...     (1, 1, 2, 1, 360.0, 0.36, 0.34, 0.38, -0.1785, -0.19, -0.17, 0.002, 20, 0, False),
        ... ]
        >>> [found.text for found in most_alike(pd.DataFrame(rows, columns=list(DIVERGENCES)))]
        ['Heads 1-1 and 1-2 attend alike: their divergence is .0030 nats per token, less than that of two heads on \
average (difference .179 [.170, .190]).']
    """
    if not set(DIVERGENCES) <= set(table) or len(table) < 2:
        return
    tested = table["p_adjusted"].notna() | (table["needed"] > 0)
    for row in rows_of(table[table["closest"].astype(bool) & tested]):
        pair = f"{row.layer_a}-{row.head_a} and {row.layer_b}-{row.head_b}"
        yield finding(
            claim=(
                f"Heads {pair} attend alike: their divergence is {number(row.mean, digits=digits_of(row.mean))} nats "
                "per token, less than that of two heads on average"
            ),
            whether=f"heads {pair} attend more alike than two heads do on average",
            absent=f"Heads {pair}, the closest two, attend no more alike than two heads do on average",
            contrast="difference",
            test=Contrast.of(row, *LEAD[:3]),
            source=Source("divergences", {"closest": True}),
            importance=("localised",),
            digits=digits_of(row.difference, row.diff_high - row.diff_low),
        )
