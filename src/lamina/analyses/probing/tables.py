"""The tables of a probe result; their columns are a contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lamina.analyses.probing.ambiguity import TaskBeliefs, Trace, traces_across, words_table
from lamina.analyses.probing.breakdown import Part, break_down
from lamina.analyses.probing.checkpoints import Outcome, TaskRun, Whose
from lamina.analyses.probing.statistics import Resampling
from lamina.analyses.probing.summary import (
    Apart,
    BestLayer,
    Compared,
    Drawn,
    Order,
    Place,
    Reading,
    Selectivity,
    Step,
    Summary,
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
from lamina.corpora.learning import Splits, divide
from lamina.stats.intervals import interval
from lamina.stats.units import Units


@dataclass(frozen=True, slots=True)
class Score:
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


class Mixing(NamedTuple):
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


class Training(NamedTuple):
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


class Control(NamedTuple):
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


class Probed(NamedTuple):
    """The runs of one corpus."""

    runs: Sequence[TaskRun]
    splits: Splits


class _Words(NamedTuple):
    """What tables need to know of the texts."""

    scored: list[tuple[str, tuple[str, ...]]]
    """Id and words."""
    learned: Counter[str]
    """How often each word, as written, occurs in the texts learned from."""

    @classmethod
    def of(cls, splits: Splits, seed: int) -> _Words:
        learn = set(divide(splits, seed=seed).learn)
        learned = Counter(word for number, text in enumerate(splits.train) if number in learn for word in text.words)
        return cls([(text.id, text.words) for text in splits.scored], learned)

    def frequency(self, run: TaskRun) -> np.ndarray:
        """[target] Of the last word of the first span."""
        last = zip(run.targets.text.tolist(), (run.targets.words[:, 0, 1] - 1).tolist(), strict=True)
        return np.array([self.learned[self.scored[text][1][word]] for text, word in last], np.int64)


def make_tables(
    corpora: Sequence[Probed], model: str, *, samples: int, seed: int, faithful: bool = False
) -> dict[str, pd.DataFrame]:
    """Every table of the result, by name; documents of one name are drawn alike in all corpora."""
    rows: dict[str, list[Any]] = {name: [] for name in _ROWS}
    places: list[Place] = []
    selective: list[Selectivity] = []
    compared: list[Compared] = []
    apart: list[Apart] = []
    words: dict[str, tuple[str, ...]] = {}
    for runs, splits in corpora:
        texts = Resampling(Units.of_texts(splits.scored), samples, seed)
        told = _Words.of(splits, seed)
        for run in runs:
            drawn = bootstrap(run, texts, [seed, len(places)])
            selective.append(selectivity(run, drawn))
            summary, place = summarise(run, drawn, splits.name, selective[-1], faithful=faithful)
            places.append(place)
            compared.append(compare_layers(run, drawn))
            apart += neighbours(run, drawn)
            rows["summary"].append(summary)
            rows["scores"] += _scores(run, drawn, texts, model, splits.scored.split)
            rows["breakdown"] += break_down(run, told.frequency(run), texts, seed)
            rows["mixing"] += _mixing(run)
            rows["training"] += _training(run)
            rows["control"].append(_control(run, selective[-1], texts))
        traces = traces_across(_beliefs(runs), told.scored)
        names = _names(traces, told.scored, words, splits.name)
        rows["traces"] += [row._replace(text_id=names[row.text_id]) for row in traces]
        words |= {names[text]: said for text, said in told.scored if text in names}
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
    tables = {name: pd.DataFrame(own, columns=list(_ROWS[name].__annotations__)) for name, own in rows.items()}
    tables["scores"] = tables["scores"].astype({"layer": "Int64"})
    tables["words"] = words_table(list(words.items()))
    return tables


_ROWS: dict[str, Any] = {
    "scores": Score,
    "training": Training,
    "mixing": Mixing,
    "summary": Summary,
    "steps": Step,
    "order": Order,
    "readings": Reading,
    "best_layers": BestLayer,
    "traces": Trace,
    "breakdown": Part,
    "control": Control,
}
"""Table -> its rows."""


def _names(
    traces: Sequence[Trace],
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


def _scores(run: TaskRun, drawn: Drawn, texts: Resampling, model: str, split: str) -> Iterator[Score]:
    count = int((run.targets.scored.any(1) | run.targets.unseen.any(1)).sum())
    for metric in run.constant:
        about = (split, metric, count)
        constants: dict[Whose, Any] = {"model": run.constant, "control": run.control_constant}
        for of, own in constants.items():
            spread = interval(texts.score(own[metric])[:, 0])
            counted = (split, metric, int(run.seen.sum())) if of == "control" else about
            value = float(own[metric].value()[0])
            yield Score(model, run.task.name, "constant", of, None, "all", "", *counted, value, *spread)
        for of, by_metric in drawn.items():
            draws = by_metric[metric]
            probes = run.outcomes_of(of)
            seeds = [(str(outcome.seed), _tuned(outcome)) for outcome in probes]
            seeds.append(("all", _tuned(probes[0]) and "all"))
            values = [*(tally.value() for tally in draws.tallies), draws.value]
            for both, each, sampled in zip(seeds, values, [*draws.by_seed, draws.pooled], strict=True):
                for cut, value, some in zip(probes[0].cuts, each.tolist(), sampled.T, strict=True):
                    place = (model, run.task.name, cut.probe, of, cut.layer, *both)
                    yield Score(*place, *about, value, *interval(some))


def _tuned(outcome: Outcome) -> str:
    return "" if outcome.tuned is None else str(outcome.tuned)


def _mixing(run: TaskRun) -> Iterator[Mixing]:
    for outcome in run.outcomes_of("model"):
        for cut, weights, gamma in zip(outcome.cuts, outcome.weights.tolist(), outcome.gamma.tolist(), strict=False):
            for layer, (weight, norm) in enumerate(zip(weights, run.norms.tolist(), strict=True)):
                if layer <= cut.layer:
                    place = (run.task.name, outcome.seed, _tuned(outcome), cut.layer, layer)
                    yield Mixing(*place, weight, gamma, norm)


def _training(run: TaskRun) -> Iterator[Training]:
    for outcome in run.outcomes:
        learned = outcome.learned
        for at, cut in enumerate(outcome.cuts):
            place = (run.task.name, outcome.of, cut.probe, cut.layer, outcome.seed, _tuned(outcome))
            numbers = (int(learned.steps[at]), int(learned.best_step[at]), learned.loss[at], learned.last_gain[at])
            ended = bool(learned.converged[at]), bool(learned.overfitted[at])
            yield Training(*place, *numbers, *ended, float(learned.reach[at]))


def _control(run: TaskRun, selective: Selectivity, texts: Resampling) -> Control:
    """The test is filled in where all tasks are known."""
    layer, metric = selective.layer, selective.metric
    model, control = (_remembered(run, of, layer) for of in ("model", "control"))
    constant = next((float(own.value()[0]) for name, own in run.control_constant.items() if name == metric), np.nan)
    seen = run.seen
    about = (run.task.name, float(seen.mean()), int(seen.sum()), metric, layer, model, control, constant)
    return Control(*about, np.nan, np.nan, np.nan, np.nan, 0.0, 0.0, texts.units.kind)


def _remembered(run: TaskRun, of: str, layer: float) -> float:
    """The score of a layer's probes on targets whose words training has seen; not available without such probes."""
    own = [outcome for outcome in run.outcomes if outcome.of == of]
    at = [number for number, cut in enumerate(own[0].cuts) if tuple(cut) == ("layer", layer)] if own else []
    return float(np.mean([each.remembered.value()[at[0]] for each in own])) if at else np.nan


def _beliefs(runs: Sequence[TaskRun]) -> list[TaskBeliefs]:
    """Of the tasks whose probes P(0) to P(L) were all trained; a graded task has no labels to doubt.

    Of several models, the first: what one model makes of a sentence is no mean over models.
    """
    found = []
    for run in runs:
        first = run.outcomes_of("model")[0].tuned
        own = {each.seed: each.probabilities for each in run.outcomes_of("model") if each.tuned == first}
        told = {seed: said for seed, said in own.items() if said is not None and len(said) == len(run.norms)}
        if told and not run.task.graded:
            each = run.targets
            found.append(TaskBeliefs(run.task.name, each.labels, each.text, each.words, each.gold, each.rated, told))
    return found
