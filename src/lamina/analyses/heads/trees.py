"""Dependency trees: annotated ones, spanning trees, and parser probes that learn them from attention maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from lamina import assets
from lamina.errors import ModelError
from lamina.framework.watch import WatchedBatch, WatchedText, roles_of
from lamina.models import SPECIAL, Encoder, load_encoder
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.probes.parsers import ROOT, ParserInput, ParserProbe
from lamina.types import Text

UNKNOWN = -1


class DependencyTree(NamedTuple):
    """The annotated heads of a text's words."""

    heads: Int[np.ndarray, " word"]
    """Candidate numbers: 0 for the root, j + 1 for word j; UNKNOWN where there is no annotation."""
    punctuation: Bool[np.ndarray, " word"]
    """Not scored: tagged PUNCT, or related by punct."""

    @property
    def scored(self) -> Bool[np.ndarray, " word"]:
        """Words whose head counts."""
        return (self.heads != UNKNOWN) & ~self.punctuation

    @property
    def links(self) -> Int[np.ndarray, "link 2"]:
        """Dependents and heads, word by word, where both are words and neither is punctuation."""
        below = np.flatnonzero(self.scored & (self.heads != ROOT))
        links = np.stack([below, self.heads[below] - 1], 1)
        return links[~self.punctuation[links[:, 1]]]


def gold_tree(text: Text) -> DependencyTree:
    """A text's heads and punctuation, from `dep` and `pos`; the root is an edge of a word to itself.

    Example:
        >>> from lamina.types import Edge, Span
        >>> words = [Span(0, 1), Span(1, 2)]
        >>> dep = (Edge(("nsubj",), words[0], words[1]), Edge(("root",), words[1], words[1]))
        >>> gold_tree(Text("t", ("Dogs", "bark"), edges={"dep": dep})).heads.tolist()
        [2, 0]
    """
    heads = np.full(len(text.words), UNKNOWN)
    punctuation = np.zeros(len(text.words), bool)
    for edge in text.edges.get("dep", ()):
        # A dependency of several words has no one word whose head could be looked for.
        if edge.other is not None and len(edge.span) == len(edge.other) == 1:
            word = edge.span.start
            heads[word] = ROOT if edge.other == edge.span else edge.other.start + 1
            punctuation[word] |= any(label.partition(":")[0] == "punct" for label in edge.labels)
    for edge in text.edges.get("pos", ()):
        if "PUNCT" in edge.labels:
            punctuation[edge.span.start : edge.span.end] = True
    return DependencyTree(heads, punctuation)


def right_branching(words: int) -> Int[np.ndarray, " word"]:
    """Every word's head is the next word, the last word's the root.

    Example:
        >>> right_branching(3).tolist()
        [2, 3, 0]
    """
    return np.r_[np.arange(2, words + 1), ROOT]


def spanning_trees(weights: Float[np.ndarray, "tree word word"]) -> Int[np.ndarray, "tree word"]:
    """The maximum spanning tree of each symmetric matrix: every word's neighbour on the way to the first word.

    Prim's algorithm on all trees at once; the first word has itself.

    Example:
        >>> spanning_trees(np.array([[[0, 1, 5], [1, 0, 4], [5, 4, 0]]], float)).tolist()
        [[0, 2, 0]]
    """
    row = np.arange(len(weights))
    outside = np.ones(weights.shape[:2], bool)
    outside[:, 0] = False
    via = np.zeros(weights.shape[:2], int)
    reach = np.where(outside, weights[:, 0], -np.inf)
    for _ in range(1, weights.shape[1]):
        nearest = reach.argmax(1)
        outside[row, nearest] = False
        reach[row, nearest] = -np.inf
        from_there = weights[row, nearest]
        better = outside & (from_there > reach)
        np.copyto(via, nearest[:, None], where=better)
        np.copyto(reach, from_there, where=better)
    return via


def links_found(weights: Float[np.ndarray, "tree word word"], tree: DependencyTree) -> Int[np.ndarray, " tree"]:
    """How many annotated links each maximum spanning tree has, whichever way they point.

    Punctuation is left out of the trees, as it is of the annotated links. Of a pair's two weights the
    larger counts: a good parser gives one direction much and the other, for that very reason, little.
    """
    words = np.flatnonzero(~tree.punctuation)
    links = tree.links
    if not len(links):
        return np.zeros(len(weights), int)
    inner = weights[:, words[:, None], words]
    via = spanning_trees(np.maximum(inner, inner.transpose(0, 2, 1)))
    one, other = np.searchsorted(words, links).T
    return ((via[:, one] == other) | (via[:, other] == one)).sum(1)


GLOVE, MODEL = "glove", "model"


def default_vectors() -> str:
    """GloVe where this machine has it, the model's own token embeddings otherwise."""
    return GLOVE if assets.local_folder(GLOVE) else MODEL


