"""The models of one fine-tuning with several seeds: `OUT/seed-0`, `OUT/seed-1`, ..., each a model folder of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lamina.errors import ModelError
from lamina.training.provenance import ABOUT, read_about

_NAME = re.compile(r"seed-(\d+)")
_SHARED = {
    "task": "task",
    "head": "head",
    "labels": "labels",
    "layers": "number of layers",
    "view": "view of the data",
    "base": "model they started from",
}
"""What the seeds of one fine-tuning have in common: key in `lamina.json` -> its name in a sentence."""


def seed_folder(seed: int) -> str:
    """The name of the folder that holds the model of one seed.

    Example:
        >>> seed_folder(3)
        'seed-3'
    """
    return f"seed-{seed}"


def seed_of(folder: str | os.PathLike[str]) -> int | None:
    """The seed whose model a folder of that name holds; None for any other name.

    Example:
        >>> seed_of("runs/squad/seed-3"), seed_of("runs/squad")
        (3, None)
    """
    named = _NAME.fullmatch(Path(folder).name)
    return None if named is None else int(named[1])


def seed_folders(path: str | os.PathLike[str]) -> tuple[Path, ...]:
    """The model folders that `lamina finetune --seeds` made below `path`, in the order of seeds; none elsewhere.

    Example:
        >>> seed_folders("some-hub/model")
        ()
    """
    root = Path(path)
    if not root.is_dir():
        return ()
    found = {
        int(named[1]): each
        for each in root.iterdir()
        if (named := _NAME.fullmatch(each.name)) and (each / ABOUT).is_file()
    }
    return tuple(each for _, each in sorted(found.items()))


def refuse_unlike(folders: Sequence[Path]) -> None:
    """Raise a ModelError where models differ in what the seeds of one fine-tuning have in common."""
    if len(folders) < 2:
        return
    first, *others = folders
    expected = _shared(first)
    for folder in others:
        unlike = [said for key, said in _SHARED.items() if _shared(folder)[key] != expected[key]]
        if unlike:
            raise ModelError(
                f"{first} and {folder} differ in their {unlike[0]}, so they are not seeds of one fine-tuning; name one "
                "of them, or make them together with `lamina finetune --seeds`"
            )


def _shared(folder: Path) -> dict[str, Any]:
    about = read_about(folder)
    shared = {key: about.get(key) for key in _SHARED}
    base = shared["base"]
    # The same weights may have been named in two ways.
    return shared | {"base": base.get("fingerprint") if isinstance(base, dict) else base}
