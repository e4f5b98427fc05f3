"""Text -> labelled targets: the catalogue of tasks, how they are scored, their baseline and their control."""

from lamina.tasks.catalogue import (
    TASKS,
    TaskDescription,
    annotation_task,
    corpora_of,
    describe_task,
    get_task,
    tasks_of,
    title_of,
)
from lamina.tasks.control import (
    MIN_SEEN,
    best_constant,
    constant_baseline,
    control_labels,
    control_task,
    score_constant,
    seen_targets,
    share_seen,
)
from lamina.tasks.task import Task, decisions, label_set, micro_f1

__all__ = [
    "MIN_SEEN",
    "TASKS",
    "Task",
    "TaskDescription",
    "annotation_task",
    "best_constant",
    "constant_baseline",
    "control_labels",
    "control_task",
    "corpora_of",
    "decisions",
    "describe_task",
    "get_task",
    "label_set",
    "micro_f1",
    "score_constant",
    "seen_targets",
    "share_seen",
    "tasks_of",
    "title_of",
]
