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

from lamina.analyses.legacy import legacy_finding, status_of
from lamina.analyses.probing.decisions import Decisions, SavedTargets
from lamina.analyses.probing.statistics import interval
from lamina.findings import Finding, number, rows_of
from lamina.progress import progress
from lamina.stats.family import holm
from lamina.stats.seeds import ENOUGH_SEEDS
from lamina.stats.status import Status
from lamina.tasks import TASKS

AFTER, AFTER_REVISED, SAME = "after_settled", "after_revised", "same_layer"
"""Measures of two decisions about the same words, a and b, where a is revised: a's last revision comes after b has
settled; the same where b was revised too; where both were, their last revisions are at the same layer."""
_FEW = 20
"""Labels that fewer targets have are shuffled together: alone they would often be put back where they were."""
_CHUNK = 128
"""Samples weighed at a time: bounds memory, changes no number."""


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
    difference_high: float
    p: float
    """Two-sided, from the shuffles."""
    p_adjusted: float
    """Corrected by Holm over all pairs of the measure."""


def revised_at(decided: Decisions) -> Bool[np.ndarray, "seed step target"]:
    """Whether each decision is revised at layers 1 to L."""
    return (decided.said[:, 1:] != decided.said[:, :-1]).any(-1)


def settled_at(revised: Bool[np.ndarray, "seed step target"]) -> Int[np.ndarray, "seed target"]:
    """The layer of the last revision; 0 where there is none.

    Example:
        >>> settled_at(np.array([[[True, False], [False, False], [True, False]]])).tolist()
        [[3, 0]]
    """
    return np.where(revised.any(1), revised.shape[1] - revised[:, ::-1].argmax(1), 0)


