"""Parse each corpus once."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import xxhash

from lamina.corpora.corpus import fingerprint_of
from lamina.errors import DamagedError, InputError
from lamina.files.checking import cache_dir, sha256_of
from lamina.files.reading import open_regular
from lamina.files.writing import hidden_name, sweep, sync, sync_folder
from lamina.progress import say
from lamina.types import Edge, Span, Text


def contents_sha256(path: Path) -> str:
    """One sha256 for a file, or for all files directly in a folder, names included."""
    if path.is_file():
        return sha256_of(path)
    inside = [f"{file.name} {sha256_of(file)}" for file in sorted(path.iterdir()) if file.is_file()]
    return hashlib.sha256("\n".join(inside).encode()).hexdigest()


_VERSION = 3
"""Version of the cache's format; raised when it changes, so that older caches are not read."""
_NAME = f"v{_VERSION}-{{}}.jsonl"
"""Name of a cache: its version distinguishes older caches from damaged ones."""
_SEAL = "texts {count:012d} xxh3 {digest}\n"
"""The last line of a cache: how many lines come before it, and their hash."""
_SEALED = re.compile(rb"texts (\d{12}) xxh3 ([0-9a-f]{32})\n")
_SEAL_SIZE = len(_SEAL.format(count=0, digest="0" * 32))
_PIECE = 1 << 20
_SOUND: set[tuple[str, int, int, int]] = set()
"""Caches compared with their seal in this process: path, inode, size, modification time."""


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
    edges = {name: [_edge_to_list(edge) for edge in targets] for name, targets in text.edges.items()}
    more: list[Any] = [text.origin, text.glued] if text.glued else [text.origin] if text.origin is not None else []
    return json.dumps([text.id, text.words, ends, text.doc, edges, *more], separators=(",", ":"))


def from_line(line: str) -> Text:
    """The text that `to_line` wrote."""
    name, words, ends, doc, edges, *more = json.loads(line)
    origin = more[0] if more else None
    glued = tuple(more[1]) if len(more) > 1 else ()
    segments = tuple(Span(start, end) for start, end in zip([0, *ends], ends, strict=False))
    annotations = {key: tuple(_edge_from_list(*edge) for edge in listed) for key, listed in edges.items()}
    return Text(name, tuple(words), segments, annotations, doc, origin, glued)


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
    only if all of them were. It is compared with its hash before the first text is given; a damaged one is parsed
    again. Deleting it is always safe; if it cannot be written, reading works without it.
    """
    cache = _folder() / _NAME.format(fingerprint_of(*key))
    file = _open_sound(cache)
    if file is None:
        yield from _parsed_and_kept(cache, read)
        return
    with file:
        for line in islice(file, _seal_of(cache, file).texts):
            yield from_line(line.decode("ascii"))


def damaged_caches() -> list[Path]:
    """Caches of parsed corpora that do not match their hash, all hashed now."""
    damaged = []
    for cache in caches():
        try:
            with open_regular(cache) as file:
                _check(cache, file)
        except (DamagedError, InputError, OSError):
            damaged.append(cache)
    return damaged


def caches() -> list[Path]:
    """All caches of parsed corpora, without those of older versions."""
    return sorted(_folder().glob(_NAME.format("*")))


def _folder() -> Path:
    return cache_dir() / "parsed"


def _open_sound(cache: Path) -> IO[bytes] | None:
    """A cache that matches its hash, opened; None if there is none."""
    try:
        file = open_regular(cache)
    except (OSError, InputError):
        return None
    try:
        state = os.fstat(file.fileno())
        seen = (str(cache), state.st_ino, state.st_size, state.st_mtime_ns)
        if seen not in _SOUND:
            _check(cache, file)
            _SOUND.add(seen)
    except (DamagedError, OSError) as error:
        file.close()
        say(f"{error}; the corpus is parsed again")
        return None
    return file


class _CacheSeal(NamedTuple):
    """What the last line of a cache says."""

    texts: int
    digest: str
    size: int
    """How many bytes come before it."""


def _check(cache: Path, file: IO[bytes]) -> None:
    """Compare a cache with its hash; a DamagedError if they differ."""
    seal = _seal_of(cache, file)
    digest, lines, left = xxhash.xxh3_128(), 0, seal.size
    while piece := file.read(min(_PIECE, left)):
        digest.update(piece)
        lines += piece.count(b"\n")
        left -= len(piece)
    if (digest.hexdigest(), lines) != (seal.digest, seal.texts):
        raise DamagedError(f"{cache} is damaged (its hash does not match)")


def _seal_of(cache: Path, file: IO[bytes]) -> _CacheSeal:
    """The last line of a cache. The file is left at its start."""
    size = max(file.seek(0, os.SEEK_END) - _SEAL_SIZE, 0)
    file.seek(size)
    sealed = _SEALED.fullmatch(file.read())
    file.seek(0)
    if not sealed:
        raise DamagedError(f"{cache} is damaged (its last line is missing)")
    return _CacheSeal(int(sealed[1]), sealed[2].decode(), size)


def _parsed_and_kept(cache: Path, read: Callable[[], Iterator[Text]]) -> Iterator[Text]:
    draft = _CacheDraft(cache)
    try:
        for text in read():
            draft.add(text)
            yield text
        draft.keep()
    finally:
        draft.drop()


class _CacheDraft:
    """A cache file being written. If writing fails it gives up, and reading continues."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._path = hidden_name(target)
        self._file: IO[bytes] | None = None
        self._digest = xxhash.xxh3_128()
        self._count = 0
        with suppress(OSError):
            target.parent.mkdir(parents=True, exist_ok=True)
            sweep(target.parent)
            self._file = self._path.open("xb")

    def add(self, text: Text) -> None:
        line = to_line(text).encode("ascii") + b"\n"
        self._digest.update(line)
        self._count += 1
        self._write(line)

    def keep(self) -> None:
        self._write(_SEAL.format(count=self._count, digest=self._digest.hexdigest()).encode())
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
                sync(self._path)
                self._path.replace(self._target)
                sync_folder(self._target.parent)

    def drop(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            self._file = None

    def _write(self, line: bytes) -> None:
        if self._file is not None:
            try:
                self._file.write(line)
            except OSError:
                self.drop()
