"""Checkpoints of one training as a series: in order, of one shape and tokenizer, without duplicates and swaps."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lamina.errors import DamagedError, InputError, ModelError
from lamina.files.checking import read_json
from lamina.models.contract import Encoder
from lamina.models.weights.bounds import check_folder, weights_files

_STEP = re.compile(
    r"(?:^|[-_.])(?:global[-_]?step|checkpoint|ckpt|steps?|iter(?:ation)?|epoch)?[-_.]?(?P<number>\d+)(?P<unit>[kmb])?"
    r"(?:[-_]?tokens?\d+[kmbt]?)?$",
    re.IGNORECASE,
)
"""The end of a name that says how long the training was: checkpoint-100, step300, step_3k, step1000-tokens4B, 500."""
_SEED = re.compile(r"(?:^|[-_.])(?:seed|run)[-_]?\d+$", re.IGNORECASE)
"""A number at the end that is no step."""
_LAST = re.compile(r"(?:^|[-_.])(?:final|last|main)$", re.IGNORECASE)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_TRANSIENT = {"_name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures", "use_cache"}
"""What configs of one training may differ in."""

_TOKENS = re.compile(r"tokens?[-_]?(?P<number>\d+)(?P<unit>[kmbt])?", re.IGNORECASE)
"""What a name says of how much was read: step1000-tokens4B."""

Kind = Literal["unreadable", "tokenizer", "shape", "step", "duplicate", "path", "order", "distance", "loss"]


class SeriesPlace(NamedTuple):
    """Where a checkpoint's name puts it."""

    path: str
    """Which training: what is left of the name without the step, such as a seed."""
    step: int | None
    """None for a name without a step, which is the last of its training."""


@dataclass(frozen=True)
class SeriesFault:
    """Something that is wrong with a checkpoint of a series."""

    checkpoint: str
    kind: Kind
    message: str
    """One sentence."""


@dataclass(frozen=True)
class SeriesCheckpoint:
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
    tokens: int | None = None
    """Read in training up to there, where the name or `lamina pretrain` says so."""


@dataclass(frozen=True)
class Series:
    """Checkpoints ordered by path, then by step."""

    name: str
    checkpoints: tuple[SeriesCheckpoint, ...]
    faults: tuple[SeriesFault, ...] = ()

    def __iter__(self) -> Iterator[SeriesCheckpoint]:
        return iter(self.checkpoints)

    def __len__(self) -> int:
        return len(self.checkpoints)

    @property
    def paths(self) -> dict[str, tuple[SeriesCheckpoint, ...]]:
        """The checkpoints of each training, first to last."""
        names = dict.fromkeys(checkpoint.path for checkpoint in self.checkpoints)
        return {name: tuple(checkpoint for checkpoint in self.checkpoints if checkpoint.path == name) for name in names}

    def encoders(self, **settings: Any) -> Iterator[tuple[SeriesCheckpoint, Encoder]]:
        """Each checkpoint with its encoder, loaded when it is its turn; `settings` are those of `load_encoder`."""
        from lamina.models.loading import load_encoder

        for checkpoint in self.checkpoints:
            yield checkpoint, load_encoder(checkpoint.source, **settings)

    def require_sound(self) -> Series:
        """This series, if nothing is wrong with it; otherwise a ModelError says what."""
        for fault in self.faults:
            more = f" (and {len(self.faults) - 1} more)" if len(self.faults) > 1 else ""
            raise ModelError(f"{self.name} is not a sound series: {fault.message}{more}")
        return self


