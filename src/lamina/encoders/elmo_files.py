"""An ELMo as it was released: options.json and one file of weights (`*weights.hdf5`) in the layout of bilm-tf."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lamina.encoders.bounds import refuse_claim
from lamina.errors import ModelError
from lamina.files.reading import check_regular, open_regular, parse_json, read_regular

if TYPE_CHECKING:
    from torch import Tensor

OPTIONS = "options.json"
_WEIGHTS = "*weights.hdf5"
CHARACTERS = 261
"""Rows of the character table: 256 bytes, begin and end of a sentence, begin and end of a word, padding."""
_MASKED = 262
"""What released options say: one more, for padding words, whose vector is 0 and not stored."""
DIRECTIONS = 2
"""Forward, backward."""
_MOST_LAYERS = 100
_MOST_WIDTH = 1 << 20


class Options(NamedTuple):
    """The shape of an ELMo, of what options.json says."""

    character: int
    """Width of a character's vector."""
    filters: tuple[tuple[int, int], ...]
    """Convolutions over characters: how many each sees, and how many values come of it."""
    highways: int
    longest: int
    """Characters of a word, those that begin and end it included; of longer words, the first ones are read."""
    activation: Literal["relu", "tanh"]
    """Of the convolutions."""
    projection: int
    """Width of a word's vector, and of each direction of a layer."""
    cell: int
    """Width of an LSTM's memory."""
    layers: int
    cell_clip: float | None
    """The memory stays between minus this and this; None where it is not clipped."""
    projection_clip: float | None
    skips: bool
    """Whether the input of a layer after the first is added to its output."""

    @property
    def pooled(self) -> int:
        """Width of what the convolutions give together."""
        return sum(count for _, count in self.filters)


def is_elmo(folder: Path) -> bool:
    """Whether a folder is meant as an ELMo: its options or its weights lie there, and no config of transformers."""
    others = ("config.json", "adapter_config.json")
    if not folder.is_dir() or any((folder / other).is_file() for other in others):
        return False
    return (folder / OPTIONS).exists() or any(folder.glob(_WEIGHTS))


def read_elmo(folder: Path) -> tuple[Options, dict[str, Tensor]]:
    """The shape of an ELMo and its weights in float32, by their names in the file."""
    weights = weights_file(folder)
    options = read_options(folder / OPTIONS)
    return options, _read_weights(weights, options)


def weights_file(folder: Path) -> Path:
    """The one file of weights in a folder."""
    found = sorted(folder.glob(_WEIGHTS))
    if len(found) == 1 and (folder / OPTIONS).exists():
        return found[0]
    if len(found) > 1:
        listed = ", ".join(path.name for path in found)
        raise ModelError(
            f"{folder} holds {len(found)} files of weights ({listed}); an ELMo has one: move the others away"
        )
    has, lacks = (OPTIONS, f"file {_WEIGHTS}") if not found else (found[0].name, OPTIONS)
    raise ModelError(f"{folder} holds {has} but no {lacks}; an ELMo is a folder with both, as released")


