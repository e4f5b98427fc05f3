"""Annotated trees: checked, and as distances, depths and links."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from lamina.analyses.heads.trees import UNKNOWN, gold_tree
from lamina.corpora import Corpus
from lamina.errors import CorpusError
from lamina.probes.parsers import ROOT
from lamina.types import Text

PAPER_TAGS = frozenset(["''", ",", ".", ":", "``", "-LRB-", "-RRB-"])
"""The tags (`xpos`) of words that the released code leaves out."""


@dataclass(frozen=True, eq=False)
class GoldTree:
    """One sentence's tree."""

    heads: Int[np.ndarray, " word"]
    """Candidate numbers, as parsers have them: 0 for the root, j + 1 for word j."""
    punctuation: Bool[np.ndarray, " word"]
    """Left out of links and roots."""
    key: str
    """The text's id."""
    unit: str
    """What is resampled: the document."""
    words: tuple[str, ...]
    repaired: bool = False
    """Whether links are those of the smallest tree over words that are not punctuation, as in the released code."""

    def __len__(self) -> int:
        return len(self.heads)

    @property
    def root(self) -> int:
        """The word without a head."""
        return int(np.flatnonzero(self.heads == ROOT)[0])

    @cached_property
    def distances(self) -> Int[np.ndarray, "word word"]:
        """Links between each two words."""
        size = len(self.heads)
        distances = np.zeros((size, size), np.int16)
        placed: list[int] = []
        # From the root down: a word's distances are those of its head, and one more.
        for word in np.argsort(self.depths, kind="stable"):
            if placed:
                head = self.heads[word] - 1
                distances[word, placed] = distances[placed, word] = distances[head, placed] + 1
            placed.append(int(word))
        return distances

    @cached_property
    def depths(self) -> Int[np.ndarray, " word"]:
        """Links from each word to the root."""
        depths = np.zeros(len(self.heads), np.int16)
        above = self.heads - 1
        ancestor = above.copy()
        while (going := ancestor >= 0).any():
            depths += going
            ancestor = np.where(going, above[np.maximum(ancestor, 0)], -1)
        return depths

    @cached_property
    def unpunctuated(self) -> Int[np.ndarray, " word"]:
        """Words that are not punctuation."""
        return np.flatnonzero(~self.punctuation)

    @cached_property
    def links(self) -> Int[np.ndarray, "link 2"]:
        """Pairs of words, neither of them punctuation, that are linked; the smaller number first."""
        if self.repaired:
            return smallest_tree(self.distances.astype(float), self.unpunctuated)
        below = np.flatnonzero((self.heads != ROOT) & ~self.punctuation)
        links = np.stack([below, self.heads[below] - 1], 1)
        return np.sort(links[~self.punctuation[links[:, 1]]], 1)


def smallest_tree(distances: np.ndarray, words: Int[np.ndarray, " word"]) -> Int[np.ndarray, "link 2"]:
    """The minimum spanning tree of some words, as pairs; among equal distances the pair that comes first.

    Kruskal's algorithm over pairs in a stable order, as the released code has it: ties are decided alike.

    Example:
        >>> smallest_tree(np.array([[0, 1, 2.0], [1, 0, 1.5], [2, 1.5, 0]]), np.arange(3)).tolist()
        [[0, 1], [1, 2]]
    """
    one, other = np.triu_indices(len(words), 1)
    pairs = np.stack([words[one], words[other]], 1)
    part = {int(word): int(word) for word in words}

    def find(word: int) -> int:
        while part[word] != word:
            part[word] = part[part[word]]
            word = part[word]
        return word

    links = []
    for pair in np.argsort(distances[pairs[:, 0], pairs[:, 1]], kind="stable"):
        a, b = find(int(pairs[pair, 0])), find(int(pairs[pair, 1]))
        if a != b:
            part[a] = b
            links.append(pairs[pair])
            if len(links) == len(words) - 1:
                break
    return np.array(links, int).reshape(-1, 2)


