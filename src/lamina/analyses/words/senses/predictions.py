"""Senses by nearest neighbours and by nearest centroids, by clusters, and their scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Real, Shaped

from lamina.analyses.words.senses.targets import SenseTargets, bag_of, grouped
from lamina.stats.best import best_set, cross_fit
from lamina.stats.bootstrap import ratio_draws
from lamina.stats.family import Contrasts, bootstrap_family, sign_flip_family
from lamina.stats.intervals import interval
from lamina.stats.status import LEAST_UNITS
from lamina.stats.units import CHOOSING, SCORED, UnitKind, Units, halve

ROWS, QUERIES = 4096, 1024
"""Vectors compared at once."""
TIED = 1e-6
"""Cosines this close are equal: rounding must not choose a neighbour among vectors that are the same."""
_PRIOR = 1e-3
"""Weight of a sense's share among the candidates, added to votes: it only decides ties."""


def count_votes(
    queries: Float[torch.Tensor, "query width"],
    rows: Float[torch.Tensor, "row width"],
    votes: Float[torch.Tensor, "row label"],
    ks: Sequence[int],
    *,
    groups: tuple[Int[torch.Tensor, " query"], Int[torch.Tensor, " row"]] | None = None,
) -> list[Float[torch.Tensor, "query label"]]:
    """The votes of each query's k nearest rows, for each k; rows as near as the k-th vote too.

    Vectors have length 1. With `groups`, rows of the query's group are no neighbours. Two passes over blocks:
    the first finds how near the k-th neighbour is, the second counts.

    Example:
        >>> rows = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> [each.tolist() for each in count_votes(rows[:1], rows, torch.eye(3), [1, 2])]
        [[[1.0, 0.0, 0.0]], [[1.0, 1.0, 0.0]]]
    """
    blocks_by_k = [[] for _ in ks]
    for start in range(0, len(queries), QUERIES):
        block = slice(start, start + QUERIES)
        block_groups = None if groups is None else (groups[0][block], groups[1])
        best = queries.new_full((len(queries[block]), max(ks)), -torch.inf)
        for _, alike in _blocks(queries[block], rows, block_groups):
            best = torch.cat((best, alike), 1).topk(max(ks), dim=1).values
        counted = [votes.new_zeros(len(best), votes.shape[1]) for _ in ks]
        for part, alike in _blocks(queries[block], rows, block_groups):
            for k, into in zip(ks, counted, strict=True):
                # Where there are fewer rows than k, all of them vote.
                reached = best[:, k - 1 : k].clamp(min=-2) - TIED
                into += (alike >= reached).to(votes) @ votes[part]
        for number, into in enumerate(counted):
            blocks_by_k[number].append(into)
    return [torch.cat(blocks) if blocks else votes.new_zeros(0, votes.shape[1]) for blocks in blocks_by_k]


def _blocks(
    queries: torch.Tensor, rows: torch.Tensor, groups: tuple[torch.Tensor, torch.Tensor] | None
) -> Iterator[tuple[slice, torch.Tensor]]:
    for start in range(0, len(rows), ROWS):
        part = slice(start, start + ROWS)
        alike = queries @ rows[part].T
        if groups is not None:
            alike.masked_fill_(groups[0][:, None] == groups[1][None, part], -torch.inf)
        yield part, alike


def predict_within(
    data: SenseTargets, vectors: Float[torch.Tensor, "target width"], ks: Sequence[int], *, capped: bool = False
) -> dict[str, Int[np.ndarray, " scored"]]:
    """The sense of each scored target by training occurrences of the same word: by `knnK`, and by `centroid`.

    Words with one sense in training get it, and words without any get the most frequent sense of all. Equal votes are
    decided by how often the word has these senses. With `capped`, k is no larger than the number of occurrences of
    the word's rarest sense (Wiedemann et al. 2019).
    """
    fallback = data.most_frequent[data.word[data.scored]]
    predicted = {name: fallback.copy() for name in (*(f"knn{k}" for k in ks), "centroid")}
    place = np.full(len(data.word), -1)
    place[data.scored] = np.arange(len(data.scored))
    for word, queries, rows in data.by_word():
        there = np.flatnonzero(data.frequency[word] > 0)
        frequencies = data.frequency[word, there]
        prior = torch.from_numpy(_PRIOR * frequencies / frequencies.sum()).to(vectors.device)
        votes = torch.from_numpy(data.votes[np.ix_(rows, there)]).to(vectors.device)
        query_vectors, known = vectors[queries], vectors[rows]
        most = max(1, int(np.floor(frequencies.min()))) if capped else max(ks)
        for k, counted in zip(ks, count_votes(query_vectors, known, votes, [min(k, most) for k in ks]), strict=True):
            predicted[f"knn{k}"][place[queries]] = there[(counted + prior).argmax(1).cpu().numpy()]
        centres = torch.nn.functional.normalize(votes.T @ known, dim=1)
        alike = query_vectors @ centres.T
        best = alike.max(1, keepdim=True).values
        near = (alike >= best - TIED).to(prior) * (1 + prior)
        predicted["centroid"][place[queries]] = there[near.argmax(1).cpu().numpy()]
    return predicted


