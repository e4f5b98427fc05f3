"""Nearest neighbours by cosine, without the table of all pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

_AT_ONCE = 16_384
"""Vectors compared at once, to bound memory."""

_QUERIES = 32
"""Queries compared at once."""


class Neighbour(NamedTuple):
    """One vector near another."""

    row: int
    similarity: float


def nearest(
    vectors: Float[torch.Tensor, "row width"],
    queries: Int[np.ndarray, " query"],
    group: Int[np.ndarray, " row"],
    count: int,
) -> list[list[Neighbour]]:
    """For each row named by `queries`, its nearest neighbours, the nearest first.

    Of a group only the nearest row is a neighbour, and a query's own group has none; with a group a row, all are.

    Example:
        >>> vectors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
        >>> nearest(vectors, np.array([0]), np.array([7, 7, 8, 8]), 5)
        [[Neighbour(row=2, similarity=0.6000000238418579)]]
    """
    _, numbered = np.unique(group, return_inverse=True)
    groups = torch.from_numpy(numbered)
    found = []
    for some in np.array_split(queries, max(1, -(-len(queries) // _QUERIES))):
        found += _nearest(vectors, torch.from_numpy(some), groups, count)
    return found


def _nearest(vectors: torch.Tensor, queries: torch.Tensor, groups: torch.Tensor, count: int) -> list[list[Neighbour]]:
    asked = _unit(vectors[queries])
    best = torch.full((len(asked), int(groups.max()) + 1), -torch.inf)
    for start in range(0, len(vectors), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        alike = asked @ _unit(vectors[part]).T
        best.scatter_reduce_(1, groups[part].expand(len(asked), -1), alike, "amax")
    best[torch.arange(len(asked)), groups[queries]] = -torch.inf
    similarity, chosen = best.topk(min(count, best.shape[1]), dim=1)
    return [
        [_member(vectors, groups, query, group) for value, group in zip(values, own, strict=True) if value > -torch.inf]
        for query, values, own in zip(asked, similarity.tolist(), chosen.tolist(), strict=True)
    ]


def _member(vectors: torch.Tensor, groups: torch.Tensor, query: torch.Tensor, group: int) -> Neighbour:
    """The nearest row of a group: kept out of the pass over all rows, which needs no more than how near it is."""
    rows = torch.nonzero(groups == group).squeeze(1)
    alike = _unit(vectors[rows]) @ query
    at = int(alike.argmax())
    return Neighbour(int(rows[at]), float(alike[at]))


def _unit(vectors: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(vectors, dim=1)
