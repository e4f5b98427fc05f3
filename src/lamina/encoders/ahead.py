"""Texts cut into tokens ahead of the model, in a thread."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import NamedTuple, Protocol

from lamina.encoders.batching import chunked
from lamina.encoders.pieces import Cut
from lamina.types import Text

_TEXTS, _WORDS = 256, 1024
"""Texts that are cut at once, and about how many words they have together."""
_PAUSE = 1e-4
"""Seconds between them: the thread that runs the model needs the interpreter for every step on a GPU."""


class Cuts(Protocol):
    """Cuts texts into tokens."""

    def cut(self, texts: Sequence[Text]) -> list[Cut]:
        """Texts cut into tokens."""
        ...


class CutText(NamedTuple):
    """The id of a text, and its tokens."""

    id: str
    cut: Cut


def cut_ahead(texts: Iterable[Text], pieces: Cuts, ahead: Callable[[], int]) -> Iterator[CutText]:
    """Texts with their tokens, in their order; a thread cuts up to about `ahead` words before they are asked for.

    The texts are read by the caller's thread: not every stream may be read by another.
    """
    sized = ((text, len(text.words)) for text in texts)
    parts = chunked(sized, _TEXTS, _WORDS)
    first = list(islice(parts, 2))
    if len(first) < 2:
        # A thread would cost more than these few.
        for part in first:
            yield from _cut(part, pieces)
        return
    thread = ThreadPoolExecutor(1, "tokenize")
    try:
        yield from _in_thread(chain(first, parts), pieces, ahead, thread)
    finally:
        thread.shutdown(wait=False, cancel_futures=True)


def _in_thread(
    parts: Iterator[list[Text]], pieces: Cuts, ahead: Callable[[], int], thread: ThreadPoolExecutor
) -> Iterator[CutText]:
    waiting: deque[Future[list[CutText]]] = deque()
    while True:
        for part in islice(parts, max(0, 1 + ahead() // _WORDS - len(waiting))):
            waiting.append(thread.submit(_cut_and_pause, part, pieces))
        if not waiting:
            return
        yield from waiting.popleft().result()


def _cut(texts: Sequence[Text], pieces: Cuts) -> list[CutText]:
    return [CutText(text.id, cut) for text, cut in zip(texts, pieces.cut(texts), strict=True)]


def _cut_and_pause(texts: Sequence[Text], pieces: Cuts) -> list[CutText]:
    made = _cut(texts, pieces)
    time.sleep(_PAUSE)
    return made
