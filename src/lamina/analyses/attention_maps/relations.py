"""Every head as a dependency classifier: does a word attend most to its head, or its head most to it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lamina.analyses.attention_maps.behaviours import OFTEN
from lamina.analyses.legacy import DIFFERENCE, paired_difference
from lamina.analyses.watched import Arriving, WatchedBatch
from lamina.stats.best import cross_fit
from lamina.stats.family import holm
from lamina.stats.intervals import ratio_intervals as intervals
from lamina.stats.units import CHOOSING, SCORED, Halves, UnitSums
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
    """The dependencies of some texts, the roots left out."""

    texts: Int[np.ndarray, " target"]
    """Number of the text."""
    dependents: Int[np.ndarray, " target"]
    asked: Int[np.ndarray, " target"]
    """Whose prediction counts: the dependent's, or that of the `'s` after it."""
    heads: Int[np.ndarray, " target"]
    members: Float[np.ndarray, "target relation"]
    """1 where a target is counted under a relation (its own, all, all without punctuation)."""


def dependencies(text: Text) -> list[Edge]:
    """The edges of `dep`, without the root's edge to itself."""
    return [edge for edge, _ in _dependencies(text)]


def _dependencies(text: Text) -> Iterator[tuple[Edge, int]]:
    """Dependencies with the first word of the head."""
    for edge in text.edges.get("dep", ()):
        own, other = edge.span, edge.other
        # Faster than comparing spans, and there are very many.
        if other is not None and (other.start != own.start or other.end != own.end):
            yield edge, other.start


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
    """What a dependency is counted under."""
    relation = edge.labels[0]
    punctuation = relation.partition(":")[0].lower() == "punct"
    return (relation, ALL) if punctuation else (relation, ALL, NO_PUNCTUATION)


def targets_of(texts: Sequence[Text], columns: Mapping[str, int]) -> Targets:
    """What every head is asked of some texts.

    The `'s` rule: models attach a possessor's phrase by its `'s`, treebanks by its noun. So where a possessor is
    followed by `'s`, the prediction of the `'s` counts.
    """
    rows: list[tuple[int, int, int, int, int]] = []
    # Of each relation that occurs, a row of what it is counted under.
    numbers: dict[str, int] = {}
    counted: list[np.ndarray] = []
    for number, text in enumerate(texts):
        for edge, head in _dependencies(text):
            relation, dependent = edge.labels[0], edge.span.start
            if relation not in numbers:
                numbers[relation] = len(counted)
                counted.append(np.zeros(len(columns), np.float32))
                counted[-1][[columns[name] for name in _names(edge)]] = 1
            asked = dependent + (relation in POSSESSIVES and _followed_by_sign(text, dependent))
            rows.append((number, dependent, asked, head, numbers[relation]))
    of_text, dependents, asked_words, heads, own = np.array(rows, int).reshape(-1, 5).T
    members = np.array(counted)[own] if counted else np.zeros((0, len(columns)), np.float32)
    return Targets(of_text, dependents, asked_words, heads, members)


def _followed_by_sign(text: Text, word: int) -> bool:
    return word + 1 < len(text.words) and text.words[word + 1] in POSSESSIVE_SIGNS


def most_attended(maps: Float[Tensor, "*text head word word"]) -> Int[Tensor, "direction *text head word"]:
    """The word each word attends most to, and the word that attends most to it, itself left out; -1 for none at all.

    Of equals, the first. None at all is what a decoder's last word gets: nothing comes after it that could attend to
    it.
    """
    bare = maps.clone()
    bare.diagonal(0, -2, -1).zero_()
    return torch.stack([torch.where(top > 0, at, -1) for top, at in (bare.max(-1), bare.max(-2))])


class Hits(NamedTuple):
    """Sums of a half, or of the whole split; with one more axis in front, those of its units or of its samples."""

    heads: Float[np.ndarray, "*units direction head relation"]
    baselines: Float[np.ndarray, "*units baseline relation"]
    counts: Float[np.ndarray, "*units relation"]


class RelationMeter:
    """Counts, for every relation, direction and head, how many dependencies it finds; by document.

    Example:
        >>> from lamina.stats.units import halve
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
        self._heads = heads
        # Of each relation: hits of every direction and head, hits of every baseline, dependencies.
        self._systems = len(DIRECTIONS) * heads + len(BASELINES) + 1
        self._sums = UnitSums(len(self.relations) * self._systems, halves)
        self._arriving: tuple[Arriving, Targets, Sequence[Text]] | None = None
        self._samples, self._seed = samples, seed

    def update(self, batch: WatchedBatch) -> None:
        """See `Meter.update`."""
        targets = targets_of(batch.texts, self._columns)
        if not len(targets.heads):
            return
        found = Arriving(self._found(batch, targets))
        # Counted when the next batch comes, so that the device need not wait for the counting.
        self._count()
        self._arriving = found, targets, batch.texts

    def _count(self) -> None:
        """Count what was found in the last batch."""
        if self._arriving is None:
            return
        found, targets, texts = self._arriving
        self._arriving = None
        placed = targets.heads[:, None] - targets.asked[:, None] == np.array(OFFSETS)
        next_one = targets.heads - targets.dependents == 1
        counted = np.column_stack([found.numpy(), placed, next_one, np.ones_like(next_one)]).astype(np.float32)
        for text, own in self._sums.together(texts, targets.texts):
            self._sums.add((targets.members[own].T @ counted[own]).ravel(), text)

    @property
    def _counted(self) -> UnitSums:
        self._count()
        return self._sums

    def _found(self, batch: WatchedBatch, targets: Targets) -> Bool[Tensor, "target answer"]:
        """Whether each head is right about each target."""
        place = (torch.from_numpy(each).to(batch.device) for each in (targets.texts, targets.asked, targets.heads))
        texts, asked, heads = place
        # By target first, since an index before a slice and one after it come to the front.
        right = [most_attended(group)[:, texts, :, asked] == heads[:, None, None] for group in batch.words]
        return torch.cat(right, -1).flatten(1)

    def units(self) -> Hits:
        """What was counted in each document (or text, where there is one document only)."""
        return self._shaped(self._counted.values())

    def halves(self) -> Int[np.ndarray, " unit"]:
        """The half of each unit."""
        return self._counted.halves()

    def sums(self, half: int | None = None) -> Hits:
        """What was counted in one half, or in both."""
        return self._shaped(self._counted.total(half))

    def weights(self) -> Float[np.ndarray, "sample unit"]:
        """How often each bootstrap sample draws each unit."""
        return self._counted.weights(samples=self._samples, seed=self._seed)

    def samples(self) -> Hits:
        """Sums over units drawn with replacement."""
        return self._shaped(self.weights() @ self._counted.values())

    def _shaped(self, flat: np.ndarray) -> Hits:
        front = flat.shape[:-1]
        systems = flat.reshape(*front, len(self.relations), self._systems).swapaxes(-1, -2)
        every = len(DIRECTIONS) * self._heads
        heads = systems[..., :every, :].reshape(*front, len(DIRECTIONS), self._heads, len(self.relations))
        return Hits(heads, systems[..., every:-1, :], systems[..., -1, :])


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

    `p_adjusted` is corrected over every head, direction and relation of at least `OFTEN` dependencies; fewer cannot earn a
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
    return pd.concat(parts, ignore_index=True).assign(p_adjusted=holm(np.concatenate(p)))


def best_table(meter: RelationMeter, per_block: int, relations: pd.DataFrame) -> pd.DataFrame:
    """The best head of each relation; its numbers are cross-fitted, its p-value is that of `relations_table`.

    Accuracies and their difference are pooled over both halves of the documents, each scored by the head, direction
    and offset that the other half chose: free of the luck of the best of many. The head shown is the best on all
    documents; `agrees` says whether both halves chose it. `p_adjusted` tests that very head on all documents, corrected
    over all heads, directions and relations tested, since any of them could have been the best. Relations that only
    one half has are left out.
    """
    units, halves, weights = meter.units(), meter.halves(), meter.weights()
    corrected = relations.set_index(list(_PLACE))["p_adjusted"].to_dict()
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

    `p_adjusted` stays corrected over all heads, relations and directions, since any of them could have been chosen.

    Example:
        >>> rows = [("obj", 0.5, 0.1), ("obj", 0.7, 0.01), ("det", 0.4, 1.0)]
        >>> faithful_table(pd.DataFrame(rows, columns=["relation", "accuracy", "p_adjusted"])).values.tolist()
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
