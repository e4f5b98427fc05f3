"""Every head as a dependency classifier: does a word attend most to its head, or its head most to it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int

from lamina.analyses.resampling import CHOOSING, SCORED, Halves, StreamedBootstrap, intervals
from lamina.analyses.watching import Watched
from lamina.types import Edge, Text

ALL, NO_PUNCTUATION = "all", "all without punctuation"
DIRECTIONS = ("dependent", "head")
"""Whose row is read: the dependent's (it attends to its head), or the head's (the dependent's column)."""
OFFSETS = (-3, -2, -1, 1, 2)
"""Fixed places of the head, as seen from the dependent; the paper's."""
BASELINES = (*(f"offset {offset:+d}" for offset in OFFSETS), "right-branching")
POSSESSIVES = frozenset({"poss", "nmod:poss"})
POSSESSIVE_SIGNS = frozenset({"'s", "s'", "\u2019s", "s\u2019"})
"""With a typewriter's apostrophe or a printer's."""


class Targets(NamedTuple):
    """The dependencies of a text, the root left out."""

    dependents: Int[np.ndarray, " target"]
    asked: Int[np.ndarray, " target"]
    """Whose prediction counts: the dependent's, or that of the `'s` after it."""
    heads: Int[np.ndarray, " target"]
    members: Float[np.ndarray, "target relation"]
    """1 where a target is counted under a relation (its own, all, all without punctuation)."""


def dependencies(text: Text) -> list[Edge]:
    """The edges of `dep`, without the root's edge to itself."""
    return [edge for edge in text.edges.get("dep", ()) if edge.other is not None and edge.other != edge.span]


def relations_of(texts: Iterable[Text]) -> Counter[str]:
    """How often each relation occurs, `all` and `all without punctuation` among them.

    Example:
        >>> from lamina.types import Span
        >>> edges = (Edge(("root",), Span(1, 2), Span(1, 2)), Edge(("nsubj",), Span(0, 1), Span(1, 2)))
        >>> dict(relations_of([Text("t", ("Dogs", "bark"), edges={"dep": edges})]))
        {'nsubj': 1, 'all': 1, 'all without punctuation': 1}
    """
    found: Counter[str] = Counter()
    for text in texts:
        for edge in dependencies(text):
            found.update(_names(edge))
    return found


def _names(edge: Edge) -> tuple[str, ...]:
    own = edge.labels[0]
    return (own, ALL) if own.partition(":")[0].lower() == "punct" else (own, ALL, NO_PUNCTUATION)


def targets_of(text: Text, columns: dict[str, int]) -> Targets:
    """What every head is asked of a text.

    The `'s` rule: models attach a possessor's phrase by its `'s`, treebanks by its noun. So where a possessor is
    followed by `'s`, the prediction of the `'s` counts.
    """
    edges = dependencies(text)
    dependents = np.array([edge.span.start for edge in edges], int)
    heads = np.array([edge.other.start for edge in edges if edge.other is not None], int)
    members = np.zeros((len(edges), len(columns)), np.float32)
    for at, edge in enumerate(edges):
        members[at, [columns[name] for name in _names(edge)]] = 1
    return Targets(dependents, dependents + _followed_by_sign(text, edges), heads, members)


def _followed_by_sign(text: Text, edges: Sequence[Edge]) -> Bool[np.ndarray, " target"]:
    return np.array(
        [
            edge.labels[0] in POSSESSIVES
            and edge.span.start + 1 < len(text.words)
            and text.words[edge.span.start + 1] in POSSESSIVE_SIGNS
            for edge in edges
        ],
        bool,
    )


def most_attended(maps: Float[torch.Tensor, "block head word word"]) -> Int[np.ndarray, "direction anyhead word"]:
    """The word each word attends most to, and the word that attends most to it, itself left out; -1 for none at all.

    None at all is what a decoder's last word gets: nothing comes after it that could attend to it.
    """
    size = maps.shape[-1]
    # numpy finds the place of the largest several times faster than torch.
    bare = maps.flatten(0, 1).masked_fill(torch.eye(size, dtype=torch.bool), 0).numpy()
    return np.stack([np.where(bare.max(axis) > 0, bare.argmax(axis), -1) for axis in (-1, -2)])


class Hits(NamedTuple):
    """Sums of a half, or of the whole split; with one more axis in front, those of its samples."""

    heads: Float[np.ndarray, "*samples direction head relation"]
    baselines: Float[np.ndarray, "*samples baseline relation"]
    counts: Float[np.ndarray, "*samples relation"]


class RelationMeter:
    """Counts, for every relation, direction and head, how many dependencies it finds; by half.

    Example:
        >>> from lamina.analyses.resampling import halve
        >>> from lamina.analyses.watching import watch
        >>> from lamina.testing import TinyEncoder
        >>> from lamina.types import Span
        >>> edges = (Edge(("root",), Span(1, 2), Span(1, 2)), Edge(("nsubj",), Span(0, 1), Span(1, 2)))
        >>> texts = [Text(str(i), ("Dogs", "bark"), edges={"dep": edges}) for i in range(4)]
        >>> meter = RelationMeter(4, relations_of(texts), halve(texts, 0), samples=10, seed=0)
        >>> _ = watch(TinyEncoder(), texts, [meter])
        >>> meter.sums().heads.shape, meter.sums().counts.tolist()
        ((2, 4, 3), [4.0, 4.0, 4.0])
    """

    def __init__(self, heads: int, relations: Iterable[str], halves: Halves, *, samples: int, seed: int) -> None:
        """For `heads` heads in all blocks together, and the relations that occur."""
        self.relations = tuple(relations)
        self._columns = {relation: column for column, relation in enumerate(self.relations)}
        self._halves = halves
        self._shapes = [(len(DIRECTIONS), heads, len(self.relations)), (len(BASELINES), len(self.relations))]
        size = sum(int(np.prod(shape)) for shape in self._shapes) + len(self.relations)
        self._sums = [StreamedBootstrap(size, samples=samples, seed=seed) for _ in (CHOOSING, SCORED)]

    def update(self, watched: Watched) -> None:
        """Take one text's maps in."""
        targets = targets_of(watched.text, self._columns)
        if not len(targets.heads):
            return
        right = most_attended(watched.words.maps)[..., targets.asked] == targets.heads
        placed = targets.heads - targets.asked == np.array(OFFSETS)[:, None]
        baselines = np.vstack([placed, targets.heads - targets.dependents == 1])
        found = [each.astype(np.float32) @ targets.members for each in (right, baselines)]
        counted = np.concatenate([*(each.ravel() for each in found), targets.members.sum(0)])
        self._sums[self._halves.of(watched.text)].add(counted, watched.text.id)

    def sums(self, half: int | None = None) -> Hits:
        """What was counted in one half, or in both."""
        return self._shaped(np.sum([each.value for each in self._of(half)], axis=0))

    def samples(self, half: int | None = None) -> Hits:
        """The same, of texts drawn with replacement."""
        return self._shaped(np.sum([each.samples for each in self._of(half)], axis=0))

    def _of(self, half: int | None) -> list[StreamedBootstrap]:
        return self._sums if half is None else [self._sums[half]]

    def _shaped(self, flat: np.ndarray) -> Hits:
        ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes])
        heads, baselines, counts = np.split(flat, ends, axis=-1)
        front = flat.shape[:-1]
        return Hits(heads.reshape(*front, *self._shapes[0]), baselines.reshape(*front, *self._shapes[1]), counts)


