"""Probing runs that are kept, so that one that was stopped continues."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float

from lamina.errors import DamagedError
from lamina.files.checking import FileProblem, hash_file, load_tensors, matches, read_json, save_tensors
from lamina.framework.cache import run_folders
from lamina.probes.bank import LearningRecord
from lamina.probes.edge import LayerCut
from lamina.probes.streams import ProbeTargets
from lamina.probes.tallies import DecisionTally
from lamina.progress import say
from lamina.tasks import Task
from lamina.tasks.task import Metric

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
    arrays = {f"targets/{name}": each for name in _TARGET_ARRAYS if (each := getattr(run.targets, name)) is not None}
    arrays |= {"norms": run.norms, "seen": run.seen}
    for name in ("constant", "control_constant"):
        arrays |= _tally_arrays(name, getattr(run, name))
    outcomes = []
    for number, outcome in enumerate(run.outcomes):
        outcomes.append({"of": outcome.of, "seed": outcome.seed, "cuts": outcome.cuts})
        arrays |= _tally_arrays(f"{number}/tallies", outcome.tallies)
        arrays |= _tally_arrays(f"{number}/remembered", {outcome.remembered.metric: outcome.remembered})
        arrays |= {f"{number}/learned/{name}": each for name, each in outcome.learned._asdict().items()}
        arrays |= {f"{number}/{name}": getattr(outcome, name) for name in ("weights", "gamma")}
        if outcome.predicted is not None:
            arrays[f"{number}/predicted"] = outcome.predicted
    targets = {"labels": run.targets.labels, "texts": run.targets.texts, "unseen_labels": run.targets.unseen_labels}
    seeds = [outcome.seed for outcome in run.outcomes if outcome.of == "model"]
    probes = {each.name: hash_file(each) for each in (probes_path(path.parent, run.task.name, seed) for seed in seeds)}
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
    # A task of one's own may have the name of another.
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
    parts = {name: each for name in _TARGET_ARRAYS if (each := arrays.get(f"targets/{name}")) is not None}
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
    return {f"{prefix}/{at} {metric}": tally.sums for at, (metric, tally) in enumerate(tallies.items())}


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
