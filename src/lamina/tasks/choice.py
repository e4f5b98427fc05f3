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


def choose_tasks(asked: Sequence[str | Task] | None, splits: Splits, *, faithful: bool) -> list[Task]:
    """What was named: tasks of the catalogue, other annotations, tasks given; by default all that the corpus carries.

    By default, annotations outside the catalogue are tasks where the data names its annotations itself (own files,
    tables, data in memory), or where there is nothing else.
    """
    held = splits.scored.annotations
    carried = {name: task for name, task in _carried(splits, faithful=faithful).items() if task is not None}
    if asked is not None:
        return [_named(each, carried, splits) for each in dict.fromkeys(asked)]
    known = {task.annotation for task in carried.values()} | {task.fallback for task in carried.values()}
    others = [name for name in held if name not in NAMING and name not in known]
    own, errors = [], []
    for name in others if splits.scored.scheme == AS_GIVEN or not carried else ():
        try:
            own.append(_annotated(name, splits))
        except TaskError as error:
            errors.append(error)
    if errors and not own and not carried:
        raise errors[0]
    if not carried and not own:
        raise TaskError(
            f"{splits.name} carries no task; its annotations: {', '.join(held) or 'none'}; tasks are made of: "
            f"{', '.join(dict.fromkeys(task.annotation for task in TASKS))}, or of any other annotation"
        )
    return [*carried.values(), *own]


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


def _named(asked: str | Task, carried: Mapping[str, Task], splits: Splits) -> Task:
    held = splits.scored.annotations
    if isinstance(asked, Task):
        if not asked.available(held):
            raise TaskError(
                f"{splits.name} does not carry the annotation {asked.annotation!r} of the task {asked.name}; it "
                f"carries {', '.join(held) or 'none'}"
            )
        return asked
    if asked in carried:
        return carried[asked]
    if asked in held:
        return _annotated(asked, splits)
    known = {task.name: task for task in TASKS}
    windows = asked in known and known[asked].available((*held, "sentence"))
    hint = "; windows (--unit window:128) carry more" if windows else ""
    close = get_close_matches(asked, [*carried, *held], n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    others = [name for name in held if name not in carried and name not in NAMING]
    beside = f", and the annotations {', '.join(others)}" if others else ""
    raise TaskError(
        f"{splits.name} does not carry {asked}; it carries {', '.join(carried) or 'no task of the catalogue'}"
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
