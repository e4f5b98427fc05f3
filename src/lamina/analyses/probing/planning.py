"""From what was asked to what will be trained, and how long that takes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import NamedTuple

import numpy as np

from lamina.activations import extract
from lamina.analyses.estimate import Cost, Estimator, time_call
from lamina.analyses.probing.mdl import block_ends
from lamina.analyses.probing.running import PRESETS, Setup, programs
from lamina.analyses.probing.statistics import Resampling
from lamina.analyses.probing.tables import DISTANCES, FREQUENCIES
from lamina.corpora.learning import Splits, divide, thin
from lamina.encoders import Encoder
from lamina.errors import InputError, TaskError
from lamina.probes.bank import Group, Schedule, train
from lamina.probes.edge import Cut, EdgeProbes
from lamina.probes.streams import Stream
from lamina.probes.targets import Counts, find_targets
from lamina.tasks import TASKS, Task, get_task, label_set, tasks_of
from lamina.tasks.task import Average

PROBES = ("cumulative", "layer", "mix")
_TIMED_STEPS = 4
_TIMED_SAMPLES = 100
_FORWARD = 1 / 3
"""Share of a training step that applying probes to as many texts takes."""
_STOPPED_AT = 0.5
"""Share of the most validations after which patience is expected to have ended training, where it can."""


class Plan(NamedTuple):
    """Which tasks, and what all their probes share."""

    tasks: list[Task]
    setup: Setup


def plan_run(
    layers: int,
    whole: Splits,
    *,
    tasks: Sequence[str] | None,
    probes: Sequence[str],
    preset: str,
    seeds: int | None,
    faithful: bool,
    metric: Average | None,
    seed: int,
    device: str,
) -> Plan:
    """What `lamina.probe` does with these settings, for a model of so many layers."""
    amounts = PRESETS[preset]
    cuts = _cuts(probes, layers)
    chosen = _tasks(tasks, whole, faithful=faithful)
    if metric is not None:
        chosen = [task.averaged(metric) for task in chosen]
    splits = Splits(thin(whole.train, amounts.train_texts, seed), whole.scored)
    division = divide(splits, seed=seed, most_stop=amounts.stop_texts)
    return Plan(chosen, Setup(splits, division, amounts, cuts, seeds or amounts.seeds, seed, faithful, device=device))


def training_cost(estimator: Estimator, plan: Plan, encoders: Sequence[Encoder], *, mdl: bool) -> Cost:
    """What training and scoring take on the model and its twin; a few steps of each task are timed on the model.

    One step is one gradient step of all probes of a task on one encoder. Where patience can end training before the
    most validations (preset `paper`), half of them are expected; `quick` is too short for that and goes on to its end.
    """
    setup = plan.setup
    banks = _banks(setup, encoders, mdl=mdl)
    total = Cost(passes=0)
    for task in plan.tasks:
        schedule = setup.preset.small if _is_small(task, setup) else setup.preset.schedule
        validations = _validations(schedule)
        timed = _timed(task, setup, schedule, encoders[0])
        stop, scored = (
            ceil(timed.share * texts / schedule.batch_texts)
            for texts in (len(setup.division.stop), len(setup.splits.scored))
        )
        steps = validations * schedule.validate_every
        batches = steps + _FORWARD * (validations * stop + scored)
        # Targets are looked up for the model, the control and the twin.
        looked_up = (1 + len(encoders)) * (len(setup.splits.train) + len(setup.splits.scored))
        seconds = batches * sum(banks) * timed.step + looked_up * timed.text
        total += estimator.training(len(banks) * steps, seconds / (len(banks) * steps))
    return total


def _banks(setup: Setup, encoders: Sequence[Encoder], *, mdl: bool) -> list[float]:
    """What is trained together, as multiples of what is timed: one program of the model's own probes.

    A CPU takes as long as there are probes, a GPU as long as there are programs.
    """
    on_cpu = setup.device == "cpu"
    own, beside = len(setup.cuts) * setup.seeds, len(setup.beside_cuts) * setup.beside_seeds
    # The control is trained together with the model's own probes, on the same states.
    probes = [own + beside, *[beside] * (len(encoders) - 1)]
    banks = [each / len(setup.cuts) for each in probes] if on_cpu else [2.0, *[1.0] * (len(encoders) - 1)]
    if mdl:
        single = [setup.seeds, *[setup.beside_seeds] * len(encoders)]
        size = encoders[0].layers / len(setup.cuts) if on_cpu else 1.0
        banks += [size * seeds for seeds in single] * (len(block_ends(len(setup.division.learn))) - 1)
    return banks


def bootstrap_seconds(plan: Plan, samples: int) -> float:
    """What intervals take: of every probe, and of every label and group of targets under the cumulative probes."""
    setup = plan.setup
    texts = len(setup.splits.scored)
    some = Resampling(texts, _TIMED_SAMPLES, 0)
    counts = Counts(*(np.ones((len(setup.cuts), texts)) for _ in range(3)))
    each = time_call(lambda: some.f1(counts)) * samples / _TIMED_SAMPLES
    labels = sum(len(label_set(task, setup.splits.scored)) for task in plan.tasks)
    groups = len(DISTANCES) + len(FREQUENCIES) + len(("seen", "unseen"))
    return each * setup.seeds * (labels + (groups + 1) * len(plan.tasks))


class _Timed(NamedTuple):
    """Seconds of a task's parts."""

    step: float
    """One step of one program of the model's probes."""
    text: float
    """The targets of one text."""
    share: float
    """No seconds: of the texts, those that have targets."""


