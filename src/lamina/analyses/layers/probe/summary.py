"""What the scores of tasks say: where they are read and resolved, what layers add, what a probe could memorise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lamina.analyses.layers.probe.findings import CONSTANT, TWIN
from lamina.analyses.layers.probe.statistics import (
    Resampling,
    ScoreDraws,
    center_of_gravity,
    expected_layer,
    kl_from_uniform,
    kl_interval,
    kl_of_differentials,
    largest_kl,
    means_by_unit,
    moment,
)
from lamina.analyses.layers.probe.training import ProbeOutcome, TaskRun, Whose, units_of
from lamina.probes.bank import DecisionTally
from lamina.probes.edge import LayerCut
from lamina.stats.best import best_set
from lamina.stats.family import bootstrap_family
from lamina.stats.intervals import interval, student_interval
from lamina.stats.seeds import ENOUGH_SEEDS, seed_interval, seed_ratio_interval
from lamina.stats.status import SURE
from lamina.tasks import MIN_SEEN
from lamina.tasks.task import Metric

TaskDraws = Mapping[Whose, Mapping[Metric, ScoreDraws]]
"""The draws of one task."""


def bootstrap(run: TaskRun, texts: Resampling, seed: Sequence[int]) -> dict[Whose, dict[Metric, ScoreDraws]]:
    """The draws of every kind of probe by every metric; one draw of texts serves all tasks of a corpus."""
    drawn: dict[Whose, dict[Metric, ScoreDraws]] = {}
    kinds: dict[Whose, None] = {outcome.of: None for outcome in run.outcomes}
    for of in kinds:
        outcomes = run.outcomes_of(of)
        # Seeds of the same number start from the same weights: model, twin and control draw the same ones.
        drawn[of] = {
            metric: ScoreDraws.of(
                (outcome.tallies[metric] for outcome in outcomes),
                texts,
                np.random.default_rng(seed),
                units_of(outcomes),
            )
            for metric in outcomes[0].tallies
        }
    return drawn


class TaskSummary(NamedTuple):
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
    """The smallest over seeds (of fine-tuning, where there are several); from 5 on the lower end of the 95 % interval
    over seeds; none with one seed."""
    cog_high: float
    expected_layer: float
    """Not available where the interval of P(L) - P(0) does not lie above 0; with --faithful it is printed there too,
    without range or interval."""
    el_low: float
    """As of the centre of gravity; the interval is over texts and seeds."""
    el_high: float
    kl_mixing: float
    kl_mixing_low: float
    """As of the centre of gravity."""
    kl_mixing_high: float
    kl_differential: float
    kl_differential_low: float
    """As of the expected layer."""
    kl_differential_high: float
    selectivity: float
    """Model minus control on targets whose words training has seen, at the layer of lowest loss on the stopping
    texts."""
    selectivity_low: float
    """95 %, simultaneous over all tasks; the test is in `control.csv`."""
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


class TaskOrder(NamedTuple):
    """One row of `order.csv`: which of two tasks comes first?"""

    task_a: str
    task_b: str
    statistic: str
    """expected_layer or center_of_gravity."""
    difference: float
    """In layers, of b minus a: above 0 where a comes first."""
    low: float
    """95 %, simultaneous over all pairs of tasks of the statistic."""
    high: float
    p_adjusted: float
    """Two-sided, by max-T over all pairs of tasks of the statistic."""
    units: float
    """Seeds: of the task with fewer."""
    needed: float
    """0; where there are too few seeds for a test, how many are needed."""
    clear: bool
    """Whether p is below .05."""
    reason: str
    """Why there is no test."""


class LayerStep(NamedTuple):
    """One row of `steps.csv`: what a layer adds to the one before it; D(l) where the probe is cumulative."""

    task: str
    probe: str
    layer: int
    difference: float
    low: float
    """95 %, simultaneous over all rows of this kind of probe."""
    high: float
    p_adjusted: float
    """Two-sided, by max-T over all rows of this kind of probe."""
    units: float
    """Documents; texts where there is one document only."""
    needed: float


class LayerReading(NamedTuple):
    """One row of `readings.csv`: does a layer tell more of a task than a baseline does?"""

    task: str
    metric: str
    probe: str
    """layer: this layer alone, where such probes were trained; else cumulative: layers 0 to this one."""
    layer: int
    baseline: str
    """untrained twin (its probe of the same layer) or constant answer."""
    value: float
    """The model's score ..."""
    baseline_value: float
    """... and that of the baseline."""
    difference: float
    low: float
    """95 %, simultaneous over all tasks, layers and baselines."""
    high: float
    p_adjusted: float
    """Two-sided, by max-T over all tasks, layers and baselines."""
    units: float
    needed: float
    unit: str
    """What was resampled: document or text."""
    reason: str
    """Why there is no test: probes that have not converged."""


