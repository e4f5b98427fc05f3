"""Every head as a dependency classifier: does a word attend most to its head, or its head most to it?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lamina.analyses.heads.behaviours import LEAD, OFTEN, is_ahead
from lamina.framework.sample_size import LEAST_TARGETS
from lamina.framework.watch import (
    PendingNumbers,
    WatchedBatch,
)
from lamina.results.finding import Finding, Source, Worth, finding, not_tested, percent, rows_of
from lamina.stats.best import cross_fit
from lamina.stats.family import Contrasts, sign_flip_family
from lamina.stats.intervals import ratio_intervals
from lamina.stats.status import Contrast
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


class DependencyTargets(NamedTuple):
    """The dependencies of some texts, the roots left out."""

    texts: Int[np.ndarray, " target"]
    """Number of the text."""
    dependents: Int[np.ndarray, " target"]
    words: Int[np.ndarray, " target"]
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
        span, other = edge.span, edge.other
        # Faster than comparing spans, and there are very many.
        if other is not None and (other.start != span.start or other.end != span.end):
            yield edge, other.start


def relations_of(texts: Iterable[Text]) -> Counter[str]:
    """How often each relation occurs, `all` and `all without punctuation` among them.

    Example:
        >>> from lamina.types import Span
        >>> edges = (Edge(("root",), Span(1, 2), Span(1, 2)), Edge(("nsubj",), Span(0, 1), Span(1, 2)))
        >>> dict(relations_of([Text("t", ("Dogs", "bark"), edges={"dep": edges})]))
        {'nsubj': 1, 'all': 1, 'all without punctuation': 1}
    """
    counts: Counter[str] = Counter()
    for text in texts:
        for edge in dependencies(text):
            counts.update(_names(edge))
    return counts


def _names(edge: Edge) -> tuple[str, ...]:
    """What a dependency is counted under."""
    relation = edge.labels[0]
    return (relation, ALL) if _is_punctuation(relation) else (relation, ALL, NO_PUNCTUATION)


def _is_punctuation(relation: str) -> bool:
    return relation.partition(":")[0].lower() == "punct"


def targets_of(texts: Sequence[Text], columns: Mapping[str, int]) -> DependencyTargets:
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
            word = dependent + (relation in POSSESSIVES and _followed_by_sign(text, dependent))
            rows.append((number, dependent, word, head, numbers[relation]))
    of_text, dependents, asked_words, heads, relations = np.array(rows, int).reshape(-1, 5).T
    members = np.array(counted)[relations] if counted else np.zeros((0, len(columns)), np.float32)
    return DependencyTargets(of_text, dependents, asked_words, heads, members)


def _followed_by_sign(text: Text, word: int) -> bool:
    return word + 1 < len(text.words) and text.words[word + 1] in POSSESSIVE_SIGNS


def most_attended(maps: Float[Tensor, "*text head word word"]) -> Int[Tensor, "direction *text head word"]:
    """The word each word attends most to, and the word that attends most to it, itself left out; -1 for none at all.

    Of equals, the first. None at all is what a decoder's last word gets: nothing comes after it that could attend to
    it.
    """
    bare = maps.clone()
    bare.diagonal(0, -2, -1).zero_()
    return torch.stack([torch.where(top > 0, index, -1) for top, index in (bare.max(-1), bare.max(-2))])


class RelationHits(NamedTuple):
    """Sums of a half, or of the whole split; with one more axis in front, those of its units or of its samples."""

    heads: Float[np.ndarray, "*units direction head relation"]
    baselines: Float[np.ndarray, "*units baseline relation"]
    counts: Float[np.ndarray, "*units relation"]


class RelationMeter:
    """Counts, for every relation, direction and head, how many dependencies it finds; by document.

    Example:
        >>> from lamina.stats.units import halve
        >>> from lamina.framework.watch import watch
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
        self._arriving: tuple[PendingNumbers, DependencyTargets, Sequence[Text]] | None = None
        self._samples, self._seed = samples, seed

    def update(self, batch: WatchedBatch) -> None:
        """See `Meter.update`."""
        targets = targets_of(batch.texts, self._columns)
        if not len(targets.heads):
            return
        answers = PendingNumbers(self._found(batch, targets))
        # Counted when the next batch comes, so that the device need not wait for the counting.
        self._count()
        self._arriving = answers, targets, batch.texts

    def _count(self) -> None:
        """Count what was found in the last batch."""
        if self._arriving is None:
            return
        answers, targets, texts = self._arriving
        self._arriving = None
        placed = targets.heads[:, None] - targets.words[:, None] == np.array(OFFSETS)
        next_one = targets.heads - targets.dependents == 1
        counted = np.column_stack([answers.numpy(), placed, next_one, np.ones_like(next_one)]).astype(np.float32)
        for text, rows in self._sums.together(texts, targets.texts):
            self._sums.add((targets.members[rows].T @ counted[rows]).ravel(), text)

    @property
    def _counted(self) -> UnitSums:
        self._count()
        return self._sums

    def _found(self, batch: WatchedBatch, targets: DependencyTargets) -> Bool[Tensor, "target answer"]:
        """Whether each head is right about each target."""
        place = (torch.from_numpy(array).to(batch.device) for array in (targets.texts, targets.words, targets.heads))
        texts, words, heads = place
        # By target first, since an index before a slice and one after it come to the front.
        right = [most_attended(group)[:, texts, :, words] == heads[:, None, None] for group in batch.words]
        return torch.cat(right, -1).flatten(1)

    def units(self) -> RelationHits:
        """What was counted in each document (or text, where there is one document only)."""
        return self._shaped(self._counted.values())

    def halves(self) -> Int[np.ndarray, " unit"]:
        """The half of each unit."""
        return self._counted.halves()

    @property
    def kind(self) -> Literal["document", "text"]:
        """What a unit is."""
        return self._sums.kind

    def sums(self, half: int | None = None) -> RelationHits:
        """What was counted in one half, or in both."""
        return self._shaped(self._counted.total(half))

    def weights(self) -> Float[np.ndarray, "sample unit"]:
        """How often each bootstrap sample draws each unit."""
        return self._counted.weights(samples=self._samples, seed=self._seed)

    def samples(self) -> RelationHits:
        """Sums over units drawn with replacement."""
        return self._shaped(self.weights() @ self._counted.values())

    def _shaped(self, flat: np.ndarray) -> RelationHits:
        front = flat.shape[:-1]
        systems = flat.reshape(*front, len(self.relations), self._systems).swapaxes(-1, -2)
        every = len(DIRECTIONS) * self._heads
        heads = systems[..., :every, :].reshape(*front, len(DIRECTIONS), self._heads, len(self.relations))
        return RelationHits(heads, systems[..., every:-1, :], systems[..., -1, :])