def gold_of(text: Text, unit: str, *, faithful: bool = False) -> GoldTree:
    """A text's tree; a CorpusError where its heads are not those of one tree.

    Example:
        >>> from lamina.types import Edge, Span
        >>> words = [Span(0, 1), Span(1, 2)]
        >>> dep = (Edge(("nsubj",), words[0], words[1]), Edge(("root",), words[1], words[1]))
        >>> gold_of(Text("t", ("Dogs", "bark"), edges={"dep": dep}), "t").distances.tolist()
        [[0, 1], [1, 0]]
    """
    tree = gold_tree(text)
    heads, punctuation = tree.heads, tree.punctuation
    if ROOT not in heads and (heads == UNKNOWN).sum() == 1:
        # Some annotations leave the root out: it is the word without a head.
        heads = np.where(heads == UNKNOWN, ROOT, heads)
    _refuse_no_tree(text, heads)
    if faithful:
        punctuation = np.zeros(len(text.words), bool)
        for edge in text.edges.get("xpos", ()):
            punctuation[edge.span.start : edge.span.end] = not PAPER_TAGS.isdisjoint(edge.labels)
    return GoldTree(heads, punctuation, text.id, unit, text.words, repaired=faithful)


def refuse_without_heads(corpora: Iterable[Corpus], *, faithful: bool) -> None:
    """A sentence where a corpus has no dependencies, or not the tags that the released code knows punctuation by."""
    for corpus in corpora:
        if "dep" not in corpus.annotations:
            has = ", ".join(corpus.annotations) or "none"
            raise CorpusError(
                f"{corpus.name} ({corpus.split}) has no heads (annotation dep; it has: {has}); name a treebank, for "
                "example ewt, or a CoNLL-U file with heads"
            )
        if faithful and "xpos" not in corpus.annotations:
            raise CorpusError(
                f"{corpus.name} ({corpus.split}) has no tags of the Penn Treebank (annotation xpos), by which "
                "--faithful knows punctuation; leave --faithful out"
            )


def _refuse_no_tree(text: Text, heads: Int[np.ndarray, " word"]) -> None:
    wrong = _wrong(text, heads)
    if wrong:
        raise CorpusError(
            f"text {text.id!r} has no tree: {wrong}. Correct its heads, or leave it out; texts of several "
            "sentences need --unit sentence"
        )


def _wrong(text: Text, heads: Int[np.ndarray, " word"]) -> str | None:
    if not len(heads):
        return "it has no words"
    unknown = np.flatnonzero(heads == UNKNOWN)
    if len(unknown):
        return f"word {unknown[0] + 1} ({text.words[unknown[0]]!r}) has no head"
    roots = np.flatnonzero(heads == ROOT)
    if len(roots) != 1:
        named = " and ".join(f"{word + 1} ({text.words[word]!r})" for word in roots[:2])
        return f"words {named} are both roots" if len(roots) else "no word is the root, so its heads form a cycle"
    ancestor = heads - 1
    for _ in range(int(np.ceil(np.log2(len(heads) + 1))) + 1):
        # Pointers twice as far each time: all but those in cycles come out at the root.
        ancestor = np.where(ancestor >= 0, ancestor[np.maximum(ancestor, 0)], -1)
    caught = np.flatnonzero(ancestor >= 0)
    if len(caught):
        return f"the heads of word {caught[0] + 1} ({text.words[caught[0]]!r}) form a cycle"
    return None


# Maximum spanning arborescences: the best directed tree in a matrix of scores (Chu and Liu 1965, Edmonds 1967).


