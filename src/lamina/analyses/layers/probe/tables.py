"""The tables of a probe result; their columns are a contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool

from lamina.analyses.layers.probe.predictions import TaskBeliefs, TraceRow, traces_across, words_table
from lamina.analyses.layers.probe.statistics import Resampling, ScoreDraws
from lamina.analyses.layers.probe.summary import (
    LayerComparison,
    LayerReading,
    LayerStep,
    Selectivity,
    StepDifference,
    TaskDraws,
    TaskLayer,
    TaskOrder,
    TaskPlace,
    TaskSummary,
    bootstrap,
    compare_layers,
    neighbours,
    order,
    readings,
    selectivity,
    selectivity_tests,
    steps,
    summarise,
)
from lamina.analyses.layers.probe.training import ProbeOutcome, TaskRun, Whose, units_of
from lamina.corpora.splits import Splits, divide
from lamina.probes.bank import DecisionTally
from lamina.probes.streams import ProbeTargets
from lamina.stats.intervals import interval
from lamina.stats.units import Units

# Scores of parts of a task's targets: by label, by distance, by how often a word was seen in training.

DISTANCES = {"0": 0, "1": 1, "2": 2, "3-5": 5, "6-10": 10, ">10": None}
"""Words between the spans: name of the group -> its largest distance."""
FREQUENCIES = {"0": 0, "1-4": 4, "5-19": 19, "20-99": 99, "100+": None}
"""Times the word occurs in the texts learned from."""
MACRO = "macro"
"""Macro-F1: the mean of the labels' F1, over labels that hold of some scored target."""


@dataclass(frozen=True, slots=True)
class ScoreBreakdown:
    """One row of `breakdown.csv`; value and interval are pooled over seeds of probes and of fine-tuning."""

    task: str
    by: str
    group: str
    layer: int
    """The last layer the cumulative probe may look at."""
    count: int
    """Targets of the group; for labels, those the label holds of."""
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class DecisionGroup:
    """Some decisions about some targets."""

    by: str
    name: str
    count: int
    tallies: list[DecisionTally]
    """One per seed."""


def break_down(run: TaskRun, frequency: np.ndarray, texts: Resampling, seed: int) -> Iterator[ScoreBreakdown]:
    """By label, by distance between the spans, by frequency of the first span's last word in training.

    Args:
        run: the task's probes.
        frequency: [target] how often that word occurs in the texts learned from.
        texts: draws of the scored documents.
        seed: of the draws of seeds.
    """
    outcomes = [outcome for outcome in run.outcomes_of("model") if outcome.probabilities is not None]
    if not outcomes or run.task.graded:
        return
    layers = [cut.layer for cut in outcomes[0].cuts if cut.probe == "cumulative"]
    decisions = [(np.asarray(outcome.probabilities) >= 0.5) & run.targets.scored for outcome in outcomes]

    def scored(groups: Iterable[DecisionGroup]) -> Iterator[ScoreBreakdown]:
        for group in groups:
            draws = ScoreDraws.of(group.tallies, texts, np.random.default_rng(seed), units_of(outcomes))
            for layer, value, drawn in zip(layers, draws.value.tolist(), draws.pooled.T, strict=True):
                yield ScoreBreakdown(run.task.name, group.by, group.name, layer, group.count, value, *interval(drawn))

    labels = list(scored(_by_label(run.targets, decisions)))
    for label, count in zip(run.targets.unseen_labels, run.targets.unseen.sum(0).tolist(), strict=True):
        labels += [ScoreBreakdown(run.task.name, "label", label, layer, count, 0.0, 0.0, 0.0) for layer in layers]
    yield from labels
    for layer in layers:
        own_layer = [part for part in labels if part.layer == layer]
        mean = float(np.mean([part.value for part in own_layer])) if own_layer else np.nan
        yield ScoreBreakdown(
            run.task.name, MACRO, "all", layer, sum(part.count for part in own_layer), mean, np.nan, np.nan
        )
    yield from scored(_by_target(run.targets, decisions, frequency))


def _by_label(targets: ProbeTargets, decisions: list[np.ndarray]) -> Iterator[DecisionGroup]:
    gold = targets.gold & targets.scored
    for column in np.flatnonzero(gold.any(0)).tolist():
        holds = gold[:, column]
        counts = [
            _by_text(decided[:, :, column] & holds, decided[:, :, column], holds, targets) for decided in decisions
        ]
        yield DecisionGroup("label", targets.labels[column], int(holds.sum()), counts)