def load_series(where: str | Path, steps: Mapping[str, int] | None = None) -> Series:
    """The checkpoints of a folder, or of a hub model with its revisions: `OWNER/NAME@step1000,step3000` or `@step*`.

    Each folder below with a config is a checkpoint. The step is read from its name; a name without one is the last of
    its training. What is left of the names tells trainings (seeds) apart. Weights are compared by hash and by distance.
    `steps` says the step of checkpoints, by name, whose names do not.

    Example:
        >>> for each in lamina.load_series("growing_bert"):  # doctest: +SKIP
        ...     print(each.path, each.step, each.distance)
        seed0 300 None
        seed0 1000 50.6
    """
    checkpoints = checkpoints_of(where)
    given = dict(steps or {})
    if unknown := [name for name in given if name not in {checkpoint.name for checkpoint in checkpoints}]:
        names = ", ".join(checkpoint.name for checkpoint in checkpoints[:4])
        raise InputError(f"{where} has no checkpoint {unknown[0]!r} to give a step to; it has {names}")
    checkpoints = [replace(checkpoint, step=given.get(checkpoint.name, checkpoint.step)) for checkpoint in checkpoints]
    placed = sorted(
        checkpoints,
        key=lambda checkpoint: (checkpoint.path, checkpoint.step is None, checkpoint.step or 0, checkpoint.name),
    )
    return _examined(Series(str(where) if _is_hub(str(where)) else Path(where).resolve().name, tuple(placed)))


def expand_models(name: str) -> list[str]:
    """The models that a name stands for: revisions (`OWNER/NAME@a,b`), a pattern of folders, a folder of checkpoints.

    Checkpoints come by training, then by step; any other name is one model. Nothing is loaded or compared.

    Example:
        >>> expand_models("minilm"), expand_models("owner/pythia@step1000,step3000")
        (['minilm'], ['owner/pythia@step1000', 'owner/pythia@step3000'])
    """
    if Path(name).expanduser().is_dir():
        folder = Path(name).expanduser()
        below = _checkpoints_below(folder) if not (folder / "config.json").is_file() else []
        return [str(path) for path in below] or [name]
    if "@" in name and "," in name:
        return [checkpoint.source for checkpoint in _of_hub(name)]
    if any(mark in name for mark in "*?["):
        pattern = Path(name).expanduser()
        root = Path(pattern.anchor or ".")
        matching = [path for path in root.glob(str(pattern.relative_to(pattern.anchor))) if _is_model(path)]
        if not matching:
            raise ModelError(f"no folder with a model matches {name!r}; check the pattern")
        return [str(path) for path in sorted(matching, key=_place_of)]
    return [name]


def _is_model(path: Path) -> bool:
    return (path / "config.json").is_file() or path.suffix == ".gguf"


def _checkpoints_below(folder: Path) -> list[Path]:
    below = [path for path in folder.iterdir() if path.is_dir() and (path / "config.json").is_file()]
    return sorted(below, key=_place_of)


def _place_of(path: Path) -> tuple[str, bool, int, str]:
    place = series_place(path.name)
    return place.path, place.step is None, place.step or 0, path.name


def series_place(name: str) -> SeriesPlace:
    """The path and the step that a checkpoint's name says.

    Example:
        >>> series_place("checkpoint-100"), series_place("seed0-step3000"), series_place("seed1")
        (SeriesPlace(path='', step=100), SeriesPlace(path='seed0', step=3000), SeriesPlace(path='seed1', step=None))
        >>> series_place("run_b.step_3k"), series_place("final")
        (SeriesPlace(path='run_b', step=3000), SeriesPlace(path='', step=None))
    """
    if last := _LAST.search(name):
        return SeriesPlace(name[: last.start()], None)
    step = None if _SEED.search(name) else _STEP.search(name)
    if step is None:
        return SeriesPlace(name, None)
    return SeriesPlace(name[: step.start()], int(step["number"]) * _UNITS[(step["unit"] or "").lower()])


def log_steps(steps: int, count: int) -> list[int]:
    """At most `count` steps up to `steps`, evenly spread by their logarithm from a 128th of it on: 8 are doublings.

    Example:
        >>> log_steps(1000, 8), log_steps(3, 8)
        ([8, 16, 31, 62, 125, 250, 500, 1000], [1, 2, 3])
    """
    apart = 128 ** (1 / max(1, count - 1))
    return sorted({max(1, round(steps / apart**power)) for power in range(count)})


def checkpoints_of(where: str | Path) -> list[SeriesCheckpoint]:
    """The checkpoints that a folder or `OWNER/NAME@REVISION,...` names, in no order and not examined; no weights are
    read.

    Example:
        >>> [checkpoint.source for checkpoint in checkpoints_of("some/model@step1,step8")]
        ['some/model@step1', 'some/model@step8']
    """
    return _of_hub(str(where)) if _is_hub(str(where)) else _of_folder(Path(where))


