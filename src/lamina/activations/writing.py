"""Gathering activations into shards."""

from __future__ import annotations

import math
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from lamina.activations.disk import page_aligned
from lamina.activations.shards import Entry, write_shard
from lamina.encoders import Activations
from lamina.errors import ModelError, StoreError

SHARD_BYTES = 64 * 2**20
"""About how much a shard holds, and how much work a kill can cost."""

_CHECKED_AT_ONCE = 2**20
_HALF_EXPONENT = 0x7C00


class HalfOverflowError(Exception):
    """A value that float16 cannot hold: caught by the engine, which keeps that store in float32."""


class _Gathered(NamedTuple):
    """What makes one shard."""

    states: torch.Tensor
    ids: list[np.ndarray]
    words: list[np.ndarray]
    entries: list[Entry]


class ShardWriter:
    """Fills two buffers in turn: one is written, by a thread of its own, while the other is filled.

    The same two all the time: fresh memory for every shard is what makes writing slow.
    """

    def __init__(self, folder: Path, layers: int, width: int, kept: str, shard_bytes: int = SHARD_BYTES) -> None:
        self._folder = folder
        self._shape = (layers, width)
        self._half = kept == "float16"
        row = layers * width * (2 if self._half else 4)
        self._room = max(1, shard_bytes // row)
        self._buffer = self._allocate(self._room)
        self._spare: torch.Tensor | None = None
        self._thread = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None
        self._entries: list[Entry] = []
        self._ids: list[np.ndarray] = []
        self._words: list[np.ndarray] = []
        self._filled = 0

    def add(self, key: bytes, activations: Activations) -> None:
        """Take one text's states."""
        states, tokens = activations.states, activations.tokens
        if states is None:
            raise StoreError(f"text {activations.text!r} came without states: nothing to store")
        count = len(states)
        if self._filled + count > len(self._buffer):
            self.flush()
        if count > len(self._buffer):
            self._buffer = self._allocate(count)
        self._buffer[self._filled : self._filled + count].copy_(states)
        self._entries.append(Entry(key, self._filled, count, tokens.unknown, activations.windows))
        self._ids.append(tokens.ids)
        self._words.append(tokens.words)
        self._filled += count

    def flush(self) -> None:
        """Have what is gathered written as one shard; an error of the shard before it is raised here."""
        self._wait()
        if not self._entries:
            return
        gathered = _Gathered(self._buffer[: self._filled], self._ids, self._words, self._entries)
        self._writing = self._thread.submit(self._write, gathered)
        self._buffer, self._spare = self._allocate(self._room) if self._spare is None else self._spare, self._buffer
        self._entries, self._ids, self._words, self._filled = [], [], [], 0

    def finish(self) -> None:
        """Write what is gathered, and wait until all of it is on the disk."""
        self.flush()
        self._wait()

    def stop(self) -> None:
        """Let a shard that is being written come to its end; what is gathered is dropped."""
        self._thread.shutdown()

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def _write(self, gathered: _Gathered) -> None:
        states = gathered.states.numpy()
        self._check(states)
        # Two-byte numbers last: after an odd count of them, four-byte ones could not be memory-mapped.
        arrays = {"ids": np.concatenate(gathered.ids), "words": np.concatenate(gathered.words), "states": states}
        write_shard(self._folder, arrays, gathered.entries)

    def _allocate(self, tokens: int) -> torch.Tensor:
        dtype = np.dtype(np.float16 if self._half else np.float32)
        memory = page_aligned(tokens * math.prod(self._shape) * dtype.itemsize)
        return torch.from_numpy(memory.view(dtype).reshape(tokens, *self._shape))

    def _check(self, states: np.ndarray) -> None:
        """Inf and NaN have an exponent of all ones: looked for in the bits, which is many times faster for float16."""
        flat = states.reshape(-1)
        for at in range(0, len(flat), _CHECKED_AT_ONCE):
            part = flat[at : at + _CHECKED_AT_ONCE]
            if self._half and (part.view(np.int16) & _HALF_EXPONENT).max() < _HALF_EXPONENT:
                continue
            if self._half and not np.isnan(flat).any():
                raise HalfOverflowError
            if not np.isfinite(part).all():
                raise ModelError(
                    "the model gave values that are not numbers (inf or nan); they were not stored. "
                    "Compute in float32 (--dtype float32), or look at the model's weights"
                )
