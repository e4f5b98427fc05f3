"""A store of several gigabytes opens at once and takes no memory."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import psutil

from lamina.activations import ActivationStore
from lamina.activations.shards import ShardEntry, write_index
from lamina.testing import TinyEncoder
from lamina.types import Text, text_key

LAYERS, WIDTH, TOKENS, TEXTS, SHARDS = 7, 384, 200_000, 1_000, 5


def make_sparse_shard(folder: Path, number: int) -> int:
    """A shard of 1 GB that takes no disk: all states are holes. Its name is no checksum."""
    at = 0
    header: dict[str, dict] = {}
    shapes = {"ids": ("I32", [TOKENS], 4), "words": ("I32", [TOKENS], 4), "states": ("F16", [TOKENS, LAYERS, WIDTH], 2)}
    for name, (dtype, shape, size) in shapes.items():
        end = at + int(np.prod(shape)) * size
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    with (folder / f"{number:032x}.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)
    entries = [
        ShardEntry(text_key(Text("", (f"{number} {i}",))), i * TOKENS // TEXTS, TOKENS // TEXTS, 0, 1)
        for i in range(TEXTS)
    ]
    write_index(folder / f"{number:032x}.arrow", entries, 8 + len(text) + at)
    return at


def test_opening_takes_neither_time_nor_memory(tmp_path: Path) -> None:
    encoder = TinyEncoder(blocks=LAYERS - 1, width=WIDTH)
    store = ActivationStore.of(encoder, tmp_path)
    size = sum(make_sparse_shard(store.folder, number) for number in range(SHARDS))
    texts = [Text("t", (f"{number} {i}",)) for number in range(SHARDS) for i in range(TEXTS)]
    process = psutil.Process()
    assert size > 5e9

    before, start = process.memory_info().rss, time.process_time()
    stored = store.open(texts, verify=False)
    took, opened = time.process_time() - start, process.memory_info().rss
    last = stored[len(stored) - 1].states

    assert last.shape == (TOKENS // TEXTS, LAYERS, WIDTH)
    assert took < 1.0
    assert opened - before < 50e6
    assert process.memory_info().rss - before < 100e6
