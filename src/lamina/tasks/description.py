"""What a task turned out to be on given texts: its targets, its classes and how it is scored, in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lamina.tasks.catalogue import TASKS
from lamina.tasks.task import Task
from lamina.types import Edge, Text


@dataclass(frozen=True)
class Described:
    """A task on given texts.

    Example:
        >>> from lamina.tasks import annotation_task
        >>> from lamina.types import Span
        >>> texts = [Text(label, ("So", "so"), edges={"mood": Edge(label, Span(0, 2))}) for label in ("good", "bad")]
        >>> describe_task(annotation_task("mood", texts), texts).in_words()
        'mood: whole texts, 2 classes, one label per target, micro-F1 over all labels'
    """

    task: Task
    targets: int
    classes: int
    what: str
    """What a target is: whole texts, words, spans, or pairs of them."""
    multi_label: bool
    """Whether a target has no label or several."""

    def in_words(self) -> str:
        """One line."""
        labels = "any number of labels per target" if self.multi_label else "one label per target"
        named = self.task.name in {task.name for task in TASKS}
        clash = " (not the catalogue's task of this name)" if named and self.definition == "own" else ""
        kind = ["graded values"] if self.task.graded else [_classes(self.classes), labels]
        return f"{self.task.name}: {', '.join([self.what, *kind, self.task.scoring])}{clash}"

    @property
    def definition(self) -> str:
        """Which is meant, where an annotation may have the name of a task of the catalogue."""
        known = next((task for task in TASKS if task.name == self.task.name), None)
        if known is None:
            return "own"
        same = known.arity == self.task.arity and known.graded == self.task.graded
        return "catalogue" if same else "own"

    def as_json(self) -> dict[str, Any]:
        """For provenance."""
        return {
            "annotation": self.task.annotation,
            "definition": self.definition,
            "arity": self.task.arity,
            "metric": self.task.metric,
            "scoring": self.task.scoring,
            "targets": self.targets,
            "target": self.what,
            **({} if self.task.graded else {"classes": self.classes, "multi_label": self.multi_label}),
            "in_words": self.in_words(),
        }


def _classes(count: int) -> str:
    return f"{count:,} class{'' if count == 1 else 'es'}"


def describe_task(task: Task, texts: Iterable[Text]) -> Described:
    """A task on the texts that it is scored on."""
    targets, labels, several = 0, set[str](), False
    whole = single = True
    for text in texts:
        for edge in task.targets(text):
            targets += 1
            labels.update(edge.labels)
            several |= len(edge.labels) != 1
            whole &= edge.other is None and len(edge.span) == len(text.words)
            single &= _is_single(edge)
    if task.arity == 2:
        what = "pairs of words" if single else "pairs of spans"
    else:
        what = "whole texts" if whole else "words" if single else "spans"
    return Described(task, targets, len(labels), what, several)


def _is_single(edge: Edge) -> bool:
    return len(edge.span) == 1 and (edge.other is None or len(edge.other) == 1)
