"""Checkpoints of one training as a series: in order, of one shape and tokenizer, without duplicates and swaps."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lamina.encoders.bounds import check_folder, weights_files
from lamina.encoders.contract import Encoder
from lamina.errors import DamagedError, InputError, ModelError
from lamina.files.checking import read_json

_STEP = re.compile(
    r"(?:^|[-_.])(?:global[-_]?step|checkpoint|ckpt|steps?|iter(?:ation)?|epoch)?[-_.]?(?P<number>\d+)(?P<unit>[kmb])?"
    r"(?:[-_]?tokens?\d+[kmbt]?)?$",
    re.IGNORECASE,
)
"""The end of a name that says how long the training was: checkpoint-100, step300, step_3k, step1000-tokens4B, 500."""
_SEED = re.compile(r"(?:^|[-_.])(?:seed|run)[-_]?\d+$", re.IGNORECASE)
"""A number at the end that is no step."""
_LAST = re.compile(r"(?:^|[-_.])(?:final|last|main)$", re.IGNORECASE)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9}
_TRANSIENT = {"_name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures", "use_cache"}
"""What configs of one training may differ in."""

Kind = Literal["unreadable", "tokenizer", "shape", "step", "duplicate", "path", "order"]


class Place(NamedTuple):
    """Where a checkpoint's name puts it."""

    path: str
    """Which training: what is left of the name without the step, such as a seed."""
    step: int | None
    """None for a name without a step, which is the last of its training."""


@dataclass(frozen=True)
class Fault:
    """Something that is wrong with a checkpoint of a series."""

    checkpoint: str
    kind: Kind
    said: str
    """One sentence."""


@dataclass(frozen=True)
class Checkpoint:
    """One model of a series."""

    name: str
    source: str
    """What `load_encoder` takes."""
    path: str
    """Which training it belongs to by its name; empty if the name says nothing but the step."""
    step: int | None
    """None for the last of its training, if its name has no step."""
    hash: str = ""
    """Of the weights."""
    distance: float | None = None
    """To the checkpoint before it on its path, over all matrices; None for the first."""


@dataclass(frozen=True)
class Series:
    """Checkpoints ordered by path, then by step."""

    name: str
    checkpoints: tuple[Checkpoint, ...]
    faults: tuple[Fault, ...] = ()

    def __iter__(self) -> Iterator[Checkpoint]:
        return iter(self.checkpoints)

    def __len__(self) -> int:
        return len(self.checkpoints)

    @property
    def paths(self) -> dict[str, tuple[Checkpoint, ...]]:
        """The checkpoints of each training, first to last."""
        names = dict.fromkeys(each.path for each in self.checkpoints)
        return {name: tuple(each for each in self.checkpoints if each.path == name) for name in names}

    def encoders(self, **settings: Any) -> Iterator[tuple[Checkpoint, Encoder]]:
        """Each checkpoint with its encoder, loaded when it is its turn; `settings` are those of `load_encoder`."""
        from lamina.encoders.loading import load_encoder

        for each in self.checkpoints:
            yield each, load_encoder(each.source, **settings)

    def require_sound(self) -> Series:
        """This series, if nothing is wrong with it; otherwise a ModelError says what."""
        for fault in self.faults:
            more = f" (and {len(self.faults) - 1} more)" if len(self.faults) > 1 else ""
            raise ModelError(f"{self.name} is not a sound series: {fault.said}{more}")
        return self


def load_series(where: str | Path) -> Series:
    """The checkpoints of a folder, or of a hub model with its revisions: `OWNER/NAME@step1000,step3000`.

    Each folder below with a config is a checkpoint. The step is read from its name; a name without one is the last of
    its training. What is left of the names tells trainings (seeds) apart. Weights are compared by hash and by distance.

    Example:
        >>> for each in lamina.load_series("growing_bert"):  # doctest: +SKIP
        ...     print(each.path, each.step, each.distance)
        seed0 300 None
        seed0 1000 50.6
    """
    found = _of_hub(str(where)) if _is_hub(str(where)) else _of_folder(Path(where))
    placed = sorted(found, key=lambda each: (each.path, each.step is None, each.step or 0, each.name))
    return _examined(Series(str(where) if _is_hub(str(where)) else Path(where).resolve().name, tuple(placed)))


