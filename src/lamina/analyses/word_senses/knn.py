"""Senses by nearest neighbours and by nearest centroids, in blocks: no table of all pairs is ever kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.analyses.word_senses.targets import SenseTargets

ROWS, QUERIES = 4096, 1024
"""Vectors compared at once."""
TIED = 1e-6
"""Cosines this close are equal: rounding must not choose a neighbour among vectors that are the same."""
_PRIOR = 1e-3
"""What a sense's share among the candidates counts beside votes: only ties are decided by it."""


def count_votes(
    queries: Float[torch.Tensor, "query width"],
    rows: Float[torch.Tensor, "row width"],
    votes: Float[torch.Tensor, "row label"],
    ks: Sequence[int],
    *,
    groups: tuple[Int[torch.Tensor, " query"], Int[torch.Tensor, " row"]] | None = None,
) -> list[Float[torch.Tensor, "query label"]]:
    """The votes of each query's k nearest rows, for each k; rows as near as the k-th vote too.

    Vectors have length 1. With `groups`, rows of a query's own group are no neighbours of it. Two passes over blocks:
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
