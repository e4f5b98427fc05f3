"""The sentences of a corpus in which heads do what they are known for most clearly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool

from lamina.analyses.attention_maps.relations import dependencies
from lamina.analyses.watched import Watched, WatchedBatch
from lamina.analyses.watching import Weighting, watch
from lamina.encoders import Encoder
from lamina.results import Result
from lamina.types import Text

MOST = 5
"""Examples per head."""
_OFFSETS = {"previous": -1, "next": 1}


class Sought(NamedTuple):
    """Which links of a head are examples."""

    relation: str = ""
    """Between a word and its head by this dependency; empty for links of any kind."""
    direction: str = ""
    """`dependent`: from the dependent to its head; `head`: the other way round."""
    offset: int = 0
    """To the word so far away; 0 for any other word."""

    def in_words(self) -> str:
        """What is looked for.

        Example:
            >>> Sought("dobj", "dependent").in_words(), Sought(offset=-1).in_words(), Sought().in_words()
            ('from a word to its head by dobj', 'to the previous word', 'between any two words')
        """
        if self.relation:
            by = f"by {self.relation}"
            return f"from a word to its head {by}" if self.direction == "dependent" else f"to a word's dependent {by}"
        return {-1: "to the previous word", 1: "to the next word"}.get(self.offset, "between any two words")


class Example(NamedTuple):
    """The strongest link of a head in one sentence."""

    text: Text
    source: int
    """The word that attends."""
    target: int
    """The word attended to."""
    weight: float
    relation: str
    """The dependency that links the two words, if the corpus has one."""


Head = tuple[int, int]
"""Layer and head, both from 1."""


def sought_by(results: Mapping[str, Result], blocks: int, heads: int) -> dict[Head, Sought]:
    """What every head is known for by results of `headmap` and `heads`: its best relation, the word before or after.

    Example:
        >>> sought_by({}, 1, 2)
        {(1, 1): Sought(relation='', direction='', offset=0), (1, 2): Sought(relation='', direction='', offset=0)}
    """
    found = {(layer + 1, head + 1): Sought() for layer, head in np.ndindex(blocks, heads)}
    for row in _rows(results, "headmap", "points"):
        if row.behaviour in _OFFSETS:
            found[row.layer, row.head] = Sought(offset=_OFFSETS[row.behaviour])
    directions = {(row.layer, row.head, row.relation): row.direction for row in _rows(results, "heads", "best")}
    # The relation with the largest lead is looked for: it comes last.
    known = [row for row in _rows(results, "headmap", "behaviours") if row.behaviour == "syntactic"]
    for row in sorted(known, key=lambda each: each.difference):
        direction = directions.get((row.layer, row.head, row.what))
        if direction is not None:
            found[row.layer, row.head] = Sought(row.what, direction)
    return found


def best_examples(
    encoder: Encoder, texts: Iterable[Text], sought: Mapping[Head, Sought], *, weights: Weighting = "attention"
) -> dict[Head, list[Example]]:
    """For every head the sentences with its strongest links of the kind sought, the strongest first; one pass for all.

    Args:
        encoder: whose heads.
        texts: the sentences; of each, every head's strongest link counts.
        sought: head -> which links.
        weights: attention as it is, or times the norm of what it moves.

    Example:
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> found = best_examples(TinyEncoder(), SAMPLE_TEXTS, {(2, 1): Sought(offset=-1)})
        >>> [each.source - each.target for each in found[2, 1]]
        [1, 1, 1, 1, 1]
    """
    meter = _BestLinks(sought)
    watch(encoder, texts, [meter], weights=weights)
    return meter.best


class _BestLinks:
    """Keeps the strongest links of every head, at most one per sentence."""

    def __init__(self, sought: Mapping[Head, Sought]) -> None:
        self.best: dict[Head, list[Example]] = {head: [] for head in sought}
        self._heads: dict[Sought, list[Head]] = {}
        for head, kind in sought.items():
            self._heads.setdefault(kind, []).append(head)

    def update(self, batch: WatchedBatch) -> None:
        for watched in batch.singly:
            self._look(watched)

    def _look(self, watched: Watched) -> None:
        maps, size = watched.words.maps, len(watched.text.words)
        relations = _relations(watched.text)
        for kind, heads in self._heads.items():
            allowed = torch.from_numpy(_allowed(kind, size, relations))
            if not allowed.any():
                continue
            layers, places = (torch.tensor(each) - 1 for each in zip(*heads, strict=True))
            links = maps[layers, places].masked_fill(~allowed, -1).flatten(1).max(1)
            for head, weight, at in zip(heads, links.values.tolist(), links.indices.tolist(), strict=True):
                source, target = divmod(at, size)
                self._keep(head, Example(watched.text, source, target, weight, relations.get((source, target), "")))

    def _keep(self, head: Head, example: Example) -> None:
        best = self.best[head]
        # A corpus may have a sentence twice.
        if len(best) == MOST and example.weight <= best[-1].weight:
            return
        if all(each.text.words != example.text.words for each in best):
            self.best[head] = sorted([*best, example], key=lambda each: -each.weight)[:MOST]


def _relations(text: Text) -> dict[tuple[int, int], str]:
    """Dependent and head -> the dependency between them."""
    edges = dependencies(text)
    return {(each.span.start, each.other.start): each.labels[0] for each in edges if each.other is not None}


def _allowed(kind: Sought, size: int, relations: Mapping[tuple[int, int], str]) -> Bool[np.ndarray, "word word"]:
    """Which links, by the word that attends and the word attended to, are of the kind."""
    if not kind.relation:
        apart = np.arange(size) - np.arange(size)[:, None]
        return apart == kind.offset if kind.offset else apart != 0
    allowed = np.zeros((size, size), bool)
    for (dependent, head), relation in relations.items():
        if relation == kind.relation and max(dependent, head) < size:
            allowed[(dependent, head) if kind.direction == "dependent" else (head, dependent)] = True
    return allowed


def _rows(results: Mapping[str, Result], analysis: str, table: str) -> Sequence:
    found = results[analysis].tables.get(table, pd.DataFrame()) if analysis in results else pd.DataFrame()
    return list(found.itertuples(index=False))
