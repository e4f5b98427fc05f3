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
from lamina.tasks.task import (
    MIN_SEEN,
    Task,
    best_constant,
    constant_baseline,
    control_labels,
    control_task,
    decisions,
    label_set,
    micro_f1,
    score_constant,
    seen_targets,
    share_seen,
)

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