class TaskLayer(NamedTuple):
    """One row of `best_layers.csv`: can this layer be the one that reads a task best?"""

    task: str
    metric: str
    probe: str
    """As in `readings.csv`."""
    layer: int
    value: float
    p_beaten: float
    """That another layer is better, by max-T over the others; below .05 the layer leaves the set."""
    among_best: bool
    """Whether the layer is in the confidence set: the true best layer is there in 95 % of samples."""
    units: float
    reason: str
    """Why there is no set: probes that have not converged."""


class Selectivity(NamedTuple):
    """Model minus control of one task, on targets whose words training has seen."""

    task: str
    difference: float
    draws: np.ndarray
    layer: float
    """That of lowest loss on the stopping texts."""
    metric: str
    texts: int
    """How many documents (or texts) were resampled."""
    reason: str = ""


class StepDifference(NamedTuple):
    """The difference of a layer from the one before it, with its draws."""

    task: str
    probe: str
    layer: int
    difference: float
    draws: np.ndarray
    texts: int


class TaskPlace(NamedTuple):
    """A task's place in the network by each statistic; NaN where it is not available."""

    task: str
    seeds: int
    """Of the probes, or of fine-tuning where several models were probed."""
    values: Mapping[str, float]
    draws: Mapping[str, np.ndarray]
    """Over texts and seeds; NaN where the place cannot be compared."""
    reasons: Mapping[str, str]
    """Why it is not available, or cannot be compared."""


class LocatedValue(NamedTuple):
    """A number with its draws, and its range or interval."""

    value: float
    draws: np.ndarray
    low: float
    high: float
    reason: str = ""

    @classmethod
    def none(cls, samples: int, reason: str = "") -> LocatedValue:
        return cls(np.nan, np.full(samples, np.nan), np.nan, np.nan, reason)


def summarise(
    run: TaskRun, drawn: TaskDraws, corpus: str, selective: Selectivity, *, faithful: bool = False
) -> tuple[TaskSummary, TaskPlace]:
    """A task's line, and the draws that its place can be compared with other tasks' by.

    The interval of selectivity is that of a family of all tasks: `selectivity_tests` fills it in.
    """
    outcomes = run.outcomes_of("model")
    draws = drawn["model"][run.task.metric]
    mixing = len(outcomes[0].weights)
    # With `mix` alone there is P(L) and nothing to compare it with.
    whole = mixing == len(run.norms)
    p = draws.value[:mixing]
    none = LocatedValue.none(len(draws.shares))
    gravity, kl = _mixed(outcomes, draws) if mixing else (none, none)
    layer, spread = _expected(run, drawn, "model", faithful=faithful) if whole else (none, none)
    twin = _expected(run, drawn, "random", faithful=faithful)[0] if whole and "random" in drawn else none
    cut_off = [
        cut for outcome in outcomes for cut in np.array(outcome.cuts, object)[~outcome.learned.converged].tolist()
    ]
    located = {"expected layer": layer, "centre of gravity": gravity, "selectivity": selective, "twin's": twin}
    row = TaskSummary(
        run.task.name,
        corpus,
        run.task.metric,
        len({outcome.seed for outcome in outcomes}),
        len({outcome.tuned for outcome in outcomes}),
        float(p[0]) if whole else np.nan,
        float(p[-1]) if mixing else np.nan,
        *_numbers(gravity),
        *_numbers(layer),
        *_numbers(kl),
        *_numbers(spread),
        selective.difference,
        np.nan,
        np.nan,
        selective.layer,
        selective.metric,
        *_numbers(twin),
        not cut_off,
        "; ".join(f"{name}: {statistic.reason}" for name, statistic in located.items() if statistic.reason),
    )
    places = {"expected_layer": layer, "center_of_gravity": gravity}
    parts = ({name: getattr(place, part) for name, place in places.items()} for part in ("value", "draws", "reason"))
    return row, TaskPlace(run.task.name, len(set(draws.units)), *parts)