def _by_target(targets: ProbeTargets, decisions: list[np.ndarray], frequency: np.ndarray) -> Iterator[DecisionGroup]:
    holds = targets.gold & targets.scored
    wanted = holds.sum(-1) + targets.unseen.sum(-1)
    sums = [((decided & holds).sum(-1), decided.sum(-1)) for decided in decisions]
    for by, name, inside in _groups(targets, frequency):
        if inside.any():
            counts = [_by_text(right * inside, given * inside, wanted * inside, targets) for right, given in sums]
            yield DecisionGroup(by, name, int(inside.sum()), counts)


def _groups(targets: ProbeTargets, frequency: np.ndarray) -> Iterator[tuple[str, str, Bool[np.ndarray, " target"]]]:
    if targets.arity == 2:
        first, second = targets.words[:, 0], targets.words[:, 1]
        between = np.maximum(second[:, 0] - first[:, 1], first[:, 0] - second[:, 1]).clip(min=0)
        yield from (("distance", *group) for group in _binned(between, DISTANCES))
    yield from (("frequency", *group) for group in _binned(frequency, FREQUENCIES))
    yield "seen", "seen", frequency > 0
    yield "seen", "unseen", frequency == 0


def _binned(values: np.ndarray, bins: dict[str, int | None]) -> Iterator[tuple[str, np.ndarray]]:
    below = -1
    for name, most in bins.items():
        largest = np.iinfo(np.int64).max if most is None else most
        yield name, (values > below) & (values <= largest)
        below = largest


def _by_text(right: np.ndarray, decided: np.ndarray, gold: np.ndarray, targets: ProbeTargets) -> DecisionTally:
    tally = DecisionTally.none("f1", len(decided), targets)
    some = np.flatnonzero(decided.any(0) | (gold > 0))
    for into, part in zip(tally.sums, (right, decided, np.broadcast_to(gold, decided.shape)), strict=True):
        np.add.at(into.T, targets.text[some], part[:, some].T)
    return tally


@dataclass(frozen=True, slots=True)
class ProbeScore:
    """One row of `scores.csv`."""

    model: str
    task: str
    probe: str
    """cumulative, layer or constant."""
    of: Whose
    layer: int | None
    """None for the constant answer."""
    seed: str
    """Of the probes: a number, with an interval over documents (texts where there is one document); or `all`: the mean
    over seeds, from 5 of them on with an interval over seeds and documents together."""
    tuning_seed: str
    """Of the model, where models of several fine-tuning seeds were probed: a number; or `all`: the mean over models,
    from 5 of them on with an interval over models and texts together. Empty where one model was probed, and of the
    twin and the constant answer."""
    split: str
    metric: str
    """f1, macro_f1 or r2, the task's own, first; then accuracy where a target has one label, correlation with r2."""
    count: int
    """Targets scored."""
    value: float
    low: float
    high: float


class MixingWeight(NamedTuple):
    """One row of `mixing.csv`: the weight of a layer in the cumulative probe that sees layers 0 to `upto`."""

    task: str
    seed: int
    tuning_seed: str
    """As in `scores.csv`."""
    upto: int
    layer: int
    weight: float
    gamma: float
    norm: float
    """Mean length of the layer's vectors, over the tokens that probes learn from, before they are standardised."""


class ProbeTraining(NamedTuple):
    """One row of `training.csv`: how the training of one probe went."""

    task: str
    of: str
    probe: str
    layer: int
    seed: int
    tuning_seed: str
    """As in `scores.csv`."""
    steps: int
    best_step: int
    """After which the weights were kept."""
    loss: float
    """The lowest on the texts that decide when to stop."""
    last_gain: float
    """Share by which the last validations, as many as patience has, lowered it."""
    converged: bool
    """Whether training ended because the loss fell no more, after it had been seen to fall."""
    overfitted: bool
    """Whether no validation was better than the first one: the best weights lie before it, unseen."""
    reach: float
    """How far a mixing weight's logit can have moved from 0 to the weights that were kept: the sum of its rates."""


class ControlScore(NamedTuple):
    """One row of `control.csv`: what a probe could have memorised, on targets whose words training has seen."""

    task: str
    share_seen: float
    """Of the scored targets."""
    targets: int
    metric: str
    """accuracy where a target has one label."""
    layer: float
    """The single layer of lowest loss on the texts that decide when to stop."""
    model: float
    control: float
    constant: float
    """The best constant answer to the control labels."""
    difference: float
    """The selectivity: model minus control."""
    low: float
    """95 %, simultaneous over all tasks."""
    high: float
    p_adjusted: float
    """Two-sided, by max-T over all tasks."""
    units: float
    needed: float
    unit: str
    """What was resampled: document or text."""


