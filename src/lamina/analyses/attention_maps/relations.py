"""Every head as a dependency classifier: does a word attend most to its head, or its head most to it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int

from lamina.analyses.attention_maps.behaviours import OFTEN
from lamina.analyses.paired import DIFFERENCE, UnitSums, cross_fit, holm, paired_difference
from lamina.analyses.resampling import CHOOSING, SCORED, Halves, intervals
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
    """Sums of a half, or of the whole split; with one more axis in front, those of its units or of its samples."""

    heads: Float[np.ndarray, "*units direction head relation"]
    baselines: Float[np.ndarray, "*units baseline relation"]
    counts: Float[np.ndarray, "*units relation"]


class RelationMeter:
    """Counts, for every relation, direction and head, how many dependencies it finds; by document.

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
        self._shapes = [(len(DIRECTIONS), heads, len(self.relations)), (len(BASELINES), len(self.relations))]
        size = sum(int(np.prod(shape)) for shape in self._shapes) + len(self.relations)
        self._sums = UnitSums(size, halves)
        self._samples, self._seed = samples, seed

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
        self._sums.add(counted, watched.text)

    def units(self) -> Hits:
        """What was counted in each document (or text, where there is one document only)."""
        return self._shaped(self._sums.values())

    def halves(self) -> Int[np.ndarray, " unit"]:
        """The half of each unit."""
        return self._sums.halves()

    def sums(self, half: int | None = None) -> Hits:
        """What was counted in one half, or in both."""
        return self._shaped(self._sums.total(half))

    def weights(self) -> Float[np.ndarray, "sample unit"]:
        """How often each bootstrap sample draws each unit."""
        return self._sums.weights(samples=self._samples, seed=self._seed)

    def samples(self) -> Hits:
        """Sums over units drawn with replacement."""
        return self._shaped(self.weights() @ self._sums.values())

    def _shaped(self, flat: np.ndarray) -> Hits:
        ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes])
        heads, baselines, counts = np.split(flat, ends, axis=-1)
        front = flat.shape[:-1]
        return Hits(heads.reshape(*front, *self._shapes[0]), baselines.reshape(*front, *self._shapes[1]), counts)


RELATIONS = (
    "relation", "direction", "layer", "head", "count", "accuracy", "low", "high", "offset", "offset_accuracy",
    *DIFFERENCE,
)  # fmt: skip
"""Columns of `relations.csv`."""
_PLACE = RELATIONS[:4]
BEST = (*RELATIONS, "agrees")
"""Columns of `best.csv`."""
SYSTEMS = ("system", "relation", "count", "accuracy", "low", "high")
"""Columns of `baselines.csv`."""


def relations_table(meter: RelationMeter, per_block: int) -> pd.DataFrame:
    """Every head and relation on the whole split, beside the relation's best fixed offset there.

    `p_holm` is corrected over every head, direction and relation of at least `OFTEN` dependencies; fewer cannot earn a
    name, so they are not tested.
    """
    sums, samples, units = meter.sums(), meter.samples(), meter.units()
    parts, p = [], []
    for relation in np.flatnonzero(sums.counts).tolist():
        count, hits = sums.counts[relation], sums.heads[..., relation]
        offset = int(sums.baselines[: len(OFFSETS), relation].argmax())
        low, high = intervals(samples.heads[..., relation], samples.counts[:, relation])
        lead = units.heads[..., relation] - units.baselines[:, offset, relation, None, None]
        difference = paired_difference(lead, units.counts[:, relation])
        direction, head = (each.ravel() for each in np.indices(hits.shape))
        part = {
            "relation": meter.relations[relation],
            "direction": np.array(DIRECTIONS)[direction],
            "layer": head // per_block + 1,
            "head": head % per_block + 1,
            "count": int(count),
            "accuracy": hits.ravel() / count,
            "low": low.ravel(),
            "high": high.ravel(),
            "offset": OFFSETS[offset],
            "offset_accuracy": sums.baselines[offset, relation] / count,
            "difference": difference.value.ravel(),
            "diff_low": difference.low.ravel(),
            "diff_high": difference.high.ravel(),
        }
        parts.append(pd.DataFrame(part))
        p.append(difference.p.ravel() if count >= OFTEN else np.full(hits.size, np.nan))
    return pd.concat(parts, ignore_index=True).assign(p_holm=holm(np.concatenate(p)))


def best_table(meter: RelationMeter, per_block: int, relations: pd.DataFrame) -> pd.DataFrame:
    """The best head of each relation; its numbers are cross-fitted, its p-value is that of `relations_table`.

    Accuracies and their difference are pooled over both halves of the documents, each scored by the head, direction
    and offset that the other half chose: free of the luck of the best of many. The head shown is the best on all
    documents; `agrees` says whether both halves chose it. `p_holm` tests that very head on all documents, corrected
    over all heads, directions and relations tested, since any of them could have been the best. Relations that only
    one half has are left out.
    """
    units, halves, weights = meter.units(), meter.halves(), meter.weights()
    corrected = relations.set_index(list(_PLACE))["p_holm"].to_dict()
    in_both = np.logical_and(*(meter.sums(half).counts > 0 for half in (CHOOSING, SCORED)))
    rows = []
    for relation in np.flatnonzero(in_both).tolist():
        counts = units.counts[:, relation]
        found = cross_fit(units.heads[..., relation].reshape(len(halves), -1), halves)
        beside = cross_fit(units.baselines[:, : len(OFFSETS), relation], halves)
        direction, head = divmod(found.system, units.heads.shape[2])
        place = (meter.relations[relation], DIRECTIONS[direction], head // per_block + 1, head % per_block + 1)
        low, high = intervals(weights @ found.hits, weights @ counts)
        shares = (each.hits.sum(dtype=float) / counts.sum(dtype=float) for each in (found, beside))
        accuracy, offset_accuracy = map(float, shares)
        difference = paired_difference(found.hits - beside.hits, counts)
        scored = (int(counts.sum()), accuracy, float(low), float(high), OFFSETS[beside.system], offset_accuracy)
        rows.append((*place, *scored, *map(float, difference[:3]), corrected[place], found.agrees))
    return pd.DataFrame(rows, columns=list(BEST))


def faithful_table(relations: pd.DataFrame) -> pd.DataFrame:
    """The best head of each relation, chosen on the texts it is scored on, as in the paper; of `relations_table`.

    `p_holm` stays corrected over all heads, relations and directions, since any of them could have been chosen.

    Example:
        >>> rows = [("obj", 0.5, 0.1), ("obj", 0.7, 0.01), ("det", 0.4, 1.0)]
        >>> faithful_table(pd.DataFrame(rows, columns=["relation", "accuracy", "p_holm"])).values.tolist()
        [['obj', 0.7, 0.01, True], ['det', 0.4, 1.0, True]]
    """
    best = relations.loc[relations.groupby("relation", sort=False)["accuracy"].idxmax()]
    return best.assign(agrees=True).reset_index(drop=True)


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
