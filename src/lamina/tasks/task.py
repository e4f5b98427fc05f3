"""A task: a question that a probe answers about targets in a text, and how answers are scored (micro-F1).

It knows neither tensors nor files.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lamina.errors import TaskError
from lamina.types import Edge, Text

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Bool


Metric = Literal["f1", "macro_f1", "accuracy", "r2", "correlation"]
"""Names of scores in tables: micro-F1, macro-F1, the share of right highest answers; of graded tasks, R2 and Pearson's
correlation."""

METRIC_NAMES: dict[str, str] = {
    "f1": "F1",
    "macro_f1": "macro-F1",
    "accuracy": "accuracy",
    "r2": "R2",
    "correlation": "correlation",
}
"""Metric -> what sentences and figures call it."""

VALUE = "value"
"""The one label of a graded task: its prediction is a number."""

Average = Literal["micro", "macro"]
"""F1 over all decisions together, or the mean F1 of the labels that some target has."""

Normalise = Callable[[str], str | None]
"""Annotated label -> the task's label, or None if the task does not use it."""


def as_annotated(label: str) -> str:
    """The label itself."""
    return label


@dataclass(frozen=True)
class Task:
    """One question, its targets and how an answer is scored.

    Example:
        >>> from lamina.types import Span
        >>> task = Task("pos", "Part of speech", "pos", 1)
        >>> text = Text("s1", ("Dogs", "bark"), edges={"pos": (Edge(("NOUN",), Span(0, 1)),)})
        >>> [edge.labels for edge in task.targets(text)]
        [('NOUN',)]
    """

    name: str
    """Name in commands and tables."""
    title: str
    """Name in figures."""
    annotation: str
    """The annotation its targets come from."""
    arity: int
    """1 if a target is a span, 2 if it is a pair of spans."""
    scoring: str = "micro-F1 over all labels"
    """Description of the score."""
    what: str = ""
    """Description of the question."""
    normalise: Normalise = as_annotated
    """Annotated label -> the task's label."""
    unscored: frozenset[str] = frozenset()
    """Labels that are predicted like any other, but left out of the score."""
    keep: Callable[[Edge], bool] | None = None
    """Which edges are targets; all by default."""
    fallback: str | None = None
    """The annotation from which `source` makes targets if a text does not have `annotation`."""
    needs: frozenset[str] = frozenset()
    """Other annotations that a text must have."""
    source: Callable[[Text], tuple[Edge, ...]] | None = None
    """Makes the edges of a text that has the task; by default those of the annotation."""
    left_out: Callable[[Text], int] | None = None
    """How many edges of a text `source` leaves out because there would be too many."""
    average: Average = "micro"
    """Whether all decisions are scored together (micro) or the labels' scores are averaged (macro)."""
    graded: bool = False
    """Whether a target has a value (`Edge.value`), which a probe predicts, instead of labels."""

    @property
    def metric(self) -> Metric:
        """The score of the task."""
        return "r2" if self.graded else "macro_f1" if self.average == "macro" else "f1"

    def available(self, annotations: Iterable[str]) -> bool:
        """Whether texts with these annotations have the task."""
        present = set(annotations)
        return not present.isdisjoint({self.annotation, self.fallback}) and self.needs <= present

    def targets(self, text: Text) -> tuple[Edge, ...]:
        """The task's targets in a text, with the task's labels; none if the text does not have the task."""
        if not self.available(text.edges):
            return ()
        edges = text.edges[self.annotation] if self.source is None else self.source(text)
        chosen = edges if self.keep is None else filter(self.keep, edges)
        return tuple(target for edge in chosen if (target := self._as_target(edge)) is not None)

    def too_many(self, texts: Iterable[Text]) -> int:
        """How many targets of these texts were left out because there would be too many."""
        counted = self.left_out
        return 0 if counted is None else sum(counted(text) for text in texts if self.available(text.edges))

    def averaged(self, average: Average) -> Task:
        """The same task, scored by micro- or macro-F1; if only one label is scored, the two are equal.

        Example:
            >>> Task("pos", "Part of speech", "pos", 1).averaged("macro").metric
            'macro_f1'
        """
        if self.graded:
            raise TaskError(f"{self.name} is graded: it is scored by R2 and correlation, not by {average}-F1")
        return replace(self, average=average, scoring=self.scoring.replace(f"{self.average}-F1", f"{average}-F1"))

    def over_all_labels(self) -> Task:
        """The same task, scored by macro-F1 over all labels, also those that its own score leaves out.

        Example:
            >>> from lamina.tasks import get_task
            >>> get_task("coref").over_all_labels().scoring  # its own: F1 of label 1
            'macro-F1 over all labels'
        """
        return replace(self.averaged("macro"), unscored=frozenset(), scoring="macro-F1 over all labels")

    def describe(self) -> dict[str, Any]:
        """What makes it this task, for provenance and keys; functions by their names."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        plain = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in values.items()}
        return {name: getattr(value, "__qualname__", value) for name, value in plain.items()}

    def scored(self, labels: Iterable[str]) -> tuple[str, ...]:
        """The labels that count in the score, in the given order."""
        return tuple(label for label in labels if label not in self.unscored)

    def _as_target(self, edge: Edge) -> Edge | None:
        """The edge with the task's labels; None if it had labels but the task uses none of them, or has no value."""
        if self.graded:
            return None if edge.value is None else Edge((), edge.span, edge.other, value=edge.value)
        if self.normalise is as_annotated:
            return edge
        labels = self._normalised(edge.labels)
        if edge.labels and not labels:
            return None
        rated = None if edge.rated is None else self._normalised(edge.rated)
        return Edge(labels, edge.span, edge.other, rated, edge.value)

    def _normalised(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        """Without duplicates: two annotated labels may map to one."""
        known = (self.normalise(label) for label in labels)
        return tuple(dict.fromkeys(label for label in known if label is not None))


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
