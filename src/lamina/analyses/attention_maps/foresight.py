"""What watching a corpus would cost, from counting it and timing a few texts."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from lamina.analyses.attention_maps.cutting import fit
from lamina.encoders import Encoder
from lamina.types import Text

_TIMED_TEXTS = 16


class Foreseen(NamedTuple):
    """What there is, and how long it would take."""

    texts: int
    words: int
    tokens: int
    seconds: float


def foresee(encoder: Encoder, texts: Iterable[Text], limit: int | None = None) -> Foreseen:
    """Count texts, words and tokens as they would be watched, and time the first ones.

    Example:
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> foresee(TinyEncoder(), SAMPLE_TEXTS)[:3]
        (7, 46, 81)
    """
    count = words = tokens = 0
    first: list[Text] = []
    for text in texts:
        kept = fit(encoder, text, limit)
        count, words, tokens = count + 1, words + len(kept.words), tokens + len(encoder.tokenize(kept).ids)
        if len(first) < _TIMED_TEXTS:
            first.append(kept)
    # The first call pays for more than its share.
    for _ in encoder.encode(first[:4], ("maps",), ordered=False):
        pass
    start = time.perf_counter()
    done = sum(len(made.tokens.ids) for made in encoder.encode(first, ("maps",), ordered=False))
    return Foreseen(count, words, tokens, (time.perf_counter() - start) * tokens / max(1, done))
