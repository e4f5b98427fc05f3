"""Parsers from attention: each scores every candidate head of every word, after Clark et al. (2019), section 5."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

ROOT = 0
"""The candidate for "no head"; the word at position j is candidate j + 1."""

HIDDEN = 256
SHORT = (1, 2, 3)
"""Distances with their own indicator feature."""


class Sentence(NamedTuple):
    """The input of a probe for one sentence."""

    maps: Float[Tensor, "word word map"]
    """Attention from (first) to (second), one map per head of the model."""
    special: Float[Tensor, "word 2 map"]
    """Attention from each word to the first token and to the separators, used to score the root."""
    vectors: Float[Tensor, "word width"]
    """Static vectors of the words."""


class ParserProbe(torch.nn.Module, ABC):
    """Scores of candidate heads; a word is not a candidate for itself."""

    def forward(self, sentence: Sentence) -> Float[Tensor, "word candidate"]:
        """The score of every candidate for every word, the root first; minus infinity for the word itself."""
        between = self.between(sentence)
        itself = torch.eye(len(between), dtype=torch.bool)
        return torch.cat([self.to_root(sentence)[:, None], between.masked_fill(itself, -torch.inf)], 1)

    @abstractmethod
    def between(self, sentence: Sentence) -> Float[Tensor, "word word"]:
        """Scores of (second) as the head of (first)."""

    @abstractmethod
    def to_root(self, sentence: Sentence) -> Float[Tensor, " word"]:
        """Scores of each word as the root."""


class Weights(NamedTuple):
    """The weight of every map in pairs of a dependent and its head."""

    words: Float[Tensor, "pair 2 map"]
    """If the head is a word: weights of the dependent's row and of its column."""
    root: Float[Tensor, "pair 2 map"]
    """If it is the root: weights of attention to the first token and to the separators."""


class AttentionOnly(ParserProbe):
    """One weight per map and one per transposed map, no bias.

    Example:
        >>> probe = AttentionOnly(1)
        >>> _ = torch.nn.init.ones_(probe.words)
        >>> maps = torch.tensor([[0.1, 0.2], [0.3, 0.4]])[:, :, None]
        >>> probe(Sentence(maps, torch.zeros(2, 2, 1), torch.zeros(2, 5))).tolist()
        [[0.0, -inf, 0.5], [0.0, 0.5, -inf]]
    """

    def __init__(self, maps: int) -> None:
        super().__init__()
        # The loss is convex in them, so no random initialisation is needed.
        self.words = torch.nn.Parameter(torch.zeros(2, maps))
        self.root = torch.nn.Parameter(torch.zeros(2, maps))

    def between(self, sentence: Sentence) -> Float[Tensor, "word word"]:
        """See `ParserProbe.between`."""
        row, column = (sentence.maps @ self.words.T).unbind(-1)
        return row + column.T

    def to_root(self, sentence: Sentence) -> Float[Tensor, " word"]:
        """See `ParserProbe.to_root`."""
        return (sentence.special * self.root).sum((1, 2))

    def weights(self, sentence: Sentence, heads: Int[Tensor, " word"]) -> Weights:
        """The weights of each word's maps in the score of its head (candidate numbers): the same for all."""
        roots = int((heads == ROOT).sum())
        return Weights(self.words.expand(len(heads) - roots, -1, -1), self.root.expand(roots, -1, -1))


