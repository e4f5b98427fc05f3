"""Training and scoring every probe of one task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from lamina.activations import StoredActivations
from lamina.analyses.probing.checkpoints import Outcome, TaskRun, Whose, probes_path
from lamina.corpora.learning import Division, Splits
from lamina.errors import TaskError
from lamina.probes.bank import PAPER, PAPER_SMALL, QUICK, Checkpoint, Group, Schedule, train
from lamina.probes.edge import Cut, EdgeProbes, save_probes
from lamina.probes.streams import Stream
from lamina.probes.targets import Counts, Targets, count_decisions, find_targets
from lamina.tasks import Task, best_constant, control_task, label_set, share_seen
from lamina.tasks.task import Average
from lamina.types import Text


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
    beside_cumulative: bool
    """Whether twin and control have cumulative probes too, or single-layer ones only."""


PRESETS = {
    "quick": Preset(QUICK, QUICK, 0, 2, 3000, 300, 1, beside_cumulative=False),
    "paper": Preset(PAPER, PAPER_SMALL, 20_000, 5, None, None, 5, beside_cumulative=True),
}


@dataclass(frozen=True)
class States:
    """Stored states of one encoder, for the training and the scored texts."""

    train: StoredActivations
    scored: StoredActivations
    layers: int
    width: int
    encoder: str
    """The encoder's fingerprint."""


class Found(NamedTuple):
    """A task's targets in the texts learned from, the texts that decide when to stop, and the scored texts."""

    learn: Targets
    stop: Targets
    scored: Targets


@dataclass(frozen=True)
class Setup:
    """What all probes of a run share."""

    splits: Splits
    division: Division
    preset: Preset
    cuts: tuple[Cut, ...]
    seeds: int
    seed: int
    """For the division, the order of texts and the control labels; probes have seeds of their own, from 0."""
    stop_on_scored: bool = False
    """As the paper's code does: what is scored decides when to stop."""
    device: str = "cpu"

    @property
    def beside_cuts(self) -> tuple[Cut, ...]:
        """What the probes of the control and of the twin see."""
        single = tuple(cut for cut in self.cuts if cut.probe == "layer")
        return self.cuts if self.preset.beside_cumulative or not single else single

    @property
    def beside_seeds(self) -> int:
        """Seeds of the control and the twin."""
        return min(self.seeds, self.preset.beside_seeds)


def run_task(task: Task, setup: Setup, states: States, twin: States | None, folder: Path) -> TaskRun:
    """Train every probe of a task, together, and score them; the model's own probes are saved in `folder`."""
    chosen = set(setup.division.learn)
    learned = [text for number, text in enumerate(setup.splits.train) if number in chosen]
    labels = label_set(task, learned)
    if not labels:
        raise TaskError(
            f"{task.name}: the training texts of {setup.splits.name} have no target of this task; leave it out"
        )
    own = _find(task, setup, states, labels)
    if not len(own.scored):
        raise TaskError(
            f"{task.name}: the scored texts of {setup.splits.name} have no target of this task; leave it out"
        )
    if not len(own.stop):
        raise TaskError(
            f"{task.name}: of the training texts of {setup.splits.name}, those that decide when to stop "
            f"({len(setup.division.stop):,}) have no target of this task; give more training texts or leave it out"
        )
    control = _find(control_task(task, learned, setup.seed), setup, states, labels)
    beside, beside_seeds = setup.beside_cuts, setup.beside_seeds
    plan = [
        _Plan("model", task.average, own, setup.cuts, setup.seeds),
        _Plan("control", task.average, control, beside, beside_seeds),
    ]
    first, second = (Checkpoint(path) for path in partials(task, folder))
    outcomes = _train_and_score(task, plan, setup, states, folder, first)
    if twin is not None:
        plan = [_Plan("random", task.average, _find(task, setup, twin, labels), beside, beside_seeds)]
        outcomes += _train_and_score(task, plan, setup, twin, folder, second)
    return TaskRun(
        task,
        own.scored,
        tuple(outcomes),
        _constant(task, learned, own.scored),
        share_seen(task, learned, setup.splits.scored).targets,
        _norms(states),
    )


