"""Many 16-byte keys in little memory: 16 bytes each, where a set or a dictionary of Python objects takes over 100."""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt64

KEY = 16
"""Size of a key in bytes."""
_FRESH = 2**16
"""Keys that a set gathers before they are sorted."""
_HALVES = struct.Struct(">QQ")


class SortedKeys(NamedTuple):
    """Keys as pairs of 64-bit numbers, sorted; equal keys stay in the order they were given in."""

    first: UInt64[np.ndarray, " key"]
    second: UInt64[np.ndarray, " key"]

    @classmethod
    def of(cls, joined: bytes | np.ndarray) -> tuple[SortedKeys, np.ndarray]:
        """Keys that follow each other in one piece of bytes, and the place that each had there.

        Example:
            >>> keys, places = SortedKeys.of(b"b" * 16 + b"a" * 16)
            >>> keys.find(b"b" * 16), keys.find(b"c" * 16), places.tolist()
            (1, None, [1, 0])
        """
        halves = np.frombuffer(joined, ">u8").astype(np.uint64).reshape(-1, 2)
        order = np.lexsort((halves[:, 1], halves[:, 0]))
        return cls(halves[order, 0], halves[order, 1]), order

    def find(self, key: bytes) -> int | None:
        """The place of a key among the sorted ones, the first of several; None if it is not there."""
        one, two = _HALVES.unpack(key)
        # As a number of the array's own type: any other would make numpy convert the whole array.
        place = int(self.first.searchsorted(np.uint64(one)))
        while place < len(self.first) and self.first[place] == one:
            if self.second[place] == two:
                return place
            place += 1
        return None

    def key(self, place: int) -> bytes:
        """The key in a place."""
        return _HALVES.pack(int(self.first[place]), int(self.second[place]))

    def merged(self, other: SortedKeys) -> SortedKeys:
        """The keys of both."""
        first, second = (np.concatenate(pair) for pair in zip(self, other, strict=True))
        order = np.lexsort((second, first))
        return SortedKeys(first[order], second[order])


class KeySet:
    """Keys that were met before, for streams of millions.

    Example:
        >>> met = KeySet()
        >>> met.add(b"a" * 16), met.add(b"a" * 16), len(met)
        (True, False, 1)
    """

    def __init__(self) -> None:
        self._fresh: set[bytes] = set()
        self._runs: list[SortedKeys] = []
        """Each at least twice as long as the next: few to look through, and seldom merged."""

    def __len__(self) -> int:
        return len(self._fresh) + sum(len(run.first) for run in self._runs)

    def __contains__(self, key: bytes) -> bool:
        return key in self._fresh or any(run.find(key) is not None for run in self._runs)

    def add(self, key: bytes) -> bool:
        """Add a key; returns whether it is new."""
        if key in self:
            return False
        self._fresh.add(key)
        if len(self._fresh) >= _FRESH:
            self._settle()
        return True

    def _settle(self) -> None:
        run, _ = SortedKeys.of(b"".join(self._fresh))
        self._fresh = set()
        while self._runs and len(self._runs[-1].first) < 2 * len(run.first):
            run = self._runs.pop().merged(run)
        self._runs.append(run)
