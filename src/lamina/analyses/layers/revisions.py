"""How often a decision is revised from layer to layer, and whether that depends on when another task has settled.

A decision is what a probe P(l) says of a target; it is revised at layer l where P(l) says something else than P(l-1),
and has settled at the layer of its last revision (0 where there is none).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from scipy import sparse

from lamina.analyses.layers.probe.predictions import ProbeDecisions, SavedTargets
from lamina.progress import progress
from lamina.results.finding import Finding, Source, finding, not_tested, number, rows_of
from lamina.stats.family import Contrasts, bootstrap_family, permutation_family, sign_flip_family
from lamina.stats.intervals import interval, widening
from lamina.stats.seeds import seed_shares
from lamina.stats.status import NEGLIGIBLE, Contrast, status_of
from lamina.stats.units import Units
from lamina.tasks import title_of

AFTER, AFTER_REVISED, SAME = "after_settled", "after_revised", "same_layer"
"""Measures of two decisions about the same words, a and b, where a is revised: a's last revision comes after b has
settled; the same where b was revised too; where both were, their last revisions are at the same layer."""
_FEW = 20
"""Labels that fewer targets have are shuffled together: alone they would often be put back where they were."""
_MOST_PAIRS, _MOST_TASKS = 3, 3
"""Pairs of tasks, and tasks, that findings are about; the tables have all."""


class Revision(NamedTuple):
    """One row of `revisions.csv`."""

    task: str
    layer: int | None
    """Of the revision, from 1 on; None for all layers together."""
    targets: int
    revised: float
    """Share of targets revised at this layer; for all layers, at least once. Mean over seeds."""
    low: float
    high: float
    mean: float
    """Revisions per target: at one layer the same number, for all layers their sum."""
    settled: float
    """Share of targets that are not revised after this layer."""
    mended: float
    """Share of the revisions that replace a wrong decision by the right one."""
    spoiled: float
    """Share of the revisions that replace the right decision by a wrong one."""
    seeds_differ: float
    """Share of targets about which two seeds disagree at this layer; for all layers, the mean over layers. It says how
    much training again changes by itself."""
    difference: float
    """Of one layer: revised minus seeds_differ; by document."""
    difference_low: float
    """95 %, simultaneous over all tasks and layers."""
    difference_high: float
    p_adjusted: float
    """Two-sided, by flipped signs of documents and max-T over all tasks and layers."""
    units: int
    """Documents (texts where there is one)."""
    needed: int
    """0, or how many of them a test would need at least."""
    unit: str
    """document or text."""


class RevisedAfter(NamedTuple):
    """One row of `revised_after.csv`: targets of two tasks that share words."""

    task_a: str
    task_b: str
    measure: str
    """after_settled, after_revised or same_layer."""
    pairs: float
    """Pairs of targets that the share is of; mean over seeds."""
    observed: float
    low: float
    high: float
    shuffled: float
    """The same with b's settling taken from targets of other texts: mean over shuffles."""
    shuffled_low: float
    """Lower end of the middle 95 % of the shuffles."""
    shuffled_high: float
    difference: float
    """Observed minus shuffled."""
    difference_low: float
    """95 %, simultaneous over all pairs of tasks and measures."""
    difference_high: float
    p_adjusted: float
    """Two-sided, from the shuffles, by max-T over all pairs of tasks and measures."""
    units: int
    """Documents (texts where there is one) with such pairs."""
    needed: int
    """0, or how many of them a test would need at least."""
    unit: str
    """document or text."""


def revised_at(decided: ProbeDecisions) -> Bool[np.ndarray, "seed step target"]:
    """Whether each decision is revised at layers 1 to L."""
    return (decided.labels_given[:, 1:] != decided.labels_given[:, :-1]).any(-1)


def settled_at(revised: Bool[np.ndarray, "seed step target"]) -> Int[np.ndarray, "seed target"]:
    """The layer of the last revision; 0 where there is none.

    Example:
        >>> settled_at(np.array([[[True, False], [False, False], [True, False]]])).tolist()
        [[3, 0]]
    """
    return np.where(revised.any(1), revised.shape[1] - revised[:, ::-1].argmax(1), 0)


