"""The nearest neighbours of a typed word among the words of a corpus, layer by layer."""

from __future__ import annotations

import os
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lamina.activations import extract
from lamina.activations.words import WordVectors
from lamina.analyses.contextualization.occurrences import in_brackets
from lamina.corpora import Corpus
from lamina.encoders import Encoder

MOST_BYTES = 192 * 2**20
"""An index holds no more vectors than this; of a wide or deep model it has fewer sentences."""


class Near(NamedTuple):
    """One neighbour."""

    word: str
    sentence: str
    """The words around it, itself in brackets."""
    similarity: float
    """Cosine."""


class WordIndex(NamedTuple):
    """The words of some sentences at every layer, held in memory."""

    units: Float[Tensor, "layer word width"]
    """Of length 1."""
    types: Int[Tensor, " word"]
    """The lower-cased word, as a number."""
    places: tuple[tuple[int, int], ...]
    """Word -> its sentence, and where in it."""
    sentences: tuple[tuple[str, ...], ...]


def index_words(
    encoder: Encoder,
    corpus: Corpus,
    *,
    root: str | os.PathLike[str] | None = None,
    most_bytes: int = MOST_BYTES,
) -> WordIndex:
    """Every word of a corpus, from stored activations; of its first sentences alone where there are too many.

    Args:
        encoder: whose layers.
        corpus: whose words.
        root: where activations are stored.
        most_bytes: the most memory the vectors may take.
    """
    fitting = _fitting(encoder, corpus, most_bytes)
    sentences = tuple(text.words for text in fitting)
    vectors = WordVectors(extract(encoder, fitting, root=root), [len(words) for words in sentences])
    # Filled layer by layer: gathered in a list first, everything would be in memory twice.
    units = torch.empty(encoder.layers, len(vectors.text), encoder.width)
    for layer in range(encoder.layers):
        units[layer] = torch.nn.functional.normalize(vectors.layer(layer), dim=1)
    places = [(number, at) for number, words in enumerate(sentences) for at in range(len(words))]
    numbers: dict[str, int] = {}
    types = [numbers.setdefault(word.lower(), len(numbers)) for words in sentences for word in words]
    return WordIndex(units, torch.tensor(types), tuple(places), sentences)


def _fitting(encoder: Encoder, corpus: Corpus, most_bytes: int) -> Corpus:
    room = max(1, most_bytes // (4 * encoder.layers * encoder.width))
    words = 0
    for kept, text in enumerate(corpus):
        words += len(text.words)
        if words > room and kept:
            return corpus.take(kept)
    return corpus


def nearest_in_corpus(index: WordIndex, word: Float[Tensor, "layer width"], count: int = 5) -> list[list[Near]]:
    """At each layer the words nearest to one, by exact cosine; each word type once, at its nearest occurrence.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> from lamina.testing import TinyEncoder
        >>> import tempfile
        >>> pets = corpus_from([["Dogs", "bark"], ["cats", "and", "dogs"]], name="pets")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     index = index_words(TinyEncoder(), pets, root=folder)
        >>> found = nearest_in_corpus(index, index.units[:, 1])
        >>> found[2][0].word, found[2][0].sentence, round(found[2][0].similarity, 4), len(found[2])
        ('bark', 'Dogs [bark]', 1.0, 4)
    """
    asked = torch.nn.functional.normalize(word.float(), dim=1)
    alike = (index.units @ asked.unsqueeze(2)).squeeze(2)
    types = int(index.types.max()) + 1
    best = torch.full((len(alike), types), -torch.inf)
    best.scatter_reduce_(1, index.types.expand_as(alike), alike, "amax")
    values, chosen = best.topk(min(count, types), dim=1)
    return [
        [_near(index, own, kind, value) for value, kind in zip(row, kinds, strict=True)]
        for own, row, kinds in zip(alike, values.tolist(), chosen.tolist(), strict=True)
    ]


def _near(index: WordIndex, alike: Float[Tensor, " word"], kind: int, similarity: float) -> Near:
    """The nearest occurrence of a word type."""
    occurrence = int(alike.masked_fill(index.types != kind, -torch.inf).argmax())
    sentence, at = index.places[occurrence]
    words = index.sentences[sentence]
    return Near(words[at], in_brackets(words, at), min(1.0, max(-1.0, similarity)))
