"""What a report would take, before it is made."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lamina.report.making import choose, kept

if TYPE_CHECKING:
    from lamina.corpora import Corpus
    from lamina.encoders import Encoder

_SAMPLE = 64
"""Texts encoded to measure this machine."""

_PASSES = {"geometry": 2}
"""How often an analysis runs the corpus through a model: geometry once for the model, once for its twin."""

_PAGE_MB = 2
"""Of the page with its script, and of the results beside it."""


class Plan(NamedTuple):
    """How much there is to do."""

    texts: int
    words: int
    tokens: int
    reused: list[str]
    computed: list[str]
    seconds: float
    """Expected, from encoding a few texts now."""

    def __str__(self) -> str:
        return "\n".join(
            [
                f"texts     {self.texts:,}",
                f"words     {self.words:,}",
                f"tokens    {self.tokens:,}",
                f"reused    {', '.join(self.reused) or 'nothing'}",
                f"computed  {', '.join(self.computed) or 'nothing'}",
                f"time      about {max(1, round(self.seconds)):,} s for encoding on this machine",
                f"disk      about {_PAGE_MB} MB",
            ]
        )


def plan_report(encoder: Encoder, corpus: Corpus, out: Path, *, only: Sequence[str] | None = None) -> Plan:
    """Count what `make_report` would do; compute and write nothing.

    Example:
        >>> print(Plan(texts=2, words=9, tokens=13, reused=[], computed=["geometry"], seconds=0.2).tokens)
        13
    """
    names = choose(only)
    reused = [name for name in names if kept(name, encoder, corpus, out)]
    computed = [name for name in names if name not in reused]
    texts = words = tokens = 0
    for text in corpus:
        texts += 1
        words += len(text.words)
        tokens += len(encoder.tokenize(text).ids)
    passes = sum(_PASSES[name] for name in computed)
    seconds = passes * tokens * _seconds_a_token(encoder, corpus) if passes else 0.0
    return Plan(texts, words, tokens, reused, computed, seconds)


def _seconds_a_token(encoder: Encoder, corpus: Corpus) -> float:
    sample = list(islice(corpus, _SAMPLE))
    start = time.perf_counter()
    tokens = sum(len(activations.tokens.ids) for activations in encoder.encode(sample))
    return (time.perf_counter() - start) / max(1, tokens)