def folder_of_checkpoint(checkpoint: SeriesCheckpoint) -> Path:
    """The checkpoint's files on this machine; a hub model's are fetched."""
    return _folder(checkpoint)


def _is_hub(where: str) -> bool:
    return "@" in where and not Path(where).exists()


def _of_hub(where: str) -> list[SeriesCheckpoint]:
    repo, _, listed = where.partition("@")
    revisions = [
        revision
        for written in listed.split(",")
        if (name := written.strip())
        for revision in (_matching(repo, name) if "*" in name else [name])
    ]
    if len(revisions) < 2:
        raise ModelError(f"{where!r} is one model; a series names its revisions: {repo}@step1000,step3000")
    return [
        SeriesCheckpoint(revision, f"{repo}@{revision}", *series_place(revision), tokens=_tokens_in(revision))
        for revision in dict.fromkeys(revisions)
    ]


def _matching(repo: str, pattern: str) -> list[str]:
    """The revisions of a hub model that fit a pattern: of the hub, or of this machine's cache where it is offline."""
    from huggingface_hub import list_repo_refs, scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        refs = list_repo_refs(repo)
        known = [ref.name for ref in (*refs.branches, *refs.tags)]
    except Exception:
        try:
            cached = [entry for entry in scan_cache_dir().repos if entry.repo_id == repo]
        except CacheNotFound:
            cached = []
        known = sorted(ref for entry in cached for ref in entry.refs)
    fitting = [name for name in dict.fromkeys(known) if fnmatchcase(name, pattern)]
    if not fitting:
        raise ModelError(
            f"no revision of {repo} fits {pattern!r} (the hub cannot be reached, or has none); name the revisions: "
            f"{repo}@step1000,step3000"
        )
    return fitting


def _tokens_in(name: str) -> int | None:
    """The tokens read that a name says.

    Example:
        >>> _tokens_in("stage1-step1000-tokens4B"), _tokens_in("step300")
        (4000000000, None)
    """
    match = _TOKENS.search(name)
    return None if match is None else int(match["number"]) * _UNITS[(match["unit"] or "").lower()]


def _pretraining_of(folder: Path) -> int | None:
    """Tokens of a step, where `lamina pretrain` wrote the series."""
    try:
        tokens = read_json(folder / "pretraining.json").get("tokens_per_step")
    except (DamagedError, InputError, OSError):
        return None
    return tokens if isinstance(tokens, int) else None


def _of_folder(folder: Path) -> list[SeriesCheckpoint]:
    if not folder.is_dir():
        raise ModelError(
            f"{folder} is not a folder; a series is a folder of checkpoints (checkpoint-100, step300, ...) or a hub "
            "model with revisions (OWNER/NAME@step1000,step3000)"
        )
    below = sorted(path for path in folder.iterdir() if path.is_dir() and (path / "config.json").is_file())
    per_step = _pretraining_of(folder) if (folder / "pretraining.json").is_file() else None
    checkpoints = []
    for path in below:
        place = series_place(path.name)
        tokens = _tokens_in(path.name) if per_step is None or place.step is None else per_step * place.step
        checkpoints.append(SeriesCheckpoint(path.name, str(path), *place, tokens=tokens))
    if (folder / "result.json").is_file():
        # As `lamina finetune --keep-steps log` leaves it: the models of the best steps are in the same folder.
        on_the_way = [checkpoint for checkpoint in checkpoints if checkpoint.step is not None]
        if len(on_the_way) > 1:
            return on_the_way
    if (folder / "config.json").is_file() and weights_files(folder):
        # As transformers' Trainer leaves it: the last model beside the folders of its checkpoints.
        checkpoints.append(SeriesCheckpoint(folder.resolve().name, str(folder), "", None))
    if len(checkpoints) < 2:
        described = f"{len(checkpoints)} checkpoints (folders with config.json)"
        raise ModelError(f"{folder} holds {described}; a series has at least two")
    return checkpoints


