"""Reading activations, in the order asked for. From a store, every read is complete and of verified bytes, or an error.

Shards are read, not memory-mapped: a file that is cut while it is mapped ends the process, and one that is overwritten
changes the numbers of everything that was read from it.
"""

from __future__ import annotations

import math
import os
import time
import weakref
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.activations.shards import Array, ShardEntry, as_tensor, digest_of, index_columns, read_header
from lamina.errors import DamagedShardError, StoreError
from lamina.keys import SortedKeys
from lamina.models import SPECIAL, Activations, Tokens

_READ_AT_ONCE = 1 << 28
"""Bytes per system call; Linux reads at most 2 GiB in one."""
_OPEN_AT_ONCE = 256
"""Shards open at the same time; a process may often have no more than 1,024 files open."""
_SETTLED = 0.1
"""Minimum age of a shard in seconds for its verification to be remembered: one written just now may change again
without a new modification time."""


class _FileState(NamedTuple):
    """What changes when a file is written to."""

    size: int
    modified: int


_VERIFIED: dict[Path, _FileState] = {}
"""Shards verified in this process, as they were then."""


class _Shard:
    """A shard opened for reading; closed when the last reference is gone."""

    def __init__(self, path: Path, *, verify: bool) -> None:
        self._path = path
        self._verify = verify
        try:
            self._descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise StoreError(f"shard {path} cannot be opened: {error.strerror}; run `lamina encode` again") from error
        weakref.finalize(self, os.close, self._descriptor)
        self._state = self._verified()
        self._arrays = self._layout()
        self.states = self._arrays["states"]
        self._tokens: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def row_bytes(self) -> int:
        """Size of one token's states."""
        return math.prod(self.states.shape[1:]) * self.states.dtype.itemsize

    @property
    def tokens(self) -> tuple[np.ndarray, np.ndarray]:
        """Ids and words of all tokens; read once."""
        if self._tokens is None:
            self._tokens = self._whole(self._arrays["ids"]), self._whole(self._arrays["words"])
        return self._tokens

    def read_states(self, rows: np.ndarray, start: int) -> None:
        """Fill `rows` with the states of the tokens from `start` on."""
        self._read(rows, self.states.offset + start * self.row_bytes)

    def _whole(self, array: Array) -> np.ndarray:
        values = np.empty(array.shape, array.dtype)
        self._read(values, array.offset)
        return values

    def _read(self, target: np.ndarray, offset: int) -> None:
        """Fill an array with the bytes from `at` on; bytes that changed since they were verified are verified again."""
        self._fill(target, offset)
        while self._now() != self._state:
            self._state = self._verified()
            self._fill(target, offset)

    def _fill(self, target: np.ndarray, offset: int) -> None:
        rest = target.reshape(-1).view(np.uint8).data
        while rest:
            try:
                count = os.preadv(self._descriptor, [rest[:_READ_AT_ONCE]], offset)
            except OSError as error:
                raise self._damaged(error.strerror or "it cannot be read") from error
            if not count:
                raise self._damaged("it was cut short")
            rest, offset = rest[count:], offset + count

    def _now(self) -> _FileState:
        status = os.fstat(self._descriptor)
        return _FileState(status.st_size, status.st_mtime_ns)

    def _verified(self) -> _FileState:
        """The file's state, once its bytes were found to match its name."""
        state = self._now()
        if self._verify and _VERIFIED.get(self._path) != state:
            if digest_of(self._descriptor) != self._path.stem:
                raise self._damaged("its checksum does not match")
            if time.time() - state.modified / 1e9 > _SETTLED:
                _VERIFIED[self._path] = state
        return state

    def _layout(self) -> dict[str, Array]:
        try:
            return read_header(self._descriptor)
        except (OSError, LookupError, TypeError, ValueError) as error:
            raise StoreError(f"shard {self._path} cannot be opened: {error}") from error

    def _damaged(self, why: str) -> DamagedShardError:
        return DamagedShardError(
            f"shard {self._path} is damaged: {why}. "
            "Run `lamina encode` with --repair to encode its texts again, or `lamina verify --drop`"
        )


