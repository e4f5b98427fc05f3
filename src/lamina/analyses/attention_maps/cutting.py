"""Texts cut to what a model takes at once: attention has no meaning across windows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lamina.encoders import SPECIAL, Encoder
from lamina.types import Edge, Span, Text


def fit(encoder: Encoder, text: Text, limit: int | None = None) -> Text:
    """The text, or as many of its first words as fit `limit` tokens (by default, and at most, the model's own).

    Whole words are taken off the end of the longest segment; targets that lose a word go with it. A segment keeps
    its first word, so a text whose first words alone are longer than the limit stays too long.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> text = Text("t", ("a", "dog", "barked", "at", "us"))
        >>> fit(TinyEncoder(), text, limit=6).words
        ('a', 'dog', 'barked')
    """
    most = encoder.limit if limit is None else min(limit, encoder.limit)
    owners = encoder.tokenize(text).words
    over = len(owners) - most
    if over <= 0:
        return text
    sizes = np.bincount(owners[owners != SPECIAL], minlength=len(text.words))
    ends = [segment.end for segment in text.segments]
    held = [int(sizes[segment.start : segment.end].sum()) for segment in text.segments]
    while over > 0:
        longest = max(
            (i for i, segment in enumerate(text.segments) if ends[i] - segment.start > 1),
            key=lambda i: held[i],
            default=None,
        )
        if longest is None:
            break
        ends[longest] -= 1
        held[longest] -= sizes[ends[longest]]
        over -= sizes[ends[longest]]
    return _kept(text, ends)


def _kept(text: Text, ends: list[int]) -> Text:
    words: list[str] = []
    segments: list[Span] = []
    moved: dict[int, int] = {}
    for segment, end in zip(text.segments, ends, strict=True):
        start = len(words)
        moved |= {word: start + word - segment.start for word in range(segment.start, end)}
        words += text.words[segment.start : end]
        segments.append(Span(start, len(words)))
    edges = {
        name: tuple(edge for each in found if (edge := _moved(each, moved)) is not None)
        for name, found in text.edges.items()
    }
    return Text(text.id, tuple(words), tuple(segments), edges, text.doc)


def _moved(edge: Edge, moved: Mapping[int, int]) -> Edge | None:
    spans = [edge.span] if edge.other is None else [edge.span, edge.other]
    if any(word not in moved for span in spans for word in span):
        return None
    placed = [Span(moved[span.start], moved[span.end - 1] + 1) for span in spans]
    return Edge(edge.labels, placed[0], placed[1] if len(placed) > 1 else None, edge.rated, edge.value)
