"""Choose the tasks of a corpus: those of the catalogue that it carries, or any of its annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from lamina.corpora.corpus import NAMING
from lamina.corpora.splits import Splits
from lamina.errors import TaskError
from lamina.tasks import TASKS, Task, annotation_task, get_task, tasks_of

AS_GIVEN = "as given"
"""Scheme of corpora whose annotations were named by whoever made the data."""
_MOST_LABELS = 0.5
"""Labels, as a share of the targets, from which on they name things instead of telling kinds."""


def choose_tasks(names: Sequence[str | Task] | None, splits: Splits, *, faithful: bool) -> list[Task]:
    """What was named: tasks of the catalogue, other annotations, tasks given; by default all that the corpus carries.

    By default, annotations outside the catalogue are tasks where the data names its annotations itself (own files,
    tables, data in memory), or where there is nothing else.
    """
    present = splits.scored.annotations
    carried = {name: task for name, task in _carried(splits, faithful=faithful).items() if task is not None}
    if names is not None:
        return [_named(each, carried, splits) for each in dict.fromkeys(names)]
    known = {task.annotation for task in carried.values()} | {task.fallback for task in carried.values()}
    others = [name for name in present if name not in NAMING and name not in known]
    annotation, errors = [], []
    for name in others if splits.scored.scheme == AS_GIVEN or not carried else ():
        try:
            annotation.append(_annotated(name, splits))
        except TaskError as error:
            errors.append(error)
    if errors and not annotation and not carried:
        raise errors[0]
    if not carried and not annotation:
        raise TaskError(
            f"{splits.name} carries no task; its annotations: {', '.join(present) or 'none'}; tasks are made of: "
            f"{', '.join(dict.fromkeys(task.annotation for task in TASKS))}, or of any other annotation"
        )
    return [*carried.values(), *annotation]


def _carried(splits: Splits, *, faithful: bool) -> dict[str, Task | None]:
    """The tasks of the catalogue that a corpus carries.

    Not those that share only their name with an annotation of the user's: `rel` of the catalogue is about pairs.
    """
    tasks = {task.name: get_task(task.name, faithful=faithful) for task in tasks_of(splits.scored.annotations)}
    if splits.scored.scheme != AS_GIVEN:
        return dict(tasks)
    return {name: task if _fits(task, splits) else None for name, task in tasks.items()}


def _fits(task: Task, splits: Splits) -> bool:
    """Whether the first targets are of the kind that the task is about."""
    first = next((edge for text in splits.train for edge in task.targets(text)), None)
    return first is None or first.arity == task.arity


def _named(names: str | Task, carried: Mapping[str, Task], splits: Splits) -> Task:
    present = splits.scored.annotations
    if isinstance(names, Task):
        if not names.available(present):
            raise TaskError(
                f"{splits.name} does not carry the annotation {names.annotation!r} of the task {names.name}; it "
                f"carries {', '.join(present) or 'none'}"
            )
        return names
    if names in carried:
        return carried[names]
    if names in present:
        return _annotated(names, splits)
    known = {task.name: task for task in TASKS}
    windows = names in known and known[names].available((*present, "sentence"))
    hint = "; windows (--unit window:128) carry more" if windows else ""
    close = get_close_matches(names, [*carried, *present], n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    others = [name for name in present if name not in carried and name not in NAMING]
    beside = f", and the annotations {', '.join(others)}" if others else ""
    raise TaskError(
        f"{splits.name} does not carry {names}; it carries {', '.join(carried) or 'no task of the catalogue'}"
        f"{beside}{hint}{meant}"
    )


def _annotated(name: str, splits: Splits) -> Task:
    task = annotation_task(name, splits.train)
    if task.graded:
        return task
    targets = [edge for text in splits.train for edge in task.targets(text)]
    labels = {label for edge in targets for label in edge.labels}
    if name in NAMING or len(labels) > max(_MOST_LABELS * len(targets), 2):
        raise TaskError(
            f"the labels of {name} name single things ({len(labels):,} labels on {len(targets):,} targets), not kinds "
            "of things: a probe has nothing to learn; name another annotation"
        )
    return task
