"""Distances drawn on a plane: metric multidimensional scaling."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

STARTS, STEPS, EPSILON = 5, 1000, 1e-10
"""The paper's: random starts, of which the best is taken; most steps of each; the gain that is not worth a step."""


class Plane(NamedTuple):
    """Points whose distances come as near to the given ones as two dimensions allow."""

    points: Float[np.ndarray, "point 2"]
    """Around 0, the longer axis first."""
    stress: float
    """Kruskal's stress-1: the root of the squared errors' share in the squared distances; 0 is perfect."""


def scale(distances: Float[np.ndarray, "point point"], *, seed: int = 0) -> Plane:
    """Metric MDS from random starts, on its principal axes.

    Example:
        >>> corners = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
        >>> apart = np.linalg.norm(corners[:, None] - corners, axis=-1)
        >>> found = scale(apart).points
        >>> np.linalg.norm(found[1] - found[2]).round(3).item()
        5.0
    """
    from sklearn.manifold import MDS

    squares = np.square(distances).sum()
    if not squares:
        return Plane(np.zeros((len(distances), 2)), 0.0)
    mds = MDS(2, metric="precomputed", n_init=STARTS, init="random", max_iter=STEPS, eps=EPSILON, random_state=seed)
    points = np.asarray(mds.fit_transform(distances))
    errors = np.square(distances - np.linalg.norm(points[:, None] - points, axis=-1)).sum()
    return Plane(_turned(points), float(np.sqrt(errors / squares)))


def _turned(points: np.ndarray) -> np.ndarray:
    """Along their principal axes, each with its farthest point on the positive side: any turn would fit as well."""
    centred = points - points.mean(0)
    turned = centred @ np.linalg.svd(centred, full_matrices=False)[2].T
    farthest = turned[np.abs(turned).argmax(0), np.arange(turned.shape[1])]
    return turned * np.where(farthest < 0, -1.0, 1.0)
