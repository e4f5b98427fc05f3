"""Checkpoints of a training: sealed with the hashes of their files, so that only a sound one is continued from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lamina.errors import DamagedError
from lamina.files.checking import hash_file, matches, read_json, write_json
from lamina.files.writing import sync_tree

_SEAL = "sealed.json"
_STATE = "trainer_state.json"


def checkpoint_folder(folder: Path, step: int) -> Path:
    """Where transformers' Trainer saves a step."""
    return folder / f"checkpoint-{step}"


def seal(checkpoint: Path) -> None:
    """Have a checkpoint on the disk, and keep the hashes of its files with it."""
    sync_tree(checkpoint)
    write_json(checkpoint / _SEAL, {"files": hashes(checkpoint)})


def hashes(folder: Path) -> dict[str, str]:
    """The sha256 of every file in a folder, by name."""
    return {path.name: hash_file(path) for path in sorted(folder.iterdir()) if path.is_file() and path.name != _SEAL}


def weight_hashes(folder: Path) -> dict[str, str]:
    """The sha256 of a model's weights, by file."""
    return {name: sha256 for name, sha256 in hashes(folder).items() if name.endswith(".safetensors")}


def are_sound(folder: Path, files: Mapping[str, str]) -> bool:
    """Whether these files are in a folder and have these hashes."""
    return all(matches(folder / name, sha256) for name, sha256 in files.items())


def is_sound(checkpoint: Path) -> bool:
    """Whether a checkpoint was sealed and is as it was then."""
    try:
        return are_sound(checkpoint, read_json(checkpoint / _SEAL)["files"])
    except (OSError, LookupError, DamagedError):
        return False


def last_checkpoint(folder: Path) -> Path | None:
    """The latest checkpoint to continue from: it is sound, and so is the one with the best weights up to then."""
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    return next((path for path in found if is_sound(path) and _has_best(path)), None)


def _has_best(checkpoint: Path) -> bool:
    state = read_json(checkpoint / _STATE)
    step, named = state["best_global_step"], state["best_model_checkpoint"]
    if not step:
        return True
    best = checkpoint_folder(checkpoint.parent, step)
    # Without the folder it names, the Trainer would go on without the best weights.
    return named is not None and Path(named).resolve() == best.resolve() and is_sound(best)
