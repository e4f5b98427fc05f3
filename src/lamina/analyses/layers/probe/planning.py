"""From tasks, suites and corpora to the probes that will be trained, and how long that takes."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import islice
from math import ceil, inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from lamina.activations import extract
from lamina.analyses.layers.probe.description_length import block_ends
from lamina.analyses.layers.probe.statistics import Resampling
from lamina.analyses.layers.probe.tables import DISTANCES, FREQUENCIES
from lamina.analyses.layers.probe.training import PRESETS, Preset, ProbeSetup, loss_of, programs
from lamina.corpora import Corpus
from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.loading import known_splits
from lamina.corpora.splits import Splits, divide, thin
from lamina.errors import InputError, LaminaError, TaskError
from lamina.framework.estimate import Cost, Estimator, time_call
from lamina.framework.inputs import (
    VIEW,
    LoadedInputs,
    TrainedTexts,
    as_encoders,
    as_splits,
    chosen_view,
    describe_models,
    model_and,
    short_name,
)
from lamina.framework.settings import DeclaredSetting, read_group
from lamina.models import Encoder
from lamina.probes.bank import DecisionTally, ProbeGroup, Schedule, train_probes
from lamina.probes.edge import EdgeProbes, LayerCut
from lamina.probes.streams import Stream, find_targets
from lamina.tasks import Task, get_task, label_set
from lamina.tasks.catalogue import choose_tasks
from lamina.tasks.task import Average
from lamina.training.provenance import seed_folders
from lamina.types import Text

if TYPE_CHECKING:
    from lamina.activations import Runtime


PROBES = ("cumulative", "layer", "mix")
"""Kinds of probes."""


@dataclass(frozen=True)
class ProbeSuite:
    """The tasks of one paper."""

    corpora: Mapping[str, str]
    """Task -> the corpus it is taken from."""
    probes: tuple[str, ...] = PROBES
    """Kinds of probes that are trained where none are asked for."""
    over_all_labels: bool = False
    """Whether every task is scored by macro-F1 over all labels, whatever its own score is."""

    def task(self, name: str) -> str | Task:
        """The task as the paper asks it."""
        return get_task(name).over_all_labels() if self.over_all_labels else name


SUITES = {
    "pipeline": ProbeSuite(
        {
            "pos": "ewt",
            "const": "propbank_ewt",
            "dep": "ewt",
            "ner": "gum_open",
            "srl": "propbank_ewt",
            "coref": "gum_open",
            "spr": "ewt",
            "rel": "semeval2010_task8",
        }
    ),
    "qa": ProbeSuite(
        {
            "ner": "gum_open",
            "coref": "gum_open",
            "rel": "semeval2010_task8",
            "ques": "trec_qtypes",
            "sup": "squad_v1.1_dev",
        },
        probes=("layer",),
        over_all_labels=True,
    ),
}
"""`pipeline`: the eight tasks of Tenney, Das and Pavlick (2019). `qa`: the five of van Aken et al. (2019)."""


def probes_of(requested: Sequence[str] | None, suite: str | None) -> list[str]:
    """The kinds of probes to train: what was asked for, else the suite's, else all.

    Example:
        >>> probes_of(None, "qa"), probes_of(["mix"], "qa")
        (['layer'], ['mix'])
    """
    if requested is not None:
        return list(requested)
    return list(PROBES if suite is None else SUITES[suite].probes)


class TaskSource(NamedTuple):
    """A corpus, and the tasks that are taken from it; None: all that it carries."""

    splits: Splits
    tasks: tuple[str | Task, ...] | None


@dataclass(frozen=True)
class ProbedTexts(TrainedTexts):
    """A model, or one per fine-tuning seed, and the texts of one corpus, or of every corpus of a suite.

    Questions are shown as they were shown to the model when it was fine-tuned.
    """

    seeds = True

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        return (*super().options, VIEW)

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`."""
        suite, tasks = settings["suite"], settings["tasks"]
        view_options = {**options, "view": chosen_view(options, *_tuned(given["model"]))}
        if suite is None:
            splits = as_splits(given["data"], view_options)
            encoders = as_encoders(given["model"], options, runtime)
            one = model_and(encoders, splits, given["model"])
            return LoadedInputs((encoders, (TaskSource(splits, tasks),)), one.model, one.data, one.names)
        if given["data"] != self.default:
            raise InputError(f"the suite {suite} has its own corpora; give --suite or --corpus, not both")
        sources = _sources(suite, tasks, view_options)
        encoders = as_encoders(given["model"], options, runtime)
        corpora = [source.splits.describe() for source in sources]
        data = {
            "name": f"{suite} suite",
            "split": options["split"],
            "fingerprint": fingerprint_of("suite", [corpus["fingerprint"] for corpus in corpora]),
            "corpora": corpora,
        }
        names = (short_name(given["model"], encoders[0]), suite)
        return LoadedInputs((encoders, sources), describe_models(encoders), data, names)


