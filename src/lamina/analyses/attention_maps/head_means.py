"""Means over texts of what is measured of every head, with intervals for heads and for layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Real

from lamina.analyses.attention_maps.behaviours import LEAD
from lamina.encoders import Encoder
from lamina.stats.bootstrap import StreamedBootstrap
from lamina.stats.family import Contrasts, bootstrap_family
from lamina.stats.intervals import ratio_intervals
from lamina.stats.units import BY_DOCUMENT, Unit
from lamina.types import Text

LAYERS = ("layer", "of", "kind", "value", "low", "high", "baseline", "beside", *LEAD)
"""Columns of `layers.csv`."""
Beside = Literal["uniform", "layers"]
"""What a mean is compared with: uniform attention on the same texts, or the mean over all layers."""


class Means(NamedTuple):
    """Of each kind, averaged over the texts that have it; NaN where no text has it."""

    value: Float[np.ndarray, " kind *place"]
    low: Float[np.ndarray, " kind *place"]
    high: Float[np.ndarray, " kind *place"]
    baseline: Float[np.ndarray, " kind"]


class Tests(NamedTuple):
    """Differences from what something is compared with: one family."""

    kinds: list[int]
    """The kinds that are tested."""
    beside: Float[np.ndarray, " kind *place"]
    """What each is compared with."""
    differences: Contrasts
    """[kind, *place]"""


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
        self._names: set[str] = set()
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
        names = [self._unit.of(text) for text in texts]
        self._names.update(names)
        self._sums.add_all(sums, names)

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

    def head_tests(self, kinds: Sequence[int]) -> Tests:
        """Every head beside uniform attention: one family of all heads and these kinds, two-sided."""
        return self._tests(kinds, "uniform", self._shape)

    def layer_tests(self, kinds: Sequence[int], beside: Beside | int) -> Tests:
        """Every layer's mean beside uniform attention, the mean over layers, or another kind of the same layer.

        One family of all layers and these kinds, two-sided.
        """
        return self._tests(kinds, beside, self._shape[:2])

    def _tests(self, kinds: Sequence[int], beside: Beside | int, shape: tuple[int, ...]) -> Tests:
        chosen = list(kinds)
        both = [self._drawn(sums, chosen, beside, shape) for sums in (self._sums.value[None], self._sums.samples)]
        (value, against), (drawn, drawn_against) = both
        found = bootstrap_family((value - against)[0], drawn - drawn_against, len(self._names))
        return Tests(chosen, np.broadcast_to(against[0], value[0].shape), found)

    def _drawn(
        self, sums: np.ndarray, kinds: list[int], beside: Beside | int, shape: tuple[int, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means, [sample, kind, *place], and what they are compared with; NaN where a sample has no such text."""
        heads, baseline, counts = self._apart(sums, shape)
        front = (..., *[None] * (len(shape) - 1))
        with np.errstate(invalid="ignore", divide="ignore"):
            means = heads / counts[front]
            if beside == "uniform":
                against = (baseline / counts)[:, kinds][front]
            elif beside == "layers":
                against = means[:, kinds].mean(-1, keepdims=True)
            else:
                against = means[:, [int(beside)]]
        return means[:, kinds], against

    def _means(self, shape: tuple[int, ...]) -> Means:
        value, baseline, counts = self._apart(self._sums.value[None], shape)
        drawn, _, drawn_counts = self._apart(self._sums.samples, shape)
        ends = [ratio_intervals(drawn[:, kind], drawn_counts[:, kind]) for kind in range(shape[0])]
        low, high = (np.array(side) for side in zip(*ends, strict=True))
        with np.errstate(invalid="ignore"):
            per_kind = counts[0].reshape(-1, *[1] * (len(shape) - 1))
            return Means(value[0] / per_kind, low, high, baseline[0] / counts[0])

    def _apart(self, sums: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sums of heads (or, by a shorter `shape`, means over a layer's heads), of the baseline, and counts."""
        parts = sums.reshape(len(sums), self._shape[0], -1)
        heads = parts[..., :-2].reshape(-1, *self._shape).astype(float)
        return heads if shape == self._shape else heads.mean(-1), parts[..., -2], parts[..., -1]


def head_table(means: Means, kinds: Sequence[str], columns: Sequence[str], tests: Tests | None = None) -> pd.DataFrame:
    """Layer, head, kind, value, low, high under the names of `columns`, and the baseline where a seventh is named.

    Blocks and heads count from 1; a head's kinds are together. `tests` add the columns of their differences.
    """
    at, block, head = (axis.ravel() for axis in np.indices(means.value.shape))
    spread = (each.ravel() for each in means[:3])
    values = (block + 1, head + 1, np.array(kinds, object)[at], *spread, means.baseline[at])
    table = pd.DataFrame(dict(zip(columns, values, strict=False)))
    if tests is not None:
        table = table.assign(**_columns(tests, means.value.shape))
    return table.sort_values(list(columns[:2]), kind="stable", ignore_index=True)


def layer_table(means: Means, kinds: Sequence[str], of: str, tests: Sequence[Tests]) -> pd.DataFrame:
    """Rows of `layers.csv`; `of` is the table that has the single heads."""
    at, block = (axis.ravel() for axis in np.indices(means.value.shape))
    spread = (each.ravel() for each in means[:3])
    values = (block + 1, of, np.array(kinds, object)[at], *spread, means.baseline[at])
    table = pd.DataFrame(dict(zip(LAYERS, values, strict=False)))
    beside = np.full(means.value.shape, np.nan)
    tested = pd.DataFrame({name: np.full(beside.size, np.nan) for name in LEAD})
    for family in tests:
        beside[family.kinds] = family.beside
        tested = pd.DataFrame(_columns(family, beside.shape)).combine_first(tested)
    table = table.assign(beside=beside.ravel(), **{name: tested[name] for name in LEAD})
    return (
        table.fillna({"units": 0, "needed": 0})
        .astype({"units": int, "needed": int})
        .sort_values("layer", kind="stable", ignore_index=True)
    )


def _columns(tests: Tests, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """The columns `LEAD` for all kinds; what is not tested is missing."""
    columns = {}
    for name, values in zip(LEAD, tests.differences, strict=True):
        whole = np.full(shape, np.nan)
        whole[tests.kinds] = values
        columns[name] = whole.ravel()
    return columns