def _timed(task: Task, setup: Setup, schedule: Schedule, encoder: Encoder) -> _Timed:
    """On some batches of texts from all over the corpus."""
    corpus, wanted = setup.splits.train, _TIMED_STEPS * schedule.batch_texts
    carrying = [text for text in corpus if task.targets(text)]
    texts = carrying[:: max(1, len(carrying) // wanted)][:wanted]
    if not texts:
        return _Timed(0.0, 0.0, 0.0)
    labels = label_set(task, texts)
    with tempfile.TemporaryDirectory() as root:
        stored = extract(encoder, replace(corpus, source=lambda: iter(texts)), root=root)
        start = time.perf_counter()
        targets = find_targets(task, texts, stored.tokenized(), labels)
        per_text = (time.perf_counter() - start) / len(texts)
        shape = {"layers": encoder.layers, "width": encoder.width, "labels": len(labels), "arity": task.arity}
        seeds = programs(setup.seeds, setup.device)[0]
        group = Group(EdgeProbes(setup.cuts, **shape, seed=seeds), targets.gold, targets)
        stream = Stream(stored, targets, device=setup.device, batch_texts=schedule.batch_texts)
        few = Schedule(validate_every=_TIMED_STEPS, max_validations=1)
        # The first time is a warm-up.
        per_step = [
            time_call(lambda: train([group], stream, stream, few, order_seed=0, what=f"{task.name}: timing"))
            / (_TIMED_STEPS + _FORWARD * stream.batches)
            for _ in range(2)
        ]
        return _Timed(per_step[1], per_text, len(carrying) / len(corpus))


def _is_small(task: Task, setup: Setup) -> bool:
    """Whether the task has too few training targets for the long schedule."""
    learn = set(setup.division.learn)
    texts = (text for number, text in enumerate(setup.splits.train) if number in learn)
    return setup.preset.few > 0 and sum(len(task.targets(text)) for text in texts) < setup.preset.few


def _validations(schedule: Schedule) -> int:
    can_stop = schedule.max_validations > schedule.stop_after
    return ceil(schedule.max_validations * _STOPPED_AT) if can_stop else schedule.max_validations


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


def _cuts(probes: Sequence[str], layers: int) -> tuple[Cut, ...]:
    if not probes:
        raise InputError(f"probes: name at least one of {', '.join(PROBES)}")
    cuts = [Cut("cumulative", layer) for layer in range(layers)] if "cumulative" in probes else []
    if "mix" in probes and not cuts:
        cuts = [Cut("cumulative", layers - 1)]
    if "layer" in probes:
        cuts += [Cut("layer", layer) for layer in range(layers)]
    return tuple(cuts)