RELATIONS = (
    "relation", "direction", "layer", "head", "count", "accuracy", "low", "high", "offset", "offset_accuracy",
)  # fmt: skip
"""Columns of `relations.csv` and `best.csv`."""
SYSTEMS = ("system", "relation", "count", "accuracy", "low", "high")
"""Columns of `baselines.csv`."""


class Pick(NamedTuple):
    """The head, direction and offset that find most dependencies of a relation."""

    relation: int
    direction: int
    head: int
    """Counted through all blocks."""
    offset: int
    """Which of `OFFSETS`."""


def picks(meter: RelationMeter, half: int | None) -> list[Pick]:
    """One per relation that occurs in this half (or in the whole); the first of equals."""
    sums = meter.sums(half)
    found = []
    for relation in np.flatnonzero(sums.counts).tolist():
        hits = sums.heads[..., relation]
        direction, head = divmod(int(hits.argmax()), hits.shape[1])
        found.append(Pick(relation, direction, head, int(sums.baselines[: len(OFFSETS), relation].argmax())))
    return found


def relations_table(meter: RelationMeter, per_block: int) -> pd.DataFrame:
    """Every head and relation on the whole split, beside the relation's best fixed offset there."""
    sums, samples = meter.sums(), meter.samples()
    parts = []
    for pick in picks(meter, None):
        count, offset = sums.counts[pick.relation], sums.baselines[pick.offset, pick.relation]
        hits = sums.heads[..., pick.relation]
        low, high = intervals(samples.heads[..., pick.relation], samples.counts[:, pick.relation])
        direction, head = (each.ravel() for each in np.indices(hits.shape))
        part = {
            "relation": meter.relations[pick.relation],
            "direction": np.array(DIRECTIONS)[direction],
            "layer": head // per_block + 1,
            "head": head % per_block + 1,
            "count": int(count),
            "accuracy": hits.ravel() / count,
            "low": low.ravel(),
            "high": high.ravel(),
            "offset": OFFSETS[pick.offset],
            "offset_accuracy": offset / count,
        }
        parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def best_table(meter: RelationMeter, chosen: list[Pick], half: int | None, per_block: int) -> pd.DataFrame:
    """The picks, scored on this half; those that do not occur there are left out."""
    sums, samples = meter.sums(half), meter.samples(half)
    rows = []
    for relation, direction, head, offset in chosen:
        count = sums.counts[relation]
        if not count:
            continue
        low, high = intervals(samples.heads[:, direction, head, relation], samples.counts[:, relation])
        place = (meter.relations[relation], DIRECTIONS[direction], head // per_block + 1, head % per_block + 1)
        scored = (int(count), sums.heads[direction, head, relation] / count, float(low), float(high))
        rows.append((*place, *scored, OFFSETS[offset], sums.baselines[offset, relation] / count))
    return pd.DataFrame(rows, columns=list(RELATIONS))


def baselines_table(meter: RelationMeter) -> pd.DataFrame:
    """Every fixed offset for every relation on the whole split, and right-branching for all of them together."""
    return pd.DataFrame(list(_baselines(meter)), columns=list(SYSTEMS))


def _baselines(meter: RelationMeter) -> Iterator[tuple]:
    sums, samples = meter.sums(), meter.samples()
    for relation, name in enumerate(meter.relations):
        count = sums.counts[relation]
        if not count:
            continue
        low, high = intervals(samples.baselines[..., relation], samples.counts[:, relation])
        for at, system in enumerate(BASELINES):
            # A tree's shape is a parser of sentences, not of one relation.
            if at < len(OFFSETS) or name in (ALL, NO_PUNCTUATION):
                yield system, name, int(count), sums.baselines[at, relation] / count, float(low[at]), float(high[at])
