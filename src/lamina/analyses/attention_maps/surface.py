"""What every head does on the surface: where its attention goes, and how broadly it is spread."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float

from lamina.analyses.resampling import StreamedBootstrap
from lamina.analyses.watching import TokenRoles, Watched, punctuation_ids, roles_of
from lamina.encoders import SPECIAL, Encoder

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

SURFACE = ("layer", "head", "measure", "value", "low", "high", "baseline")
"""Columns of `surface.csv`."""

_NEED_SEPARATORS = [MEASURES.index(name) for name in MEASURES if "separator" in name]


class Measured(NamedTuple):
    """Every measure of every head, averaged over texts; NaN where no text has it."""

    value: Float[np.ndarray, "measure block head"]
    low: Float[np.ndarray, "measure block head"]
    high: Float[np.ndarray, "measure block head"]
    baseline: Float[np.ndarray, " measure"]
    """Under uniform attention over the same texts."""


class SurfaceMeter:
    """A mean over a text's tokens, then over texts, for each measure and head, with a bootstrap over texts.

    Example:
        >>> from lamina.analyses.watching import watch
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> meter = SurfaceMeter(TinyEncoder(), samples=100)
        >>> skipped = watch(TinyEncoder(), SAMPLE_TEXTS, [meter])
        >>> meter.measured().value.shape, meter.table().columns.tolist()
        ((10, 2, 2), ['layer', 'head', 'measure', 'value', 'low', 'high', 'baseline'])
    """

    def __init__(self, encoder: Encoder, *, samples: int = 1000, seed: int = 0) -> None:
        self._causal = encoder.causal
        self._punctuation = punctuation_ids(encoder)
        self._shape = (len(MEASURES), encoder.blocks, encoder.heads)
        # Of each measure: its sum over texts for every head, its sum under uniform attention, its number of texts.
        size = len(MEASURES) * (encoder.blocks * encoder.heads + 2)
        self._sums = StreamedBootstrap(size, samples=samples, seed=seed)

    def update(self, watched: Watched) -> None:
        """See `Meter.update`."""
        roles = roles_of(watched.tokens, self._punctuation, causal=self._causal)
        size = len(watched.tokens.ids)
        selectors = _selectors(roles)
        heads = measure(watched.maps.flatten(0, 1), selectors)
        uniform = measure(uniform_map(size, causal=self._causal)[None], selectors)
        counted = np.ones((len(MEASURES), 1))
        if not roles.separators.any():
            counted[_NEED_SEPARATORS] = 0
        elif roles.separators.all():
            counted[MEASURES.index("other_to_separator")] = 0
        self._sums.add(np.concatenate([heads * counted, uniform * counted, counted], axis=1).ravel(), watched.text.id)

    def measured(self) -> Measured:
        """The means over all texts seen so far, with 95 % intervals."""
        value, baseline = self._means(self._sums.value[None])
        spread, _ = self._means(self._sums.samples)
        low, high = (np.full(self._shape, np.nan) for _ in range(2))
        for at in range(len(MEASURES)):
            # A sample may have drawn none of the few texts that have the measure.
            drawn = spread[np.isfinite(spread[:, at]).all((1, 2)), at]
            if len(drawn):
                low[at], high[at] = np.quantile(drawn, [0.025, 0.975], axis=0)
        return Measured(value[0], low, high, baseline[0])

    def table(self) -> pd.DataFrame:
        """`layer,head,measure,value,low,high,baseline`, blocks and heads counted from 1."""
        found = self.measured()
        at, block, head = (axis.ravel() for axis in np.indices(self._shape))
        spread = (each.ravel() for each in (found.value, found.low, found.high))
        columns = (block + 1, head + 1, np.array(MEASURES, object)[at], *spread, found.baseline[at])
        table = pd.DataFrame(dict(zip(SURFACE, columns, strict=True)))
        return table.sort_values(["layer", "head"], kind="stable", ignore_index=True)

    def _means(self, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of every head, and under uniform attention."""
        parts = sums.reshape(len(sums), len(MEASURES), -1).astype(float)
        counts = parts[..., -1:]
        means = np.divide(parts[..., :-1], counts, out=np.full_like(parts[..., :-1], np.nan), where=counts > 0)
        return means[..., :-1].reshape(-1, *self._shape), means[..., -1]


def measure(
    maps: Float[torch.Tensor, "head token token"], selectors: Float[torch.Tensor, "cell selector"]
) -> Float[np.ndarray, "measure head"]:
    """All measures of one text's maps; 0 where it has no such token."""
    selected = maps.flatten(1) @ selectors
    # In numpy, whose logarithm is many times faster than torch's on maps of this size; 0 log 0 is 0 here too.
    weights = maps.numpy()
    entropy = -np.vecdot(weights, np.log(np.maximum(weights, np.finfo(np.float32).tiny)))
    return np.concatenate([selected.numpy().T, entropy.mean(1)[None], entropy[:, 0][None]]).astype(float)


