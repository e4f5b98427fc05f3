"""Means over texts of what is measured of every head, with intervals for heads and for layers."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Real

from lamina.analyses.heads.behaviours import LEAD
from lamina.models import Encoder
from lamina.stats.family import Contrasts, sign_flip_family
from lamina.stats.intervals import ratio_intervals
from lamina.stats.units import BY_DOCUMENT, MOST_UNITS, Unit, Units
from lamina.types import Text

LAYERS = ("layer", "of", "kind", "value", "low", "high", "baseline", "beside", *LEAD)
"""Columns of `layers.csv`."""
Beside = Literal["uniform", "layers"]
"""What a mean is compared with: uniform attention on the same texts, or the mean over all layers."""


class HeadMeanValues(NamedTuple):
    """Of each kind, averaged over the texts that have it; NaN where no text has it."""

    value: Float[np.ndarray, " kind *place"]
    low: Float[np.ndarray, " kind *place"]
    high: Float[np.ndarray, " kind *place"]
    baseline: Float[np.ndarray, " kind"]


class MeanTests(NamedTuple):
    """Differences from what something is compared with: one family."""

    kinds: list[int]
    """The kinds that are tested."""
    beside: Float[np.ndarray, " kind *place"]
    """What each is compared with."""
    differences: Contrasts
    """[kind, *place]"""


class UnitRows:
    """Sums by document (or text), collected batch by batch where the numbers are, on an accelerator too.

    Of more than `most` units, several share a row, so that memory does not grow with the corpus.

    Example:
        >>> rows = UnitRows(1)
        >>> rows.add(torch.tensor([[1.0], [2.0], [4.0]]), ["d2", "d1", "d2"])
        >>> rows.values().tolist(), rows.units.names
        ([[2.0], [5.0]], ('d1', 'd2'))
    """

    def __init__(self, size: int, *, most: int = MOST_UNITS) -> None:
        self._size, self._most = size, most
        self._rows: dict[str, int] = {}
        self._shared = False
        self._sums = torch.zeros(8, size, dtype=torch.float64)

    def add(self, values: Real[torch.Tensor, "text size"], keys: Sequence[str]) -> None:
        """Several texts' parts of their units' sums."""
        if self._sums.device != values.device:
            self._sums = self._sums.to(values.device)
        rows = [self._row(key) for key in dict.fromkeys(keys)]
        # Another unit of the same batch may have made units share rows.
        rows = [self._row(key) for key in keys]
        self._grow()
        places = torch.tensor(rows, dtype=torch.long, device=values.device)
        self._sums.index_add_(0, places, values.double())

    def values(self) -> Float[np.ndarray, "unit size"]:
        """One row per unit, in the order of their names."""
        return self._sums[[self._rows[name] for name in self.units.names]].cpu().numpy()

    @property
    def units(self) -> Units:
        """The rows by name."""
        return Units.of(self._rows, "document")

    def draws(self, *, samples: int, seed: int) -> Float[np.ndarray, "sample size"]:
        """Sums over resampled units."""
        return self.units.weights(samples=samples, seed=seed).astype(float) @ self.values()

    def _row(self, key: str) -> int:
        if not self._shared and key not in self._rows and len(self._rows) >= self._most:
            self._share()
        return self._rows.setdefault(self._place(key) if self._shared else key, len(self._rows))

    def _grow(self) -> None:
        if len(self._rows) > len(self._sums):
            more = max(len(self._rows), 2 * len(self._sums)) - len(self._sums)
            self._sums = torch.cat([self._sums, self._sums.new_zeros(more, self._size)])

    def _share(self) -> None:
        """Put several units into a row; which ones does not depend on their order."""
        self._grow()
        self._shared = True
        before, sums = self._rows, self._sums
        self._rows = {}
        rows = [self._rows.setdefault(self._place(key), len(self._rows)) for key in before]
        self._sums = torch.zeros(len(self._rows), self._size, dtype=sums.dtype, device=sums.device)
        places = torch.tensor(rows, dtype=torch.long, device=sums.device)
        self._sums.index_add_(0, places, sums[: len(rows)])

    def _place(self, key: str) -> str:
        return str(zlib.crc32(key.encode("utf-8", "surrogatepass")) % max(1, self._most // 2))


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
        self._samples, self._seed = samples, seed
        # Of each kind: its sum over texts for every head, its sum for the baseline, its number of texts.
        self._rows = UnitRows(kinds * (encoder.blocks * encoder.heads + 2))

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
        self._rows.add(sums, [self._unit.of(text) for text in texts])

    def heads(self) -> HeadMeanValues:
        """Every head's means with their 95 % intervals."""
        return self._means(self._shape)

    def layers(self) -> HeadMeanValues:
        """The means over a layer's heads, with intervals of their own: heads see the same texts."""
        return self._means(self._shape[:2])

    def layer_draws(self) -> Float[np.ndarray, "sample kind block"]:
        """What `layers` would be of each bootstrap sample; NaN where it drew no text with such a number."""
        drawn, _, counts = self._apart(self._draws(), self._shape[:2])
        with np.errstate(invalid="ignore", divide="ignore"):
            return drawn / counts[..., None]

    def head_tests(self, kinds: Sequence[int]) -> MeanTests:
        """Every head beside uniform attention: one family of all heads and these kinds, two-sided."""
        return self._tests(kinds, "uniform", self._shape)

    def layer_tests(self, kinds: Sequence[int], beside: Beside | int) -> MeanTests:
        """Every layer's mean beside uniform attention, the mean over layers, or another kind of the same layer.

        One family of all layers and these kinds, two-sided.
        """
        return self._tests(kinds, beside, self._shape[:2])

    def _tests(self, kinds: Sequence[int], beside: Beside | int, shape: tuple[int, ...]) -> MeanTests:
        """Signs of documents flipped: the differences are sums over their texts."""
        chosen = list(kinds)
        heads, baseline, counts = self._apart(self._rows.values(), shape)
        front = (..., *[None] * (len(shape) - 1))
        values, counted = heads[:, chosen], counts[:, chosen]
        if beside == "uniform":
            against = np.broadcast_to(baseline[:, chosen][front], values.shape)
        elif beside == "layers":
            against = np.broadcast_to(values.mean(-1, keepdims=True), values.shape)
        else:
            # As many of the other kind as there are of this one.
            other = counts[:, [int(beside)]]
            share = np.divide(counted, other, out=np.zeros_like(counted), where=other > 0)
            against = heads[:, [int(beside)]] * share[front]
        many = np.broadcast_to(counted[front], values.shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = against.sum(0) / many.sum(0)
        return MeanTests(chosen, means, sign_flip_family(values - against, many))

    def _draws(self) -> np.ndarray:
        return self._rows.draws(samples=self._samples, seed=self._seed)

    def _means(self, shape: tuple[int, ...]) -> HeadMeanValues:
        value, baseline, counts = self._apart(self._rows.values().sum(0)[None], shape)
        drawn, _, drawn_counts = self._apart(self._draws(), shape)
        ends = [ratio_intervals(drawn[:, kind], drawn_counts[:, kind]) for kind in range(shape[0])]
        low, high = (np.array(side) for side in zip(*ends, strict=True))
        with np.errstate(invalid="ignore"):
            per_kind = counts[0].reshape(-1, *[1] * (len(shape) - 1))
            return HeadMeanValues(value[0] / per_kind, low, high, baseline[0] / counts[0])

    def _apart(self, sums: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sums of heads (or, by a shorter `shape`, means over a layer's heads), of the baseline, and counts."""
        parts = sums.reshape(len(sums), self._shape[0], -1)
        heads = parts[..., :-2].reshape(-1, *self._shape).astype(float)
        return heads if shape == self._shape else heads.mean(-1), parts[..., -2], parts[..., -1]


def head_table(
    means: HeadMeanValues, kinds: Sequence[str], columns: Sequence[str], tests: MeanTests | None = None
) -> pd.DataFrame:
    """Layer, head, kind, value, low, high under the names of `columns`, and the baseline where a seventh is named.

    Blocks and heads count from 1; a head's kinds are together. `tests` add the columns of their differences.
    """
    kind, block, head = (axis.ravel() for axis in np.indices(means.value.shape))
    spread = (array.ravel() for array in means[:3])
    values = (block + 1, head + 1, np.array(kinds, object)[kind], *spread, means.baseline[kind])
    table = pd.DataFrame(dict(zip(columns, values, strict=False)))
    if tests is not None:
        table = table.assign(**_columns(tests, means.value.shape))
    return table.sort_values(list(columns[:2]), kind="stable", ignore_index=True)


def layer_table(means: HeadMeanValues, kinds: Sequence[str], of: str, tests: Sequence[MeanTests]) -> pd.DataFrame:
    """Rows of `layers.csv`; `of` is the table that has the single heads."""
    kind, block = (axis.ravel() for axis in np.indices(means.value.shape))
    spread = (array.ravel() for array in means[:3])
    values = (block + 1, of, np.array(kinds, object)[kind], *spread, means.baseline[kind])
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


def _columns(tests: MeanTests, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """The columns `LEAD` for all kinds; what is not tested is missing."""
    columns = {}
    for name, values in zip(LEAD, tests.differences, strict=True):
        whole = np.full(shape, np.nan)
        whole[tests.kinds] = values
        columns[name] = whole.ravel()
    return columns