def arborescence(scores: Float[np.ndarray, "head dependent"], root: int | None = None) -> Int[np.ndarray, " dependent"]:
    """Each word's head in the directed tree whose links have the largest sum; -1 for the root.

    Args:
        scores: of (first) as the head of (second).
        root: the word without a head; by default the one with which the sum is largest.

    Example:
        >>> scores = np.array([[0, 5, 1], [6, 0, 4], [2, 1, 0]], float)
        >>> arborescence(scores).tolist(), arborescence(scores, root=0).tolist()
        ([1, -1, 1], [-1, 0, 1])
    """
    size = len(scores)
    if root is not None:
        return _heads(_masked(scores, root), root)
    # A node before all words, whose links cost more than any tree could gain by a second one.
    spread = float(np.ptp(scores)) + 1.0
    wider = np.full((size + 1, size + 1), scores.min() - (size + 1) * spread)
    wider[:size, :size] = scores
    heads = _heads(_masked(wider, size), size)[:size]
    return np.where(heads == size, -1, heads)


def rooted(scores: Float[np.ndarray, "head dependent"], roots: Float[np.ndarray, " word"]) -> Int[np.ndarray, " word"]:
    """As `arborescence`, where a word has a score as root, too: one root, chosen by it and by its tree.

    Example:
        >>> rooted(np.zeros((3, 3)), np.array([0.0, 2.0, 1.0])).tolist()[1]
        -1
    """
    size = len(scores)
    spread = float(np.ptp(scores)) + float(np.ptp(roots)) + 1.0
    wider = np.full((size + 1, size + 1), scores.min() - (size + 1) * spread)
    wider[:size, :size] = scores
    wider[size, :size] = roots - roots.max() + scores.min() - (size + 1) * spread
    heads = _heads(_masked(wider, size), size)[:size]
    return np.where(heads == size, -1, heads)


def directed_from(links: Int[np.ndarray, "link 2"], size: int, root: int) -> Int[np.ndarray, " word"]:
    """Heads of an undirected tree whose root is known; -1 for the root and for words that no link reaches.

    Example:
        >>> directed_from(np.array([[0, 1], [1, 2]]), 3, root=2).tolist()
        [1, 2, -1]
    """
    neighbours: list[list[int]] = [[] for _ in range(size)]
    for one, other in links.tolist():
        neighbours[one].append(other)
        neighbours[other].append(one)
    heads = np.full(size, -1)
    seen, waiting = {root}, [root]
    while waiting:
        word = waiting.pop()
        for other in neighbours[word]:
            if other not in seen:
                seen.add(other)
                heads[other] = word
                waiting.append(other)
    return heads


def _masked(scores: np.ndarray, root: int) -> np.ndarray:
    masked = scores.astype(float)
    np.fill_diagonal(masked, -np.inf)
    masked[:, root] = -np.inf
    return masked


def _heads(scores: np.ndarray, root: int) -> np.ndarray:
    """Every word takes its best head; a cycle becomes one node, entered where that costs least."""
    heads = scores.argmax(0)
    heads[root] = -1
    cycle = _cycle(heads)
    if cycle is None:
        return heads
    inside = np.zeros(len(heads), bool)
    inside[cycle] = True
    ring, rest = np.flatnonzero(inside), np.flatnonzero(~inside)
    many = len(rest)
    gains = scores[rest[:, None], ring] - scores[heads[ring], ring]
    leaving = scores[ring[:, None], rest]
    entered, left = gains.argmax(1), leaving.argmax(0)
    smaller = np.full((many + 1, many + 1), -np.inf)
    smaller[:many, :many] = scores[rest[:, None], rest]
    smaller[:many, many] = gains[np.arange(many), entered]
    smaller[many, :many] = leaving[left, np.arange(many)]
    inner = _heads(smaller, int(np.searchsorted(rest, root)))
    below = inner[:many]
    heads[rest] = np.where(below == many, ring[left], np.where(below < 0, -1, rest[np.minimum(below, many - 1)]))
    enters = inner[many]
    heads[ring[entered[enters]]] = rest[enters]
    return heads


def _cycle(heads: np.ndarray) -> list[int] | None:
    above = heads.tolist()
    seen = [-1] * len(above)
    for start in range(len(above)):
        word, path = start, []
        while word >= 0 and seen[word] < 0:
            seen[word] = start
            path.append(word)
            word = above[word]
        if word >= 0 and seen[word] == start:
            return path[path.index(word) :]
    return None
