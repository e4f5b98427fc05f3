"""What the scores of a task say: where it is resolved, what each layer adds, what a probe could have memorised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lamina.analyses.probing.checkpoints import Outcome, TaskRun, Whose, units_of
from lamina.analyses.probing.statistics import (
    Draws,
    Resampling,
    before,
    center_of_gravity,
    expected_layer,
    interval,
    kl_from_uniform,
    kl_interval,
    kl_of_differentials,
    means_by_unit,
    two_sided,
)
from lamina.probes.edge import Cut
from lamina.probes.tallies import Tally
from lamina.stats.family import holm
from lamina.stats.seeds import ENOUGH_SEEDS
from lamina.tasks import MIN_SEEN
from lamina.tasks.task import Metric

Drawn = Mapping[Whose, Mapping[Metric, Draws]]
"""The draws of one task."""


def bootstrap(run: TaskRun, texts: Resampling, seed: Sequence[int]) -> dict[Whose, dict[Metric, Draws]]:
    """The draws of every kind of probe by every metric; one draw of texts serves all tasks of a corpus."""
    drawn: dict[Whose, dict[Metric, Draws]] = {}
    kinds: dict[Whose, None] = {outcome.of: None for outcome in run.outcomes}
    for of in kinds:
        own = run.outcomes_of(of)
        # Seeds of the same number start from the same weights: model, twin and control draw the same ones.
        drawn[of] = {
            metric: Draws.of((each.tallies[metric] for each in own), texts, np.random.default_rng(seed), units_of(own))
            for metric in own[0].tallies
        }
    return drawn


class Summary(NamedTuple):
    """One row of `summary.csv`; what is not available is NaN, and `reason` says why."""

    task: str
    corpus: str
    metric: str
    """What scores and everything made of them are: f1, macro_f1 or r2."""
    probe_seeds: int
    """Seeds of the probes, of each model."""
    tuning_seeds: int
    """Models that differ in their fine-tuning seed, all probed; 1 where one model is. From 5 on, intervals are over
    these models and texts together; with 2 to 4 they are over texts, for the mean of the models."""
    f1_first: float
    """The score of P(0)."""
    f1_full: float
    """The score of P(L)."""
    center_of_gravity: float
    cog_low: float
    """The smallest over seeds (of fine-tuning, where there are several); from 5 on the lower end of the interval."""
    cog_high: float
    expected_layer: float
    """Not available where the interval of P(L) - P(0) includes 0."""
    el_low: float
    el_high: float
    kl_mixing: float
    kl_mixing_low: float
    """As of the centre of gravity."""
    kl_mixing_high: float
    kl_differential: float
    kl_differential_low: float
    kl_differential_high: float
    selectivity: float
    """Model minus control on targets whose words training has seen, at the layer best on the stopping texts."""
    selectivity_low: float
    selectivity_high: float
    selectivity_layer: float
    selectivity_metric: str
    """accuracy where a target has one label."""
    twin_expected_layer: float
    twin_el_low: float
    twin_el_high: float
    converged: bool
    """Whether all of the model's probes have converged."""
    reason: str
    """Why something is not available."""


class Order(NamedTuple):
    """One row of `order.csv`."""

    task_a: str
    task_b: str
    statistic: str
    """expected_layer or center_of_gravity."""
    probability: float
    """That a comes before b; ties count half."""
    reason: str
    """Why there is none."""


class OrderTest(NamedTuple):
    """One row of `order_tests.csv`: is the order of two tasks more than chance?"""

    task_a: str
    task_b: str
    statistic: str
    p: float
    """Two-sided, from the bootstrap."""
    p_adjusted: float
    """Corrected by Holm over all pairs of the statistic that can be tested."""


class Step(NamedTuple):
    """One row of `steps.csv`: what a layer adds to the one before it; D(l) where the probe is cumulative."""

    task: str
    probe: str
    layer: int
    difference: float
    low: float
    high: float
    p: float
    """Two-sided, from the paired bootstrap."""
    p_adjusted: float
    """Corrected by Holm over all rows of this kind of probe."""


class Place(NamedTuple):
    """A task's place in the network, resampled; NaN where it is not available."""

    task: str
    seeds: int
    """Of the probes, or of fine-tuning where several models were probed."""
    expected_layer: np.ndarray
    center_of_gravity: np.ndarray
    reasons: Mapping[str, str]
    """Statistic -> why it is not available."""


class _Located(NamedTuple):
    """A number with its draws and interval."""

    value: float
    draws: np.ndarray
    low: float
    high: float
    reason: str = ""

    @classmethod
    def none(cls, samples: int, reason: str = "") -> _Located:
        return cls(np.nan, np.full(samples, np.nan), np.nan, np.nan, reason)


