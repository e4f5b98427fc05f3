"""A question and its context as windows that fit the model: the question whole in each, the context in parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lamina.encoders.contract import SPECIAL
from lamina.encoders.pieces import Pieces
from lamina.errors import SpanError
from lamina.types import Span, Text

STRIDE = 128
"""Pieces from the start of one window to the start of the next, as BERT's own code has it."""
MOST_QUESTION = 64
"""Pieces of the question; what is beyond is cut off."""


class Window(NamedTuple):
    """The question with one part of its context."""

    ids: np.ndarray
    types: np.ndarray
    words: np.ndarray
    """[token] Words of the text; SPECIAL for special tokens."""
    cut: bool
    """Whether the question lost its end."""


def windows(
    text: Text, pieces: Pieces, length: int, *, stride: int = STRIDE, most_question: int = MOST_QUESTION
) -> Iterator[Window]:
    """Every window of a text of two segments; the last one ends with the context."""
    if len(text.segments) != 2:
        raise SpanError(f"text {text.id!r} has {len(text.segments)} segments; a question with its context has two")
    tokens, types, head, tail = pieces(text)
    context = text.segments[1]
    kept = _question(tokens.words, head, context, most_question)
    room = length - len(kept) - tail
    if room < 2:
        raise SpanError(
            f"text {text.id!r}: its question takes {len(kept)} of the {length} pieces there are, which leaves no room "
            "for the context; shorten the question or allow more pieces"
        )
    size = len(tokens.ids)
    end = size - tail
    every = np.array(types)
    start = head
    while True:
        stop = _between_words(tokens.words, min(start + room, end), end, after=start)
        chosen = np.r_[kept, start:stop, end:size]
        yield Window(tokens.ids[chosen], every[chosen], tokens.words[chosen], len(kept) < head)
        if stop == end:
            return
        # No piece is skipped, even where the stride is longer than a window.
        start = _between_words(tokens.words, min(start + stride, stop), end, after=start)


def _between_words(words: np.ndarray, at: int, end: int, *, after: int) -> int:
    """The nearest place at or before `at` that cuts no word; `at` itself where one word fills everything since."""
    back = at
    while after < back < end and words[back] == words[back - 1]:
        back -= 1
    return back if back > after else at


def _question(words: np.ndarray, head: int, context: Span, most: int) -> np.ndarray:
    """The tokens before the context: special ones, and as much of the question as may be."""
    before = np.arange(head)
    asked = (words[:head] != SPECIAL) & (words[:head] < context.start)
    return before[~asked | (np.cumsum(asked) <= most)]


def borders(words: np.ndarray, context: Span) -> tuple[np.ndarray, np.ndarray]:
    """Where in a window an answer may start and end: at the first and last pieces of the context's words.

    Example:
        >>> starts, ends = borders(np.array([-1, 0, -1, 1, 1, 2, -1]), Span(1, 3))
        >>> starts.tolist(), ends.tolist()
        ([3, 5], [4, 5])
    """
    inside = (words >= context.start) & (words < context.end)
    starts = inside & (words != np.append(SPECIAL, words[:-1]))
    ends = inside & (words != np.append(words[1:], SPECIAL))
    return np.flatnonzero(starts), np.flatnonzero(ends)


def place(words: np.ndarray, span: Span) -> tuple[int, int] | None:
    """The tokens that hold an answer, first and last; None where some of it is outside this window.

    Example:
        >>> place(np.array([-1, 0, -1, 1, 1, 2, -1]), Span(1, 3)), place(np.array([-1, 0, -1, 1, 1, -1]), Span(1, 3))
        ((3, 5), None)
    """
    first, last = np.flatnonzero(words == span.start), np.flatnonzero(words == span.end - 1)
    return (int(first[0]), int(last[-1])) if len(first) and len(last) else None
