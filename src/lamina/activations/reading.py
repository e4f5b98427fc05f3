"""Reading stored activations, in the order asked for: every read is complete and of verified bytes, or an error.

Shards are read, not memory-mapped: a file that is cut while it is mapped ends the process, and one that is overwritten
changes the numbers of everything that was read from it.
"""

from __future__ import annotations

import math
import os
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lamina.activations.shards import Array, digest_of, read_header
from lamina.encoders import SPECIAL, Activations, Tokens
from lamina.errors import DamagedShardError, StoreError

if TYPE_CHECKING:
    from lamina.activations.store import Place

_READ_AT_ONCE = 1 << 28
"""Bytes per system call; Linux reads at most 2 GiB in one."""
_OPEN_AT_ONCE = 256
"""Shards open at the same time; a process may often have no more than 1,024 files open."""
_SETTLED = 0.1
"""Minimum age of a shard in seconds for its verification to be remembered: one written just now may change again
without a new modification time."""


class _State(NamedTuple):
    """What changes when a file is written to."""

    size: int
    modified: int


_VERIFIED: dict[Path, _State] = {}
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
        found = np.empty(array.shape, array.dtype)
        self._read(found, array.offset)
        return found

    def _read(self, target: np.ndarray, at: int) -> None:
        """Fill an array with the bytes from `at` on; bytes that changed since they were verified are verified again."""
        self._fill(target, at)
        while self._now() != self._state:
            self._state = self._verified()
            self._fill(target, at)

    def _fill(self, target: np.ndarray, at: int) -> None:
        rest = target.reshape(-1).view(np.uint8).data
        while rest:
            try:
                count = os.preadv(self._descriptor, [rest[:_READ_AT_ONCE]], at)
            except OSError as error:
                raise self._damaged(error.strerror or "it cannot be read") from error
            if not count:
                raise self._damaged("it was cut short")
            rest, at = rest[count:], at + count

    def _now(self) -> _State:
        found = os.fstat(self._descriptor)
        return _State(found.st_size, found.st_mtime_ns)

    def _verified(self) -> _State:
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


class StoredActivations:
    """Activations of a list of texts. Opening reads no data; states have the precision they are stored in."""

    def __init__(self, places: list[Place], names: list[str], *, verify: bool = True) -> None:
        self._places = places
        self._names = names
        self._verify = verify
        self._shards: dict[Path, _Shard] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Activations]:
        return (self[index] for index in range(len(self)))

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

    def name(self, index: int) -> str:
        """The id of one text."""
        return self._names[index]

    @property
    def token_bytes(self) -> int:
        """Size of one token's states in bytes, all layers together."""
        return self._shard(self._places[0].shard).row_bytes if self._places else 0

    def tokenized(self) -> Iterator[Tokens]:
        """The tokens of every text; states are not read."""
        return (self._tokens(index) for index in range(len(self)))

    def load(self, index: int) -> torch.Tensor:
        """One text's states: [token, layer, width]."""
        path, entry = self._places[index]
        shard = self._shard(path)
        states = np.empty((entry.size, *shard.states.shape[1:]), shard.states.dtype)
        shard.read_states(states, entry.start)
        return torch.from_numpy(states)

    def layer(self, number: int) -> Float[torch.Tensor, "token width"]:
        """One layer of all texts, concatenated."""
        if not self._places:
            return torch.empty(0, 0)
        first = self._shard(self._places[0].shard).states
        found = np.empty((self.tokens, first.shape[2]), first.dtype)
        # One buffer for all texts: new memory for each would take longer than reading.
        buffer = np.empty((max(place.entry.size for place in self._places), *first.shape[1:]), first.dtype)
        at = 0
        for path, entry in self._places:
            rows = buffer[: entry.size]
            self._shard(path).read_states(rows, entry.start)
            found[at : at + entry.size] = rows[:, number]
            at += entry.size
        return torch.from_numpy(found)

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


class WordVectors:
    """Every word of a list of texts as the mean of its pieces, without special tokens; one layer at a time.

    The words of all texts are concatenated.
    """

    text: torch.Tensor
    """[word] The text each word belongs to."""

    def __init__(self, stored: StoredActivations, lengths: Sequence[int]) -> None:
        """`lengths` are the numbers of words of the texts."""
        self._stored = stored
        sizes = torch.tensor(lengths)
        starts = sizes.cumsum(0) - sizes
        self.text = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        owners = []
        for start, tokens in zip(starts.tolist(), stored.tokenized(), strict=True):
            words = torch.from_numpy(tokens.words).long()
            owners.append(torch.where(words == SPECIAL, SPECIAL, words + start))
        owner = torch.cat(owners)
        self._pieces = owner != SPECIAL
        self._owner = owner[self._pieces]
        self._counts = torch.bincount(self._owner, minlength=len(self.text)).unsqueeze(1)

    def layer(self, number: int) -> Float[torch.Tensor, "word width"]:
        """All words at one layer, in float32."""
        pieces = self._stored.layer(number)[self._pieces].float()
        return torch.zeros(len(self.text), pieces.shape[1]).index_add_(0, self._owner, pieces) / self._counts
