"""A task: a question a probe asks of targets in a text. It knows neither tensors nor files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from lamina.types import Edge, Text

Average = Literal["micro", "macro"]
"""F1 of all decisions together, or the mean of the F1 of each label that holds of some target."""

Normalise = Callable[[str], str | None]
"""An annotated label -> the label the task asks for, or None where it asks for none."""


def as_annotated(label: str) -> str:
    """The label itself."""
    return label


@dataclass(frozen=True)
class Task:
    """One question, with what it is asked of and how an answer is scored.

    Example:
        >>> from lamina.types import Span
        >>> task = Task("pos", "Part of speech", "pos", 1, "micro-F1 over all labels", "the tag of a word")
        >>> text = Text("s1", ("Dogs", "bark"), edges={"pos": (Edge(("NOUN",), Span(0, 1)),)})
        >>> [edge.labels for edge in task.targets(text)]
        [('NOUN',)]
    """

    name: str
    """What commands and tables call it."""
    title: str
    """What figures call it."""
    annotation: str
    """The annotation its targets come of."""
    arity: int
    """1 where a target is a span, 2 where it is a pair."""
    metric: str
    """How it is scored, in words."""
    what: str
    """The question, in words."""
    normalise: Normalise = as_annotated
    """Annotated label -> asked label."""
    unscored: frozenset[str] = frozenset()
    """Labels that are predicted like any other, but left out of the score."""
    keep: Callable[[Edge], bool] | None = None
    """Which edges are targets; all by default."""
    fallback: str | None = None
    """The annotation `source` can make targets of where a text does not carry `annotation`."""
    needs: frozenset[str] = frozenset()
    """Annotations that a text has to carry as well."""
    source: Callable[[Text], tuple[Edge, ...]] | None = None
    """Makes the edges of a text that carries the task; by default they are the annotation's own."""
    left_out: Callable[[Text], int] | None = None
    """How many edges of a text that carries the task `source` leaves out because they would be too many."""
    average: Average = "micro"
    """Whether all decisions are scored together, or the labels' scores averaged."""

    def available(self, annotations: Iterable[str]) -> bool:
        """Whether texts with these annotations carry the task."""
        held = set(annotations)
        return not held.isdisjoint({self.annotation, self.fallback}) and self.needs <= held

    def targets(self, text: Text) -> tuple[Edge, ...]:
        """The task's targets in a text, with the labels asked for; none where the text does not carry the task."""
        if not self.available(text.edges):
            return ()
        edges = text.edges[self.annotation] if self.source is None else self.source(text)
        kept = edges if self.keep is None else filter(self.keep, edges)
        return tuple(target for edge in kept if (target := self._asked(edge)) is not None)

    def too_many(self, texts: Iterable[Text]) -> int:
        """How many targets of these texts were left out because they would be too many."""
        counted = self.left_out
        return 0 if counted is None else sum(counted(text) for text in texts if self.available(text.edges))

    def averaged(self, average: Average) -> Task:
        """The same task, scored by micro- or macro-F1; where one label alone is scored the two are one.

        Example:
            >>> task = Task("pos", "Part of speech", "pos", 1, "micro-F1 over all labels", "the tag of a word")
            >>> task.averaged("macro").metric
            'macro-F1 over all labels'
        """
        return replace(self, average=average, metric=self.metric.replace(f"{self.average}-F1", f"{average}-F1"))

    def scored(self, labels: Iterable[str]) -> tuple[str, ...]:
        """Those of the labels that count in the score, in their order."""
        return tuple(label for label in labels if label not in self.unscored)

    def _asked(self, edge: Edge) -> Edge | None:
        """The edge with the labels asked for; None where it had labels and none of them is asked for."""
        if self.normalise is as_annotated:
            return edge
        labels = self._normalised(edge.labels)
        if edge.labels and not labels:
            return None
        rated = None if edge.rated is None else self._normalised(edge.rated)
        return Edge(labels, edge.span, edge.other, rated, edge.value)

    def _normalised(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        """Without repeats: two annotated labels may be one asked label."""
        asked = (self.normalise(label) for label in labels)
        return tuple(dict.fromkeys(label for label in asked if label is not None))