RELATIONS = (
    "relation", "direction", "layer", "head", "count", "accuracy", "low", "high", "offset", "offset_accuracy", *LEAD,
)  # fmt: skip
"""Columns of `relations.csv`."""
CROSS_FITTED = ("crossfit_accuracy", "crossfit_low", "crossfit_high", "crossfit_offset_accuracy")
BEST = (*RELATIONS, "unit", "kind", "ahead", *CROSS_FITTED, "agrees")
"""Columns of `best.csv`."""
SYSTEMS = ("system", "relation", "count", "accuracy", "low", "high")
"""Columns of `baselines.csv`."""
RELATION, PUNCTUATION, RARE, TOGETHER = "relation", "punctuation", "rare", "together"
"""Kinds of rows of `best.csv`: relations that can make a head syntactic, punctuation, relations of fewer than `OFTEN`
dependencies, all relations together."""


def kind_of(relation: str, count: int) -> str:
    """Which kind of row a relation is.

    Example:
        >>> kind_of("obj", 30), kind_of("obj", 29), kind_of("punct", 900), kind_of("all", 2000)
        ('relation', 'rare', 'punctuation', 'together')
    """
    if relation in (ALL, NO_PUNCTUATION):
        return TOGETHER
    if _is_punctuation(relation):
        return PUNCTUATION
    return RELATION if count >= OFTEN else RARE


def best_offsets(units: RelationHits) -> Int[np.ndarray, " relation"]:
    """Of each relation, the fixed offset that finds most of its dependencies."""
    return units.baselines[:, : len(OFFSETS)].sum(0).argmax(0)