def place_of(name: str) -> Place:
    """The path and the step that a checkpoint's name says.

    Example:
        >>> place_of("checkpoint-100"), place_of("seed0-step3000"), place_of("seed1"), place_of("step1000-tokens4B")
        (Place(path='', step=100), Place(path='seed0', step=3000), Place(path='seed1', step=None), \
Place(path='', step=1000))
        >>> place_of("run_b.step_3k"), place_of("final")
        (Place(path='run_b', step=3000), Place(path='', step=None))
    """
    if last := _LAST.search(name):
        return Place(name[: last.start()], None)
    step = None if _SEED.search(name) else _STEP.search(name)
    if step is None:
        return Place(name, None)
    return Place(name[: step.start()], int(step["number"]) * _UNITS[(step["unit"] or "").lower()])


def _is_hub(where: str) -> bool:
    return "@" in where and not Path(where).exists()


def _of_hub(where: str) -> list[Checkpoint]:
    repo, _, listed = where.partition("@")
    revisions = [each.strip() for each in listed.split(",") if each.strip()]
    if len(revisions) < 2:
        raise ModelError(f"{where!r} is one model; a series names its revisions: {repo}@step1000,step3000")
    return [Checkpoint(each, f"{repo}@{each}", *place_of(each)) for each in dict.fromkeys(revisions)]


def _of_folder(folder: Path) -> list[Checkpoint]:
    if not folder.is_dir():
        raise ModelError(
            f"{folder} is not a folder; a series is a folder of checkpoints (checkpoint-100, step300, ...) or a hub "
            "model with revisions (OWNER/NAME@step1000,step3000)"
        )
    below = sorted(path for path in folder.iterdir() if path.is_dir() and (path / "config.json").is_file())
    found = [Checkpoint(path.name, str(path), *place_of(path.name)) for path in below]
    if (folder / "config.json").is_file() and weights_files(folder):
        # As transformers' Trainer leaves it: the last model beside the folders of its checkpoints.
        found.append(Checkpoint(folder.resolve().name, str(folder), "", None))
    if len(found) < 2:
        held = f"{len(found)} checkpoints (folders with config.json)"
        raise ModelError(f"{folder} holds {held}; a series has at least two")
    return found


def _examined(series: Series) -> Series:
    """The series with hashes, distances and faults."""
    from lamina.encoders.weight_distances import Weights

    faults: list[Fault] = []
    with ExitStack() as stack:
        weights: dict[str, Weights] = {}
        folders: dict[str, Path] = {}
        for each in series:
            try:
                folders[each.name] = _folder(each)
                check_folder(folders[each.name])
                weights[each.name] = Weights(folders[each.name], stack)
            except (ModelError, InputError, DamagedError) as error:
                faults.append(Fault(each.name, "unreadable", f"{each.name} cannot be read: {error}"))
        sound = [each for each in series if each.name in weights]
        hashes = {each.name: weights[each.name].hash() for each in sound}
        faults += [*_unlike(sound, folders, weights), *_misnamed(sound, folders), *_duplicates(sound, hashes)]
        odd = {fault.checkpoint for fault in faults if fault.kind in ("shape", "unreadable")}
        apart: dict[str, float] = {}
        for path in series.paths.values():
            alike = [each for each in path if each.name in weights and each.name not in odd]
            steps, found = _compared(alike, weights, hashes)
            apart |= steps
            faults += found
    known = [replace(each, hash=hashes.get(each.name, ""), distance=apart.get(each.name)) for each in series]
    return replace(series, checkpoints=tuple(known), faults=tuple(faults))


def _folder(checkpoint: Checkpoint) -> Path:
    """The checkpoint's files on this machine; a hub model's are fetched."""
    from lamina.encoders.hub import cannot_load
    from lamina.encoders.model_names import parse_name

    name = parse_name(checkpoint.source)
    if name.is_path:
        return Path(name.source)
    from huggingface_hub import snapshot_download

    patterns = ["*.json", "*.safetensors", "*.txt", "*.model"]
    try:
        folder = Path(snapshot_download(name.source, revision=name.revision, allow_patterns=patterns))
        if not weights_files(folder):
            folder = Path(snapshot_download(name.source, revision=name.revision, allow_patterns=[*patterns, "*.bin"]))
    except Exception as error:
        raise cannot_load(name, error) from error
    return folder


