"""One shard of a store: a safetensors file named by its checksum, and its Arrow index.

The data file is complete and on disk before the index appears, and both appear by renaming. A shard without an index
does not count, so a kill at any moment leaves a valid store.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import xxhash

from lamina.activations.disk import PAGE, fresh_file, page_aligned, write_all, write_past_cache
from lamina.encoders import Activations
from lamina.errors import DamagedError, ModelError, StoreError
from lamina.files.reading import open_regular, read_regular

_DTYPES = {"float16": "F16", "float32": "F32", "int32": "I32"}
_NAMES = {code: np.dtype(name) for name, code in _DTYPES.items()}
_PIECE = 16 * 2**20
_KEY = 16
"""Size of a text's key in bytes."""
_CHECKSUM = 16
"""Size of a checksum in bytes."""


class Entry(NamedTuple):
    """Where one text is in a shard."""

    key: bytes
    start: int
    """Its first token."""
    size: int
    """Number of tokens."""
    unknown: int
    """Words replaced by the unknown token."""
    windows: int
    """Windows the text needed."""


def write_shard(folder: Path, arrays: dict[str, np.ndarray], entries: Sequence[Entry]) -> Path:
    """Write arrays and index; both files are complete and synced before they are renamed.

    The last array, which is large, is written without a copy. That is why the header is built here and not by the
    safetensors library, which copies (tests check that the library reads the files back).
    """
    # The key is included since arrays alone may be equal: an uncased model gives the same for a text in capitals.
    texts = xxhash.xxh3_128(b"".join(entry.key for entry in entries)).hexdigest()
    header, parts = _layout(arrays, {"texts": texts})
    digest = xxhash.xxh3_128(header)
    for part in parts:
        digest.update(part)
    data = folder / f"{digest.hexdigest()}.safetensors"
    with fresh_file(data) as file:
        write_past_cache(file, b"".join((header, *parts[:-1])), parts[-1])
    write_index(data.with_suffix(".arrow"), entries, data.stat().st_size)
    return data


