"""A word's occurrences put into clusters: do these agree with the senses that people annotated?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lamina.analyses.word_senses.targets import SenseTargets, grouped

Method = Literal["kmeans", "agglomerative"]
LEAST = 5
"""Occurrences that a sense needs."""
MOST = 100
"""Occurrences of a word that are clustered, drawn at random."""
PERMUTATIONS = 200
_STARTS, _GROUPS = 50, 5
"""Of k-means: the best of all starts is kept; the best of each group of them says how stable it is."""
_STEPS = 100
_CLUSTERS = (2, 3, 4, 5)
"""Numbers of clusters that the silhouette chooses from."""


class Clustered(NamedTuple):
    """One word whose occurrences are clustered."""

    word: int
    rows: Int[np.ndarray, " occurrence"]
    senses: Int[np.ndarray, " occurrence"]
    """Numbered from 0."""


class Agreement(NamedTuple):
    """How far clusters agree with senses."""

    ami: float
    """Adjusted mutual information: 1 for the same groups, 0 for what chance gives."""
    null: Float[np.ndarray, " permutation"]
    """The same with the senses shuffled."""


def words_to_cluster(data: SenseTargets, *, most: int, seed: int = 0) -> list[Clustered]:
    """Words with two or more senses of at least 5 occurrences each, the most frequent first; training and scored texts.

    Only occurrences with a single sense count: one with two is in neither group.
    """
    single = np.flatnonzero(data.gold.sum(1) == 1)
    frequent = []
    for word, rows in grouped(data.word, single).items():
        senses = data.gold[rows].argmax(1)
        counts = np.bincount(senses, minlength=len(data.labels))
        rows_of_senses = rows[counts[senses] >= LEAST]
        if (counts >= LEAST).sum() > 1:
            frequent.append((word, rows_of_senses))
    frequent.sort(key=lambda candidate: (-len(candidate[1]), data.words[candidate[0]]))
    drawn = []
    for word, rows in frequent[:most]:
        drawn_rows = np.sort(np.random.default_rng([seed, word]).permutation(rows)[:MOST])
        _, senses = np.unique(data.gold[drawn_rows].argmax(1), return_inverse=True)
        if senses.max(initial=0) > 0:
            drawn.append(Clustered(word, drawn_rows, senses))
    return drawn


class Clusters(NamedTuple):
    """Clusters of a word's occurrences."""

    of: Int[np.ndarray, " occurrence"]
    within: float
    """Sum of squared distances from the clusters' means; NaN where that is not what is minimised."""
    stability: float
    """Adjusted Rand index of what one fifth of the starts finds with what another finds, mean over pairs of fifths."""


def clusters_of(vectors: Float[np.ndarray, "occurrence width"], count: int, method: Method, seed: int = 0) -> Clusters:
    """So many clusters of vectors of length 1: k-means, or average linkage over cosine distances.

    Example:
        >>> clusters_of(np.eye(2)[[0, 0, 1, 1, 1]], 2, "kmeans").stability
        1.0
    """
    if method == "agglomerative":
        from sklearn.cluster import AgglomerativeClustering

        labels = AgglomerativeClustering(count, metric="cosine", linkage="average").fit_predict(vectors)
        return Clusters(labels, float("nan"), 1.0)
    labels, within = _kmeans(np.asarray(vectors, np.float64), count, np.random.default_rng(seed))
    best = np.array([part[within[part].argmin()] for part in np.array_split(np.arange(_STARTS), _GROUPS)])
    return Clusters(labels[within.argmin()], float(within.min()), _stability(labels[best]))