def predict_across(
    data: SenseTargets, vectors: Float[torch.Tensor, "target width"], ks: Sequence[int]
) -> dict[str, Int[np.ndarray, " scored"]]:
    """The sense of each scored target by training occurrences of all other words: `acrossK`."""
    device = vectors.device
    rows = np.flatnonzero(data.train)
    groups = tuple(torch.from_numpy(data.word[targets]).to(device) for targets in (data.scored, rows))
    overall = data.frequency.sum(0)
    prior = torch.from_numpy(_PRIOR * overall / overall.sum()).to(device)
    votes = torch.from_numpy(data.votes[rows]).to(device)
    counted = count_votes(vectors[data.scored], vectors[rows], votes, ks, groups=(groups[0], groups[1]))
    return {f"across{k}": (counts + prior).argmax(1).cpu().numpy() for k, counts in zip(ks, counted, strict=True)}


# Clusters of a word's occurrences, and their agreement with the annotated senses.

ClusterMethod = Literal["kmeans", "agglomerative"]
LEAST = 5
"""Occurrences that a sense needs."""
MOST = 100
"""Occurrences of a word that are clustered, drawn at random."""
PERMUTATIONS = 200
_STARTS, _GROUPS = 50, 5
"""Of k-means: the best of all starts is kept; the best of each group of them shows how stable it is."""
_STEPS = 100
_CLUSTERS = (2, 3, 4, 5)
"""Numbers of clusters that the silhouette chooses from."""


class ClusteredWord(NamedTuple):
    """One word whose occurrences are clustered."""

    word: int
    rows: Int[np.ndarray, " occurrence"]
    senses: Int[np.ndarray, " occurrence"]
    """Numbered from 0."""


class SenseAgreement(NamedTuple):
    """How far clusters agree with senses."""

    ami: float
    """Adjusted mutual information: 1 for the same groups, 0 for what chance gives."""
    null: Float[np.ndarray, " permutation"]
    """The same with the senses shuffled."""


def words_to_cluster(data: SenseTargets, *, most: int, seed: int = 0) -> list[ClusteredWord]:
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
            drawn.append(ClusteredWord(word, drawn_rows, senses))
    return drawn


class WordClusters(NamedTuple):
    """Clusters of a word's occurrences."""

    of: Int[np.ndarray, " occurrence"]
    within: float
    """Sum of squared distances from the clusters' means; NaN where that is not what is minimised."""
    stability: float
    """Adjusted Rand index of what one fifth of the starts finds with what another finds, mean over pairs of fifths."""


def clusters_of(
    vectors: Float[np.ndarray, "occurrence width"], count: int, method: ClusterMethod, seed: int = 0
) -> WordClusters:
    """`count` clusters of vectors of length 1: k-means, or average linkage over cosine distances.

    Example:
        >>> clusters_of(np.eye(2)[[0, 0, 1, 1, 1]], 2, "kmeans").stability
        1.0
    """
    if method == "agglomerative":
        from sklearn.cluster import AgglomerativeClustering

        labels = AgglomerativeClustering(count, metric="cosine", linkage="average").fit_predict(vectors)
        return WordClusters(labels, float("nan"), 1.0)
    labels, within = _kmeans(np.asarray(vectors, np.float64), count, np.random.default_rng(seed))
    best = np.array([part[within[part].argmin()] for part in np.array_split(np.arange(_STARTS), _GROUPS)])
    return WordClusters(labels[within.argmin()], float(within.min()), _stability(labels[best]))


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