def write_index(path: Path, entries: Sequence[Entry], size: int) -> None:
    """Write the index of a shard of `size` bytes: an Arrow stream, followed by its checksum."""
    import pyarrow as pa

    keys, *numbers = zip(*entries, strict=True)
    columns = [pa.array(keys, pa.binary(_KEY)), *(pa.array(column, pa.int64()) for column in numbers)]
    table = pa.table(columns, names=Entry._fields, metadata={"bytes": str(size)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content = sink.getvalue().to_pybytes()
    with fresh_file(path) as file:
        write_all(file, content + xxhash.xxh3_128(content).digest())


def read_index(path: Path) -> list[Entry]:
    """The entries of a shard; none if the index or data file is damaged or truncated, so that it is made again."""
    try:
        return load_index(path)
    except (OSError, DamagedError):
        return []


def load_index(path: Path) -> list[Entry]:
    """The entries of a shard; a DamagedError if the index is damaged, or if the data file is not as long as it says."""
    import pyarrow as pa

    content = read_regular(path)
    content, checksum = content[:-_CHECKSUM], content[-_CHECKSUM:]
    if xxhash.xxh3_128(content).digest() != checksum:
        raise DamagedError(f"index {path} is damaged (its checksum does not match)")
    table = pa.ipc.open_stream(content).read_all()
    size, data = int(table.schema.metadata[b"bytes"]), path.with_suffix(".safetensors")
    if data.stat().st_size != size:
        raise DamagedError(f"shard {data} is damaged ({data.stat().st_size:,} bytes, not {size:,})")
    # By column, not by value: opening a store of 50,000 texts has to be fast.
    columns = (table[field].to_numpy().tolist() for field in Entry._fields)
    return [Entry(*row) for row in zip(*columns, strict=True)]


class Array(NamedTuple):
    """Where one array is in a shard."""

    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype


def read_header(descriptor: int) -> dict[str, Array]:
    """The arrays of a shard, by name."""
    size = int.from_bytes(os.pread(descriptor, 8, 0), "little")
    if 8 + size > os.fstat(descriptor).st_size:
        raise ValueError("its header is damaged")
    described = json.loads(os.pread(descriptor, size, 8))
    return {
        name: Array(8 + size + about["data_offsets"][0], tuple(about["shape"]), _NAMES[about["dtype"]])
        for name, about in described.items()
        if name != "__metadata__"
    }


def shape_of(path: Path) -> tuple[int, int, str]:
    """Layers, width and precision of the states of a shard; an error if it has no header that can be read."""
    with open_regular(path) as file:
        states = read_header(file.fileno())["states"]
    return states.shape[1], states.shape[2], states.dtype.name


def digest_of(descriptor: int) -> str:
    """The checksum of an open file."""
    digest, at = xxhash.xxh3_128(), 0
    while piece := os.pread(descriptor, _PIECE, at):
        digest.update(piece)
        at += len(piece)
    return digest.hexdigest()


def is_sound(path: Path) -> bool:
    """Whether a shard's bytes still match the checksum in its name."""
    try:
        with open_regular(path) as file:
            return digest_of(file.fileno()) == path.stem
    except OSError:
        return False


def remove_shard(path: Path) -> None:
    """Delete a shard, its index first, so that a shard never loses its data while it still counts."""
    path.with_suffix(".arrow").unlink(missing_ok=True)
    path.with_suffix(".safetensors").unlink(missing_ok=True)


def _layout(arrays: dict[str, np.ndarray], about: dict[str, str]) -> tuple[bytes, list[memoryview]]:
    """The safetensors header (length, JSON) and the bytes of each array.

    The header is padded, as the format allows, so that the last array starts at a page.
    """
    described: dict[str, dict] = {"__metadata__": about}
    parts, at = [], 0
    for name, array in arrays.items():
        end = at + array.nbytes
        described[name] = {"dtype": _DTYPES[array.dtype.name], "shape": array.shape, "data_offsets": [at, end]}
        parts.append(np.ascontiguousarray(array).data.cast("B"))
        at = end
    text = json.dumps(described).encode()
    before = 8 + len(text) + sum(len(part) for part in parts[:-1])
    text += b" " * (-before % PAGE)
    return len(text).to_bytes(8, "little") + text, parts


SHARD_BYTES = 64 * 2**20
"""Approximate size of a shard; also how much a kill can lose."""

_CHECKED_AT_ONCE = 2**20
_HALF_EXPONENT = 0x7C00


class HalfOverflowError(Exception):
    """A value that float16 cannot represent; the engine catches it and uses float32 for that store."""


class _Gathered(NamedTuple):
    """The content of one shard."""

    states: torch.Tensor
    ids: list[np.ndarray]
    words: list[np.ndarray]
    entries: list[Entry]


class ShardWriter:
    """Alternates between two buffers: a separate thread writes one while the other is filled.

    The buffers are reused: allocating new memory for every shard would make writing slow.
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
        """Add one text's states."""
        states, tokens = activations.states, activations.tokens
        if states is None:
            raise StoreError(f"text {activations.text!r} has no states to store")
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
        """Write the gathered texts as one shard; an error from the previous shard is raised here."""
        self._wait()
        if not self._entries:
            return
        gathered = _Gathered(self._buffer[: self._filled], self._ids, self._words, self._entries)
        self._writing = self._thread.submit(self._write, gathered)
        self._buffer, self._spare = self._allocate(self._room) if self._spare is None else self._spare, self._buffer
        self._entries, self._ids, self._words, self._filled = [], [], [], 0

    def finish(self) -> None:
        """Write the gathered texts, and wait until everything is on disk."""
        self.flush()
        self._wait()

    def stop(self) -> None:
        """Finish the shard being written and drop the gathered texts."""
        self._thread.shutdown()

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def _write(self, gathered: _Gathered) -> None:
        states = gathered.states.numpy()
        self._check(states)
        # Two-byte numbers last: after an odd number of them, other readers could not map four-byte numbers.
        arrays = {"ids": np.concatenate(gathered.ids), "words": np.concatenate(gathered.words), "states": states}
        write_shard(self._folder, arrays, gathered.entries)

    def _allocate(self, tokens: int) -> torch.Tensor:
        dtype = np.dtype(np.float16 if self._half else np.float32)
        memory = page_aligned(tokens * math.prod(self._shape) * dtype.itemsize)
        return torch.from_numpy(memory.view(dtype).reshape(tokens, *self._shape))

    def _check(self, states: np.ndarray) -> None:
        """Check for Inf and NaN by their exponent bits, all ones, which is many times faster for float16."""
        flat = states.reshape(-1)
        for at in range(0, len(flat), _CHECKED_AT_ONCE):
            part = flat[at : at + _CHECKED_AT_ONCE]
            if self._half and (part.view(np.int16) & _HALF_EXPONENT).max() < _HALF_EXPONENT:
                continue
            if self._half and not np.isnan(flat).any():
                raise HalfOverflowError
            if not np.isfinite(part).all():
                raise ModelError(
                    "the model gave values that are not finite (inf or nan); they were not stored. "
                    "Compute in float32 (--dtype float32), or check the model's weights"
                )
