"""A task: a question that a probe answers about targets in a text. It knows neither tensors nor files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from lamina.types import Edge, Text

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
        >>> task = Task("pos", "Part of speech", "pos", 1, "micro-F1 over all labels", "the tag of a word")
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
    metric: str
    """Description of the score."""
    what: str
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

    def available(self, annotations: Iterable[str]) -> bool:
        """Whether texts with these annotations have the task."""
        held = set(annotations)
        return not held.isdisjoint({self.annotation, self.fallback}) and self.needs <= held

    def targets(self, text: Text) -> tuple[Edge, ...]:
        """The task's targets in a text, with the task's labels; none if the text does not have the task."""
        if not self.available(text.edges):
            return ()
        edges = text.edges[self.annotation] if self.source is None else self.source(text)
        kept = edges if self.keep is None else filter(self.keep, edges)
        return tuple(target for edge in kept if (target := self._asked(edge)) is not None)

    def too_many(self, texts: Iterable[Text]) -> int:
        """How many targets of these texts were left out because there would be too many."""
        counted = self.left_out
        return 0 if counted is None else sum(counted(text) for text in texts if self.available(text.edges))

    def averaged(self, average: Average) -> Task:
        """The same task, scored by micro- or macro-F1; if only one label is scored, the two are equal.

        Example:
            >>> task = Task("pos", "Part of speech", "pos", 1, "micro-F1 over all labels", "the tag of a word")
            >>> task.averaged("macro").metric
            'macro-F1 over all labels'
        """
        return replace(self, average=average, metric=self.metric.replace(f"{self.average}-F1", f"{average}-F1"))

    def scored(self, labels: Iterable[str]) -> tuple[str, ...]:
        """The labels that count in the score, in the given order."""
        return tuple(label for label in labels if label not in self.unscored)

    def _asked(self, edge: Edge) -> Edge | None:
        """The edge with the task's labels; None if it had labels but the task uses none of them."""
        if self.normalise is as_annotated:
            return edge
        labels = self._normalised(edge.labels)
        if edge.labels and not labels:
            return None
        rated = None if edge.rated is None else self._normalised(edge.rated)
        return Edge(labels, edge.span, edge.other, rated, edge.value)

    def _normalised(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        """Without duplicates: two annotated labels may map to one."""
        asked = (self.normalise(label) for label in labels)
        return tuple(dict.fromkeys(label for label in asked if label is not None))
