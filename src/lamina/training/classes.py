"""Sequence classification: one label per text or pair of texts, read from the head's pooled vector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lamina.corpora.questions.question import Question
from lamina.errors import TaskError
from lamina.models.contract import SPECIAL
from lamina.models.running.tokens import WordTokenizer
from lamina.training.objective import (
    IGNORED,
    UNSEEN,
    Batch,
    Item,
    Objective,
    Sum,
    TextOutcome,
    TrainingRow,
    text_of,
    unit_of,
)
from lamina.types import Edge, Text

CLASSES = {"label", "ques"}
"""The annotations of a whole text: a class, a question's type."""


class ClassChoice(NamedTuple):
    """The class that a model says a text has."""

    label: str
    confidence: float
    """Its probability."""


class ClassObjective(Objective):
    """The class of a text, scored by accuracy and, for two classes, the F1 of the second."""

    head = "SequenceClassification"
    metric = "accuracy"

    def __init__(self, word_tokenizer: WordTokenizer, length: int, labels: tuple[str, ...]) -> None:
        super().__init__(word_tokenizer, length)
        self.labels = labels
        self._number = {label: number for number, label in enumerate(labels)}

    @classmethod
    def learn(cls, word_tokenizer: WordTokenizer, length: int, items: Iterable[Item]) -> ClassObjective:
        """With the classes of the training texts."""
        labels = sorted({class_of(item) for item in items})
        if len(labels) < 2:
            raise TaskError(
                f"the training texts have only one class ({labels[0]!r}); give texts of two or more, and in place of "
                "--first use --limit, which draws from all over a file"
            )
        return cls(word_tokenizer, length, tuple(labels))

    def rows(self, number: int, item: Item) -> list[TrainingRow]:
        """See `Objective.rows`; of a story that is too long, the newest facts are kept."""
        # A question that is only asked has no class.
        unanswered = isinstance(item, Question) and not item.answers
        label = IGNORED if unanswered else self._number.get(class_of(item), IGNORED)
        if isinstance(item, Question) and item.context:
            return [self._newest(number, item, label)]
        return [self.cut(number, text_of(item), label)]

    def _newest(self, number: int, question: Question, label: int) -> TrainingRow:
        """The question with as many facts before it as fit: whole ones, where one fits at all."""
        text = question.text
        tokens, types, head, tail = self.word_tokenizer(text)
        size = len(tokens.ids)
        if head + tail >= self.length or size <= self.length:
            return self.cut(number, text, label)
        latest = head + size - self.length
        facts = [edge.span.start for edge in text.edges.get("sentence", ())]
        begins = np.isin(tokens.words, facts) & (tokens.words != np.append(SPECIAL, tokens.words[:-1]))
        whole = np.flatnonzero(begins[latest:])
        start = latest + (int(whole[0]) if len(whole) else 0)
        first = tokens.words[start]
        lost = [edge.labels == ("1",) for edge in text.edges.get("sup", ()) if _starts_before(edge, first)]
        self.noted[f"questions cut to {self.length} tokens: their oldest facts are left out"] += 1
        self.noted[f"questions cut to {self.length} tokens that lost a supporting fact"] += any(lost)
        keep = np.r_[0:head, start:size]
        return TrainingRow(number, tokens.ids[keep], np.array(types, np.int8)[keep], tokens.words[keep], label)

    def label(self, batch: Batch, rows: Sequence[TrainingRow]) -> Batch:
        """See `Objective.label`."""
        return batch | {"labels": torch.tensor([row.labels for row in rows])}

    def read(
        self, rows: Sequence[TrainingRow], outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]
    ) -> list[ClassChoice]:
        """The class of each row."""
        probabilities = outputs["logits"].float().softmax(-1).cpu().numpy()
        return [
            ClassChoice(self.labels[number], float(row_probabilities[number]))
            for row_probabilities in probabilities
            for number in [int(row_probabilities.argmax())]
        ]

    def judge(self, item: Item, predictions: Sequence[Any]) -> TextOutcome:
        """See `Objective.judge`."""
        gold, answer = class_of(item), predictions[0].label
        self.noted[UNSEEN] += gold not in self._number
        sums = {"accuracy": Sum(gold == answer, 1)}
        if len(self.labels) == 2:
            second = self.labels[1]
            sums["f1"] = Sum(2 * (gold == answer == second), (gold == second) + (answer == second), int(gold == second))
        return TextOutcome(unit_of(text_of(item)), sums, item.task if isinstance(item, Question) else "")

    def guess(self, train: Sequence[Item], scored: Sequence[Item]) -> Iterator[TextOutcome]:
        """See `Objective.guess`."""
        labels = Counter(map(class_of, train))
        most = max(sorted(labels), key=labels.__getitem__)
        return (self.judge(item, [ClassChoice(most, 1.0)]) for item in scored)


def _starts_before(edge: Edge, word: int) -> bool:
    return edge.other is not None and edge.other.start < word


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
        labels = [label for edge in item.edges.get(name, ()) for label in edge.labels]
        if len(labels) > 1:
            raise TaskError(f"text {item.id!r} has {len(labels)} classes ({name}); classify learns one class per text")
        if labels:
            return labels[0]
    raise TaskError(
        f"text {item.id!r} has no class; classify takes texts with an annotation of the whole text (a table with a "
        "column of classes, GLUE, question types), or bAbI"
    )


def is_class(text: Text, edges: tuple[Edge, ...]) -> bool:
    """Whether an annotation is a class of the whole text.

    Example:
        >>> from lamina.types import Edge, Span, Text
        >>> text = Text("a", ("So", "so"))
        >>> is_class(text, (Edge("good", Span(0, 2)),)), is_class(text, (Edge("ADV", Span(0, 1)),))
        (True, False)
    """
    whole = len(edges) == 1 and edges[0].other is None and len(edges[0].span) == len(text.words)
    return whole and len(edges[0].labels) == 1
