"""One shard of a store: a safetensors file named by its checksum, and its Arrow index.

The data file is complete and on disk before the index appears, and both appear by renaming. A shard without an index
does not count, so a kill at any moment leaves a valid store.
"""

from __future__ import annotations

import errno
import json
import math
import mmap
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch
import xxhash

from lamina.errors import DamagedError, ModelError, StoreError
from lamina.files.reading import open_regular, read_regular
from lamina.files.writing import fresh_path
from lamina.models import Activations
from lamina.models.contract import Packed, pack
from lamina.progress import say

if TYPE_CHECKING:
    import pyarrow as pa


# Writing large files past the page cache.

PAGE = mmap.PAGESIZE
"""Alignment that direct writing needs, in memory and in the file."""


def page_aligned(size: int) -> np.ndarray:
    """A buffer that starts at a page, as direct writing needs."""
    if not hasattr(mmap, "MAP_PRIVATE"):
        return np.frombuffer(mmap.mmap(-1, max(1, size)), np.uint8)[:size]
    memory = mmap.mmap(-1, max(1, size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # Fewer and larger pages are made, and locked for a GPU, in a fraction of the time. Not every kernel has them.
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)[:size]


@contextmanager
def fresh_file(target: Path) -> Iterator[int]:
    """A descriptor of a file that becomes `target` on success and is deleted on failure."""
    with fresh_path(target) as temporary:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            yield file
        finally:
            os.close(file)


def write_all(file: int, data: bytes | memoryview) -> None:
    """Write all bytes."""
    rest = memoryview(data).cast("B")
    while rest:
        rest = rest[os.write(file, rest) :]


def write_past_cache(file: int, lead: bytes, bulk: memoryview) -> None:
    """Write `lead`, a whole number of pages, and then `bulk`, bypassing the page cache if possible.

    New cache pages cost more than the disk. If memory is not aligned, or the file system does not support it,
    everything is written the usual way.
    """
    whole = len(bulk) - len(bulk) % PAGE
    try:
        _set_direct(file, on=True)
        first = page_aligned(len(lead))
        first[:] = np.frombuffer(lead, np.uint8)
        write_all(file, first.data)
        write_all(file, bulk[:whole])
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        os.lseek(file, 0, os.SEEK_SET)
        os.ftruncate(file, 0)
        _set_direct(file, on=False)
        write_all(file, lead)
        write_all(file, bulk)
        if hasattr(os, "posix_fadvise"):
            # Written pages would only push the pages being read out of memory; only synced ones can be dropped.
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    else:
        _set_direct(file, on=False)
        write_all(file, bulk[whole:])


def _set_direct(file: int, *, on: bool) -> None:
    if not hasattr(os, "O_DIRECT"):
        return
    import fcntl

    flags = fcntl.fcntl(file, fcntl.F_GETFL)
    fcntl.fcntl(file, fcntl.F_SETFL, flags | os.O_DIRECT if on else flags & ~os.O_DIRECT)


# numpy has no bfloat16: its bits are handled as whole numbers.
_DTYPES = {"float16": "F16", "uint16": "BF16", "float32": "F32", "int32": "I32"}
_NAMES = {code: np.dtype(name) for name, code in _DTYPES.items()}
_PIECE = 16 * 2**20
_KEY = 16
"""Size of a text's key in bytes."""
_CHECKSUM = 16
"""Size of a checksum in bytes."""


class ShardEntry(NamedTuple):
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


class ShardPublisher(Protocol):
    """Lets shards appear in a store that others write to as well."""

    @property
    def widened(self) -> bool:
        """Whether another writer has met a value that the precision of this one cannot represent."""
        ...

    def publish(self, entries: Sequence[ShardEntry]) -> AbstractContextManager[Sequence[ShardEntry]]:
        """A lock around the moment a shard appears; gives the entries that no other writer has stored meanwhile."""
        ...


def write_shard(
    folder: Path, arrays: dict[str, np.ndarray], entries: Sequence[ShardEntry], publisher: ShardPublisher | None = None
) -> Path:
    """Write arrays and index; both files are complete and synced before they are renamed.

    The publisher's lock is held from when all data is on the disk until the index has appeared. A shard that it leaves
    no entry of does not appear.

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
    with ExitStack() as publishing:
        with suppress(_NothingNewError), fresh_file(data) as file:
            write_past_cache(file, b"".join((header, *parts[:-1])), parts[-1])
            # Now and not only when it is renamed: others wait from here on.
            os.fsync(file)
            if publisher is not None:
                entries = publishing.enter_context(publisher.publish(entries))
            if not entries:
                raise _NothingNewError
        if entries:
            write_index(data.with_suffix(".arrow"), entries, data.stat().st_size)
    return data


class _NothingNewError(Exception):
    """Every text of a shard was stored by another writer meanwhile."""


def write_index(path: Path, entries: Sequence[ShardEntry], size: int) -> None:
    """Write the index of a shard of `size` bytes: an Arrow stream, followed by its checksum."""
    import pyarrow as pa

    keys, *numbers = zip(*entries, strict=True)
    columns = [pa.array(keys, pa.binary(_KEY)), *(pa.array(column, pa.int64()) for column in numbers)]
    table = pa.table(columns, names=ShardEntry._fields, metadata={"bytes": str(size)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content = sink.getvalue().to_pybytes()
    with fresh_file(path) as file:
        write_all(file, content + xxhash.xxh3_128(content).digest())


def read_index(path: Path) -> list[ShardEntry]:
    """The entries of a shard; none if the index or data file is damaged or truncated, so that it is made again."""
    try:
        return load_index(path)
    except DamagedError as error:
        _announce(error)
        return []
    except OSError:
        return []


@cache
def _say_once(message: str) -> None:
    say(message)


def _announce(error: DamagedError) -> None:
    """Say once that the texts of a damaged shard are encoded again."""
    _say_once(f"{error}; its texts are encoded again")


def load_index(path: Path) -> list[ShardEntry]:
    """The entries of a shard; a DamagedError if the index is damaged, or if the data file is not as long as it says."""
    table = _load_table(path)
    # By column, not by value: opening a store of 50,000 texts has to be fast.
    columns = (table[field].to_numpy().tolist() for field in ShardEntry._fields)
    return [ShardEntry(*row) for row in zip(*columns, strict=True)]


class IndexColumns(NamedTuple):
    """The entries of a shard as columns."""

    keys: bytes
    """All keys, one after the other."""
    numbers: list[np.ndarray]
    """The other fields of `ShardEntry`."""


def index_columns(shard: Path) -> IndexColumns | None:
    """The entries of a shard; None where `read_index` has none."""
    try:
        table = _load_table(shard.with_suffix(".arrow"))
    except DamagedError as error:
        _announce(error)
        return None
    except OSError:
        return None
    keys, *numbers = (table[field].combine_chunks() for field in ShardEntry._fields)
    # A table of one stream has no offset: its keys are the first bytes of their buffer.
    joined = keys.buffers()[1].to_pybytes()[: len(keys) * _KEY] if len(keys) else b""
    return IndexColumns(joined, [column.to_numpy() for column in numbers])


def _load_table(path: Path) -> pa.Table:
    import pyarrow as pa

    content = read_regular(path)
    content, checksum = content[:-_CHECKSUM], content[-_CHECKSUM:]
    if xxhash.xxh3_128(content).digest() != checksum:
        raise DamagedError(f"index {path} is damaged (its checksum does not match)")
    table = pa.ipc.open_stream(content).read_all()
    size, data = int(table.schema.metadata[b"bytes"]), path.with_suffix(".safetensors")
    if data.stat().st_size != size:
        raise DamagedError(f"shard {data} is damaged ({data.stat().st_size:,} bytes, not {size:,})")
    return table


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
    return states.shape[1], states.shape[2], str(as_tensor(np.empty(0, states.dtype)).dtype).removeprefix("torch.")


def as_tensor(states: np.ndarray) -> torch.Tensor:
    """States as they were read, without a copy.

    Example:
        >>> as_tensor(np.array([0x3F80], np.uint16))
        tensor([1.], dtype=torch.bfloat16)
    """
    if states.dtype == np.uint16:
        return torch.from_numpy(states.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(states)


def as_array(states: torch.Tensor) -> np.ndarray:
    """States as they are written, without a copy.

    Example:
        >>> as_array(torch.ones(1, dtype=torch.bfloat16))
        array([16256], dtype=uint16)
    """
    if states.dtype == torch.bfloat16:
        return states.view(torch.int16).numpy().view(np.uint16)
    return states.numpy()


def digest_of(descriptor: int) -> str:
    """The checksum of an open file."""
    digest, offset = xxhash.xxh3_128(), 0
    while piece := os.pread(descriptor, _PIECE, offset):
        digest.update(piece)
        offset += len(piece)
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
    parts, offset = [], 0
    for name, array in arrays.items():
        end = offset + array.nbytes
        described[name] = {"dtype": _DTYPES[array.dtype.name], "shape": array.shape, "data_offsets": [offset, end]}
        parts.append(np.ascontiguousarray(array).data.cast("B"))
        offset = end
    text = json.dumps(described).encode()
    before = 8 + len(text) + sum(len(part) for part in parts[:-1])
    text += b" " * (-before % PAGE)
    return len(text).to_bytes(8, "little") + text, parts


SHARD_BYTES = 64 * 2**20
"""Approximate size of a shard; also how much a kill can lose."""


class HalfOverflowError(Exception):
    """A value that float16 cannot represent; the engine catches it and uses float32 for that store."""


class WidenedError(HalfOverflowError):
    """Another writer met such a value: texts gathered so far are written, later ones must be stored as float32."""


# Gathers states into shards and writes these in threads, straight from the memory that the encoder wrote to.

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
    entries: list[ShardEntry] = field(default_factory=list)
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
        precision: str,
        shard_bytes: int = SHARD_BYTES,
        publisher: ShardPublisher | None = None,
        *,
        pinned: bool = False,
    ) -> None:
        self._folder = folder
        self._publisher = publisher
        self._shape = (layers, width)
        self.dtype: torch.dtype = getattr(torch, precision)
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
        """Memory for the states of `tokens` tokens; see `Encoder.packed`."""
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
            buffer.entries.append(ShardEntry(bytes.fromhex(key), start, len(tokens.ids), tokens.unknown, windows))
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
        # An error of an earlier shard is reported as soon as possible.
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
        """A buffer with room for `tokens` tokens: one that is free, a new one, or the next that is written."""
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
