"""Training and scoring every probe of one task; runs are saved, so that one that was stopped continues."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lamina.activations import ActivationStore, ReadActivations
from lamina.corpora import Corpus
from lamina.corpora.reading import Notes
from lamina.corpora.splits import Division, Splits
from lamina.errors import DamagedError
from lamina.files.checking import FileProblem, hash_file, load_tensors, matches, read_json, save_tensors
from lamina.framework.run import run_folders
from lamina.models import Encoder
from lamina.probes.bank import (
    BankCheckpoint,
    DecisionTally,
    LearningRecord,
    ProbeGroup,
    Schedule,
    constant_tally,
    train_probes,
)
from lamina.probes.edge import EdgeProbes, LayerCut, save_probes
from lamina.probes.learner import Loss
from lamina.probes.linear import LinearSpans, SpanMeans, fit_linear
from lamina.probes.streams import ProbeTargets, Standard, StateSource, Stream, find_targets
from lamina.progress import say
from lamina.tasks import MIN_SEEN, Task, best_constant, control_task, label_set, seen_targets
from lamina.tasks.task import Metric
from lamina.types import Text

FORMAT = 5

Whose = Literal["model", "random", "control"]


@dataclass(frozen=True, eq=False)
class ProbeOutcome:
    """What the probes of one group (one seed, one set of labels) learned, and how they did on the scored texts."""

    of: Whose
    """Probes on the model, on its random-weights twin, or on the model with control labels."""
    seed: int
    cuts: tuple[LayerCut, ...]
    """What each member may look at; cumulative ones first, by layer."""
    tallies: Mapping[Metric, DecisionTally]
    """By member and scored text, for each metric, the task's own first."""
    remembered: DecisionTally
    """The same over the targets whose words training has seen; by accuracy where a target has one label."""
    learned: LearningRecord
    """How their training went; its loss is what any choice among members is made by."""
    weights: Float[np.ndarray, "mixing layer"]
    """Mixing weights of the cumulative members."""
    gamma: np.ndarray
    """[mixing] Their scale."""
    predicted: Float[np.ndarray, "member target label"] | None
    """The probability of every label, or the value, for every scored target; None for twin and control."""
    tuned: int | None = None
    """The fine-tuning seed of the model, where models of several seeds are probed; None elsewhere. Not kept: a kept run
    is of one model."""

    @property
    def probabilities(self) -> Float[np.ndarray, "mixing target label"] | None:
        """What the cumulative members predict."""
        mixing = len(self.weights)
        return None if self.predicted is None or not mixing else self.predicted[:mixing]


@dataclass(frozen=True, eq=False)
class TaskRun:
    """One task with all its probes."""

    task: Task
    targets: ProbeTargets
    """The scored ones."""
    outcomes: tuple[ProbeOutcome, ...]
    constant: Mapping[Metric, DecisionTally]
    """The best constant answer on the scored texts, as one member."""
    control_constant: Mapping[Metric, DecisionTally]
    """That of the control labels, on the targets whose words training has seen."""
    seen: np.ndarray
    """[target] Whether its words were seen in training: what the control can remember."""
    norms: np.ndarray
    """[layer] Mean length of the vectors that probes learn from."""

    def outcomes_of(self, of: Whose) -> list[ProbeOutcome]:
        """Those of the model, of its twin or of the control."""
        return [outcome for outcome in self.outcomes if outcome.of == of]


def units_of(outcomes: Sequence[ProbeOutcome]) -> tuple[int, ...]:
    """What varies, by number: the fine-tuning seed of each outcome; where there is one model, the seed of its probes.

    Example:
        >>> units_of([])
        ()
    """
    tuned = tuple(outcome.tuned for outcome in outcomes if outcome.tuned is not None)
    return tuned if len(set(tuned)) > 1 else tuple(outcome.seed for outcome in outcomes)


def merge_runs(runs: Sequence[TaskRun], seeds: Sequence[int]) -> TaskRun:
    """One task probed on models of several fine-tuning seeds, as one run; of their twins, the first model's."""
    outcomes = [
        replace(outcome, tuned=None if outcome.of == "random" else seed)
        for number, (run, seed) in enumerate(zip(runs, seeds, strict=True))
        for outcome in run.outcomes
        if outcome.of != "random" or number == 0
    ]
    return replace(runs[0], outcomes=tuple(outcomes), norms=np.mean([run.norms for run in runs], axis=0))


