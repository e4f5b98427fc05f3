"""The sha256 of files; a large one is hashed once, as long as it stays as it is."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from pathlib import Path

_LARGE = 1 << 20
"""Bytes from which remembering a hash is worth a line in the cache."""
_SETTLED = 2.0
"""Seconds a file must be old: one written this moment may be written again without its time changing."""


def file_sha256(path: Path) -> str:
    """The sha256 of a file, remembered by path, size and time of change.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "empty"
        >>> path.touch()
        >>> file_sha256(path)[:12]
        'e3b0c44298fc'
    """
    path = path.resolve()
    state = path.stat()
    settled = time.time() - state.st_mtime > _SETTLED
    if state.st_size < _LARGE or not settled:
        return _hash(path)
    key = f"{path}|{state.st_size}|{state.st_mtime_ns}"
    known = _remembered()
    if key not in known:
        # What is known of the same path in an earlier state will never be asked for again.
        known = {other: value for other, value in known.items() if not other.startswith(f"{path}|")}
        known[key] = _hash(path)
        with contextlib.suppress(OSError):
            _write_atomically(_memory(), json.dumps(known, indent=0))
    return known[key]


def contents_sha256(path: Path) -> str:
    """One sha256 for a file, or for all files that lie directly in a folder, with their names."""
    if path.is_file():
        return file_sha256(path)
    inside = [f"{each.name} {file_sha256(each)}" for each in sorted(path.iterdir()) if each.is_file()]
    return hashlib.sha256("\n".join(inside).encode()).hexdigest()


def _write_atomically(path: Path, content: str) -> None:
    """Write the whole file or leave what was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _memory() -> Path:
    from lamina.assets import cache_dir

    return cache_dir() / "hashes.json"


def _remembered() -> dict[str, str]:
    with contextlib.suppress(OSError, ValueError):
        known = json.loads(_memory().read_text(encoding="utf-8"))
        if isinstance(known, dict):
            return known
    return {}