def _numbers(located: LocatedValue) -> tuple[float, float, float]:
    return located.value, located.low, located.high


def unconverged(outcomes: Iterable[ProbeOutcome], probe: str, layers: Sequence[int] | None = None) -> str:
    """Which probes of a kind (of these layers) have not converged, in words; empty if all have."""
    cut_off: list[tuple[int, int]] = []
    overfitted: list[tuple[int, int]] = []
    for outcome in outcomes:
        learned = outcome.learned
        for member, cut in enumerate(outcome.cuts):
            if cut.probe == probe and not learned.converged[member] and (layers is None or cut.layer in layers):
                if learned.overfitted[member]:
                    overfitted.append((cut.layer, int(learned.best_step[member])))
                else:
                    cut_off.append((cut.layer, int(learned.steps[member])))
    parts = []
    if cut_off:
        steps = max(steps for _, steps in cut_off)
        parts.append(f"{_probes(probe, cut_off)} had not converged after {steps:,} steps")
    if overfitted:
        step = max(step for _, step in overfitted)
        parts.append(f"{_probes(probe, overfitted)} had overfitted at the first validation (step {step:,})")
    return ", ".join(parts)


def _probes(probe: str, some: Sequence[tuple[int, int]]) -> str:
    kind = "P({})" if probe == "cumulative" else "layer {}"
    others = len(some) - 1
    return f"the probe of {kind.format(some[0][0])}" + (f" and {others} other{'s' * (others > 1)}" if others else "")


EQUAL = 0.03
"""Bits of K(s) below which mixing weights are as good as equal: their centre is the middle of the network, whatever the
task."""
MOVABLE = 10 * EQUAL
"""Bits of K(s) that weights must have had the steps to reach: below that K(s) measures the schedule."""


def _mixed(outcomes: Sequence[ProbeOutcome], draws: ScoreDraws) -> tuple[LocatedValue, LocatedValue]:
    """Centre of gravity and K(s) of P(L)."""
    member = len(outcomes[0].weights) - 1
    last = outcomes[0].cuts[member].layer
    if reason := unconverged(outcomes, "cumulative", [last]):
        none = LocatedValue.none(len(draws.shares), reason)
        return none, none
    full = np.stack([outcome.weights[-1] for outcome in outcomes]).astype(float)
    most = largest_kl(min(float(outcome.learned.reach[member]) for outcome in outcomes), full.shape[1])
    if most < MOVABLE:
        reason = f"the mixing weights had too few steps to move (K(s) could not exceed {most:.3f} bits)"
        none = LocatedValue.none(len(draws.shares), reason)
        return none, none
    spread = _over_seeds(kl_from_uniform(full), draws)
    if spread.value < EQUAL:
        reason = f"the mixing weights are as good as equal (K(s) {spread.value:.3f} bits)"
        return LocatedValue.none(len(draws.shares), reason), spread
    return _over_seeds(center_of_gravity(full), draws), spread


def _over_seeds(values: Float[np.ndarray, " seed"], draws: ScoreDraws) -> LocatedValue:
    """A number that only seeds move: its range, from 5 of them on Student's interval of the mean."""
    by_unit = means_by_unit(values, draws.units)
    ends = student_interval(by_unit) if len(by_unit) >= ENOUGH_SEEDS else _range(by_unit)
    return LocatedValue(float(by_unit.mean()), draws.over_seeds(values), *ends)


def _range(values: Float[np.ndarray, " seed"]) -> tuple[float, float]:
    """From the smallest to the largest; none of one value, or where one is missing."""
    if len(values) < 2 or not np.isfinite(values).all():
        return np.nan, np.nan
    return float(values.min()), float(values.max())