def save_run(run: TaskRun, path: Path) -> None:
    """Write a run, with the hashes of the probes beside it."""
    arrays = {f"targets/{name}": array for name in _TARGET_ARRAYS if (array := getattr(run.targets, name)) is not None}
    arrays |= {"norms": run.norms, "seen": run.seen}
    for name in ("constant", "control_constant"):
        arrays |= _tally_arrays(name, getattr(run, name))
    outcomes = []
    for number, outcome in enumerate(run.outcomes):
        outcomes.append({"of": outcome.of, "seed": outcome.seed, "cuts": outcome.cuts})
        arrays |= _tally_arrays(f"{number}/tallies", outcome.tallies)
        arrays |= _tally_arrays(f"{number}/remembered", {outcome.remembered.metric: outcome.remembered})
        arrays |= {f"{number}/learned/{name}": array for name, array in outcome.learned._asdict().items()}
        arrays |= {f"{number}/{name}": getattr(outcome, name) for name in ("weights", "gamma")}
        if outcome.predicted is not None:
            arrays[f"{number}/predicted"] = outcome.predicted
    targets = {"labels": run.targets.labels, "texts": run.targets.texts, "unseen_labels": run.targets.unseen_labels}
    seeds = [outcome.seed for outcome in run.outcomes if outcome.of == "model"]
    probes = {
        saved.name: hash_file(saved) for saved in (probes_path(path.parent, run.task.name, seed) for seed in seeds)
    }
    head = {"format": FORMAT, "task": run.task.describe(), "outcomes": outcomes, "targets": targets, "probes": probes}
    save_tensors(
        path,
        {name: torch.from_numpy(np.require(array, requirements=["C", "W"])) for name, array in arrays.items()},
        head,
    )


def load_run(task: Task, path: Path) -> TaskRun | None:
    """The run of a task that was kept; none if there is none, it is damaged, or an older lamina wrote it."""
    try:
        tensors, head = load_tensors(path)
    except OSError:
        return None
    except DamagedError as error:
        say(f"{error}; {task.name} is probed again")
        return None
    # A user's task may have the name of another.
    if head.get("format") != FORMAT or head["task"] != json.loads(json.dumps(task.describe())):
        return None
    if damaged := _damaged_probes(path, head):
        say(f"{damaged[0]} is damaged; {task.name} is probed again")
        return None
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    outcomes = tuple(
        ProbeOutcome(
            about["of"],
            about["seed"],
            tuple(LayerCut(*cut) for cut in about["cuts"]),
            _tallies_from(f"{number}/tallies", arrays),
            next(iter(_tallies_from(f"{number}/remembered", arrays).values())),
            LearningRecord(*(arrays[f"{number}/learned/{name}"] for name in LearningRecord._fields)),
            arrays[f"{number}/weights"],
            arrays[f"{number}/gamma"],
            arrays.get(f"{number}/predicted"),
        )
        for number, about in enumerate(head["outcomes"])
    )
    parts = {name: array for name in _TARGET_ARRAYS if (array := arrays.get(f"targets/{name}")) is not None}
    about = head["targets"]
    unseen = tuple(about["unseen_labels"])
    targets = ProbeTargets(labels=tuple(about["labels"]), texts=about["texts"], unseen_labels=unseen, **parts)
    constant, control = (_tallies_from(name, arrays) for name in ("constant", "control_constant"))
    return TaskRun(task, targets, outcomes, constant, control, arrays["seen"], arrays["norms"])


def probes_path(folder: Path, task: str, seed: int) -> Path:
    """Where the trained probes of a task and seed are in the folder of a run."""
    return folder / f"{task}-{seed}.safetensors"


def _damaged_probes(path: Path, head: dict[str, Any]) -> list[Path]:
    return [
        path.with_name(name) for name, sha256 in head["probes"].items() if not matches(path.with_name(name), sha256)
    ]


_TARGET_ARRAYS = ("text", "tokens", "words", "gold", "rated", "scored", "unseen", "values")


