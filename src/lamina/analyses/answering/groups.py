"""Groups of words in a layer's vectors: how alike they are, and whether k-means finds them.

The sum of the cosines of all pairs of two groups is the product of the sums of their unit vectors; so is the mean
distance of a token to a group, which makes the silhouette by cosine distance exact at the cost of a sum.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from lamina.analyses.answering.roles import GROUPS, moved_around
from lamina.types import Text

TIMES = 10.0
"""A token is an outlier at a layer where its vector is more than this many times as long as the text's median.

Measured on SQuAD: the longest vectors of MiniLM and MPNet are at most 4 times the median, those of SmolLM2 are below 3
in most layers and 5 to 11 in layers 3 to 9; its first token is at 14 to 184 in layers 12 to 29.
"""


def ordinary(states: Float[torch.Tensor, "token layer width"]) -> Bool[torch.Tensor, "token layer"]:
    """Where a token is no outlier.

    Example:
        >>> states = torch.ones(4, 2, 3)
        >>> states[0, 1] *= 100
        >>> ordinary(states)[0].tolist()
        [True, False]
    """
    lengths = states.norm(dim=-1)
    return lengths <= TIMES * lengths.median(0).values


QUESTION, SUPPORT, ANSWER, OTHER, PREDICTED, WORDS = range(len(GROUPS))
_PAIRS = tuple(combinations((QUESTION, SUPPORT, ANSWER, OTHER), 2))
_APART = (ANSWER, PREDICTED)
SIMILARITIES = (
    *(f"within_{GROUPS[group]}" for group in (QUESTION, SUPPORT, ANSWER, OTHER, PREDICTED)),
    *(f"between_{GROUPS[one]}_{GROUPS[other]}" for one, other in _PAIRS),
)
"""Mean cosines; those that are adjusted for anisotropy."""
MEASURES = (
    *SIMILARITIES,
    "question_nearer_support",
    *(f"{GROUPS[group]}_apart" for group in _APART),
    *(f"{GROUPS[group]}_silhouette" for group in _APART),
    "anisotropy",
)
"""In the order of the columns of `measure`."""


class EarlierWords(NamedTuple):
    """The words of the documents before this one: what unrelated words are like at each layer."""

    sums: Float[torch.Tensor, "layer width"]
    """Of unit vectors."""
    counts: Float[torch.Tensor, " layer"]


class GroupSums(NamedTuple):
    """Groups of words as sums of their unit vectors."""

    sums: Float[torch.Tensor, "group layer width"]
    counts: Float[torch.Tensor, "group layer"]


def unit_vectors(
    states: Float[torch.Tensor, "token layer width"], keep: Bool[torch.Tensor, "token layer"]
) -> Float[torch.Tensor, "token layer width"]:
    """Every vector at length 1; those not kept at length 0, so that they count nowhere."""
    return states * (keep / states.norm(dim=-1).clamp_min(1e-12))[..., None]


def add_up(
    unit: Float[torch.Tensor, "token layer width"],
    keep: Bool[torch.Tensor, "token layer"],
    groups: Float[torch.Tensor, "group token"],
) -> GroupSums:
    """The sums of any number of groups."""
    tokens, layers, width = unit.shape
    sums = (groups @ unit.reshape(tokens, layers * width)).view(-1, layers, width)
    return GroupSums(sums, groups @ keep.to(groups.dtype))


def measure(
    unit: Float[torch.Tensor, "token layer width"],
    keep: Bool[torch.Tensor, "token layer"],
    groups: Float[torch.Tensor, "group token"],
    added: GroupSums,
    before: EarlierWords,
) -> Float[torch.Tensor, "layer measure"]:
    """Every one of MEASURES at every layer; not a number where a group has too few words for it."""
    sums, counts = added
    products = torch.einsum("gld,hld->ghl", sums, sums)
    within = [_pairs(products[group, group], counts[group]) for group in range(WORDS)]
    between = {(one, other): products[one, other] / _some(counts[one] * counts[other]) for one, other in _PAIRS}
    nearer = between[QUESTION, SUPPORT] - between[QUESTION, OTHER]
    apart = [_apart(products, counts, group) for group in _APART]
    silhouettes = [_silhouette(unit, keep, groups[group], added, group) for group in _APART]
    unrelated = (sums[WORDS] * before.sums).sum(-1) / _some(counts[WORDS] * before.counts)
    pairs = [between[pair] for pair in _PAIRS]
    return torch.stack([*within, *pairs, nearer, *apart, *silhouettes, unrelated], dim=1)


def _pairs(product: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """Mean cosine of two different words of a group."""
    return (product - count) / _some(count * (count - 1))


def _some(count: torch.Tensor) -> torch.Tensor:
    return torch.where(count > 0, count, torch.nan)


def _apart(products: torch.Tensor, counts: torch.Tensor, group: int) -> torch.Tensor:
    """How much farther a group's words are from all others than those are from each other."""
    inside, all_, shared = products[group, group], products[WORDS, WORDS], products[group, WORDS]
    rest = counts[WORDS] - counts[group]
    return _pairs(all_ - 2 * shared + inside, rest) - (shared - inside) / _some(counts[group] * rest)


