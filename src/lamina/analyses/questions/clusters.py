"""k-means in the full space, for all layers at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from lamina.analyses.questions.measures import ANSWER, OTHER, QUESTION, SUPPORT
from lamina.analyses.questions.pseudo import moved_around
from lamina.types import Text

MOST = 8
"""Clusters tried where their number is not given."""
_ROUNDS = 50
_STARTS = 4
_FITTED = 1000
"""Most tokens that clusters are fitted to and scored on: of more, a regular subsample; all are then assigned."""

Points = Float[torch.Tensor, "layer token width"]
Kept = Bool[torch.Tensor, "layer token"]
Labels = Int[torch.Tensor, "layer token"]


def kmeans(points: Points, keep: Kept, count: int, *, seed: int, starts: int = _STARTS) -> Labels:
    """The cluster of each token at each layer, -1 for what is not kept: the best of several seeded starts (k-means++).

    Example:
        >>> points = torch.tensor([[[0.0], [0.1], [5.0], [5.1]]])
        >>> a, b, c, d = kmeans(points, torch.ones(1, 4, dtype=torch.bool), 2, seed=0)[0].tolist()
        >>> a == b, c == d, a == c
        (True, True, False)
    """
    # Around 0, where distances by way of products lose least.
    points = points - points.mean(1, keepdim=True)
    every = -(-points.shape[1] // _FITTED)
    fitted, used = points[:, ::every], keep[:, ::every]
    draw = torch.Generator().manual_seed(seed)
    best, least = _lloyd(fitted, used, _spread_out(fitted, used, count, draw))
    for _ in range(1, starts):
        centres, spread = _lloyd(fitted, used, _spread_out(fitted, used, count, draw))
        better = spread < least
        best, least = torch.where(better[:, None, None], centres, best), torch.where(better, spread, least)
    return _distances(points, best).argmin(-1).masked_fill(~keep, -1)


def _spread_out(points: Points, keep: Kept, count: int, draw: torch.Generator) -> torch.Tensor:
    """First centres, each drawn from the tokens in proportion to its squared distance from those there are."""
    chosen = torch.multinomial(keep.float(), 1, generator=draw)
    layers = torch.arange(len(points))[:, None]
    for _ in range(1, count):
        apart = _distances(points, points[layers, chosen]).amin(-1) * keep
        # Where all tokens are the same, any one will do.
        weights = torch.where(apart.sum(-1, keepdim=True) > 0, apart, keep.float())
        chosen = torch.cat([chosen, torch.multinomial(weights, 1, generator=draw)], dim=1)
    return points[layers, chosen]


def _lloyd(points: Points, keep: Kept, centres: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The centres that these move to, and the sum of squared distances to them."""
    labels = None
    for _ in range(_ROUNDS):
        fresh = _distances(points, centres).argmin(-1)
        if labels is not None and torch.equal(fresh, labels):
            break
        labels = fresh
        members = torch.nn.functional.one_hot(labels, centres.shape[1]).to(points.dtype) * keep[..., None]
        sizes = members.sum(1)[..., None]
        # A cluster that lost all its tokens stays where it is.
        centres = torch.where(sizes > 0, members.transpose(1, 2) @ points / sizes.clamp_min(1), centres)
    return centres, (_distances(points, centres).amin(-1) * keep).sum(-1)


def _distances(points: Points, centres: torch.Tensor) -> torch.Tensor:
    """Squared, by way of products: many times as fast as pair by pair."""
    own, other = points.square().sum(-1)[..., None], centres.square().sum(-1)[:, None, :]
    return torch.baddbmm(own + other, points, centres.transpose(1, 2), alpha=-2).clamp_min(0)


def best_clusters(points: Points, keep: Kept, tried: Sequence[int], *, seed: int) -> tuple[Labels, np.ndarray]:
    """Per layer the clusters, of all numbers tried, that have the highest silhouette; and that silhouette."""
    best = torch.full(keep.shape, -1)
    highest = np.full(len(points), -np.inf)
    for count in tried:
        labels = kmeans(points, keep, count, seed=seed)
        for layer, (own, kept) in enumerate(zip(labels, keep, strict=True)):
            silhouette = _silhouette(points[layer][kept].numpy(), own[kept].numpy(), seed)
            if silhouette > highest[layer]:
                highest[layer], best[layer] = silhouette, own
    return best, np.where(np.isfinite(highest), highest, np.nan)


def _silhouette(points: np.ndarray, labels: np.ndarray, seed: int) -> float:
    from sklearn.metrics import silhouette_score

    kinds = len(np.unique(labels))
    if not 2 <= kinds < len(points):
        return -1.0
    some = _FITTED if len(points) > _FITTED else None
    return float(silhouette_score(points, labels, sample_size=some, random_state=seed))


AGREEMENTS = ("ami_sentences", "ami_roles", "ami_entities")
_NONE = -1


def agreement(
    states: Float[torch.Tensor, "token layer width"],
    keep: Bool[torch.Tensor, "token layer"],
    variants: Sequence[tuple[np.ndarray, ...]],
    *,
    seed: int,
) -> Float[np.ndarray, "variant layer agreement"]:
    """For each way of labelling tokens (-1: no label), k-means with as many clusters as labels, and how both agree.

    0 is what clusters drawn at random would give, 1 the same partition; not a number where there are not two labels.
    Variants give the same labels to the same tokens, in other places: they share their clusters.
    """
    found = np.full((len(variants), states.shape[1], len(variants[0])), np.nan)
    for column, labels in enumerate(zip(*variants, strict=True)):
        labelled = np.flatnonzero(labels[0] != _NONE)
        kinds = len(np.unique(labels[0][labelled]))
        kept = keep[labelled].T
        if kinds < 2 or int(kept.sum(1).min()) <= kinds:
            continue
        clusters = kmeans(states[labelled].transpose(0, 1).contiguous(), kept, kinds, seed=seed, starts=1).numpy()
        for variant, own in enumerate(labels):
            for layer, use in enumerate(kept.numpy()):
                found[variant, layer, column] = adjusted_mutual_information(own[labelled][use], clusters[layer][use])
    return found


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
    told = (shared * np.log(shared * size**2 / np.outer(rows, columns)[table > 0])).sum()
    chance = _expected(rows, columns, size)
    entropy = (_entropy(rows / size) + _entropy(columns / size)) / 2
    # As scikit-learn does it: never divide by nothing, nor turn the sign.
    below = entropy - chance
    below = min(below, -np.finfo(float).eps) if below < 0 else max(below, np.finfo(float).eps)
    return float((told - chance) / below)


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

    Sentences and the roles of the context are moved along by a random number of words; kinds of entity are dealt out
    anew among the mentions.
    """
    sentences, roles, _ = labels
    told = np.where(roles == QUESTION, _NONE, roles)
    kinds = [edge.labels[0] for edge in text.edges.get("ner", ())]
    dealt = [kinds[at] for at in rng.permutation(len(kinds))]
    moved = np.where(roles == QUESTION, QUESTION, moved_around(told, rng))
    return moved_around(sentences, rng), moved, _entities(text, dealt)


def _entities(text: Text, kinds: Sequence[str]) -> np.ndarray:
    marked = np.full(len(text.words), _NONE)
    numbers: dict[str, int] = {}
    for edge, kind in zip(text.edges.get("ner", ()), kinds, strict=True):
        marked[edge.span.start : edge.span.end] = numbers.setdefault(kind, len(numbers))
    return marked