class ReadActivations(ABC):
    """Activations of a list of texts, in its order: from a store, or held on a GPU or in memory."""

    resident: Float[torch.Tensor, "token layer width"] | None = None
    """All states in one piece where they are held, on their device; a text's begin at `start`. None for a store."""

    @abstractmethod
    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Activations]:
        return (self[index] for index in range(len(self)))

    @abstractmethod
    def __getitem__(self, index: int) -> Activations: ...

    @property
    @abstractmethod
    def tokens(self) -> int:
        """Tokens in all texts together, special ones included."""

    @property
    @abstractmethod
    def unknown(self) -> int:
        """Words replaced by the unknown token."""

    @property
    @abstractmethod
    def windowed(self) -> int:
        """Texts longer than the model's limit, encoded in overlapping windows."""

    @property
    @abstractmethod
    def token_bytes(self) -> int:
        """Size of one token's states in bytes, all layers together."""

    @abstractmethod
    def size(self, index: int) -> int:
        """Tokens of one text."""

    @abstractmethod
    def start(self, index: int) -> int:
        """First row of one text in `resident`; in a store, its first token in its shard."""

    @abstractmethod
    def name(self, index: int) -> str:
        """The id of one text."""

    @abstractmethod
    def tokenized(self) -> Iterator[Tokens]:
        """The tokens of every text; states are not read."""

    @abstractmethod
    def load(self, index: int) -> torch.Tensor:
        """One text's states: [token, layer, width]."""

    @abstractmethod
    def layer(self, number: int) -> Float[torch.Tensor, "token width"]:
        """One layer of all texts, concatenated, where the states are."""


class StoredActivations(ReadActivations):
    """Activations in a store. Opening reads no data.

    All states have the store's precision `kept`, also those of shards from before the store was widened to float32.
    """

    def __init__(
        self, places: Sequence[StoredPlace], names: Sequence[str], *, precision: str, verify: bool = True
    ) -> None:
        self._places = places
        self._names = names
        self._dtype: torch.dtype = getattr(torch, precision)
        self._verify = verify
        self._shards: dict[Path, _Shard] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> Activations:
        states = self.load(index)
        return Activations(self._names[index], self._tokens(index), states, None, self._places[index].entry.windows)

    @property
    def tokens(self) -> int:
        """Tokens in all texts together, special ones included."""
        return sum(place.entry.size for place in self._places)

    @property
    def unknown(self) -> int:
        """Words replaced by the unknown token."""
        return sum(place.entry.unknown for place in self._places)

    @property
    def windowed(self) -> int:
        """Texts longer than the model's limit, encoded in overlapping windows."""
        return sum(place.entry.windows > 1 for place in self._places)

    def size(self, index: int) -> int:
        """Tokens of one text."""
        return self._places[index].entry.size

    def start(self, index: int) -> int:
        """See `ReadActivations.start`."""
        return self._places[index].entry.start

    def name(self, index: int) -> str:
        """The id of one text."""
        return self._names[index]

    @property
    def token_bytes(self) -> int:
        """Size of one token's states in bytes, all layers together."""
        if not self._places:
            return 0
        return math.prod(self._shard(self._places[0].shard).states.shape[1:]) * self._dtype.itemsize

    def tokenized(self) -> Iterator[Tokens]:
        """The tokens of every text; states are not read."""
        return (self._tokens(index) for index in range(len(self)))

    def load(self, index: int) -> torch.Tensor:
        """One text's states: [token, layer, width]."""
        path, entry = self._places[index]
        shard = self._shard(path)
        states = np.empty((entry.size, *shard.states.shape[1:]), shard.states.dtype)
        shard.read_states(states, entry.start)
        return as_tensor(states).to(self._dtype)

    def layer(self, number: int) -> Float[torch.Tensor, "token width"]:
        """One layer of all texts, concatenated."""
        if not self._places:
            return torch.empty(0, 0)
        first = self._shard(self._places[0].shard).states
        states = torch.empty(self.tokens, first.shape[2], dtype=self._dtype)
        longest, buffers = max(place.entry.size for place in self._places), {}
        start = 0
        for path, entry in self._places:
            shard = self._shard(path)
            kind = shard.states.dtype
            # One buffer for all texts of a precision: new memory for each would take longer than reading.
            if kind not in buffers:
                buffers[kind] = np.empty((longest, *first.shape[1:]), kind)
            rows = buffers[kind][: entry.size]
            shard.read_states(rows, entry.start)
            states[start : start + entry.size] = as_tensor(rows)[:, number]
            start += entry.size
        return states

    def _tokens(self, index: int) -> Tokens:
        path, entry = self._places[index]
        ids, words = self._shard(path).tokens
        rows = slice(entry.start, entry.start + entry.size)
        return Tokens(ids[rows], words[rows], entry.unknown)

    def _shard(self, path: Path) -> _Shard:
        if path not in self._shards:
            if len(self._shards) == _OPEN_AT_ONCE:
                del self._shards[next(iter(self._shards))]
            self._shards[path] = _Shard(path, verify=self._verify)
        return self._shards[path]


def sum_rows(
    rows: Float[torch.Tensor, "row width"], group: Int[torch.Tensor, " row"], groups: int
) -> Float[torch.Tensor, "group width"]:
    """The sum of the rows of each group, the same to the last bit when repeated: on a GPU `index_add_` is not.

    Example:
        >>> sum_rows(torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([1, 0, 1]), 2).tolist()
        [[2.0], [5.0]]
    """
    if rows.device.type == "cpu":
        return rows.new_zeros(groups, rows.shape[1]).index_add_(0, group, rows)
    return sum_sorted_rows(rows[group.argsort(stable=True)], torch.bincount(group, minlength=groups))


