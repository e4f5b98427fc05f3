"""Do intervals cover, and do tests keep their level? Simulated scores whose truth is known, through the real code.

No probe is trained: right and wrong decisions are drawn. Whether a decision is right depends on its text, its target
(hard for all layers and seeds), the layer at that target, the seed, and chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import norm

from benchmarks.bars import Bar
from lamina.analyses.layers.probe.statistics import (
    Resampling,
    ScoreDraws,
    center_of_gravity,
    expected_layer,
    kl_from_uniform,
    kl_of_differentials,
)
from lamina.analyses.layers.probe.summary import (
    LayerStep,
    TaskDraws,
    TaskPlace,
    TaskSummary,
    neighbours,
    order,
    selectivity,
    selectivity_tests,
    steps,
    summarise,
)
from lamina.analyses.layers.probe.training import ProbeOutcome, TaskRun, Whose
from lamina.comparison.predictions import DrawnDifference as PairedDraws
from lamina.comparison.predictions import ProbeAnswers, difference_family, resample
from lamina.probes.bank import DecisionTally, LearningRecord
from lamina.probes.edge import LayerCut
from lamina.probes.streams import ProbeTargets
from lamina.stats.intervals import interval
from lamina.stats.seeds import ENOUGH_SEEDS
from lamina.tasks import get_task
from lamina.tasks.task import Metric

SETS = 2000
"""Data sets per row of the table."""
TOGETHER = 20
"""Data sets that share their draws of texts: as members of one tally they are scored in one product."""
SAMPLES = 1000
"""As `lamina probe` draws by default."""
_TEXT, _TARGET, _LAYER = 0.5, 0.8, 0.5
"""Deviations of difficulty; that of chance is 1."""
_SCALE = float(np.sqrt(1 + _TEXT**2 + _TARGET**2 + _LAYER**2))
_WRONG = 0.6
"""How often a probe that is not right says something; otherwise it says nothing."""
_LABELS = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
"""Shares of the labels, for macro-F1."""
_LOUD, _NOISE = 0.8, 0.5
"""Graded values: what is predicted is `_LOUD` times the truth, with noise."""


@dataclass(frozen=True)
class World:
    """Where data sets come from."""

    skills: tuple[float, ...] = (0.2, 0.7, 1.0, 1.1, 1.15)
    """Of P(0)..P(L): the share of right decisions is the normal distribution function of it."""
    texts: int = 200
    most: int = 9
    """A text has 1 to so many targets."""
    seeds: int = 1
    spread: float = 0.1
    """Deviation of a seed's skill."""
    common: float = 0.5
    """Share of its variance that is common to all layers."""

    def hits(self, sets: int, rng: np.random.Generator) -> Hits:
        """Decisions in `sets` data sets."""
        shape = (sets, len(self.skills), self.texts, self.most)
        drawn = [rng.normal(size=(self.seeds, sets, size)) for size in (1, len(self.skills))]
        seeds = self.spread * (np.sqrt(self.common) * drawn[0] + np.sqrt(1 - self.common) * drawn[1])
        asked = rng.integers(1, self.most + 1, (sets, 1, self.texts, 1)) > np.arange(self.most)
        hard = _TEXT * rng.normal(size=(sets, 1, self.texts, 1)) + _TARGET * rng.normal(size=(sets, 1, *shape[2:]))
        hard = hard + _LAYER * rng.normal(size=shape)
        skill = _SCALE * (self.skills + seeds)
        right = (skill[..., None, None] + hard + rng.normal(size=(self.seeds, *shape)) > 0) & asked
        return Hits(right, np.broadcast_to(asked, right.shape), norm.cdf(self.skills + seeds))

    def expected(self) -> Float[np.ndarray, " layer"]:
        """The F1 of every layer, the mean over all seeds there could be."""
        points, weights = np.polynomial.hermite_e.hermegauss(41)
        skills = np.array(self.skills)[:, None] + self.spread * points
        return (f1_of(norm.cdf(skills)) * weights).sum(-1) / weights.sum()

    def truth(self, hits: Hits) -> Float[np.ndarray, "set layer"]:
        """What the interval of the mean over seeds is to cover."""
        if self.seeds < ENOUGH_SEEDS:
            return f1_of(hits.chance).mean(0)
        return np.broadcast_to(self.expected(), hits.chance.shape[1:])


