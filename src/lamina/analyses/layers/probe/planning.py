"""From tasks, suites and corpora to the probes that will be trained, and how long that takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from math import ceil, inf, log
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lamina.analyses.layers.probe.description_length import block_ends
from lamina.analyses.layers.probe.tables import DISTANCES, FREQUENCIES
from lamina.analyses.layers.probe.training import HALVING, PRESETS, Preset, ProbeSetup
from lamina.corpora import Corpus
from lamina.corpora.corpus import fingerprint_of
from lamina.corpora.loading import known_splits
from lamina.corpora.splits import Splits, divide, thin
from lamina.corpora.suites.npi import TASKS as NPI_TASKS
from lamina.corpora.suites.npi import npi_splits
from lamina.errors import InputError, LaminaError, TaskError
from lamina.framework.estimate import Cost, Estimator
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
from lamina.probes.bank import Schedule
from lamina.probes.edge import LayerCut
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
    "liu": ProbeSuite(
        {
            "pos": "ewt",
            "arc": "ewt",
            "dep": "ewt",
            "conjunct": "ewt",
            "factuality": "ewt",
            "chunk": "propbank_ewt",
            "parent": "propbank_ewt",
            "grandparent": "propbank_ewt",
            "great_grandparent": "propbank_ewt",
            "ner": "gum_open",
            "coref": "gum_open",
            "supersense_prep": "streusle",
            "supersense_prep_function": "streusle",
        },
        probes=("layer",),
    ),
    "npi": ProbeSuite(dict.fromkeys(NPI_TASKS, "blimp"), probes=("layer",)),
}
"""`pipeline`: the eight tasks of Tenney, Das and Pavlick (2019). `qa`: the five of van Aken et al. (2019). `liu`: those
of Liu et al. (2019) whose annotation is open. `npi`: those of Warstadt et al. (2019), made of minimal pairs."""


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
    if suite == "npi":
        return (_npi_source(requested),)
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


def _npi_source(requested: Sequence[str | Task] | None) -> TaskSource:
    """Tasks that are made of minimal pairs instead of a corpus."""
    splits = npi_splits(SUITES["npi"].corpora["npi_presence"])
    strangers = [str(task) for task in requested or () if task not in SUITES["npi"].corpora]
    if strangers:
        raise InputError(f"the suite npi has no task {strangers[0]!r}; it has: {', '.join(SUITES['npi'].corpora)}")
    return TaskSource(splits, tuple(requested or splits.scored.annotations))


def _not_at_hand(suite: str, chosen: Mapping[str, str], missing: Mapping[str, str]) -> str:
    """Each corpus with how to get it, and what can be asked without them."""
    named = [f"{corpus} (for {', '.join(_tasks_of(chosen, corpus))}): {why}" for corpus, why in missing.items()]
    left = [f"--task {task}" for task, corpus in chosen.items() if corpus not in missing]
    without = f"; without them you can ask for {' '.join(left)}" if left else ""
    are = "is" if len(missing) == 1 else "are"
    return f"{len(missing)} of the corpora of the suite {suite} {are} not at hand: {'; '.join(named)}{without}"


def _tasks_of(chosen: Mapping[str, str], corpus: str) -> tuple[str, ...]:
    return tuple(task for task, its in chosen.items() if its == corpus)


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
        if isinstance(schedule, Mapping) and schedule.keys() == {field.name for field in fields(Schedule)}:
            schedule = Schedule(**schedule)
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
        if schedule.growth is not None and self.changes.keys() & _PATIENCE:
            schedule = HALVING
        schedule = replace(schedule, **self.changes)
        changes: dict[str, Any] = {}
        if self.steps is not None:
            # So few steps that there would be no plateau to see are validated more often.
            every = max(1, min(schedule.validate_every, self.steps // _LEAST_VALIDATIONS))
            if schedule.growth is not None:
                # The last cycle ends where the steps do.
                cycles = ceil(log(max(1.0, self.steps / schedule.validate_every), schedule.growth)) + 1
                every = max(1, int(self.steps / schedule.growth ** (max(cycles, _LEAST_CYCLES) - 1)))
            most = replace(schedule, validate_every=every, max_validations=self.steps)
            changes |= {"validate_every": every, "max_validations": max(1, most.validations_by(self.steps))}
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
    field.name: float if str(field.type).startswith("float") else int
    for field in fields(Schedule)
    if field.name not in _AMOUNTS and str(field.type).startswith(("int", "float"))
}
_LIMITS = {"lr": (1e-8, 1.0), "growth": (1.1, 10.0), "hidden": (1, 8192), "train_texts": (2, inf)}
_LEAST_VALIDATIONS = 10
_LEAST_CYCLES = 7
_PATIENCE = {"halve_after", "stop_after", "min_learning_rate"}
"""Fields of a schedule whose rate is halved where the loss falls no more: naming one asks for that."""


def _refuse_impossible(values: Mapping[str, Any]) -> None:
    """Raise an InputError for a value that nothing can be trained by."""
    for name, value in values.items():
        if value is None and name in ("batch_targets", "growth"):
            continue
        decimal = name == "lr" or _SCHEDULE.get(name) is float
        least, most = _LIMITS.get(name, (0, inf))
        kinds = (int, float) if decimal else (int,)
        # No loss is enough by default.
        lowest = -1 if name == "enough" else 0
        if value is None or type(value) not in kinds or not lowest < value < inf or not least <= value <= most:
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
    """What training and scoring take on the model and its twin: the operations of all steps of all probes.

    One step is one gradient step of all probes of a task on one encoder.
    """
    setup, encoder = plan.setup, encoders[0]
    probes = _probe_counts(setup, encoders, mdl=mdl)
    numbers = {name: set(getattr(setup.division, name)) for name in ("learn", "stop")}
    total = Cost(passes=0)
    for task in plan.tasks:
        learn, stop = ([text for n, text in enumerate(setup.splits.train) if n in numbers[name]] for name in numbers)
        targets, words = _sizes(task, learn)
        schedule = setup.preset.small if targets < setup.preset.few else setup.preset.schedule
        share = targets / max(1, sum(bool(task.targets(text)) for text in learn))
        batch = schedule.batch_targets or schedule.batch_texts * share
        steps = expected_steps(schedule, max(1, round(targets / batch)))
        labels = len(label_set(task, learn))
        a_word = 2e-9 * encoder.width * schedule.hidden
        a_target = 2e-9 * schedule.hidden * (task.arity * schedule.hidden + labels)
        # The way back takes twice as long; words of spans that no mixing weights need, a little less.
        read = (3 * steps * batch / max(1, targets)) * (words * a_word + targets * a_target)
        applied = [_sizes(task, stop)] * _VALIDATED + [_sizes(task, setup.splits.scored)]
        read += sum(count * a_target + many * a_word for count, many in applied)
        total += estimator.training(len(probes) * steps, read * sum(probes))
    return total


_VALIDATED = 10
"""Validations of a training, about."""


def _sizes(task: Task, texts: Iterable[Text]) -> tuple[int, int]:
    """Targets, and the words of their spans."""
    targets = [edge for text in texts for edge in task.targets(text)]
    spans = [span for edge in targets for span in (edge.span, edge.other) if span is not None]
    return len(targets), sum(span.end - span.start for span in spans)


def expected_steps(schedule: Schedule, epoch: int) -> int:
    """The steps after which most probes have converged, as far as that is known before.

    Example:
        >>> expected_steps(Schedule(validate_every=200, growth=2.0, max_validations=6), 100)
        800
    """
    if schedule.growth is not None:
        first = replace(schedule, validate_every=min(schedule.validate_every, max(1, epoch)))
        return first.end_of(min(schedule.max_validations, _CYCLES))
    can_stop = schedule.max_validations > schedule.stop_after
    validations = ceil(schedule.max_validations * _STOPPED_AT) if can_stop else schedule.max_validations
    return validations * schedule.validate_every


_CYCLES = 4
"""Cycles of a training, mostly."""


def _probe_counts(setup: ProbeSetup, encoders: Sequence[Encoder], *, mdl: bool) -> list[int]:
    """Probes of the model, of the control and of the twin; and of every further block of a code."""
    model_cuts, beside = len(setup.cuts), setup.beside_seeds
    probes = [model_cuts * setup.seeds, len(setup.control_cuts) * beside, *[model_cuts * beside] * (len(encoders) - 1)]
    if mdl:
        single = [encoders[0].layers * seeds for seeds in (setup.seeds, *[beside] * len(encoders))]
        probes += single * (len(block_ends(len(setup.division.learn))) - 1)
    return probes


def bootstrap_work(plan: ProbePlan, samples: int) -> float:
    """Billions of operations of intervals: of every probe, label and group of targets under the cumulative probes."""
    setup = plan.setup
    labels = sum(len(label_set(task, setup.splits.scored)) for task in plan.tasks)
    groups = len(DISTANCES) + len(FREQUENCIES) + len(("seen", "unseen"))
    scores = setup.seeds * (labels + (groups + 1) * len(plan.tasks))
    return 6e-9 * scores * samples * len(setup.splits.scored) * len(setup.cuts)


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