class _Draws:
    """Texts drawn with replacement; where there are enough seeds, seeds too."""

    def __init__(self, texts: int, seeds: int, *, samples: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        drawn = (np.bincount(rng.integers(0, texts, texts), minlength=texts) for _ in range(samples))
        self._texts = np.stack([counts.astype(np.uint16) for counts in drawn])
        again = (
            rng.integers(0, seeds, (samples, seeds))
            if seeds >= ENOUGH_SEEDS
            else np.tile(np.arange(seeds), (samples, 1))
        )
        self._seeds = np.stack([np.bincount(each, minlength=seeds) for each in again])

    def sums(self, values: Float[np.ndarray, "seed text"]) -> Float[np.ndarray, " sample"]:
        """The total over what each sample drew."""
        chunks = range(0, len(self._texts), _CHUNK)
        by_seed = np.concatenate([self._texts[at : at + _CHUNK].astype(float) @ values.T for at in chunks])
        return (by_seed * self._seeds).sum(1)


@dataclass(frozen=True, eq=False)
class _Timed:
    """A task's decisions and when they were revised, with texts numbered as in the whole corpus."""

    decided: Decisions
    text: Int[np.ndarray, " target"]
    texts: int
    revised: Bool[np.ndarray, "seed step target"]
    settled: Int[np.ndarray, "seed target"]

    @property
    def targets(self) -> SavedTargets:
        return self.decided.targets

    def by_text(self, values: np.ndarray) -> Float[np.ndarray, "seed text"]:
        """[seed, target] -> sums over the targets of each text."""
        return np.stack([np.bincount(self.text, each, self.texts) for each in values])


def _timed(decided: Sequence[Decisions]) -> list[_Timed]:
    """The tasks of one corpus."""
    ids = dict.fromkeys(text for each in decided for text in each.targets.texts)
    number = {text: at for at, text in enumerate(ids)}
    timed = []
    for each in decided:
        revised = revised_at(each)
        text = np.array([number[text] for text in each.targets.texts], np.int64)[each.targets.text]
        timed.append(_Timed(each, text, len(ids), revised, settled_at(revised)))
    return timed


def revision_tables(
    decided: Sequence[Decisions], *, samples: int, shuffles: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`revisions` and `revised_after`; two tasks are put beside each other where they come from the same corpus."""
    single: list[Revision] = []
    both: list[RevisedAfter] = []
    for corpus in dict.fromkeys(each.corpus for each in decided):
        own = _timed([each for each in decided if each.corpus == corpus and len(each.targets)])
        if not own:
            continue
        draws = _Draws(own[0].texts, len(own[0].decided.seeds), samples=samples, seed=seed)
        single += [row for each in own for row in _revisions(each, draws)]
        pairs = list(permutations(own, 2))
        with progress(f"{corpus}: {len(pairs)} pairs of tasks", total=len(pairs)) as advance:
            for a, b in pairs:
                both += _revised_after(a, b, draws, shuffles=shuffles, seed=seed)
                advance()
    table = pd.DataFrame(single, columns=list(Revision._fields)).astype({"layer": "Int64"})
    return table, pd.DataFrame(_corrected(both), columns=list(RevisedAfter._fields))


def _revisions(task: _Timed, draws: _Draws) -> Iterator[Revision]:
    """One row per layer, then one for all layers together."""
    said, right = task.decided.said, task.decided.right
    seeds, layers, targets = right.shape
    mended, spoiled = ~right[:, :-1] & right[:, 1:], right[:, :-1] & ~right[:, 1:]
    differ = [(said[one] != said[other]).any(-1).mean(-1) for one, other in combinations(range(seeds), 2)]
    between = np.mean(differ, axis=0) if differ else np.full(layers, np.nan)
    counted = draws.sums(task.by_text(np.ones((seeds, targets))))

    def row(layer: int | None, hit: np.ndarray, steps: slice, settled: float, disagree: float) -> Revision:
        low, high = interval(_ratio(draws.sums(task.by_text(hit)), counted))
        total = task.revised[:, steps].sum()
        mends, spoils = (float(_ratio(each[:, steps].sum(), total)) for each in (mended, spoiled))
        mean = float(total / hit.size)
        share = float(hit.mean())
        return Revision(
            task.decided.task, layer, targets, share, low, high, mean, settled, mends, spoils, disagree
        )  # fmt: skip

    for layer in range(1, layers):
        settled = float((task.settled <= layer).mean())
        yield row(layer, task.revised[:, layer - 1], slice(layer - 1, layer), settled, float(between[layer]))
    yield row(None, task.settled > 0, slice(None), np.nan, float(between.mean()))


@dataclass(frozen=True, eq=False)
class _Shuffled:
    """b's targets that share words with some target of a: these change places."""

    settled: Int[np.ndarray, "target seed"]
    text: Int[np.ndarray, " target"]
    texts: int
    kind: Int[np.ndarray, " target"]
    """Targets of one kind change places among themselves."""

    def chances(self, layers: int) -> Float[np.ndarray, "kind seed layer"]:
        """How often targets of each kind settle at each layer."""
        at = (self.settled[:, :, None] == np.arange(layers)).astype(float)
        return _by_kind(at, self.kind) / self.counts[:, None, None].clip(min=1)

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


class _Found(NamedTuple):
    """A measure, were b's targets to settle in some way."""

    hits: Int[np.ndarray, "asked seed"]
    """Pairs for which it holds."""
    of: Int[np.ndarray, "asked seed"]
    """Pairs it is asked of."""
    share: float
    taking: Float[np.ndarray, "asked seed"]
    """What each target that is asked about adds to the difference from the expected share."""
    giving: Float[np.ndarray, "target seed"]
    """What each target of b takes from it because others may be given its layer."""


class _Measure:
    """A share of pairs, the share that shuffling gives on average, and what each text adds to their difference.

    The standard error of the difference comes from the texts: shuffles of the difference alone reject too often where
    the decisions of one text have something in common. A text takes part as its own pairs and as a giver to others.
    """

    def __init__(
        self,
        hits: Int[np.ndarray, "asked seed layer"],
        of: Int[np.ndarray, "asked seed layer"],
        asked: Int[np.ndarray, " asked"],
        b: _Shuffled,
    ) -> None:
        """`hits` and `of` count pairs of each target of b that is asked about, were it to settle at each layer."""
        self._hits, self._of, self._asked, self._b = hits, of, asked, b
        self._owner = b.text[asked]
        chances = b.chances(hits.shape[-1])
        self.expected_hits, self.expected_of = ((each * chances[b.kind[asked]]).sum(-1) for each in (hits, of))
        asked_of = self.expected_of.sum()
        self.expected = float(_ratio(self.expected_hits.sum(), asked_of))
        excess = (hits - self.expected * of) / max(asked_of, 1e-12)
        giving = _by_kind(excess, b.kind[asked], len(b.counts)) / b.counts[:, None, None].clip(min=1)
        self._giving = giving - (chances * giving).sum(-1, keepdims=True)
        self._taken = (self.expected_hits - self.expected * self.expected_of) / max(asked_of, 1e-12)

    def found(self, settled: Int[np.ndarray, "target seed"]) -> _Found:
        """What there is, were b's targets to settle so."""
        at = settled[self._asked][:, :, None]
        hits, of = (np.take_along_axis(each, at, 2)[:, :, 0] for each in (self._hits, self._of))
        share = float(_ratio(hits.sum(), of.sum()))
        taking = (hits - share * of) / max(of.sum(), 1e-12) - self._taken
        giving = self._giving[self._b.kind[:, None], np.arange(settled.shape[1]), settled]
        return _Found(hits, of, share, taking, giving)

    def away(self, found: _Found) -> float:
        """How many standard errors the share is away from the expected one."""
        # A product: sums over an axis of a few seeds are slow.
        taking, giving = (each @ np.ones((each.shape[1], 1)) for each in (found.taking, found.giving))
        error = float(np.sqrt((self.added(taking, giving) ** 2).sum()))
        return (found.share - self.expected) / max(error, 1e-12)

    def added(self, taking: np.ndarray, giving: np.ndarray) -> Float[np.ndarray, "seed text"]:
        """What each text adds to the difference, to first order."""
        return self.by_text(taking) - np.stack([np.bincount(self._b.text, each, self._b.texts) for each in giving.T])

    def by_text(self, values: Float[np.ndarray, "asked seed"]) -> Float[np.ndarray, "seed text"]:
        return np.stack([np.bincount(self._owner, each, self._b.texts) for each in values.T])


def _by_kind(values: np.ndarray, kind: Int[np.ndarray, " target"], kinds: int = 0) -> Float[np.ndarray, "kind ..."]:
    sums = np.zeros((max(kinds, int(kind.max()) + 1), *values.shape[1:]))
    np.add.at(sums, kind, values)
    return sums


def _measures(a: _Timed, shared: sparse.csr_array, b: _Shuffled) -> dict[str, _Measure]:
    """The measures by name; none where no decision of a that shares words with b's targets is revised."""
    layers = a.revised.shape[1] + 1
    later = (a.settled.T[:, :, None] > np.arange(layers)).astype(np.int32)
    counted = np.asarray(shared @ later.reshape(len(later), -1))
    asked = np.flatnonzero(counted.any(1))
    if not len(asked):
        return {}
    # Targets of a that are last revised after each layer, for each target of b that has some; the others do not count.
    after = counted[asked].reshape(len(asked), len(a.settled), layers)
    revised = np.broadcast_to(after[:, :, :1], after.shape)
    moved = np.arange(layers) > 0
    at_layer = np.concatenate([np.zeros_like(after[:, :, :1]), after[:, :, :-1] - after[:, :, 1:]], axis=2)
    return {
        AFTER: _Measure(after, revised, asked, b),
        AFTER_REVISED: _Measure(after * moved, revised * moved, asked, b),
        SAME: _Measure(at_layer, revised * moved, asked, b),
    }


def _shared_words(a: _Timed, b: _Timed) -> sparse.csr_array:
    """[target of b, target of a] Whether they share a word."""
    ends = np.zeros(a.texts, np.int64)
    for task in (a, b):
        np.maximum.at(ends, task.text, task.targets.words[:, :, 1].max(1))
    starts = np.concatenate([[0], np.cumsum(ends)])
    of_a, of_b = (_words_of(task, starts) for task in (a, b))
    shared = sparse.csr_array(of_b @ of_a.T)
    shared.data = np.ones_like(shared.data)
    return shared


def _words_of(task: _Timed, starts: Int[np.ndarray, " text"]) -> sparse.csr_array:
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


def _revised_after(a: _Timed, b: _Timed, draws: _Draws, *, shuffles: int, seed: int) -> Iterator[RevisedAfter]:
    """One row per measure; `same_layer` is the same both ways and given once."""
    names = [AFTER, AFTER_REVISED, *([SAME] if a.decided.task < b.decided.task else [])]
    shared = _shared_words(a, b)
    rows = np.flatnonzero(np.diff(shared.indptr))
    moving = _Shuffled(b.settled.T[rows], b.text[rows], b.texts, _kinds(b.targets.gold[rows]))
    measures = _measures(a, shared[rows], moving)
    if not measures:
        nothing = [np.nan] * (len(RevisedAfter._fields) - 4)
        yield from (RevisedAfter(a.decided.task, b.decided.task, name, 0, *nothing) for name in names)
        return
    drawn: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for settled in moving.draws(shuffles, seed):
        for name in names:
            chance = measures[name].found(settled)
            drawn[name].append((chance.share, measures[name].away(chance)))
    for name in names:
        own = measures[name]
        found, (shares, away) = own.found(moving.settled), np.array(drawn[name]).T
        spread = _ratio(*(draws.sums(own.by_text(part)) for part in (found.hits, found.of)))
        difference, beyond = found.share - own.expected, own.away(found)
        differences = difference + draws.sums(own.added(found.taking, found.giving))
        yield RevisedAfter(
            task_a=a.decided.task,
            task_b=b.decided.task,
            measure=name,
            pairs=float(found.of.sum() / found.of.shape[1]),
            observed=found.share,
            **_named("", interval(spread)),
            shuffled=own.expected,
            **_named("shuffled_", interval(shares)),
            difference=difference,
            **_named("difference_", interval(differences)),
            p=float((1 + (np.abs(away) >= abs(beyond)).sum()) / (1 + shuffles)) if np.isfinite(beyond) else np.nan,
            p_adjusted=np.nan,
        )


def _named(of: str, ends: tuple[float, float]) -> dict[str, float]:
    return {f"{of}low": ends[0], f"{of}high": ends[1]}


def _corrected(rows: list[RevisedAfter]) -> list[RevisedAfter]:
    adjusted: dict[int, float] = {}
    for measure in dict.fromkeys(row.measure for row in rows):
        own = [at for at, row in enumerate(rows) if row.measure == measure]
        adjusted |= dict(zip(own, holm([rows[at].p for at in own]).tolist(), strict=True))
    return [row._replace(p_adjusted=adjusted[at]) for at, row in enumerate(rows)]


def _ratio(hits: np.ndarray | float, of: np.ndarray | float) -> np.ndarray:
    """NaN where nothing was asked."""
    of = np.asarray(of, float)
    return np.divide(hits, of, out=np.full_like(of, np.nan), where=of > 0)


_SURE = 0.05
"""Corrected p-value below which a difference from the shuffles is called clear."""


def revision_findings(revisions: pd.DataFrame, revised_after: pd.DataFrame) -> Iterator[Finding]:
    """Whether one task waits for another, whether two are revised together, and how much is revised at all."""
    for measure in (AFTER_REVISED, SAME):
        own = revised_after[(revised_after["measure"] == measure) & revised_after["p"].notna()]
        told = sorted(rows_of(own), key=lambda row: (row.p, -abs(row.difference)))
        if told:
            yield _coupled(told[0], len(told))
    yield from _most_revised(revisions)


def _coupled(row: Any, pairs: int) -> Finding:
    a, b = _title(row.task_a), _title(row.task_b).lower()
    share = number(row.observed, row.low, row.high)
    if row.measure == SAME:
        claim = f"{a} and {b}: last revisions at the same layer in {share}"
    else:
        claim = f"{a}: last revision after that of {b} in {share}"
    best = f", corrected; the clearest of {pairs} pairs" if pairs > 1 else ""
    text = (
        f"{claim} of the pairs about the same words that are both revised, {number(row.shuffled)} with {b} from other "
        f"texts; difference {number(row.difference, row.difference_low, row.difference_high)} "
        f"(p = {number(row.p_adjusted, digits=3)}{best})."
    )
    status: Status = status_of(row.difference_low, row.difference_high, 0.0)
    if status == "clear" and row.p_adjusted >= _SURE:
        status = "open"
    return legacy_finding(text, status, row.observed, row.low, row.high, row.shuffled)


def _most_revised(revisions: pd.DataFrame) -> Iterator[Finding]:
    """The task that is revised most, and at which layer most."""
    whole, steps = revisions[revisions["layer"].isna()], revisions[revisions["layer"].notna()]
    if whole.empty:
        return
    (most,) = rows_of(whole.nlargest(1, "revised"))
    if not most.revised:
        yield legacy_finding("No decision is revised from layer to layer.", "null", 0.0)
        return
    (peak,) = rows_of(steps[steps["task"] == most.task].nlargest(1, "revised"))
    beside = (
        f"two seeds disagree on {number(peak.seeds_differ)} there"
        if np.isfinite(peak.seeds_differ)
        else "one seed, so nothing to compare it with"
    )
    text = (
        f"{_title(most.task)}: {number(most.revised, most.low, most.high)} of the decisions are revised on the way up "
        f"({number(most.mended)} of the revisions mend, {number(most.spoiled)} spoil), most at layer {peak.layer}: "
        f"{number(peak.revised, peak.low, peak.high)}; {beside}."
    )
    yield legacy_finding(
        text, status_of(peak.low, peak.high, peak.seeds_differ), peak.revised, peak.low, peak.high, peak.seeds_differ
    )


def _title(task: str) -> str:
    return {each.name: each.title for each in TASKS}.get(task, task)