def _silhouette(
    unit: torch.Tensor, keep: torch.Tensor, members: torch.Tensor, added: GroupSums, group: int
) -> torch.Tensor:
    """The mean silhouette (cosine distance) of a group's words against all others; it needs two of them."""
    inside_group = members > 0
    vectors, usable = unit[inside_group], keep[inside_group]
    count = added.counts[group]
    rest = added.counts[WORDS] - count
    inside = 1 - (torch.einsum("tld,ld->tl", vectors, added.sums[group]) - 1) / _some(count - 1)
    outside = 1 - torch.einsum("tld,ld->tl", vectors, added.sums[WORDS] - added.sums[group]) / _some(rest)
    silhouettes = (outside - inside) / torch.maximum(inside, outside).clamp_min(1e-12)
    return torch.where(usable, silhouettes, 0).sum(0) / _some(usable.sum(0))


MOST = 8
"""Clusters tried where their number is not given."""
STARTS = 50
"""Of which the one with the smallest sum of squared distances is taken. Even of noise, that is a few percent above the
best of 200 starts; of 4 starts, it was up to 11 %."""
_FEW_STARTS = 20
"""For every question of a data set."""
_RUNS = 5
"""Seeds whose memberships are compared."""
STABLE = 0.8
"""Minimum adjusted Rand index over seeds for clusters to count as stable."""
_FITTED = 1000
"""Most tokens that clusters are fitted to and scored on: of more, a regular subsample; all are then assigned."""

Points = Float[torch.Tensor, "layer token width"]
LayerMask = Bool[torch.Tensor, "layer token"]
Labels = Int[torch.Tensor, "layer token"]


def kmeans(points: Points, keep: LayerMask, count: int, *, seed: int, starts: int = STARTS) -> Labels:
    """The cluster of each token at each layer, -1 for what is not kept: the tightest of several starts (k-means++).

    Example:
        >>> points = torch.tensor([[[0.0], [0.1], [5.0], [5.1]]])
        >>> a, b, c, d = kmeans(points, torch.ones(1, 4, dtype=torch.bool), 2, seed=0)[0].tolist()
        >>> a == b, c == d, a == c
        (True, True, False)
    """
    labels = torch.full(keep.shape, LEFT_OUT)
    for layer, mask in enumerate(keep):
        labels[layer, mask] = torch.from_numpy(_clustered(points[layer, mask].numpy(), count, seed, starts)).long()
    return labels


def _clustered(points: Float[np.ndarray, "token width"], count: int, seed: int, starts: int) -> np.ndarray:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    centred = points.astype(float) - points.mean(0, dtype=float)
    if len(centred) < centred.shape[1]:
        # The same distances in as many dimensions as there are tokens.
        turned, sizes, _ = np.linalg.svd(centred, full_matrices=False)
        centred = turned * sizes
    model: Any = KMeans(count, n_init=starts, random_state=seed)  # pyright: ignore[reportArgumentType]
    with warnings.catch_warnings():
        # Fewer different tokens than clusters: some clusters stay empty.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(centred[:: -(-len(centred) // _FITTED)]).predict(centred)


