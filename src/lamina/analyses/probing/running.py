"""Training and scoring every probe of one task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from lamina.activations import StoredActivations
from lamina.analyses.probing.outcomes import Outcome, TaskRun, Whose
from lamina.analyses.probing.presets import Preset
from lamina.analyses.probing.splits import Division, Splits
from lamina.errors import TaskError
from lamina.probes.bank import Group, train
from lamina.probes.edge import Cut, EdgeProbes
from lamina.probes.resuming import Checkpoint
from lamina.probes.saving import save_probes
from lamina.probes.scoring import Counts, count_decisions
from lamina.probes.streams import Stream
from lamina.probes.targets import Targets, find_targets
from lamina.tasks import Task, best_constant, control_task, label_set, share_seen
from lamina.tasks.task import Average
from lamina.types import Text


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
class Setting:
    """What all groups of a run share."""

    splits: Splits
    division: Division
    preset: Preset
    cuts: tuple[Cut, ...]
    seeds: int
    seed: int
    """Of the division, the order of texts and the control labels; probes have seeds of their own, 0 and up."""
    stop_on_scored: bool = False
    """The paper's practice: stop on what is scored."""
    device: str = "cpu"

    @property
    def beside_cuts(self) -> tuple[Cut, ...]:
        """Those of the control and the random-weights twin."""
        single = tuple(cut for cut in self.cuts if cut.probe == "layer")
        return self.cuts if self.preset.beside_cumulative or not single else single

    @property
    def beside_seeds(self) -> int:
        """Seeds of the control and the twin."""
        return min(self.seeds, self.preset.beside_seeds)


def run_task(task: Task, setting: Setting, states: States, twin: States | None, folder: Path) -> TaskRun:
    """Train every probe of a task, together, and score them; the model's own probes are saved in `folder`."""
    chosen = set(setting.division.learn)
    learned = [text for number, text in enumerate(setting.splits.train) if number in chosen]
    labels = label_set(task, learned)
    if not labels:
        raise TaskError(
            f"{task.name}: the training texts of {setting.splits.name} have no target of it; leave the task out"
        )
    own = _find(task, setting, states, labels)
    if not len(own.scored):
        raise TaskError(
            f"{task.name}: the scored texts of {setting.splits.name} have no target of it; leave the task out"
        )
    if not len(own.stop):
        raise TaskError(
            f"{task.name}: of the training texts of {setting.splits.name}, those that decide when to stop "
            f"({len(setting.division.stop):,}) have no target of it; give more training texts or leave the task out"
        )
    control = _find(control_task(task, learned, setting.seed), setting, states, labels)
    beside, beside_seeds = setting.beside_cuts, setting.beside_seeds
    plan = [
        _Plan("model", task.average, own, setting.cuts, setting.seeds),
        _Plan("control", task.average, control, beside, beside_seeds),
    ]
    first, second = (Checkpoint(path) for path in partials(task, folder))
    outcomes = _train_and_score(task, plan, setting, states, folder, first)
    if twin is not None:
        plan = [_Plan("random", task.average, _find(task, setting, twin, labels), beside, beside_seeds)]
        outcomes += _train_and_score(task, plan, setting, twin, folder, second)
    return TaskRun(
        task,
        own.scored,
        tuple(outcomes),
        _constant(task, learned, own.scored),
        share_seen(task, learned, setting.splits.scored).targets,
        _norms(states),
    )


def partials(task: Task, folder: Path) -> tuple[Path, Path]:
    """Where a run that is stopped leaves what it had: training on the model and, after that, on its twin."""
    return folder / f"{task.name}.partial", folder / f"{task.name}.twin.partial"


class _Plan(NamedTuple):
    """The groups to train on one set of labels."""

    of: Whose
    average: Average
    found: Found
    cuts: tuple[Cut, ...]
    seeds: int


def _find(task: Task, setting: Setting, states: States, labels: tuple[str, ...]) -> Found:
    train = find_targets(task, setting.splits.train, (each.tokens for each in states.train), labels)
    scored = find_targets(task, setting.splits.scored, (each.tokens for each in states.scored), labels)
    stop = scored if setting.stop_on_scored else train.among(setting.division.stop)
    return Found(train.among(setting.division.learn), stop, scored)


def _train_and_score(
    task: Task, plan: list[_Plan], setting: Setting, states: States, folder: Path, checkpoint: Checkpoint
) -> list[Outcome]:
    first = plan[0].found
    schedule = setting.preset.small if len(first.learn) < setting.preset.few else setting.preset.schedule
    settings = {"device": setting.device, "batch_texts": schedule.batch_texts}
    learn = Stream(states.train, first.learn, **settings)
    stop = Stream(states.scored if setting.stop_on_scored else states.train, first.stop, **settings)
    scored = Stream(states.scored, first.scored, **settings)
    shape = {"layers": states.layers, "width": states.width, "labels": len(first.learn.labels), "arity": task.arity}
    groups = [
        (each, Group(EdgeProbes(each.cuts, **shape, seed=seeds), each.found.learn.gold, each.found.stop))
        for each in plan
        for seeds in _programs(each.seeds, setting.device)
    ]
    what = f"{task.name}: {sum(len(group.probes.cuts) for _, group in groups)} probes"
    settings = {"order_seed": setting.seed, "what": what, "checkpoint": checkpoint}
    best = train([group for _, group in groups], learn, stop, schedule, **settings)
    outcomes = []
    for (each, group), stopping in zip(groups, best, strict=True):
        for seed in group.probes.seeds:
            probes = group.probes.of_seed(seed)
            if each.of == "model":
                about = {"task": task.name, "labels": first.learn.labels, "encoder": states.encoder}
                save_probes(folder / f"{task.name}-{seed}.safetensors", probes, **about)
            outcomes.append(_outcome(each, probes, stopping[np.array(group.probes.seed_of) == seed], scored))
    return outcomes


def _programs(seeds: int, device: str) -> list[tuple[int, ...]]:
    """Which seeds run as one program: all on a GPU, which is bound by launches; one on a CPU, bound by its cache."""
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
