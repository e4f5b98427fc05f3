"""The pieces of the words met so far, laid out so that many texts are cut at once, by array operations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

BEFORE, BETWEEN, AFTER, UNKNOWN = range(4)
"""Numbers of what every table holds: special tokens before, between and after segments, and the unknown token."""


class Laid(NamedTuple):
    """Tokens of a sequence of entries."""

    ids: np.ndarray
    """[token]"""
    sizes: np.ndarray
    """[entry] Its number of tokens."""


class PieceTable:
    """Numbered entries, each some token ids.

    Example:
        >>> table = PieceTable([(101,), (102,), (102,), (100,)])
        >>> table.add([[7, 8], [9]])
        >>> table.lay(np.array([BEFORE, 4, 5, AFTER])).ids.tolist()
        [101, 7, 8, 9, 102]
    """

    def __init__(self, fixed: Sequence[Sequence[int]]) -> None:
        self._ids = np.empty(1024, np.int32)
        self._starts, self._sizes = np.empty(256, np.int64), np.empty(256, np.int64)
        self._entries = self._filled = 0
        self.add(fixed)

    def __len__(self) -> int:
        return self._entries

    def add(self, entries: Sequence[Sequence[int]]) -> None:
        """Add entries; they are numbered on."""
        sizes = [len(entry) for entry in entries]
        stops = list(accumulate(sizes, initial=self._filled))
        first, last = self._entries, self._entries + len(entries)
        self._ids = _grown(self._ids, stops[-1])
        self._starts, self._sizes = _grown(self._starts, last), _grown(self._sizes, last)
        self._ids[self._filled : stops[-1]] = [token for entry in entries for token in entry]
        self._starts[first:last], self._sizes[first:last] = stops[:-1], sizes
        self._entries, self._filled = last, stops[-1]

    def lay(self, numbers: np.ndarray) -> Laid:
        """The tokens of these entries, one after the other."""
        sizes = self._sizes[numbers]
        stops = np.cumsum(sizes)
        places = np.repeat(self._starts[numbers] - (stops - sizes), sizes)
        places += np.arange(len(places))
        return Laid(self._ids[places], sizes)


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    if size <= len(array):
        return array
    larger = np.empty(max(size, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return larger