class CorpusRuns(NamedTuple):
    """The runs of one corpus."""

    runs: Sequence[TaskRun]
    splits: Splits


class ScoredWords(NamedTuple):
    """What tables need to know of the texts."""

    scored: list[tuple[str, tuple[str, ...]]]
    """Id and words."""
    learned: Counter[str]
    """How often each word, as written, occurs in the texts learned from."""

    @classmethod
    def of(cls, splits: Splits, seed: int) -> ScoredWords:
        learn = set(divide(splits, seed=seed).learn)
        learned = Counter(word for number, text in enumerate(splits.train) if number in learn for word in text.words)
        return cls([(text.id, text.words) for text in splits.scored], learned)

    def frequency(self, run: TaskRun) -> np.ndarray:
        """[target] Of the last word of the first span."""
        last = zip(run.targets.text.tolist(), (run.targets.words[:, 0, 1] - 1).tolist(), strict=True)
        return np.array([self.learned[self.scored[text][1][word]] for text, word in last], np.int64)


def make_tables(
    corpora: Sequence[CorpusRuns], model: str, *, samples: int, seed: int, faithful: bool = False
) -> dict[str, pd.DataFrame]:
    """Every table of the result, by name; documents of one name are drawn alike in all corpora."""
    rows: dict[str, list[Any]] = {name: [] for name in _ROWS}
    places: list[TaskPlace] = []
    selective: list[Selectivity] = []
    compared: list[LayerComparison] = []
    apart: list[StepDifference] = []
    words: dict[str, tuple[str, ...]] = {}
    for runs, splits in corpora:
        texts = Resampling(Units.of_texts(splits.scored), samples, seed)
        scored_words = ScoredWords.of(splits, seed)
        for run in runs:
            drawn = bootstrap(run, texts, [seed, len(places)])
            selective.append(selectivity(run, drawn))
            summary, place = summarise(run, drawn, splits.name, selective[-1], faithful=faithful)
            places.append(place)
            compared.append(compare_layers(run, drawn))
            apart += neighbours(run, drawn)
            rows["summary"].append(summary)
            rows["scores"] += _scores(run, drawn, texts, model, splits.scored.split)
            rows["breakdown"] += break_down(run, scored_words.frequency(run), texts, seed)
            rows["mixing"] += _mixing(run)
            rows["training"] += _training(run)
            rows["control"].append(_control(run, selective[-1], texts))
        traces = traces_across(_beliefs(runs), scored_words.scored)
        names = trace_names(traces, scored_words.scored, words, splits.name)
        rows["traces"] += [row._replace(text_id=names[row.text_id]) for row in traces]
        words |= {names[text]: text_words for text, text_words in scored_words.scored if text in names}
    tests = selectivity_tests(selective)
    rows["control"] = [row._replace(**test) for row, test in zip(rows["control"], tests, strict=True)]
    rows["summary"] = [
        row._replace(selectivity_low=test["low"], selectivity_high=test["high"])
        for row, test in zip(rows["summary"], tests, strict=True)
    ]
    rows["steps"] = steps(apart)
    rows["readings"] = readings(compared)
    rows["best_layers"] = [row for task in compared for row in task.best]
    rows["order"] = order(places)
    tables = {
        name: pd.DataFrame(table_rows, columns=list(_ROWS[name].__annotations__)) for name, table_rows in rows.items()
    }
    tables["scores"] = tables["scores"].astype({"layer": "Int64"})
    tables["words"] = words_table(list(words.items()))
    return tables


_ROWS: dict[str, Any] = {
    "scores": ProbeScore,
    "training": ProbeTraining,
    "mixing": MixingWeight,
    "summary": TaskSummary,
    "steps": LayerStep,
    "order": TaskOrder,
    "readings": LayerReading,
    "best_layers": TaskLayer,
    "traces": TraceRow,
    "breakdown": ScoreBreakdown,
    "control": ControlScore,
}
"""Table -> its rows."""


def trace_names(
    traces: Sequence[TraceRow],
    texts: Sequence[tuple[str, tuple[str, ...]]],
    known: Mapping[str, tuple[str, ...]],
    corpus: str,
) -> dict[str, str]:
    """Traced text -> what it is called: with its corpus where another one has other words under the same id."""
    traced = {row.text_id for row in traces}
    return {
        text: text if known.get(text, words) == words else f"{text} ({corpus})"
        for text, words in texts
        if text in traced
    }


