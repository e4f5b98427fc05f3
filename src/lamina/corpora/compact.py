"""Texts as lines of JSON, and the cache of files that are slow to parse."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from lamina.corpora.corpus import fingerprint_of
from lamina.types import Edge, Span, Text

_VERSION = 1
"""Of the lines; raised when they change, so that older caches are not read."""


def to_line(text: Text) -> str:
    """One line that `from_line` reads back.

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
    """What `read` gives: parsed the first time, from the cache afterwards.

    `key` names the files' hashes and the reader's version. The cache is written while the texts pass and kept only
    when the last has passed. Deleting it is always safe, and a cache that cannot be written is done without.
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
    """A cache file in the making. Where the disk refuses, it gives up and the reading goes on."""

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
