"""Which head finds which dependency: every head as an untrained classifier of relations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lamina.analyses.heads.behaviours import LEAD, OFTEN, is_ahead
from lamina.analyses.heads.combinations import (
    COMBINATIONS,
    WEIGHTS,
    CombinationMeter,
    combination_findings,
    combined_tables,
    relations_to_combine,
)
from lamina.corpora import Corpus
from lamina.corpora.treebanks import in_stanford
from lamina.errors import CorpusError, InputError
from lamina.framework.declare import ComparedValues, Table, Tables, analysis
from lamina.framework.inputs import LoadedInputs, Texts, Treebank
from lamina.framework.sample_size import LEAST_TARGETS
from lamina.framework.settings import Rows, Samples, Seed, Setting, Weights
from lamina.framework.watch import (
    From,
    PendingNumbers,
    Watch,
    WatchedBatch,
    WatchedText,
    Watching,
    Weighting,
    first_token,
    refuse_without_maps,
    watch,
)
from lamina.models import Encoder
from lamina.results import Result
from lamina.results.finding import Finding, Source, Worth, finding, not_tested, percent, rows_of, weakest
from lamina.stats.best import cross_fit
from lamina.stats.family import Contrasts, sign_flip_family
from lamina.stats.intervals import ratio_intervals
from lamina.stats.status import Contrast
from lamina.stats.units import CHOOSING, SCORED, Halves, UnitSums, halve
from lamina.tasks.catalogue import in_roles, in_words, plural_of
from lamina.types import Edge, Text

if TYPE_CHECKING:
    from lamina.activations import Runtime

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
    ends: Int[np.ndarray, " target"]
    """One past the last word that is right: arguments of predicates are spans."""
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
    rows: list[tuple[int, int, int, int, int, int]] = []
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
            end = head + 1 if edge.other is None else edge.other.end
            rows.append((number, dependent, word, head, end, numbers[relation]))
    of_text, dependents, asked_words, heads, ends, relations = np.array(rows, int).reshape(-1, 6).T
    members = np.array(counted)[relations] if counted else np.zeros((0, len(columns)), np.float32)
    return DependencyTargets(of_text, dependents, asked_words, heads, ends, members)


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
        places = targets.words[:, None] + np.array(OFFSETS)
        placed = (targets.heads[:, None] <= places) & (places < targets.ends[:, None])
        next_one = (targets.heads <= targets.dependents + 1) & (targets.dependents + 1 < targets.ends)
        counted = np.column_stack([answers.numpy(), placed, next_one, np.ones_like(next_one)]).astype(np.float32)
        for text, rows in self._sums.together(texts, targets.texts):
            self._sums.add((targets.members[rows].T @ counted[rows]).ravel(), text)

    @property
    def _counted(self) -> UnitSums:
        self._count()
        return self._sums

    def _found(self, batch: WatchedBatch, targets: DependencyTargets) -> Bool[Tensor, "target answer"]:
        """Whether each head is right about each target."""
        arrays = (targets.texts, targets.words, targets.heads[:, None, None], targets.ends[:, None, None])
        texts, words, heads, ends = (torch.from_numpy(array).to(batch.device) for array in arrays)
        # By target first, since an index before a slice and one after it come to the front.
        answers = (most_attended(group)[:, texts, :, words] for group in batch.words)
        return torch.cat([(heads <= answer) & (answer < ends) for answer in answers], -1).flatten(1)

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
DOCUMENTS = ("relation", "unit", "hits", "count")
"""Columns of `documents.csv`."""
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
    """The head that finds most of each relation, with its row of `relations_table`: findings state its test.

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


def documents_table(meter: RelationMeter, best: pd.DataFrame) -> pd.DataFrame:
    """What heads that other documents chose find in every document: the sums behind `crossfit_accuracy`."""
    units, halves = meter.units(), meter.halves()
    parts = []
    for relation in best.loc[best["crossfit_accuracy"].notna(), "relation"]:
        column = meter.relations.index(relation)
        counts = units.counts[:, column]
        hits = cross_fit(units.heads[..., column].reshape(len(halves), -1), halves).hits
        there = np.flatnonzero(counts)
        values = (there, hits[there].astype(int), counts[there].astype(int))
        parts.append(pd.DataFrame(dict(zip(("unit", "hits", "count"), values, strict=True))).assign(relation=relation))
    rows = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(DOCUMENTS))
    return rows[list(DOCUMENTS)]


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
"""Relations with a finding each."""


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
        yield not_tested(whether, "no relation is frequent enough")
        return
    ahead = pd.DataFrame(relations[relations["ahead"]])
    if ahead.empty:
        yield _closest(relations, table, whether)
    for row in rows_of(ahead.nlargest(most, "difference")):
        yield lead_over_offset(row, table, plural_of(str(row.relation)), ("answers", "beats control", "localised"))
    if len(ahead) > 1:
        yield _counted_relations(ahead, relations, table)