def _expected(run: TaskRun, drawn: TaskDraws, of: Whose, *, faithful: bool) -> tuple[LocatedValue, LocatedValue]:
    """Expected layer and K(D): where cumulative scores gain, and with `faithful` the value everywhere."""
    draws = drawn[of][run.task.metric]
    outcomes = run.outcomes_of(of)
    mixing = len(outcomes[0].weights)
    p, sampled = draws.value[:mixing], draws.pooled[:, :mixing]
    samples = len(sampled)
    if reason := unconverged(outcomes, "cumulative"):
        return LocatedValue.none(samples, reason), LocatedValue.none(samples, reason)
    none = LocatedValue.none(samples, NO_GAIN)
    if mixing < 2:
        return none, none
    by_unit, by_draw = draws.by_unit[:, :mixing], draws.drawn_by_unit[..., :mixing]
    gains, moments = by_unit[:, -1] - by_unit[:, 0], moment(by_unit)
    drawn_gains, drawn_moments = by_draw[..., -1] - by_draw[..., 0], moment(by_draw)
    enough = len(by_unit) >= ENOUGH_SEEDS
    gain = seed_interval(gains, drawn_gains, draws.texts) if enough else interval(sampled[:, -1] - sampled[:, 0])
    value, spread = float(expected_layer(p)), float(kl_of_differentials(p))
    ends = seed_ratio_interval(moments, gains, (drawn_moments, drawn_gains), draws.texts)
    if not gain[0] > 0 or (enough and np.isnan(ends).any()):
        # Gains that may add up to nothing have no shape either; losses have no place.
        if faithful:
            marked = none._replace(value=value, reason=f"{NO_GAIN}, printed as --faithful does")
            return marked, none._replace(value=spread)
        return none, none
    if not enough:
        ends = _range(np.where(gains > 0, expected_layer(by_unit), np.nan))
    whole = p[-1] - p[0]
    # To first order: the ratio itself has outliers where a draw gains next to nothing.
    moved = value + (moment(sampled) - value * (sampled[:, -1] - sampled[:, 0])) / whole
    # Noise of a single seed moves K(D) to one side: the range has that of the mean scores too.
    shape = kl_interval(p, sampled) if enough else _range(kl_of_differentials(np.concatenate([by_unit, p[None]])))
    if len(by_unit) < 2:
        shape = (np.nan, np.nan)
    return LocatedValue(value, moved, *ends), LocatedValue(spread, moved, *shape)


NO_GAIN = "the gain of P(L) over P(0) was not shown to be above 0"


def selectivity(run: TaskRun, drawn: TaskDraws) -> Selectivity:
    """Model minus control on targets that training has seen."""
    model, control = (run.outcomes_of(of) for of in ("model", "control"))
    draws = drawn["model"][run.task.metric]
    none = np.full(len(draws.shares), np.nan)
    metric = model[0].remembered.metric
    about = (run.task.name, np.nan, none)
    single = [member for member, cut in enumerate(model[0].cuts) if cut.probe == "layer"]
    if not single:
        return Selectivity(*about, np.nan, metric, 0, "there are no single-layer probes")
    loss = np.mean([outcome.learned.loss for outcome in model], axis=0)
    chosen = model[0].cuts[min(single, key=lambda member: loss[member])]
    if run.seen.mean() < MIN_SEEN:
        reason = f"training has seen the words of {run.seen.mean():.0%} of the scored targets, under {MIN_SEEN:.0%}"
        return Selectivity(*about, chosen.layer, metric, 0, reason)
    if reason := unconverged([*model, *control], "layer", [chosen.layer]):
        return Selectivity(*about, chosen.layer, metric, 0, reason)
    difference, apart, texts = _model_minus_control(run, draws.resampling, chosen)
    return Selectivity(run.task.name, difference, apart, chosen.layer, metric, texts)


