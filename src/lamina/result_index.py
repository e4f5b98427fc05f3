"""The saved results: every result in the named folders, by an id that is not a path."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from lamina.errors import ResultError
from lamina.results import Result, read_head

DEPTH = 3
"""Levels of folders searched below a named one: report/results/geometry has two."""

_HELD = 32
"""Results kept in memory."""


class UnknownResultError(ResultError):
    """There is no result with this id."""


class Entry(NamedTuple):
    """One saved result, without its tables."""

    id: str
    """Stays the same as long as the folder is not moved."""
    folder: Path
    name: str
    """The folder, relative to the named one."""
    head: dict[str, Any]

    @property
    def analysis(self) -> str:
        return str(self.head["analysis"])

    @property
    def model(self) -> str:
        return str(self.head["provenance"]["model"].get("name", ""))


class ResultIndex:
    """Searches the folders on every call, so that a job's result appears when it is done."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = tuple(folder.resolve() for folder in folders)

    def entries(self) -> list[Entry]:
        """All results, the newest first."""
        found = {entry.id: entry for root in self._folders for entry in _entries(root)}
        return sorted(found.values(), key=lambda entry: entry.head["provenance"].get("created", ""), reverse=True)

    def entry(self, id: str) -> Entry:
        """The result with this id."""
        for entry in self.entries():
            if entry.id == id:
                return entry
        raise UnknownResultError(f"there is no result {id!r} here; the page Results lists them")

    def result(self, id: str) -> Result:
        """The result with its tables."""
        entry = self.entry(id)
        return _load((entry.folder, str(entry.head.get("key"))))

    def newest(self, analysis: str, model: str | None = None) -> Entry | None:
        """The newest result of an analysis, optionally of one model, by its name in the provenance."""
        for entry in self.entries():
            if entry.analysis == analysis and model in (None, entry.model):
                return entry
        return None

    def of_model(self, fingerprint: str) -> list[Entry]:
        """Results of exactly this model, the newest first; matched by its weights, not its name."""
        return [each for each in self.entries() if each.head["provenance"]["model"].get("fingerprint") == fingerprint]

    def models(self) -> dict[str, str]:
        """Fine-tuned models among the results: name -> folder, which can be loaded as a model."""
        return {entry.name: str(entry.folder) for entry in self.entries() if (entry.folder / "config.json").is_file()}


def _entries(root: Path) -> Iterator[Entry]:
    for folder, inner, files in os.walk(root, followlinks=False):
        path = Path(folder)
        below = path.relative_to(root)
        if len(below.parts) >= DEPTH:
            inner.clear()
        inner[:] = [name for name in inner if not name.startswith(".")]
        if "result.json" in files and not (path / "result.json").is_symlink():
            head = _head(path)
            if head is not None:
                id = hashlib.sha256(str(path).encode()).hexdigest()[:12]
                yield Entry(id, path, (Path(root.name) / below).as_posix(), head)


def _head(folder: Path) -> dict[str, Any] | None:
    """The content of `result.json`; None for a folder of another kind or version, which is skipped."""
    try:
        head = read_head(folder)
    except ResultError:
        return None
    provenance = head.get("provenance")
    whole = isinstance(provenance, dict) and isinstance(provenance.get("model"), dict) and "analysis" in head
    return head if whole else None


@lru_cache(maxsize=_HELD)
def _load(folder_and_key: tuple[Path, str]) -> Result:
    """Cached as long as the folder holds the same result."""
    return Result.load(folder_and_key[0])


def usual_folders() -> tuple[Path, ...]:
    """The default result folders: ./results and ./report, if they exist."""
    usual = (Path("results"), Path("report"))
    return tuple(folder for folder in usual if folder.is_dir()) or usual[:1]