def static_vectors(encoder: Encoder, name: str | None) -> Encoder:
    """Where words get their vectors: `model`, the model's own token embeddings, or the name or file of word vectors."""
    chosen = name or default_vectors()
    if chosen == MODEL:
        if not isinstance(encoder, HuggingFaceEncoder):
            raise ModelError(f"{encoder.name} has no token embeddings of its own; name word vectors, for example glove")
        return encoder.lexical()
    vectors = load_encoder(chosen)
    if vectors.blocks:
        raise ModelError(f"{chosen} is a model with contexts, not word vectors; name glove, model or a file of vectors")
    return vectors


def word_vectors(encoder: Encoder, text: Text) -> Float[torch.Tensor, "word width"]:
    """The static vector of every word: the mean of its tokens."""
    encoded = next(iter(encoder.encode([text])))
    if encoded.states is None:
        raise ModelError(f"{encoder.name} gave no vectors for text {text.id!r}")
    return _means(encoded.states[:, 0], encoded.tokens.words)


def to_sentence(watched: WatchedText, vectors: Encoder, *, causal: bool) -> ParserInput:
    """A watched text as probes see it."""
    maps = watched.words.maps.flatten(0, 1)
    roles = roles_of(watched.tokens, (), causal=causal)
    first = watched.maps[..., 0]
    separators = watched.maps[..., roles.separators].sum(-1)
    to_special = torch.stack([first.flatten(0, 1), separators.flatten(0, 1)], 1)
    by_token = to_special.permute(2, 1, 0)
    if watched.rows == "first":
        _, starts = np.unique(watched.tokens.words, return_index=True)
        special = by_token[torch.from_numpy(starts[-maps.shape[-1] :])]
    else:
        special = _means(by_token, watched.tokens.words)
    return ParserInput(maps.permute(1, 2, 0).contiguous(), special, word_vectors(vectors, watched.text))


def _means(tokens: torch.Tensor, words: np.ndarray) -> torch.Tensor:
    """The mean over the tokens of each word."""
    inside = torch.from_numpy(words != SPECIAL)
    owners = torch.from_numpy(words).long()[inside]
    counts = torch.bincount(owners)
    sums = tokens.new_zeros(len(counts), *tokens.shape[1:]).index_add_(0, owners, tokens[inside])
    return sums / counts.view(-1, *[1] * (tokens.ndim - 1))


LEARNING_RATE = 0.002

_WAITING_TEXTS = 1024
WAITING_BYTES = 256 * 2**20
"""Sentences that wait to be learned from, at most."""


class ParserTrainer:
    """Trains probes on one sentence at a time, all of them on the same stream.

    Texts come batch by batch, the longest first. A bounded number of them is held, in half precision, and learned from
    in an order drawn with the seed, so that lengths are mixed.
    """

    def __init__(self, probes: Mapping[str, ParserProbe], vectors: Encoder, *, causal: bool, seed: int) -> None:
        self._probes, self._vectors, self._causal = probes, vectors, causal
        # Adam moves each number by its own gradients alone: one optimiser for all is one for each.
        weights = [weight for probe in probes.values() for weight in probe.parameters()]
        self._adam = torch.optim.Adam(weights, lr=LEARNING_RATE, fused=True)
        self._rng = np.random.default_rng(seed)
        self._held: list[tuple[ParserInput, torch.Tensor]] = []
        self._bytes = 0
        self.sentences = 0
        """Learned from so far."""
        self.lone = 0
        """Of them, those of one word."""

    def update(self, batch: WatchedBatch) -> None:
        """See `Meter`."""
        for watched in batch.singly:
            self._hold(watched)

    def _hold(self, watched: WatchedText) -> None:
        heads = torch.from_numpy(gold_tree(watched.text).heads)
        if bool((heads == UNKNOWN).all()):
            return
        sentence = ParserInput(*(part.half() for part in to_sentence(watched, self._vectors, causal=self._causal)))
        self._held.append((sentence, heads))
        self._bytes += sum(part.nbytes for part in sentence)
        if len(self._held) >= _WAITING_TEXTS or self._bytes >= WAITING_BYTES:
            self.finish()

    def finish(self) -> None:
        """Learn from what is still held."""
        for number in self._rng.permutation(len(self._held)):
            sentence, heads = self._held[number]
            self._step(ParserInput(*(part.float() for part in sentence)), heads)
        self._held.clear()
        self._bytes = 0

    def _step(self, sentence: ParserInput, heads: torch.Tensor) -> None:
        known = heads != UNKNOWN
        self.sentences += 1
        self.lone += len(heads) == 1
        loss = torch.zeros(())
        for probe in self._probes.values():
            scores = probe(sentence)[known]
            # The sum: each word counts the same, whatever the length of its sentence.
            loss = loss + torch.nn.functional.cross_entropy(scores, heads[known], reduction="sum")
        self._adam.zero_grad()
        loss.backward()
        self._adam.step()
