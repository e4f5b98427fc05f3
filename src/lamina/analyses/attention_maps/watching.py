"""One pass over a corpus, many meters: each reduces a text's maps to what it needs before they are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float

from lamina.analyses.attention_maps.cutting import fit
from lamina.analyses.attention_maps.words import From, WordMaps, to_words
from lamina.encoders import Encoder, Tokens
from lamina.errors import ModelError
from lamina.progress import progress
from lamina.types import Text

CUT = "texts longer than the model's limit, cut at its last whole word"
UNKNOWN = "words without a piece, replaced by the unknown token"
TOO_LONG = "texts whose first words alone are longer than the model's limit, left out"


@dataclass(frozen=True, eq=False)
class Watched:
    """One text and every head's attention on it."""

    text: Text
    """As encoded: cut where it was too long."""
    tokens: Tokens
    """Its pieces, special tokens included."""
    maps: Float[torch.Tensor, "block head token token"]
    """Attention from (row) to (column)."""
    rows: From = "mean"
    """How rows of split words become one."""

    @cached_property
    def words(self) -> WordMaps:
        """The maps between words, made once for all meters that want them."""
        return to_words(self.maps, self.tokens.words, self.rows)


@runtime_checkable
class Meter(Protocol):
    """Reduces maps while they stream; what it keeps does not grow with a text's length squared."""

    def update(self, watched: Watched) -> None:
        """Take one text's maps in."""
        ...


def watch(
    encoder: Encoder,
    texts: Iterable[Text],
    meters: Sequence[Meter],
    *,
    rows: From = "mean",
    limit: int | None = None,
    total: int | None = None,
) -> Counter[str]:
    """Show every text's maps to every meter, in one pass; returns what was cut or left out, and how often.

    Args:
        encoder: whose heads.
        texts: what they look at.
        meters: who watches.
        rows: how rows of split words become one.
        limit: the most tokens of a text, where less than the model takes.
        total: how many texts there are, for the progress bar.

    Example:
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> class Longest:
        ...     tokens = 0
        ...     def update(self, watched):
        ...         self.tokens = max(self.tokens, watched.maps.shape[-1])
        >>> longest = Longest()
        >>> dict(watch(TinyEncoder(), SAMPLE_TEXTS, [longest])), longest.tokens
        ({}, 21)
    """
    refuse_without_maps(encoder)
    skipped: Counter[str] = Counter()
    waiting: dict[str, Text] = {}
    with progress(f"attention of {encoder.name}", total) as advance:
        # In whatever order batches come: maps held back for their turn would fill the memory.
        for made in encoder.encode(_fitting(encoder, texts, limit, waiting, skipped), ("maps",), ordered=False):
            text = waiting.pop(made.text)
            advance()
            if made.maps is None:
                skipped[TOO_LONG] += 1
                continue
            if made.tokens.unknown:
                skipped[UNKNOWN] += made.tokens.unknown
            watched = Watched(text, made.tokens, made.maps, rows)
            for meter in meters:
                meter.update(watched)
    return skipped


def refuse_without_maps(encoder: Encoder) -> None:
    """An encoder that has no attention maps cannot be asked about them."""
    if not encoder.heads:
        raise ModelError(f"{encoder.name} has no attention heads; name a transformer, for example minilm")


def _fitting(
    encoder: Encoder, texts: Iterable[Text], limit: int | None, waiting: dict[str, Text], skipped: Counter[str]
) -> Iterator[Text]:
    for text in texts:
        kept = fit(encoder, text, limit)
        skipped.update([CUT] if kept is not text else [])
        waiting[kept.id] = kept
        yield kept