def chosen_clusters(
    vectors: Float[np.ndarray, "occurrence width"], method: ClusterMethod, seed: int = 0
) -> WordClusters:
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
) -> SenseAgreement:
    """Adjusted mutual information of clusters and senses, and the same with senses shuffled.

    Shuffling changes no count of a cluster or sense, so that only the mutual information is computed again.

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
        # One cluster carries no information.
        return SenseAgreement(0.0, np.zeros(PERMUTATIONS))
    shares = tables / len(senses)
    by_cluster, by_sense = shares[0].sum(1), shares[0].sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mutual = np.nansum(shares * np.log(shares / np.outer(by_cluster, by_sense)), axis=(1, 2))
    expected = expected_mutual_information(csr_matrix(tables[0]), len(senses))
    most = (_entropy(by_cluster) + _entropy(by_sense)) / 2
    adjusted = (mutual - expected) / max(most - expected, np.finfo(float).eps)
    return SenseAgreement(float(adjusted[0]), adjusted[1:])


def _entropy(shares: np.ndarray) -> float:
    return float(-(shares * np.log(shares)).sum())


# Rows of tables: shares with intervals over documents, and families of paired differences.

SENSES = ("layer", "measure", "value", "low", "high", "baseline")
DIFFERENCES = (
    "layer", "measure", "against", "window", "family", "value", "baseline", "difference", "low", "high", "p_adjusted",
    "units", "needed",
)  # fmt: skip
BEST = ("measure", "layer", "value", "p_beaten", "among_best")
CHOSEN = "chosen"
"""The best layer on other documents."""
MOST_FREQUENT, SCORED_MAJORITY, LAYER_0, TWIN = "most_frequent", "scored_majority", "layer_0", "twin"
"""What the model is compared with, besides static vectors by their names."""
CONSTANTS, BAGS = "constant answers", "bags of words"
"""Families of comparisons of the chosen layer: with the same answer always, and with static vectors."""
Interval = tuple[float, float, float]


class SenseRow(NamedTuple):
    """One row of senses.csv."""

    layer: int | None
    measure: str
    value: float
    low: float
    high: float
    baseline: float


@dataclass(frozen=True)
class ResampledRatios:
    """Units and how often each bootstrap sample draws them."""

    units: Units
    samples: int
    seed: int

    @classmethod
    def of(cls, names: Iterable[str], kind: UnitKind, *, samples: int, seed: int) -> ResampledRatios:
        """By the unit's name of each thing that is counted."""
        return cls(Units.of(names, kind), samples, seed)

    def ratio(self, top: Shaped[np.ndarray, " thing"], bottom: Shaped[np.ndarray, " thing"]) -> Interval:
        """The ratio of two sums with its 95 % interval; NaN where the second is 0."""
        return self.ratio_of_sums(*(self.units.sums(np.asarray(side, float)) for side in (top, bottom)))

    def ratio_of_sums(self, top: Float[np.ndarray, " unit"], bottom: Float[np.ndarray, " unit"]) -> Interval:
        """The same of sums by unit."""
        if bottom.sum() <= 0:
            return float("nan"), float("nan"), float("nan")
        return float(top.sum() / bottom.sum()), *interval(self.draws(top, bottom))

    def draws(
        self, top: Float[np.ndarray, " unit *kinds"], bottom: Float[np.ndarray, " unit *counted"]
    ) -> Float[np.ndarray, " sample *kinds"]:
        """Bootstrap draws of the ratio of sums by unit."""
        return ratio_draws(top, bottom, self.units, samples=self.samples, seed=self.seed)


class PairedHits(NamedTuple):
    """Two systems on the same targets: right answers by unit."""

    layer: int | None
    against: str
    ours: Float[np.ndarray, " unit"]
    theirs: Float[np.ndarray, " unit"]


def paired_rows(
    measure: str, family: str, pairs: Sequence[PairedHits], counts: Float[np.ndarray, " unit"]
) -> Iterator[tuple]:
    """One family of paired differences by sign flips of whole units: rows of differences.csv.

    Example:
        >>> own, theirs = np.array([3.0, 4, 2, 4, 3, 4]), np.array([1.0, 2, 1, 1, 2, 2])
        >>> (row,) = paired_rows("knn5.ambiguous", "layers", [PairedHits(1, "twin", own, theirs)], np.full(6, 4.0))
        >>> [round(each, 3) for each in row[5:8]], round(row[10], 3)
        ([0.833, 0.375, 0.458], 0.031)
    """
    if not pairs or counts.sum() <= 0:
        return
    tests = sign_flip_family(np.stack([pair.ours - pair.theirs for pair in pairs], 1), counts, bounds=(-1.0, 1.0))
    values = [(pair.ours.sum() / counts.sum(), pair.theirs.sum() / counts.sum()) for pair in pairs]
    yield from difference_rows(measure, family, [(pair.layer, pair.against) for pair in pairs], values, tests)