def _model_minus_control(run: TaskRun, texts: Resampling, cut: LayerCut) -> tuple[float, np.ndarray, int]:
    """Model minus control, its draws, and how many documents they are over."""
    sides: list[list[DecisionTally]] = []
    units = []
    for of in ("model", "control"):
        outcomes = run.outcomes_of(of)
        member = outcomes[0].cuts.index(cut)
        sides.append(
            [DecisionTally(outcome.remembered.metric, outcome.remembered.sums[:, [member]]) for outcome in outcomes]
        )
        units.append(units_of(outcomes))
    means = [float(np.mean([tally.value()[0] for tally in side])) for side in sides]
    # Tasks share no seeds of their probes.
    name = int.from_bytes(run.task.name.encode()[:8], "big")
    if len(sides[0]) == len(sides[1]):
        # Seeds of the same number start from the same weights: they are drawn together, as two members.
        pairs = (DecisionTally(a.metric, np.concatenate([a.sums, b.sums], 1)) for a, b in zip(*sides, strict=True))
        both = ScoreDraws.of(pairs, texts, np.random.default_rng(name), units[0]).pooled
        apart = both[:, 0] - both[:, 1]
    else:
        model, control = (
            ScoreDraws.of(side, texts, np.random.default_rng(name), side_units).pooled[:, 0]
            for side, side_units in zip(sides, units, strict=True)
        )
        apart = model - control
    return means[0] - means[1], apart, max(texts.count(tally) for tally in sides[0])


def selectivity_tests(rows: Sequence[Selectivity]) -> list[dict[str, float]]:
    """The columns difference, low, high, p_adjusted, units and needed of every task: one family."""
    tests = bootstrap_family(
        np.array([row.difference for row in rows]),
        np.stack([row.draws for row in rows], 1),
        np.array([row.texts for row in rows], float),
        bounds=(-1.0, 1.0) if all(row.metric != "r2" for row in rows) else (-np.inf, np.inf),
        widen=False,
    )
    return _records(tests.columns())


def _records(columns: Mapping[str, np.ndarray]) -> list[dict[str, float]]:
    """One mapping per row; the estimate is a difference."""
    named = {"difference" if name == "estimate" else name: values.tolist() for name, values in columns.items()}
    return [dict(zip(named, row, strict=True)) for row in zip(*named.values(), strict=True)]


def neighbours(run: TaskRun, drawn: TaskDraws) -> list[StepDifference]:
    """Every layer against the one before it, by probes that see layers up to it and by probes of single layers."""
    outcome = run.outcomes_of("model")[0]
    draws = drawn["model"][run.task.metric]
    value, sampled = draws.value, draws.pooled
    place = {(cut.probe, cut.layer): member for member, cut in enumerate(outcome.cuts)}
    rows = []
    for probe, layer in place:
        if (probe, layer - 1) in place:
            after, before = place[probe, layer], place[probe, layer - 1]
            apart = sampled[:, after] - sampled[:, before]
            rows.append(
                StepDifference(run.task.name, probe, layer, float(value[after] - value[before]), apart, draws.texts)
            )
    return rows


def steps(differences: Sequence[StepDifference]) -> list[LayerStep]:
    """Tested together: all steps of a kind of probe, of all tasks, are one family."""
    rows = []
    for probe in dict.fromkeys(row.probe for row in differences):
        of_kind = [row for row in differences if row.probe == probe]
        tests = bootstrap_family(
            np.array([row.difference for row in of_kind]),
            np.stack([row.draws for row in of_kind], 1),
            np.array([row.texts for row in of_kind], float),
            widen=False,
        )
        rows += [LayerStep(*row[:3], **test) for row, test in zip(of_kind, _records(tests.columns()), strict=True)]
    return rows


class LayerComparison(NamedTuple):
    """A task by layer beside its baselines, before it is tested."""

    rows: list[LayerReading]
    draws: list[np.ndarray]
    best: list[TaskLayer]