def sum_sorted_rows(
    rows: Float[torch.Tensor, "row width"], sizes: Int[torch.Tensor, " group"]
) -> Float[torch.Tensor, "group width"]:
    """The sums of consecutive rows, `sizes` at a time; on a CPU several times slower than `index_add_`."""
    return torch.segment_reduce(rows, "sum", lengths=sizes, initial=0)


class WordVectors:
    """Every word of a list of texts as the mean of its tokens, without special tokens; one layer at a time.

    The words of all texts are concatenated. Computed where the states are.
    """

    text: torch.Tensor
    """[word] The text each word belongs to."""

    def __init__(self, stored: ReadActivations, lengths: Sequence[int]) -> None:
        """`lengths` are the numbers of words of the texts."""
        self._stored = stored
        device = "cpu" if stored.resident is None else stored.resident.device
        sizes = np.array(lengths, np.int64)
        starts = np.repeat(sizes.cumsum() - sizes, [stored.size(index) for index in range(len(stored))])
        words = np.concatenate([tokens.words for tokens in stored.tokenized()]).astype(np.int64)
        inside = words != SPECIAL
        owner = torch.from_numpy((words + starts)[inside])
        self.text = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes)).to(device)
        self._tokens = torch.from_numpy(np.flatnonzero(inside)).to(device)
        self._owner = owner.to(device)
        self._counts = torch.bincount(owner, minlength=int(sizes.sum())).unsqueeze(1).to(device)

    def layer(self, number: int) -> Float[torch.Tensor, "word width"]:
        """All words at one layer, in float32."""
        tokens = self._stored.layer(number)[self._tokens].float()
        return sum_rows(tokens, self._owner, len(self.text)) / self._counts


# Where every text of a store is, in columns: as objects, millions of texts would take hundreds of bytes each.


class StoredPlace(NamedTuple):
    """The shard that holds a text, and the text's position in it."""

    shard: Path
    entry: ShardEntry


class StoreIndex:
    """The texts of some shards, found by their keys; of a text that is stored twice, the first counts."""

    def __init__(self, shards: Sequence[Path]) -> None:
        """Shards whose index is damaged have no texts."""
        indexed = [(number, columns) for number, shard in enumerate(shards) if (columns := index_columns(shard))]
        self._shards = shards
        self.read = {shards[number].stem for number, _ in indexed}
        """Names of the shards whose index could be read."""
        self._keys, order = SortedKeys.of(b"".join(columns.keys for _, columns in indexed))
        owners = [np.full(len(columns.numbers[0]), number, np.int32) for number, columns in indexed]
        self._owner = _joined(owners)[order]
        self._numbers = [
            _joined([columns.numbers[field_number].astype(np.uint32) for _, columns in indexed])[order]
            for field_number in range(len(ShardEntry._fields) - 1)
        ]
        """Of every text, sorted by key: the fields of its entry but for the key."""

    def __len__(self) -> int:
        first, second = self._keys
        again = (first[1:] == first[:-1]) & (second[1:] == second[:-1])
        return len(first) - int(again.sum())

    def __contains__(self, key: bytes) -> bool:
        return self._keys.find(key) is not None

    def find(self, key: bytes) -> int | None:
        """The row of a text, for `at` and `ChosenPlaces`; None if it is not stored."""
        return self._keys.find(key)

    def place(self, row: int) -> StoredPlace:
        """The place in a row."""
        numbers = (int(column[row]) for column in self._numbers)
        return StoredPlace(self._shards[self._owner[row]], ShardEntry(self._keys.key(row), *numbers))


class ChosenPlaces(Sequence[StoredPlace]):
    """The places of some texts, in their order; each is made when it is asked for."""

    def __init__(self, places: StoreIndex, rows: Sequence[int] | np.ndarray) -> None:
        self._places = places
        self._rows = np.asarray(rows, np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> StoredPlace: ...
    @overload
    def __getitem__(self, index: slice) -> ChosenPlaces: ...
    def __getitem__(self, index: int | slice) -> StoredPlace | ChosenPlaces:
        if isinstance(index, slice):
            return ChosenPlaces(self._places, self._rows[index])
        return self._places.place(int(self._rows[index]))

    def __iter__(self) -> Iterator[StoredPlace]:
        return (self._places.place(int(row)) for row in self._rows)


class TextNames(Sequence[str]):
    """Ids of texts, one after the other in one piece of memory.

    Example:
        >>> names = TextNames()
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
        return [self._name(number) for number in numbers] if isinstance(numbers, range) else self._name(numbers)

    def _name(self, number: int) -> str:
        start = self._ends[number - 1] if number else 0
        return self._letters[start : self._ends[number]].decode("utf-8", "surrogatepass")


def _joined(columns: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(columns) if columns else np.empty(0, np.int64)