def drawn_rows(
    measure: str,
    against: str,
    values: Float[np.ndarray, "layer 2"],
    draws: Float[np.ndarray, "sample layer"],
    units: int,
) -> Iterator[tuple]:
    """Every layer of a measure minus what it is compared with, one family by bootstrap: rows of differences.csv.

    Args:
        measure: its name.
        against: what is subtracted.
        values: of the measure, and of what is subtracted.
        draws: of the difference.
        units: how many are resampled.
    """
    tests = bootstrap_family(values[:, 0] - values[:, 1], draws, units, bounds=(-2.0, 2.0))
    yield from difference_rows(
        measure, f"{against}, layers", [(layer, against) for layer in range(len(values))], values, tests
    )


def difference_rows(
    measure: str,
    family: str,
    members: Sequence[tuple[int | None, str]],
    values: Float[np.ndarray, "member 2"] | Sequence[tuple[float, float]],
    tests: Contrasts,
) -> Iterator[tuple]:
    """Rows of differences.csv; `members` are layers and what they are compared with, `values` both sides' scores."""
    for (layer, against), (value, baseline), *numbers in zip(members, values, *tests, strict=True):
        yield layer, measure, against, bag_of(against)[1], family, float(value), float(baseline), *map(float, numbers)


def best_rows(
    measure: str, values: Float[np.ndarray, " layer"], draws: Float[np.ndarray, "sample layer"], units: int
) -> Iterator[tuple]:
    """Which layers can be the best: rows of best.csv."""
    best_layers = best_set(values, draws, units)
    for layer, (value, p, among) in enumerate(zip(values, best_layers.p, best_layers.among, strict=True)):
        yield measure, layer, float(value), float(p), bool(among)