def _tally_arrays(prefix: str, tallies: Mapping[Metric, DecisionTally]) -> dict[str, np.ndarray]:
    # Numbered, since the order of metrics counts and tensors come back by name.
    return {f"{prefix}/{number} {metric}": tally.sums for number, (metric, tally) in enumerate(tallies.items())}


def _tallies_from(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[Metric, DecisionTally]:
    names = sorted(name for name in arrays if name.startswith(f"{prefix}/"))
    return {(metric := name.rsplit(" ", 1)[1]): DecisionTally(metric, arrays[name]) for name in names}  # pyright: ignore


def problems(root: str | os.PathLike[str] | None = None) -> list[FileProblem]:
    """What is wrong with kept runs: damaged files (deleting one has it computed again) and half-written ones."""
    paths = [path for folder in run_folders(root) for path in sorted(folder.iterdir())]
    # Once per file: probes are known by their own checksum and by the hash in their run.
    return list({problem.path: problem for path in paths for problem in _problems(path)}.values())


def _problems(path: Path) -> Iterator[FileProblem]:
    try:
        if path.suffix == ".tmp":
            yield FileProblem(path, f"{path} was left by a run that was stopped", leftover=True)
        elif path.suffix in (".partial", ".safetensors"):
            load_tensors(path)
        elif path.suffix == ".json":
            read_json(path)
        elif path.suffix == ".run":
            head = load_tensors(path)[1]
            # Of a format before hashes were kept, nothing is read.
            for probes in _damaged_probes(path, head) if head.get("format") == FORMAT else ():
                yield FileProblem(probes, f"{probes} is damaged (its hash does not match)")
    except (OSError, DamagedError) as error:
        yield FileProblem(path, str(error))


@dataclass(frozen=True)
class Preset:
    """Schedules, seeds and amounts."""

    schedule: Schedule
    small: Schedule
    """For tasks with fewer than `few` training targets."""
    few: int
    seeds: int
    train_texts: int | None
    """About how many training texts are used, in whole documents drawn at random; None: all."""
    stop_texts: int | None
    """The most texts that decide when to stop; None: all of them."""
    beside_seeds: int
    """Seeds of the random-weights twin and of the control."""


QUICK = Schedule(
    learning_rate=7e-3,
    mixing_rate=5.0,
    validate_every=60,
    max_validations=40,
    halve_after=1,
    stop_after=3,
    min_gain=2e-3,
    enough=0.02,
    min_learning_rate=2e-4,
    batch_targets=128,
    hidden=64,
)
QUICK_SMALL = replace(
    QUICK, learning_rate=1e-3, mixing_rate=30.0, validate_every=30, stop_after=4, min_learning_rate=5e-5
)
"""For tasks with little data, which would be learned by heart before the first validation of the other schedule."""
STANDARD = Schedule(
    learning_rate=5e-3,
    mixing_rate=5.0,
    validate_every=200,
    # Where a pass over the data is short, and so is the first cycle, nine cycles end before the loss does.
    max_validations=14,
    stop_after=1,
    min_gain=4e-2,
    enough=0.02,
    batch_targets=512,
    growth=1.5,
)
HALVING = Schedule(
    learning_rate=2e-3,
    mixing_rate=10.0,
    validate_every=250,
    max_validations=80,
    halve_after=1,
    stop_after=5,
    min_gain=1e-3,
    min_learning_rate=2e-5,
    batch_targets=512,
)
"""In place of `STANDARD` where a rate that is halved is asked for."""
PAPER = Schedule()
PAPER_SMALL = Schedule(validate_every=100, max_validations=100)
"""For tasks with little data."""

PRESETS = {
    "quick": Preset(QUICK, QUICK_SMALL, 2000, 2, 3000, 300, 1),
    "standard": Preset(STANDARD, STANDARD, 0, 5, None, None, 2),
    "paper": Preset(PAPER, PAPER_SMALL, 20_000, 5, None, None, 5),
}


PRACTICES = {
    "f1": "the weights and the schedule are chosen by the task's F1, not by the loss",
    "rate": "training ends where the learning rate has been halved below 1e-6",
    "stop": "the scored texts decide when to stop",
    "raw": "layers are not standardised",
    "layer0": "layer 0 is the raw token embeddings with LayerNorm",
    "dropout": "the model's own dropout stays on",
    "roots": "the root of a tree is an edge of the word to itself",
}
"""What the pipeline paper's code did and `probe` does not by default; `--faithful` does all, on its schedule."""


@dataclass(frozen=True)
class ProbeStates:
    """States of one encoder, for the training and the scored texts."""

    train: ReadActivations
    scored: ReadActivations
    layers: int
    width: int
    encoder: str
    """The encoder's fingerprint."""


Reads = Literal["spans", "means", "linear"]
"""What probes are: edge probes that pool spans themselves, the same on the mean of a span's tokens, or softmax
regression on that mean."""


class TaskTargets(NamedTuple):
    """A task's targets in the texts learned from, the texts that decide when to stop, and the scored texts."""

    learn: ProbeTargets
    stop: ProbeTargets
    scored: ProbeTargets


@dataclass(frozen=True)
class ProbeSetup:
    """What all probes of a run share."""

    splits: Splits
    division: Division
    preset: Preset
    cuts: tuple[LayerCut, ...]
    seeds: int
    seed: int
    """For the division, the order of texts and the control labels; probes have seeds of their own, from 0."""
    faithful: bool = False
    """As the paper's code does: all `PRACTICES`."""
    device: str = "cpu"
    reads: Reads = "spans"
    practices: frozenset[str] = frozenset()
    """Some of them."""

    def does(self, practice: str) -> bool:
        """Whether it is done as published."""
        return self.faithful or practice in self.practices

    @property
    def control_cuts(self) -> tuple[LayerCut, ...]:
        """What the probes of the control see: single layers, which selectivity is about, where there are any."""
        single = tuple(cut for cut in self.cuts if cut.probe == "layer")
        return single or self.cuts

    @property
    def beside_seeds(self) -> int:
        """Seeds of the control and the twin."""
        return min(self.seeds, self.preset.beside_seeds)

    @property
    def learned(self) -> list[Text]:
        """The texts learned from."""
        return self._trained(self.division.learn)

    @property
    def stopping(self) -> list[Text]:
        """The texts that decide when to stop."""
        return list(self.splits.scored) if self.does("stop") else self._trained(self.division.stop)

    def _trained(self, numbers: Iterable[int]) -> list[Text]:
        chosen = set(numbers)
        return [text for number, text in enumerate(self.splits.train) if number in chosen]

    def schedule(self, learn: ProbeTargets) -> Schedule:
        """That of a task with these training targets."""
        chosen = self.preset.small if len(learn) < self.preset.few else self.preset.schedule
        if chosen.growth is not None and (self.does("rate") or self.does("f1")):
            # Cycles end by the loss, and none of them halves its rate.
            chosen = HALVING
        elif chosen.growth is not None:
            chosen = chosen.fitted_to(learn)
        if self.does("rate"):
            chosen = replace(chosen, ends_below=True, min_learning_rate=PAPER.min_learning_rate)
        return replace(chosen, selects="f1", min_gain=PAPER.min_gain) if self.does("f1") else chosen


def run_task(task: Task, setup: ProbeSetup, states: ProbeStates, twin: ProbeStates | None, folder: Path) -> TaskRun:
    """Train every probe of a task, together, and score them; the model's own probes are saved in `folder`."""
    learned = setup.learned
    labels = label_set(task, learned)
    targets = _task_targets(task, setup, states, labels)
    seen = np.array(seen_targets(task, learned, setup.splits.scored), bool)
    control = _task_targets(control_task(task, learned, setup.seed), setup, states, labels)
    plan = [GroupPlan("model", targets, states, setup.cuts, setup.seeds, seen)]
    if seen.mean() >= MIN_SEEN:
        remembered = _stop_by_seen(task, setup, control)
        plan.append(GroupPlan("control", remembered, states, setup.control_cuts, setup.beside_seeds, seen))
    if twin is not None:
        # The twin has the model's tokenizer: its targets lie at the same tokens.
        plan.append(GroupPlan("random", targets, twin, setup.cuts, setup.beside_seeds, seen))
    if setup.reads == "linear":
        outcomes, norms = _linear(task, plan, setup, folder)
    else:
        trained = _train(task, plan, setup, BankCheckpoint(partial_path(task, folder)))
        outcomes, norms = [outcome for bank in trained for outcome in _score(task, bank, folder)], trained[0].norms
    return TaskRun(
        task,
        targets.scored,
        tuple(outcomes),
        _constant(task, learned, targets.scored),
        _constant(control_task(task, learned, setup.seed), learned, control.scored, seen),
        seen,
        norms,
    )


def partial_path(task: Task, folder: Path) -> Path:
    """The checkpoint of a run that was stopped."""
    return folder / f"{task.name}.partial"


def loss_of(task: Task) -> Loss:
    """What probes of a task are trained by."""
    return "squared" if task.graded else "binary"


def metrics_of(task: Task, scored: ProbeTargets) -> tuple[Metric, ...]:
    """What a task is scored by, its own metric first."""
    if task.graded:
        return "r2", "correlation"
    return (task.metric, "accuracy") if scored.single_label else (task.metric,)


def programs(seeds: int, device: str) -> list[tuple[int, ...]]:
    """Seeds that run as one program: all on a GPU, bound by its launches; one on a CPU, bound by its cache."""
    numbers = tuple(range(seeds))
    return [(number,) for number in numbers] if device == "cpu" else [numbers]


class GroupPlan(NamedTuple):
    """What is trained on one set of labels and states."""

    of: Whose
    targets: TaskTargets
    states: ProbeStates
    cuts: tuple[LayerCut, ...]
    seeds: int
    seen: np.ndarray
    """[scored target] Whether training has seen its words."""


class TrainedBank(NamedTuple):
    """Some of a plan's probes, trained, and what they are scored on."""

    plan: GroupPlan
    probes: EdgeProbes
    learned: LearningRecord
    scored: Stream
    standard: Standard | None
    norms: np.ndarray
    """[layer] Mean length of the vectors that the probes have learned from."""


def _task_targets(task: Task, setup: ProbeSetup, states: ProbeStates, labels: tuple[str, ...]) -> TaskTargets:
    train = find_targets(task, setup.splits.train, states.train.tokenized(), labels)
    scored = find_targets(task, setup.splits.scored, states.scored.tokenized(), labels)
    stop = scored if setup.does("stop") else train.among(setup.division.stop)
    return TaskTargets(train.among(setup.division.learn), stop, scored)


def _stop_by_seen(task: Task, setup: ProbeSetup, control: TaskTargets) -> TaskTargets:
    """Control labels of words that training has not seen say nothing about memory: they do not decide when to stop."""
    if setup.does("stop"):
        return control
    seen = np.array(seen_targets(task, setup.learned, setup.stopping), bool)
    # `among` keeps the order of texts, so that these are the targets of the stopping texts one by one.
    rated = control.stop.rated & seen[:, None]
    return control._replace(stop=replace(control.stop, rated=rated)) if seen.any() else control


def _train(task: Task, plans: list[GroupPlan], setup: ProbeSetup, checkpoint: BankCheckpoint) -> list[TrainedBank]:
    schedule = setup.schedule(plans[0].targets.learn)
    looks = {}
    groups: list[tuple[GroupPlan, ProbeGroup]] = []
    for plan in plans:
        key = plan.states.encoder
        if key not in looks:
            looks[key] = _streams(plan, setup, schedule)
        shape = {"layers": plan.states.layers, "width": plan.states.width, "labels": len(plan.targets.learn.labels)}
        for seeds in programs(plan.seeds, setup.device):
            probes = EdgeProbes(plan.cuts, **shape, arity=task.arity, seed=seeds, hidden=schedule.hidden)
            group = ProbeGroup(
                probes, plan.targets.learn, plan.targets.stop, looks[key][:2], loss_of(task), metric=task.metric
            )
            groups.append((plan, group))
    what = f"{task.name}: {sum(len(group.probes.cuts) for _, group in groups)} probes"
    records = train_probes(
        [group for _, group in groups], schedule, order_seed=setup.seed, what=what, checkpoint=checkpoint
    )
    return [
        TrainedBank(plan, group.probes, learned, *looks[plan.states.encoder][2:])
        for (plan, group), learned in zip(groups, records, strict=True)
    ]


def _linear(
    task: Task, plans: list[GroupPlan], setup: ProbeSetup, folder: Path
) -> tuple[list[ProbeOutcome], np.ndarray]:
    """Softmax regression on every layer, for the model, the control and the twin; and the lengths of the vectors."""
    schedule = setup.schedule(plans[0].targets.learn)
    outcomes, norms = [], np.zeros(0)
    for plan in plans:
        learn, stop, scored, _, looked = _streams(plan, setup, schedule)
        probes, learned = fit_linear(plan.cuts, learn, stop, (plan.targets.learn, plan.targets.stop))
        if plan.of == "model":
            norms = looked
            head = {"task": task.name, "labels": plan.targets.learn.labels, "encoder": plan.states.encoder}
            save_tensors(probes_path(folder, task.name, 0), probes.tensors(), head)
        outcomes.append(_outcome(task, plan, probes, learned, scored))
    return outcomes, norms


def _streams(
    plan: GroupPlan, setup: ProbeSetup, schedule: Schedule
) -> tuple[Stream, Stream, Stream, Standard | None, np.ndarray]:
    """Streams for learning, stopping and scoring, with layers standardised by what is learned from."""
    states, targets = plan.states, plan.targets
    size = schedule.texts_of(targets.learn)
    learn = Stream(*_read(states.train, targets.learn, setup), device=setup.device, batch_texts=size)
    looked = learn.look()
    standard = None if setup.does("raw") else looked.standard
    settings: dict[str, Any] = {"device": setup.device, "standard": standard, "batch_texts": _APPLIED}
    learn = learn if standard is None else learn.standardised(standard)
    stop = Stream(*_read(states.scored if setup.does("stop") else states.train, targets.stop, setup), **settings)
    scored = Stream(*_read(states.scored, targets.scored, setup), **settings)
    return learn, stop, scored, standard, looked.norms


def _read(stored: ReadActivations, targets: ProbeTargets, setup: ProbeSetup) -> tuple[StateSource, ProbeTargets]:
    """What probes read of some targets."""
    return (stored, targets) if setup.reads == "spans" else SpanMeans.of(stored, targets)


_APPLIED = 64
"""Texts at a time where probes are applied, not trained."""


def _score(task: Task, bank: TrainedBank, folder: Path) -> list[ProbeOutcome]:
    plan = bank.plan
    outcomes = []
    for seed in bank.probes.seeds:
        probes = bank.probes.of_seed(seed)
        if plan.of == "model":
            about = {"task": task.name, "labels": plan.targets.learn.labels, "encoder": plan.states.encoder}
            standard = bank.standard and Standard(*(part.cpu() for part in bank.standard))
            save_probes(probes_path(folder, task.name, seed), probes, **about, standard=standard, graded=task.graded)
        learned = bank.learned.of(np.array(bank.probes.seed_of) == seed)
        outcomes.append(_outcome(task, plan, probes, learned, bank.scored))
    return outcomes


def _outcome(
    task: Task, plan: GroupPlan, probes: EdgeProbes | LinearSpans, learned: LearningRecord, scored: Stream
) -> ProbeOutcome:
    targets, members = plan.targets.scored, len(probes.cuts)
    tallies: dict[Metric, DecisionTally] = {
        metric: DecisionTally.none(metric, members, targets) for metric in metrics_of(task, targets)
    }
    remembered = DecisionTally.none(metrics_of(task, targets)[-1] if not task.graded else "r2", members, targets)
    # Probabilities in half precision; values may be of any size.
    precision = np.float32 if task.graded else np.float16
    predicted = np.empty((members, *targets.gold.shape), precision) if plan.of == "model" else None
    with torch.no_grad():
        for batch in scored.in_order():
            outputs = probes(batch)
            for tally in tallies.values():
                tally.add(outputs, targets, batch.rows)
            here = plan.seen[batch.rows]
            if here.any():
                remembered.add(outputs[:, torch.from_numpy(here)], targets, batch.rows[here])
            if predicted is not None:
                predicted[:, batch.rows] = outputs.cpu().numpy() if task.graded else _probabilities(outputs)
    weights, gamma = probes.weights().detach().cpu().numpy(), probes.gamma.detach().cpu().numpy()
    cuts = tuple(probes.cuts)
    return ProbeOutcome(plan.of, probes.seeds[0], cuts, tallies, remembered, learned, weights, gamma, predicted)


_BELOW = float(np.nextafter(np.float16(0.5), np.float16(0)))


def _probabilities(logits: torch.Tensor) -> np.ndarray:
    """In half precision, where a label that was not predicted is not rounded up to one half."""
    probabilities = logits.sigmoid().half()
    return torch.where(logits < 0, probabilities.clamp_max(_BELOW), probabilities).cpu().numpy()


def _constant(
    task: Task, learned: list[Text], scored: ProbeTargets, seen: np.ndarray | None = None
) -> dict[Metric, DecisionTally]:
    """The best constant answer by each metric, on all scored targets or on those whose words were seen."""
    targets = scored if seen is None else scored.chosen(seen)
    tallies = {}
    for metric in metrics_of(task, scored):
        if task.graded:
            values = [edge.value for text in learned for edge in task.targets(text) if edge.value is not None]
            answer = float(np.mean(values))
        elif metric == "accuracy":
            answer = _most_frequent(task, learned, scored.labels)
        else:
            best = set(best_constant(task, learned))
            answer = np.array([label in best for label in scored.labels])
        tallies[metric] = constant_tally(metric, answer, targets)
    return tallies


def _most_frequent(task: Task, learned: list[Text], labels: tuple[str, ...]) -> np.ndarray:
    first_labels = [edge.labels[0] for text in learned for edge in task.targets(text) if edge.labels]
    most = max(sorted(set(first_labels)), key=first_labels.count) if first_labels else ""
    return np.array([label == most for label in labels])


# Tasks trained by other processes, each as a whole: what they need, made to travel, and what they leave behind.
#
# A task takes its texts along and reads its states from the store. Its run and its probes are kept in the folder where
# the caller looks for them.


class StoredStates(NamedTuple):
    """Where another process finds the states of an encoder."""

    folder: Path
    layers: int
    width: int
    encoder: str

    @classmethod
    def of(cls, encoder: Encoder, root: Path | None) -> StoredStates:
        """Those that are in the store of an encoder."""
        folder = ActivationStore.of(encoder, root).folder.resolve()
        return cls(folder, encoder.layers, encoder.width, encoder.fingerprint)

    def open(self, splits: Splits) -> ProbeStates:
        """The states of training and scored texts."""
        store = ActivationStore(self.folder)
        train, scored = (store.open(corpus) for corpus in (splits.train, splits.scored))
        return ProbeStates(train, scored, self.layers, self.width, self.encoder)


@dataclass(frozen=True)
class PortableTask:
    """One task with all that is needed to train it; called in another process."""

    task: Task
    setup: ProbeSetup
    states: StoredStates
    twin: StoredStates | None
    work: Path

    def __call__(self) -> None:
        """Train and score the task, and keep the run."""
        splits = self.setup.splits
        twin = None if self.twin is None else self.twin.open(splits)
        train_and_save(self.task, self.setup, self.states.open(splits), twin, self.work)


def train_and_save(task: Task, setup: ProbeSetup, states: ProbeStates, twin: ProbeStates | None, work: Path) -> TaskRun:
    """Train and score a task, or continue where a run that was stopped left it; it is kept as `TASK.run`."""
    run = run_task(task, setup, states, twin, work)
    save_run(run, work / f"{task.name}.run")
    partial_path(task, work).unlink(missing_ok=True)
    return run


def portable(setup: ProbeSetup) -> ProbeSetup:
    """The same setup with its texts in it instead of the files they come from, on any GPU instead of a numbered one."""
    splits = Splits(_with_texts(setup.splits.train), _with_texts(setup.splits.scored))
    return replace(setup, splits=splits, device="cpu" if setup.device == "cpu" else "cuda")


class ListedTexts(list[Text]):
    """Texts as the source of a corpus."""

    def __call__(self) -> Iterator[Text]:
        return iter(self)


def _with_texts(corpus: Corpus) -> Corpus:
    return replace(corpus, source=ListedTexts(corpus), notes=Notes())
