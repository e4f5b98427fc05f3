"""Hash each file once, parse each corpus once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from lamina.corpora.corpus import fingerprint_of
from lamina.types import Edge, Span, Text

_LARGE = 1 << 20
"""Smallest file size, in bytes, for which hashes are cached."""
_SETTLED = 2.0
"""Minimum age of a file in seconds: one written just now may change again without a new modification time."""


def file_sha256(path: Path) -> str:
    """The sha256 of a file, cached by path, size and modification time.

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
        # Hashes of earlier states of this path are never needed again.
        known = {other: value for other, value in known.items() if not other.startswith(f"{path}|")}
        known[key] = _hash(path)
        with contextlib.suppress(OSError):
            _write_atomically(_memory(), json.dumps(known, indent=0))
    return known[key]


def contents_sha256(path: Path) -> str:
    """One sha256 for a file, or for all files directly in a folder, names included."""
    if path.is_file():
        return file_sha256(path)
    inside = [f"{each.name} {file_sha256(each)}" for each in sorted(path.iterdir()) if each.is_file()]
    return hashlib.sha256("\n".join(inside).encode()).hexdigest()


def _write_atomically(path: Path, content: str) -> None:
    """Write the whole file, or keep the old one."""
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


_VERSION = 1
"""Version of the line format; raised when it changes, so that older caches are not read."""


def to_line(text: Text) -> str:
    """The text as one line, which `from_line` reads back.

    Example:
        >>> text = Text("s1", ("Dogs", "bark"), edges={"pos": (Edge(("NOUN",), Span(0, 1)),)}, doc="d")
        >>> to_line(text)
        '["s1",["Dogs","bark"],[2],"d",{"pos":[[["NOUN"],0,1]]}]'
        >>> from_line(to_line(text)) == text
        True
    """
    ends = [segment.end for segment in text.segments]
    edges = {name: [_edge_to_list(edge) for edge in found] for name, found in text.edges.items()}
    return json.dumps([text.id, text.words, ends, text.doc, edges], separators=(",", ":"))


def from_line(line: str) -> Text:
    """The text that `to_line` wrote."""
    name, words, ends, doc, edges = json.loads(line)
    segments = tuple(Span(start, end) for start, end in zip([0, *ends], ends, strict=False))
    found = {key: tuple(_edge_from_list(*edge) for edge in listed) for key, listed in edges.items()}
    return Text(name, tuple(words), segments, found, doc)


def _edge_to_list(edge: Edge) -> list[Any]:
    other = [] if edge.other is None else [edge.other.start, edge.other.end]
    if edge.rated is None and edge.value is None:
        return [edge.labels, edge.span.start, edge.span.end, *other]
    return [edge.labels, edge.span.start, edge.span.end, *(other or [None, None]), edge.rated, edge.value]


def _edge_from_list(
    labels: list[str],
    start: int,
    end: int,
    other_start: int | None = None,
    other_end: int | None = None,
    rated: list[str] | None = None,
    value: float | None = None,
) -> Edge:
    other = None if other_start is None or other_end is None else Span(other_start, other_end)
    return Edge(tuple(labels), Span(start, end), other, None if rated is None else tuple(rated), value)


def parsed_once(key: Sequence[str], read: Callable[[], Iterator[Text]]) -> Iterator[Text]:
    """The texts that `read` yields: parsed the first time, read from the cache afterwards.

    `key` holds the files' hashes and the reader's version. The cache is written while the texts are read, and kept
    only if all of them were. Deleting it is always safe; if it cannot be written, reading works without it.
    """
    from lamina.assets import cache_dir

    cached = cache_dir() / "parsed" / f"{fingerprint_of(_VERSION, *key)}.jsonl"
    if cached.is_file():
        with cached.open(encoding="ascii") as lines:
            yield from map(from_line, lines)
        return
    draft = _Draft(cached)
    try:
        for text in read():
            draft.add(text)
            yield text
        draft.keep()
    finally:
        draft.drop()


class _Draft:
    """A cache file being written. If writing fails it gives up, and reading continues."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._file: IO[str] | None = None
        with suppress(OSError):
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
            self._path = Path(name)
            self._file = os.fdopen(handle, "w", encoding="ascii")

    def add(self, text: Text) -> None:
        if self._file is not None:
            try:
                self._file.write(to_line(text) + "\n")
            except OSError:
                self.drop()

    def keep(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
                self._path.replace(self._target)

    def drop(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._path.unlink(missing_ok=True)
            self._file = None