class RevisionDraws:
    """Documents resampled, all seeds together; with 5 seeds or more, seeds vary too, by Student's t."""

    def __init__(self, units: Units, seeds: int, *, samples: int, seed: int) -> None:
        self.units = units
        self._weights = units.weights(samples=samples, seed=seed).astype(float)
        self._shares = seed_shares(seeds, samples, np.random.default_rng([seed, seeds]))

    def by_unit(self, values: Float[np.ndarray, "*kinds text"]) -> Float[np.ndarray, "*kinds unit"]:
        """The sums over the texts of each document."""
        return np.moveaxis(self.units.sums(np.moveaxis(values, -1, 0)), 0, -1)

    def share(self, hits: Float[np.ndarray, "seed text"], of: Float[np.ndarray, "seed text"]) -> tuple[float, float]:
        """The 95 % interval of the share of hits, over all seeds."""
        if not of.sum():
            return np.nan, np.nan
        value = float(hits.sum() / of.sum())
        drawn = _ratio(*(self._weights @ self.by_unit(counts.sum(0)) for counts in (hits, of)))
        apart = (hits - value * of).sum(1) * len(of) / of.sum()
        low, high = interval(value + (drawn - value) * widening(len(self.units)) + self._shares @ apart)
        return max(low, 0.0), min(high, 1.0)

    def sums(self, added: Float[np.ndarray, "seed text"]) -> Float[np.ndarray, " sample"]:
        """What each sample changes a difference by, from what each text adds to it."""
        units = len(self.units)
        drawn = (self._weights @ self.by_unit(added.sum(0))) * widening(units)
        return drawn + self._shares @ (len(added) * added.sum(1))


@dataclass(frozen=True, eq=False)
class RevisedTask:
    """A task's decisions and when they were revised, with texts numbered as in the whole corpus."""

    decided: ProbeDecisions
    text: Int[np.ndarray, " target"]
    texts: int
    revised: Bool[np.ndarray, "seed step target"]
    settled: Int[np.ndarray, "seed target"]

    @property
    def targets(self) -> SavedTargets:
        return self.decided.targets

    def by_text(self, values: np.ndarray) -> Float[np.ndarray, "seed text"]:
        """[seed, target] -> sums over the targets of each text."""
        return np.stack([np.bincount(self.text, of_seed, self.texts) for of_seed in values])


def _timed(decided: Sequence[ProbeDecisions]) -> list[RevisedTask]:
    """The tasks of one corpus."""
    ids = dict.fromkeys(text for decisions in decided for text in decisions.targets.texts)
    number = {text: position for position, text in enumerate(ids)}
    timed = []
    for decisions in decided:
        revised = revised_at(decisions)
        text = np.array([number[text] for text in decisions.targets.texts], np.int64)[decisions.targets.text]
        timed.append(RevisedTask(decisions, text, len(ids), revised, settled_at(revised)))
    return timed


