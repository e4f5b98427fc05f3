"""Kovaleva et al.'s (2019) five types of attention map, told apart by a rule instead of a classifier trained by hand.

Three parts of a map are weighed, each as a mean over the text's tokens:

- vertical: attention to the first token, to separators, and to full stops and commas;
- diagonal: attention to oneself and to the token before and after;
- block: attention within one's own segment, where the text has two or more (a separator belongs to the segment it
  closes, the first token to the first segment).

A part is *strong* where it holds at least `STRONG` of what uniform attention would not give it anyway:
`(part - uniform) / (1 - uniform) >= STRONG`. Strong vertical and diagonal: vertical+diagonal; one of them: that one;
else a strong block: block; else heterogeneous. For decoders uniform attention is uniform over the past.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool, Float

from lamina.analyses.attention_maps.roles import punctuation_ids, roles_of
from lamina.analyses.attention_maps.surface import uniform_map
from lamina.analyses.attention_maps.watching import Watched
from lamina.encoders import SPECIAL, Encoder

if TYPE_CHECKING:
    import pandas as pd

PATTERNS = ("vertical", "diagonal", "vertical+diagonal", "block", "heterogeneous")

STRONG = 0.4
"""Two parts can be strong at once; with less than that in each, most of the attention goes elsewhere."""

UNTOLD = "texts too short, or of special tokens and punctuation alone, to tell a pattern"


class PatternMeter:
    """Of how many texts each head's map is of each pattern.

    Example:
        >>> from lamina.analyses.attention_maps.watching import watch
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
        import pandas as pd

        texts = self._counts.sum(-1, keepdims=True)
        share = np.divide(self._counts, texts, out=np.full_like(self._counts, np.nan), where=texts > 0)
        block, head, at = (axis.ravel() for axis in np.indices(share.shape))
        names = np.array(PATTERNS, object)[at]
        return pd.DataFrame({"layer": block + 1, "head": head + 1, "pattern": names, "share": share.ravel()})


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
