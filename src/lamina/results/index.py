"""The saved results: every result in the named folders, by an id that is not a path.

Result folders may come from anywhere, so nothing in them is trusted: one that does not fit is passed over, and named
with the reason.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, get_args

from lamina.errors import LaminaError, ResultError
from lamina.results.folder import HEAD, read_head, table_file
from lamina.results.result import Result, without_nan
from lamina.stats.status import Status

DEPTH = 3
"""Levels of folders searched below a named one: report/results/geometry has two."""
NAME = r"^[A-Za-z0-9_-]{1,100}$"
"""What names of tables and charts look like."""

_MOST_LOADED = 32
"""Results kept in memory."""
_HEADS = 4096
"""Heads of results kept in memory; one has a few kilobytes."""
_ANALYSIS = r"^[A-Za-z0-9_.-]{1,100}$"
_FILE_NAME = r"^(?!\.)[^/\\\x00-\x1f]{1,200}(/(?!\.)[^/\\\x00-\x1f]{1,200})?$"
"""Names of files: in the folder, or in one below it."""


class UnknownResultError(ResultError):
    """There is no result with this id."""


class SavedResult(NamedTuple):
    """One saved result, without its tables."""

    id: str
    """Stays the same as long as the folder is not moved."""
    folder: Path
    name: str
    """The folder, relative to the named one."""
    head: dict[str, Any]
    saved: int
    """Modification time of its `result.json`, in nanoseconds."""

    @property
    def analysis(self) -> str:
        return self.head["analysis"]

    @property
    def model(self) -> str:
        return self.head["provenance"]["model"].get("name", "")

    @property
    def corpus(self) -> Mapping[str, Any]:
        return self.head["provenance"].get("corpus", {})

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self.head["provenance"].get("parameters", {})

    @property
    def created(self) -> str:
        return self.head["provenance"].get("created", "")


class UnlistedFolder(NamedTuple):
    """A folder that is not listed, and why."""

    name: str
    why: str


class ResultIndex:
    """Searches the folders on every call, so that a job's result appears when it is done."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = _labelled(folders)

    def entries(self) -> list[SavedResult]:
        """All results, the newest first."""
        entries = {entry.id: entry for entry in self._scan() if isinstance(entry, SavedResult)}
        return sorted(entries.values(), key=lambda entry: entry.created, reverse=True)

    def passed_over(self) -> list[UnlistedFolder]:
        """What looks like a result and is not listed, with the reason."""
        return sorted({folder for folder in self._scan() if isinstance(folder, UnlistedFolder)})

    def entry(self, id: str) -> SavedResult:
        """The result with this id."""
        for entry in self.entries():
            if entry.id == id:
                return entry
        raise UnknownResultError(f"there is no result {id!r} here; `lamina results ls` and the tab Runs list them")

    def result(self, id: str) -> Result:
        """The result with its tables."""
        entry = self.entry(id)
        return _load(entry.folder, entry.saved)

    def newest(self, analysis: str, model: str | None = None) -> SavedResult | None:
        """The newest result of an analysis, optionally of one model, by its name in the provenance."""
        for entry in self.entries():
            if entry.analysis == analysis and model in (None, entry.model):
                return entry
        return None

    def of_model(self, fingerprint: str) -> list[SavedResult]:
        """Results of exactly this model, the newest first; matched by its weights, not its name."""
        # Of a language model, the fingerprint is that of body and head together.
        about = ((entry, entry.head["provenance"]["model"]) for entry in self.entries())
        return [entry for entry, model in about if fingerprint in (model.get("fingerprint"), model.get("body"))]

    def models(self) -> dict[str, str]:
        """Fine-tuned models among the results, each seed by itself: name -> folder, which can be loaded as a model."""
        folders = {}
        for entry in self.entries():
            for inner in (PurePosixPath(), *_seeds(entry)):
                if _is_plain_file(entry.folder / inner / "config.json"):
                    folders[(PurePosixPath(entry.name) / inner).as_posix()] = str(entry.folder / inner)
        return folders

    def seeds(self) -> dict[str, str]:
        """Fine-tunings with several seeds: name -> folder, which analyses of several models take as one."""
        every = (entry for entry in self.entries() if len(_seeds(entry)) > 1)
        return {entry.name: str(entry.folder) for entry in every if not (entry.folder / "config.json").exists()}

    def _scan(self) -> Iterator[SavedResult | UnlistedFolder]:
        for label, root in self._folders.items():
            yield from _search(root, label)


def _seeds(entry: SavedResult) -> list[PurePosixPath]:
    """The folders below a result that hold a model each."""
    return [PurePosixPath(file).parent for file in entry.head.get("files", ()) if file.endswith("/config.json")]


@contextmanager
def using(*entries: SavedResult) -> Iterator[None]:
    """While saved results are drawn or compared: whatever goes wrong is told as an error of these results.

    Their tables may hold anything, and what reads them expects what the analysis writes.
    """
    try:
        yield
    except LaminaError:
        raise
    except Exception as error:
        named = " and ".join(f"{entry.name} ({entry.analysis})" for entry in entries)
        raise ResultError(
            f"{named}: a table or chart does not hold what its analysis writes ({type(error).__name__}: {error}); "
            "make the result again"
        ) from error


def _labelled(folders: Iterable[Path]) -> dict[str, Path]:
    """What a folder is called in names of results -> the folder: its last part, or all of it if two have the same."""
    roots = dict.fromkeys(Path(os.path.realpath(folder)) for folder in folders)
    named = Counter(root.name for root in roots)
    return {root.name if named[root.name] == 1 else str(root).strip("/"): root for root in roots}