def revision_tables(
    decided: Sequence[ProbeDecisions], *, samples: int, shuffles: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`revisions` and `revised_after`; two tasks are put beside each other where they come from the same corpus."""
    single: list[Revision] = []
    beyond: list[BeyondSeeds] = []
    both: list[CouplingRow] = []
    for corpus in dict.fromkeys(decisions.corpus for decisions in decided):
        timed = _timed([decisions for decisions in decided if decisions.corpus == corpus and len(decisions.targets)])
        if not timed:
            continue
        draws = RevisionDraws(_units(timed), len(timed[0].decided.seeds), samples=samples, seed=seed)
        for task in timed:
            single += _revisions(task, draws)
            beyond += _beyond(task, draws.units)
        pairs = list(permutations(timed, 2))
        with progress(f"{corpus}: {len(pairs)} pairs of tasks", total=len(pairs)) as advance:
            for a, b in pairs:
                both += _revised_after(a, b, draws, shuffles=shuffles, seed=seed)
                advance()
    table = pd.DataFrame(_beside_seeds(single, beyond), columns=list(Revision._fields)).astype({"layer": "Int64"})
    return table, pd.DataFrame(_corrected(both), columns=list(RevisedAfter._fields))


def _units(tasks: Sequence[RevisedTask]) -> Units:
    """The documents of a corpus's texts; texts where there is one document, or the files do not say."""
    documents: dict[str, str] = {}
    for task in tasks:
        targets = task.targets
        documents |= dict(zip(targets.texts, targets.documents or targets.texts, strict=True))
    several = len({*documents.values()}) > 1 and any(text != document for text, document in documents.items())
    return Units.of(documents.values() if several else documents, "document" if several else "text")


def _revisions(task: RevisedTask, draws: RevisionDraws) -> Iterator[Revision]:
    """One row per layer, then one for all layers together."""
    right = task.decided.right
    seeds, layers, targets = right.shape
    mended, spoiled = ~right[:, :-1] & right[:, 1:], right[:, :-1] & ~right[:, 1:]
    differ = _seeds_differ(task.decided)
    between = np.full(layers, np.nan) if differ is None else differ.mean(-1)
    counted = task.by_text(np.ones((seeds, targets)))

    def row(layer: int | None, hit: np.ndarray, steps: slice, settled: float, disagree: float) -> Revision:
        low, high = draws.share(task.by_text(hit), counted)
        total = task.revised[:, steps].sum()
        mends, spoils = (float(_ratio(change[:, steps].sum(), total)) for change in (mended, spoiled))
        about = (task.decided.task, layer, targets, float(hit.mean()), low, high, float(total / hit.size))
        none = (np.nan, np.nan, np.nan, np.nan)
        return Revision(*about, settled, mends, spoils, disagree, *none, 0, 0, draws.units.kind)

    for layer in range(1, layers):
        settled = float((task.settled <= layer).mean())
        yield row(layer, task.revised[:, layer - 1], slice(layer - 1, layer), settled, float(between[layer]))
    yield row(None, task.settled > 0, slice(None), np.nan, float(between.mean()))


def _seeds_differ(decided: ProbeDecisions) -> Float[np.ndarray, "layer target"] | None:
    """The share of pairs of seeds that disagree about each target; None of one seed."""
    pairs = list(combinations(range(len(decided.seeds)), 2))
    if not pairs:
        return None
    labels_given = decided.labels_given
    return np.mean([(labels_given[one] != labels_given[other]).any(-1) for one, other in pairs], axis=0)


class BeyondSeeds(NamedTuple):
    """How much more often decisions are revised at one layer than two seeds disagree, by document."""

    task: str
    layer: int
    units: Units
    differences: Float[np.ndarray, " unit"]
    """Summed over the targets of each document."""
    counts: Float[np.ndarray, " unit"]


def _beyond(task: RevisedTask, units: Units) -> Iterator[BeyondSeeds]:
    differ = _seeds_differ(task.decided)
    if differ is None:
        return
    counts = units.sums(task.by_text(np.ones((1, len(task.text))))[0])
    for layer in range(1, len(differ)):
        apart = task.revised[:, layer - 1].mean(0) - differ[layer]
        yield BeyondSeeds(task.decided.task, layer, units, units.sums(task.by_text(apart[None])[0]), counts)


def beyond_seeds(
    differences: Sequence[Float[np.ndarray, " unit"]],
    counts: Sequence[Float[np.ndarray, " unit"]],
    corpus: Sequence[int],
) -> Contrasts:
    """Whether decisions are revised more often than two seeds disagree: all tasks and layers are one family.

    Args:
        differences: of each task and layer, revised minus disagreed, summed over the targets of each document.
        counts: of the same, the targets of each document.
        corpus: of the same, the number of the corpus whose documents these are.
    """
    sizes = dict(zip(corpus, map(len, differences), strict=True))
    starts = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
    values, targets = (np.zeros((sum(sizes.values()), len(differences))) for _ in range(2))
    for member, (summed, counted, where) in enumerate(zip(differences, counts, corpus, strict=True)):
        rows = slice(starts[where], starts[where] + len(summed))
        values[rows, member], targets[rows, member] = summed, counted
    return sign_flip_family(values, targets, bounds=(-1.0, 1.0))


def _beside_seeds(rows: Sequence[Revision], beyond: Sequence[BeyondSeeds]) -> list[Revision]:
    """The rows with their tests."""
    if not beyond:
        return list(rows)
    corpora = list({id(member.units): None for member in beyond})
    tests = beyond_seeds(
        [member.differences for member in beyond],
        [member.counts for member in beyond],
        [corpora.index(id(member.units)) for member in beyond],
    )
    tested = {
        (member.task, member.layer): numbers
        for member, *numbers in zip(beyond, *(part.tolist() for part in tests), strict=True)
    }
    completed = []
    for row in rows:
        numbers = tested.get((row.task, row.layer)) if row.layer is not None else None
        if numbers is None:
            completed.append(row)
            continue
        estimate, low, high, p, units, needed = numbers
        named = {"difference": estimate, "difference_low": low, "difference_high": high, "p_adjusted": p}
        completed.append(row._replace(**named, units=int(units), needed=int(needed)))
    return completed


@dataclass(frozen=True, eq=False)
class ShuffledTargets:
    """b's targets that share words with some target of a: these change places."""

    settled: Int[np.ndarray, "target seed"]
    text: Int[np.ndarray, " target"]
    texts: int
    kind: Int[np.ndarray, " target"]
    """Targets of one kind change places among themselves."""
    units: Units
    """The documents of the texts."""

    def chances(self, layers: int) -> Float[np.ndarray, "kind seed layer"]:
        """How often targets of each kind settle at each layer."""
        settled_there = (self.settled[:, :, None] == np.arange(layers)).astype(float)
        return _by_kind(settled_there, self.kind) / self.counts[:, None, None].clip(min=1)

    @property
    def counts(self) -> Int[np.ndarray, " kind"]:
        return np.bincount(self.kind)

    def draws(self, shuffles: int, seed: int) -> Iterator[Int[np.ndarray, "target seed"]]:
        """When the targets settle after each shuffle."""
        rng, slots, moved = np.random.default_rng(seed), np.lexsort((self.text, self.kind)), np.empty_like(self.settled)
        for _ in range(shuffles):
            # Whole texts change places, kind by kind: what neighbours have in common stays together.
            moved[slots] = self.settled[np.lexsort((rng.permutation(self.texts)[self.text], self.kind))]
            yield moved


class CouplingShare(NamedTuple):
    """A measure, were b's targets to settle in some way."""

    hits: Int[np.ndarray, "selected seed"]
    """Pairs for which it holds."""
    of: Int[np.ndarray, "selected seed"]
    """Pairs that count."""
    share: float
    taking: Float[np.ndarray, "selected seed"]
    """What each target that is counted adds to the difference from the expected share."""
    giving: Float[np.ndarray, "target seed"]
    """What each target of b takes from it because others may be given its layer."""


class CouplingMeasure:
    """A share of pairs, the share that shuffling gives on average, and what each text adds to their difference.

    The standard error of the difference comes from the documents: shuffles of the difference alone reject too often
    where the decisions of one document have something in common. A text takes part as its own pairs and as a giver to
    others.
    """

    def __init__(
        self,
        hits: Int[np.ndarray, "selected seed layer"],
        of: Int[np.ndarray, "selected seed layer"],
        selected: Int[np.ndarray, " selected"],
        b: ShuffledTargets,
    ) -> None:
        """`hits` and `of` count pairs of each target of b that is counted, were it to settle at each layer."""
        self._hits, self._of, self._selected, self._b = hits, of, selected, b
        self._owner = b.text[selected]
        self._document = np.array(b.units.owner, int)
        chances = b.chances(hits.shape[-1])
        self.expected_hits, self.expected_of = ((pairs * chances[b.kind[selected]]).sum(-1) for pairs in (hits, of))
        total_of = self.expected_of.sum()
        self.expected = float(_ratio(self.expected_hits.sum(), total_of))
        excess = (hits - self.expected * of) / max(total_of, 1e-12)
        giving = _by_kind(excess, b.kind[selected], len(b.counts)) / b.counts[:, None, None].clip(min=1)
        self._giving = giving - (chances * giving).sum(-1, keepdims=True)
        self._taken = (self.expected_hits - self.expected * self.expected_of) / max(total_of, 1e-12)

    def observe(self, settled: Int[np.ndarray, "target seed"]) -> CouplingShare:
        """What there is, were b's targets to settle so."""
        layers = settled[self._selected][:, :, None]
        hits, of = (np.take_along_axis(counts, layers, 2)[:, :, 0] for counts in (self._hits, self._of))
        share = float(_ratio(hits.sum(), of.sum()))
        taking = (hits - share * of) / max(of.sum(), 1e-12) - self._taken
        giving = self._giving[self._b.kind[:, None], np.arange(settled.shape[1]), settled]
        return CouplingShare(hits, of, share, taking, giving)

    def away(self, observed: CouplingShare) -> float:
        """How many standard errors the share is away from the expected one."""
        # A product: sums over an axis of a few seeds are slow.
        taking, giving = (part @ np.ones((part.shape[1], 1)) for part in (observed.taking, observed.giving))
        by_document = np.bincount(self._document, self.added(taking, giving)[0])
        error = float(np.sqrt((by_document**2).sum()))
        return (observed.share - self.expected) / max(error, 1e-12)

    def added(self, taking: np.ndarray, giving: np.ndarray) -> Float[np.ndarray, "seed text"]:
        """What each text adds to the difference, to first order."""
        return self.by_text(taking) - np.stack(
            [np.bincount(self._b.text, of_seed, self._b.texts) for of_seed in giving.T]
        )

    def by_text(self, values: Float[np.ndarray, "selected seed"]) -> Float[np.ndarray, "seed text"]:
        return np.stack([np.bincount(self._owner, of_seed, self._b.texts) for of_seed in values.T])


def _by_kind(values: np.ndarray, kind: Int[np.ndarray, " target"], kinds: int = 0) -> Float[np.ndarray, "kind ..."]:
    sums = np.zeros((max(kinds, int(kind.max()) + 1), *values.shape[1:]))
    np.add.at(sums, kind, values)
    return sums


def _measures(a: RevisedTask, shared: sparse.csr_array, b: ShuffledTargets) -> dict[str, CouplingMeasure]:
    """The measures by name; none where no decision of a that shares words with b's targets is revised."""
    layers = a.revised.shape[1] + 1
    later = (a.settled.T[:, :, None] > np.arange(layers)).astype(np.int32)
    counted = np.asarray(shared @ later.reshape(len(later), -1))
    selected = np.flatnonzero(counted.any(1))
    if not len(selected):
        return {}
    # Targets of a that are last revised after each layer, for each target of b that has some; the others do not count.
    after = counted[selected].reshape(len(selected), len(a.settled), layers)
    revised = np.broadcast_to(after[:, :, :1], after.shape)
    moved = np.arange(layers) > 0
    at_layer = np.concatenate([np.zeros_like(after[:, :, :1]), after[:, :, :-1] - after[:, :, 1:]], axis=2)
    return {
        AFTER: CouplingMeasure(after, revised, selected, b),
        AFTER_REVISED: CouplingMeasure(after * moved, revised * moved, selected, b),
        SAME: CouplingMeasure(at_layer, revised * moved, selected, b),
    }


def _shared_words(a: RevisedTask, b: RevisedTask) -> sparse.csr_array:
    """[target of b, target of a] Whether they share a word."""
    ends = np.zeros(a.texts, np.int64)
    for task in (a, b):
        np.maximum.at(ends, task.text, task.targets.words[:, :, 1].max(1))
    starts = np.concatenate([[0], np.cumsum(ends)])
    of_a, of_b = (_words_of(task, starts) for task in (a, b))
    shared = sparse.csr_array(of_b @ of_a.T)
    shared.data = np.ones_like(shared.data)
    return shared


def _words_of(task: RevisedTask, starts: Int[np.ndarray, " text"]) -> sparse.csr_array:
    """[target, word of the corpus] Whether the word is in one of the target's spans."""
    first = (starts[task.text][:, None] + task.targets.words[:, :, 0]).ravel()
    lengths = (task.targets.words[:, :, 1] - task.targets.words[:, :, 0]).ravel()
    owner = np.repeat(np.repeat(np.arange(len(task.text)), task.targets.words.shape[1]), lengths)
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    words = np.repeat(first, lengths) + within
    shape = (len(task.text), int(starts[-1]))
    return sparse.csr_array((np.ones(len(words), np.int32), (owner, words)), shape=shape)


def _kinds(gold: Bool[np.ndarray, "target label"]) -> Int[np.ndarray, " target"]:
    """The number of each target's gold labels among the sets of labels that occur; rare sets share a number."""
    if not len(gold):
        return np.zeros(0, np.int64)
    _, kind, count = np.unique(np.packbits(gold, axis=1), axis=0, return_inverse=True, return_counts=True)
    kind = kind.reshape(-1)
    return np.where(count[kind] < _FEW, len(count), kind)


_NUMBERS = RevisedAfter._fields[RevisedAfter._fields.index("observed") : RevisedAfter._fields.index("units")]
"""What is not available where no two targets share a word."""


class CouplingRow(NamedTuple):
    """A row without its test, and what the test needs."""

    row: RevisedAfter
    away: float = np.nan
    """How many standard errors the share is away from the expected one."""
    shuffled: np.ndarray | None = None
    """[shuffle] The same of the shuffles."""
    draws: np.ndarray | None = None
    """[sample] Of the difference."""


def _revised_after(
    a: RevisedTask, b: RevisedTask, draws: RevisionDraws, *, shuffles: int, seed: int
) -> Iterator[CouplingRow]:
    """One row per measure; `same_layer` is the same both ways and given once."""
    names = [AFTER, AFTER_REVISED, *([SAME] if a.decided.task < b.decided.task else [])]
    shared = _shared_words(a, b)
    rows = np.flatnonzero(np.diff(shared.indptr))
    moving = ShuffledTargets(b.settled.T[rows], b.text[rows], b.texts, _kinds(b.targets.gold[rows]), draws.units)
    measures = _measures(a, shared[rows], moving)
    if not measures:
        for name in names:
            none = dict.fromkeys(_NUMBERS, np.nan)
            row: Any = {"task_a": a.decided.task, "task_b": b.decided.task, "measure": name, "pairs": 0.0, **none}
            yield CouplingRow(RevisedAfter(**row, units=0, needed=0, unit=draws.units.kind))
        return
    drawn: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for settled in moving.draws(shuffles, seed):
        for name in names:
            chance = measures[name].observe(settled)
            drawn[name].append((chance.share, measures[name].away(chance)))
    for name in names:
        measure = measures[name]
        observed, (shares, away) = measure.observe(moving.settled), np.array(drawn[name]).T
        hits, of = (measure.by_text(part.astype(float)) for part in (observed.hits, observed.of))
        difference = observed.share - measure.expected
        row = RevisedAfter(
            task_a=a.decided.task,
            task_b=b.decided.task,
            measure=name,
            pairs=float(observed.of.sum() / observed.of.shape[1]),
            observed=observed.share,
            **_named("", draws.share(hits, of)),
            shuffled=measure.expected,
            **_named("shuffled_", interval(shares)),
            difference=difference,
            **_named("difference_", (np.nan, np.nan)),
            p_adjusted=np.nan,
            units=int((draws.by_unit(of.sum(0)) > 0).sum()),
            needed=0,
            unit=draws.units.kind,
        )
        change = draws.sums(measure.added(observed.taking, observed.giving))
        yield CouplingRow(row, measure.away(observed), away, difference + change)


def _named(of: str, ends: tuple[float, float]) -> dict[str, float]:
    return {f"{of}low": ends[0], f"{of}high": ends[1]}


def coupling_family(
    away: Float[np.ndarray, " member"],
    shuffled: Float[np.ndarray, "shuffle member"],
    differences: Float[np.ndarray, " member"],
    draws: Float[np.ndarray, "sample member"],
    units: Float[np.ndarray, " member"],
) -> Contrasts:
    """Whether tasks are revised with each other more or less often than shuffled ones.

    All pairs of tasks and all measures are one family: p comes from the shuffles, which are the same for all of them;
    the interval is that of resampled documents.

    Args:
        away: how many standard errors each share is away from the one expected of shuffled tasks.
        shuffled: the same after each shuffle.
        differences: of the shares from the expected ones.
        draws: the same from resampled documents, spread for few of them.
        units: documents with such pairs.
    """
    tests = bootstrap_family(differences, draws, units, bounds=(-1.0, 1.0), widen=False)
    p = permutation_family(away, shuffled, alternative="two-sided")
    return tests._replace(p=np.where(tests.needed > 0, np.nan, p))


def _corrected(rows: Sequence[CouplingRow]) -> list[RevisedAfter]:
    """The rows with their tests."""
    known = [coupling for coupling in rows if coupling.draws is not None and np.isfinite(coupling.row.difference)]
    tested: dict[int, list[float]] = {}
    if known:
        tests = coupling_family(
            np.array([coupling.away for coupling in known]),
            np.stack([coupling.shuffled for coupling in known if coupling.shuffled is not None], axis=1),
            np.array([coupling.row.difference for coupling in known]),
            np.stack([coupling.draws for coupling in known if coupling.draws is not None], axis=1),
            np.array([coupling.row.units for coupling in known], float),
        )
        tested = {
            id(coupling): numbers for coupling, *numbers in zip(known, *(part.tolist() for part in tests), strict=True)
        }
    completed = []
    for coupling in rows:
        row = coupling.row
        if id(coupling) in tested:
            _, low, high, p, _, needed = tested[id(coupling)]
            row = row._replace(difference_low=low, difference_high=high, p_adjusted=p, needed=int(needed))
        completed.append(row)
    return completed


def _ratio(hits: np.ndarray | float, of: np.ndarray | float) -> np.ndarray:
    """NaN where nothing was asked."""
    of = np.asarray(of, float)
    return np.divide(hits, of, out=np.full_like(of, np.nan), where=of > 0)


def revision_findings(revisions: pd.DataFrame, revised_after: pd.DataFrame) -> Iterator[Finding]:
    """Whether one task waits for another, whether two are revised together, and what seeds do not explain."""
    for measure in (AFTER_REVISED, SAME):
        rows = [row for row in rows_of(revised_after) if row.measure == measure and row.difference == row.difference]
        ordered = sorted(rows, key=lambda row: (_missing_last(row.p_adjusted), -abs(row.difference)))
        clear = [row for row in ordered if _status(row) == "clear"]
        count = f"Clear for {len(clear)} of {len(rows)} pairs of tasks." if len(rows) > 1 else ""
        for row in clear[:_MOST_PAIRS] or ordered[:1]:
            yield _coupled(row, count)
    yield from _more_than_seeds(revisions)


def _missing_last(p: float) -> float:
    return p if p == p else 2.0


def _status(row: Any) -> str:
    return status_of(row.difference_low, row.difference_high, row.p_adjusted, needed=row.needed)


def _test(row: Any) -> Contrast:
    return Contrast.of(row, "difference", "difference_low", "difference_high")


def _coupled(row: Any, count: str) -> Finding:
    a, b = title_of(row.task_a), title_of(row.task_b)
    more = "more" if row.difference > 0 else "less"
    if row.measure == SAME:
        event = f"{a} and {b} have their last revision at the same layer"
    else:
        event = f"{a} is last revised at a later layer than {b}"
    return finding(
        claim=f"{event} {more} often than by chance: in {number(row.observed)} of the pairs about the same words that "
        f"are both revised; {number(row.shuffled)} with {b} from other texts",
        whether=f"{event} more or less often than by chance",
        absent=f"{event} as often as by chance",
        contrast="difference",
        test=_test(row),
        source=Source("revised_after", {"task_a": row.task_a, "task_b": row.task_b, "measure": row.measure}),
        unit=row.unit,
        importance=("answers", "beats control"),
        note=count,
    )


def _more_than_seeds(revisions: pd.DataFrame) -> Iterator[Finding]:
    """At which layers decisions are revised more often than two seeds disagree; of each task the surest."""
    steps = [row for row in rows_of(revisions) if not pd.isna(row.layer)]
    tested = [row for row in steps if row.difference == row.difference]
    if steps and not tested:
        yield not_tested(
            "decisions are revised more often than two seeds of the probes disagree", "there is one seed of the probes"
        )
    clear = [row for row in tested if _status(row) == "clear" and row.difference > 0]
    ordered = sorted(clear or tested, key=lambda row: (_missing_last(row.p_adjusted), -row.difference))
    tops = list({row.task: row for row in reversed(ordered)}.values())[::-1]
    count = f"Clear at {len(clear)} of {len(tested)} layers of all tasks." if len(tested) > 1 else ""
    for row in tops[: _MOST_TASKS if clear else 1]:
        title, fewer = title_of(row.task), row.difference < 0
        yield finding(
            claim=f"Layer {row.layer} revises {'fewer' if fewer else 'more'} decisions about {title} than two seeds "
            f"disagree on: {number(row.revised)} and {number(row.seeds_differ)} of them",
            whether=f"layer {row.layer} revises more decisions about {title} than two seeds disagree on",
            absent=f"Layer {row.layer} revises about as many decisions about {title} as two seeds disagree on",
            contrast="difference",
            test=_test(row),
            source=Source("revisions", {"task": row.task, "layer": int(row.layer)}),
            unit=row.unit,
            importance=("beats control", "localised"),
            margin=NEGLIGIBLE,
            note=count,
        )
