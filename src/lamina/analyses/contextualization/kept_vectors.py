"""Where the vectors of occurrences lie: on disk in parts, or on a GPU or in memory in one piece."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil
import torch
from jaxtyping import Float, Int

from lamina.errors import DamagedError
from lamina.files.checking import load_tensors, save_tensors
from lamina.files.writing import told
from lamina.probes.mlp import InMemory, Source

FORMAT = 1
"""Raised when the same model and words would give other vectors."""
_MOST_MEMORY = 0.5
"""Share of the free memory that one layer may take; a larger one is read from disk as it is needed."""


@dataclass(frozen=True, eq=False)
class OnDisk:
    """Vectors of one layer in an unnamed file: rows are read as they are needed."""

    file: IO[bytes]
    dtype: torch.dtype
    width: int
    count: int

    def __post_init__(self) -> None:
        weakref.finalize(self, self.file.close)

    def __len__(self) -> int:
        return self.count

    def take(self, items: Int[torch.Tensor, " item"]) -> Float[torch.Tensor, "item width"]:
        """See `Source.take`. Not mapped: a file that shrinks would end the process."""
        size = self.width * self.dtype.itemsize
        rows = [os.pread(self.file.fileno(), size, item * size) for item in items.tolist()]
        if any(len(row) != size for row in rows):
            raise DamagedError("a file of vectors became shorter while it was read; run the same command again")
        return torch.frombuffer(bytearray(b"".join(rows)), dtype=self.dtype).view(len(rows), self.width)


@dataclass(frozen=True, eq=False)
class OccurrenceVectors:
    """The vectors of all occurrences at every layer, on disk: one file per part and layer."""

    folder: Path
    layers: int
    width: int
    edges: tuple[int, ...]
    """Where parts begin, and the number of occurrences."""

    def layer(self, layer: int) -> Source:
        """One layer: in memory where it fits, otherwise on disk."""
        for dtype in (torch.float16, torch.float32):
            size = self.edges[-1] * self.width * dtype.itemsize
            fits = size <= _MOST_MEMORY * psutil.virtual_memory().available
            source = self._in_memory(layer, dtype) if fits else self._on_disk(layer, dtype)
            if source is not None:
                return source
        raise AssertionError("float32 holds every part")

    def _in_memory(self, layer: int, dtype: torch.dtype) -> Source | None:
        """None where some part needs more precision."""
        vectors = torch.empty(self.edges[-1], self.width, dtype=dtype)
        for number, part in self.parts(layer):
            if part.dtype.itemsize > dtype.itemsize:
                return None
            vectors[self.edges[number] : self.edges[number + 1]] = part
        return InMemory(vectors)

    def _on_disk(self, layer: int, dtype: torch.dtype) -> Source | None:
        with told(self.folder):
            # Without a name: it is gone with the process, however that ends.
            file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 - open as long as its vectors are used
            for _, part in self.parts(layer):
                if part.dtype.itemsize > dtype.itemsize:
                    file.close()
                    return None
                file.write(part.to(dtype).numpy().tobytes())
            file.flush()
        return OnDisk(file, dtype, self.width, self.edges[-1])

    def has(self, number: int) -> bool:
        """Whether a part is there, at every layer."""
        return all(part_path(self.folder, number, layer).is_file() for layer in range(self.layers))

    def put(self, number: int, vectors: Float[torch.Tensor, "layer item width"]) -> None:
        """Write one part."""
        for layer, of_layer in enumerate(vectors):
            tensors = {"vectors": narrowed(of_layer).cpu()}
            save_tensors(part_path(self.folder, number, layer), tensors, {"format": FORMAT, "layer": layer})

    def parts(self, layer: int) -> Iterator[tuple[int, Float[torch.Tensor, "item width"]]]:
        """The vectors of one layer, part by part."""
        for number in range(len(self.edges) - 1):
            yield number, self.part(number, layer)

    def part(self, number: int, layer: int) -> Float[torch.Tensor, "item width"]:
        """One part of one layer."""
        path = part_path(self.folder, number, layer)
        try:
            return load_tensors(path)[0]["vectors"]
        except (OSError, DamagedError, KeyError) as error:
            path.unlink(missing_ok=True)
            raise DamagedError(
                f"{error}; it was removed. Run the same command again: it encodes these words again"
            ) from None


@dataclass(frozen=True, eq=False)
class HeldVectors:
    """The vectors of all occurrences at every layer, on a GPU or in memory; in the precision of those on disk."""

    by_layer: list[Float[torch.Tensor, "item width"]]
    edges: tuple[int, ...]
    """Where parts begin, and the number of occurrences."""

    @classmethod
    def empty(cls, layers: int, width: int, edges: tuple[int, ...], device: str) -> HeldVectors:
        """Room for vectors."""
        return cls([torch.empty(edges[-1], width, dtype=torch.half, device=device) for _ in range(layers)], edges)

    def layer(self, layer: int) -> Source:
        """One layer."""
        return InMemory(self.by_layer[layer])

    def part(self, number: int, layer: int) -> Float[torch.Tensor, "item width"]:
        """One part of one layer."""
        return self.by_layer[layer][self.edges[number] : self.edges[number + 1]]

    def put(self, number: int, vectors: Float[torch.Tensor, "layer item width"]) -> None:
        """Fill one part; a layer becomes float32 where float16 does not do."""
        for layer, of_layer in enumerate(vectors):
            narrow = narrowed(of_layer)
            if narrow.dtype == torch.float32:
                self.by_layer[layer] = self.by_layer[layer].float()
            self.part(number, layer).copy_(narrow)


def part_path(folder: Path, part: int, layer: int) -> Path:
    """Where one part of one layer lies."""
    return folder / f"{part:06d}-{layer:03d}.safetensors"


def narrowed(vectors: torch.Tensor) -> torch.Tensor:
    """In float16, or as they are where a value does not fit.

    Example:
        >>> narrowed(torch.tensor([1.0])).dtype, narrowed(torch.tensor([1e6])).dtype
        (torch.float16, torch.float32)
    """
    half = vectors.half()
    return half if bool(torch.isfinite(half).all()) else vectors