def read_options(path: Path) -> Options:
    """The shape of an ELMo."""
    try:
        said = parse_json(read_regular(path).decode("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as JSON ({error})") from None
    settings = _Settings(path, said)
    activation = settings.get("char_cnn", "activation")
    if activation not in ("relu", "tanh"):
        raise settings.refused("char_cnn.activation", activation, "relu or tanh")
    known = settings.count("char_cnn", "n_characters")
    if known not in (CHARACTERS, _MASKED):
        raise settings.refused("char_cnn.n_characters", known, f"{_MASKED} ({CHARACTERS} in training)")
    skips = settings.get("lstm", "use_skip_connections")
    if not isinstance(skips, bool):
        raise settings.refused("lstm.use_skip_connections", skips, "true or false")
    longest = settings.count("char_cnn", "max_characters_per_token", least=3)
    return Options(
        character=settings.count("char_cnn", "embedding", "dim"),
        filters=settings.filters(longest),
        highways=settings.count("char_cnn", "n_highway", least=0, most=_MOST_LAYERS),
        longest=longest,
        activation=activation,
        projection=settings.count("lstm", "projection_dim"),
        cell=settings.count("lstm", "dim"),
        layers=settings.count("lstm", "n_layers", most=_MOST_LAYERS),
        cell_clip=settings.clip("cell_clip"),
        projection_clip=settings.clip("proj_clip"),
        skips=skips,
    )


class _Settings:
    """What options.json says, setting by setting."""

    def __init__(self, path: Path, said: Any) -> None:
        self._path, self._said = path, said

    def get(self, *names: str) -> Any:
        """A setting, by the names that lead to it."""
        found = self._said
        for name in names:
            if not isinstance(found, Mapping) or name not in found:
                raise ModelError(f"{self._path} is not the options of an ELMo: it lacks {'.'.join(names)}")
            found = found[name]
        return found

    def count(self, *names: str, least: int = 1, most: int = _MOST_WIDTH) -> int:
        """A setting that is a number of something."""
        found = self.get(*names)
        if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
            raise self.refused(".".join(names), found, f"a number from {least} to {most:,}")
        return found

    def clip(self, name: str) -> float | None:
        """A limit on values; None where there is none."""
        found = self.get("lstm", name)
        if found is None:
            return None
        if not isinstance(found, int | float) or isinstance(found, bool) or not 0 < found < float("inf"):
            raise self.refused(f"lstm.{name}", found, "a positive number or null")
        return float(found)

    def filters(self, longest: int) -> tuple[tuple[int, int], ...]:
        """The convolutions: width and number of each."""
        name, found = "char_cnn.filters", self.get("char_cnn", "filters")
        expected = f"a list of [width, number], widths from 1 to {longest}"
        if not isinstance(found, list) or not 1 <= len(found) <= _MOST_LAYERS:
            raise self.refused(name, found, expected)
        for pair in found:
            whole = isinstance(pair, list) and [type(each) for each in pair] == [int, int]
            if not whole or not 1 <= pair[0] <= longest or not 1 <= pair[1] <= _MOST_WIDTH:
                raise self.refused(name, pair, expected)
        return tuple((width, count) for width, count in found)

    def refused(self, name: str, found: Any, expected: str) -> ModelError:
        """The error for a setting that cannot be used."""
        return ModelError(f"{self._path}: {name} is {repr(found)[:60]}; expected {expected}")


def shapes(options: Options) -> dict[str, tuple[int, ...]]:
    """What the file of weights holds, by name."""
    pooled, width, cell = options.pooled, options.projection, options.cell
    found: dict[str, tuple[int, ...]] = {"char_embed": (CHARACTERS, options.character)}
    for number, (seen, count) in enumerate(options.filters):
        found |= {f"CNN/W_cnn_{number}": (1, seen, options.character, count), f"CNN/b_cnn_{number}": (count,)}
    for number in range(options.highways):
        for gate in ("carry", "transform"):
            found[f"CNN_high_{number}/W_{gate}"] = (pooled, pooled)
            found[f"CNN_high_{number}/b_{gate}"] = (pooled,)
    found |= {"CNN_proj/W_proj": (pooled, width), "CNN_proj/b_proj": (width,)}
    for direction in range(DIRECTIONS):
        for layer in range(options.layers):
            name = lstm(direction, layer)
            found |= {f"{name}/W_0": (2 * width, 4 * cell), f"{name}/B": (4 * cell,), f"{name}/W_P_0": (cell, width)}
    return found


def lstm(direction: int, layer: int) -> str:
    """Where the weights of one LSTM are."""
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def _read_weights(path: Path, options: Options) -> dict[str, Tensor]:
    # No pickle: HDF5 holds arrays. What the library raises on damaged files is of many kinds.
    import h5py

    check_regular(path)
    refuse_claim(path, sum(math.prod(shape) for shape in shapes(options).values()))
    try:
        with open_regular(path) as file, h5py.File(file, "r") as held:
            return dict(_tensors(path, held, options))
    except ModelError:
        raise
    except Exception as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise ModelError(f"{path} cannot be read as HDF5 ({said[0]}); copy the file again") from None


def _tensors(path: Path, held: Any, options: Options) -> Iterator[tuple[str, Tensor]]:
    import numpy as np
    import torch

    wanted = shapes(options)
    found = {name: _array(held, name) for name in wanted}
    absent = [name for name, array in found.items() if array is None]
    if len(absent) == len(wanted):
        raise ModelError(f"{path} is not the weights of an ELMo: it holds none of its tensors, such as {absent[0]}")
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        raise ModelError(f"{path} lacks the tensor {absent[0]}{more}, which {OPTIONS} asks for")
    for name, shape in wanted.items():
        array = found[name]
        if array.external or array.is_virtual:
            raise ModelError(f"{path}: {name} is kept in another file; an ELMo's weights are in one")
        if array.dtype.kind != "f" or tuple(array.shape) != shape:
            raise ModelError(
                f"{path}: {name} is {array.dtype} {tuple(array.shape)}; {OPTIONS} asks for float32 {shape}"
            )
        with np.errstate(over="ignore"):
            values = np.asarray(array[...], np.float32)
        if not np.isfinite(values).all():
            raise ModelError(f"{path}: {name} has values that are not numbers; copy the file again")
        yield name, torch.from_numpy(values)


def _array(held: Any, name: str) -> Any:
    """The array of a name; None where there is none, or where the name leads to another file."""
    import h5py

    at = held
    for part in name.split("/"):
        if not isinstance(at, h5py.Group) or not isinstance(at.get(part, getlink=True), h5py.HardLink):
            return None
        at = at[part]
    return at if isinstance(at, h5py.Dataset) else None
