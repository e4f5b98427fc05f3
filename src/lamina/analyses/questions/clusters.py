"""k-means in the full space, for all layers at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

MOST = 8
"""Clusters tried where their number is not given."""
_ROUNDS = 50
_STARTS = 4
_FITTED = 1000
"""Tokens that clusters are fitted to and judged by, where there are more; all are then put into the nearest."""

Points = Float[torch.Tensor, "layer token width"]
Kept = Bool[torch.Tensor, "layer token"]
Labels = Int[torch.Tensor, "layer token"]


def kmeans(points: Points, keep: Kept, count: int, *, seed: int, starts: int = _STARTS) -> Labels:
    """The cluster of each token at each layer, -1 for what is not kept: the best of some seeded starts (k-means++).

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
        # Where all tokens are alike, any will do.
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
