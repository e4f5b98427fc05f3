"""Dependency trees: those annotated, and those that matrices of weights span."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from lamina.probes.parsers import ROOT
from lamina.types import Text

UNKNOWN = -1


class Tree(NamedTuple):
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


def gold_tree(text: Text) -> Tree:
    """What `dep` and `pos` say of a text; the root is an edge of a word to itself.

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
    return Tree(heads, punctuation)


def right_branching(words: int) -> Int[np.ndarray, " word"]:
    """Every word hangs on the next one, the last on the root.

    Example:
        >>> right_branching(3).tolist()
        [2, 3, 0]
    """
    return np.r_[np.arange(2, words + 1), ROOT]


def spanning_trees(weights: Float[np.ndarray, "tree word word"]) -> Int[np.ndarray, "tree word"]:
    """The maximum spanning tree of each symmetric matrix: every word's neighbour on the way to the first word.

    Prim's way, all trees at once; the first word has itself.

    Example:
        >>> spanning_trees(np.array([[[0, 1, 5], [1, 0, 4], [5, 4, 0]]], float)).tolist()
        [[0, 2, 0]]
    """
    each = np.arange(len(weights))
    outside = np.ones(weights.shape[:2], bool)
    outside[:, 0] = False
    via = np.zeros(weights.shape[:2], int)
    reach = np.where(outside, weights[:, 0], -np.inf)
    for _ in range(1, weights.shape[1]):
        nearest = reach.argmax(1)
        outside[each, nearest] = False
        reach[each, nearest] = -np.inf
        from_there = weights[each, nearest]
        better = outside & (from_there > reach)
        np.copyto(via, nearest[:, None], where=better)
        np.copyto(reach, from_there, where=better)
    return via


def links_found(weights: Float[np.ndarray, "tree word word"], tree: Tree) -> Int[np.ndarray, " tree"]:
    """How many annotated links each maximum spanning tree has, whichever way they point.

    Punctuation is left out of the trees, as it is of the annotated links. Of a pair's two weights the
    larger counts: a good parser gives one direction much and the other, for that very reason, little.
    """
    kept = np.flatnonzero(~tree.punctuation)
    links = tree.links
    if not len(links):
        return np.zeros(len(weights), int)
    inner = weights[:, kept[:, None], kept]
    via = spanning_trees(np.maximum(inner, inner.transpose(0, 2, 1)))
    one, other = np.searchsorted(kept, links).T
    return ((via[:, one] == other) | (via[:, other] == one)).sum(1)
