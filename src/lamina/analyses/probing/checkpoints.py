"""Probing runs that are kept, so that one that was stopped continues."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from filelock import FileLock, Timeout
from jaxtyping import Float

from lamina.activations import default_root
from lamina.errors import DamagedError
from lamina.files.checking import Problem, hash_file, load_tensors, matches, read_json, save_tensors
from lamina.files.writing import sweep, told
from lamina.probes.edge import Cut
from lamina.probes.targets import Counts, Targets
from lamina.progress import say
from lamina.tasks import Task

FORMAT = 3

Whose = Literal["model", "random", "control"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the probes of one group (one seed, one set of labels) learned, and how they did on the scored texts."""

    of: Whose
    """Probes on the model, on its random-weights twin, or on the model with control labels."""
    seed: int
    cuts: tuple[Cut, ...]
    """What each member may look at; cumulative ones first, by layer."""
    counts: Counts
    """By member and scored text."""
    stopping: np.ndarray
    """[member] F1 on the texts that decide when to stop: what any choice among members is made by."""
    weights: Float[np.ndarray, "mixing layer"]
    """Mixing weights of the cumulative members."""
    gamma: np.ndarray
    """[mixing] Their scale."""
    probabilities: Float[np.ndarray, "mixing target label"] | None
    """Of the model's cumulative members, for every scored target; None for twin and control."""


@dataclass(frozen=True, eq=False)
class TaskRun:
    """One task with all its probes."""

    task: Task
    targets: Targets
    """The scored ones."""
    outcomes: tuple[Outcome, ...]
    constant: Counts
    """The best constant answer on the scored texts, as one member."""
    seen: float
    """Share of scored targets whose words were seen in training: what the control can remember."""
    norms: np.ndarray
    """[layer] Mean length of the scored texts' state vectors."""


def keep_run(run: TaskRun, path: Path) -> None:
    """Write a run, with the hashes of the probes beside it."""
    arrays = {f"targets/{name}": getattr(run.targets, name) for name in _TARGET_ARRAYS}
    arrays |= {"norms": run.norms} | _counts_arrays("constant", run.constant)
    outcomes = []
    for number, outcome in enumerate(run.outcomes):
        outcomes.append({"of": outcome.of, "seed": outcome.seed, "cuts": outcome.cuts})
        arrays |= _counts_arrays(str(number), outcome.counts)
        arrays |= {f"{number}/{name}": getattr(outcome, name) for name in ("stopping", "weights", "gamma")}
        if outcome.probabilities is not None:
            arrays[f"{number}/probabilities"] = outcome.probabilities
    targets = {"labels": run.targets.labels, "texts": run.targets.texts, "unseen_labels": run.targets.unseen_labels}
    seeds = [outcome.seed for outcome in run.outcomes if outcome.of == "model"]
    probes = {each.name: hash_file(each) for each in (probes_path(path.parent, run.task.name, seed) for seed in seeds)}
    head = {"format": FORMAT, "seen": run.seen, "outcomes": outcomes, "targets": targets, "probes": probes}
    save_tensors(
        path,
        {name: torch.from_numpy(np.require(array, requirements=["C", "W"])) for name, array in arrays.items()},
        head,
    )


def kept_run(task: Task, path: Path) -> TaskRun | None:
    """The run of a task that was kept; none if there is none, it is damaged, or an older lamina wrote it."""
    try:
        tensors, head = load_tensors(path)
    except OSError:
        return None
    except DamagedError as error:
        say(f"{error}; {task.name} is probed again")
        return None
    if head.get("format") != FORMAT:
        return None
    if damaged := _damaged_probes(path, head):
        say(f"{damaged[0]} is damaged; {task.name} is probed again")
        return None
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    outcomes = tuple(
        Outcome(
            about["of"],
            about["seed"],
            tuple(Cut(*cut) for cut in about["cuts"]),
            _counts_from(str(number), arrays),
            arrays[f"{number}/stopping"],
            arrays[f"{number}/weights"],
            arrays[f"{number}/gamma"],
            arrays.get(f"{number}/probabilities"),
        )
        for number, about in enumerate(head["outcomes"])
    )
    parts = {name: arrays[f"targets/{name}"] for name in _TARGET_ARRAYS}
    about = head["targets"]
    unseen = tuple(about["unseen_labels"])
    targets = Targets(labels=tuple(about["labels"]), texts=about["texts"], unseen_labels=unseen, **parts)
    return TaskRun(task, targets, outcomes, _counts_from("constant", arrays), head["seen"], arrays["norms"])


