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
from threading import Lock
from typing import Any, NamedTuple, get_args

from lamina.errors import LaminaError, ResultError
from lamina.results.folder import HEAD, LARGEST_HEAD, read_head, table_file
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


_LONGEST_REASON = 1000
"""Characters of a reason."""
_MOST_FILES = 10_000
"""Tables and files of a result."""
_MOST_FOLDERS = 20_000
"""Folders that are searched below a named one."""
_LOADED_BYTES = 1 << 29
"""Bytes of tables of all results kept in memory together."""
_MOST_SETTINGS = 100
"""Settings in a sentence."""
MOST_HEAD_BYTES = 64 * 1024**2
"""Bytes of all heads together below a named folder; those of 10,000 results have about 50 MB."""
_LONGEST_SETTING = 60
"""Letters of a setting's value in a sentence."""


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
        return _LOADED.get(entry.folder, entry.saved)

    def newest(self, analysis: str, model: str | None = None) -> SavedResult | None:
        """The newest result of an analysis, optionally of one model by its name; a partial one if there is no other."""
        fitting = [entry for entry in self.entries() if entry.analysis == analysis and model in (None, entry.model)]
        return next(iter(whole_first(fitting)), None)

    def of_model(self, fingerprint: str) -> list[SavedResult]:
        """Results of exactly this model, matched by its weights, not its name: the newest first, partial ones last."""
        # Of a language model, the fingerprint is that of body and head together.
        about = ((entry, entry.head["provenance"]["model"]) for entry in self.entries())
        return whole_first(
            entry for entry, model in about if fingerprint in (model.get("fingerprint"), model.get("body"))
        )

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


# How much of its data a result saw. A trial on a few texts never stands in the place of the whole result.


def texts_seen(corpus: Mapping[str, Any]) -> int | None:
    """How many scored texts (or questions) the data of a result had; None where an older version did not count them.

    Example:
        >>> texts_seen({"texts": 2002}), texts_seen({"texts": {"train": 800, "scored": 100}}), texts_seen({})
        (2002, 100, None)
    """
    texts = corpus.get("texts")
    count = texts.get("scored") if isinstance(texts, Mapping) else texts
    return count if type(count) is int else None


def partial(entries: Iterable[SavedResult]) -> dict[str, SavedResult]:
    """Id of each partial result -> the comparable result that saw most.

    Comparable are results of one analysis on the same model and data, with whatever settings. Of those, a result is
    partial if another one saw more: texts, or (of older versions) targets, or texts without a limit.
    """
    alike: dict[tuple[Any, ...], list[SavedResult]] = {}
    for entry in entries:
        alike.setdefault(_comparable(entry), []).append(entry)
    smaller: dict[str, SavedResult] = {}
    for group in alike.values():
        for entry in group:
            larger = [other for other in group if _saw_less(entry.corpus, other.corpus)]
            if larger:
                smaller[entry.id] = max(larger, key=lambda other: (texts_seen(other.corpus) or 0, other.created))
    return smaller


def whole_first(entries: Iterable[SavedResult]) -> list[SavedResult]:
    """The same results in their order, those that are partial among them last."""
    listed = list(entries)
    smaller = partial(listed)
    return sorted(listed, key=lambda entry: entry.id in smaller)


def partial_in_words(entry: SavedResult, larger: SavedResult) -> str:
    """What a partial result saw, beside the one that saw more."""
    count, whole = texts_seen(entry.corpus), texts_seen(larger.corpus)
    limit, first = entry.corpus.get("limit"), entry.corpus.get("first")
    seen = f"{first:,}" if type(first) is int else f"{limit:,}" if type(limit) is int else "fewer"
    seen = f"{count:,}" if count is not None else seen
    return f"partial: {seen} of {'' if whole is None else f'{whole:,} '}texts; {larger.name} has more"


