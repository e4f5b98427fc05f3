"""Maximum spanning arborescences: the best directed tree in a matrix of scores (Chu and Liu 1965, Edmonds 1967)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int


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