class SenseScores:
    """Which scored targets each system gets right."""

    def __init__(self, data: SenseTargets, *, samples: int, seed: int) -> None:
        self.data = data
        numbers = dict.fromkeys(data.text[data.scored].tolist())
        texts = [data.texts[number] for number in numbers]
        names = [data.units[number] for number in data.text[data.scored]]
        kind = "document" if len({text.doc for text in texts}) > 1 else "text"
        self.resampled = ResampledRatios.of(names, kind, samples=samples, seed=seed)
        halves = halve(texts, seed)
        half = {data.units[number]: halves.of(text) for number, text in zip(numbers, texts, strict=True)}
        self._halves = np.array([half[name] for name in self.units.names])
        self.most_frequent = data.right(data.most_frequent[data.word[data.scored]])
        self.scored_majority = data.right(self._scored_majority())
        constant = int(data.frequency.sum(0).argmax())
        self.constant = data.right(np.full(len(data.scored), constant))
        self.every = np.ones(len(data.scored), bool)

    @property
    def units(self) -> Units:
        """Documents; texts where there is only one document."""
        return self.resampled.units

    @cached_property
    def counts(self) -> Float[np.ndarray, " unit"]:
        """Scored targets of ambiguous words."""
        return self.units.sums(self.data.ambiguous.astype(float))

    def _scored_majority(self) -> Int[np.ndarray, " scored"]:
        """Each word's best constant answer on the scored texts: for one half of the documents by the other half's.

        A word that the other half does not have keeps its most frequent sense in training; chosen on the same texts,
        the answer of a word that occurs once would always be right.
        """
        data = self.data
        words, halves = data.word[data.scored], self._halves[np.array(self.units.owner, int)]
        chosen = data.most_frequent[words].copy()
        total = max(1.0, float(data.frequency.sum(1).max()))
        for half in (CHOOSING, SCORED):
            inside, other = halves == half, halves != half
            right = np.zeros((len(data.words), len(data.labels)), np.float32)
            np.add.at(right, words[other], data.gold[data.scored[other]].astype(np.float32))
            known = right[words].sum(1) > 0
            # Ties are decided by how often the word has these senses in training.
            best = (right + 1e-3 * data.frequency / total).argmax(1)
            chosen[inside & known] = best[words[inside & known]]
        return chosen

    def rows(self, layer: int | None, predicted: Mapping[str, np.ndarray], prefix: str = "") -> Iterator[SenseRow]:
        """Two rows for neighbours of the same word, one for neighbours of other words."""
        for name, senses in predicted.items():
            right = self.data.right(senses)
            if name.startswith("across"):
                yield SenseRow(layer, f"{prefix}{name}.all", *self._share(right, self.every), self._mean(self.constant))
                continue
            for part, mask in (("ambiguous", self.data.ambiguous), ("all", self.every)):
                beside = self._mean(self.most_frequent, mask)
                yield SenseRow(layer, f"{prefix}{name}.{part}", *self._share(right, mask), beside)

    def constant_rows(self) -> Iterator[SenseRow]:
        """What answering the same always gets right, of ambiguous words."""
        beside = self._mean(self.most_frequent, self.data.ambiguous)
        for name, right in ((MOST_FREQUENT, self.most_frequent), (SCORED_MAJORITY, self.scored_majority)):
            yield SenseRow(None, f"{name}.ambiguous", *self._share(right, self.data.ambiguous), beside)

    def ambiguous(self, right: Bool[np.ndarray, " scored"]) -> Float[np.ndarray, " unit"]:
        """Right answers of ambiguous words, by document."""
        return self.units.sums((right & self.data.ambiguous).astype(float))

    def chosen(self, by_layer: Sequence[np.ndarray]) -> tuple[int, Float[np.ndarray, " unit"]]:
        """The best layer, and right answers at the layer that the other half of the documents finds best."""
        chosen = cross_fit(np.stack([self.ambiguous(right) for right in by_layer], 1), self._halves)
        return chosen.system, chosen.hits

    def chosen_row(self, layer: int, hits: Float[np.ndarray, " unit"], prefix: str = "") -> SenseRow:
        """The row of the chosen layer."""
        baseline = self._mean(self.most_frequent, self.data.ambiguous)
        return SenseRow(
            layer, f"{prefix}{CHOSEN}.ambiguous", *self.resampled.ratio_of_sums(hits, self.counts), baseline
        )

    def best(self, measure: str, by_layer: Sequence[np.ndarray]) -> Iterator[tuple]:
        """Which layers can be the best."""
        hits = np.stack([self.ambiguous(right) for right in by_layer], 1)
        draws = self.resampled.draws(hits, self.counts)
        yield from best_rows(measure, hits.sum(0) / self.counts.sum(), draws, int((self.counts > 0).sum()))

    def _share(self, right: np.ndarray, mask: np.ndarray) -> Interval:
        return self.resampled.ratio(right & mask, mask)

    def _mean(self, right: np.ndarray, mask: np.ndarray | None = None) -> float:
        return float(right[mask].mean()) if mask is not None else float(right.mean())


class WordMeans:
    """Means over words by layer, each word weighed; words are resampled."""

    def __init__(self, words: Sequence[str], weights: Real[np.ndarray, " word"], *, samples: int, seed: int) -> None:
        self.resampled = ResampledRatios.of(words, "word type", samples=samples, seed=seed)
        self._weights = np.asarray(weights, float)

    def mean(self, values: Float[np.ndarray, " word"]) -> Interval:
        """A mean with its interval, which is missing with fewer than 6 words: too few to show how words vary.

        Example:
            >>> WordMeans("ab", np.array([1, 1]), samples=100, seed=0).mean(np.array([0.0, 1.0]))
            (0.5, nan, nan)
        """
        value, low, high = self.resampled.ratio(values * self._weights, self._weights)
        return (value, low, high) if len(self.resampled.units) >= LEAST_UNITS else (value, float("nan"), float("nan"))

    def by_layer(
        self, values: Float[np.ndarray, "word layer"]
    ) -> tuple[Float[np.ndarray, " layer"], Float[np.ndarray, "sample layer"]]:
        """Means and their draws."""
        sums, units = self.resampled.units.sums, self._weights
        top, bottom = sums(values * units[:, None]), sums(units)
        return top.sum(0) / bottom.sum(), self.resampled.draws(top, bottom)

    def __len__(self) -> int:
        return len(self.resampled.units)
