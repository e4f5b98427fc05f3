"""Scores of parts of a task's targets: by label, by distance, by how often a word was seen in training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from lamina.analyses.probing.checkpoints import TaskRun, units_of
from lamina.analyses.probing.statistics import Draws, Resampling
from lamina.probes.streams import ProbeTargets
from lamina.probes.tallies import DecisionTally
from lamina.stats.intervals import interval

DISTANCES = {"0": 0, "1": 1, "2": 2, "3-5": 5, "6-10": 10, ">10": None}
"""Words between the spans: name of the group -> its largest distance."""
FREQUENCIES = {"0": 0, "1-4": 4, "5-19": 19, "20-99": 99, "100+": None}
"""Times the word occurs in the texts learned from."""
MACRO = "macro"
"""Macro-F1: the mean of the labels' F1, over labels that hold of some scored target."""


@dataclass(frozen=True, slots=True)
class Part:
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
class _Group:
    """Some decisions about some targets."""

    by: str
    name: str
    count: int
    tallies: list[DecisionTally]
    """One per seed."""


def break_down(run: TaskRun, frequency: np.ndarray, texts: Resampling, seed: int) -> Iterator[Part]:
    """By label, by distance between the spans, by frequency of the first span's last word in training.

    Args:
        run: the task's probes.
        frequency: [target] how often that word occurs in the texts learned from.
        texts: draws of the scored documents.
        seed: of the draws of seeds.
    """
    own = [outcome for outcome in run.outcomes_of("model") if outcome.probabilities is not None]
    if not own or run.task.graded:
        return
    layers = [cut.layer for cut in own[0].cuts if cut.probe == "cumulative"]
    said = [(np.asarray(outcome.probabilities) >= 0.5) & run.targets.scored for outcome in own]

    def scored(groups: Iterable[_Group]) -> Iterator[Part]:
        for group in groups:
            draws = Draws.of(group.tallies, texts, np.random.default_rng(seed), units_of(own))
            for layer, value, drawn in zip(layers, draws.value.tolist(), draws.pooled.T, strict=True):
                yield Part(run.task.name, group.by, group.name, layer, group.count, value, *interval(drawn))

    labels = list(scored(_by_label(run.targets, said)))
    for label, count in zip(run.targets.unseen_labels, run.targets.unseen.sum(0).tolist(), strict=True):
        labels += [Part(run.task.name, "label", label, layer, count, 0.0, 0.0, 0.0) for layer in layers]
    yield from labels
    for layer in layers:
        own_layer = [part for part in labels if part.layer == layer]
        mean = float(np.mean([part.value for part in own_layer])) if own_layer else np.nan
        yield Part(run.task.name, MACRO, "all", layer, sum(part.count for part in own_layer), mean, np.nan, np.nan)
    yield from scored(_by_target(run.targets, said, frequency))


def _by_label(targets: ProbeTargets, said: list[np.ndarray]) -> Iterator[_Group]:
    gold = targets.gold & targets.scored
    for column in np.flatnonzero(gold.any(0)).tolist():
        holds = gold[:, column]
        counts = [_by_text(each[:, :, column] & holds, each[:, :, column], holds, targets) for each in said]
        yield _Group("label", targets.labels[column], int(holds.sum()), counts)


def _by_target(targets: ProbeTargets, said: list[np.ndarray], frequency: np.ndarray) -> Iterator[_Group]:
    holds = targets.gold & targets.scored
    asked = holds.sum(-1) + targets.unseen.sum(-1)
    sums = [((each & holds).sum(-1), each.sum(-1)) for each in said]
    for by, name, inside in _groups(targets, frequency):
        if inside.any():
            counts = [_by_text(right * inside, each * inside, asked * inside, targets) for right, each in sums]
            yield _Group(by, name, int(inside.sum()), counts)


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


def _by_text(right: np.ndarray, said: np.ndarray, gold: np.ndarray, targets: ProbeTargets) -> DecisionTally:
    tally = DecisionTally.none("f1", len(said), targets)
    some = np.flatnonzero(said.any(0) | (gold > 0))
    for into, part in zip(tally.sums, (right, said, np.broadcast_to(gold, said.shape)), strict=True):
        np.add.at(into.T, targets.text[some], part[:, some].T)
    return tally
