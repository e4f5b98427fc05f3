"""What becomes one text: a sentence, a window of whole sentences, or a document."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from lamina.corpora.origins import origin_of_joined
from lamina.errors import CorpusError
from lamina.types import Edge, Span, Text


class Unit(NamedTuple):
    """What becomes one text."""

    kind: str
    """sentence, window or document."""
    size: int | None = None
    """Maximum number of words in a window."""


def parse_unit(unit: str) -> Unit:
    """Read `sentence`, `document` or `window:N`.

    Example:
        >>> parse_unit("window:128")
        Unit(kind='window', size=128)
    """
    if unit in ("sentence", "document"):
        return Unit(unit)
    window = re.fullmatch(r"window:([1-9][0-9]*)", unit)
    if window is None:
        raise CorpusError(
            f"unknown unit {unit!r}; use sentence, document or window:N with at most N words (window:128)"
        )
    return Unit("window", int(window[1]))


def in_units(texts: Iterable[Text], unit: str) -> Iterator[Text]:
    """Join consecutive texts of one document into `unit`s; a text without a document stays separate.

    Windows end where sentences end; a sentence longer than the window is its own window. Joined texts have the
    annotation `sentence`. If only some of the joined sentences have an annotation, the joined text has it.

    Example:
        >>> sentences = [Text("a", ("Dogs", "bark"), doc="d"), Text("b", ("They", "do"), doc="d")]
        >>> [(text.id, text.words) for text in in_units(sentences, "document")]
        [('d', ('Dogs', 'bark', 'They', 'do'))]
    """
    kind, size = parse_unit(unit)
    if kind == "sentence":
        yield from texts
        return
    for doc, sentences in _documents(texts):
        for number, window in enumerate(_windows(sentences, size), start=1):
            yield _joined(_name(doc, number, size) or window[0].id, doc, window)


def _name(doc: str | None, number: int, size: int | None) -> str | None:
    return doc if doc is None or size is None else f"{doc}:{number}"


def _documents(texts: Iterable[Text]) -> Iterator[tuple[str | None, Iterator[Text]]]:
    """Runs of texts of one document. A text without a document gets its own key, so that it joins nothing."""
    numbered = enumerate(texts)
    for (doc, _), run in groupby(numbered, key=lambda pair: (pair[1].doc, pair[0] if pair[1].doc is None else -1)):
        yield doc, (text for _, text in run)


def _windows(sentences: Iterator[Text], size: int | None) -> Iterator[list[Text]]:
    held: list[Text] = []
    words = 0
    for sentence in sentences:
        if held and size is not None and words + len(sentence.words) > size:
            yield held
            held, words = [], 0
        held.append(sentence)
        words += len(sentence.words)
    if held:
        yield held


def _joined(name: str, doc: str | None, sentences: list[Text]) -> Text:
    words: list[str] = []
    glued: list[int] = []
    edges: defaultdict[str, list[Edge]] = defaultdict(list)
    for sentence in sentences:
        at = len(words)
        words.extend(sentence.words)
        glued.extend(at + word for word in sentence.glued)
        if "sentence" not in sentence.edges:
            edges["sentence"].append(Edge((sentence.id,), Span(at, len(words))))
        for annotation, found in sentence.edges.items():
            edges[annotation].extend(edge.shift(at) for edge in found)
    # A question and its context stay two segments; consecutive sentences become one.
    segments = sentences[0].segments if len(sentences) == 1 else ()
    origin = sentences[0].origin if len(sentences) == 1 else origin_of_joined(sentences)
    made = {key: tuple(found) for key, found in edges.items()}
    return Text(name, tuple(words), segments, made, doc, origin, tuple(glued))