def _scores(run: TaskRun, drawn: TaskDraws, texts: Resampling, model: str, split: str) -> Iterator[ProbeScore]:
    count = int((run.targets.scored.any(1) | run.targets.unseen.any(1)).sum())
    for metric in run.constant:
        about = (split, metric, count)
        constants: dict[Whose, Any] = {"model": run.constant, "control": run.control_constant}
        for of, constant in constants.items():
            spread = interval(texts.score(constant[metric])[:, 0])
            counted = (split, metric, int(run.seen.sum())) if of == "control" else about
            value = float(constant[metric].value()[0])
            yield ProbeScore(model, run.task.name, "constant", of, None, "all", "", *counted, value, *spread)
        for of, by_metric in drawn.items():
            draws = by_metric[metric]
            probes = run.outcomes_of(of)
            seeds = [(str(outcome.seed), _tuned(outcome)) for outcome in probes]
            seeds.append(("all", _tuned(probes[0]) and "all"))
            values = [*(tally.value() for tally in draws.tallies), draws.value]
            for both, scores, sampled in zip(seeds, values, [*draws.by_seed, draws.pooled], strict=True):
                for cut, value, some in zip(probes[0].cuts, scores.tolist(), sampled.T, strict=True):
                    place = (model, run.task.name, cut.probe, of, cut.layer, *both)
                    yield ProbeScore(*place, *about, value, *interval(some))


def _tuned(outcome: ProbeOutcome) -> str:
    return "" if outcome.tuned is None else str(outcome.tuned)


def _mixing(run: TaskRun) -> Iterator[MixingWeight]:
    for outcome in run.outcomes_of("model"):
        for cut, weights, gamma in zip(outcome.cuts, outcome.weights.tolist(), outcome.gamma.tolist(), strict=False):
            for layer, (weight, norm) in enumerate(zip(weights, run.norms.tolist(), strict=True)):
                if layer <= cut.layer:
                    place = (run.task.name, outcome.seed, _tuned(outcome), cut.layer, layer)
                    yield MixingWeight(*place, weight, gamma, norm)


def _training(run: TaskRun) -> Iterator[ProbeTraining]:
    for outcome in run.outcomes:
        learned = outcome.learned
        for member, cut in enumerate(outcome.cuts):
            place = (run.task.name, outcome.of, cut.probe, cut.layer, outcome.seed, _tuned(outcome))
            numbers = (
                int(learned.steps[member]),
                int(learned.best_step[member]),
                learned.loss[member],
                learned.last_gain[member],
            )
            ended = bool(learned.converged[member]), bool(learned.overfitted[member])
            yield ProbeTraining(*place, *numbers, *ended, float(learned.reach[member]))


def _control(run: TaskRun, selective: Selectivity, texts: Resampling) -> ControlScore:
    """The test is filled in where all tasks are known."""
    layer, metric = selective.layer, selective.metric
    model, control = (_score_on_seen(run, of, layer) for of in ("model", "control"))
    constant = next((float(tally.value()[0]) for name, tally in run.control_constant.items() if name == metric), np.nan)
    seen = run.seen
    about = (run.task.name, float(seen.mean()), int(seen.sum()), metric, layer, model, control, constant)
    return ControlScore(*about, np.nan, np.nan, np.nan, np.nan, 0.0, 0.0, texts.units.kind)


def _score_on_seen(run: TaskRun, of: str, layer: float) -> float:
    """The score of a layer's probes on targets whose words training has seen; not available without such probes."""
    outcomes = [outcome for outcome in run.outcomes if outcome.of == of]
    members = (
        [number for number, cut in enumerate(outcomes[0].cuts) if tuple(cut) == ("layer", layer)] if outcomes else []
    )
    return float(np.mean([outcome.remembered.value()[members[0]] for outcome in outcomes])) if members else np.nan


def _beliefs(runs: Sequence[TaskRun]) -> list[TaskBeliefs]:
    """Of the tasks whose probes P(0) to P(L) were all trained; a graded task has no labels to doubt.

    Of several models, the first: what one model makes of a sentence is no mean over models.
    """
    beliefs = []
    for run in runs:
        first = run.outcomes_of("model")[0].tuned
        by_seed = {
            outcome.seed: outcome.probabilities for outcome in run.outcomes_of("model") if outcome.tuned == first
        }
        complete = {
            seed: probabilities
            for seed, probabilities in by_seed.items()
            if probabilities is not None and len(probabilities) == len(run.norms)
        }
        if complete and not run.task.graded:
            targets = run.targets
            beliefs.append(
                TaskBeliefs(
                    run.task.name, targets.labels, targets.text, targets.words, targets.gold, targets.rated, complete
                )
            )
    return beliefs
