"""Sequence classification: one label per text or pair of texts, read from the head's pooled vector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from lamina.corpora.questions import Question
from lamina.encoders.pieces import Pieces
from lamina.errors import TaskError
from lamina.training.objective import IGNORED, UNSEEN, Batch, Item, Objective, Outcome, Row, Sum, text_of, unit_of

CLASSES = {"label", "ques"}
"""The annotations of a whole text: a class, a question's type."""


class Classifying(Objective):
    """The class of a text, scored by accuracy and, for two classes, the F1 of the second."""

    head = "SequenceClassification"
    metric = "accuracy"

    def __init__(self, pieces: Pieces, length: int, labels: tuple[str, ...]) -> None:
        super().__init__(pieces, length)
        self.labels = labels
        self._number = {label: number for number, label in enumerate(labels)}

    @classmethod
    def learn(cls, pieces: Pieces, length: int, items: Iterable[Item]) -> Classifying:
        """With the classes of the training texts."""
        labels = sorted({class_of(item) for item in items})
        if len(labels) < 2:
            raise TaskError(f"the training texts have only one class ({labels[0]!r}); give texts of two or more")
        return cls(pieces, length, tuple(labels))

    def rows(self, number: int, item: Item) -> list[Row]:
        """See `Objective.rows`."""
        return [self.cut(number, text_of(item), self._number.get(class_of(item), IGNORED))]

    def label(self, batch: Batch, rows: Sequence[Row]) -> Batch:
        """See `Objective.label`."""
        return batch | {"labels": torch.tensor([row.labels for row in rows])}

    def read(self, row: Row, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> str:
        """The class."""
        return self.labels[int(outputs["logits"].argmax())]

    def judge(self, item: Item, said: Sequence[Any]) -> Outcome:
        """See `Objective.judge`."""
        gold, told = class_of(item), said[0]
        self.noted[UNSEEN] += gold not in self._number
        sums = {"accuracy": Sum(gold == told, 1)}
        if len(self.labels) == 2:
            second = self.labels[1]
            sums["f1"] = Sum(2 * (gold == told == second), (gold == second) + (told == second), int(gold == second))
        return Outcome(unit_of(text_of(item)), sums, item.task if isinstance(item, Question) else "")

    def guess(self, train: Sequence[Item], scored: Sequence[Item]) -> Iterator[Outcome]:
        """See `Objective.guess`."""
        labels = Counter(map(class_of, train))
        most = max(sorted(labels), key=labels.__getitem__)
        return (self.judge(item, [most]) for item in scored)


def class_of(item: Item) -> str:
    """The label of a whole text; of a question about a story, its answer.

    Example:
        >>> from lamina.types import Edge, Span, Text
        >>> class_of(Text("q", ("Who", "?"), edges={"ques": (Edge(("HUM:ind",), Span(0, 2)),)}))
        'HUM:ind'
    """
    if isinstance(item, Question):
        if not item.answers:
            raise TaskError(f"question {item.text.id!r} has no answer to learn")
        return item.answers[0]
    for name in sorted(CLASSES):
        if item.edges.get(name):
            return item.edges[name][0].labels[0]
    raise TaskError(
        f"text {item.id!r} has no class; classify takes question types (trec), GLUE-style TSV with a label column, "
        "or bAbI"
    )
