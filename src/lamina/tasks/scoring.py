"""How answers are scored: micro-F1 of yes/no decisions, with what was not rated and not scored left out.

`decisions` turns targets into the arrays to score; the label set is made of all texts at hand, training and scored
together, so that no gold label is missing from the score.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lamina.errors import TaskError
from lamina.tasks.task import Task
from lamina.types import Edge, Text

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Bool


class Decisions(NamedTuple):
    """What annotators decided about each target and label."""

    gold: Bool[np.ndarray, "target label"]
    """Whether the label holds."""
    mask: Bool[np.ndarray, "target label"]
    """Whether the decision counts: the label was rated on that target, and the task scores it."""


def label_set(task: Task, texts: Iterable[Text]) -> tuple[str, ...]:
    """The labels that hold of some target, sorted.

    Example:
        >>> from lamina.tasks.catalogue import get_task
        >>> from lamina.types import Span
        >>> label_set(get_task("pos"), [Text("s", ("a", "b"), edges={"pos": (Edge(("X",), Span(0, 1)),)})])
        ('X',)
    """
    return tuple(sorted({label for text in texts for edge in task.targets(text) for label in edge.labels}))


def decisions(task: Task, targets: Sequence[Edge], labels: Sequence[str]) -> Decisions:
    """Gold decisions over targets and labels, and which of them count.

    Example:
        >>> from lamina.tasks.catalogue import get_task
        >>> from lamina.types import Span
        >>> gold, mask = decisions(get_task("rel"), [Edge(("Other",), Span(0, 1), Span(1, 2))], ["A", "Other"])
        >>> gold.tolist(), mask.tolist()
        ([[False, True]], [[True, False]])
    """
    import numpy as np

    column = {label: place for place, label in enumerate(labels)}
    gold = np.zeros((len(targets), len(labels)), dtype=bool)
    mask = np.zeros_like(gold)
    scored = np.array([label not in task.unscored for label in labels], dtype=bool)
    for row, edge in enumerate(targets):
        if missing := [label for label in edge.labels if label not in column]:
            raise TaskError(
                f"{task.name}: label {missing[0]!r} is not in the label set; make it of all texts you score"
            )
        gold[row, [column[label] for label in edge.labels]] = True
        if edge.rated is None:
            mask[row] = scored
        else:
            rated = [column[label] for label in edge.rated if label in column]
            mask[row, rated] = scored[rated]
    return Decisions(gold, mask)


def micro_f1(
    gold: Bool[np.ndarray, "target label"],
    predicted: Bool[np.ndarray, "target label"],
    mask: Bool[np.ndarray, "target label"] | None = None,
) -> float:
    """F1 of all decisions taken together; `mask` says which count (to leave out a label, its column is False).

    Where nothing is gold and nothing predicted it is 0, as scikit-learn has it.

    Example:
        >>> import numpy as np
        >>> gold = np.array([[True, False], [False, True]])
        >>> round(micro_f1(gold, np.array([[True, True], [False, False]])), 3)
        0.5
    """
    if mask is not None:
        gold, predicted = gold & mask, predicted & mask
    right = int((gold & predicted).sum())
    asked = int(gold.sum()) + int(predicted.sum())
    return 2 * right / asked if asked else 0.0