class AttentionAndWords(ParserProbe):
    """Like `AttentionOnly`, but each map's weight is a linear function of the two words' vectors.

    A vector has one extra number here: 1 for the root, which has no other, and 0 for words. With `faithful`, the root's
    vector comes last while its map comes first, as in the paper's code: every candidate is scored with the vector of
    its right neighbour.
    """

    def __init__(self, maps: int, width: int, *, faithful: bool = False) -> None:
        super().__init__()
        self.faithful = faithful
        # [as dependent, as candidate; width; row and column, or first token and separators; map]
        self.words = torch.nn.Parameter(torch.zeros(2, width + 1, 2, maps))
        self.root = torch.nn.Parameter(torch.zeros(2, width + 1, 2, maps))

    def between(self, sentence: Sentence) -> Float[Tensor, "word word"]:
        """See `ParserProbe.between`.

        A pair's weight is a sum of one part from the dependent and one from the candidate, so both can be multiplied
        with a word's whole row and column of the maps, without building the vectors of pairs.
        """
        dependents, candidates = self._vectors(sentence)
        row, column = _weigh(dependents, self.words[0])
        row_of, column_of = _weigh(candidates[1:], self.words[1])
        given = sentence.maps @ torch.stack([row, column_of], -1)
        taken = sentence.maps.transpose(0, 1) @ torch.stack([column, row_of], -1)
        return given[..., 0] + given[..., 1].T + taken[..., 0] + taken[..., 1].T

    def to_root(self, sentence: Sentence) -> Float[Tensor, " word"]:
        """See `ParserProbe.to_root`."""
        return (sentence.special * self._root_weights(sentence)).sum((1, 2))

    def weights(self, sentence: Sentence, heads: Int[Tensor, " word"]) -> Weights:
        """The weights of each word's maps in the score of its head (candidate numbers)."""
        dependents, candidates = self._vectors(sentence)
        below = heads != ROOT
        own = torch.stack(_weigh(dependents[below], self.words[0]), 1)
        of_head = torch.stack(_weigh(candidates[heads[below]], self.words[1]), 1)
        return Weights(own + of_head, self._root_weights(sentence)[~below])

    def _root_weights(self, sentence: Sentence) -> Float[Tensor, "word 2 map"]:
        dependents, candidates = self._vectors(sentence)
        own, of_root = (
            torch.stack(_weigh(vectors, part), 1)
            for vectors, part in zip((dependents, candidates[:1]), self.root, strict=True)
        )
        return own + of_root

    def _vectors(self, sentence: Sentence) -> tuple[Tensor, Tensor]:
        """Vectors of the dependents, and of the candidates in the order of their maps: the root, then the words."""
        words = pad(sentence.vectors, (0, 1))
        root = torch.nn.functional.one_hot(torch.tensor([words.shape[1] - 1]), words.shape[1]).to(words.dtype)
        return words, torch.cat([words, root] if self.faithful else [root, words])


class DistanceAndWords(ParserProbe):
    """No attention: one hidden layer over both words' vectors and their distance."""

    def __init__(self, width: int, *, seed: int) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        inputs = 2 * (width + 1) + 2 * (len(SHORT) + 1)

        def drawn(*size: int, fan_in: int) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.randn(*size, generator=draw) / fan_in**0.5)

        self.dependent = drawn(width + 1, HIDDEN, fan_in=inputs)
        self.candidate = drawn(width + 1, HIDDEN, fan_in=inputs)
        self.distance = drawn(2 * (len(SHORT) + 1), HIDDEN, fan_in=inputs)
        self.bias = torch.nn.Parameter(torch.zeros(HIDDEN))
        self.out = drawn(HIDDEN, fan_in=HIDDEN)

    def between(self, sentence: Sentence) -> Float[Tensor, "word word"]:
        """See `ParserProbe.between`."""
        words = pad(sentence.vectors, (0, 1))
        apart = distance_features(len(words)) @ self.distance
        return self._score((words @ self.dependent)[:, None] + words @ self.candidate + apart)

    def to_root(self, sentence: Sentence) -> Float[Tensor, " word"]:
        """See `ParserProbe.to_root`: the root has its own vector and no distance."""
        return self._score(pad(sentence.vectors, (0, 1)) @ self.dependent + self.candidate[-1])

    def _score(self, hidden: Tensor) -> Tensor:
        return (hidden + self.bias).tanh() @ self.out


def distance_features(words: int) -> Float[Tensor, "word word 8"]:
    """Distance of the second word, behind (first four) or ahead (last four): 1, 2 or 3 words, and its log.

    Example:
        >>> distance_features(3)[0, 2].tolist()[4:] == [0.0, 1.0, 0.0, torch.tensor(2.0).log1p().item()]
        True
    """
    place = torch.arange(words)
    ahead = place - place[:, None]
    sides = []
    for distance in (-ahead, ahead):
        short = [(distance == each).float() for each in SHORT]
        sides += [*short, distance.clamp_min(0).float().log1p()]
    return torch.stack(sides, -1)


def _weigh(vectors: Float[Tensor, "word width"], weights: Float[Tensor, "width 2 map"]) -> tuple[Tensor, Tensor]:
    """The contribution of each word to the weights of both kinds of map."""
    first, second = weights.unbind(1)
    return vectors @ first, vectors @ second
