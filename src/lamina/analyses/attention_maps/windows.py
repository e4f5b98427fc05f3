"""Documents cut at sentence ends into windows that a model takes at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from lamina.analyses.attention_maps.halves import document_of
from lamina.encoders import SPECIAL, Encoder
from lamina.types import Edge, Span, Text


def windows(encoder: Encoder, texts: Iterable[Text], most: int) -> Iterator[Text]:
    """Each text in as few windows of whole sentences as fit `most` tokens, special ones included.

    Sentences are those of the annotation `sentence`; a text without them stays whole, and a sentence longer than a
    window is one by itself. Targets that lie in two windows are lost.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> sentences = tuple(Edge((str(at),), Span(at, at + 2)) for at in (0, 2, 4))
        >>> text = Text("d", ("We", "ran", "He", "sat", "It", "fell"), edges={"sentence": sentences})
        >>> [(each.id, each.words) for each in windows(TinyEncoder(), [text], most=6)]
        [('d:1', ('We', 'ran', 'He', 'sat')), ('d:2', ('It', 'fell'))]
    """
    for text in texts:
        tokens = encoder.tokenize(text).words
        ends = sorted({edge.span.end for edge in text.edges.get("sentence", ())} - {len(text.words)})
        if len(tokens) <= most or not ends or len(text.segments) > 1:
            yield text
            continue
        own = tokens[tokens != SPECIAL]
        # Pieces before each word: a window's size without cutting it into pieces again.
        before = np.r_[0, np.cumsum(np.bincount(own, minlength=len(text.words)))]
        borders = _borders([0, *ends, len(text.words)], before, most - (len(tokens) - len(own)))
        for number, (start, end) in enumerate(pairwise(borders), start=1):
            yield _part(text, Span(start, end), number)


def _borders(ends: Sequence[int], before: np.ndarray, room: int) -> list[int]:
    borders = [0]
    for this, following in zip(ends[1:], [*ends[2:], None], strict=True):
        if following is None or before[following] - before[borders[-1]] > room:
            borders.append(this)
    return borders


def _part(text: Text, kept: Span, number: int) -> Text:
    edges = {
        name: tuple(edge.shift(-kept.start) for edge in found if _inside(edge, kept))
        for name, found in text.edges.items()
    }
    return Text(f"{text.id}:{number}", text.words[kept.start : kept.end], edges=edges, doc=document_of(text))


def _inside(edge: Edge, kept: Span) -> bool:
    return all(
        kept.start <= span.start and span.end <= kept.end for span in (edge.span, edge.other) if span is not None
    )
