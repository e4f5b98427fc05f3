"""Where every text of a store is, in columns: as objects, millions of texts would take hundreds of bytes each."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np

from lamina.activations.shards import Entry, index_columns
from lamina.keys import SortedKeys


class Place(NamedTuple):
    """The shard that holds a text, and the text's position in it."""

    shard: Path
    entry: Entry


class Places:
    """The texts of some shards, found by their keys; of a text that is stored twice, the first counts."""

    def __init__(self, shards: Sequence[Path]) -> None:
        """Shards whose index is damaged have no texts."""
        found = [(number, columns) for number, shard in enumerate(shards) if (columns := index_columns(shard))]
        self._shards = shards
        self.read = {shards[number].stem for number, _ in found}
        """Names of the shards whose index could be read."""
        self._keys, order = SortedKeys.of(b"".join(columns.keys for _, columns in found))
        owners = [np.full(len(columns.numbers[0]), number, np.int32) for number, columns in found]
        self._owner = _joined(owners)[order]
        self._numbers = [
            _joined([columns.numbers[at].astype(np.uint32) for _, columns in found])[order]
            for at in range(len(Entry._fields) - 1)
        ]
        """Of every text, sorted by key: the fields of its entry but for the key."""

    def __len__(self) -> int:
        first, second = self._keys
        again = (first[1:] == first[:-1]) & (second[1:] == second[:-1])
        return len(first) - int(again.sum())

    def __contains__(self, key: bytes) -> bool:
        return self._keys.find(key) is not None

    def find(self, key: bytes) -> int | None:
        """The row of a text, for `at` and `Chosen`; None if it is not stored."""
        return self._keys.find(key)

    def at(self, row: int) -> Place:
        """The place in a row."""
        numbers = (int(column[row]) for column in self._numbers)
        return Place(self._shards[self._owner[row]], Entry(self._keys.key(row), *numbers))


class Chosen(Sequence[Place]):
    """The places of some texts, in their order; each is made when it is asked for."""

    def __init__(self, places: Places, rows: Sequence[int] | np.ndarray) -> None:
        self._places = places
        self._rows = np.asarray(rows, np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Place: ...
    @overload
    def __getitem__(self, index: slice) -> Chosen: ...
    def __getitem__(self, index: int | slice) -> Place | Chosen:
        if isinstance(index, slice):
            return Chosen(self._places, self._rows[index])
        return self._places.at(int(self._rows[index]))

    def __iter__(self) -> Iterator[Place]:
        return (self._places.at(int(row)) for row in self._rows)


class Names(Sequence[str]):
    """Ids of texts, one after the other in one piece of memory.

    Example:
        >>> names = Names()
        >>> for name in ("first", "", "naïve"):
        ...     names.append(name)
        >>> len(names), names[-1], list(names)
        (3, 'naïve', ['first', '', 'naïve'])
    """

    def __init__(self) -> None:
        self._letters = bytearray()
        self._ends = array("q")

    def append(self, name: str) -> None:
        """Add one."""
        self._letters += name.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._letters))

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        numbers = range(len(self))[index]
        return [self._name(each) for each in numbers] if isinstance(numbers, range) else self._name(numbers)

    def _name(self, number: int) -> str:
        start = self._ends[number - 1] if number else 0
        return self._letters[start : self._ends[number]].decode("utf-8", "surrogatepass")


def _joined(columns: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(columns) if columns else np.empty(0, np.int64)
