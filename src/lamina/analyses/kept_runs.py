"""Folders of runs that are kept, so that one that was stopped continues."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from lamina.activations import default_root
from lamina.files.writing import sweep, told

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
    for folder in run_folders(root):
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


def run_folders(root: str | os.PathLike[str] | None) -> list[Path]:
    """The folders of all kept runs."""
    return sorted(path for path in _under(root).glob("*") if path.is_dir())


def _under(root: str | os.PathLike[str] | None) -> Path:
    return Path(default_root() if root is None else root) / "probes"