def sample_in_words(corpus: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    """What a result saw and how it was asked: texts, limit, and the settings that have a value.

    Example:
        >>> sample_in_words({"name": "ewt", "split": "dev", "texts": 100, "limit": 100}, {"samples": 500, "twin": None})
        '100 texts of ewt (dev), limit 100; samples 500'
    """
    count, limit = texts_seen(corpus), corpus.get("limit")
    name, split = corpus.get("name", ""), corpus.get("split")
    of_data = f"{name} ({split})" if split else f"{name}"
    seen = f"{count:,} text{'' if count == 1 else 's'} of {of_data}" if count is not None else of_data
    first = corpus.get("first")
    if type(first) is int:
        seen += f", the first {first:,}"
    else:
        seen += f", limit {limit:,}" if type(limit) is int else ", no limit" if count is not None else ""
    chosen = [
        f"{key[:_LONGEST_SETTING]} {_setting_in_words(value)}"
        for key, value in parameters.items()
        if _is_told(key, value)
    ]
    more = ["..."] if len(chosen) > _MOST_SETTINGS else []
    return "; ".join(filter(None, (seen, ", ".join([*chosen[:_MOST_SETTINGS], *more]))))


def _is_told(name: str, value: Any) -> bool:
    """Whether a setting says something: hashes of files and what was left at nothing do not."""
    return name != "contents" and value is not None and value != [] and value != {}


def _setting_in_words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    text = f"{value:,}" if type(value) is int else str(value)
    return text if len(text) <= _LONGEST_SETTING else f"{text[:_LONGEST_SETTING]}..."


def _comparable(entry: SavedResult) -> tuple[Any, ...]:
    """Equal for results of one analysis on the same model and data."""
    model, corpus = entry.head["provenance"]["model"], entry.corpus
    about = [corpus.get(name) for name in ("name", "split", "unit", "view")]
    return (
        entry.analysis,
        model.get("body") or model.get("fingerprint") or entry.model,
        json.dumps(about, default=str),
    )


def _saw_less(corpus: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    count, of_other = texts_seen(corpus), texts_seen(other)
    if count is not None and of_other is not None:
        return count < of_other
    targets, of_others = (_targets(about) for about in (corpus, other))
    shared = targets.keys() & of_others.keys()
    if shared:
        return all(targets[name] <= of_others[name] for name in shared) and targets != of_others
    limit, of_other = (about.get("limit", about.get("first")) for about in (corpus, other))
    return type(limit) is int and (type(of_other) is not int or limit < of_other)


def _targets(corpus: Mapping[str, Any]) -> dict[str, int]:
    scored = corpus.get("scored")
    return {name: n for name, n in scored.items() if type(n) is int} if isinstance(scored, Mapping) else {}


def _seeds(entry: SavedResult) -> list[PurePosixPath]:
    """The folders below a result that hold a model each."""
    return [PurePosixPath(file).parent for file in entry.head.get("files", ()) if file.endswith("/config.json")]


@contextmanager
def using(*entries: SavedResult) -> Iterator[None]:
    """While saved results are drawn or compared: whatever goes wrong is reported as an error of these results.

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
    room = MOST_HEAD_BYTES
    for searched, (folder, inner, files) in enumerate(os.walk(root, followlinks=False, onerror=unreadable.append)):
        if searched >= _MOST_FOLDERS:
            why = f"it has more than {_MOST_FOLDERS:,} folders, and the others were not searched"
            yield UnlistedFolder(_printable(label), why)
            break
        path = Path(folder)
        below = path.relative_to(root)
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for name in inner:
            if (path / name).is_symlink() and (path / name / HEAD).exists():
                yield UnlistedFolder(_printable(Path(label) / below / name), "it is a link, and links are not followed")
        if len(below.parts) >= DEPTH:
            inner.clear()
        if HEAD in files:
            room -= _head_bytes(path)
            name = Path(label) / below
            yield _read(path, name) if room >= 0 else UnlistedFolder(_printable(name), _TOO_MANY)
    for error in unreadable:
        if not isinstance(error, FileNotFoundError):
            place = Path(label) / os.path.relpath(os.fsdecode(error.filename), root)
            yield UnlistedFolder(_printable(place), f"it cannot be read: {error.strerror}")


_TOO_MANY = f"it and those before it have more than {MOST_HEAD_BYTES >> 20} MB of {HEAD}"


def _head_bytes(folder: Path) -> int:
    """Bytes of a head that is small enough to be read."""
    try:
        size = os.lstat(folder / HEAD).st_size
    except OSError:
        return 0
    return size if size <= LARGEST_HEAD else 0


def _read(folder: Path, name: Path) -> SavedResult | UnlistedFolder:
    try:
        printable = _readable(name)
        state = os.lstat(folder / HEAD)
        if not stat.S_ISREG(state.st_mode):
            raise ResultError(f"its {HEAD} is a link or no regular file")
        head = _head(folder, (state.st_ino, state.st_mtime_ns, state.st_size))
        if isinstance(head, str):
            return UnlistedFolder(printable, head)
        _check_links(folder, head)
    except LaminaError as error:
        return UnlistedFolder(_printable(name), _printable(error))
    except Exception as error:
        # Whatever is in a folder, the others are listed.
        return UnlistedFolder(_printable(name), _unreadable(error))
    id = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    return SavedResult(id, folder, printable, head, state.st_mtime_ns)


@lru_cache(maxsize=_HEADS)
def _head(folder: Path, _state: tuple[int, int, int]) -> dict[str, Any] | str:
    """The head of a result, or why it cannot be used: read once as long as its file is the same."""
    try:
        head = without_nan(read_head(folder))
        _check(head)
    except LaminaError as error:
        # Of a file that cannot be read now, another look may tell more.
        if isinstance(error.__cause__, OSError):
            raise
        return _printable(error)
    except OSError:
        raise
    except Exception as error:
        return _unreadable(error)
    return head


def _unreadable(error: Exception) -> str:
    return _printable(f"its {HEAD} cannot be read ({type(error).__name__}: {error})"[:_LONGEST_REASON])


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
    _expect(len(files) + len(tables or ()) <= _MOST_FILES, "files", f"at most {_MOST_FILES:,} names")
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


class _LoadedResults:
    """The results used last, as long as their folders hold the same, and as far as their tables fit the memory."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loading = Lock()
        """Held while one is loaded: two that ask for the same wait for it together."""
        self._results: dict[tuple[Path, int], tuple[Result, int]] = {}

    def get(self, folder: Path, saved: int) -> Result:
        """The result with its tables."""
        key = folder, saved
        if (known := self._known(key)) is not None:
            return known
        with self._loading:
            if (known := self._known(key)) is not None:
                return known
            result = Result.load(folder)
            size = sum(int(table.memory_usage(deep=True).sum()) for table in result.tables.values())
            with self._lock:
                self._results[key] = result, size
                while len(self._results) > 1 and self._too_many():
                    del self._results[next(iter(self._results))]
            return result

    def _known(self, key: tuple[Path, int]) -> Result | None:
        with self._lock:
            if key not in self._results:
                return None
            # The one used last comes last.
            self._results[key] = self._results.pop(key)
            return self._results[key][0]

    def _too_many(self) -> bool:
        return len(self._results) > _MOST_LOADED or sum(size for _, size in self._results.values()) > _LOADED_BYTES


_LOADED = _LoadedResults()


def usual_folders() -> tuple[Path, ...]:
    """The default result folders: ./results and ./report, if they exist."""
    usual = (Path("results"), Path("report"))
    return tuple(folder for folder in usual if folder.is_dir()) or usual[:1]
