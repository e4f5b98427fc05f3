"""The sentences of a corpus in which heads do what they are known for most clearly, and those in which they fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from lamina.analyses.heads.heads import DIRECTIONS, dependencies, most_attended, relations_of, targets_of
from lamina.analyses.heads.look import sink_words
from lamina.framework.watch import WatchedBatch, WatchedText, Weighting, watch
from lamina.models import Encoder
from lamina.results import Result
from lamina.types import Text

MOST = 5
"""Examples per head."""
_OFFSETS = {"previous": -1, "next": 1}


class LinkQuery(NamedTuple):
    """Which links of a head are examples."""

    relation: str = ""
    """Between a word and its head by this dependency; empty for links of any kind."""
    direction: str = ""
    """`dependent`: from the dependent to its head; `head`: the other way round."""
    offset: int = 0
    """To the word so far away; 0 for any other word."""

    @property
    def attends(self) -> bool:
        """Whether the word that a head is asked about attends; otherwise it is attended to."""
        return self.direction != DIRECTIONS[1]

    def in_words(self) -> str:
        """What is looked for.

        Example:
            >>> LinkQuery("dobj", "dependent").in_words(), LinkQuery(offset=-1).in_words(), LinkQuery().in_words()
            ('from a word to its head by dobj', 'to the previous word', 'between any two words')
        """
        if self.relation:
            by = f"by {self.relation}"
            return f"from a word to its head {by}" if self.direction == "dependent" else f"to a word's dependent {by}"
        return {-1: "to the previous word", 1: "to the next word"}.get(self.offset, "between any two words")


class LinkExample(NamedTuple):
    """The strongest link of a head in one sentence."""

    text: Text
    source: int
    """The word that attends."""
    target: int
    """The word attended to."""
    weight: float
    relation: str
    """The dependency that links the two words, if the corpus has one."""


class LinkMiss(NamedTuple):
    """A word for which a head chooses a wrong one."""

    text: Text
    word: int
    """The word that the head is asked about."""
    chosen: int
    """The word it attends most to (or, seen from the head of a relation, that attends most to it)."""
    right: int
    weight: float
    """Between the word asked about and the one chosen."""
    right_weight: float
    """Between the word asked about and the right one."""
    relation: str
    """The dependency between the word asked about and the right one, if the corpus has one."""


class HeadExamples(NamedTuple):
    """What a head does in a corpus: where it does it most clearly, and where it fails."""

    best: list[LinkExample]
    """The strongest links, the strongest first; at most one per sentence."""
    misses: list[LinkMiss]
    """Those with the largest weight on a wrong word, the largest first; at most one per sentence."""
    targets: int
    """Words that it was asked about; 0 where nothing is right or wrong."""
    hits: int
    """Of those, for how many it chooses the right one."""
    to_sinks: float
    """The share of its attention that goes to sinks: special tokens, and the first word of a decoder."""


Head = tuple[int, int]
"""Layer and head, both from 1."""


def queries_by(results: Mapping[str, Result], blocks: int, heads: int) -> dict[Head, LinkQuery]:
    """What every head is known for by results of `headmap` and `heads`: its best relation, the word before or after.

    Example:
        >>> queries_by({}, 1, 2)
        {(1, 1): LinkQuery(relation='', direction='', offset=0), (1, 2): LinkQuery(relation='', direction='', offset=0)}
    """
    queries = {(layer + 1, head + 1): LinkQuery() for layer, head in np.ndindex(blocks, heads)}
    for row in _rows(results, "headmap", "points"):
        if row.behaviour in _OFFSETS:
            queries[row.layer, row.head] = LinkQuery(offset=_OFFSETS[row.behaviour])
    directions = {(row.layer, row.head, row.relation): row.direction for row in _rows(results, "heads", "best")}
    # The relation with the largest lead is looked for: it comes last.
    known = [row for row in _rows(results, "headmap", "behaviours") if row.behaviour == "syntactic"]
    for row in sorted(known, key=lambda scored: scored.difference):
        direction = directions.get((row.layer, row.head, row.what))
        if direction is not None:
            queries[row.layer, row.head] = LinkQuery(row.what, direction)
    return queries


def queries_for(relation: str, results: Mapping[str, Result], blocks: int, heads: int) -> dict[Head, LinkQuery]:
    """The same relation of every head, each in the direction in which `heads` found more; without it, from dependents.

    Example:
        >>> queries_for("dobj", {}, 1, 1)
        {(1, 1): LinkQuery(relation='dobj', direction='dependent', offset=0)}
    """
    queries = {(layer + 1, head + 1): LinkQuery(relation, DIRECTIONS[0]) for layer, head in np.ndindex(blocks, heads)}
    scored = [row for row in _rows(results, "heads", "relations") if row.relation == relation]
    for row in sorted(scored, key=lambda scores: scores.accuracy):
        queries[row.layer, row.head] = LinkQuery(relation, row.direction)
    return queries


def examples_of(
    encoder: Encoder, texts: Iterable[Text], sought: Mapping[Head, LinkQuery], *, weights: Weighting = "attention"
) -> dict[Head, HeadExamples]:
    """For every head the sentences where it does most clearly what is sought, and where it fails; one pass for all.

    A head's answer for a word is that of the analysis `heads`: the other word with the largest weight in the word's
    row, or in its column, special tokens left out. Links between any two words are neither right nor wrong; those to
    the first word of a decoder, which is a sink, are no examples.

    Args:
        encoder: whose heads.
        texts: the sentences; of each, every head's strongest link counts.
        sought: head -> which links.
        weights: attention as it is, or times the norm of what it moves.

    Example:
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> found = examples_of(TinyEncoder(), SAMPLE_TEXTS, {(2, 1): LinkQuery(offset=-1)})[2, 1]
        >>> [each.source - each.target for each in found.best]
        [1, 1, 1, 1, 1]
        >>> all(miss.chosen != miss.right == miss.word - 1 for miss in found.misses)
        True
    """
    meter = _ExampleMeter(sought, causal=encoder.causal_maps)
    watch(encoder, texts, [meter], weights=weights)
    return {
        head: HeadExamples(
            meter.best[head], meter.misses[head], meter.targets[head], meter.hits[head], meter.to_sinks(head)
        )
        for head in sought
    }


class _LinkTarget(NamedTuple):
    """A word asked about, the right answer, and the dependency between the two."""

    word: int
    right: int
    relation: str


class _ExampleMeter:
    """Keeps the strongest links and the clearest misses of every head, at most one of each per sentence."""

    def __init__(self, sought: Mapping[Head, LinkQuery], *, causal: bool) -> None:
        self._causal = causal
        self._sunk: Tensor | float = 0.0
        self._words = 0
        self.best: dict[Head, list[LinkExample]] = {head: [] for head in sought}
        self.misses: dict[Head, list[LinkMiss]] = {head: [] for head in sought}
        self.targets, self.hits = Counter[Head](), Counter[Head]()
        self._heads: dict[LinkQuery, list[Head]] = {}
        for head, kind in sought.items():
            self._heads.setdefault(kind, []).append(head)

    def update(self, batch: WatchedBatch) -> None:
        for watched in batch.singly:
            self._look(watched)

    def to_sinks(self, head: Head) -> float:
        """The share of a head's attention that goes to sinks, over all words."""
        return float(self._sunk[head[0] - 1, head[1] - 1]) / self._words if isinstance(self._sunk, Tensor) else 0.0

    def _look(self, watched: WatchedText) -> None:
        maps, text = watched.words.maps, watched.text
        answers, edges = most_attended(maps), _edges(text)
        sinks = sink_words(watched.tokens, causal=self._causal)
        self._sunk = self._sunk + (watched.words.special + maps[..., sinks].sum(-1)).sum(-1).double()
        self._words += maps.shape[-1]
        for kind, heads in self._heads.items():
            targets = _targets(kind, edges, len(text.words), sinks)
            if not targets:
                continue
            layers, places = (torch.tensor(numbers) - 1 for numbers in zip(*heads, strict=True))
            backwards = not kind.attends
            # By the word asked about, then its answer, whichever of the two attends.
            links = maps[layers, places].mT if backwards else maps[layers, places]
            self._keep_best(text, heads, links, targets, backwards=backwards)
            if kind != LinkQuery():
                self._keep_misses(text, heads, links, answers[int(backwards)][layers, places], targets)

    def _keep_best(
        self, text: Text, heads: list[Head], links: Tensor, targets: list[_LinkTarget], *, backwards: bool
    ) -> None:
        words, right = _places(targets)
        best = links[:, words, right].max(1)
        for head, weight, index in zip(heads, best.values.tolist(), best.indices.tolist(), strict=True):
            one, other, relation = targets[index]
            source, target = (other, one) if backwards else (one, other)
            _keep(self.best[head], LinkExample(text, source, target, weight, relation))

    def _keep_misses(
        self, text: Text, heads: list[Head], links: Tensor, answers: Tensor, targets: list[_LinkTarget]
    ) -> None:
        words, right = _places(targets)
        chosen = answers[:, words]
        weights = links[:, words].gather(2, chosen.clamp(min=0)[..., None])[..., 0]
        # Where a decoder's word has no answer at all, it is missed, but there is nothing to show.
        worst = weights.masked_fill((chosen == right) | (chosen < 0), -1).max(1)
        for index, head in enumerate(heads):
            self.targets[head] += len(targets)
            self.hits[head] += int((chosen[index] == right).sum())
            weight, number = float(worst.values[index]), int(worst.indices[index])
            if weight > 0:
                target = targets[number]
                beside = float(links[index, target.word, target.right])
                miss = LinkMiss(
                    text, target.word, int(chosen[index, number]), target.right, weight, beside, target.relation
                )
                _keep(self.misses[head], miss)