def _unlike(series: Sequence[Checkpoint], folders: dict[str, Path], weights: dict[str, Any]) -> Iterator[Fault]:
    """Checkpoints of another shape or with another tokenizer than the first."""
    if not series:
        return
    first, *rest = series
    home = folders[first.name]
    config, tokenizer, shapes = _config(home), _tokenizer(home), _shapes(weights[first.name])
    for each in rest:
        own = _config(folders[each.name])
        differing = sorted(key for key in config.keys() | own.keys() if config.get(key) != own.get(key))
        if differing:
            key = differing[0]
            said = f"{each.name} has {key} = {own.get(key)}, {first.name} has {config.get(key)}"
            yield Fault(each.name, "shape", f"{said}: they are not one model at two times")
        elif _shapes(weights[each.name]) != shapes:
            yield Fault(each.name, "shape", f"{each.name} has weights of other names or shapes than {first.name}")
        if _tokenizer(folders[each.name]) != tokenizer:
            yield Fault(each.name, "tokenizer", f"{each.name} has another tokenizer than {first.name}")


def _misnamed(series: Sequence[Checkpoint], folders: dict[str, Path]) -> Iterator[Fault]:
    """Checkpoints whose own record of the training says another step than their name."""
    for each in series:
        path = folders[each.name] / "trainer_state.json"
        try:
            step = read_json(path).get("global_step") if path.is_file() else None
        except (DamagedError, InputError, OSError):
            continue
        if isinstance(step, int) and each.step is not None and step != each.step:
            said = f"{each.name} is step {step} by its trainer_state.json, not step {each.step}"
            yield Fault(each.name, "step", said)


def _duplicates(series: Sequence[Checkpoint], hashes: dict[str, str]) -> Iterator[Fault]:
    first: dict[str, str] = {}
    for each in series:
        same = first.setdefault(hashes[each.name], each.name)
        if same != each.name:
            yield Fault(each.name, "duplicate", f"{each.name} has the same weights as {same}")


def _compared(
    path: Sequence[Checkpoint], weights: dict[str, Any], hashes: dict[str, str]
) -> tuple[dict[str, float], list[Fault]]:
    """Of one training: each checkpoint's distance to the one before it, and what distances say against the order."""
    from lamina.encoders.weight_distances import best_order, contradictions, distances, strangers

    if len(path) < 2:
        return {}, []
    found = distances([weights[each.name] for each in path])
    steps = {path[at].name: float(found.apart[at - 1, at]) for at in range(1, len(path))}
    faults = []
    for at in strangers(found):
        others = "the others" if len(path) > 2 else "the other"
        said = f"{path[at].name} has nothing in common with {others}: it comes from another training (another seed?)"
        faults.append(Fault(path[at].name, "path", said))
    strange = {fault.checkpoint for fault in faults}
    seen: set[str] = set()
    # A duplicate says nothing of its own about the order.
    kept = [
        at
        for at, each in enumerate(path)
        if each.name not in strange and not (hashes[each.name] in seen or seen.add(hashes[each.name]))
    ]
    apart = found.apart[kept][:, kept]
    if contradictions(apart):
        order = best_order(apart)
        said = " < ".join(path[kept[at]].name for at in order)
        # Distances may contradict the order without telling a better one.
        moved = [at for to, at in enumerate(order) if to != at] or range(len(kept))
        faults += [
            Fault(
                name := path[kept[at]].name,
                "order",
                f"{name} is swapped, misnamed or of another training: by the distances of the weights, the order is "
                f"{said}, or the reverse",
            )
            for at in sorted(moved)
        ]
    return steps, faults


def _config(folder: Path) -> dict[str, Any]:
    said = read_json(folder / "config.json")
    return {key: value for key, value in said.items() if key not in _TRANSIENT}


def _shapes(weights: Any) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weights[name].shape) for name in weights.names}


def _tokenizer(folder: Path) -> str:
    """A hash of the tokenizer's definition; of its vocabulary where it has no fast version."""
    whole = folder / "tokenizer.json"
    if whole.is_file():
        return hashlib.sha256(json.dumps(read_json(whole), sort_keys=True).encode()).hexdigest()
    files = [path for name in ("vocab.json", "vocab.txt", "merges.txt") if (path := folder / name).is_file()]
    files += sorted(folder.glob("*.model"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest() if files else ""
