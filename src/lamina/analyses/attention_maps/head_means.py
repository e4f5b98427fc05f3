"""Means over texts of what is measured of every head, with intervals for heads and for layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Real

from lamina.encoders import Encoder
from lamina.stats.bootstrap import StreamedBootstrap
from lamina.stats.intervals import ratio_intervals as intervals
from lamina.stats.units import BY_DOCUMENT, Unit
from lamina.types import Text

LAYERS = ("layer", "of", "kind", "value", "low", "high", "baseline")
"""Columns of `layers.csv`."""


class Means(NamedTuple):
    """Of each kind, averaged over the texts that have it; NaN where no text has it."""

    value: Float[np.ndarray, " kind *place"]
    low: Float[np.ndarray, " kind *place"]
    high: Float[np.ndarray, " kind *place"]
    baseline: Float[np.ndarray, " kind"]


class HeadMeans:
    """Means over texts for every kind of number and every head; a text counts for the kinds that it has.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> means = HeadMeans(1, TinyEncoder(blocks=1, heads=2), samples=50)
        >>> texts = [Text(name, ("word",)) for name in "ab"]
        >>> means.add(torch.tensor([[[[0.0, 1.0]]], [[[1.0, 1.0]]]]), torch.ones(2, 1), texts)
        >>> means.heads().value.tolist(), means.layers().value.tolist()
        ([[[0.5, 1.0]]], [[0.75]])
    """

    def __init__(
        self, kinds: int, encoder: Encoder, *, samples: int = 1000, seed: int = 0, unit: Unit = BY_DOCUMENT
    ) -> None:
        self._shape = (kinds, encoder.blocks, encoder.heads)
        self._unit = unit
        # Of each kind: its sum over texts for every head, its sum for the baseline, its number of texts.
        self._sums = StreamedBootstrap(kinds * (encoder.blocks * encoder.heads + 2), samples=samples, seed=seed)

    def add(
        self,
        values: Real[torch.Tensor, "text kind block head"],
        counted: Real[torch.Tensor, "text kind"],
        texts: Sequence[Text],
        baseline: Real[torch.Tensor, "text kind"] | None = None,
    ) -> None:
        """The numbers of some texts; `counted` is 1 for the kinds a text has and 0 for the others."""
        beside = torch.zeros_like(counted) if baseline is None else baseline
        parts = torch.cat([values.flatten(2), beside[..., None]], -1) * counted[..., None]
        sums = torch.cat([parts, counted[..., None]], -1).flatten(1)
        self._sums.add_all(sums, [self._unit.of(text) for text in texts])

    def heads(self) -> Means:
        """Every head's means with their 95 % intervals."""
        return self._means(self._shape)

    def layers(self) -> Means:
        """The means over a layer's heads, with intervals of their own: heads see the same texts."""
        return self._means(self._shape[:2])

    def layer_draws(self) -> Float[np.ndarray, "sample kind block"]:
        """What `layers` would be of each bootstrap sample; NaN where it drew no text with such a number."""
        drawn, _, counts = self._apart(self._sums.samples, self._shape[:2])
        with np.errstate(invalid="ignore", divide="ignore"):
            return drawn / counts[..., None]

    def _means(self, shape: tuple[int, ...]) -> Means:
        value, baseline, counts = self._apart(self._sums.value[None], shape)
        drawn, _, drawn_counts = self._apart(self._sums.samples, shape)
        ends = [intervals(drawn[:, kind], drawn_counts[:, kind]) for kind in range(shape[0])]
        low, high = (np.array(side) for side in zip(*ends, strict=True))
        with np.errstate(invalid="ignore"):
            per_kind = counts[0].reshape(-1, *[1] * (len(shape) - 1))
            return Means(value[0] / per_kind, low, high, baseline[0] / counts[0])

    def _apart(self, sums: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sums of heads (or, by a shorter `shape`, means over a layer's heads), of the baseline, and counts."""
        parts = sums.reshape(len(sums), self._shape[0], -1)
        heads = parts[..., :-2].reshape(-1, *self._shape).astype(float)
        return heads if shape == self._shape else heads.mean(-1), parts[..., -2], parts[..., -1]


def head_table(means: Means, kinds: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Layer, head, kind, value, low, high under the names of `columns`, and the baseline where a seventh is named.

    Blocks and heads count from 1; a head's kinds are together.
    """
    at, block, head = (axis.ravel() for axis in np.indices(means.value.shape))
    spread = (each.ravel() for each in means[:3])
    values = (block + 1, head + 1, np.array(kinds, object)[at], *spread, means.baseline[at])
    table = pd.DataFrame(dict(zip(columns, values[: len(columns)], strict=True)))
    return table.sort_values(list(columns[:2]), kind="stable", ignore_index=True)


def layer_table(means: Means, kinds: Sequence[str], of: str) -> pd.DataFrame:
    """Rows of `layers.csv`; `of` is the table that has the single heads."""
    at, block = (axis.ravel() for axis in np.indices(means.value.shape))
    spread = (each.ravel() for each in means[:3])
    values = (block + 1, of, np.array(kinds, object)[at], *spread, means.baseline[at])
    table = pd.DataFrame(dict(zip(LAYERS, values, strict=True)))
    return table.sort_values("layer", kind="stable", ignore_index=True)
