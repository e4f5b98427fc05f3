"""Whether a task has anything to learn in a corpus."""

from __future__ import annotations

from collections import Counter

from lamina.analyses.layers.probe.training import ProbeSetup
from lamina.errors import TaskError
from lamina.tasks import Task


def check_learnable(task: Task, setup: ProbeSetup) -> None:
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
        told = (
            f"the label {' '.join(sorted(only)) or 'none'!r}" if isinstance(only, frozenset) else f"the value {only:g}"
        )
        raise TaskError(
            f"{task.name}: every training target of {name} has {told}; there is nothing to tell apart, leave it out"
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
