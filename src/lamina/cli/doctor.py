"""`lamina doctor`: this installation, this machine, what is missing for what, and how good estimates were."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("lamina", "torch", "transformers", "numpy", "pandas", "altair")
_PURPOSES = {
    "app": "lamina serve",
    "vectors": "skip-gram vectors of contextualize and senses",
    "gguf": "models packed as GGUF, smollm2 among them",
    "elmo": "ELMo models",
    "peft": "models with adapters",
    "datasets": "corpora named hf:OWNER/NAME",
    "ray": "--engine ray",
}
"""Extra -> what needs it."""


def doctor() -> None:
    """Check this installation: versions, device, caches, what is missing for what, and how good estimates were.

    Nothing is downloaded or changed.

    Example: `lamina doctor`
    """
    for title, lines in (
        ("Versions", _versions()),
        ("Machine", _machine()),
        ("Folders", _folders()),
        ("Missing", _missing()),
        ("Estimates", _estimates()),
    ):
        print(title, flush=True)
        for line in lines:
            print(f"  {line}", flush=True)


def _versions() -> Iterator[str]:
    yield f"{'python':<13} {platform.python_version()}"
    for package in _PACKAGES:
        yield f"{package:<13} {_version(package)}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _machine() -> Iterator[str]:
    from lamina.framework.estimate import machine_name, other_load

    yield f"{'processor':<13} {machine_name()}, {other_load():.1f} busy on average over the last minute"
    import psutil

    memory = psutil.virtual_memory()
    yield f"{'memory':<13} {memory.total / 2**30:.0f} GiB, {memory.available / 2**30:.0f} GiB free"
    import torch

    cards = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    yield f"{'GPU':<13} {', '.join(cards) or 'none: models run on the CPU'}"


def _folders() -> Iterator[str]:
    from lamina.activations import default_root
    from lamina.files.checking import cache_dir

    data = os.environ.get("LAMINA_DATA")
    for name, folder in (("cache", cache_dir()), ("store", default_root()), ("LAMINA_DATA", Path(data or ""))):
        yield f"{name:<13} {_state(folder) if name != 'LAMINA_DATA' or data else 'not set'}"


def _state(folder: Path) -> str:
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = f"{shutil.disk_usage(there).free / 1e9:,.0f} GB free"
    if not folder.exists():
        return f"{folder} (not there yet; {free})"
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    unwritable = "" if os.access(folder, os.W_OK) else "; cannot be written to"
    return f"{folder} ({size / 1e9:,.1f} GB, {free}{unwritable})"


def _missing() -> Iterator[str]:
    from lamina import assets
    from lamina.extras import EXTRAS, installed

    complete = True
    for extra, packages in EXTRAS.items():
        lacking = [package for package in packages if not installed(package)]
        if lacking:
            complete = False
            yield f"{', '.join(lacking)}: for {_PURPOSES[extra]}; pip install 'lamina[{extra}]'"
    for card in assets.cards().values():
        if assets.local_folder(card.name) is None and not assets.is_cached(card.name):
            complete = False
            yield f"{card.name} ({card.kind}): is fetched when it is first needed, or by lamina assets get {card.name}"
    if complete:
        yield "nothing"


def _estimates() -> Iterator[str]:
    from lamina.framework.estimate import profiles

    known = list(profiles())
    if not known:
        yield "nothing was measured yet: the first run of every analysis is"
    for profile in known:
        yield f"{profile.model}, {profile.device}, {profile.dtype}"
        for name, rate in sorted(profile.rates.items()):
            foreseen = f"foreseen {rate.foreseen:,.1f} s of CPU time, took {rate.took:,.1f}"
            runs = "1 run" if rate.runs == 1 else f"{rate.runs} runs"
            yield f"  {name:<18} {foreseen} (factor {rate.off:.1f}; {runs}, the rate is of {rate.measured})"