def _closest(relations: pd.DataFrame, table: str, whether: str) -> Finding:
    """Where no lead is clear: the most certain one; of untested ones, the largest."""
    ranked = relations.sort_values(["p_adjusted", "difference"], ascending=[True, False], na_position="last")
    row = next(rows_of(ranked))
    test = _one_sided(row)
    closest = "" if test.needed else f"; head {row.layer}-{row.head} comes closest, for {in_words(str(row.relation))}"
    return finding(
        claim=f"Head {row.layer}-{row.head} finds {in_words(str(row.relation))} more often than the best fixed offset",
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
    row = weakest(rows_of(ahead), lambda row: row.diff_low)
    count, least = f"{len(ahead)} of {len(relations)} relations", in_words(str(row.relation))
    return finding(
        claim=f"Heads find {count} more often than the best fixed offset; the least certain is {least}",
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


EXAMPLES = (
    "relation", "direction", "layer", "head", "text_id", "word_from", "word_to", "from", "to", "weight", "gold",
)  # fmt: skip
"""Columns of `examples.csv`."""
SPECIAL_TOKENS = "(special tokens)"
"""What a word gives to all special tokens together; its position is -1."""
WORDS = range(5, 16)
"""Lengths that can be drawn and say something."""
_RELATIONS = 6
_EXAMPLES_PER_TEXT = 2


class RelationHead(NamedTuple):
    """A head and the relation it finds."""

    relation: str
    direction: str
    layer: int
    head: int


def examples_table(
    encoder: Encoder, corpus: Corpus, best: pd.DataFrame, rows: From, weights: Weighting
) -> pd.DataFrame:
    """Whole word-level maps of the heads that lead their offset by most and clearly, on the first sentences that fit.

    Sentences are taken in the order of the corpus, whether the head is right about them or not: a picture of the
    best sentences would say nothing.
    """
    texts = _texts(corpus, examples := _worth_showing(best))
    drawer = _ExampleMaps(texts)
    shown_texts = {text.id: text for some in texts.values() for text in some}.values()
    watch(encoder, shown_texts, [drawer], rows=rows, weights=weights)
    ordered = [row for example in examples for row in drawer.found if row[:4] == example]
    return pd.DataFrame(ordered, columns=list(EXAMPLES))


def _worth_showing(best: pd.DataFrame) -> list[RelationHead]:
    """The heads whose lead is established, the largest leads first."""
    clear = pd.DataFrame(best[(best["kind"] == RELATION) & best["ahead"]])
    ranked = clear.sort_values("difference", ascending=False, kind="stable").head(_RELATIONS)
    return [RelationHead(*row) for row in ranked[list(RelationHead._fields)].itertuples(index=False)]


def _texts(corpus: Corpus, examples: Sequence[RelationHead]) -> dict[RelationHead, list[Text]]:
    """The first texts that fit, each for the first relation that still wants one."""
    texts: dict[RelationHead, list[Text]] = {example: [] for example in examples}
    for text in corpus:
        wanting = [example for example in examples if len(texts[example]) < _EXAMPLES_PER_TEXT]
        if not wanting:
            break
        if len(text.words) in WORDS:
            relations = {edge.labels[0] for edge in dependencies(text)}
            for example in [example for example in wanting if example.relation in relations][:1]:
                texts[example].append(text)
    return texts


class _ExampleMaps:
    """Keeps the maps of a few heads on a few short texts."""

    def __init__(self, texts: dict[RelationHead, list[Text]]) -> None:
        self._shown = [(text.id, example) for example, some in texts.items() for text in some]
        self.found: list[tuple] = []

    def update(self, batch: WatchedBatch) -> None:
        for watched in batch.singly:
            self._draw(watched)

    def _draw(self, watched: WatchedText) -> None:
        words, special = watched.words
        for text_id, example in self._shown:
            if text_id != watched.text.id:
                continue
            weights = words[example.layer - 1, example.head - 1].tolist()
            rest = special[example.layer - 1, example.head - 1].tolist()
            links = _links(watched.text, example)
            names = watched.text.words
            for one, other in product(range(len(names)), range(-1, len(names))):
                to, weight = (SPECIAL_TOKENS, rest[one]) if other < 0 else (names[other], weights[one][other])
                self.found.append((*example, text_id, names[one], to, one, other, weight, (one, other) in links))


def _links(text: Text, example: RelationHead) -> set[tuple[int, int]]:
    """From whom to whom a head of this direction should attend."""
    pairs = [
        (edge.span.start, edge.other.start)
        for edge in dependencies(text)
        if edge.other is not None and edge.labels[0] == example.relation
    ]
    return set(pairs) if example.direction == "dependent" else {(head, dependent) for dependent, head in pairs}


@dataclass(frozen=True)
class LinkedTexts(Treebank):
    """A model and texts with dependencies, or with semantic roles where those are the relations."""

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`."""
        roles = {"default": "propbank_ewt", "carrying": {"srl": "semantic roles"}}
        return Texts.load(
            replace(self, **roles) if settings["relations"] == "srl" else self, given, options, settings, runtime
        )


@analysis(
    title="Heads that find dependencies",
    question="Which single head points from a word to its syntactic head?",
    method=(
        "A head's answer for a word is the other word with the largest weight in its row or its column, special tokens "
        "left out. Every head is compared with the relation's best fixed offset on the same documents, by flipping the "
        "signs of whole documents, one-sided; one family of all heads, directions and relations of at least 30 "
        "dependencies (max-T). Accuracies of a chosen head are also cross-fitted: chosen on one half of the documents, "
        "scored on the other, and the other way round."
    ),
    cites=("Clark et al. 2019",),
    reads=LinkedTexts(),
    # Both halves choose and are scored; documents are resampled; head and offset are paired (3). Max-T instead of Holm;
    # findings state the contrast that is tested, beside cross-fitted scores (4).
    # Spans can be right, as roles have them; combinations (6).
    version=6,
    tables={
        "relations": Table(
            "One row per head, relation and direction. `difference`: head minus best fixed offset; `p_adjusted` and "
            "`diff_low` are one-sided (more than the offset), of one family: all heads, directions and relations of at "
            "least 30 dependencies. `needed` above 0: untested.",
            RELATIONS,
        ),
        "best": Table(
            "One row per relation: the head that finds most of it, with its row of `relations`; `kind` says whether "
            "the relation counts as syntax, `ahead` whether the head is clearly ahead of the offset, `crossfit_` are "
            "scores of heads that other documents chose.",
            BEST,
        ),
        "baselines": Table("One row per relation and simple system.", SYSTEMS),
        "documents": Table(
            "One row per relation and document (unit, from 0; text, where the corpus is one document): how many of its "
            "dependencies are found by the head that other documents chose.",
            DOCUMENTS,
            optional=True,
        ),
        "examples": Table("One row per pair of words in an example sentence.", EXAMPLES),
        "combinations": Table(
            "One row per relation and baseline, with --combine only: what a weighted set of heads finds on documents "
            "that it was not learned on; heads and heads_other: how many are enough, as either half says. difference: "
            "the set minus the baseline, one-sided; family: all rows.",
            COMBINATIONS,
            optional=True,
        ),
        "combination_weights": Table(
            "One row per head of a set, half that learned it and direction, with --combine only.",
            WEIGHTS,
            optional=True,
        ),
    },
    chapter="heads",
    takes=4,
    report={"samples": 500},
    compares=ComparedValues(
        "best",
        ("relation",),
        "accuracy of the best head",
        ("crossfit_accuracy", "crossfit_low", "crossfit_high"),
        layer="layer",
        units="documents",
    ),
    example="lamina heads minilm --corpus ud_english_ewt --split dev --out results/heads",
)
def heads(
    encoder: Encoder,
    corpus: Corpus,
    *,
    rows: Rows = "mean",
    weights: Weights = "attention",
    faithful: Annotated[
        bool, Setting("Choose the best heads on the texts they are scored on, as in the paper.")
    ] = False,
    stanford: Annotated[
        bool, Setting("Convert universal dependencies to basic Stanford ones by rule (prep and pobj, dobj, nn, poss).")
    ] = False,
    relations: Annotated[
        Literal["dep", "srl"],
        Setting("Which relations: dep (dependencies) or srl (from a predicate to the words of its argument, by role)."),
    ] = "dep",
    combine: Annotated[
        bool,
        Setting(
            "Learn a weighted set of heads for every frequent relation on one half of the documents, and score it on "
            "the other; beside it the best single head, the best offset and an untrained twin."
        ),
    ] = False,
    samples: Samples = 500,
    seed: Seed = 0,
) -> Watching:
    """How many dependencies each head finds, by relation and direction, beside the best fixed offset.

    A head's answer for a word is the other word with the largest weight in the word's row (`dependent`: the dependent
    attends to its head) or in its column (`head`: the head attends to its dependent); special tokens do not count. In
    a decoder no word attends to a later one, so only one of the two directions can find a given dependency; and where
    its tokenizer puts no special token first, the text's first word draws the attention that special tokens draw
    elsewhere, and hides what a row says (provenance says which it was).

    `difference` is head minus the relation's best offset on the same documents. `p_adjusted` (one-sided: does the head
    find more?) and `diff_low` belong to one family of all heads, directions and relations of at least 30 dependencies:
    any of them could have been the best. The offset is the best on these documents, so the test is conservative.

    `best` has the head that finds most of each relation; it earns the relation's name where `p_adjusted` is below .05
    (`ahead`). `crossfit_accuracy` is what such a choice is worth on other documents: head, direction and offset are
    chosen on one half of the documents and scored on the other, then the other way round, and both are pooled; `agrees`
    says whether both halves chose the head that is shown. The winner of hundreds of heads is a little lucky on the data
    that made it win.
    Documents are what varies in all intervals and tests; texts, where the corpus is one document.

    Example:
        >>> encoder, corpus = lamina.load_encoder("minilm"), lamina.load_corpus("ewt", "dev")  # doctest: +SKIP
        >>> heads(encoder, corpus).tables["best"].head(1)["relation"].tolist()  # doctest: +SKIP
        ['punct']
    """
    refuse_without_maps(encoder)
    if relations == "srl":
        if stanford:
            raise InputError("stanford converts dependencies; leave it out with roles (--relations srl)")
        corpus = in_roles(corpus)
    counts = _relations(corpus)
    if stanford:
        corpus = in_stanford(corpus)
        counts = _relations(corpus)
    halves = halve(corpus, seed)
    if not faithful and not halves.choosing:
        raise CorpusError(
            f"{corpus.name}: one half of the texts chooses heads and the other is scored, and there is one text only; "
            "give more, or choose and score on the same one (faithful)"
        )
    meter = RelationMeter(encoder.blocks * encoder.heads, counts, halves, samples=samples, seed=seed)
    several = CombinationMeter(relations_to_combine(counts, (ALL, NO_PUNCTUATION)), seed=seed) if combine else None
    meters = [meter] if several is None else [meter, several]
    skipped = yield Watch(encoder, corpus, meters, rows=rows, total=len(corpus), weights=weights)
    everywhere = relations_table(meter, encoder.heads)
    best = best_table(meter, everywhere, faithful=faithful)
    skipped["dependencies lost where their text was cut"] = counts[ALL] - _counted(meter)
    if not faithful:
        lone = int(best["crossfit_accuracy"].isna().sum())
        skipped["relations that only one half of the texts has, without a cross-fitted score"] = lone
    tables = {
        "relations": everywhere,
        "best": best,
        "baselines": baselines_table(meter),
        "documents": documents_table(meter, best),
        "examples": examples_table(encoder, corpus, best, rows, weights),
    }
    if several is not None:
        tables |= combined_tables(
            encoder, corpus, several, halves, OFFSETS, rows=rows, weights=weights, samples=samples, seed=seed
        )
        left = len(several.targets) - tables["combinations"]["relation"].nunique()
        skipped["relations with too few targets in a half to combine heads"] = left
    scored = {"dependencies": _counted(meter)}
    data = {"labels": corpus.scheme} if stanford else {}
    return Tables(tables, skipped, model={"first_token": first_token(encoder)}, data=data, scored=scored)


@heads.finds
def _findings(result: Result) -> Iterable[Finding]:
    """The relations that heads find most clearly, how many there are, and all relations together."""
    best = result.tables.get("best")
    if best is None or best.empty or not set(BEST) <= set(best):
        return
    yield from relation_findings(best, "best")
    every = "all dependencies without punctuation"
    if result.provenance.parameters.get("relations") == "srl":
        every = "all arguments"
    for row in rows_of(best[best["relation"] == NO_PUNCTUATION].dropna(subset=["diff_low"])):
        yield lead_over_offset(row, "best", every, ("answers", "beats control"))
    if "combinations" in result.tables:
        yield from combination_findings(result.tables["combinations"])


def _relations(corpus: Corpus) -> Counter[str]:
    """The relations of the corpus, `all` first and then the most frequent first."""
    if "dep" not in corpus.annotations:
        has = ", ".join(corpus.annotations) or "none"
        raise CorpusError(
            f"{corpus.name} has no dependencies (annotation dep; it has: {has}); name a treebank, for example ewt"
        )
    counts = relations_of(corpus)
    if not counts:
        raise CorpusError(f"{corpus.name} ({corpus.split}) has no dependency: all its sentences have one word")
    together = {name: counts[name] for name in (ALL, NO_PUNCTUATION) if name in counts}
    return Counter(together | dict(counts.most_common()))


def _counted(meter: RelationMeter) -> int:
    return int(meter.sums().counts[meter.relations.index(ALL)])