def summarise(run: TaskRun, drawn: Drawn, corpus: str) -> tuple[Summary, Place]:
    """A task's line, and the draws that its place can be compared with other tasks' by."""
    own = run.outcomes_of("model")
    draws = drawn["model"][run.task.metric]
    mixing = len(own[0].weights)
    # With `mix` alone there is P(L) and nothing to compare it with.
    whole = mixing == len(run.norms)
    p = draws.value[:mixing]
    gravity, kl = _mixed(own, draws) if mixing else (_Located.none(len(draws.shares)),) * 2
    layer, spread = _expected(run, drawn, "model") if whole else (_Located.none(len(draws.shares)),) * 2
    twin = _expected(run, drawn, "random")[0] if whole and "random" in drawn else _Located.none(1)
    selective, at, metric = selectivity(run, drawn)
    cut_off = [cut for outcome in own for cut in np.array(outcome.cuts, object)[~outcome.learned.converged].tolist()]
    told = {"expected layer": layer, "centre of gravity": gravity, "selectivity": selective, "twin's": twin}
    row = Summary(
        run.task.name,
        corpus,
        run.task.metric,
        len({outcome.seed for outcome in own}),
        len({outcome.tuned for outcome in own}),
        float(p[0]) if whole else np.nan,
        float(p[-1]) if mixing else np.nan,
        *_numbers(gravity),
        *_numbers(layer),
        *_numbers(kl),
        *_numbers(spread),
        *_numbers(selective),
        at,
        metric,
        *_numbers(twin),
        not cut_off,
        "; ".join(f"{name}: {each.reason}" for name, each in told.items() if each.reason),
    )
    reasons = {"expected_layer": layer.reason, "center_of_gravity": gravity.reason}
    return row, Place(run.task.name, len(set(draws.units)), layer.draws, gravity.draws, reasons)


def _numbers(located: _Located) -> tuple[float, float, float]:
    return located.value, located.low, located.high


def unconverged(outcomes: Iterable[Outcome], probe: str, layers: Sequence[int] | None = None) -> str:
    """Which probes of a kind (of these layers) had not converged, in words; empty if all had."""
    cut_off = [
        (outcome.seed, cut[1], int(steps))
        for outcome in outcomes
        for cut, steps, done in zip(outcome.cuts, outcome.learned.steps, outcome.learned.converged, strict=True)
        if cut[0] == probe and not done and (layers is None or cut[1] in layers)
    ]
    if not cut_off:
        return ""
    kind = "P({})" if probe == "cumulative" else "layer {}"
    others = len(cut_off) - 1
    named = kind.format(cut_off[0][1]) + (f" and {others} other{'s' * (others > 1)}" if others else "")
    return f"the probe of {named} had not converged after {max(steps for *_, steps in cut_off):,} steps"


EQUAL = 0.03
"""Bits of K(s) below which mixing weights are as good as equal: their centre is the middle of the network, whatever the
task."""


def _mixed(own: Sequence[Outcome], draws: Draws) -> tuple[_Located, _Located]:
    """Centre of gravity and K(s) of P(L)."""
    last = own[0].cuts[len(own[0].weights) - 1][1]
    if reason := unconverged(own, "cumulative", [last]):
        none = _Located.none(len(draws.shares), reason)
        return none, none
    full = np.stack([outcome.weights[-1] for outcome in own]).astype(float)
    spread = _over_seeds(kl_from_uniform(full), draws)
    if spread.value < EQUAL:
        reason = f"the mixing weights are as good as equal (K(s) {spread.value:.3f} bits)"
        return _Located.none(len(draws.shares), reason), spread
    return _over_seeds(center_of_gravity(full), draws), spread


def _over_seeds(each: Float[np.ndarray, " seed"], draws: Draws) -> _Located:
    """With too few seeds for an interval, from the smallest to the largest."""
    sampled, own = draws.over_seeds(each), means_by_unit(each, draws.units)
    enough = len(own) >= ENOUGH_SEEDS
    low, high = interval(sampled) if enough else (float(own.min()), float(own.max()))
    return _Located(float(own.mean()), sampled, low, high)


def _expected(run: TaskRun, drawn: Drawn, of: Whose) -> tuple[_Located, _Located]:
    """Expected layer and K(D)."""
    draws = drawn[of][run.task.metric]
    own = run.outcomes_of(of)
    mixing = len(own[0].weights)
    p, sampled = draws.value[:mixing], draws.pooled[:, :mixing]
    if reason := unconverged(own, "cumulative"):
        none = _Located.none(len(sampled), reason)
        return none, none
    low, high = interval(sampled[:, -1] - sampled[:, 0])
    if mixing < 2 or not (low > 0 or high < 0):
        # Gains that may add up to nothing have no shape either.
        none = _Located.none(len(sampled), "the gain of P(L) over P(0) cannot be told from 0")
        return none, none
    moved = expected_layer(sampled)
    layer = _Located(float(expected_layer(p)), moved, *interval(moved))
    return layer, _Located(float(kl_of_differentials(p)), moved, *kl_interval(p, sampled))


