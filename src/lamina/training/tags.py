"""Token classification: one label per word, learned and read at the word's last token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

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
