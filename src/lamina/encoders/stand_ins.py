"""Rows that stand in for others, where what a part hands on is taken from another text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lamina.encoders.rows import Row
from lamina.errors import ModelError


def lengths_alike(rows: Sequence[Row], seed: int = 0) -> list[Row]:
    """For each row another one to stand in for it: of those about as long, one drawn at random.

    Example:
        >>> ids = [np.arange(size) for size in (3, 9, 3)]
        >>> rows = [Row(at, each, each, each, slice(0), slice(0)) for at, each in enumerate(ids)]
        >>> [row.text for row in lengths_alike(rows)]
        [1, 2, 0]
    """
    if len(rows) < 2:
        raise ModelError("a part cannot be replaced by that of another text: there is only one text")
    order = np.argsort([len(row.ids) for row in rows], kind="stable")
    rng = np.random.default_rng(seed)
    found = [rows[0]] * len(rows)
    for start in range(0, len(order), _NEIGHBOURS):
        some = order[start : start + _NEIGHBOURS]
        if len(some) < 2:
            some = order[max(0, start - 1) : start + 1]
        turned = rng.permutation(some)
        for own, other in zip(turned, np.roll(turned, 1), strict=True):
            found[own] = rows[other]
    return found


_NEIGHBOURS = 16
"""Rows of similar length among which stand-ins are drawn."""


def as_long(row: Row, size: int) -> Row:
    """A row repeated, or cut, to a number of tokens: its values have to be there for every token of another row."""
    times = -(-size // len(row.ids))
    ids, types, words = (np.tile(each, times)[:size] for each in (row.ids, row.types, row.words))
    return row._replace(ids=ids, types=types, words=words)
