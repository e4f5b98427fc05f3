"""A map as its strongest links: what a picture of lines needs, and no more."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.analyses.attention_maps.sentences import Level, Units, see, units_of
from lamina.analyses.attention_maps.words import to_words
from lamina.encoders import Encoder

FLOOR, MOST = 0.01, 24
"""The smallest weight that is a link, and the most links of one word."""


class Links(NamedTuple):
    """Row by row, the strongest first; what is left out is kept as a sum."""

    counts: Int[np.ndarray, " unit"]
    """Links of each row."""
    to: Int[np.ndarray, " link"]
    """The unit attended to."""
    weight: Float[np.ndarray, " link"]
    rest: Float[np.ndarray, " unit"]
    """What each row gives to all others together."""


class Lines(NamedTuple):
    """One sentence and the links of a few heads on it."""

    units: Units
    words: list[int]
    """The word each unit belongs to; -1 for special tokens."""
    links: list[Links]
    """Of each head, in the order asked for."""


def lines(
    encoder: Encoder, sentence: str, heads: list[tuple[int, int]], *, level: Level = "word", most: int | None = None
) -> Lines:
    """Where some heads look in a sentence, as links between words or pieces.

    Args:
        encoder: whose heads.
        sentence: running text.
        heads: layer and head of each, from 1.
        level: words, or the model's pieces.
        most: tokens, where less than the model takes.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> found = lines(TinyEncoder(), "Dogs bark.", [(2, 1)])
        >>> found.units.names, found.words, found.links[0].counts.tolist()
        (['[special]', 'Dogs', 'bark', '.', '[special]'], [-1, 0, 1, 2, -1], [5, 5, 5, 5, 5])
    """
    seen = see(encoder, sentence, most=most)
    units = units_of(encoder, seen.text, seen.tokens, level)
    layers, places = torch.tensor(heads).T - 1
    maps = to_words(seen.maps[layers, places][None], units.owners).maps[0].numpy()
    firsts = np.flatnonzero(np.diff(units.owners, prepend=-1))
    return Lines(units, seen.tokens.words[firsts].tolist(), [strongest(each) for each in maps])


def strongest(weights: Float[np.ndarray, "unit unit"], *, floor: float = FLOOR, most: int = MOST) -> Links:
    """The links of each row: weights of at least the floor, and of those the largest.

    Example:
        >>> found = strongest(np.array([[0.7, 0.2, 0.1], [0.0, 0.0, 1.0], [0.3, 0.3, 0.4]]), floor=0.15, most=2)
        >>> found.counts.tolist(), found.to.tolist(), found.rest.round(2).tolist()
        ([2, 1, 2], [0, 1, 2, 2, 0], [0.1, 0.0, 0.3])
    """
    order = np.argsort(-weights, axis=1, kind="stable")[:, :most]
    best = np.take_along_axis(weights, order, axis=1)
    kept = best >= floor
    rest = np.maximum(weights.sum(1) - np.where(kept, best, 0).sum(1), 0)
    return Links(kept.sum(1), order[kept], best[kept], rest)
