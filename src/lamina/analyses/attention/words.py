"""Attention between words, out of attention between pieces."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.encoders import SPECIAL

From = Literal["mean", "first"]
"""How the rows of a split word become one: the mean of its pieces, or (the paper's released code) the first piece."""


class WordMaps(NamedTuple):
    """Attention from word (row) to word (column); a row and its `special` sum to 1."""

    maps: Float[torch.Tensor, "block head word word"]
    """Of words alone."""
    special: Float[torch.Tensor, "block head word"]
    """What each word gives to all special tokens together."""


def to_words(
    maps: Float[torch.Tensor, "block head token token"], words: Int[np.ndarray, " token"], rows: From = "mean"
) -> WordMaps:
    """Attention to a split word is the sum over its pieces; attention from it the mean over them.

    Example:
        >>> maps = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])[None, None]
        >>> to_words(maps, np.array([SPECIAL, 0, 0])).maps.squeeze().item()
        0.5
    """
    special = np.flatnonzero(words == SPECIAL)
    inside = np.flatnonzero(words != SPECIAL)
    owners = words[inside]
    # Pieces of a word stand together, so a word starts where the owner changes.
    starts = np.r_[True, owners[1:] != owners[:-1]]
    first, rest = torch.from_numpy(inside[starts]), torch.from_numpy(inside[~starts])
    owner = torch.from_numpy(owners[~starts]).long()
    given = maps[..., first, :]
    if rows == "mean" and len(rest):
        sizes = torch.from_numpy(np.bincount(owners)).to(maps.dtype)
        given = given.index_add(-2, owner, maps[..., rest, :]) / sizes[:, None]
    # Most words are one piece: take that one, then add the few others.
    between = given[..., first]
    if len(rest):
        between = between.index_add(-1, owner, given[..., rest])
    return WordMaps(between, given[..., torch.from_numpy(special)].sum(-1))
