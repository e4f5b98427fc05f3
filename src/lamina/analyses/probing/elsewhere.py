"""Tasks trained by other processes, each as a whole: what they need, made to travel, and what they leave behind.

A task takes its texts along and reads its states from the store. What it was trained to is kept in the folder of the
run, where whoever asked for it finds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from lamina.activations import ActivationStore
from lamina.analyses.probing.checkpoints import TaskRun, keep_run
from lamina.analyses.probing.running import Setup, States, partial_path, run_task
from lamina.corpora import Corpus
from lamina.corpora.learning import Splits
from lamina.corpora.notes import Notes
from lamina.models import Encoder
from lamina.tasks import Task
from lamina.types import Text


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

    def open(self, splits: Splits) -> States:
        """The states of training and scored texts."""
        store = ActivationStore(self.folder)
        train, scored = (store.open(corpus) for corpus in (splits.train, splits.scored))
        return States(train, scored, self.layers, self.width, self.encoder)


@dataclass(frozen=True)
class TaskElsewhere:
    """One task with all that is needed to train it; called in another process."""

    task: Task
    setup: Setup
    states: StoredStates
    twin: StoredStates | None
    work: Path

    def __call__(self) -> None:
        """Train and score the task, and keep the run."""
        splits = self.setup.splits
        twin = None if self.twin is None else self.twin.open(splits)
        train_and_keep(self.task, self.setup, self.states.open(splits), twin, self.work)


def train_and_keep(task: Task, setup: Setup, states: States, twin: States | None, work: Path) -> TaskRun:
    """Train and score a task, or continue where a run that was stopped left it; it is kept as `TASK.run`."""
    run = run_task(task, setup, states, twin, work)
    keep_run(run, work / f"{task.name}.run")
    partial_path(task, work).unlink(missing_ok=True)
    return run


def portable(setup: Setup) -> Setup:
    """The same setup with its texts in it instead of the files they come from, on any GPU instead of a numbered one."""
    splits = Splits(_listed(setup.splits.train), _listed(setup.splits.scored))
    return replace(setup, splits=splits, device="cpu" if setup.device == "cpu" else "cuda")


class _Listed(list[Text]):
    """Texts as the source of a corpus."""

    def __call__(self) -> Iterator[Text]:
        return iter(self)


def _listed(corpus: Corpus) -> Corpus:
    return replace(corpus, source=_Listed(corpus), notes=Notes())