def _tuned(model: Any) -> tuple[Encoder | Path, ...]:
    """The first of the models, or its folder, where there is one: its view is known before it is loaded."""
    first = model[0] if isinstance(model, list) and model else model
    if isinstance(first, str | Path):
        return (next(iter(seed_folders(first)), Path(first)),)
    return (first,) if isinstance(first, Encoder) else ()


def _sources(suite: str, requested: Sequence[str | Task] | None, options: Mapping[str, Any]) -> tuple[TaskSource, ...]:
    whole = SUITES[suite]
    tasks = whole.corpora
    strangers = [str(getattr(task, "name", task)) for task in requested or () if task not in tasks]
    if strangers:
        raise InputError(f"the suite {suite} has no task {strangers[0]!r}; it has: {', '.join(tasks)}")
    chosen = {task: corpus for task, corpus in tasks.items() if requested is None or task in requested}
    missing: dict[str, str] = {}
    for corpus in dict.fromkeys(chosen.values()):
        try:
            known_splits(corpus)
        except LaminaError as error:
            missing[corpus] = str(error).rstrip(".")
    if missing:
        raise InputError(_not_at_hand(suite, chosen, missing))
    return tuple(
        TaskSource(as_splits(corpus, options), tuple(whole.task(name) for name in _tasks_of(chosen, corpus)))
        for corpus in dict.fromkeys(chosen.values())
    )


def _not_at_hand(suite: str, chosen: Mapping[str, str], missing: Mapping[str, str]) -> str:
    """Each corpus with how to get it, and what can be asked without them."""
    named = [f"{corpus} (for {', '.join(_tasks_of(chosen, corpus))}): {why}" for corpus, why in missing.items()]
    left = [f"--task {task}" for task, corpus in chosen.items() if corpus not in missing]
    without = f"; without them you can ask for {' '.join(left)}" if left else ""
    are = "is" if len(missing) == 1 else "are"
    return f"{len(missing)} of the corpora of the suite {suite} {are} not at hand: {'; '.join(named)}{without}"


def _tasks_of(chosen: Mapping[str, str], corpus: str) -> tuple[str, ...]:
    return tuple(task for task, its in chosen.items() if its == corpus)


_TIMED_STEPS = 4
_TIMED_SAMPLES = 100
_FORWARD = 1 / 3
"""Share of a training step that applying probes to as many texts takes."""
_STOPPED_AT = 0.5
"""Share of the most validations after which patience is expected to have ended training, where it can."""


class ProbePlan(NamedTuple):
    """Which tasks of one corpus, and what all their probes share."""

    tasks: list[Task]
    setup: ProbeSetup
    unusable: tuple[str, ...] = ()
    """Tasks that the corpus carries and nothing can be learned from; an error where they were asked for by name."""