def compare_layers(run: TaskRun, drawn: TaskDraws) -> LayerComparison:
    """Every layer alone (where only mixed layers were probed, those up to it) against its baselines and each other."""
    outcomes = run.outcomes_of("model")
    metric = run.task.metric
    draws = drawn["model"][metric]
    cuts = outcomes[0].cuts
    probe = "layer" if any(cut.probe == "layer" for cut in cuts) else "cumulative"
    members = [member for member, cut in enumerate(cuts) if cut.probe == probe]
    rows, sampled = [], []
    for member in members:
        cut = cuts[member]
        late = unconverged(outcomes, probe, [cut.layer])
        for baseline, value, drawn_baseline, reason in _baselines(run, drawn, cut):
            score = float(draws.value[member])
            place = (run.task.name, metric, probe, cut.layer, baseline)
            missing = (np.nan, np.nan, np.nan)
            unit = draws.resampling.units.kind
            row = LayerReading(*place, score, value, score - value, *missing, draws.texts, 0.0, unit, late or reason)
            rows.append(row)
            sampled.append(draws.pooled[:, member] - drawn_baseline)
    late = unconverged(outcomes, probe)
    confidence_set = best_set(draws.value[members], draws.pooled[:, members], draws.texts, widen=False)
    p_beaten = [np.nan if late else float(p) for p in confidence_set.p]
    best = [bool(among) and not late for among in confidence_set.among]
    layers = [
        TaskLayer(run.task.name, metric, probe, cuts[member].layer, score, p, among, draws.texts, late)
        for member, score, p, among in zip(members, draws.value[members].tolist(), p_beaten, best, strict=True)
    ]
    return LayerComparison(rows, sampled, layers)


def _baselines(run: TaskRun, drawn: TaskDraws, cut: LayerCut) -> Iterator[tuple[str, float, np.ndarray, str]]:
    """Name, score, draws, and which of its probes has not converged."""
    metric = run.task.metric
    twin = run.outcomes_of("random")
    if twin and cut in twin[0].cuts:
        member = twin[0].cuts.index(cut)
        draws = drawn["random"][metric]
        reason = unconverged(twin, cut.probe, [cut.layer])
        reason = f"of the twin, {reason}" if reason else ""
        yield TWIN, float(draws.value[member]), draws.pooled[:, member], reason
    if metric in run.constant:
        constant = run.constant[metric]
        texts = drawn["model"][metric].resampling
        yield CONSTANT, float(constant.value()[0]), texts.score(constant)[:, 0], ""


def readings(compared: Sequence[LayerComparison]) -> list[LayerReading]:
    """Tested together: every task at every layer against every baseline is one family."""
    rows = [row for comparison in compared for row in comparison.rows]
    if not rows:
        return []
    drawn = np.stack([draws for comparison in compared for draws in comparison.draws], 1)
    # What has not converged is not compared.
    estimates = np.array([np.nan if row.reason else row.difference for row in rows])
    tests = bootstrap_family(estimates, drawn, np.array([row.units for row in rows], float), widen=False)
    tested = []
    for row, test in zip(rows, _records(tests.columns()), strict=True):
        tested.append(row._replace(**test) if not row.reason else row)
    return tested


def order(places: Sequence[TaskPlace]) -> list[TaskOrder]:
    """Which of two tasks comes first: all pairs of tasks are one family, by either statistic."""
    rows = []
    for statistic in ("expected_layer", "center_of_gravity"):
        pairs = list(combinations(places, 2))
        seeds = np.array([min(a.seeds, b.seeds) for a, b in pairs], float)
        reasons = [
            "; ".join(f"{task.task}: {task.reasons[statistic]}" for task in pair if task.reasons[statistic])
            for pair in pairs
        ]
        if not pairs:
            continue
        estimates = np.array([b.values[statistic] - a.values[statistic] for a, b in pairs])
        drawn = np.stack([b.draws[statistic] - a.draws[statistic] for a, b in pairs], 1)
        estimates = np.where([bool(reason) for reason in reasons], np.nan, estimates)
        # The draws follow Student's t already.
        tests = bootstrap_family(estimates, drawn, seeds, least=ENOUGH_SEEDS, widen=False)
        for (a, b), reason, test in zip(pairs, reasons, _records(tests.columns()), strict=True):
            if test["needed"] > 0:
                reason = f"fewer than {ENOUGH_SEEDS} seeds"
            elif not reason and np.isnan(test["p_adjusted"]):
                reason = "it does not vary over texts and seeds"
            clear = test["p_adjusted"] < SURE
            rows.append(TaskOrder(a.task, b.task, statistic, **test, clear=clear, reason=reason))
    return rows