def probes_path(folder: Path, task: str, seed: int) -> Path:
    """Where the trained probes of a task and seed are in the folder of a run."""
    return folder / f"{task}-{seed}.safetensors"


def _damaged_probes(path: Path, head: dict[str, Any]) -> list[Path]:
    return [
        path.with_name(name) for name, sha256 in head["probes"].items() if not matches(path.with_name(name), sha256)
    ]


_TARGET_ARRAYS = ("text", "tokens", "words", "gold", "rated", "scored", "unseen")
_COUNTS = ("right", "said", "gold")


def _counts_arrays(prefix: str, counts: Counts) -> dict[str, np.ndarray]:
    return {f"{prefix}/counts/{name}": getattr(counts, name) for name in _COUNTS}


def _counts_from(prefix: str, arrays: dict[str, np.ndarray]) -> Counts:
    return Counts(*(arrays[f"{prefix}/counts/{name}"] for name in _COUNTS))


_LOCK = "lock"


@contextmanager
def run_folder(key: str, root: str | os.PathLike[str] | None) -> Iterator[Path]:
    """The folder of a run, for one process at a time; a second one waits, and finds what the first one kept."""
    folder = _under(root) / key[:32]
    lock = FileLock(folder / _LOCK)
    with told(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        sweep(folder)
        yield folder
    finally:
        lock.release()
        if [path.name for path in folder.iterdir()] == [_LOCK]:
            # Nothing came of it, so nothing is left of it.
            shutil.rmtree(folder, ignore_errors=True)


def clean_runs(root: str | os.PathLike[str] | None, before: float | None) -> Iterator[tuple[Path, int, bool]]:
    """Make room among kept runs: (folder, bytes freed, whether all of it went); runs in progress are left alone.

    Half-written files go in any case, whole runs where nothing was written since `before` (seconds since 1970). A
    folder where nothing has to go need not be writable.
    """
    for folder in _run_folders(root):
        # Looked at before the lock is taken: taking it is not writing.
        files = [path for path in folder.iterdir() if path.name != _LOCK]
        newest = max((path.stat().st_mtime for path in files), default=0.0)
        old = not files or (before is not None and newest <= before)
        gone = files if old else [path for path in files if path.suffix == ".tmp"]
        if not old and not gone:
            continue
        try:
            with told(folder), FileLock(folder / _LOCK, timeout=0):
                freed = sum(path.stat().st_size for path in gone)
                for path in gone:
                    path.unlink()
                if old:
                    shutil.rmtree(folder)
        except Timeout:
            continue
        yield folder, freed, old


def problems(root: str | os.PathLike[str] | None = None) -> list[Problem]:
    """What is wrong with kept runs: damaged files (deleting one has it computed again) and half-written ones."""
    paths = [path for folder in _run_folders(root) for path in sorted(folder.iterdir())]
    # Once per file: probes are known by their own checksum and by the hash in their run.
    return list({problem.path: problem for path in paths for problem in _problems(path)}.values())


def _problems(path: Path) -> Iterator[Problem]:
    try:
        if path.suffix == ".tmp":
            yield Problem(path, f"{path} was left by a run that was stopped", leftover=True)
        elif path.suffix in (".partial", ".safetensors"):
            load_tensors(path)
        elif path.suffix == ".json":
            read_json(path)
        elif path.suffix == ".run":
            head = load_tensors(path)[1]
            # Of a format before hashes were kept, nothing is read.
            for probes in _damaged_probes(path, head) if head.get("format") == FORMAT else ():
                yield Problem(probes, f"{probes} is damaged (its hash does not match)")
    except (OSError, DamagedError) as error:
        yield Problem(path, str(error))


def _run_folders(root: str | os.PathLike[str] | None) -> list[Path]:
    return sorted(path for path in _under(root).glob("*") if path.is_dir())


def _under(root: str | os.PathLike[str] | None) -> Path:
    return Path(default_root() if root is None else root) / "probes"
