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
    inside = np.flatnonzero(words != SPECIAL)
    owners = words[inside]
    # Pieces of a word stand together, so a word starts where the owner changes.
    starts = np.r_[True, owners[1:] != owners[:-1]]
    first, rest = inside[starts], inside[~starts]
    owner = torch.from_numpy(owners[~starts]).long()
    # Most words are one piece: take that one, then add the few others.
    given = maps.index_select(-2, torch.from_numpy(first))
    if rows == "mean" and len(rest):
        sizes = torch.from_numpy(np.bincount(owners)).to(maps.dtype)
        given = given.index_add_(-2, owner, maps.index_select(-2, torch.from_numpy(rest))) / sizes[:, None]
    # Along the last axis numpy's `take` is many times faster than torch's.
    to_first, to_rest, special = (
        torch.from_numpy(given.numpy().take(some, axis=-1)) for some in (first, rest, np.flatnonzero(words == SPECIAL))
    )
    return WordMaps(to_first.index_add_(-1, owner, to_rest) if len(rest) else to_first, special.sum(-1))
