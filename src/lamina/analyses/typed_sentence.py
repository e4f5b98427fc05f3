"""One typed sentence: what every layer makes of a word, what is near it, which heads look at it."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lamina.activations import extract
from lamina.activations.reading import WordVectors
from lamina.activations.store import StatePrecision, default_precision
from lamina.analyses.words.occurrences import in_brackets
from lamina.corpora import Corpus
from lamina.errors import ModelError
from lamina.framework.watch import to_words
from lamina.models import SPECIAL, Activations, Encoder
from lamina.models.contract import STATES, Want
from lamina.types import Text

ID = "typed"
"""Of the one text."""


def encode_sentence(encoder: Encoder, words: Sequence[str], want: Collection[Want] = STATES) -> Activations:
    """The words in one pass through the model; states in the precision that a store keeps them in.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> made = encode_sentence(TinyEncoder(), ["Dogs", "bark"], ("states", "maps"))
        >>> made.states.dtype, tuple(made.maps.shape)
        (torch.float16, (2, 2, 6, 6))
    """
    made = next(iter(encoder.encode([Text(ID, tuple(words))], want)))
    return made if made.states is None else replace(made, states=_as_kept(made.states, default_precision(encoder)))


def _as_kept(states: torch.Tensor, kept: StatePrecision) -> torch.Tensor:
    """Probes are trained on stored states, which have two bytes a number unless some value is too large for that."""
    half = states.to(getattr(torch, kept))
    if half.isfinite().all():
        return half
    if not states.isfinite().all():
        raise ModelError("the model gave values that are not numbers (inf or nan); load it in float32")
    return states


def word_vectors(made: Activations, words: int) -> Float[torch.Tensor, "layer word width"]:
    """Every word at every layer: the mean of its pieces, special tokens left out.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> tuple(word_vectors(encode_sentence(TinyEncoder(), ["Dogs", "bark"]), 2).shape)
        (3, 2, 16)
    """
    if made.states is None:
        raise ModelError("the sentence was encoded without its states")
    owner = torch.from_numpy(made.tokens.words).long()
    inside = owner != SPECIAL
    pieces = made.states[inside].float().transpose(0, 1)
    counts = torch.bincount(owner[inside], minlength=words).unsqueeze(1)
    summed = torch.zeros(len(pieces), words, pieces.shape[2]).index_add_(1, owner[inside], pieces)
    return summed / counts


class Paths(NamedTuple):
    """Where every word is drawn at every layer."""

    places: Float[Tensor, "layer word 2"]
    explained: tuple[float, float]
    """The share of all variance along each axis."""


def token_paths(vectors: Float[Tensor, "layer word width"]) -> Paths:
    """One PCA over all words at all layers, so that a word's places can be joined to a path.

    Vectors are scaled to length 1 first: layers differ in length by factors, and the longest would be all one sees.
    An axis is turned so that words move towards its positive side.

    Example:
        >>> vectors = torch.tensor([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]], [[0.0, 0.0, 2.0]]])
        >>> paths = token_paths(vectors)
        >>> tuple(paths.places.shape), round(sum(paths.explained), 6)
        ((3, 1, 2), 1.0)
    """
    layers, words, width = vectors.shape
    points = torch.nn.functional.normalize(vectors.double(), dim=-1).reshape(-1, width)
    centred = points - points.mean(0)
    values, along = _principal(centred)
    places = torch.nn.functional.pad(along, (0, 2 - along.shape[1])).reshape(layers, words, 2)
    forwards = (places[-1] - places[0]).sum(0)
    total = max(float(values.sum()), 1e-12)
    shares = [*(values[:2] / total).tolist(), 0.0]
    return Paths(places * torch.where(forwards < 0, -1.0, 1.0), (shares[0], shares[1]))


def _principal(points: Float[Tensor, "point width"]) -> tuple[Float[Tensor, " axis"], Float[Tensor, "point two"]]:
    """The variance along every axis, the largest first, and where the points lie along the first two."""
    many, width = points.shape
    # Both products have the same values above zero; a sentence has fewer points than widths, a long text more.
    values, axes = torch.linalg.eigh(points.T @ points if many > width else points @ points.T)
    values, axes = values.clamp_min(0).flip(0), axes.flip(1)[:, :2]
    return values, points @ axes if many > width else axes * values[:2].sqrt()


def farthest_travelled(vectors: Float[Tensor, "layer word width"], words: Sequence[str]) -> int:
    """The word whose direction differs most between the first layer and the last; no sign where there is a word.

    Example:
        >>> vectors = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], [[0.9, 0.1], [0.5, 0.5], [1.0, 0.0]]])
        >>> farthest_travelled(vectors, ["Dogs", "bark", "."])
        1
    """
    alike = torch.cosine_similarity(vectors[0], vectors[-1], dim=-1)
    signs = torch.tensor([not any(letter.isalnum() for letter in word) for word in words])
    return int(torch.where(signs, alike + 2, alike).argmin())


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


class Strongest(NamedTuple):
    """For every head the other word with the largest weight."""

    weight: Float[Tensor, "block head"]
    partner: Int[Tensor, "block head"]
    """The other word; -1 where there is none."""


class Attended(NamedTuple):
    """A word's attention, both ways. Its attention to itself and to special tokens is left out."""

    incoming: Strongest
    """From another word to this one: who looks at it."""
    outgoing: Strongest
    """From this word to another one: where it looks."""


def attended(made: Activations, word: int) -> Attended | None:
    """The strongest weights to and from a word, head by head; None where there are no maps.

    Attention to a split word is the sum over its pieces, attention from it their mean. A text longer than the model
    takes at once has no maps, and neither has a model without heads.

    Example:
        >>> from lamina.analyses.typed_sentence import encode_sentence
        >>> from lamina.testing import TinyEncoder
        >>> made = encode_sentence(TinyEncoder(), ["Dogs", "bark", "."], ("maps",))
        >>> found = attended(made, 1)
        >>> tuple(found.incoming.weight.shape), set(found.outgoing.partner.flatten().tolist()) <= {0, 2}
        ((2, 2), True)
    """
    if made.maps is None or made.maps.numel() == 0:
        return None
    maps = to_words(made.maps, made.tokens.words).maps
    return Attended(_strongest(maps[..., word], word), _strongest(maps[..., word, :], word))


def _strongest(weights: Float[Tensor, "block head word"], own: int) -> Strongest:
    others = torch.arange(weights.shape[-1]) != own
    if not others.any():
        blank = torch.zeros(weights.shape[:-1])
        return Strongest(blank, torch.full_like(blank, -1).long())
    best = weights.masked_fill(~others, -1).max(-1)
    return Strongest(best.values, best.indices)
