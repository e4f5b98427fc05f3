"""The saved results: every result in the named folders, by an id that is no path."""

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
"""Folders below a named one that are looked into: report/results/geometry has two."""

_HELD = 32
"""Results kept in memory."""


class UnknownResultError(ResultError):
    """No result of this id."""


class Entry(NamedTuple):
    """One saved result, without its tables."""

    id: str
    """Stays the same as long as the folder stays where it is."""
    folder: Path
    name: str
    """The folder, as seen from the one that was named."""
    head: dict[str, Any]

    @property
    def analysis(self) -> str:
        return str(self.head["analysis"])

    @property
    def model(self) -> str:
        return str(self.head["provenance"]["model"].get("name", ""))


class Shelf:
    """Finds results anew on every look, so that a job's result appears when it is done."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = tuple(folder.resolve() for folder in folders)

    def entries(self) -> list[Entry]:
        """All results, the newest first."""
        found = {entry.id: entry for root in self._folders for entry in _entries(root)}
        return sorted(found.values(), key=lambda entry: entry.head["provenance"].get("created", ""), reverse=True)

    def entry(self, id: str) -> Entry:
        """The result of this id."""
        for entry in self.entries():
            if entry.id == id:
                return entry
        raise UnknownResultError(f"there is no result {id!r} here; the page Results lists them")

    def result(self, id: str) -> Result:
        """The result with its tables."""
        entry = self.entry(id)
        return _load((entry.folder, str(entry.head.get("key"))))

    def newest(self, analysis: str, model: str | None = None) -> Entry | None:
        """The newest result of an analysis, of one model by the name its provenance has."""
        for entry in self.entries():
            if entry.analysis == analysis and model in (None, entry.model):
                return entry
        return None

    def of_model(self, fingerprint: str) -> list[Entry]:
        """Results of this very model, the newest first: its weights, not its name, say whose a result is."""
        return [each for each in self.entries() if each.head["provenance"]["model"].get("fingerprint") == fingerprint]

    def models(self) -> dict[str, str]:
        """Fine-tuned models among the results: name -> the folder, which loads as a model."""
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
    """What `result.json` says; None for a folder of another kind or version, which is passed over."""
    try:
        head = read_head(folder)
    except ResultError:
        return None
    provenance = head.get("provenance")
    whole = isinstance(provenance, dict) and isinstance(provenance.get("model"), dict) and "analysis" in head
    return head if whole else None


@lru_cache(maxsize=_HELD)
def _load(folder_and_key: tuple[Path, str]) -> Result:
    """Read once as long as the folder answers the same question."""
    return Result.load(folder_and_key[0])