class LayerClusters(NamedTuple):
    """The clusters of every layer."""

    labels: Labels
    """-1 for what is not kept."""
    silhouettes: Float[np.ndarray, " layer"]
    stability: Float[np.ndarray, " layer"]
    """Mean adjusted Rand index of the memberships over pairs of seeds: 1 where all find the same, 0 by chance."""


def best_clusters(points: Points, keep: LayerMask, tried: Sequence[int], *, seed: int) -> LayerClusters:
    """Per layer the clusters, of all numbers tried, that have the highest silhouette."""
    best = torch.full(keep.shape, LEFT_OUT)
    highest, chosen = np.full(len(points), -np.inf), np.zeros(len(points), int)
    for count in tried:
        labels = kmeans(points, keep, count, seed=seed)
        for layer, (clusters, mask) in enumerate(zip(labels, keep, strict=True)):
            silhouette = _mean_silhouette(points[layer][mask].numpy(), clusters[mask].numpy(), seed)
            if silhouette > highest[layer]:
                highest[layer], best[layer], chosen[layer] = silhouette, clusters, count
    stability = np.full(len(points), np.nan)
    for layer in np.flatnonzero(chosen):
        here, mask = points[layer : layer + 1], keep[layer : layer + 1]
        others = (kmeans(here, mask, int(chosen[layer]), seed=seed + run)[0] for run in range(1, _RUNS))
        stability[layer] = agreement_of([partition[mask[0]].numpy() for partition in (best[layer], *others)])
    return LayerClusters(best, np.where(np.isfinite(highest), highest, np.nan), stability)


def agreement_of(partitions: Sequence[Int[np.ndarray, " token"]]) -> float:
    """The mean adjusted Rand index over all pairs of partitions.

    Example:
        >>> agreement_of([np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]), np.array([0, 0, 1, 1])])
        1.0
    """
    from sklearn.metrics import adjusted_rand_score

    return float(np.mean([adjusted_rand_score(one, other) for one, other in combinations(partitions, 2)]))


def _mean_silhouette(points: np.ndarray, labels: np.ndarray, seed: int) -> float:
    from sklearn.metrics import silhouette_score

    kinds = len(np.unique(labels))
    if not 2 <= kinds < len(points):
        return -1.0
    some = _FITTED if len(points) > _FITTED else None
    return float(silhouette_score(points, labels, sample_size=some, random_state=seed))


AGREEMENTS = ("ami_sentences", "ami_roles", "ami_entities")
STABILITIES = tuple(f"{name}_stability" for name in AGREEMENTS)
"""Whether a second seed finds the clusters that are compared with labels: adjusted Rand index."""
LEFT_OUT = -1
"""The cluster of a token that is not kept."""
_NONE = -1


def agreement(
    states: Float[torch.Tensor, "token layer width"],
    keep: Bool[torch.Tensor, "token layer"],
    variants: Sequence[tuple[np.ndarray, ...]],
    *,
    seed: int,
) -> Float[np.ndarray, "variant layer agreement"]:
    """For each way of labelling tokens (-1: no label), k-means with as many clusters as labels, and how both agree.

    After these, how well the clusters of two seeds agree.

    0 is what clusters drawn at random would give, 1 the same partition; not a number where there are not two labels.
    Variants give the same labels to the same tokens, in other places: they share their clusters.
    """
    ways = len(variants[0])
    agreements = np.full((len(variants), states.shape[1], 2 * ways), np.nan)
    for column, labels in enumerate(zip(*variants, strict=True)):
        labelled = np.flatnonzero(labels[0] != _NONE)
        kinds = len(np.unique(labels[0][labelled]))
        mask = keep[labelled].T
        if kinds < 2 or int(mask.sum(1).min()) <= kinds:
            continue
        points = states[labelled].transpose(0, 1).contiguous()
        clusters, again = (
            kmeans(points, mask, kinds, seed=run_seed, starts=_FEW_STARTS).numpy() for run_seed in (seed, seed + 1)
        )
        for layer, use in enumerate(mask.numpy()):
            agreements[:, layer, ways + column] = agreement_of([clusters[layer][use], again[layer][use]])
            for variant, given in enumerate(labels):
                agreements[variant, layer, column] = adjusted_mutual_information(
                    given[labelled][use], clusters[layer][use]
                )
    return agreements


