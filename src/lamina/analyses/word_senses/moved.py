"""The same sentence further on: how far its words' vectors move when nothing in the sentence changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.activations.reading import sum_rows
from lamina.encoders import Activations, Encoder
from lamina.encoders.positions import with_positions_shifted
from lamina.errors import ModelError
from lamina.progress import progress
from lamina.stats.units import document_of
from lamina.types import Span, Text

SHIFTED, SENTENCE, ONE_SEGMENT = "shifted", "sentence", "one_segment"
"""Positions moved on; another sentence before it, as a segment of its own; the same without telling segments apart."""
_LIMIT = 10**9
"""Of an encoder that says none."""


class Moved(NamedTuple):
    """Squared distances between the vectors (of length 1) of a word before and after."""

    sums: Float[np.ndarray, "text layer"]
    """Over the words of each text."""
    words: Int[np.ndarray, " text"]
    documents: tuple[str, ...]


def draw_texts(texts: Sequence[Text], count: int, seed: int = 0) -> list[Text]:
    """So many texts of one segment, at random."""
    single = [text for text in texts if len(text.segments) == 1]
    return [single[number] for number in np.random.default_rng(seed).permutation(len(single))[:count]]


def put_after(texts: Sequence[Text], seed: int = 0) -> list[Text]:
    """Each text after another one, of another document where there is one.

    Example:
        >>> texts = [Text("a", ("Dogs", "bark"), doc="1"), Text("b", ("Cats", "sleep"), doc="2")]
        >>> [" ".join(text.words) for text in put_after(texts)]
        ['Cats sleep Dogs bark', 'Dogs bark Cats sleep']
    """
    rng = np.random.default_rng(seed)
    joined = []
    for text in texts:
        tried = [texts[number] for number in rng.permutation(len(texts))[:20]]
        other = next((candidate for candidate in tried if document_of(candidate) != document_of(text)), tried[0])
        cut = len(other.words)
        words = (*other.words, *text.words)
        joined.append(Text(f"{other.id} {text.id}", words, (Span(0, cut), Span(cut, len(words))), doc=text.doc))
    return joined


def movements(
    encoder: Encoder, texts: Sequence[Text], *, by: int, seed: int, skipped: Counter[str]
) -> dict[str, Moved]:
    """What each kind of move does at every layer; kinds that a model cannot have are left out, and told."""
    after = put_after(texts, seed)
    limit = getattr(encoder, "limit", _LIMIT)
    fits = [len(encoder.tokenize(text).ids) <= limit for text in after]
    skipped["sentences that are too long after another one, not moved"] += fits.count(False)
    texts = [text for text, fit in zip(texts, fits, strict=True) if fit]
    after = [text for text, fit in zip(after, fits, strict=True) if fit]
    if not texts:
        return {}
    ways: dict[str, tuple[Encoder, Sequence[Text]]] = {SENTENCE: (encoder, after)}
    one = encoder.with_one_segment()
    if one is not encoder:
        ways[ONE_SEGMENT] = (one, after)
    try:
        ways = {SHIFTED: (with_positions_shifted(encoder, by), texts), **ways}
    except ModelError as error:
        skipped[f"positions not shifted: {error}"] += 1
    return {name: _compare(encoder, texts, *way, name) for name, way in ways.items()}


def _compare(encoder: Encoder, texts: Sequence[Text], other: Encoder, moved: Sequence[Text], name: str) -> Moved:
    sums, counts = [], []
    with progress(f"sentences of {encoder.name} moved ({name})", len(texts)) as advance:
        for before, after in zip(_words(encoder, texts, texts), _words(other, moved, texts), strict=True):
            apart = 2 - 2 * (before * after).sum(2)
            sums.append(apart.clamp(min=0).sum(0).cpu().numpy())
            counts.append(len(apart))
            advance()
    return Moved(np.stack(sums), np.array(counts), tuple(map(document_of, texts)))


def _words(
    encoder: Encoder, texts: Sequence[Text], of: Sequence[Text]
) -> Iterator[Float[torch.Tensor, "word layer width"]]:
    """The last words of each text, as many as its counterpart has; of length 1."""
    for text, encoded, counterpart in zip(texts, encoder.encode(texts), of, strict=True):
        yield _means(encoded, len(text.words) - len(counterpart.words), len(counterpart.words))


def _means(encoded: Activations, first: int, count: int) -> torch.Tensor:
    if encoded.states is None:
        raise ModelError("no states were given")
    words = torch.from_numpy(encoded.tokens.words.astype(np.int64) - first)
    inside = (words >= 0) & (words < count)
    owner = words[inside].to(encoded.states.device)
    states = encoded.states[inside.to(encoded.states.device)].float()
    sums = sum_rows(states.flatten(1), owner, count).unflatten(1, states.shape[1:])
    # Means and sums have the same direction.
    return torch.nn.functional.normalize(sums, dim=2)
