"""Public repositories that this machine already has: the folder that `LAMINA_ORIGINS` names.

    <LAMINA_ORIGINS>/OWNER/NAME    a clone (bare or not), a checkout, or an unpacked archive of github.com/OWNER/NAME
    <LAMINA_ORIGINS>/OWNER+NAME    the same, in one level

A clone is asked for the pinned commit, whatever is checked out. Whoever reads from here checks the hash.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from lamina.errors import AssetError
from lamina.files.reading import read_regular


def local_origins() -> Path | None:
    """The folder that `LAMINA_ORIGINS` names, or None; an error if it does not exist."""
    named = os.environ.get("LAMINA_ORIGINS")
    if not named:
        return None
    folder = Path(named).expanduser().absolute()
    if not folder.is_dir():
        raise AssetError(f"LAMINA_ORIGINS is {folder}, which is not a folder; correct it or unset it")
    return folder


def local_repository(repo: str) -> Path | None:
    """The folder of a repository `owner/name`, or None if this machine has none."""
    base = local_origins()
    if base is None:
        return None
    places = (base / repo, base / repo.replace("/", "+"))
    return next((place for place in places if place.is_dir()), None)


def read_checked_out(folder: Path, path: str) -> bytes | None:
    """A file as it lies in the folder; None if there is none."""
    target = folder / path
    return read_regular(target) if target.is_file() else None


def read_committed(folder: Path, name: str) -> bytes | None:
    """A file of a clone, by `commit:path` or by blob id; None if the folder is no clone or does not have it."""
    if not ((folder / ".git").exists() or (folder / "objects").is_dir()):
        return None
    # The folder may belong to somebody else, which git refuses by default; it is only read, and its hash is checked.
    command = ["git", "-c", f"safe.directory={folder.resolve()}", "-C", str(folder), "cat-file", "blob", name]
    # No promisor remote may be asked: a partial clone would fetch what it lacks.
    environment = {**os.environ, "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(command, capture_output=True, check=False, env=environment)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
