"""What every head does on the surface, as means over texts: where attention goes, how broadly, and induction.

Induction is attention to the token after an earlier copy of the token (Olsson et al. 2022).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from lamina.analyses.heads.behaviours import ENOUGH, LEAD, is_ahead
from lamina.framework.watch import TokenRoles, WatchedBatch, punctuation_ids
from lamina.models import SPECIAL, Encoder
from lamina.stats.family import Contrasts, sign_flip_family
from lamina.stats.intervals import ratio_intervals, student_interval
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


MEASURES = (
    "to_self",
    "to_previous",
    "to_next",
    "to_first",
    "to_separator",
    "to_punctuation",
    "separator_to_separator",
    "other_to_separator",
    "entropy",
    "entropy_first",
)
"""The order of every array with a `measure` axis; those named `to` are shares of attention, entropies are in nats."""

SHARES_OF_ATTENTION = [column for column, name in enumerate(MEASURES) if not name.startswith("entropy")]
"""Numbers of the measures that are compared with uniform attention; an entropy can only be below that."""

SURFACE = ("layer", "head", "measure", "value", "low", "high", "baseline", *LEAD)
"""Columns of `surface.csv`."""

_NEED_SEPARATORS = [MEASURES.index(name) for name in MEASURES if "separator" in name]


class SurfaceMeter:
    """A mean over a text's tokens, then over texts, for each measure and head, with a bootstrap over documents.

    Example:
        >>> from lamina.framework.watch import watch
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> meter = SurfaceMeter(TinyEncoder(), samples=100)
        >>> skipped = watch(TinyEncoder(), SAMPLE_TEXTS, [meter])
        >>> meter.measured().value.shape, meter.table().columns.tolist()[:7]
        ((10, 2, 2), ['layer', 'head', 'measure', 'value', 'low', 'high', 'baseline'])
    """

    def __init__(self, encoder: Encoder, *, samples: int = 1000, seed: int = 0, unit: Unit = BY_DOCUMENT) -> None:
        self._causal = encoder.causal_maps
        self._punctuation = punctuation_ids(encoder)
        self.means = HeadMeans(len(MEASURES), encoder, samples=samples, seed=seed, unit=unit)
        """Kinds are `MEASURES`, the baseline is uniform attention over the same texts."""

    def update(self, batch: WatchedBatch) -> None:
        """See `Meter.update`."""
        # Without a stand-in for separators: a decoder's first token has a measure of its own.
        roles = batch.roles(self._punctuation, causal=False)
        groups = zip(batch.groups, batch.received, strict=True)
        values = torch.cat([measure(*group, roles, batch.sizes) for group in groups], 2)
        flat = uniform_maps(batch.inside, causal=self._causal)
        uniform = measure(flat, flat.sum(-2), roles, batch.sizes)
        counted = values.new_ones(values.shape[:2])
        some = roles.separators.any(1)
        counted[:, _NEED_SEPARATORS] = some[:, None].to(counted)
        counted[:, MEASURES.index("other_to_separator")] *= (batch.inside & ~roles.separators).any(1)
        self.means.add(values.unflatten(2, (len(batch.maps), -1)), counted, batch.texts, uniform[..., 0])

    def measured(self) -> HeadMeanValues:
        """The means over all texts seen so far, with 95 % intervals."""
        return self.means.heads()

    def table(self) -> pd.DataFrame:
        """One row per head and measure with its lead over uniform attention, blocks and heads counted from 1."""
        tests = self.means.head_tests(SHARES_OF_ATTENTION)
        table = head_table(self.measured(), MEASURES, SURFACE[:7], tests)
        return table.fillna({"units": 0, "needed": 0}).astype({"units": int, "needed": int})

    def layers(self) -> pd.DataFrame:
        """Rows of `layers.csv`: shares beside uniform attention, entropies beside the mean over layers."""
        entropies_of = [index for index in range(len(MEASURES)) if index not in SHARES_OF_ATTENTION]
        tests = [
            self.means.layer_tests(SHARES_OF_ATTENTION, "uniform"),
            *(self.means.layer_tests([index], "layers") for index in entropies_of),
        ]
        return layer_table(self.means.layers(), MEASURES, "surface", tests)


_EXACT = 1e-6


def constant_measures(surface: pd.DataFrame) -> list[str]:
    """Measures that no head could have otherwise: all are at one bound, and uniform attention is there too.

    In a decoder, attention to the next token and the entropy of the first token, which sees only itself, are 0.

    Example:
        >>> rows = [(1, "to_next", 0.0, 0.0), (2, "to_next", 0.0, 0.0), (1, "to_self", 0.0, 0.2)]
        >>> constant_measures(pd.DataFrame(rows, columns=["head", "measure", "value", "baseline"]))
        ['to_next']
    """
    measured = surface.dropna(subset=["value"])
    bounds = measured.groupby("measure", sort=False)[["value", "baseline"]].agg(["min", "max"])
    rounded = [(name, {round(float(bound) / _EXACT) for bound in row}) for name, *row in bounds.itertuples(name=None)]
    return [str(name) for name, values in rounded if values == {0} or values == {round(1 / _EXACT)}]


def measure(
    maps: Float[Tensor, "text head token token"],
    received: Float[Tensor, "text head token"],
    roles: TokenRoles,
    sizes: Int[Tensor, " text"],
) -> Float[Tensor, "text measure head"]:
    """All measures of the maps of one block; 0 where a text has no such token. Maps are 0 from and to padding."""
    separators, punctuation = (role[:, None].to(maps.dtype) for role in roles)
    to_separator = (maps * separators[:, None]).sum(-1)
    from_separators = (separators * to_separator).sum(-1)
    to_separator = to_separator.sum(-1)
    entropy = entropies(maps)
    sums = [
        *(maps.diagonal(offset, -2, -1).sum(-1) for offset in (0, -1, 1)),
        received[..., 0],
        to_separator,
        (received * punctuation).sum(-1),
        from_separators,
        to_separator - from_separators,
        entropy.sum(-1),
        entropy[..., 0],
    ]
    # Each is a mean over the rows that it is a sum over.
    several = roles.separators.sum(1)
    rows = [*[sizes] * 6, several, sizes - several, sizes, torch.ones_like(sizes)]
    return torch.stack(sums, 1) / torch.stack(rows, 1).clamp_min(1)[..., None]


_AT_ONCE = 2**18
"""Numbers whose logarithm numpy takes in one go: they stay in a core's cache."""