_Ranked = TypeVar("_Ranked", LinkExample, LinkMiss)


def _keep(ranked: list[_Ranked], example: _Ranked) -> None:
    """Add it if it is among the strongest; a corpus may have a sentence twice."""
    if len(ranked) == MOST and example.weight <= ranked[-1].weight:
        return
    if all(other.text.words != example.text.words for other in ranked):
        ranked[:] = sorted([*ranked, example], key=lambda one: -one.weight)[:MOST]


def _places(targets: Sequence[_LinkTarget]) -> tuple[Tensor, Tensor]:
    words, right = torch.tensor([target[:2] for target in targets]).T
    return words, right


def _edges(text: Text) -> dict[_LinkTarget, set[str]]:
    """The dependencies as `heads` asks for them -> what they are counted under."""
    columns = {name: index for index, name in enumerate(relations_of([text]))}
    targets, names = targets_of([text], columns), list(columns)
    labels = [edge.labels[0] for edge in dependencies(text)]
    rows = zip(targets.words.tolist(), targets.heads.tolist(), labels, strict=True)
    return {
        _LinkTarget(*row): {names[index] for index in np.flatnonzero(member)}
        for row, member in zip(rows, targets.members, strict=True)
    }


def _targets(
    kind: LinkQuery, edges: Mapping[_LinkTarget, set[str]], size: int, sinks: Sequence[int] = ()
) -> list[_LinkTarget]:
    """The links that heads are scored on in a text of `size` words; links to sinks are no examples of other links."""
    if kind.relation:
        # The reader may cut a text: what is gone cannot be asked for.
        return [target for target, names in edges.items() if kind.relation in names and max(target[:2]) < size]
    relations = {(target.word, target.right): target.relation for target in edges}
    pairs = ((one, other) for one in range(size) for other in range(size))
    return [
        _LinkTarget(one, other, relations.get((one, other), ""))
        for one, other in pairs
        if (other - one == kind.offset if kind.offset else one != other and other not in sinks)
    ]


def _rows(results: Mapping[str, Result], analysis: str, table: str) -> Sequence:
    rows = results[analysis].tables.get(table, pd.DataFrame()) if analysis in results else pd.DataFrame()
    return list(rows.itertuples(index=False))
