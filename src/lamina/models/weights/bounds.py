"""Limits on the size of a model that transformers builds from a folder: the config must match the stored weights."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lamina.errors import ModelError
from lamina.files.reading import check_regular, open_regular, parse_json, read_regular

if TYPE_CHECKING:
    import torch

_WEIGHTS = (".safetensors", ".bin", ".gguf")
_COUNT = re.compile(r"layers?$|_layer$|blocks$|depth|labels$|heads?$|experts$|groups$")
"""Names of settings that say how many of something there are."""
_MOST = 100_000
"""More than this many layers, heads, labels or experts no model has."""
_PLAIN = {"F64", "F32", "F16", "BF16", "BOOL", "I64"}
"""Types of safetensors that hold one number a place; quantised weights pack several into one."""
_TOO_LARGE = (
    "the config describes a model far larger than the stored weights; its numbers of layers and words and its sizes "
    "must be those of the weights"
)
_TENSORS = 100_000
"""Weight tensors that may be built where the number of stored ones is not known."""


def check_folder(folder: Path) -> None:
    """Raise a ModelError if a model folder holds pipes or devices, or a config with impossible numbers."""
    for path in sorted(folder.iterdir()):
        if path.exists() and not path.is_dir():
            check_regular(path)
    config = folder / "config.json"
    if config.is_file():
        try:
            check_config(parse_json(read_regular(config).decode("utf-8")))
        except ValueError as error:
            raise ModelError(f"config.json is not valid JSON ({error})") from None


def check_config(config: Any) -> None:
    """Raise a ModelError if a config is not an object, or has more layers, heads or labels than any model has.

    Example:
        >>> check_config({"num_hidden_layers": 12, "text_config": {"num_hidden_layers": 10**9}})
        Traceback (most recent call last):
        lamina.errors.ModelError: the config says num_hidden_layers = 1000000000; expected 0 to 100,000
    """
    if not isinstance(config, dict):
        raise ModelError("config.json holds no JSON object")
    for name, value in _numbers(config):
        # A layer may be named by its distance from the last one, as in vision_feature_layer = -2.
        least = 0 if name.startswith(("n_", "num_")) else -_MOST
        if _COUNT.search(name) and not least <= value <= _MOST:
            raise ModelError(f"the config says {name} = {str(value)[:20]}; expected 0 to {_MOST:,}")


@contextmanager
def bounded_building(weights: Iterable[Path]) -> Iterator[None]:
    """Within the block, a model that is far larger than its weights files ends in a ModelError while it is built.

    Counted is what this thread builds on torch's meta device, where transformers builds a model before it loads it.
    """
    from torch.nn.modules.module import (
        register_module_buffer_registration_hook,
        register_module_parameter_registration_hook,
    )

    allowed = _allowed(weights)
    building = threading.get_ident()
    tensors = values = 0

    def count(_module: object, _name: str, built: torch.Tensor | None) -> None:
        nonlocal tensors, values
        if built is None or built.device.type != "meta" or threading.get_ident() != building:
            return
        tensors += 1
        values += built.numel()
        if tensors > allowed.tensors or values > allowed.values:
            raise ModelError(_TOO_LARGE)

    hooks = register_module_parameter_registration_hook(count), register_module_buffer_registration_hook(count)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def refuse_claim(weights: Path, values: int) -> None:
    """Raise a ModelError if a file of weights is far too small for the numbers that it should hold."""
    if values > _allowed([weights]).values:
        raise ModelError(f"{weights}: {_TOO_LARGE}")


def weights_files(folder: Path) -> list[Path]:
    """The files of a model folder that hold weights."""
    return sorted(path for path in folder.iterdir() if path.suffix in _WEIGHTS and path.is_file())


class _Allowed(NamedTuple):
    tensors: int
    values: int


def _allowed(weights: Iterable[Path]) -> _Allowed:
    """Generous limits: weights may be packed at 8 values per byte, tied or stacked; buffers are not stored at all."""
    files = list(weights)
    stored = [_stored_tensors(path) for path in files]
    tensors = _TENSORS if None in stored or not stored else 2_000 + 20 * sum(filter(None, stored))
    return _Allowed(tensors, (1 << 26) + 8 * sum(path.stat().st_size for path in files))


def stored_values(folder: Path | None) -> int | None:
    """How many numbers the weights of a model folder are; None if its files do not say, or pack several into one.

    Read from the headers of its safetensors, before any weight is read.
    """
    try:
        headers = [_header(path) for path in _checkpoint(folder)] if folder is not None else []
        arrays = [about for header in headers for name, about in (header or {}).items() if name != "__metadata__"]
        if not headers or None in headers or any(about["dtype"] not in _PLAIN for about in arrays):
            return None
        return sum(math.prod(about["shape"]) for about in arrays)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        # The code that reads the folder reports what is wrong with it.
        return None


def _checkpoint(folder: Path) -> list[Path]:
    """The safetensors files that transformers would read: one, or those that an index names."""
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    index = parse_json(read_regular(folder / "model.safetensors.index.json").decode("utf-8"))
    return [folder / name for name in sorted(set(index["weight_map"].values()))]


def _stored_tensors(path: Path) -> int | None:
    """How many tensors a safetensors file says it has; None if it does not say."""
    header = _header(path)
    return None if header is None else len(header)


def _header(path: Path) -> dict[str, Any] | None:
    """What a safetensors file says of its tensors; None if it is another file, or a damaged one."""
    if path.suffix != ".safetensors":
        return None
    with open_regular(path) as file:
        size = int.from_bytes(file.read(8), "little")
        if size > path.stat().st_size:
            return None
        try:
            header = parse_json(file.read(size).decode("utf-8"))
        except ValueError:
            return None
    return header if isinstance(header, dict) else None


def _numbers(config: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _numbers(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield name, value
