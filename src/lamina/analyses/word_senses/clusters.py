"""A word's occurrences put into clusters: do these agree with the senses that people annotated?"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lamina.analyses.word_senses.targets import SenseTargets, grouped

Method = Literal["kmeans", "agglomerative"]
LEAST = 5
"""Occurrences that a sense needs."""
MOST = 100
"""Occurrences of a word that are clustered, drawn at random."""
PERMUTATIONS = 100
_STARTS = 3
"""Of k-means; the best is kept."""
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
    found = []
    for word, rows in grouped(data.word, single).items():
        senses = data.gold[rows].argmax(1)
        counts = np.bincount(senses, minlength=len(data.labels))
        kept = rows[counts[senses] >= LEAST]
        if (counts >= LEAST).sum() > 1:
            found.append((word, kept))
    found.sort(key=lambda each: (-len(each[1]), data.words[each[0]]))
    drawn = []
    for word, rows in found[:most]:
        own = np.sort(np.random.default_rng([seed, word]).permutation(rows)[:MOST])
        _, senses = np.unique(data.gold[own].argmax(1), return_inverse=True)
        if senses.max(initial=0) > 0:
            drawn.append(Clustered(word, own, senses))
    return drawn


def clusters_of(
    vectors: Float[np.ndarray, "occurrence width"], count: int, method: Method, seed: int = 0
) -> Int[np.ndarray, " occurrence"]:
    """So many clusters of vectors of length 1: k-means, or average linkage over cosine distances."""
    if method == "agglomerative":
        from sklearn.cluster import AgglomerativeClustering

        return AgglomerativeClustering(count, metric="cosine", linkage="average").fit_predict(vectors)
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # Where vectors are the same there are fewer clusters, which is as it should be.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return KMeans(count, n_init=_STARTS, random_state=seed).fit_predict(vectors)  # pyright: ignore[reportArgumentType]


def chosen_clusters(
    vectors: Float[np.ndarray, "occurrence width"], method: Method, seed: int = 0
) -> Int[np.ndarray, " occurrence"]:
    """As many clusters, from 2 to 5, as give the best silhouette (cosine)."""
    from sklearn.metrics import silhouette_score

    tried = [clusters_of(vectors, count, method, seed) for count in _CLUSTERS if count < len(vectors)]
    worth = [
        silhouette_score(vectors, each, metric="cosine") if 1 < len(np.unique(each)) < len(vectors) else -2.0
        for each in tried
    ]
    return tried[int(np.argmax(worth))]


def agreement(
    clusters: Int[np.ndarray, " occurrence"], senses: Int[np.ndarray, " occurrence"], *, seed: int = 0
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
    tables = np.stack([np.bincount(each, minlength=shape[0] * shape[1]) for each in cells]).reshape(-1, *shape)
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


def weighted(agreements: Sequence[Agreement], sizes: Sequence[int]) -> tuple[float, Float[np.ndarray, " permutation"]]:
    """The mean over words, each weighed by its occurrences, and its null."""
    weights = np.array(sizes, float) / sum(sizes)
    return (
        float(weights @ np.array([each.ami for each in agreements])),
        weights @ np.stack([each.null for each in agreements]),
    )