def partials(task: Task, folder: Path) -> tuple[Path, Path]:
    """Checkpoints of a run that was stopped: of training on the model and, after that, on its twin."""
    return folder / f"{task.name}.partial", folder / f"{task.name}.twin.partial"


class _Plan(NamedTuple):
    """The groups to train on one set of labels."""

    of: Whose
    average: Average
    found: Found
    cuts: tuple[Cut, ...]
    seeds: int


def _find(task: Task, setup: Setup, states: States, labels: tuple[str, ...]) -> Found:
    train = find_targets(task, setup.splits.train, states.train.tokenized(), labels)
    scored = find_targets(task, setup.splits.scored, states.scored.tokenized(), labels)
    stop = scored if setup.stop_on_scored else train.among(setup.division.stop)
    return Found(train.among(setup.division.learn), stop, scored)


def _train_and_score(
    task: Task, plan: list[_Plan], setup: Setup, states: States, folder: Path, checkpoint: Checkpoint
) -> list[Outcome]:
    first = plan[0].found
    schedule = setup.preset.small if len(first.learn) < setup.preset.few else setup.preset.schedule
    settings = {"device": setup.device, "batch_texts": schedule.batch_texts}
    learn = Stream(states.train, first.learn, **settings)
    stop = Stream(states.scored if setup.stop_on_scored else states.train, first.stop, **settings)
    scored = Stream(states.scored, first.scored, **settings)
    shape = {"layers": states.layers, "width": states.width, "labels": len(first.learn.labels), "arity": task.arity}
    groups = [
        (each, Group(EdgeProbes(each.cuts, **shape, seed=seeds), each.found.learn.gold, each.found.stop))
        for each in plan
        for seeds in programs(each.seeds, setup.device)
    ]
    what = f"{task.name}: {sum(len(group.probes.cuts) for _, group in groups)} probes"
    settings = {"order_seed": setup.seed, "what": what, "checkpoint": checkpoint}
    best = train([group for _, group in groups], learn, stop, schedule, **settings)
    outcomes = []
    for (each, group), stopping in zip(groups, best, strict=True):
        for seed in group.probes.seeds:
            probes = group.probes.of_seed(seed)
            if each.of == "model":
                about = {"task": task.name, "labels": first.learn.labels, "encoder": states.encoder}
                save_probes(probes_path(folder, task.name, seed), probes, **about)
            outcomes.append(_outcome(each, probes, stopping[np.array(group.probes.seed_of) == seed], scored))
    return outcomes


def programs(seeds: int, device: str) -> list[tuple[int, ...]]:
    """Seeds that run as one program: all on a GPU, bound by its launches; one on a CPU, bound by its cache."""
    numbers = tuple(range(seeds))
    return [(number,) for number in numbers] if device == "cpu" else [numbers]


def _outcome(plan: _Plan, probes: EdgeProbes, stopping: np.ndarray, scored: Stream) -> Outcome:
    counts = Counts.for_average(plan.average, len(probes.cuts), plan.found.scored)
    mixing = probes.mixing
    kept = np.empty((mixing, *plan.found.scored.gold.shape), np.float16) if plan.of == "model" and mixing else None
    with torch.no_grad():
        for batch in scored.in_order():
            logits = probes(batch)
            count_decisions(counts, logits >= 0, plan.found.scored, batch.rows)
            if kept is not None:
                kept[:, batch.rows] = logits[:mixing].sigmoid().cpu().numpy()
    weights, gamma = probes.weights().detach().cpu().numpy(), probes.gamma.detach().cpu().numpy()
    return Outcome(plan.of, probes.seeds[0], tuple(probes.cuts), counts, stopping, weights, gamma, kept)


def _constant(task: Task, learned: list[Text], scored: Targets) -> Counts:
    answer = set(best_constant(task, learned))
    decided = torch.tensor([label in answer for label in scored.labels]).expand(1, len(scored), -1)
    counts = Counts.for_average(task.average, 1, scored)
    count_decisions(counts, decided, scored, np.arange(len(scored)))
    return counts


def _norms(states: States) -> np.ndarray:
    """Over at most the first 200 scored texts: enough for a mean, and quick."""
    some = [states.scored.load(number).float().norm(dim=-1) for number in range(min(200, len(states.scored)))]
    return torch.cat(some).mean(0).numpy()
