"""Rows of a batch: whole texts, or windows of texts longer than the model's limit; and the tensors made of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lamina.encoders.batching import bucket, plan_windows
from lamina.encoders.pieces import Cut


class Row(NamedTuple):
    """One row of a batch: a whole text, or one window of it."""

    text: int
    ids: np.ndarray
    types: np.ndarray
    words: np.ndarray
    """[token] The word of each token; SPECIAL for special tokens."""
    keep: slice
    """The tokens of the row that are kept ..."""
    to: slice
    """... and where in the text they go."""


def rows_of(text: int, cut: Cut, *, limit: int, causal: bool) -> list[Row]:
    """The rows of a text: itself, or windows of at most `limit` tokens.

    Example:
        >>> from lamina.encoders.contract import Tokens
        >>> tokens = Tokens(np.arange(12, dtype=np.int32), np.array([-1, *range(10), -1], np.int32))
        >>> [len(row.ids) for row in rows_of(0, Cut(tokens, np.zeros(12, int), head=1, tail=1), limit=8, causal=False)]
        [8, 8, 8]
    """
    tokens, types, head, tail = cut
    size = len(tokens.ids)
    if size <= limit:
        whole = slice(0, size)
        return [Row(text, tokens.ids, types, tokens.words, whole, whole)]
    if head > limit // 2:
        # Leading segments that are too long to repeat in every window are cut into windows as well.
        head = int(np.argmax(tokens.words >= 0))
    rows = []
    for window in plan_windows(size - head - tail, limit - head - tail, causal=causal):
        first, last = window.keep_start == 0, window.keep_stop == size - head - tail
        chosen = np.r_[0:head, head + window.start : head + window.stop, size - tail : size]
        keep = slice(
            0 if first else head + window.keep_start - window.start,
            len(chosen) if last else head + window.keep_stop - window.start,
        )
        to = slice(0 if first else head + window.keep_start, size if last else head + window.keep_stop)
        rows.append(Row(text, tokens.ids[chosen], types[chosen], tokens.words[chosen], keep, to))
    return rows


def row_groups(lengths: Sequence[int], budget: int, *, pads: bool) -> list[list[int]]:
    """Rows that share a batch, longest first; only rows of one length where padding would change the model's states.

    Example:
        >>> row_groups([3, 4, 3], budget=12, pads=True), row_groups([3, 4, 3], budget=12, pads=False)
        ([[1, 0, 2]], [[1], [0, 2]])
    """
    groups = bucket(lengths, budget)
    if pads:
        return groups
    return [list(same) for group in groups for _, same in groupby(group, key=lengths.__getitem__)]


class Padded(NamedTuple):
    """A batch, [row, token]."""

    ids: Tensor
    types: Tensor
    mask: Tensor
    """1 for tokens, 0 for padding."""


def padded(rows: Sequence[Row], pad: int) -> Padded:
    """Rows as tensors, padded to the longest.

    Example:
        >>> one, two = (
        ...     Row(0, np.arange(size), np.zeros(size, int), np.arange(size), slice(size), slice(size))
        ...     for size in (2, 3)
        ... )
        >>> padded([one, two], pad=9).ids.tolist()
        [[0, 1, 9], [0, 1, 2]]
    """
    sizes = np.fromiter((len(row.ids) for row in rows), np.int64, len(rows))
    inside = np.arange(sizes.max()) < sizes[:, None]
    ids, types = np.full(inside.shape, pad, np.int64), np.zeros(inside.shape, np.int64)
    ids[inside] = np.concatenate([row.ids for row in rows])
    types[inside] = np.concatenate([row.types for row in rows])
    return Padded(torch.from_numpy(ids), torch.from_numpy(types), torch.from_numpy(inside.astype(np.int64)))
