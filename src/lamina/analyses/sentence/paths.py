"""Words on their way through the layers, in two dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class Paths(NamedTuple):
    """Where every word is drawn at every layer."""

    places: Float[Tensor, "layer word 2"]
    explained: tuple[float, float]
    """The share of all variance along each axis."""


def token_paths(vectors: Float[Tensor, "layer word width"]) -> Paths:
    """One PCA over all words at all layers, so that a word's places can be joined to a path.

    Vectors are scaled to length 1 first: layers differ in length by factors, and the longest would be all one sees.
    An axis is turned so that words move towards its positive side.

    Example:
        >>> vectors = torch.tensor([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]], [[0.0, 0.0, 2.0]]])
        >>> paths = token_paths(vectors)
        >>> tuple(paths.places.shape), round(sum(paths.explained), 6)
        ((3, 1, 2), 1.0)
    """
    layers, words, width = vectors.shape
    points = torch.nn.functional.normalize(vectors.double(), dim=-1).reshape(-1, width)
    centred = points - points.mean(0)
    values, along = _principal(centred)
    places = torch.nn.functional.pad(along, (0, 2 - along.shape[1])).reshape(layers, words, 2)
    forwards = (places[-1] - places[0]).sum(0)
    total = max(float(values.sum()), 1e-12)
    shares = [*(values[:2] / total).tolist(), 0.0]
    return Paths(places * torch.where(forwards < 0, -1.0, 1.0), (shares[0], shares[1]))


def _principal(points: Float[Tensor, "point width"]) -> tuple[Float[Tensor, " axis"], Float[Tensor, "point two"]]:
    """The variance along every axis, the largest first, and where the points lie along the first two."""
    many, width = points.shape
    # Both products have the same values above zero; a sentence has fewer points than widths, a long text more.
    values, axes = torch.linalg.eigh(points.T @ points if many > width else points @ points.T)
    values, axes = values.clamp_min(0).flip(0), axes.flip(1)[:, :2]
    return values, points @ axes if many > width else axes * values[:2].sqrt()


def farthest_travelled(vectors: Float[Tensor, "layer word width"], words: Sequence[str]) -> int:
    """The word whose direction differs most between the first layer and the last; no sign where there is a word.

    Example:
        >>> vectors = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], [[0.9, 0.1], [0.5, 0.5], [1.0, 0.0]]])
        >>> farthest_travelled(vectors, ["Dogs", "bark", "."])
        1
    """
    alike = torch.cosine_similarity(vectors[0], vectors[-1], dim=-1)
    signs = torch.tensor([not any(letter.isalnum() for letter in word) for word in words])
    return int(torch.where(signs, alike + 2, alike).argmin())