def _examined(series: Series) -> Series:
    """The series with hashes, distances and faults."""

    faults: list[SeriesFault] = []
    with ExitStack() as stack:
        weights: dict[str, CheckpointWeights] = {}
        folders: dict[str, Path] = {}
        for checkpoint in series:
            try:
                folders[checkpoint.name] = _folder(checkpoint)
                check_folder(folders[checkpoint.name])
                weights[checkpoint.name] = CheckpointWeights(folders[checkpoint.name], stack)
            except (ModelError, InputError, DamagedError) as error:
                faults.append(SeriesFault(checkpoint.name, "unreadable", f"{checkpoint.name} cannot be read: {error}"))
        sound = [checkpoint for checkpoint in series if checkpoint.name in weights]
        hashes = {checkpoint.name: weights[checkpoint.name].hash() for checkpoint in sound}
        faults += [*_unlike(sound, folders, weights), *_misnamed(sound, folders), *_duplicates(sound, hashes)]
        odd = {fault.checkpoint for fault in faults if fault.kind in ("shape", "unreadable")}
        apart: dict[str, float] = {}
        for path in series.paths.values():
            alike = [checkpoint for checkpoint in path if checkpoint.name in weights and checkpoint.name not in odd]
            steps, order_faults = _compared(alike, weights, hashes)
            apart |= steps
            faults += order_faults
    known = [
        replace(checkpoint, hash=hashes.get(checkpoint.name, ""), distance=apart.get(checkpoint.name))
        for checkpoint in series
    ]
    return replace(series, checkpoints=tuple(known), faults=tuple(faults))


def _folder(checkpoint: SeriesCheckpoint) -> Path:
    """The checkpoint's files on this machine; a hub model's are fetched."""
    from lamina.models.weights.hub import cannot_load, parse_name

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


def _unlike(
    series: Sequence[SeriesCheckpoint], folders: dict[str, Path], weights: dict[str, Any]
) -> Iterator[SeriesFault]:
    """Checkpoints of another shape or with another tokenizer than the first."""
    if not series:
        return
    first, *rest = series
    home = folders[first.name]
    config, tokenizer, shapes = _config(home), _tokenizer(home), _shapes(weights[first.name])
    for checkpoint in rest:
        other_config = _config(folders[checkpoint.name])
        differing = sorted(
            key for key in config.keys() | other_config.keys() if config.get(key) != other_config.get(key)
        )
        if differing:
            key = differing[0]
            difference = f"{checkpoint.name} has {key} = {other_config.get(key)}, {first.name} has {config.get(key)}"
            yield SeriesFault(checkpoint.name, "shape", f"{difference}: they are not one model at two times")
        elif _shapes(weights[checkpoint.name]) != shapes:
            yield SeriesFault(
                checkpoint.name, "shape", f"{checkpoint.name} has weights of other names or shapes than {first.name}"
            )
        if _tokenizer(folders[checkpoint.name]) != tokenizer:
            yield SeriesFault(
                checkpoint.name, "tokenizer", f"{checkpoint.name} has another tokenizer than {first.name}"
            )


def _misnamed(series: Sequence[SeriesCheckpoint], folders: dict[str, Path]) -> Iterator[SeriesFault]:
    """Checkpoints whose training state records another step than their name."""
    for checkpoint in series:
        path = folders[checkpoint.name] / "trainer_state.json"
        try:
            step = read_json(path).get("global_step") if path.is_file() else None
        except (DamagedError, InputError, OSError):
            continue
        if isinstance(step, int) and checkpoint.step is not None and step != checkpoint.step:
            message = f"{checkpoint.name} is step {step} by its trainer_state.json, not step {checkpoint.step}"
            yield SeriesFault(checkpoint.name, "step", message)


def _duplicates(series: Sequence[SeriesCheckpoint], hashes: dict[str, str]) -> Iterator[SeriesFault]:
    first: dict[str, str] = {}
    for checkpoint in series:
        same = first.setdefault(hashes[checkpoint.name], checkpoint.name)
        if same != checkpoint.name:
            yield SeriesFault(checkpoint.name, "duplicate", f"{checkpoint.name} has the same weights as {same}")


