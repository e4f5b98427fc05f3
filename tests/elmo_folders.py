"""Tiny ELMos with random weights, as folders."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

OPTIONS: dict[str, Any] = {
    "lstm": {
        "cell_clip": 3,
        "use_skip_connections": True,
        "n_layers": 2,
        "proj_clip": 3,
        "projection_dim": 6,
        "dim": 10,
    },
    "char_cnn": {
        "embedding": {"dim": 4},
        "filters": [[1, 4], [3, 5]],
        "n_highway": 2,
        "n_characters": 262,
        "max_characters_per_token": 12,
        "activation": "relu",
    },
}


def elmo_options(**changed: Any) -> dict[str, Any]:
    """The options of the tiny ELMo with other values, named as `lstm__dim`."""
    options = copy.deepcopy(OPTIONS)
    for name, value in changed.items():
        part, _, setting = name.partition("__")
        options[part][setting] = value
    return options


def elmo_arrays(options: dict[str, Any], seed: int = 0, scale: float = 0.5) -> dict[str, np.ndarray]:
    """Random weights, with the names and shapes that bilm-tf gives them; large scales make clips bite."""
    characters, network = options["char_cnn"], options["lstm"]
    width, projection, cell = characters["embedding"]["dim"], network["projection_dim"], network["dim"]
    pooled = sum(count for _, count in characters["filters"])
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (261, width)}
    for number, (seen, count) in enumerate(characters["filters"]):
        shapes |= {f"CNN/W_cnn_{number}": (1, seen, width, count), f"CNN/b_cnn_{number}": (count,)}
    for number in range(characters["n_highway"]):
        shapes |= {f"CNN_high_{number}/W_{kind}": (pooled, pooled) for kind in ("carry", "transform")}
        shapes |= {f"CNN_high_{number}/b_{kind}": (pooled,) for kind in ("carry", "transform")}
    shapes |= {"CNN_proj/W_proj": (pooled, projection), "CNN_proj/b_proj": (projection,)}
    for direction in range(2):
        for layer in range(network["n_layers"]):
            name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            shapes |= {f"{name}/W_0": (2 * projection, 4 * cell), f"{name}/B": (4 * cell,)}
            shapes |= {f"{name}/W_P_0": (cell, projection)}
    draw = np.random.default_rng(seed)
    return {name: (scale * draw.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}


def save_elmo(folder: Path, options: dict[str, Any] | None = None, arrays: dict[str, Any] | None = None) -> Path:
    """Write an ELMo as it is released; arrays that are None are left out."""
    options = OPTIONS if options is None else options
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "options.json").write_text(json.dumps(options), encoding="utf-8")
    with h5py.File(folder / "tiny_weights.hdf5", "w") as file:
        for name, array in (elmo_arrays(options) if arrays is None else arrays).items():
            if array is not None:
                file[name] = array
    return folder