class TrainingAmounts(NamedTuple):
    """What takes the place of the preset's values; None: as the preset has it."""

    seeds: int | None = None
    steps: int | None = None
    """The most steps; training ends earlier on a plateau."""
    batch: int | None = None
    """Texts of a step."""
    lr: float | None = None
    """Learning rate at the start."""
    hidden: int | None = None
    """Width of the probes."""
    train_texts: int | None = None
    """About how many training texts are used."""
    stop_texts: int | None = None
    """The most texts that decide when to stop."""
    schedule: Schedule | None = None
    """A whole schedule."""
    changes: Mapping[str, Any] = {}
    """Fields of the preset's schedules by name."""

    @classmethod
    def read(cls, schedule: Schedule | str | Mapping[str, Any] | None, seeds: int | None = None) -> TrainingAmounts:
        """The setting `schedule`, as it was given.

        Example:
            >>> TrainingAmounts.read("steps=2000,validate_every=50").steps
            2000
        """
        if schedule is None:
            return cls(seeds)
        if isinstance(schedule, Schedule):
            _refuse_impossible({name: getattr(schedule, name) for name in ("hidden", *_SCHEDULE)})
            return cls(seeds, schedule=schedule)
        values = read_group(schedule, _AMOUNTS | _SCHEDULE, "the schedule")
        _refuse_impossible(values)
        amounts = {name: values.pop(name) for name in _AMOUNTS if name in values}
        return cls(seeds, **amounts, changes=values)

    def of(self, preset: str) -> Preset:
        """The preset with these values in place of its own."""
        chosen = PRESETS[preset]
        schedules = {name: self._changed(self.schedule or getattr(chosen, name)) for name in ("schedule", "small")}
        numbers = {name: getattr(self, name) for name in ("seeds", "train_texts", "stop_texts")}
        return replace(chosen, **schedules, **{name: value for name, value in numbers.items() if value is not None})

    def _changed(self, schedule: Schedule) -> Schedule:
        schedule = replace(schedule, **self.changes)
        changes: dict[str, Any] = {}
        if self.steps is not None:
            # So few steps that there would be no plateau to see are validated more often.
            every = min(schedule.validate_every, max(1, self.steps // _LEAST_VALIDATIONS))
            changes |= {"validate_every": every, "max_validations": max(1, self.steps // every)}
        if self.batch is not None:
            changes |= {"batch_texts": self.batch, "batch_targets": None}
        if self.lr is not None:
            slowest = schedule.min_learning_rate * self.lr / schedule.learning_rate
            changes |= {"learning_rate": self.lr, "min_learning_rate": slowest}
        if self.hidden is not None:
            changes["hidden"] = self.hidden
        return replace(schedule, **changes)


def schedule_parts(schedule: Schedule | str | Mapping[str, Any] | None) -> dict[str, Any]:
    """The setting `schedule` as provenance records it: amounts by name, and the rest of the schedule.

    Example:
        >>> {name: value for name, value in schedule_parts("steps=20").items() if value is not None}
        {'steps': 20}
    """
    amounts = TrainingAmounts.read(schedule)
    whole = amounts.schedule.describe() if amounts.schedule is not None else dict(amounts.changes) or None
    return {name: getattr(amounts, name) for name in _AMOUNTS} | {"schedule": whole}


_AMOUNTS: dict[str, type] = {
    "steps": int,
    "batch": int,
    "lr": float,
    "hidden": int,
    "train_texts": int,
    "stop_texts": int,
}
"""What `schedule` can say beside the fields of a schedule."""
_SCHEDULE: dict[str, type] = {
    field.name: float if str(field.type) == "float" else int
    for field in fields(Schedule)
    if field.name not in _AMOUNTS and str(field.type).startswith(("int", "float"))
}
_LIMITS = {"lr": (1e-8, 1.0), "hidden": (1, 8192), "train_texts": (2, inf)}
_LEAST_VALIDATIONS = 10


def _refuse_impossible(values: Mapping[str, Any]) -> None:
    """Raise an InputError for a value that nothing can be trained by."""
    for name, value in values.items():
        if value is None and name == "batch_targets":
            continue
        decimal = name == "lr" or _SCHEDULE.get(name) is float
        least, most = _LIMITS.get(name, (0, inf))
        kinds = (int, float) if decimal else (int,)
        if value is None or type(value) not in kinds or not 0 < value < inf or not least <= value <= most:
            limits = f"from {least:g} to {most:g}" if name in _LIMITS else "above 0"
            kind = "a number" if decimal else "a whole number"
            raise InputError(f"the schedule has {name}={value!r}; give {kind} {limits}")


def plan_run(
    layers: int,
    source: TaskSource,
    *,
    probes: Sequence[str],
    preset: str,
    amounts: TrainingAmounts,
    faithful: bool,
    metric: Average | None,
    seed: int,
    device: str,
    practices: Sequence[str] = (),
) -> ProbePlan:
    """What `lamina.probe` does with these settings on one corpus, for a model with this number of layers."""
    whole, requested = source
    # The paper's own way is its schedule too; `quick` is merely the default.
    chosen = amounts.of("paper" if faithful and preset == "quick" else preset)
    cuts = _cuts(probes, layers)
    tasks = choose_tasks(requested, whole, faithful=faithful or "roots" in practices)
    if metric is not None:
        tasks = [task.averaged(metric) for task in tasks]
    splits = Splits(_in_memory(thin(whole.train, chosen.train_texts, seed)), _in_memory(whole.scored))
    division = divide(splits, seed=seed, most_stop=chosen.stop_texts)
    setup = ProbeSetup(
        splits, division, chosen, cuts, chosen.seeds, seed, faithful, device=device, practices=frozenset(practices)
    )
    unusable: dict[str, TaskError] = {}
    for task in tasks:
        try:
            _check_learnable(task, setup)
        except TaskError as error:
            unusable[task.name] = error
    if unusable and (requested is not None or len(unusable) == len(tasks)):
        raise next(iter(unusable.values()))
    return ProbePlan([task for task in tasks if task.name not in unusable], setup, tuple(unusable))


def training_cost(estimator: Estimator, plan: ProbePlan, encoders: Sequence[Encoder], *, mdl: bool) -> Cost:
    """What training and scoring take on the model and its twin; a few steps of each task are timed on the model.

    One step is one gradient step of all probes of a task on one encoder. Training ends on a plateau: half of the most
    validations are expected.
    """
    setup = plan.setup
    banks = _banks(setup, encoders, mdl=mdl)
    total = Cost(passes=0)
    for task in plan.tasks:
        schedule = setup.preset.small if _is_small(task, setup) else setup.preset.schedule
        validations = expected_validations(schedule)
        timed = _time_steps(task, setup, schedule, encoders[0])
        stop, scored = (
            timed.share * texts / timed.texts for texts in (len(setup.division.stop), len(setup.splits.scored))
        )
        steps = validations * schedule.validate_every
        batches = steps + _FORWARD * (validations * stop + scored)
        # Targets are looked up for the model, the control and the twin.
        looked_up = (1 + len(encoders)) * (len(setup.splits.train) + len(setup.splits.scored))
        seconds = batches * sum(banks) * timed.step + looked_up * timed.text
        total += estimator.training(len(banks) * steps, seconds / (len(banks) * steps))
    return total


def _banks(setup: ProbeSetup, encoders: Sequence[Encoder], *, mdl: bool) -> list[float]:
    """What is trained together, as multiples of what is timed: one program of the model's own probes.

    A CPU takes as long as there are probes, a GPU as long as there are programs.
    """
    on_cpu = setup.device == "cpu"
    model_cuts, beside = len(setup.cuts), setup.beside_seeds
    probes = [model_cuts * setup.seeds, len(setup.control_cuts) * beside, *[model_cuts * beside] * (len(encoders) - 1)]
    cores = torch.get_num_threads()
    # On a CPU, groups are trained side by side, one on each core.
    banks = [count / model_cuts / cores for count in probes] if on_cpu else [1.0] * len(probes)
    if mdl:
        single = [setup.seeds, *[beside] * len(encoders)]
        size = encoders[0].layers / model_cuts / cores if on_cpu else 1.0
        banks += [size * seeds for seeds in single] * (len(block_ends(len(setup.division.learn))) - 1)
    return banks


def bootstrap_seconds(plan: ProbePlan, samples: int) -> float:
    """What intervals take: of every probe, and of every label and group of targets under the cumulative probes."""
    setup = plan.setup
    texts = len(setup.splits.scored)
    some = Resampling(texts, _TIMED_SAMPLES, 0)
    tally = DecisionTally("f1", np.ones((3, len(setup.cuts), texts)))
    score_seconds = time_call(lambda: some.score(tally)) * samples / _TIMED_SAMPLES
    labels = sum(len(label_set(task, setup.splits.scored)) for task in plan.tasks)
    groups = len(DISTANCES) + len(FREQUENCIES) + len(("seen", "unseen"))
    return score_seconds * setup.seeds * (labels + (groups + 1) * len(plan.tasks))


class StepTiming(NamedTuple):
    """Seconds of a task's parts."""

    step: float
    """One step of one program of the model's probes."""
    text: float
    """The targets of one text."""
    share: float
    """No seconds: of the texts, those that have targets."""
    texts: float
    """No seconds: texts of a step."""


def _time_steps(task: Task, setup: ProbeSetup, schedule: Schedule, encoder: Encoder) -> StepTiming:
    """On some batches of texts from all over the corpus."""
    corpus = setup.splits.train
    carrying = [text for text in corpus if task.targets(text)]
    if not carrying:
        return StepTiming(0.0, 0.0, 0.0, 1.0)
    per_step = _texts_of_step(task, carrying, schedule)
    wanted = _TIMED_STEPS * per_step
    texts = carrying[:: max(1, len(carrying) // wanted)][:wanted]
    labels = label_set(task, texts)
    with tempfile.TemporaryDirectory() as root:
        stored = extract(encoder, replace(corpus, source=lambda: iter(texts)), root=root)
        start = time.perf_counter()
        targets = find_targets(task, texts, stored.tokenized(), labels)
        per_text = (time.perf_counter() - start) / len(texts)
        shape = {"layers": encoder.layers, "width": encoder.width, "labels": len(labels), "arity": task.arity}
        seeds = programs(setup.seeds, setup.device)[0]
        probes = EdgeProbes(setup.cuts, **shape, seed=seeds, hidden=schedule.hidden)
        stream = Stream(stored, targets, device=setup.device, batch_texts=per_step)
        group = ProbeGroup(probes, targets, targets, (stream, stream), loss_of(task))
        few = Schedule(validate_every=_TIMED_STEPS, max_validations=1, hidden=schedule.hidden)
        # On a CPU a group has one core. The first time is a warm-up.
        with _one_thread(setup.device):
            seconds = [
                time_call(lambda: train_probes([group], few, order_seed=0, what=f"{task.name}: timing"))
                / (_TIMED_STEPS + _FORWARD * stream.batches)
                for _ in range(2)
            ]
        return StepTiming(seconds[1], per_text, len(carrying) / len(corpus), per_step)


@contextmanager
def _one_thread(device: str) -> Iterator[None]:
    threads = torch.get_num_threads()
    try:
        if device == "cpu":
            torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(threads)


def _texts_of_step(task: Task, carrying: Sequence[Text], schedule: Schedule) -> int:
    if schedule.batch_targets is None:
        return schedule.batch_texts
    some = carrying[:: max(1, len(carrying) // 200)]
    targets_per_text = sum(len(task.targets(text)) for text in some) / len(some)
    return max(1, round(schedule.batch_targets / targets_per_text))


def _is_small(task: Task, setup: ProbeSetup) -> bool:
    """Whether the task has too few training targets for the long schedule."""
    learn = set(setup.division.learn)
    texts = (text for number, text in enumerate(setup.splits.train) if number in learn)
    return setup.preset.few > 0 and sum(len(task.targets(text)) for text in texts) < setup.preset.few


def expected_validations(schedule: Schedule) -> int:
    can_stop = schedule.max_validations > schedule.stop_after
    return ceil(schedule.max_validations * _STOPPED_AT) if can_stop else schedule.max_validations


_MOST_IN_MEMORY = 20_000
"""Texts that are kept in memory: every task reads them several times."""


def _in_memory(corpus: Corpus) -> Corpus:
    texts = tuple(islice(corpus, _MOST_IN_MEMORY + 1))
    return replace(corpus, source=lambda: iter(texts)) if len(texts) <= _MOST_IN_MEMORY else corpus


def _cuts(probes: Sequence[str], layers: int) -> tuple[LayerCut, ...]:
    if not probes:
        raise InputError(f"probes: name at least one of {', '.join(PROBES)}")
    cuts = [LayerCut("cumulative", layer) for layer in range(layers)] if "cumulative" in probes else []
    if "mix" in probes and not cuts:
        cuts = [LayerCut("cumulative", layers - 1)]
    if "layer" in probes:
        cuts += [LayerCut("layer", layer) for layer in range(layers)]
    return tuple(cuts)


def _check_learnable(task: Task, setup: ProbeSetup) -> None:
    """Whether there is anything to learn, to stop by and to score, before anything is encoded."""
    name = setup.splits.name
    parts = {"training": setup.learned, "scored": setup.splits.scored}
    for part, texts in parts.items():
        if not any(task.targets(text) for text in texts):
            raise TaskError(f"{task.name}: the {part} texts of {name} have no target of this task; leave it out")
        _refuse_mixed(task, Counter(edge.arity for text in texts for edge in task.targets(text)), name)
    if not any(task.targets(text) for text in setup.stopping):
        raise TaskError(
            f"{task.name}: of the training texts of {name}, those that decide when to stop "
            f"({len(setup.division.stop):,}) have no target of this task; give more training texts or leave it out"
        )
    targets = (edge for text in setup.learned for edge in task.targets(text))
    answers = {edge.value if task.graded else frozenset(edge.labels) for edge in targets}
    if len(answers) < 2:
        (only,) = answers
        answer = (
            f"the label {' '.join(sorted(only)) or 'none'!r}" if isinstance(only, frozenset) else f"the value {only:g}"
        )
        raise TaskError(
            f"{task.name}: every training target of {name} has {answer}; there is nothing to learn; leave it out"
        )


def _refuse_mixed(task: Task, arities: Counter[int], corpus: str) -> None:
    other = arities[3 - task.arity]
    if other:
        kinds = {1: "one span", 2: "a pair of spans"}
        if not arities[task.arity]:
            raise TaskError(
                f"{task.name}: a target of this task is {kinds[task.arity]}, and all {other:,} of {corpus} are "
                f"{kinds[3 - task.arity]}; give the task arity {3 - task.arity}"
            )
        raise TaskError(
            f"{task.name}: {arities[task.arity]:,} targets of {corpus} are {kinds[task.arity]} and {other:,} are "
            f"{kinds[3 - task.arity]}; a task has one kind of target: give each its own annotation"
        )