def _compared(
    path: Sequence[SeriesCheckpoint], weights: dict[str, Any], hashes: dict[str, str]
) -> tuple[dict[str, float], list[SeriesFault]]:
    """Of one training: each checkpoint's distance to the one before it, and faults in the order by these distances."""

    if len(path) < 2:
        return {}, []
    measured = distances([weights[checkpoint.name] for checkpoint in path])
    steps = {path[number].name: float(measured.apart[number - 1, number]) for number in range(1, len(path))}
    faults = []
    for number in strangers(measured):
        others = "the others" if len(path) > 2 else "the other"
        message = (
            f"{path[number].name} has nothing in common with {others}: it comes from another training (another seed?)"
        )
        faults.append(SeriesFault(path[number].name, "path", message))
    strange = {fault.checkpoint for fault in faults}
    seen: set[str] = set()
    # A duplicate says nothing of its own about the order.
    remaining = [
        number
        for number, checkpoint in enumerate(path)
        if checkpoint.name not in strange and not (hashes[checkpoint.name] in seen or seen.add(hashes[checkpoint.name]))
    ]
    apart = measured.apart[remaining][:, remaining]
    contradicted = contradictions(apart)
    order = best_order(apart) if contradicted else []
    beside = far_out(apart) or _changed(apart, order)
    if beside:
        for number in beside:
            name = path[remaining[number]].name
            message = (
                f"{name} does not fit its step: its weights are farther from those before and after it than these are "
                "from each other"
            )
            faults.append(SeriesFault(name, "distance", message))
        contradicted = []
    if contradicted:
        message = " < ".join(path[remaining[number]].name for number in order)
        # Distances may contradict the order without telling a better one.
        moved = [number for to, number in enumerate(order) if to != number] or range(len(remaining))
        faults += [
            SeriesFault(
                name := path[remaining[number]].name,
                "order",
                f"{name} is swapped, misnamed or of another training: by the distances of the weights, the order is "
                f"{message}, or the reverse",
            )
            for number in sorted(moved)
        ]
    return steps, faults


def _config(folder: Path) -> dict[str, Any]:
    content = read_json(folder / "config.json")
    return {key: value for key, value in content.items() if key not in _TRANSIENT}


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


# Distances between the weights of several checkpoints, and the order they imply.

_SAMPLE = 1 << 20
"""Values of one tensor that are compared, evenly spread; a distance over millions of values needs no more."""
_UNRELATED = 0.02
"""Median correlation of matrices below which two checkpoints have nothing in common: other random starts give 0."""
_CLEAR = 0.03
"""Log ratio of two distances from which on one counts as larger: 3 %."""
_CLEAR_AT_THE_END = 0.15
"""The same for the last two checkpoints: where the learning rate ends at 0, the last one loses its noise and comes
nearer to all the others."""


_BESIDE = 1.15
"""Squared ways over the squared whole way from which on a checkpoint is off the path."""


_FAR = 1.2
"""How much farther from all others than these from each other a checkpoint is that was changed."""


class WeightDistances(NamedTuple):
    """Of every checkpoint to every other one."""

    apart: Float[np.ndarray, "one other"]
    """Euclidean distance of all matrices."""
    related: Float[np.ndarray, "one other"]
    """Median correlation of the matrices."""
    bar: float
    """Correlation below which two checkpoints are unrelated, above what chance gives for matrices of this size."""