def entropies(maps: Float[Tensor, "*head token token"]) -> Float[Tensor, "*head token"]:
    """The entropy, in nats, of every token's attention; `0 log 0` is 0.

    Example:
        >>> entropies(torch.tensor([[0.5, 0.5], [1.0, 0.0]])).numpy().round(3)
        array([0.693, 0.   ], dtype=float32)
    """
    if maps.device.type != "cpu":
        return torch.special.entr(maps).sum(-1)
    # numpy's logarithm is several times faster than torch's on a CPU.
    rows = maps.contiguous().numpy().reshape(-1, maps.shape[-1])
    sums = np.empty(len(rows), np.float32)
    step = max(1, _AT_ONCE // rows.shape[1])
    logs = np.empty((min(step, len(rows)), rows.shape[1]), np.float32)
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        room = logs[: len(part)]
        np.log(np.maximum(part, np.finfo(np.float32).tiny, out=room), out=room)
        np.vecdot(part, room, out=sums[start : start + step])
    return torch.from_numpy(0 - sums).view(maps.shape[:-1])


def uniform_maps(inside: Bool[Tensor, "text token"], *, causal: bool) -> Float[Tensor, "text 1 token token"]:
    """Attention spread evenly over all tokens, or (`causal`) over a token and those before it; 0 for padding.

    Example:
        >>> uniform_maps(torch.tensor([[True, True, False]]), causal=True)[0, 0, :2, :2].tolist()
        [[1.0, 0.0], [0.5, 0.5]]
    """
    seen = (inside[:, :, None] & inside[:, None]).float()[:, None]
    seen = seen.tril() if causal else seen
    return seen / seen.sum(-1, keepdim=True).clamp_min(1)


PATTERNS = ("vertical", "diagonal", "vertical+diagonal", "block", "heterogeneous")
SHARE_OF_TEXTS = ("layer", "head", "pattern", "share", "low", "high")
"""Columns of `patterns.csv`."""

STRONG, NOTABLE = 0.35, 0.1
"""How much of the attention that is left a part needs, and how much of all attention; chosen on maps labelled by
eye, and checked on others: docs/methods/attention.md has the agreement."""

PATTERN_TRUST = "types of maps are assigned by a rule: 67 % of 48 maps it was not made from as by eye, kappa .54"
"""How far shares of types can be trusted; docs/methods/attention.md has the maps."""

UNCLASSIFIED = "texts too short, or of special tokens and punctuation alone, to tell a pattern"


class PatternMeter:
    """Of how many texts each head's map is of each pattern, with a bootstrap over documents.

    Example:
        >>> from lamina.framework.watch import watch
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> meter = PatternMeter(TinyEncoder(), samples=100)
        >>> skipped = watch(TinyEncoder(), SAMPLE_TEXTS, [meter])
        >>> meter.undecided, meter.table().groupby(["layer", "head"])["share"].sum().tolist()
        (1, [1.0, 1.0, 1.0, 1.0])
    """

    def __init__(self, encoder: Encoder, *, samples: int = 1000, seed: int = 0, unit: Unit = BY_DOCUMENT) -> None:
        self._causal = encoder.causal_maps
        self._punctuation = punctuation_ids(encoder)
        self.means = HeadMeans(len(PATTERNS), encoder, samples=samples, seed=seed, unit=unit)
        """Kinds are `PATTERNS`."""
        self._undecided = torch.zeros((), dtype=torch.long)

    def update(self, batch: WatchedBatch) -> None:
        """See `Meter.update`."""
        patterns, clear = patterns_of(batch, self._punctuation, causal=self._causal)
        kinds = torch.arange(len(PATTERNS), device=patterns.device)[:, None, None]
        counted = clear[:, None].expand(-1, len(PATTERNS)).float()
        self.means.add((patterns[:, None] == kinds).float(), counted, batch.texts)
        # Counted where the maps are: reading a number there waits for all the work before it.
        self._undecided = self._undecided.to(clear.device) + (~clear).sum()

    @property
    def undecided(self) -> int:
        """Texts on which every map would be vertical, or diagonal: they are not counted."""
        return int(self._undecided)

    def table(self) -> pd.DataFrame:
        """`layer,head,pattern,share,low,high`, blocks and heads counted from 1; the shares of a head sum to 1."""
        return head_table(self.means.heads(), PATTERNS, SHARE_OF_TEXTS)

    def layers(self) -> pd.DataFrame:
        """Rows of `layers.csv`: each type of map beside the mean over layers."""
        tests = self.means.layer_tests(range(len(PATTERNS)), "layers")
        return layer_table(self.means.layers(), PATTERNS, "patterns", [tests])


def patterns_of(
    batch: WatchedBatch, punctuation: frozenset[int], *, causal: bool
) -> tuple[Int[Tensor, "text block head"], Bool[Tensor, " text"]]:
    """Which of `PATTERNS` each head's map is; and whether the text allows to decide.

    A text on which every map would be vertical, or diagonal, does not.
    """
    roles = batch.roles(punctuation, causal=causal)
    marks = roles.separators | roles.punctuation
    marks[:, 0] = True
    segments = _segments(batch)
    flat = uniform_maps(batch.inside, causal=causal)
    uniform = _map_parts(flat, flat.sum(-2), marks, segments, batch.sizes)
    clear = ~torch.stack([left - parts < 1e-6 for parts, left in uniform[:2]]).any(0)[:, 0]
    several = torch.tensor([len(text.segments) > 1 for text in batch.texts], device=batch.device)
    patterns = []
    for group, received in zip(batch.groups, batch.received, strict=True):
        parts = _map_parts(group, received, marks, segments, batch.sizes)
        strong = torch.stack([_strong(one, other) for one, other in zip(parts, uniform, strict=True)], -1)
        strong[..., 2] &= several[:, None]
        patterns.append(pattern_of(strong))
    return torch.cat(patterns, 1).unflatten(1, (len(batch.maps), -1)), clear


class _PartShare(NamedTuple):
    """What a part of maps holds, and how much is left for it once the other parts have theirs."""

    share: Float[Tensor, "text head"]
    left: Float[Tensor, "text head"]


class _MapParts(NamedTuple):
    """Shares of all attention. Cells that are both vertical and diagonal (a neighbour that is a separator) speak for
    neither."""

    vertical: _PartShare
    diagonal: _PartShare
    block: _PartShare


def _map_parts(
    maps: Float[Tensor, "text head token token"],
    received: Float[Tensor, "text head token"],
    marks: Bool[Tensor, "text token"],
    segments: Bool[Tensor, "text token segment"],
    sizes: Int[Tensor, " text"],
) -> _MapParts:
    """Vertical is attention to marks, diagonal that to a token and its neighbours, block any other within a segment."""
    to_marks = (received * marks[:, None]).sum(-1)
    inside = _inside_segments(maps, segments, marks)
    near, near_marks, near_inside = (torch.zeros_like(to_marks) for _ in range(3))
    for offset in (0, -1, 1):
        weights = maps.diagonal(offset, -2, -1)
        # Row i and column i + offset.
        rows, columns = (slice(max(0, by), maps.shape[-1] + min(0, by)) for by in (-offset, offset))
        inside_segment = (segments[:, rows] & segments[:, columns]).any(-1) & ~marks[:, columns]
        near += weights.sum(-1)
        near_marks += (weights * marks[:, None, columns]).sum(-1)
        near_inside += (weights * inside_segment[:, None]).sum(-1)
    shares = torch.stack([to_marks - near_marks, near - near_marks, near_marks, inside - near_inside])
    vertical, diagonal, both, block = (shares / sizes[:, None]).double()
    left = 1 - both
    return _MapParts(
        _PartShare(vertical, left - diagonal),
        _PartShare(diagonal, left - vertical),
        _PartShare(block, left - vertical - diagonal),
    )


def _inside_segments(
    maps: Float[Tensor, "text head token token"],
    segments: Bool[Tensor, "text token segment"],
    marks: Bool[Tensor, "text token"],
) -> Float[Tensor, "text head"]:
    """What tokens give to those of their own segment that are no marks; 0 where there is one segment only."""
    inside = maps.new_zeros(maps.shape[:2])
    for segment in segments.unbind(-1) if segments.shape[-1] > 1 else ():
        received = (maps * segment[:, None, :, None]).sum(-2)
        inside += (received * (segment & ~marks)[:, None]).sum(-1)
    return inside


def _strong(part: _PartShare, uniform: _PartShare) -> Bool[Tensor, "text head"]:
    """Whether it holds enough, and of what is left clearly more than uniform attention would give it."""
    share, expected = part.share / part.left, uniform.share / uniform.left
    clearly = share - expected >= STRONG * (1 - expected)
    return (part.share >= NOTABLE) & clearly & (uniform.left - uniform.share > 1e-6)


def pattern_of(strong: Bool[Tensor, "*head 3"]) -> Int[Tensor, "*head"]:
    """Which of `PATTERNS` a map is, by whether its vertical, diagonal and block parts are strong.

    Example:
        >>> PATTERNS[pattern_of(torch.tensor([True, True, False]))]
        'vertical+diagonal'
    """
    vertical, diagonal, block = strong.unbind(-1)
    one = torch.where(vertical, 0, torch.where(diagonal, 1, torch.where(block, 3, 4)))
    return torch.where(vertical & diagonal, 2, one)


def _segments(batch: WatchedBatch) -> Bool[Tensor, "text token segment"]:
    """Whether a token belongs to a segment; special tokens belong to the segment before them."""
    count = max(len(text.segments) for text in batch.texts)
    if count == 1:
        return batch.inside[..., None]
    ends = [[*(segment.end for segment in text.segments), *[len(text.words)] * count][:count] for text in batch.texts]
    after = torch.tensor(ends, device=batch.device)[:, None] <= batch.owners[..., None]
    number = after.sum(-1).cummax(1).values
    return (number[..., None] == torch.arange(count, device=batch.device)) & batch.inside[..., None]


COPY = 25
"""Tokens that are repeated, as in Olsson et al. (2022); fewer where the model or its vocabulary has no room."""
_BEFORE = 1
"""Words before the tokens that are repeated."""
_FEWEST = 4
"""With fewer tokens there is hardly a choice of where to look."""
_CANDIDATES = 4000
"""Of the vocabulary, drawn to find tokens that are words."""
REPEATED = 20
"""Random sequences, unless a setting says otherwise."""

INDUCTION = (
    *("layer", "head", "value", "low", "high", "baseline", "unrepeated"),
    *(*LEAD, "copy", "twin", "twin_low", "twin_high", "induction"),
)
"""Columns of `induction.csv`."""
TOO_FEW = "its vocabulary has too few words of one token to repeat"
ENCODER = "not measured: attention in both directions can look at a copy anywhere, so that nothing is to be inferred"


class RepeatedSequences(NamedTuple):
    """Random tokens said twice, and the same after other ones; a word before them, since a text's first is special.

    Byte-level tokenizers write it without the space of all others, and decoders have their sink there.
    """

    repeated: list[Text]
    unrepeated: list[Text]
    size: int
    """Tokens in each half."""


def sequences_of(encoder: Encoder, count: int, *, seed: int) -> RepeatedSequences | None:
    """`count` random sequences of words that are one token each; None where the vocabulary has too few of them.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> made = sequences_of(TinyEncoder(causal=True), 2, seed=0)
        >>> first = made.repeated[0].words[1:]
        >>> first[:made.size] == first[made.size:], made.unrepeated[0].words[1 + made.size:] == first[made.size:]
        (True, True)
    """
    draw = np.random.default_rng([seed, 7])
    words = _words(encoder, draw)
    special = int((encoder.tokenize(Text("a", ("a",))).words == SPECIAL).sum())
    size = min(COPY, (len(words) - _BEFORE) // 2, (encoder.limit - special - _BEFORE) // 2)
    if size < _FEWEST:
        return None
    repeated, unrepeated = [], []
    for number in range(count):
        before, *drawn = (words[index] for index in draw.choice(len(words), _BEFORE + 2 * size, replace=False))
        tokens, other = drawn[:size], drawn[size:]
        repeated.append(Text(f"repeated {number}", (before, *tokens, *tokens)))
        unrepeated.append(Text(f"unrepeated {number}", (before, *other, *tokens)))
    return RepeatedSequences(repeated, unrepeated, size)


def _words(encoder: Encoder, draw: np.random.Generator) -> list[str]:
    """Different words of the vocabulary that are one token each, in every position."""
    known = encoder.vocabulary() or _letters(draw)
    named = list(dict.fromkeys(word for word in known if word and not any(letter.isspace() for letter in word)))
    some = [named[index] for index in draw.permutation(len(named))[:_CANDIDATES]]
    if not some:
        return []
    # Each after another word: what tokenizers do to a text's first word does not matter.
    cut = encoder.tokenize_all([Text(str(index), ("a", word, "a", word)) for index, word in enumerate(some)])
    words: dict[int, str] = {}
    for word, tokens in zip(some, cut, strict=True):
        once, again = (tokens.ids[tokens.words == place] for place in (1, 3))
        if not tokens.unknown and len(once) == len(again) == 1 and once[0] == again[0]:
            words.setdefault(int(once[0]), word)
    return list(words.values())


def _letters(draw: np.random.Generator) -> list[str]:
    """For an encoder that does not say what its vocabulary is."""
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    return ["".join(triple) for triple in letters[draw.integers(0, 26, (_CANDIDATES // 10, 3))]]


class InductionMeter:
    """For every sequence and head: attention from the second half to the token after the copy, and to the copy.

    Example:
        >>> from lamina.framework.watch import watch
        >>> from lamina.testing import TinyEncoder
        >>> encoder = TinyEncoder(causal=True)
        >>> made = sequences_of(encoder, 3, seed=0)
        >>> meter = InductionMeter(made.size)
        >>> skipped = watch(encoder, made.repeated + made.unrepeated, [meter])
        >>> meter.values("repeated").shape
        (3, 2, 2)
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._after: dict[str, np.ndarray] = {}
        self._copy: dict[str, np.ndarray] = {}
        self._uniform: dict[str, float] = {}

    def update(self, batch: WatchedBatch) -> None:
        """See `Meter.update`."""
        heads = torch.cat(batch.words, 1)[..., _BEFORE:, _BEFORE:]
        blocks = len(batch.maps)
        # From token i of the second half to i + 1, and to i, of the first; the last has no token after its copy there.
        after, copy = (
            heads.diagonal(by - self._size, -2, -1)[..., by : by + self._size - 1].mean(-1).unflatten(1, (blocks, -1))
            for by in (1, 0)
        )
        for index, (text, tokens) in enumerate(zip(batch.texts, batch.tokens, strict=True)):
            places = np.flatnonzero(tokens.words >= _BEFORE + self._size)[: self._size - 1]
            self._after[text.id], self._copy[text.id] = after[index].cpu().numpy(), copy[index].cpu().numpy()
            self._uniform[text.id] = float((1 / (1 + places)).mean())

    def values(self, kind: str) -> Float[np.ndarray, "sequence block head"]:
        """To the token after the copy; of sequences that are `repeated` or `unrepeated`, in their order."""
        return np.stack([self._after[name] for name in self._named(kind)]).astype(float)

    def copies(self) -> Float[np.ndarray, "block head"]:
        """To the copy itself, where tokens are repeated."""
        return np.mean([self._copy[name] for name in self._named("repeated")], axis=0)

    @property
    def uniform(self) -> float:
        """What uniform attention to all earlier tokens would give."""
        return float(np.mean([self._uniform[name] for name in self._named("repeated")]))

    def _named(self, kind: str) -> Iterator[str]:
        return (f"{kind} {number}" for number in range(sum(name.startswith(f"{kind} ") for name in self._after)))


def induction_table(meter: InductionMeter, twin: InductionMeter | None) -> pd.DataFrame:
    """One row per head; intervals are over sequences, the difference is paired by sequence.

    One family of all heads, signs of sequences flipped, two-sided; `induction` says whether a head earns the name.
    """
    repeated, unrepeated = meter.values("repeated"), meter.values("unrepeated")
    value, low, high = _mean(repeated)
    tests = sign_flip_family(repeated - unrepeated, np.ones(len(repeated)), bounds=(-1.0, 1.0))
    missing = np.full_like(value, np.nan)
    beside = (missing,) * 3 if twin is None else _mean(twin.values("repeated"))
    block, head = (axis.ravel() for axis in np.indices(value.shape))
    columns = (
        *(block + 1, head + 1, value, low, high, np.full_like(value, meter.uniform), unrepeated.mean(0)),
        *(*tests, meter.copies(), *beside, missing),
    )
    table = pd.DataFrame({name: np.ravel(column) for name, column in zip(INDUCTION, columns, strict=True)})
    table = table.astype({"units": int, "needed": int})
    return table.assign(induction=(table["value"] >= ENOUGH) & is_ahead(table))


def _mean(values: Float[np.ndarray, "sequence block head"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """With Student's interval; shares stay shares."""
    flat = values.reshape(len(values), -1)
    ends = np.array([student_interval(column) for column in flat.T]).clip(0, 1).T
    low, high = (end.reshape(values.shape[1:]) for end in ends)
    return values.mean(0), low, high


def induction_heads(table: pd.DataFrame) -> pd.DataFrame:
    """The heads that earn the name, the clearest first: enough attention, clearly more than without a repetition.

    Example:
        >>> row = dict.fromkeys(INDUCTION, 0.0) | {"layer": 2, "value": 0.8, "difference": 0.7, "p_adjusted": 0.001}
        >>> rows = pd.DataFrame([row, row | {"layer": 3, "value": 0.1}, row | {"layer": 4, "p_adjusted": 0.2}])
        >>> induction_heads(rows)["layer"].tolist()
        [2]
    """
    return table[(table["value"] >= ENOUGH) & is_ahead(table)].sort_values("value", ascending=False)
