"""Reading stored activations: memory-mapped, in the order asked for."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float

from lamina.activations.shards import is_sound
from lamina.encoders import SPECIAL, Activations, Tokens
from lamina.errors import DamagedShardError, StoreError

if TYPE_CHECKING:
    from lamina.activations.store import Place


class _File:
    """A shard opened for plain reading; closed when the last reference is gone."""

    def __init__(self, descriptor: int, start: int, shape: list[int], dtype: torch.dtype) -> None:
        self.descriptor = descriptor
        self.start = start
        """File offset of the states."""
        self.row_shape = tuple(shape[1:])
        self.dtype = dtype
        self.row_bytes = math.prod(self.row_shape) * dtype.itemsize

    @classmethod
    def open(cls, path: Path) -> _File:
        descriptor = os.open(path, os.O_RDONLY)
        size = int.from_bytes(os.pread(descriptor, 8, 0), "little")
        states = json.loads(os.pread(descriptor, size, 8))["states"]
        dtype = torch.float16 if states["dtype"] == "F16" else torch.float32
        return cls(descriptor, 8 + size + states["data_offsets"][0], states["shape"], dtype)

    def __del__(self) -> None:
        os.close(self.descriptor)


class StoredActivations:
    """Activations of a list of texts. Opening reads no data; states have the precision they are stored in."""

    def __init__(self, places: list[Place], names: list[str], *, verify: bool = True) -> None:
        self._places = places
        self._names = names
        self._verify = verify
        self._open: dict[Path, dict[str, torch.Tensor]] = {}
        self._files: dict[Path, _File] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Activations]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Activations:
        shard, entry = self._places[index]
        tensors = self._shard(shard)
        rows = slice(entry.start, entry.start + entry.size)
        tokens = Tokens(tensors["ids"][rows].numpy(), tensors["words"][rows].numpy(), entry.unknown)
        return Activations(self._names[index], tokens, tensors["states"][rows], None, entry.windows)

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

    @property
    def token_bytes(self) -> int:
        """Size of one token's states in bytes, all layers together."""
        return self._file(self._places[0].shard).row_bytes if self._places else 0

    def load(self, index: int) -> torch.Tensor:
        """One text's states, copied into memory, so that nothing of the file stays mapped."""
        shard, entry = self._places[index]
        file = self._file(shard)
        states = torch.empty(entry.size, *file.row_shape, dtype=file.dtype)
        os.preadv(file.descriptor, [states.view(torch.uint8).numpy().data], file.start + entry.start * file.row_bytes)
        return states

    def _file(self, path: Path) -> _File:
        if path not in self._files:
            self._check(path)
            self._files[path] = _File.open(path)
        return self._files[path]

    def _check(self, path: Path) -> None:
        if self._verify and not is_sound(path):
            raise DamagedShardError(
                f"shard {path} is damaged: its checksum does not match. "
                "Run `lamina encode` with --repair to encode its texts again, or `lamina store verify --drop`"
            )

    def _shard(self, path: Path) -> dict[str, torch.Tensor]:
        if path not in self._open:
            from safetensors import SafetensorError, safe_open

            self._check(path)
            try:
                with safe_open(path, framework="pt") as file:
                    self._open[path] = {name: file.get_tensor(name) for name in ("states", "ids", "words")}
            except (OSError, RuntimeError, SafetensorError) as error:
                raise StoreError(f"shard {path} cannot be opened: {error}") from error
        return self._open[path]


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
        for start, activations in zip(starts.tolist(), stored, strict=True):
            words = torch.from_numpy(activations.tokens.words).long()
            owners.append(torch.where(words == SPECIAL, SPECIAL, words + start))
        owner = torch.cat(owners)
        self._pieces = owner != SPECIAL
        self._owner = owner[self._pieces]
        self._counts = torch.bincount(self._owner, minlength=len(self.text)).unsqueeze(1)

    def layer(self, number: int) -> Float[torch.Tensor, "word width"]:
        """All words at one layer, in float32."""
        states = torch.cat([states[:, number] for each in self._stored if (states := each.states) is not None])
        pieces = states[self._pieces].float()
        return torch.zeros(len(self.text), pieces.shape[1]).index_add_(0, self._owner, pieces) / self._counts
