"""A text with its edges, as lines for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lamina.types import Edge, Span, Text

_WIDTH = 100


def text_lines(text: Text, annotation: str | None = None) -> Iterator[str]:
    """The text, then its annotations: tags of single words in a row, everything else an edge a line."""
    yield f"{text.id}  (document {text.doc})" if text.doc else text.id
    yield from _wrapped(" ".join(text.words), "  ")
    for name, edges in text.edges.items():
        if annotation is None or annotation == name:
            yield from _annotation_lines(name, edges, text)


def _annotation_lines(name: str, edges: tuple[Edge, ...], text: Text) -> Iterator[str]:
    if not edges:
        yield f"  {name}: nothing found"
    elif all(edge.other is None and edge.value is None and len(edge.span) == 1 for edge in edges):
        tags = " ".join(f"{text.words[edge.span.start]}/{_labels(edge)}" for edge in edges)
        yield from _wrapped(f"{name}: {tags}", "  ")
    else:
        yield f"  {name}:"
        yield from (_edge_line(edge, text) for edge in edges)


def _edge_line(edge: Edge, text: Text) -> str:
    line = f"    {_labels(edge)}  {_quoted(edge.span, text)}"
    if edge.other is not None:
        line += f" -> {_quoted(edge.other, text)}"
    return line if edge.value is None else f"{line}  value {edge.value:.3g}"


def _labels(edge: Edge) -> str:
    return "|".join(edge.labels) or "-"


def _quoted(span: Span, text: Text) -> str:
    return f"[{span.start}:{span.end}] {' '.join(text.words[span.start : span.end])}"


def _wrapped(line: str, indent: str) -> list[str]:
    return textwrap.wrap(
        line,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent * 2,
        break_long_words=False,
        break_on_hyphens=False,
    )
