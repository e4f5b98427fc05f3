"""Reading stored activations: memory-mapped, in the order asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from lamina.activations.shards import is_sound
from lamina.encoders import Activations, Tokens
from lamina.errors import DamagedShardError, StoreError

if TYPE_CHECKING:
    from lamina.activations.store import Place


class StoredActivations:
    """Activations of a list of texts. Opening touches no data; states come in the precision they are kept in."""

    def __init__(self, places: list[Place], names: list[str], *, verify: bool = True) -> None:
        self._places = places
        self._names = names
        self._verify = verify
        self._open: dict[Path, dict[str, torch.Tensor]] = {}

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

    def _shard(self, path: Path) -> dict[str, torch.Tensor]:
        if path not in self._open:
            from safetensors import SafetensorError, safe_open

            if self._verify and not is_sound(path):
                raise DamagedShardError(
                    f"shard {path} is damaged: its checksum does not match. "
                    "Run `lamina encode` with --repair to encode its texts again, or `lamina store verify --drop`"
                )
            try:
                with safe_open(path, framework="pt") as file:
                    self._open[path] = {name: file.get_tensor(name) for name in ("states", "ids", "words")}
            except (OSError, RuntimeError, SafetensorError) as error:
                raise StoreError(f"shard {path} cannot be opened: {error}") from error
        return self._open[path]