def uniform_map(size: int, *, causal: bool) -> Float[torch.Tensor, "token token"]:
    """Attention spread evenly over all tokens, or (`causal`) over a token and those before it.

    Example:
        >>> uniform_map(2, causal=True).tolist()
        [[1.0, 0.0], [0.5, 0.5]]
    """
    seen = torch.ones(size, size)
    seen = seen.tril() if causal else seen
    return seen / seen.sum(1, keepdim=True)


def _selectors(roles: TokenRoles) -> Float[torch.Tensor, "cell selector"]:
    """[cell of a map, measure] What each cell counts: 1 over the number of rows averaged over, or nothing."""
    separators = torch.from_numpy(roles.separators).float()
    others = 1 - separators
    size = len(separators)
    chosen = torch.zeros(len(MEASURES) - 2, size, size)
    for at, offset in enumerate((0, -1, 1)):
        chosen[at].diagonal(offset).fill_(1 / size)
    chosen[3, :, 0] = 1 / size
    chosen[4] = separators / size
    chosen[5] = torch.from_numpy(roles.punctuation).float() / size
    chosen[6] = torch.outer(separators / separators.sum().clamp_min(1), separators)
    chosen[7] = torch.outer(others / others.sum().clamp_min(1), separators)
    return chosen.flatten(1).T


PATTERNS = ("vertical", "diagonal", "vertical+diagonal", "block", "heterogeneous")
SHARE_OF_TEXTS = ("layer", "head", "pattern", "share")
"""Columns of `patterns.csv`."""

STRONG = 0.4
"""Two parts can be strong at once; with less than that in each, most of the attention goes elsewhere."""

UNTOLD = "texts too short, or of special tokens and punctuation alone, to tell a pattern"


class PatternMeter:
    """Of how many texts each head's map is of each pattern.

    Example:
        >>> from lamina.analyses.watching import watch
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> meter = PatternMeter(TinyEncoder())
        >>> skipped = watch(TinyEncoder(), SAMPLE_TEXTS, [meter])
        >>> meter.untold, meter.table().groupby(["layer", "head"])["share"].sum().tolist()
        (0, [1.0, 1.0, 1.0, 1.0])
    """

    def __init__(self, encoder: Encoder) -> None:
        self._causal = encoder.causal
        self._punctuation = punctuation_ids(encoder)
        self._counts = np.zeros((encoder.blocks, encoder.heads, len(PATTERNS)))
        self.untold = 0
        """Texts on which every map would be vertical, or diagonal: they are not counted."""

    def update(self, watched: Watched) -> None:
        """See `Meter.update`."""
        parts = _parts(watched, self._punctuation, causal=self._causal)
        uniform = uniform_map(len(parts), causal=self._causal).flatten() @ parts.flatten(0, 1) / len(parts)
        if (uniform[:2] > 1 - 1e-6).any():
            self.untold += 1
            return
        held = watched.maps.flatten(2) @ parts.flatten(0, 1) / len(parts)
        strong = (held - uniform >= STRONG * (1 - uniform)).numpy()
        if len(watched.text.segments) < 2:
            strong[..., 2] = False
        self._counts += np.eye(len(PATTERNS))[pattern_of(strong)]

    def table(self) -> pd.DataFrame:
        """`layer,head,pattern,share`, blocks and heads counted from 1; the shares of a head sum to 1."""
        texts = self._counts.sum(-1, keepdims=True)
        share = np.divide(self._counts, texts, out=np.full_like(self._counts, np.nan), where=texts > 0)
        block, head, at = (axis.ravel() for axis in np.indices(share.shape))
        columns = (block + 1, head + 1, np.array(PATTERNS, object)[at], share.ravel())
        return pd.DataFrame(dict(zip(SHARE_OF_TEXTS, columns, strict=True)))


def pattern_of(strong: Bool[np.ndarray, "*head 3"]) -> np.ndarray:
    """[*head] Which of `PATTERNS` a map is, by whether its vertical, diagonal and block parts are strong.

    Example:
        >>> PATTERNS[pattern_of(np.array([True, True, False])).item()]
        'vertical+diagonal'
    """
    vertical, diagonal, block = np.moveaxis(strong, -1, 0)
    return np.select([vertical & diagonal, vertical, diagonal, block], [2, 0, 1, 3], default=4)


def _parts(watched: Watched, punctuation: frozenset[int], *, causal: bool) -> Float[torch.Tensor, "token token part"]:
    """Which cells of the text's maps are vertical, diagonal, block."""
    roles = roles_of(watched.tokens, punctuation, causal=causal)
    size = len(watched.tokens.ids)
    marks = roles.separators | roles.punctuation
    marks[0] = True
    places = np.arange(size)
    segment = _segments(watched)
    cells = [
        np.broadcast_to(marks, (size, size)),
        np.abs(places[:, None] - places) <= 1,
        segment[:, None] == segment,
    ]
    return torch.from_numpy(np.stack(cells, -1)).float()


def _segments(watched: Watched) -> np.ndarray:
    """[token] The segment of each token; special tokens belong to the segment before them."""
    ends = [segment.end for segment in watched.text.segments]
    words = watched.tokens.words
    own = np.where(words == SPECIAL, 0, np.searchsorted(ends, words, side="right"))
    return np.maximum.accumulate(own)
