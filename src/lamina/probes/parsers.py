"""Parsers from attention: each scores every candidate head of every word, after Clark et al. (2019), section 5."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

ROOT = 0
"""The candidate for "no head"; the word at position j is candidate j + 1."""

HIDDEN = 256
SHORT = (1, 2, 3)
"""Distances with their own indicator feature."""


class ParserInput(NamedTuple):
    """The input of a probe for one sentence."""

    maps: Float[Tensor, "word word map"]
    """Attention from (first) to (second), one map per head of the model."""
    special: Float[Tensor, "word 2 map"]
    """Attention from each word to the first token and to the separators, used to score the root."""
    vectors: Float[Tensor, "word width"]
    """Static vectors of the words."""


class ParserProbe(torch.nn.Module, ABC):
    """Scores of candidate heads; a word is not a candidate for itself."""

    def forward(self, sentence: ParserInput) -> Float[Tensor, "word candidate"]:
        """The score of every candidate for every word, the root first; minus infinity for the word itself."""
        between = self.between(sentence)
        itself = torch.eye(len(between), dtype=torch.bool)
        return torch.cat([self.to_root(sentence)[:, None], between.masked_fill(itself, -torch.inf)], 1)

    @abstractmethod
    def between(self, sentence: ParserInput) -> Float[Tensor, "word word"]:
        """Scores of (second) as the head of (first)."""

    @abstractmethod
    def to_root(self, sentence: ParserInput) -> Float[Tensor, " word"]:
        """Scores of each word as the root."""


class MapWeights(NamedTuple):
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
        >>> probe(ParserInput(maps, torch.zeros(2, 2, 1), torch.zeros(2, 5))).tolist()
        [[0.0, -inf, 0.5], [0.0, 0.5, -inf]]
    """

    def __init__(self, maps: int) -> None:
        super().__init__()
        # The loss is convex in them, so no random initialisation is needed.
        self.words = torch.nn.Parameter(torch.zeros(2, maps))
        self.root = torch.nn.Parameter(torch.zeros(2, maps))

    def between(self, sentence: ParserInput) -> Float[Tensor, "word word"]:
        """See `ParserProbe.between`."""
        row, column = (sentence.maps @ self.words.T).unbind(-1)
        return row + column.T

    def to_root(self, sentence: ParserInput) -> Float[Tensor, " word"]:
        """See `ParserProbe.to_root`."""
        return (sentence.special * self.root).sum((1, 2))

    def weights(self, sentence: ParserInput, heads: Int[Tensor, " word"]) -> MapWeights:
        """The weights of each word's maps in the score of its head (candidate numbers): the same for all."""
        roots = int((heads == ROOT).sum())
        return MapWeights(self.words.expand(len(heads) - roots, -1, -1), self.root.expand(roots, -1, -1))


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

    def between(self, sentence: ParserInput) -> Float[Tensor, "word word"]:
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

    def to_root(self, sentence: ParserInput) -> Float[Tensor, " word"]:
        """See `ParserProbe.to_root`."""
        return (sentence.special * self._root_weights(sentence)).sum((1, 2))

    def weights(self, sentence: ParserInput, heads: Int[Tensor, " word"]) -> MapWeights:
        """The weights of each word's maps in the score of its head (candidate numbers)."""
        dependents, candidates = self._vectors(sentence)
        below = heads != ROOT
        of_dependent = torch.stack(_weigh(dependents[below], self.words[0]), 1)
        of_head = torch.stack(_weigh(candidates[heads[below]], self.words[1]), 1)
        return MapWeights(of_dependent + of_head, self._root_weights(sentence)[~below])

    def _root_weights(self, sentence: ParserInput) -> Float[Tensor, "word 2 map"]:
        dependents, candidates = self._vectors(sentence)
        of_dependent, of_root = (
            torch.stack(_weigh(vectors, part), 1)
            for vectors, part in zip((dependents, candidates[:1]), self.root, strict=True)
        )
        return of_dependent + of_root

    def _vectors(self, sentence: ParserInput) -> tuple[Tensor, Tensor]:
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

    def between(self, sentence: ParserInput) -> Float[Tensor, "word word"]:
        """See `ParserProbe.between`."""
        words = pad(sentence.vectors, (0, 1))
        apart = distance_features(len(words)) @ self.distance
        return self._score((words @ self.dependent)[:, None] + words @ self.candidate + apart)

    def to_root(self, sentence: ParserInput) -> Float[Tensor, " word"]:
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
        short = [(distance == length).float() for length in SHORT]
        sides += [*short, distance.clamp_min(0).float().log1p()]
    return torch.stack(sides, -1)


def _weigh(vectors: Float[Tensor, "word width"], weights: Float[Tensor, "width 2 map"]) -> tuple[Tensor, Tensor]:
    """The contribution of each word to the weights of both kinds of map."""
    first, second = weights.unbind(1)
    return vectors @ first, vectors @ second


# A bilinear probe that finds the word another word belongs to: a dependent's head, a mention's antecedent.
#
# For a word and every other word of its text it gives one number, from the vectors of both; the highest is its answer.

RANK = 32
"""Of the bilinear form."""
_RATE, _DECAY = 3e-3, 1e-2
_BATCH = 16
"""Texts of a step."""
_EPOCHS, _PATIENCE = 60, 4


class LinkedText(NamedTuple):
    """A text whose words are to be linked."""

    vectors: Float[np.ndarray, "word width"]
    links: tuple[tuple[int, frozenset[int]], ...]
    """Words, each with those it may be linked to."""


