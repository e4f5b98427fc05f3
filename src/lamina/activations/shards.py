"""One shard of a store: a safetensors file named by its checksum, and its Arrow index.

The data file is complete and on the disk before the index appears, and both appear by renaming: a
shard without an index does not exist, so a kill at any moment leaves a good store.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xxhash

from lamina.activations.disk import PAGE, fresh_file, write_all, write_past_cache

_DTYPES = {"float16": "F16", "float32": "F32", "int32": "I32"}
_PIECE = 16 * 2**20
_KEY = 16
"""Bytes of a text's key."""
_CHECKSUM = 16
"""Bytes of a checksum."""


class Entry(NamedTuple):
    """Where one text lies in a shard."""

    key: bytes
    start: int
    """Its first token."""
    size: int
    """How many tokens."""
    unknown: int
    """Words replaced by the unknown token."""
    windows: int
    """Windows the text took."""


def write_shard(folder: Path, arrays: dict[str, np.ndarray], entries: Sequence[Entry]) -> Path:
    """Write arrays and index; both are complete and synced before they get their names.

    The last array, the large one, is written from where it lies, without a copy: this is why the header is put together
    here and not by the safetensors library, which copies (it reads the files back, and tests compare).
    """
    # Arrays alone may be equal: of an uncased model, those of a text in capitals and of one without.
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
    """Write the index of a shard of `size` bytes: an Arrow stream, and after its end its checksum."""
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
    """The entries of a shard; none when index or data file is damaged or cut short, so that it is made again."""
    import pyarrow as pa

    try:
        content = path.read_bytes()
        found = path.with_suffix(".safetensors").stat().st_size
    except OSError:
        return []
    content, checksum = content[:-_CHECKSUM], content[-_CHECKSUM:]
    if xxhash.xxh3_128(content).digest() != checksum:
        return []
    table = pa.ipc.open_stream(content).read_all()
    if found != int(table.schema.metadata[b"bytes"]):
        return []
    # Column by column, and not value by value: opening a store of 50,000 texts is to take no time.
    columns = (table[field].to_numpy().tolist() for field in Entry._fields)
    return [Entry(*row) for row in zip(*columns, strict=True)]


def is_sound(path: Path) -> bool:
    """Whether a shard's bytes still have the checksum that is its name."""
    digest = xxhash.xxh3_128()
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
    except OSError:
        return False
    return digest.hexdigest() == path.stem


def remove_shard(path: Path) -> None:
    """Delete a shard, its index first: it is gone before its data is."""
    path.with_suffix(".arrow").unlink(missing_ok=True)
    path.with_suffix(".safetensors").unlink(missing_ok=True)


def _layout(arrays: dict[str, np.ndarray], about: dict[str, str]) -> tuple[bytes, list[memoryview]]:
    """The safetensors header (length, JSON) and the bytes of each array.

    The header is padded, as the format allows, so that the last array begins at a page.
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