def selectivity(run: TaskRun, drawn: Drawn) -> tuple[_Located, float, str]:
    """Model minus control on targets that training has seen; the layer, and what is subtracted."""
    model, control = (run.outcomes_of(of) for of in ("model", "control"))
    samples = len(drawn["model"][run.task.metric].shares)
    metric = model[0].remembered.metric
    both = [at for at, cut in enumerate(model[0].cuts) if cut[0] == "layer"]
    if not both:
        return _Located.none(samples, "there are no single-layer probes"), np.nan, metric
    loss = np.mean([outcome.learned.loss for outcome in model], axis=0)
    best = min(both, key=lambda at: loss[at])
    layer = model[0].cuts[best][1]
    if run.seen.mean() < MIN_SEEN:
        reason = f"training has seen the words of {run.seen.mean():.0%} of the scored targets, under {MIN_SEEN:.0%}"
        return _Located.none(samples, reason), layer, metric
    if reason := unconverged([*model, *control], "layer", [layer]):
        return _Located.none(samples, reason), layer, metric
    return _remembered(run, drawn, model[0].cuts[best]), layer, metric


def _remembered(run: TaskRun, drawn: Drawn, cut: Cut) -> _Located:
    texts = drawn["model"][run.task.metric].resampling
    sides: list[list[Tally]] = []
    units = []
    for of in ("model", "control"):
        own = run.outcomes_of(of)
        at = own[0].cuts.index(cut)
        sides.append([Tally(each.remembered.metric, each.remembered.sums[:, [at]]) for each in own])
        units.append(units_of(own))
    means = [float(np.mean([each.value()[0] for each in side])) for side in sides]
    if len(sides[0]) == len(sides[1]):
        # Seeds of the same number start from the same weights: they are drawn together, as two members.
        pairs = (Tally(a.metric, np.concatenate([a.sums, b.sums], 1)) for a, b in zip(*sides, strict=True))
        both = Draws.of(pairs, texts, np.random.default_rng(0), units[0]).pooled
        apart = both[:, 0] - both[:, 1]
    else:
        model, control = (
            Draws.of(side, texts, np.random.default_rng(0), own).pooled[:, 0]
            for side, own in zip(sides, units, strict=True)
        )
        apart = model - control
    return _Located(means[0] - means[1], apart, *interval(apart))


def neighbours(run: TaskRun, drawn: Drawn) -> list[Step]:
    """Every layer against the one before it, by probes that see layers up to it and by probes of single layers."""
    own = run.outcomes_of("model")[0]
    draws = drawn["model"][run.task.metric]
    value, sampled = draws.value, draws.pooled
    place = {(cut.probe, cut.layer): at for at, cut in enumerate(own.cuts)}
    rows = []
    for probe, layer in place:
        if (probe, layer - 1) in place:
            after, before_it = place[probe, layer], place[probe, layer - 1]
            apart = sampled[:, after] - sampled[:, before_it]
            p = two_sided(before(apart, np.zeros_like(apart)), np.isfinite(apart).sum())
            difference = float(value[after] - value[before_it])
            rows.append(Step(run.task.name, probe, layer, difference, *interval(apart), p, np.nan))
    return rows


def corrected(steps: Sequence[Step]) -> list[Step]:
    """Corrected by Holm over all steps of a kind of probe."""
    found = []
    for probe in dict.fromkeys(step.probe for step in steps):
        own = [step for step in steps if step.probe == probe]
        holms = holm([step.p for step in own]).tolist()
        found += [step._replace(p_adjusted=each) for step, each in zip(own, holms, strict=True)]
    return found


def order(places: Sequence[Place]) -> Iterator[Order]:
    """The probability of every order of two tasks, by either statistic."""
    for a, b in combinations(places, 2):
        for statistic in ("expected_layer", "center_of_gravity"):
            reason = "; ".join(f"{each.task}: {each.reasons[statistic]}" for each in (a, b) if each.reasons[statistic])
            if statistic == "center_of_gravity" and min(a.seeds, b.seeds) < ENOUGH_SEEDS:
                reason = reason or f"it varies over seeds only, and there are fewer than {ENOUGH_SEEDS}"
            probability = np.nan if reason else before(getattr(a, statistic), getattr(b, statistic))
            yield Order(a.task, b.task, statistic, probability, reason)


def order_tests(pairs: Sequence[Order], places: Sequence[Place]) -> list[OrderTest]:
    """The p-value of every pair, alone and corrected for all of them; none where there are too few seeds for one."""
    few = {place.task for place in places if place.seeds < ENOUGH_SEEDS}
    tests = []
    for statistic in dict.fromkeys(pair.statistic for pair in pairs):
        own = [pair for pair in pairs if pair.statistic == statistic]
        samples = len(places[0].expected_layer)
        p = [np.nan if {pair.task_a, pair.task_b} & few else two_sided(pair.probability, samples) for pair in own]
        tests += [OrderTest(*pair[:3], *both) for pair, *both in zip(own, p, holm(p).tolist(), strict=True)]
    return tests