def adjusted_mutual_information(one: np.ndarray, other: np.ndarray) -> float:
    """How much two partitions say of each other, beyond chance (Vinh et al. 2010, arithmetic mean of entropies).

    The same number as scikit-learn's, in a twentieth of the time: it is asked for at every layer of every question.

    Example:
        >>> adjusted_mutual_information(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
        1.0
    """
    table = np.zeros((one.max() + 1, other.max() + 1), int)
    np.add.at(table, (one, other), 1)
    table = table[table.any(1)][:, table.any(0)]
    if table.shape in ((1, 1), (len(one), len(one))):
        # All together, or each alone, on both sides: the same partition, with nothing beyond chance to divide by.
        return 1.0
    rows, columns, size = table.sum(1), table.sum(0), len(one)
    shared = table[table > 0] / size
    information = (shared * np.log(shared * size**2 / np.outer(rows, columns)[table > 0])).sum()
    chance = _expected(rows, columns, size)
    entropy = (_entropy(rows / size) + _entropy(columns / size)) / 2
    # As scikit-learn does it: never divide by nothing, nor turn the sign.
    below = entropy - chance
    below = min(below, -np.finfo(float).eps) if below < 0 else max(below, np.finfo(float).eps)
    return float((information - chance) / below)


def _entropy(shares: np.ndarray) -> float:
    return float(-(shares * np.log(shares)).sum())


def _expected(rows: np.ndarray, columns: np.ndarray, size: int) -> float:
    """Mutual information of two partitions with these sizes, drawn at random (hypergeometric cells)."""
    from scipy.special import gammaln

    a, b = rows[:, None, None], columns[None, :, None]
    n = np.arange(1, max(min(rows.max(), columns.max()), 1) + 1)[None, None, :]
    possible = (n <= np.minimum(a, b)) & (n >= a + b - size)
    fact = gammaln(np.arange(size + 1) + 1.0)
    parts = (np.where(possible, part, 0) for part in (a - n, b - n, size - a - b + n))
    log = fact[a] + fact[b] + fact[size - a] + fact[size - b] - fact[size] - fact[n]
    log = log - sum(fact[part] for part in parts)
    cells = np.exp(np.where(possible, log, -np.inf))
    return float((cells * n / size * np.log(size * n / (a * b))).sum())


def labels_of(
    text: Text, groups: Float[np.ndarray, "group word"], sentences: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The words' sentences, roles and kinds of entity, as numbers; -1 where a word has none.

    The sentence is that of the context; the role one of question, support, answer, other.
    """
    roles = np.full(len(text.words), _NONE)
    for group in (QUESTION, SUPPORT, ANSWER, OTHER):
        roles[groups[group] > 0] = group
    return sentences, roles, _entities(text, [edge.labels[0] for edge in text.edges.get("ner", ())])


def pseudo_labels(
    text: Text, labels: tuple[np.ndarray, np.ndarray, np.ndarray], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels of the same shape that mean nothing, for the same words.

    Sentences and the roles of the context are moved along by a random number of words; entity types are
    permuted over the mentions.
    """
    sentences, roles, _ = labels
    context = np.where(roles == QUESTION, _NONE, roles)
    kinds = [edge.labels[0] for edge in text.edges.get("ner", ())]
    dealt = [kinds[index] for index in rng.permutation(len(kinds))]
    moved = np.where(roles == QUESTION, QUESTION, moved_around(context, rng))
    return moved_around(sentences, rng), moved, _entities(text, dealt)


def _entities(text: Text, kinds: Sequence[str]) -> np.ndarray:
    marked = np.full(len(text.words), _NONE)
    numbers: dict[str, int] = {}
    for edge, kind in zip(text.edges.get("ner", ()), kinds, strict=True):
        marked[edge.span.start : edge.span.end] = numbers.setdefault(kind, len(numbers))
    return marked
