"""Gathers states into shards and writes these in threads, straight from the memory that the encoder wrote to."""

from __future__ import annotations

import math
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lamina.activations.disk import page_aligned
from lamina.activations.shards import (
    SHARD_BYTES,
    Entry,
    HalfOverflowError,
    Publisher,
    WidenedError,
    as_array,
    write_shard,
)
from lamina.encoders import Activations
from lamina.encoders.contract import Packed, pack
from lamina.errors import ModelError, StoreError

_THREADS = {True: 3, False: 1}
"""Threads that write, by whether memory is pinned: a GPU fills buffers faster than one thread empties them."""


@dataclass(eq=False)
class _Buffer:
    """The content of one shard."""

    memory: torch.Tensor
    reserved: int = 0
    """Tokens that an encoder has been given room for."""
    filled: int = 0
    """Tokens whose states are there."""
    entries: list[Entry] = field(default_factory=list)
    ids: list[np.ndarray] = field(default_factory=list)
    words: list[np.ndarray] = field(default_factory=list)

    @property
    def left(self) -> int:
        return len(self.memory) - self.reserved


class ShardWriter:
    """Threads write full buffers while others are filled. Buffers are used again: new memory for every shard is slow.

    The encoder writes into `room`, and `add_packed` says what it wrote, in the same order. With `pinned`, a GPU copies
    into the buffers by itself.
    """

    def __init__(
        self,
        folder: Path,
        layers: int,
        width: int,
        kept: str,
        shard_bytes: int = SHARD_BYTES,
        publisher: Publisher | None = None,
        *,
        pinned: bool = False,
    ) -> None:
        self._folder = folder
        self._publisher = publisher
        self._shape = (layers, width)
        self.dtype: torch.dtype = getattr(torch, kept)
        """Precision of the states."""
        self.most = max(1, shard_bytes // (layers * width * self.dtype.itemsize))
        """Tokens of a shard; a longer text has a shard of its own."""
        self._pinned = pinned
        self._pinned_memory: list[torch.Tensor] = []
        threads = _THREADS[pinned]
        self._thread = ThreadPoolExecutor(threads, "write-shard")
        # One being filled, and one more that a GPU may already be copying to.
        self._buffers_left = threads + (2 if pinned else 1)
        self._free: list[torch.Tensor] = []
        self._open: deque[_Buffer] = deque()
        self._promised: deque[tuple[_Buffer, int]] = deque()
        self._writing: deque[tuple[Future[None], _Buffer]] = deque()

    def room(self, tokens: int) -> torch.Tensor:
        """Memory for the states of so many tokens; see `Encoder.packed`."""
        if not self._open or self._open[-1].left < tokens:
            while self._open and not self._promised:
                self._submit(self._open.popleft())
            self._open.append(_Buffer(self._memory(tokens)))
        buffer = self._open[-1]
        start, buffer.reserved = buffer.reserved, buffer.reserved + tokens
        self._promised.append((buffer, start))
        return buffer.memory[start : buffer.reserved]

    def add_packed(self, packed: Packed) -> None:
        """Add texts, whose ids are their keys in hexadecimal; their states are in the room that was asked for first."""
        buffer, start = self._promised.popleft()
        if packed.nan or (packed.overflow and self.dtype != torch.float16):
            raise ModelError(
                "the model gave values that are not finite (inf or nan); they were not stored. "
                "Compute in float32 (--dtype float32), or check the model's weights"
            )
        if packed.overflow:
            raise HalfOverflowError
        while self._open[0] is not buffer:
            self._submit(self._open.popleft())
        if not start and self._publisher is not None and self._publisher.widened:
            raise WidenedError
        for key, tokens, windows in zip(packed.texts, packed.tokens, packed.windows, strict=True):
            buffer.entries.append(Entry(bytes.fromhex(key), start, len(tokens.ids), tokens.unknown, windows))
            buffer.ids.append(tokens.ids)
            buffer.words.append(tokens.words)
            start += len(tokens.ids)
        buffer.filled = start

    def add(self, key: bytes, activations: Activations) -> None:
        """Add one text's states."""
        if activations.states is None:
            raise StoreError(f"text {activations.text!r} has no states to store")
        self.add_packed(pack([activations], self.dtype, self.room)._replace(texts=(key.hex(),)))

    def finish(self) -> None:
        """Write the gathered texts, and wait until everything is on disk."""
        while self._open:
            self._submit(self._open.popleft())
        while self._writing:
            self._wait()

    def stop(self) -> None:
        """Finish the shards being written and drop the gathered texts."""
        self._thread.shutdown()
        if self._pinned:
            # A GPU may still be copying to a buffer that was given up.
            torch.cuda.synchronize()
            for memory in self._pinned_memory:
                _cuda().cudaHostUnregister(memory.data_ptr())

    def _submit(self, buffer: _Buffer) -> None:
        # An error of a shard before is told as soon as possible.
        while self._writing and self._writing[0][0].done():
            self._wait()
        if buffer.entries:
            self._writing.append((self._thread.submit(self._write, buffer), buffer))
        else:
            self._free.append(buffer.memory)

    def _wait(self) -> None:
        """Wait for the shard that has been writing for longest; its error is raised here."""
        future, buffer = self._writing.popleft()
        self._free.append(buffer.memory)
        future.result()

    def _write(self, buffer: _Buffer) -> None:
        states = as_array(buffer.memory[: buffer.filled])
        # Two-byte numbers last: after an odd number of them, other readers could not map four-byte numbers.
        arrays = {"ids": np.concatenate(buffer.ids), "words": np.concatenate(buffer.words), "states": states}
        write_shard(self._folder, arrays, buffer.entries, self._publisher)

    def _memory(self, tokens: int) -> torch.Tensor:
        """A buffer with room for so many tokens: one that is free, a new one, or the next that is written."""
        while not self._free and not self._buffers_left and self._writing:
            self._wait()
        if self._free:
            memory = self._free.pop()
            return memory if len(memory) >= tokens else self._allocate(tokens)
        self._buffers_left = max(0, self._buffers_left - 1)
        return self._allocate(max(tokens, self.most))

    def _allocate(self, tokens: int) -> torch.Tensor:
        memory = page_aligned(tokens * math.prod(self._shape) * self.dtype.itemsize)
        states = torch.from_numpy(memory).view(self.dtype).reshape(tokens, *self._shape)
        if self._pinned:
            # Locked in place, so that copies from a GPU run beside everything else; where that fails they are slower.
            _cuda().cudaHostRegister(states.data_ptr(), states.nbytes, 0)
            self._pinned_memory.append(states)
        return states


def _cuda() -> Any:
    return torch.cuda.cudart()