class Hits(NamedTuple):
    """Decisions and what is known about them."""

    right: np.ndarray
    """[seed, set, layer, text, target]"""
    asked: np.ndarray
    """Which targets there are."""
    chance: Float[np.ndarray, "seed set layer"]
    """How often each probe is right."""


def f1_of(chance: np.ndarray) -> np.ndarray:
    """The F1 of a probe that is right so often."""
    return 2 * chance / (1 + chance + (1 - chance) * _WRONG)


def f1_sums(hits: Hits, rng: np.random.Generator) -> Float[np.ndarray, "seed part set layer text"]:
    """As a tally of F1 has them."""
    said = hits.right | (hits.asked & (rng.random(hits.right.shape, np.float32) < _WRONG))
    return np.stack([each.sum(-1, dtype=float) for each in (hits.right, said, hits.asked)], axis=1)


def blocks(world: World, sets: int, seed: int) -> Iterator[tuple[np.random.Generator, Hits, Resampling]]:
    """Data sets by the `TOGETHER`."""
    for number in range(sets // TOGETHER):
        rng = np.random.default_rng([seed, number])
        yield rng, world.hits(TOGETHER, rng), Resampling(world.texts, SAMPLES, seed * sets + number)


def stacked(metric: Metric, sums: np.ndarray) -> list[DecisionTally]:
    """One tally per seed, with all data sets' layers as members."""
    return [DecisionTally(metric, own.reshape(len(own), -1, *own.shape[3:])) for own in sums]


def cut_up(draws: ScoreDraws, sets: int) -> list[ScoreDraws]:
    """The draws of every data set, from those of all."""
    members = draws.by_seed.shape[-1] // sets
    found = []
    for number in range(sets):
        own = slice(number * members, (number + 1) * members)
        tallies = tuple(DecisionTally(each.metric, each.sums[:, own]) for each in draws.tallies)
        found.append(ScoreDraws(tallies, draws.by_seed[..., own], draws.units, draws.shares, draws.resampling))
    return found


class Row(NamedTuple):
    """How often one kind of interval covers."""

    what: str
    setting: str
    covered: list[bool]
    missing: int = 0
    """Data sets where it is not available."""

    @property
    def share(self) -> float:
        """Of the intervals that there are."""
        return float(np.mean(self.covered))


class _Found(dict[str, list[tuple[float, float, float]]]):
    """Kind of interval -> truth, low, high of every data set."""

    def add(self, what: str, truth: float, low: float, high: float) -> None:
        self.setdefault(what, []).append((truth, low, high))

    def rows(self, setting: str) -> Iterator[Row]:
        for what, told in self.items():
            there = [each for each in told if np.isfinite(each[1])]
            # Rounding decides nothing at the edge of what is possible.
            covered = [low - 1e-9 <= truth <= high + 1e-9 for truth, low, high in there]
            yield Row(what, setting, covered, len(told) - len(there))


def scores(world: World, sets: int, seed: int = 0) -> Iterator[Row]:
    """One seed's score by every metric."""
    found = _Found()
    for rng, hits, texts in blocks(world, sets, seed):
        one = Hits(*(each[:1] for each in hits))
        chance = hits.chance[0]
        sums: dict[Metric, np.ndarray] = {"f1": f1_sums(one, rng)}
        sums["accuracy"] = np.stack([each.sum(-1, dtype=float) for each in one[:2]], axis=1)
        sums["macro_f1"] = _by_label(one, rng)
        truths: dict[Metric, np.ndarray] = {"f1": f1_of(chance), "accuracy": chance, "macro_f1": _macro_of(chance)}
        graded = _graded(one, rng)
        sums |= {"r2": graded, "correlation": graded}
        truths["r2"] = np.full_like(chance, 1 - (1 - _LOUD) ** 2 - _NOISE**2)
        truths["correlation"] = np.full_like(chance, _LOUD / np.hypot(_LOUD, _NOISE))
        for metric, own in sums.items():
            drawn = texts.score(stacked(metric, own)[0])
            for truth, column in zip(truths[metric].ravel().tolist(), drawn.T, strict=True):
                found.add(f"score of one seed, {metric}", truth, *interval(column))
    yield from found.rows(f"{world.texts} texts")


def _by_label(hits: Hits, rng: np.random.Generator) -> np.ndarray:
    """Sums of macro-F1: [seed, part, set, layer, text, label]."""
    label = rng.choice(len(_LABELS), hits.right.shape[1:], p=_LABELS)[:, :1]
    other = rng.choice(len(_LABELS), hits.right.shape, p=_LABELS)
    while (same := other == label).any():
        other[same] = rng.choice(len(_LABELS), same.sum(), p=_LABELS)
    says = hits.asked & ~hits.right & (rng.random(hits.right.shape) < _WRONG)
    each = np.arange(len(_LABELS))
    gold = hits.asked[..., None] & (label[..., None] == each)
    right = hits.right[..., None] & (label[..., None] == each)
    said = right | (says[..., None] & (other[..., None] == each))
    return np.stack([part.sum(-2, dtype=np.float32) for part in (right, said, gold)], axis=1)


def _macro_of(chance: np.ndarray) -> np.ndarray:
    mistaken = np.array(
        [sum(_LABELS[g] * f / (1 - _LABELS[g]) for g in range(len(_LABELS)) if g != at) for at, f in enumerate(_LABELS)]
    )
    right = _LABELS * chance[..., None]
    return (2 * right / (right + (1 - chance[..., None]) * _WRONG * mistaken + _LABELS)).mean(-1)


def _graded(hits: Hits, rng: np.random.Generator) -> np.ndarray:
    """Sums of values with deviation 1, of which half is the text's, and of what is predicted."""
    seeds, sets, layers, texts, most = hits.right.shape
    gold = np.sqrt(0.5) * (rng.normal(size=(sets, 1, texts, 1)) + rng.normal(size=(sets, 1, texts, most)))
    said = _LOUD * gold + _NOISE * rng.normal(size=(seeds, sets, layers, texts, most))
    parts = np.broadcast_arrays(1.0, gold, gold**2, said, said**2, said * gold)
    return np.stack([(part * hits.asked).sum(-1) for part in parts], axis=1)


def places(world: World, shape: str, sets: int, seed: int = 1) -> Iterator[Row]:
    """Means over seeds, and what `summary.csv` and `steps.csv` make of them."""
    found = _Found()
    base = np.linspace(0, 1, len(world.skills))
    # Where weights are, over all seeds there could be: by a sample that is large beside the five of a data set.
    many = _softmax(base + 0.3 * np.random.default_rng(99).normal(size=(200_000, len(base))))
    gravity, divergence = float(center_of_gravity(many).mean()), float(kl_from_uniform(many).mean())
    for rng, hits, texts in blocks(world, sets, seed):
        drawn = ScoreDraws.of(stacked("f1", f1_sums(hits, rng)), texts, rng)
        for truth, draws in zip(world.truth(hits), cut_up(drawn, TOGETHER), strict=True):
            weights = _softmax(base + 0.3 * rng.normal(size=(world.seeds, len(base))))
            run = planted_run(draws, weights)
            row, _ = _summarised(run, draws)
            for value, column in zip(truth.tolist(), draws.pooled.T, strict=True):
                found.add("mean over seeds, f1", value, *interval(column))
            added = [(step, truth[step.layer] - truth[step.layer - 1]) for step in _stepped(run, draws)]
            # Simultaneous intervals hold together: the last begins below 0 and the first ends above it.
            ends = max(step.low - own for step, own in added), min(step.high - own for step, own in added)
            found.add("D(l), all layers together", 0.0, *ends)
            # With fewer seeds they have a range, no interval.
            if world.seeds >= ENOUGH_SEEDS:
                found.add("expected layer", float(expected_layer(truth)), row.el_low, row.el_high)
                spread = (row.kl_differential_low, row.kl_differential_high)
                found.add("K(D)", float(kl_of_differentials(truth)), *spread)
                found.add("centre of gravity", gravity, row.cog_low, row.cog_high)
                found.add("K(s)", divergence, row.kl_mixing_low, row.kl_mixing_high)
    yield from found.rows(f"{shape}, {world.texts} texts, {_count(world.seeds)}")


def _count(seeds: int) -> str:
    return "1 seed" if seeds == 1 else f"{seeds} seeds"


def _softmax(x: np.ndarray) -> np.ndarray:
    raised = np.exp(x)
    return raised / raised.sum(-1, keepdims=True)


def planted_run(draws: ScoreDraws, weights: np.ndarray, control: tuple[DecisionTally, ...] = ()) -> TaskRun:
    """A run whose probes have converged and decided as these tallies say."""
    members, texts = draws.tallies[0].sums.shape[1:3]
    cuts = tuple(LayerCut("cumulative", layer) for layer in range(members))
    if control:
        cuts = tuple(LayerCut("layer", layer) for layer in range(members))
    count = np.zeros(members, int)
    stopped, none = np.ones(members, bool), np.zeros(members)
    learned = LearningRecord(np.arange(members, dtype=float), count, count, none, stopped, ~stopped, none + 10)
    mixing = 0 if control else members
    sides: tuple[tuple[Whose, tuple[DecisionTally, ...]], ...] = (("model", draws.tallies), ("control", control))
    outcomes = [
        ProbeOutcome(
            of, seed, cuts, {own.metric: own}, own, learned, np.tile(weights[seed], (mixing, 1)), np.ones(mixing), None
        )
        for of, tallies in sides
        for seed, own in enumerate(tallies)
    ]
    none = np.zeros((0, 1, 2), int)
    flag = np.zeros((0, 0), bool)
    targets = ProbeTargets((), np.zeros(0, int), none, none, flag, flag, flag, flag, texts)
    return TaskRun(get_task("pos"), targets, tuple(outcomes), {}, {}, np.ones(1, bool), np.ones(max(members, 1)))


def selectivities(world: World, controls: int, sets: int, seed: int = 2) -> Iterator[Row]:
    """Model minus control; what is hard for one is hard for the other."""
    found = _Found()
    both = replace(world, skills=(1.0, 0.3))
    for rng, hits, texts in blocks(both, sets, seed):
        sums = f1_sums(hits, rng)
        truth = f1_of(hits.chance)
        expected = both.expected()
        for number in range(TOGETHER):
            sides = [tuple(DecisionTally("f1", own[:, number, [at]]) for own in sums) for at in (0, 1)]
            sides[1] = sides[1][:controls]
            model = ScoreDraws.of(sides[0], texts, rng)
            run = planted_run(model, np.ones((world.seeds, 1)), sides[1])
            (test,) = selectivity_tests([selectivity(run, {"model": {"f1": model}})])
            own = expected if world.seeds >= ENOUGH_SEEDS else truth[:, number].mean(0)
            other = expected[1] if controls >= ENOUGH_SEEDS else truth[:controls, number, 1].mean()
            found.add("selectivity", float(own[0] - other), test["low"], test["high"])
    yield from found.rows(f"{world.texts} texts, {_count(world.seeds)}, control {controls}")


def parts(targets: int, skill: float, sets: int, seed: int = 3) -> Iterator[Row]:
    """A row of `breakdown.csv`: few targets, each in a text of its own among 200."""
    found = _Found()
    world = World((skill,), texts=targets, most=1, spread=0.0)
    for number in range(sets // TOGETHER):
        rng = np.random.default_rng([seed, number])
        hits = world.hits(TOGETHER, rng)
        few = f1_sums(hits, rng)
        sums = np.concatenate([few, np.zeros((*few.shape[:-1], 200 - targets))], -1)
        drawn = ScoreDraws.of(stacked("f1", sums), Resampling(200, SAMPLES, seed * sets + number), rng).pooled
        for column in drawn.T:
            found.add("breakdown row", float(f1_of(norm.cdf(skill))), *interval(column))
    yield from found.rows(f"{targets} targets, F1 {f1_of(norm.cdf(skill)):.2f}")


def paired(world: World, sets: int, seed: int = 4) -> Iterator[Row]:
    """`lamina compare`: two models on the same texts."""
    found = _Found()
    # Seeds of two models have nothing in common but their number.
    both = replace(world, skills=(0.8, 1.0), common=0.0)
    names = tuple(f"t{number}" for number in range(world.texts))
    cuts = tuple(LayerCut("layer", number) for number in range(TOGETHER))
    for number, (rng, hits, _) in enumerate(blocks(both, sets, seed)):
        sums = f1_sums(hits, rng)
        tallies = [tuple(DecisionTally("f1", own[:, :, at]) for own in sums) for at in (0, 1)]
        answers = [
            ProbeAnswers("pos", "simulated", names, names, "same", cuts, own, tuple(range(len(own)))) for own in tallies
        ]
        a, b = resample(answers, samples=SAMPLES, seed=number)
        truth = both.truth(hits)
        for cut, own in zip(cuts, truth, strict=True):
            (one, draws), (other, beside) = a.at(cut), b.at(cut)
            apart = difference_family([PairedDraws(one - other, draws - beside, a.count)], least=2).one()
            found.add("difference of two models (compare)", own[0] - own[1], apart.low, apart.high)
    yield from found.rows(f"{world.texts} texts, {_count(world.seeds)}")


def levels(world: World, sets: int, seed: int = 5) -> Iterator[Row]:
    """How often tests of true null hypotheses have p >= .05: of equal layers, and of tasks with equal places."""
    kept: list[bool] = []
    orders: dict[str, list[bool]] = {"expected_layer": [], "center_of_gravity": []}
    # With few seeds the question is about these probes: they are equal only if seeds do not differ.
    flat = replace(world, skills=(0.8, 0.8), spread=world.spread if world.seeds >= ENOUGH_SEEDS else 0.0)
    for rng, hits, texts in blocks(flat, sets, seed):
        drawn = ScoreDraws.of(stacked("f1", f1_sums(hits, rng)), texts, rng)
        for draws in cut_up(drawn, TOGETHER):
            run = planted_run(draws, np.full((world.seeds, 2), 0.5))
            kept += [step.p_adjusted >= 0.05 for step in _stepped(run, draws)]
    yield Row("test of equal layers", f"{world.texts} texts, {_count(world.seeds)}", kept)
    if world.seeds < ENOUGH_SEEDS:
        return
    for (rng, one, texts), (_, other, _) in zip(blocks(world, sets, seed), blocks(world, sets, seed + 1), strict=True):
        pair = [cut_up(ScoreDraws.of(stacked("f1", f1_sums(hits, rng)), texts, rng), TOGETHER) for hits in (one, other)]
        for both in zip(*pair, strict=True):
            found = [_place(name, draws, rng) for name, draws in zip("ab", both, strict=True)]
            for test in order(found):
                if np.isfinite(test.p_adjusted):
                    orders[test.statistic].append(not test.clear)
    for statistic, unclear in orders.items():
        yield Row(f"test of order, {statistic}", f"{world.texts} texts, {_count(world.seeds)}", unclear)


def _place(name: str, draws: ScoreDraws, rng: np.random.Generator) -> TaskPlace:
    members = draws.by_seed.shape[-1]
    weights = _softmax(0.3 * rng.normal(size=(len(draws.tallies), members)))
    return _summarised(planted_run(draws, weights), draws)[1]._replace(task=name)


def _summarised(run: TaskRun, draws: ScoreDraws) -> tuple[TaskSummary, TaskPlace]:
    drawn: TaskDraws = {"model": {"f1": draws}}
    return summarise(run, drawn, "simulated", selectivity(run, drawn))


def _stepped(run: TaskRun, draws: ScoreDraws) -> list[LayerStep]:
    return steps(neighbours(run, {"model": {"f1": draws}}))


SHAPES = {
    "falling gains": (0.2, 0.7, 1.0, 1.1, 1.15),
    "equal gains": (0.0, 0.25, 0.5, 0.77, 1.08),
    "one layer": (0.2, 0.2, 0.2, 1.2, 1.2),
}


def table(sets: int = SETS) -> Iterator[Row]:
    """Every kind of interval."""
    for texts in (200, 50):
        yield from scores(World(texts=texts), sets)
    for shape, skills in SHAPES.items():
        for seeds in (1, 3, 5):
            if seeds != 3 or shape == "falling gains":
                yield from places(World(skills, seeds=seeds), shape, sets)
    yield from places(World(texts=50), "falling gains", sets)
    for seeds, controls in ((1, 1), (5, 2), (5, 5)):
        yield from selectivities(World(seeds=seeds), controls, sets)
    for targets in (10, 30, 100):
        for skill in (0.0, 1.0, 2.0):
            yield from parts(targets, skill, sets)
    for seeds in (1, 5):
        yield from paired(World(seeds=seeds), sets)
        yield from levels(World(seeds=seeds), sets)


def bars() -> Iterator[Bar]:
    """One per row: within two points of 95 %."""
    for row in table():
        note = f"[covers {100 * row.share:.1f} % of {len(row.covered):,}; {row.missing} not available]"
        yield Bar(
            f"{row.what}; {row.setting}: points from 95 %", 100 * abs(row.share - 0.95), 2.0, at_least=False, note=note
        )
