"""How answers are scored: micro-F1 of yes/no decisions, without those that were not rated or are not scored.

`decisions` turns targets into the arrays to score; the label set comes from all texts, training and scored together,
so that no gold label is missing from the score.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from lamina.errors import TaskError
from lamina.tasks.task import VALUE, Task
from lamina.types import Edge, Text

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Bool


class GoldDecisions(NamedTuple):
    """The annotators' decision for each target and label."""

    gold: Bool[np.ndarray, "target label"]
    """Whether the label holds."""
    mask: Bool[np.ndarray, "target label"]
    """Whether the decision counts: the label was rated on that target, and the task scores it."""


def label_set(task: Task, texts: Iterable[Text]) -> tuple[str, ...]:
    """The labels that occur on some target, sorted; `value` for a graded task.

    Example:
        >>> from lamina.tasks.catalogue import get_task
        >>> from lamina.types import Span
        >>> label_set(get_task("pos"), [Text("s", ("a", "b"), edges={"pos": (Edge(("X",), Span(0, 1)),)})])
        ('X',)
    """
    if task.graded:
        return (VALUE,)
    return tuple(sorted({label for text in texts for edge in task.targets(text) for label in edge.labels}))


def decisions(task: Task, targets: Sequence[Edge], labels: Sequence[str]) -> GoldDecisions:
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
                f"{task.name}: label {missing[0]!r} is not in the label set; build it from all texts you score"
            )
        gold[row, [column[label] for label in edge.labels]] = True
        if edge.rated is None:
            mask[row] = scored
        else:
            rated = [column[label] for label in edge.rated if label in column]
            mask[row, rated] = scored[rated]
    return GoldDecisions(gold, mask)


def micro_f1(
    gold: Bool[np.ndarray, "target label"],
    predicted: Bool[np.ndarray, "target label"],
    mask: Bool[np.ndarray, "target label"] | None = None,
) -> float:
    """F1 over all decisions together; `mask` says which count (set a label's column to False to leave it out).

    It is 0 if nothing is gold and nothing is predicted, as in scikit-learn.

    Example:
        >>> import numpy as np
        >>> gold = np.array([[True, False], [False, True]])
        >>> round(micro_f1(gold, np.array([[True, True], [False, False]])), 3)
        0.5
    """
    if mask is not None:
        gold, predicted = gold & mask, predicted & mask
    right = int((gold & predicted).sum())
    decided = int(gold.sum()) + int(predicted.sum())
    return 2 * right / decided if decided else 0.0


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class AnswerScores(NamedTuple):
    """How well an answer matches; both scores are between 0 and 1."""

    exact: float
    f1: float


@lru_cache(maxsize=2**16)
def normalise(answer: str) -> str:
    """The answer in lower case, without punctuation, articles and extra white space.

    Example:
        >>> normalise("The  Denver-Broncos, 24–10!")
        'denverbroncos 24–10'
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, answer: str) -> float:
    """1 if the two are equal after normalisation, otherwise 0.

    Example:
        >>> exact_match("the Broncos.", "Broncos"), exact_match("Denver Broncos", "Broncos")
        (1.0, 0.0)
    """
    return float(normalise(prediction) == normalise(answer))


def f1(prediction: str, answer: str) -> float:
    """The harmonic mean of precision and recall over their words, each counted as often as it occurs.

    Example:
        >>> round(f1("the Denver Broncos", "Broncos"), 3)
        0.667
    """
    predicted, expected = normalise(prediction).split(), normalise(answer).split()
    shared = sum((Counter(predicted) & Counter(expected)).values())
    return 2 * shared / (len(predicted) + len(expected)) if shared else 0.0


def best(prediction: str, answers: Iterable[str]) -> AnswerScores:
    """The best exact match and the best F1 over the accepted answers, taken separately.

    Example:
        >>> best("Santa Clara", ["Santa Clara, California", "in Santa Clara"])
        AnswerScores(exact=0.0, f1=0.8)
    """
    accepted = list(answers)
    if not accepted:
        raise TaskError("cannot score an answer without accepted answers; leave such questions out")
    return AnswerScores(
        max(exact_match(prediction, answer) for answer in accepted), max(f1(prediction, answer) for answer in accepted)
    )