def _search(root: Path, label: str) -> Iterator[SavedResult | UnlistedFolder]:
    unreadable: list[OSError] = []
    for folder, inner, files in os.walk(root, followlinks=False, onerror=unreadable.append):
        path = Path(folder)
        below = path.relative_to(root)
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for name in inner:
            if (path / name).is_symlink() and (path / name / HEAD).exists():
                yield UnlistedFolder(_printable(Path(label) / below / name), "it is a link, and links are not followed")
        if len(below.parts) >= DEPTH:
            inner.clear()
        if HEAD in files:
            yield _read(path, Path(label) / below)
    for error in unreadable:
        if not isinstance(error, FileNotFoundError):
            place = Path(label) / os.path.relpath(os.fsdecode(error.filename), root)
            yield UnlistedFolder(_printable(place), f"it cannot be read: {error.strerror}")


def _read(folder: Path, name: Path) -> SavedResult | UnlistedFolder:
    try:
        printable = _readable(name)
        state = os.lstat(folder / HEAD)
        if not stat.S_ISREG(state.st_mode):
            raise ResultError(f"its {HEAD} is a link or no regular file")
        head = _head(folder, (state.st_ino, state.st_mtime_ns, state.st_size))
        _check_links(folder, head)
    except LaminaError as error:
        return UnlistedFolder(_printable(name), _printable(error))
    except Exception as error:
        # Whatever is in a folder, the others are listed.
        return UnlistedFolder(
            _printable(name), _printable(f"its {HEAD} cannot be read ({type(error).__name__}: {error})")
        )
    id = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    return SavedResult(id, folder, printable, head, state.st_mtime_ns)


@lru_cache(maxsize=_HEADS)
def _head(folder: Path, _state: tuple[int, int, int]) -> dict[str, Any]:
    """The head of a result, read once as long as its file is the same."""
    head = without_nan(read_head(folder))
    _check(head)
    return head


def _readable(name: Path) -> str:
    if not name.as_posix().isprintable():
        raise ResultError("the name of its folder has characters that cannot be shown; rename it")
    return name.as_posix()


def _printable(text: object) -> str:
    """The text without control characters and bytes that are not text, which a terminal or a page would trip over."""
    return "".join(character if character.isprintable() else "?" for character in str(text))


def _check(head: Mapping[str, Any]) -> None:
    """Refuse a head that does not have the shape that `Result.save` gives it."""
    try:
        json.dumps(head, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        raise ResultError(f"its {HEAD} is nested too deeply, or has unpaired surrogates") from None
    _expect(_name(head.get("analysis"), _ANALYSIS), "analysis", "the name of an analysis")
    _expect(_texts(head, "key", "question") and type(head.get("version", 0)) is int, "key, question, version", "text")
    provenance = head.get("provenance")
    if not isinstance(provenance, dict):
        raise _unfit("provenance", "a table")
    for part in ("model", "corpus"):
        about = provenance.get(part, None if part == "model" else {})
        names = isinstance(about, dict) and _texts(about, "name", "fingerprint", "split")
        _expect(names, f"provenance.{part}", "a table with a name and a fingerprint")
    _expect(_texts(provenance, "created"), "provenance.created", "a date and time")
    _expect(isinstance(provenance.get("command", ""), str), "provenance.command", "text")
    for part in ("parameters", "skipped", "versions"):
        _expect(isinstance(provenance.get(part, {}), dict), f"provenance.{part}", "a table")
    tables = head.get("tables")
    columns = isinstance(tables, dict) and all(_name(name, NAME) and _is_texts(tables[name]) for name in tables)
    _expect(columns, "tables", "plain names with their columns")
    files = head.get("files", [])
    names = isinstance(files, list | dict) and all(_name(name, _FILE_NAME) for name in files)
    _expect(names, "files", "plain names of files in the folder")
    findings = head.get("findings", [])
    _expect(isinstance(findings, list) and all(map(_is_finding, findings)), "findings", "sentences with a status")


def _expect(fits: bool, what: str, expected: str) -> None:
    if not fits:
        raise _unfit(what, expected)


def _unfit(what: str, expected: str) -> ResultError:
    return ResultError(f"its {HEAD} does not fit: {what} should be {expected}")


def _name(value: Any, pattern: str) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _texts(table: Mapping[str, Any], *names: str) -> bool:
    return all(isinstance(value, str) and value.isprintable() for value in (table.get(name, "") for name in names))


def _is_texts(table: Any) -> bool:
    return isinstance(table, dict) and all(isinstance(value, str) for value in table.values())


def _is_finding(finding: Any) -> bool:
    return (
        isinstance(finding, dict) and isinstance(finding.get("text"), str) and finding.get("status") in get_args(Status)
    )


def _check_links(folder: Path, head: Mapping[str, Any]) -> None:
    tables = (table_file(table, head) for table in head["tables"])
    named = [Path(name) for name in (*tables, *head.get("files", ()))]
    for name in (*named, *(name.parent for name in named if name.parts[1:])):
        if (folder / name).is_symlink():
            raise ResultError(f"its {name} is a link, and links are not followed")


def _is_plain_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


@lru_cache(maxsize=_MOST_LOADED)
def _load(folder: Path, _saved: int) -> Result:
    """Cached as long as the folder holds the same result."""
    return Result.load(folder)


def usual_folders() -> tuple[Path, ...]:
    """The default result folders: ./results and ./report, if they exist."""
    usual = (Path("results"), Path("report"))
    return tuple(folder for folder in usual if folder.is_dir()) or usual[:1]
