"""From what was asked to what will be trained, and what that would take; nothing is encoded or trained for good."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import NamedTuple

import torch

from lamina.activations import Estimate, estimate, extract
from lamina.analyses.probing.mdl import block_ends
from lamina.analyses.probing.presets import get_preset
from lamina.analyses.probing.running import Setting
from lamina.analyses.probing.splits import Splits, divide, thin
from lamina.encoders import Encoder
from lamina.errors import InputError, TaskError
from lamina.probes.bank import Group, Schedule, train
from lamina.probes.edge import Cut, EdgeProbes
from lamina.probes.streams import Stream
from lamina.probes.targets import find_targets
from lamina.tasks import TASKS, Task, get_task, label_set, tasks_of
from lamina.tasks.task import Average

PROBES = ("cumulative", "layer", "mix")
METRICS: tuple[Average, ...] = ("micro", "macro")
_TIMED_STEPS = 4
_FORWARD = 1 / 3
"""Of a training step, what it takes to apply probes to as many texts."""


class Plan(NamedTuple):
    """Which tasks, and what all their probes share."""

    tasks: list[Task]
    setting: Setting


class Foreseen(NamedTuple):
    """What a probing run would take."""

    train: Estimate
    """To encode the training texts, once."""
    scored: Estimate
    passes: int
    """How often texts are encoded: a model and its twin are two."""
    probes: int
    """Trained in all: of the model, its twin and the control."""
    training: float
    """Seconds at most: with early stopping it is less."""


def plan_run(
    layers: int,
    whole: Splits,
    *,
    tasks: Sequence[str] | None,
    probes: Sequence[str],
    preset: str,
    seeds: int | None,
    faithful: bool,
    metric: str | None,
    seed: int,
    device: str | None,
) -> Plan:
    """What `lamina.probe` does with these settings, for a model of so many layers."""
    amounts = get_preset(preset)
    cuts = _cuts(probes, layers)
    chosen = _tasks(tasks, whole, faithful=faithful)
    if metric is not None:
        chosen = [task.averaged(_average(metric)) for task in chosen]
    splits = Splits(thin(whole.train, amounts.train_texts, seed), whole.scored)
    division = divide(splits, seed=seed, most_stop=amounts.stop_texts)
    where = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return Plan(chosen, Setting(splits, division, amounts, cuts, seeds or amounts.seeds, seed, faithful, device=where))


def foresee(
    plan: Plan, encoder: Encoder, *, twin: bool, mdl: bool = False, root: str | os.PathLike[str] | None = None
) -> Foreseen:
    """Count, and time a few texts and a few training steps, without keeping anything."""
    setting = plan.setting
    train_texts, scored_texts = (
        estimate(encoder, corpus, root=root) for corpus in (setting.splits.train, setting.splits.scored)
    )
    passes = 2 if twin and encoder.blocks else 1
    # The control learns from the model's own states, the twin's probes from the twin's.
    beside_seeds = setting.beside_seeds * passes
    probes = len(setting.cuts) * setting.seeds + len(setting.beside_cuts) * beside_seeds
    if mdl:
        blocks = len(block_ends(len(setting.division.learn))) - 1
        probes += blocks * encoder.layers * (setting.seeds + beside_seeds)
    share = probes / len(setting.cuts)
    schedule = setting.preset.schedule
    stop, scored = (ceil(texts / schedule.batch_texts) for texts in (len(setting.division.stop), scored_texts.texts))
    applied = schedule.max_validations * stop + scored
    steps = share * (schedule.max_steps + _FORWARD * applied)
    seconds = sum(steps * _step_seconds(task, plan.setting, encoder) for task in plan.tasks)
    return Foreseen(train_texts, scored_texts, passes, probes * len(plan.tasks), seconds)


def _step_seconds(task: Task, setting: Setting, encoder: Encoder) -> float:
    """One step of all the probes of one seed of the model, timed on a batch of texts from all over the corpus."""
    schedule, corpus = setting.preset.schedule, setting.splits.train
    carrying = [text for text in corpus if task.targets(text)]
    texts = carrying[:: max(1, len(carrying) // schedule.batch_texts)][: schedule.batch_texts]
    if not texts:
        return 0.0
    labels = label_set(task, texts)
    with tempfile.TemporaryDirectory() as root:
        stored = extract(encoder, replace(corpus, source=lambda: iter(texts)), root=root)
        targets = find_targets(task, texts, (each.tokens for each in stored), labels)
        shape = {"layers": encoder.layers, "width": encoder.width, "labels": len(labels), "arity": task.arity}
        group = Group(EdgeProbes(setting.cuts, **shape, seed=0), targets.gold, targets)
        stream = Stream(stored, targets, device=setting.device, batch_texts=schedule.batch_texts)
        # The first step pays for more than its share.
        for steps in (1, _TIMED_STEPS):
            few = Schedule(validate_every=steps, max_validations=1)
            start = time.perf_counter()
            train([group], stream, stream, few, order_seed=0, what=f"{task.name}: timing")
        return (time.perf_counter() - start) / (_TIMED_STEPS + _FORWARD)


def _tasks(names: Sequence[str] | None, splits: Splits, *, faithful: bool) -> list[Task]:
    carried = [task.name for task in tasks_of(splits.scored.annotations)]
    if not carried:
        raise TaskError(
            f"{splits.name} carries no task; its annotations: {', '.join(splits.scored.annotations) or 'none'}; "
            f"tasks are made of: {', '.join(dict.fromkeys(task.annotation for task in TASKS))}"
        )
    missing = [name for name in names or () if get_task(name).name not in carried]
    if missing:
        windows = [get_task(name) for name in missing]
        hint = any(task.available((*splits.scored.annotations, "sentence")) for task in windows)
        raise TaskError(
            f"{splits.name} does not carry {', '.join(missing)}; it carries {', '.join(carried)}"
            + ("; windows (--unit window:128) carry more" if hint else "")
        )
    return [get_task(name, faithful=faithful) for name in carried if names is None or name in names]


def _average(metric: str) -> Average:
    for average in METRICS:
        if average == metric:
            return average
    raise InputError(f"there is no metric {metric!r}; there are: {', '.join(METRICS)}")


def _cuts(probes: Sequence[str], layers: int) -> tuple[Cut, ...]:
    unknown = [name for name in probes if name not in PROBES]
    if unknown or not probes:
        raise InputError(f"there are no probes {', '.join(unknown) or '(none given)'}; there are: {', '.join(PROBES)}")
    cuts = [Cut("cumulative", layer) for layer in range(layers)] if "cumulative" in probes else []
    if "mix" in probes and not cuts:
        cuts = [Cut("cumulative", layers - 1)]
    if "layer" in probes:
        cuts += [Cut("layer", layer) for layer in range(layers)]
    return tuple(cuts)