class CheckpointWeights:
    """The tensors of a checkpoint, read one at a time; safetensors, sharded or not, or a pickle without code."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        from safetensors import safe_open

        self._folder = folder
        self._stored: dict[str, Any] = {}
        files = weights_files(folder)
        safe = [path for path in files if path.suffix == ".safetensors" and not path.name.startswith("adapter_")]
        try:
            for path in safe:
                opened = stack.enter_context(safe_open(path, framework="pt"))
                self._stored |= dict.fromkeys(opened.keys(), opened)
            for path in [] if safe else files:
                if path.suffix == ".bin":
                    self._stored |= torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except Exception as error:
            reason = str(error).strip().partition("\n")[0]
            raise ModelError(f"{folder}: its weights cannot be read ({reason})") from error
        if not self._stored:
            raise ModelError(f"{folder} holds no weights (*.safetensors or *.bin)")

    @property
    def names(self) -> list[str]:
        """Of all tensors, sorted."""
        return sorted(self._stored)

    def __getitem__(self, name: str) -> torch.Tensor:
        value = self._stored[name]
        return value if isinstance(value, torch.Tensor) else value.get_tensor(name)

    def hash(self) -> str:
        """Of names, shapes and values; the way they are spread over files does not matter."""
        digest = hashlib.sha256()
        for name in self.names:
            tensor = self[name].contiguous()
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            content: Any = tensor.reshape(-1).view(torch.uint8).numpy()
            digest.update(content)
        return digest.hexdigest()


def distances(checkpoints: Sequence[CheckpointWeights]) -> WeightDistances:
    """Of checkpoints that have the same tensors."""
    count = len(checkpoints)
    products = np.zeros((count, count))
    correlations, sizes = [], []
    for name in checkpoints[0].names:
        first = checkpoints[0][name]
        if first.dim() < 2 or not first.is_floating_point():
            # Norms and biases begin alike in every training, and buffers stay so.
            continue
        rows = np.stack([_sample(checkpoint[name]) for checkpoint in checkpoints])
        products += rows @ rows.T * (first.numel() / rows.shape[1])
        centred = rows - rows.mean(1, keepdims=True)
        lengths = np.linalg.norm(centred, axis=1)
        if (lengths > 0).all():
            correlations.append(centred @ centred.T / np.outer(lengths, lengths))
            sizes.append(rows.shape[1])
    if not correlations:
        raise ModelError("the checkpoints have no matrices to compare")
    squares = np.diag(products)
    apart = np.sqrt(np.maximum(squares[:, None] + squares[None] - 2 * products, 0))
    # Four standard errors of the median of independent correlations.
    chance = 4 * 1.25 * np.sqrt(np.sum(1 / np.array(sizes))) / len(sizes)
    return WeightDistances(apart, np.median(correlations, axis=0), max(_UNRELATED, float(chance)))


def _sample(tensor: torch.Tensor) -> np.ndarray:
    flat = tensor.reshape(-1)
    step = -(-flat.numel() // _SAMPLE)
    return flat[::step].double().numpy()


def strangers(measured: WeightDistances) -> list[int]:
    """Checkpoints that have nothing in common with any other one, while the others do: those of another training.

    Example:
        >>> related = np.array([[1.0, 0.6, 0.0], [0.6, 1.0, 0.0], [0.0, 0.0, 1.0]])
        >>> strangers(WeightDistances(1 - related, related, bar=0.02))
        [2]
    """
    near = measured.related >= measured.bar
    np.fill_diagonal(near, False)
    alone = [number for number in range(len(near)) if not near[number].any()]
    return alone if len(alone) < len(near) - 1 else []


def contradictions(apart: Float[np.ndarray, "one other"]) -> list[tuple[int, int]]:
    """Pairs, in the order given, that distances put the other way round.

    While a model is trained, it moves away from where it was: what lies before both is nearer to the earlier one, what
    lies after both nearer to the later one. A pair is reported if both sides clearly say the opposite; with the first
    or the last of a series, there is only one side.

    Example:
        >>> path = np.array([0.0, 1.0, 2.0, 3.0])
        >>> contradictions(np.sqrt(abs(path[:, None] - path[None])))
        []
        >>> swapped = path[[0, 2, 1, 3]]
        >>> contradictions(np.sqrt(abs(swapped[:, None] - swapped[None])))
        [(1, 2)]
    """
    count = len(apart)
    logs = np.log(np.maximum(apart, 1e-300))
    pairs = []
    for early, late in itertools.combinations(range(count), 2):
        before = [logs[other, early] - logs[other, late] for other in range(early)]
        after = [logs[late, other] - logs[early, other] for other in range(late + 1, count)]
        if not before and not after:
            continue
        bar = _CLEAR if after else _CLEAR_AT_THE_END
        if all(np.mean(side) > bar for side in (before, after) if side):
            pairs.append((early, late))
    return pairs


def beside_path(apart: Float[np.ndarray, "one other"]) -> list[int]:
    """Checkpoints between two others that are off the way from one to the other: changed, or of another training.

    On a path whose steps are independent, the squared ways to a checkpoint and on from it add up to the squared whole;
    where it goes straight on, to less. A checkpoint is reported where they add up to far more, whichever of the others
    before and after it are taken.

    Example:
        >>> path = np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 0.0], [3.0, 0.0]])
        >>> beside_path(np.linalg.norm(path[:, None] - path[None], axis=-1))
        [1]
    """
    reported = []
    for number in range(1, len(apart) - 1):
        ratios = [
            (apart[early, number] ** 2 + apart[number, late] ** 2) / max(apart[early, late] ** 2, 1e-300)
            for early in range(number)
            for late in range(number + 1, len(apart))
        ]
        if min(ratios) > _BESIDE:
            reported.append(number)
    return reported


def _changed(apart: Float[np.ndarray, "one other"], order: list[int]) -> list[int]:
    """Checkpoints off the path that no other order explains: a swapped checkpoint is off the path, too.

    Squared ways add up along a path. A checkpoint with noise is as much farther from all others, and that has to
    explain the distances far better than the other order does.
    """
    beside = beside_path(apart)
    if not beside or order == sorted(order):
        return beside
    if len(apart) < 4:
        return []
    misfits = {number: _misfit(apart, sorted(order), number) for number in beside}
    likely = min(misfits, key=lambda number: misfits[number])
    return [likely] if misfits[likely] < _BETTER * _misfit(apart, order) else []


_BETTER = 0.5
"""Misfit with a changed checkpoint, as a share of that of another order, below which the checkpoint is blamed."""


def _misfit(apart: Float[np.ndarray, "one other"], order: Sequence[int], changed: int | None = None) -> float:
    """How far squared distances are from sums of ways along an order, as a share; what was changed may be farther."""
    from scipy.optimize import nnls

    place = np.argsort(order)
    pairs = list(itertools.combinations(range(len(apart)), 2))
    ways = np.zeros((len(pairs), len(apart)))
    for row, (one, other) in enumerate(pairs):
        first, last = sorted((place[one], place[other]))
        ways[row, first:last] = 1
        ways[row, -1] = changed in (one, other)
    squares = np.maximum([apart[pair] ** 2 for pair in pairs], 1e-300)
    _, rest = nnls(ways / squares[:, None], np.ones(len(pairs)))
    return float(rest / np.sqrt(len(pairs)))


def far_out(apart: Float[np.ndarray, "one other"]) -> list[int]:
    """Checkpoints between two others that are farther from every other one than these are from each other.

    Example:
        >>> path = np.array([[0.0, 0.0], [1.0, 9.0], [2.0, 0.0], [3.0, 0.0]])
        >>> far_out(np.linalg.norm(path[:, None] - path[None], axis=-1))
        [1]
    """
    numbers = range(1, len(apart) - 1) if len(apart) > 3 else ()
    others = [np.delete(np.arange(len(apart)), number) for number in numbers]
    return [
        number
        for number, rest in zip(numbers, others, strict=True)
        if apart[number, rest].min() > _FAR * apart[np.ix_(rest, rest)].max()
    ]


def best_order(apart: Float[np.ndarray, "one other"]) -> list[int]:
    """The order with the shortest steps (squared, as independent steps add up), in the direction of the one given.

    Found by moving one checkpoint at a time, from the order given.

    Example:
        >>> path = np.array([0.0, 3.0, 1.0, 2.0])
        >>> best_order(np.sqrt(abs(path[:, None] - path[None])))
        [0, 2, 3, 1]
    """
    order = list(range(len(apart)))
    while True:
        better = min(_moved(order), key=lambda candidate: _length(apart, candidate), default=order)
        if _length(apart, better) >= _length(apart, order) * (1 - 1e-9):
            break
        order = better
    return min((order, order[::-1]), key=_displaced)


def _displaced(order: list[int]) -> tuple[int, int]:
    """How far an order is from the one given: pairs turned round, then places changed."""
    turned = sum(one > other for one, other in itertools.combinations(order, 2))
    return turned, sum(place != number for place, number in enumerate(order))


def _moved(order: list[int]) -> Iterator[list[int]]:
    for place in range(len(order)):
        rest = order[:place] + order[place + 1 :]
        for to in range(len(order)):
            if to != place:
                yield [*rest[:to], order[place], *rest[to:]]


def _length(apart: np.ndarray, order: Sequence[int]) -> float:
    return float(sum(apart[one, other] ** 2 for one, other in itertools.pairwise(order)))
