"""Classification: one label per word, learned and read at its last token; or one per text, from the pooled vector."""

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
from lamina.types import Edge, Span, Text

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


OUTSIDE = "O"


class TagObjective(Objective):
    """Parts of speech (`pos`, scored by accuracy) or entities (`ner`, BIO, scored by F1 of whole entities)."""

    head = "TokenClassification"

    def __init__(self, word_tokenizer: WordTokenizer, length: int, annotation: str, labels: tuple[str, ...]) -> None:
        super().__init__(word_tokenizer, length)
        self.annotation = annotation
        self.labels = labels
        self.metric = "f1" if annotation == "ner" else "accuracy"
        self._number = {label: number for number, label in enumerate(labels)}

    @classmethod
    def learn(cls, word_tokenizer: WordTokenizer, length: int, annotation: str, texts: Iterable[Item]) -> TagObjective:
        """With the labels of the training texts."""
        seen = {label for item in texts for label in word_labels(text_of(item), annotation) if label is not None}
        if not seen - {OUTSIDE}:
            raise TaskError(f"the training texts have no {annotation} label to learn")
        return cls(word_tokenizer, length, annotation, tuple(sorted(seen)))

    def rows(self, number: int, item: Item) -> list[TrainingRow]:
        """See `Objective.rows`."""
        text = text_of(item)
        row = self.cut(number, text)
        wanted = word_labels(text, self.annotation)
        labels = np.full(len(row.ids), IGNORED)
        for token in last_tokens(row.words):
            label = wanted[row.words[token]]
            labels[token] = IGNORED if label is None else self._number.get(label, IGNORED)
        return [row._replace(labels=labels)]

    def label(self, batch: Batch, rows: Sequence[TrainingRow]) -> Batch:
        """See `Objective.label`."""
        labels = torch.full_like(batch["input_ids"], IGNORED)
        for b, row in enumerate(rows):
            labels[b, : len(row.ids)] = torch.from_numpy(row.labels)
        return batch | {"labels": labels}

    def read(
        self, rows: Sequence[TrainingRow], outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]
    ) -> list[dict[int, str]]:
        """Word -> label, per row."""
        best = outputs["logits"].argmax(-1).cpu().numpy()
        return [
            {int(row.words[token]): self.labels[labels[token]] for token in last_tokens(row.words)}
            for row, labels in zip(rows, best, strict=True)
        ]

    def judge(self, item: Item, predictions: Sequence[Any]) -> TextOutcome:
        """See `Objective.judge`; words that were cut off are scored as errors."""
        text = text_of(item)
        by_word: dict[int, str] = {word: label for part in predictions for word, label in part.items()}
        gold = word_labels(text, self.annotation)
        known = [(word, label) for word, label in enumerate(gold) if label is not None]
        self.noted[UNSEEN] += sum(label not in self._number for _, label in known)
        right = sum(by_word.get(word) == label for word, label in known)
        sums = {"accuracy": Sum(right, len(known), len(known))}
        if self.annotation == "ner":
            wanted = entities([label or OUTSIDE for label in gold])
            predicted_entities = entities([by_word.get(word, OUTSIDE) for word in range(len(text.words))])
            sums = {
                "f1": Sum(2 * len(wanted & predicted_entities), len(wanted) + len(predicted_entities), len(wanted)),
                **sums,
            }
        return TextOutcome(unit_of(text), sums)

    def guess(self, train: Sequence[Item], scored: Sequence[Item]) -> Iterator[TextOutcome]:
        """See `Objective.guess`."""
        labels = Counter(label for item in train for label in word_labels(text_of(item), self.annotation) if label)
        most = max(sorted(labels), key=labels.__getitem__)
        for item in scored:
            yield self.judge(item, [dict.fromkeys(range(len(text_of(item).words)), most)])


def guess_by_word(objective: TagObjective, train: Sequence[Item], scored: Sequence[Item]) -> list[TextOutcome]:
    """How each scored text would be done by giving every word its most frequent label in training.

    What can be had from the word alone; a word that training has not gets the most frequent label of all.
    """
    counts: dict[str, Counter[str]] = {}
    every: Counter[str] = Counter()
    for text in map(text_of, train):
        for word, label in zip(text.words, word_labels(text, objective.annotation), strict=True):
            if label is not None:
                counts.setdefault(word.lower(), Counter())[label] += 1
                every[label] += 1
    (most, _) = min(every.items(), key=_frequent_first)
    best = {word: min(label_counts.items(), key=_frequent_first)[0] for word, label_counts in counts.items()}
    noted = Counter(objective.noted)
    judged = [
        objective.judge(
            item, [{number: best.get(word.lower(), most) for number, word in enumerate(text_of(item).words)}]
        )
        for item in scored
    ]
    objective.noted = noted
    return judged


def _frequent_first(counted: tuple[str, int]) -> tuple[int, str]:
    """The most frequent, and of equals the first by name."""
    return -counted[1], counted[0]


def last_tokens(words: np.ndarray) -> list[int]:
    """The last token of every word.

    Example:
        >>> last_tokens(np.array([-1, 0, 1, 1, 2, -1]))
        [1, 3, 4]
    """
    following = np.append(words[1:], SPECIAL)
    return [int(token) for token in np.flatnonzero((words != SPECIAL) & (words != following))]


def word_labels(text: Text, annotation: str) -> list[str | None]:
    """One label per word; None for a word without a tag.

    Entities become BIO tags; of entities that nest or cross, the longest is kept.

    Example:
        >>> text = Text("a", ("Ann", "Lee", "ran"), edges={"ner": (Edge(("PER",), Span(0, 2)),)})
        >>> word_labels(text, "ner")
        ['B-PER', 'I-PER', 'O']
    """
    if annotation not in text.edges:
        raise TaskError(
            f"text {text.id!r} has no {annotation} annotation; name a corpus that has it (`lamina data list`)"
        )
    if annotation == "ner":
        return [*_bio(text.edges["ner"], len(text.words))]
    labels: list[str | None] = [None] * len(text.words)
    for edge in text.edges[annotation]:
        if len(edge.span) == 1 and edge.labels:
            labels[edge.span.start] = edge.labels[0]
    return labels


def _bio(edges: Sequence[Edge], size: int) -> list[str]:
    tags = [OUTSIDE] * size
    for edge in sorted(edges, key=lambda edge: (-len(edge.span), edge.span)):
        if all(tags[word] == OUTSIDE for word in edge.span):
            tags[edge.span.start : edge.span.end] = [
                f"B-{edge.labels[0]}",
                *[f"I-{edge.labels[0]}"] * (len(edge.span) - 1),
            ]
    return tags


def entities(tags: Sequence[str]) -> set[tuple[str, Span]]:
    """The entities that BIO tags say; an I- that continues nothing starts one, as CoNLL's scorer has it.

    Example:
        >>> sorted(entities(["B-PER", "I-PER", "O", "I-LOC"]))
        [('LOC', Span(start=3, end=4)), ('PER', Span(start=0, end=2))]
    """
    spans, start, kind = set(), 0, None
    for number, tag in enumerate([*tags, OUTSIDE]):
        begins, _, name = tag.partition("-")
        if kind is not None and (begins != "I" or name != kind):
            spans.add((kind, Span(start, number)))
            kind = None
        if begins != OUTSIDE and kind is None:
            start, kind = number, name
    return spans