def leads(units: RelationHits, offsets: Int[np.ndarray, " relation"], *, seed: int = 0) -> Contrasts:
    """Every head and direction beside the best fixed offset of every relation: does it find more, on the same units?

    One family: all heads, directions and relations of at least `OFTEN` dependencies, signs of whole documents flipped,
    one-sided. The offset is the best on these very documents, which makes the test conservative. Rarer relations have
    an estimate only: they cannot earn a name, and would cost the others power.

    Returns:
        [direction, head, relation].
    """
    offset_hits = np.take_along_axis(units.baselines, offsets[None, None], 1)[:, 0]
    lead = units.heads - offset_hits[:, None, None]
    counts = units.counts.sum(0)
    often = counts >= OFTEN
    ahead = lead[..., often]
    beside = np.broadcast_to(units.counts[:, None, None, often], ahead.shape)
    tests = sign_flip_family(ahead, beside, alternative="greater", bounds=(-1.0, 1.0), seed=seed)
    every = [np.full(lead.shape[1:], np.nan) for _ in Contrasts._fields]
    for values, tested in zip(every, tests, strict=True):
        values[..., often] = tested
    contrasts = Contrasts(*every)
    contrasts.estimate[:] = lead.sum(0, dtype=float) / np.where(counts > 0, counts, np.nan)
    contrasts.units[:] = (units.counts > 0).sum(0)
    return contrasts._replace(needed=np.nan_to_num(contrasts.needed))


def relations_table(meter: RelationMeter, per_block: int) -> pd.DataFrame:
    """Every head and relation on the whole split, beside the relation's best fixed offset there; see `leads`."""
    sums, samples, units = meter.sums(), meter.samples(), meter.units()
    offsets = best_offsets(units)
    tests = leads(units, offsets)
    parts = []
    for relation in np.flatnonzero(sums.counts).tolist():
        count, hits = sums.counts[relation], sums.heads[..., relation]
        low, high = ratio_intervals(samples.heads[..., relation], samples.counts[:, relation])
        direction, head = (axis.ravel() for axis in np.indices(hits.shape))
        part = {
            "relation": meter.relations[relation],
            "direction": np.array(DIRECTIONS)[direction],
            "layer": head // per_block + 1,
            "head": head % per_block + 1,
            "count": int(count),
            "accuracy": hits.ravel() / count,
            "low": low.ravel(),
            "high": high.ravel(),
            "offset": OFFSETS[offsets[relation]],
            "offset_accuracy": sums.baselines[offsets[relation], relation] / count,
        }
        tested = zip(LEAD, (values[..., relation].ravel() for values in tests), strict=True)
        parts.append(pd.DataFrame(part | dict(tested)))
    return pd.concat(parts, ignore_index=True).astype({"units": int, "needed": int})


def best_table(meter: RelationMeter, relations: pd.DataFrame, *, faithful: bool = False) -> pd.DataFrame:
    """The head that finds most of each relation, with its row of `relations_table`: its test is the one told.

    Any head could have been the best, and all of them are in the family of the test. `crossfit_accuracy` is free of the
    luck of the best of many: each half of the documents is scored by the head, direction and offset that the other half
    chose, and both are pooled; `agrees` says whether both halves chose the head that is shown. Missing for relations
    that only one half has, and where `faithful`.
    """
    best = relations.loc[relations.groupby("relation", sort=False)["accuracy"].idxmax()].reset_index(drop=True)
    kinds = [kind_of(name, int(count)) for name, count in zip(best["relation"], best["count"], strict=True)]
    table = best.assign(unit=meter.kind, kind=kinds, ahead=is_ahead(best))
    units, halves, weights = meter.units(), meter.halves(), meter.weights()
    scores = []
    for relation in map(meter.relations.index, table["relation"]):
        counts = units.counts[:, relation]
        if faithful or not all((counts[halves == half] > 0).any() for half in (CHOOSING, SCORED)):
            scores.append((*[np.nan] * len(CROSS_FITTED), faithful))
            continue
        head = cross_fit(units.heads[..., relation].reshape(len(halves), -1), halves)
        offset = cross_fit(units.baselines[:, : len(OFFSETS), relation], halves)
        low, high = ratio_intervals(weights @ head.hits, weights @ counts)
        shares = (float(crossed.hits.sum(dtype=float) / counts.sum(dtype=float)) for crossed in (head, offset))
        scores.append((next(shares), float(low), float(high), next(shares), head.agrees))
    return pd.concat([table, pd.DataFrame(scores, columns=[*CROSS_FITTED, "agrees"])], axis=1)[list(BEST)]


def baselines_table(meter: RelationMeter) -> pd.DataFrame:
    """Every fixed offset for every relation on the whole split, and right-branching for all of them together."""
    return pd.DataFrame(list(_baselines(meter)), columns=list(SYSTEMS))