@dataclass(frozen=True)
class LinkingProbe:
    """A trained probe."""

    start: Float[Tensor, "width rank"]
    end: Float[Tensor, "width rank"]
    alone: Float[Tensor, " width"]
    """Scores a word as a head or antecedent, independently of the word that points to it."""
    middle: Float[Tensor, " width"]
    spread: Float[Tensor, " width"]
    converged: bool
    """Whether training stopped because held-out texts gained nothing any more."""

    def logits(
        self, vectors: Float[Tensor, "text word width"], words: Bool[Tensor, "text word"]
    ) -> Float[Tensor, "text word word"]:
        """From each word to each other; no word belongs to itself, or to padding (where `words` is false)."""
        device = vectors.device
        start, end, alone, middle, spread = (
            tensor.to(device) for tensor in (self.start, self.end, self.alone, self.middle, self.spread)
        )
        seen = (vectors.float() - middle) / spread
        scores = (seen @ start) @ (seen @ end).transpose(1, 2) + (seen @ alone)[:, None]
        barred = ~words[:, None] | torch.eye(words.shape[1], dtype=torch.bool, device=device)
        return scores.masked_fill(barred, -torch.inf)


def train_linking_probe(
    learn: Sequence[LinkedText], stop: Sequence[LinkedText], *, seed: int, device: torch.device | str
) -> LinkingProbe:
    """Fit a probe; training stops when it finds no more links of `stop`, and the best state is kept.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> texts = [LinkedText(np.eye(4, dtype=np.float32)[rng.permutation(4)], ()) for _ in range(80)]
        >>> # The word with feature 0 belongs to the word with feature 1.
        >>> links = [((int(t.vectors[:, 0].argmax()), frozenset({int(t.vectors[:, 1].argmax())})),) for t in texts]
        >>> texts = [t._replace(links=own) for t, own in zip(texts, links)]
        >>> probe = train_linking_probe(texts[:60], texts[60:], seed=0, device="cpu")
        >>> round(_share_right(probe, [_padded(texts[60:])]), 1)
        1.0
    """
    every = np.concatenate([text.vectors for text in learn]).astype(np.float64)
    middle, spread = every.mean(0), every.std(0)
    spread = np.where(spread > 1e-6 * max(float(spread.max()), 1e-30), spread, np.inf)
    width = every.shape[1]
    draw = torch.Generator().manual_seed(seed)
    start, end = (torch.randn(width, RANK, generator=draw) / (width * RANK) ** 0.5 for _ in range(2))
    fixed = [torch.from_numpy(tensor).float() for tensor in (middle, spread)]
    free = [tensor.to(device).requires_grad_() for tensor in (start, end, torch.zeros(width))]
    optimizer = torch.optim.AdamW(free, lr=_RATE, weight_decay=_DECAY)
    # Texts of similar length are in one batch.
    ordered = sorted(learn, key=lambda text: len(text.vectors))
    batches = [_padded(ordered[number : number + _BATCH], device) for number in range(0, len(ordered), _BATCH)]
    stop_batches = [_padded(stop[number : number + _BATCH], device) for number in range(0, len(stop), _BATCH)]
    rng = np.random.default_rng(seed)
    scale = [tensor.to(device) for tensor in fixed]
    probe = LinkingProbe(free[0], free[1], free[2], scale[0], scale[1], converged=False)
    best, best_weights, waited = -1.0, [tensor.detach().clone() for tensor in free], 0
    for _ in range(_EPOCHS):
        for number in rng.permutation(len(batches)):
            loss = _losses(probe, batches[number]).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        share = _share_right(probe, stop_batches)
        if share > best + 1e-4:
            best, best_weights, waited = share, [tensor.detach().clone() for tensor in free], 0
        else:
            waited += 1
        if waited == _PATIENCE:
            break
    return LinkingProbe(
        best_weights[0], best_weights[1], best_weights[2], scale[0], scale[1], converged=waited == _PATIENCE
    )


class _LinkingBatch(NamedTuple):
    """Texts, padded; and their links, one after the other."""

    vectors: Float[Tensor, "text word width"]
    words: Bool[Tensor, "text word"]
    text: Tensor
    start: Tensor
    right: Bool[Tensor, "link word"]


def _padded(texts: Sequence[LinkedText], device: torch.device | str = "cpu") -> _LinkingBatch:
    longest = max(len(text.vectors) for text in texts)
    vectors = np.zeros((len(texts), longest, texts[0].vectors.shape[1]), np.float32)
    words = np.zeros((len(texts), longest), bool)
    links = [(number, *link) for number, text in enumerate(texts) for link in text.links]
    right = np.zeros((len(links), longest), bool)
    for number, text in enumerate(texts):
        vectors[number, : len(text.vectors)] = text.vectors
        words[number, : len(text.vectors)] = True
    for row, (_, _, ends) in enumerate(links):
        right[row, list(ends)] = True
    owner, start = (np.array([link[part] for link in links], np.int64) for part in (0, 1))
    return _LinkingBatch(*(torch.from_numpy(array).to(device) for array in (vectors, words, owner, start, right)))


def _losses(probe: LinkingProbe, batch: _LinkingBatch) -> Float[Tensor, " link"]:
    logits = probe.logits(batch.vectors, batch.words)[batch.text, batch.start].log_softmax(-1)
    return -logits.masked_fill(~batch.right, -torch.inf).logsumexp(-1)


def _share_right(probe: LinkingProbe, batches: Sequence[_LinkingBatch]) -> float:
    right = total = 0
    with torch.no_grad():
        for batch in batches:
            answers = probe.logits(batch.vectors, batch.words)[batch.text, batch.start].argmax(-1)
            right += int(batch.right.gather(1, answers[:, None]).sum())
            total += len(answers)
    return right / max(total, 1)
