"""One shard of a store: a safetensors file named by its checksum, and its Arrow index.

The data file is complete and on disk before the index appears, and both appear by renaming. A shard without an index
does not count, so a kill at any moment leaves a valid store.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import torch
import xxhash

from lamina.activations.disk import PAGE, fresh_file, write_all, write_past_cache
from lamina.errors import DamagedError
from lamina.files.reading import open_regular, read_regular

if TYPE_CHECKING:
    import pyarrow as pa

# numpy has no bfloat16: its bits are handled as whole numbers.
_DTYPES = {"float16": "F16", "uint16": "BF16", "float32": "F32", "int32": "I32"}
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


class Publisher(Protocol):
    """Lets shards appear in a store that others write to as well."""

    @property
    def widened(self) -> bool:
        """Whether another writer has met a value that the precision of this one cannot represent."""
        ...

    def publish(self, entries: Sequence[Entry]) -> AbstractContextManager[Sequence[Entry]]:
        """A lock around the moment a shard appears; gives the entries that no other writer has stored meanwhile."""
        ...


def write_shard(
    folder: Path, arrays: dict[str, np.ndarray], entries: Sequence[Entry], publisher: Publisher | None = None
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
    table = _load_table(path)
    # By column, not by value: opening a store of 50,000 texts has to be fast.
    columns = (table[field].to_numpy().tolist() for field in Entry._fields)
    return [Entry(*row) for row in zip(*columns, strict=True)]


class IndexColumns(NamedTuple):
    """The entries of a shard as columns."""

    keys: bytes
    """All keys, one after the other."""
    numbers: list[np.ndarray]
    """The other fields of `Entry`."""


def index_columns(shard: Path) -> IndexColumns | None:
    """The entries of a shard; None where `read_index` has none."""
    try:
        table = _load_table(shard.with_suffix(".arrow"))
    except (OSError, DamagedError):
        return None
    keys, *numbers = (table[field].combine_chunks() for field in Entry._fields)
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


class HalfOverflowError(Exception):
    """A value that float16 cannot represent; the engine catches it and uses float32 for that store."""


class WidenedError(HalfOverflowError):
    """Another writer met such a value: what was gathered is written, and what follows belongs into float32."""