def _baselines(meter: RelationMeter) -> Iterator[tuple]:
    sums, samples = meter.sums(), meter.samples()
    for relation, name in enumerate(meter.relations):
        count = sums.counts[relation]
        if not count:
            continue
        low, high = ratio_intervals(samples.baselines[..., relation], samples.counts[:, relation])
        for index, system in enumerate(BASELINES):
            # A tree's shape is a parser of sentences, not of one relation.
            if index < len(OFFSETS) or name in (ALL, NO_PUNCTUATION):
                yield (
                    system,
                    name,
                    int(count),
                    sums.baselines[index, relation] / count,
                    float(low[index]),
                    float(high[index]),
                )


_MOST = 3
"""Relations that are told one by one."""


def _one_sided(row: Any) -> Contrast:
    """The test of a lead, whose interval has no upper end."""
    return Contrast.of(row, *LEAD[:3])._replace(high=math.inf)


def relation_findings(best: pd.DataFrame, table: str, most: int = _MOST) -> Iterable[Finding]:
    """Which relations heads find more often than the best fixed offset, and how many.

    Args:
        best: rows of `best.csv`.
        table: the name it has in the result.
        most: relations to name one by one.
    """
    relations = pd.DataFrame(best[best["kind"] == RELATION])
    whether = "a head finds any relation more often than the best fixed offset"
    if best.empty:
        return
    if relations.empty:
        yield not_tested(whether, f"no relation has {OFTEN} dependencies")
        return
    ahead = pd.DataFrame(relations[relations["ahead"]])
    if ahead.empty:
        yield _closest(relations, table, whether)
    for row in rows_of(ahead.nlargest(most, "diff_low")):
        yield lead_over_offset(row, table, f"{row.relation} relations", ("answers", "beats control", "localised"))
    if len(ahead) > 1:
        yield _counted_relations(ahead, relations, table)


def _closest(relations: pd.DataFrame, table: str, whether: str) -> Finding:
    """Where no lead is clear: the most certain one; of untested ones, the largest."""
    ranked = relations.sort_values(["p_adjusted", "difference"], ascending=[True, False], na_position="last")
    row = next(rows_of(ranked))
    test = _one_sided(row)
    closest = "" if test.needed else f"; head {row.layer}-{row.head} comes closest, for {row.relation}"
    return finding(
        claim=f"Head {row.layer}-{row.head} finds {row.relation} more often than the best fixed offset",
        whether=whether + closest,
        absent="No head finds a relation more often than the best fixed offset",
        contrast="difference",
        test=test,
        source=Source(table, {"relation": row.relation}),
        unit=row.unit,
        importance=("answers", "beats control"),
    )


def lead_over_offset(row: Any, table: str, what: str, importance: Sequence[Worth]) -> Finding:
    """One head beside the best fixed offset."""
    head = f"head {row.layer}-{row.head}"
    notes = []
    if row.crossfit_accuracy == row.crossfit_accuracy and not row.agrees:
        notes.append(f"Chosen on other documents, the best head finds {percent(row.crossfit_accuracy)}.")
    # Of all relations together, provenance says so.
    if row.count < LEAST_TARGETS and row.kind == RELATION:
        notes.append(f"Small sample: {row.count:,} targets.")
    return finding(
        claim=(
            f"{head.capitalize()} finds {percent(row.accuracy)} of {what}; the best fixed offset finds "
            f"{percent(row.offset_accuracy)}"
        ),
        whether=f"{head} finds more of {what} than the best fixed offset",
        absent=f"{head.capitalize()} finds no more of {what} than the best fixed offset",
        contrast="difference",
        test=_one_sided(row),
        source=Source(table, {"relation": row.relation}),
        unit=row.unit,
        importance=importance,
        note=" ".join(notes),
    )


def _counted_relations(ahead: pd.DataFrame, relations: pd.DataFrame, table: str) -> Finding:
    """All of them hold together; the test of the least certain one is theirs."""
    row = next(rows_of(ahead.sort_values(["p_adjusted", "diff_low"], ascending=[False, True])))
    count = f"{len(ahead)} of {len(relations)} relations"
    return finding(
        claim=f"Heads find {count} more often than the best fixed offset; the least certain is {row.relation}",
        whether=f"heads find {count} more often than the best fixed offset",
        absent=f"Heads find none of {len(relations)} relations more often than the best fixed offset",
        contrast="its difference",
        test=_one_sided(row),
        source=(
            Source(table, {"relation": row.relation}),
            Source(table, {"kind": RELATION}),
            Source(table, {"kind": RELATION, "ahead": True}),
        ),
        unit=row.unit,
    )
