"""What every head does on the surface: where its attention goes, and how broadly it is spread."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int

from lamina.analyses.attention_maps.head_means import HeadMeans, Means, head_table
from lamina.analyses.resampling import BY_DOCUMENT, Unit
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


class SurfaceMeter:
    """A mean over a text's tokens, then over texts, for each measure and head, with a bootstrap over documents.

    Example:
        >>> from lamina.analyses.watching import watch
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> meter = SurfaceMeter(TinyEncoder(), samples=100)
        >>> skipped = watch(TinyEncoder(), SAMPLE_TEXTS, [meter])
        >>> meter.measured().value.shape, meter.table().columns.tolist()
        ((10, 2, 2), ['layer', 'head', 'measure', 'value', 'low', 'high', 'baseline'])
    """

    def __init__(self, encoder: Encoder, *, samples: int = 1000, seed: int = 0, unit: Unit = BY_DOCUMENT) -> None:
        self._causal = encoder.causal_maps
        self._punctuation = punctuation_ids(encoder)
        self.means = HeadMeans(len(MEASURES), encoder, samples=samples, seed=seed, unit=unit)
        """Kinds are `MEASURES`, the baseline is uniform attention over the same texts."""

    def update(self, watched: Watched) -> None:
        """See `Meter.update`."""
        # Without a stand-in for separators: a decoder's first token has a measure of its own.
        roles = roles_of(watched.tokens, self._punctuation, causal=False)
        size = len(watched.tokens.ids)
        selectors = _selectors(roles)
        heads = measure(watched.maps.flatten(0, 1), selectors)
        uniform = measure(uniform_map(size, causal=self._causal)[None], selectors)
        counted = np.ones(len(MEASURES))
        if not roles.separators.any():
            counted[_NEED_SEPARATORS] = 0
        elif roles.separators.all():
            counted[MEASURES.index("other_to_separator")] = 0
        self.means.add(heads.reshape(-1, *watched.maps.shape[:2]), counted, watched.text, uniform[:, 0])

    def measured(self) -> Means:
        """The means over all texts seen so far, with 95 % intervals."""
        return self.means.heads()

    def table(self) -> pd.DataFrame:
        """`layer,head,measure,value,low,high,baseline`, blocks and heads counted from 1."""
        return head_table(self.measured(), MEASURES, SURFACE)


_EXACT = 1e-6


def constant_measures(surface: pd.DataFrame) -> list[str]:
    """Measures that no head could have otherwise: all are at one bound, and uniform attention is there too.

    In a decoder, attention to the next token and the entropy of the first token, which sees only itself, are 0.

    Example:
        >>> rows = [(1, "to_next", 0.0, 0.0), (2, "to_next", 0.0, 0.0), (1, "to_self", 0.0, 0.2)]
        >>> constant_measures(pd.DataFrame(rows, columns=["head", "measure", "value", "baseline"]))
        ['to_next']
    """
    told = surface.dropna(subset=["value"])
    bounds = told.groupby("measure", sort=False)[["value", "baseline"]].agg(["min", "max"])
    at = [(name, {round(float(each) / _EXACT) for each in row}) for name, *row in bounds.itertuples(name=None)]
    return [str(name) for name, values in at if values == {0} or values == {round(1 / _EXACT)}]


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
SHARE_OF_TEXTS = ("layer", "head", "pattern", "share", "low", "high")
"""Columns of `patterns.csv`."""

STRONG, ENOUGH = 0.35, 0.1
"""How much of the attention that is left a part needs, and how much of all attention; chosen on maps labelled by
eye, and checked on others: docs/methods/attention.md has the agreement."""

UNTOLD = "texts too short, or of special tokens and punctuation alone, to tell a pattern"


class PatternMeter:
    """Of how many texts each head's map is of each pattern, with a bootstrap over documents.

    Example:
        >>> from lamina.analyses.watching import watch
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> meter = PatternMeter(TinyEncoder(), samples=100)
        >>> skipped = watch(TinyEncoder(), SAMPLE_TEXTS, [meter])
        >>> meter.untold, meter.table().groupby(["layer", "head"])["share"].sum().tolist()
        (1, [1.0, 1.0, 1.0, 1.0])
    """

    def __init__(self, encoder: Encoder, *, samples: int = 1000, seed: int = 0, unit: Unit = BY_DOCUMENT) -> None:
        self._causal = encoder.causal_maps
        self._punctuation = punctuation_ids(encoder)
        self.means = HeadMeans(len(PATTERNS), encoder, samples=samples, seed=seed, unit=unit)
        """Kinds are `PATTERNS`."""
        self.untold = 0
        """Texts on which every map would be vertical, or diagonal: they are not counted."""

    def update(self, watched: Watched) -> None:
        """See `Meter.update`."""
        found = patterns_of(watched, self._punctuation, causal=self._causal)
        if found is None:
            self.untold += 1
            return
        own = (found == np.arange(len(PATTERNS))[:, None, None]).astype(float)
        self.means.add(own, np.ones(len(PATTERNS)), watched.text)

    def table(self) -> pd.DataFrame:
        """`layer,head,pattern,share,low,high`, blocks and heads counted from 1; the shares of a head sum to 1."""
        return head_table(self.means.heads(), PATTERNS, SHARE_OF_TEXTS)


def patterns_of(watched: Watched, punctuation: frozenset[int], *, causal: bool) -> Int[np.ndarray, "block head"] | None:
    """Which of `PATTERNS` each head's map is; None for a text on which every map would be vertical, or diagonal."""
    cells = _cells(watched, punctuation, causal=causal)
    size = len(cells)
    uniform = _Held.of(uniform_map(size, causal=causal)[None, None], cells)
    if any(left - held < 1e-6 for held, left in (uniform.vertical, uniform.diagonal)):
        return None
    held = _Held.of(watched.maps, cells)
    strong = [_strong(one, other) for one, other in zip(held, uniform, strict=True)]
    if len(watched.text.segments) < 2:
        strong[2][:] = False
    return pattern_of(np.stack(strong, -1))