def _kmeans(
    vectors: Float[np.ndarray, "occurrence width"], count: int, rng: np.random.Generator
) -> tuple[Int[np.ndarray, "start occurrence"], Float[np.ndarray, " start"]]:
    """Lloyd's iterations from many k-means++ starts at once, by inner products alone."""
    gram = vectors @ vectors.T
    squares = gram.diagonal()
    apart = np.maximum(squares[:, None] + squares - 2 * gram, 0)
    centres = rng.integers(len(vectors), size=(_STARTS, 1))
    nearest = apart[centres[:, 0]]
    while centres.shape[1] < count:
        chances = nearest.cumsum(1)
        drawn = rng.random(_STARTS) * chances[:, -1]
        following = np.minimum((chances < drawn[:, None]).sum(1), len(vectors) - 1)
        centres = np.concatenate([centres, following[:, None]], 1)
        nearest = np.minimum(nearest, apart[following])
    labels = apart[centres].argmin(1)
    distance = np.zeros((_STARTS, len(vectors)))
    for _ in range(_STEPS):
        inside = (labels[..., None] == np.arange(count)).astype(float)
        sizes = inside.sum(1, keepdims=True)
        products = (gram @ inside.transpose(1, 0, 2).reshape(len(vectors), -1)).reshape(len(vectors), _STARTS, count)
        products = products.transpose(1, 0, 2) / np.maximum(sizes, 1)
        lengths = (products * inside).sum(1, keepdims=True) / np.maximum(sizes, 1)
        # Where vectors are the same there are fewer clusters, which is as it should be.
        from_centres = np.where(sizes > 0, squares[:, None] - 2 * products + lengths, np.inf)
        before, labels = labels, from_centres.argmin(2)
        distance = np.take_along_axis(from_centres, labels[..., None], 2)[..., 0]
        if (labels == before).all():
            break
    return labels, np.maximum(distance, 0).sum(1)


def _stability(labels: Int[np.ndarray, "group occurrence"]) -> float:
    from sklearn.metrics import adjusted_rand_score

    return float(np.mean([adjusted_rand_score(one, other) for one, other in combinations(labels, 2)]))


def chosen_clusters(vectors: Float[np.ndarray, "occurrence width"], method: Method, seed: int = 0) -> Clusters:
    """As many clusters, from 2 to 5, as give the best silhouette (cosine)."""
    from sklearn.metrics import silhouette_score

    tried = [clusters_of(vectors, count, method, seed) for count in _CLUSTERS if count < len(vectors)]
    worth = [
        silhouette_score(vectors, clusters.of, metric="cosine")
        if 1 < len(np.unique(clusters.of)) < len(vectors)
        else -2.0
        for clusters in tried
    ]
    return tried[int(np.argmax(worth))]


def agreement(
    clusters: Int[np.ndarray, " occurrence"], senses: Int[np.ndarray, " occurrence"], *, seed: int | Sequence[int] = 0
) -> Agreement:
    """Adjusted mutual information of clusters and senses, and the same with senses shuffled.

    Shuffling changes no count of a cluster or sense, so that only the mutual information is computed anew.

    Example:
        >>> senses = np.array([0, 0, 0, 1, 1, 1])
        >>> round(agreement(1 - senses, senses).ami, 6)
        1.0
    """
    from scipy.sparse import csr_matrix
    from sklearn.metrics.cluster import expected_mutual_information

    _, clusters = np.unique(clusters, return_inverse=True)
    shape = int(clusters.max()) + 1, int(senses.max()) + 1
    rng = np.random.default_rng(seed)
    drawn = np.stack([senses, *(rng.permutation(senses) for _ in range(PERMUTATIONS))])
    cells = clusters * shape[1] + drawn
    tables = np.stack([np.bincount(cells_of_draw, minlength=shape[0] * shape[1]) for cells_of_draw in cells]).reshape(
        -1, *shape
    )
    if min(shape) < 2:
        # One cluster tells nothing.
        return Agreement(0.0, np.zeros(PERMUTATIONS))
    shares = tables / len(senses)
    by_cluster, by_sense = shares[0].sum(1), shares[0].sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mutual = np.nansum(shares * np.log(shares / np.outer(by_cluster, by_sense)), axis=(1, 2))
    expected = expected_mutual_information(csr_matrix(tables[0]), len(senses))
    most = (_entropy(by_cluster) + _entropy(by_sense)) / 2
    adjusted = (mutual - expected) / max(most - expected, np.finfo(float).eps)
    return Agreement(float(adjusted[0]), adjusted[1:])


def _entropy(shares: np.ndarray) -> float:
    return float(-(shares * np.log(shares)).sum())
