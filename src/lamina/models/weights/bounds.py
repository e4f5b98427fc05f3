"""What a model folder may hold and say: regular files of bounded size, a config that matches the stored weights, and a
tokenizer without endless patterns. Nothing in it names anything elsewhere: see `loading` and `adapters` for the rest.
"""

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
_LARGEST = {
    "tokenizer.json": 128 * 1024**2,
    "config.json": 4 * 1024**2,
    "tokenizer_config.json": 16 * 1024**2,
    "chat_template.jinja": 1024**2,
    "chat_template.json": 1024**2,
}
"""Most bytes of files of a model folder; the largest known tokenizer has 33 MB."""
_LARGEST_OTHER = 128 * 1024**2
"""Most bytes of other files that are read as a whole."""
_WHOLE = (".json", ".jinja", ".txt", ".model", ".vocab")
LARGEST_HEADER = 32 * 1024**2
"""Most bytes of the header of a safetensors file."""
_LARGEST_TEMPLATE = 1024**2
"""Most characters of a chat template."""
_GROWTH = 64
"""How many times longer a normaliser may make a text."""
_PADDED = 100_000
"""Most tokens that a tokenizer may pad a text to."""
_TENSORS = 100_000
"""Weight tensors that may be built where the number of stored ones is not known."""


def check_folder(folder: Path) -> None:
    """Raise a ModelError if a model folder holds pipes or devices, or a config with impossible numbers."""
    for path in sorted(folder.iterdir()):
        if path.exists() and not path.is_dir():
            check_regular(path)
            most = _LARGEST.get(path.name, _LARGEST_OTHER)
            if path.suffix in _WHOLE and path.stat().st_size > most:
                raise ModelError(f"{path.name} has {path.stat().st_size:,} bytes; at most {most:,} are read")
    for name, check in (
        ("config.json", check_config),
        ("tokenizer.json", check_tokenizer),
        ("tokenizer_config.json", _check_templates),
    ):
        if (folder / name).is_file():
            try:
                check(parse_json(read_regular(folder / name).decode("utf-8")))
            except ValueError as error:
                raise ModelError(f"{name} is not valid JSON ({error})") from None


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


def check_tokenizer(tokenizer: Any) -> None:
    """Raise a ModelError if a tokenizer could take a text's time or memory out of all proportion.

    Example:
        >>> check_tokenizer({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+b"}}})
        Traceback (most recent call last):
        lamina.errors.ModelError: the tokenizer splits by the pattern '(a+)+b', whose search may never end; ...
        >>> check_tokenizer({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": r" ?\\p{L}+|\\s+(?!\\S)"}}})
    """
    if not isinstance(tokenizer, dict):
        raise ModelError("tokenizer.json holds no JSON object")
    # Not the vocabulary, which has most of the file.
    parts = {name: tokenizer.get(name) for name in ("normalizer", "pre_tokenizer", "decoder", "padding")}
    for key, pattern in _leaves(parts):
        if key == "Regex" and isinstance(pattern, str) and repeats_within_repeats(pattern):
            raise ModelError(
                f"the tokenizer splits by the pattern {pattern[:60]!r}, whose search may never end; no known "
                "model's tokenizer has a repetition within a repetition"
            )
        if key == "Fixed" and (not isinstance(pattern, int) or pattern > _PADDED):
            raise ModelError(f"the tokenizer pads every text to {str(pattern)[:20]} tokens; expected 0 to {_PADDED:,}")
    growth = _growth(parts["normalizer"])
    if growth > _GROWTH:
        raise ModelError(f"the tokenizer's normalizer makes texts up to {growth:,.0f} times as long; at most {_GROWTH}")


def repeats_within_repeats(pattern: str) -> bool:
    """Whether a regular expression repeats a group without end that holds another such repetition.

    Example:
        >>> repeats_within_repeats(r"(\\w+\\.?)+X"), repeats_within_repeats(r"[^\\r\\n]?\\p{L}+|\\s*[\\r\\n]+")
        (True, False)
        >>> repeats_within_repeats(r"(a|aa)+$")
        True
    """
    # For every open group, whether it holds a repetition without end, or a choice.
    groups, inside, place = [False], False, 0
    while place < len(pattern):
        sign = pattern[place]
        if sign == "\\":
            place += 2
            inside = False
            continue
        if sign == "[":
            place = _end_of_class(pattern, place)
            inside = False
            continue
        if sign == "(":
            groups.append(False)
        elif sign == "|" and len(groups) > 1:
            groups[-1] = True
        elif sign == ")" and len(groups) > 1:
            # What a group holds, the group around it holds too.
            inside = groups.pop()
            groups[-1] |= inside
        elif sign in "*+" or (sign == "{" and _is_endless(pattern, place)):
            if inside:
                return True
            groups[-1] = True
        if sign != ")":
            inside = False
        place += 1
    return False


def _is_endless(pattern: str, place: int) -> bool:
    """Whether a count in braces is open, or large: {2,}, {,9999}."""
    count = re.match(r"\{(\d{0,9})(,?)(\d{0,9})\}", pattern[place : place + 24])
    return count is not None and (bool(count[2] and not count[3]) or int(count[3] or count[1] or 0) > 8)


def _end_of_class(pattern: str, place: int) -> int:
    """One past the end of a class of characters, in which others may stand."""
    depth, place = 1, place + 1
    if pattern[place : place + 1] == "^":
        place += 1
    if pattern[place : place + 1] == "]":
        place += 1
    while place < len(pattern) and depth:
        if pattern[place] == "\\":
            place += 1
        elif pattern[place] == "[":
            depth += 1
        elif pattern[place] == "]":
            depth -= 1
        place += 1
    return place


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that holds no others, with the name it has."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, key)
    else:
        yield key, value


def _growth(normalizer: Any) -> float:
    """How many times longer a text may become."""
    if not isinstance(normalizer, dict):
        return 1.0
    if isinstance(inner := normalizer.get("normalizers"), list):
        return math.prod(map(_growth, inner))
    content, pattern = normalizer.get("content"), normalizer.get("pattern")
    if not isinstance(content, str):
        return 1.0
    literal = pattern.get("String") if isinstance(pattern, dict) else None
    # A pattern may match between any two characters.
    return max(1.0, len(content) / len(literal)) if isinstance(literal, str) and literal else 1.0 + len(content)


def _check_templates(settings: Any) -> None:
    templates = settings.get("chat_template") if isinstance(settings, dict) else None
    size = sum(len(text) for _, text in _leaves(templates) if isinstance(text, str))
    if size > _LARGEST_TEMPLATE:
        raise ModelError(f"the chat template has {size:,} characters; at most {_LARGEST_TEMPLATE:,} are read")


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
    index = parse_json(read_regular(folder / "model.safetensors.index.json", _LARGEST_OTHER).decode("utf-8"))
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
        if size > min(LARGEST_HEADER, path.stat().st_size):
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