class _Held(NamedTuple):
    """What each part holds, and how much is left for it once the other parts have theirs; shares of all attention.

    Cells that are both vertical and diagonal (a neighbour that is a separator) speak for neither.
    """

    vertical: tuple[np.ndarray, np.ndarray]
    diagonal: tuple[np.ndarray, np.ndarray]
    block: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(
        cls, maps: Float[torch.Tensor, "block head token token"], cells: Float[torch.Tensor, "token token part"]
    ) -> _Held:
        shares = (maps.float().flatten(2) @ cells.flatten(0, 1) / len(cells)).numpy().astype(float)
        vertical, diagonal, both, block = np.moveaxis(shares, -1, 0)
        left = 1 - both
        return cls((vertical, left - diagonal), (diagonal, left - vertical), (block, left - vertical - diagonal))


def _strong(
    part: tuple[np.ndarray, np.ndarray], uniform: tuple[np.ndarray, np.ndarray]
) -> Bool[np.ndarray, "block head"]:
    """Whether it holds enough, and of what is left clearly more than uniform attention would give it."""
    (held, left), (flat, flat_left) = part, uniform
    with np.errstate(invalid="ignore", divide="ignore"):
        share, expected = held / left, flat / flat_left
        return (held >= ENOUGH) & (share - expected >= STRONG * (1 - expected)) & (flat_left - flat > 1e-6)


def pattern_of(strong: Bool[np.ndarray, "*head 3"]) -> np.ndarray:
    """[*head] Which of `PATTERNS` a map is, by whether its vertical, diagonal and block parts are strong.

    Example:
        >>> PATTERNS[pattern_of(np.array([True, True, False])).item()]
        'vertical+diagonal'
    """
    vertical, diagonal, block = np.moveaxis(strong, -1, 0)
    return np.select([vertical & diagonal, vertical, diagonal, block], [2, 0, 1, 3], default=4)


def _cells(watched: Watched, punctuation: frozenset[int], *, causal: bool) -> Float[torch.Tensor, "token token part"]:
    """Which cells of the text's maps are vertical alone, diagonal alone, both, and else within a segment."""
    roles = roles_of(watched.tokens, punctuation, causal=causal)
    size = len(watched.tokens.ids)
    marks = roles.separators | roles.punctuation
    marks[0] = True
    places = np.arange(size)
    near = np.abs(places[:, None] - places) <= 1
    segment = _segments(watched)
    cells = [marks & ~near, near & ~marks, near & marks, (segment[:, None] == segment) & ~near & ~marks]
    return torch.from_numpy(np.stack(cells, -1)).float()


def _segments(watched: Watched) -> np.ndarray:
    """[token] The segment of each token; special tokens belong to the segment before them."""
    ends = [segment.end for segment in watched.text.segments]
    words = watched.tokens.words
    own = np.where(words == SPECIAL, 0, np.searchsorted(ends, words, side="right"))
    return np.maximum.accumulate(own)
