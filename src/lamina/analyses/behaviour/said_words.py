"""Which words are hidden, and which class each piece of the vocabulary says."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lamina.analyses.behaviour.said_tasks import Marked, WordTask
from lamina.encoders.hidden_words import Word, first_pieces
from lamina.encoders.language_model import LanguageModel
from lamina.encoders.passages import Passage
from lamina.stats.units import document_of
from lamina.types import Text

LEAST = 10
"""Words of a class that training must have; rarer classes are left out."""


class Item(NamedTuple):
    """A text whose words have classes."""

    passage: Passage
    document: str
    marks: Mapping[str, Mapping[int, Marked]]
    """Task -> part of the passage -> its class."""
    counted: Sequence[int]
    """Parts that count as words of the vocabulary."""
    one_piece: bool = False
    """Whether words of several pieces are left out: their first pieces begin other words, too, and no text tells how
    often."""


@dataclass(frozen=True)
class Items:
    """Texts whose words have classes."""

    items: Sequence[Item]

    @classmethod
    def of(cls, texts: Iterable[Text], tasks: Sequence[WordTask]) -> Items:
        """The texts of a treebank."""
        return cls(
            [
                Item(
                    Passage.of(text),
                    document_of(text),
                    {task.name: task.mark(text) for task in tasks},
                    range(len(text.words)),
                )
                for text in texts
            ]
        )

    @cached_property
    def passages(self) -> list[Passage]:
        """The texts as they are written."""
        return [item.passage for item in self.items]

    def firsts(self, model: LanguageModel) -> list[Int[np.ndarray, " part"]]:
        """The first piece of each part of each passage; -1 for one that cannot be hidden or counted."""
        firsts = first_pieces(model, self.passages)
        return [
            np.where(pieces.sizes > 1, -1, pieces.ids) if item.one_piece else pieces.ids
            for item, pieces in zip(self.items, firsts, strict=True)
        ]

    def asked(self, task: str) -> list[tuple[Word, str]]:
        """The words that a task asks for, with their classes."""
        return [
            (Word(number, part), mark.label)
            for number, item in enumerate(self.items)
            for part, mark in item.marks[task].items()
            if mark.asked
        ]

    def hidable(self, task: str, firsts: Sequence[Int[np.ndarray, " part"]]) -> list[tuple[Word, str]]:
        """Those of them that can be hidden, by what `firsts` gives."""
        return [(word, label) for word, label in self.asked(task) if firsts[word.passage][word.part] >= 0]

    def draw(
        self, task: str, labels: Mapping[str, int], most: int, seed: int, firsts: Sequence[Int[np.ndarray, " part"]]
    ) -> list[tuple[Word, int]]:
        """At most so many words of these classes, by hash, in the order of the texts; tasks share words."""

        def place(word: Word) -> bytes:
            key = f"{seed}\t{self.passages[word.passage].id}\t{word.part}"
            return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()

        known = [(word, labels[label]) for word, label in self.hidable(task, firsts) if label in labels]
        return sorted(sorted(known, key=lambda labelled: place(labelled[0]))[:most])

    def item_of(self, word: Word) -> str:
        """The word's key, equal whatever the model."""
        return f"{self.passages[word.passage].id}:{word.part}"

    def sentence(self, word: Word) -> tuple[str, str]:
        """The text with a gap, and what belongs there."""
        text, (start, stop) = self.passages[word.passage].text, self.passages[word.passage].spans[word.part]
        return f"{text[:start]}___{text[stop:]}", text[start:stop]


class Data(NamedTuple):
    """Three sets of texts that share no document: probes learn from one, select by another, are scored on the third."""

    learn: Items
    select: Items
    scored: Items
    tasks: tuple[str, ...]
    """Names of the tasks that are asked of them."""

    @property
    def train(self) -> Items:
        """Everything but what is scored."""
        return Items([*self.learn.items, *self.select.items])


class Vocabulary(NamedTuple):
    """The classes of a task, and what each piece of the vocabulary says of them."""

    labels: tuple[str, ...]
    shares: Float[np.ndarray, "piece label"]
    """Of the words in training that begin with this piece, the share in each class."""
    prior: Float[np.ndarray, " label"]
    """Share of each class among words of any of them in training."""
    rare: int
    """Words in training whose class is too rare."""

    @property
    def numbers(self) -> dict[str, int]:
        """Class -> its number."""
        return {label: number for number, label in enumerate(self.labels)}


def vocabularies(model: LanguageModel, train: Items, tasks: Sequence[str]) -> dict[str, Vocabulary]:
    """The classes of each task as the words of the training texts tell them."""
    firsts = train.firsts(model)
    seen = np.zeros(model.vocabulary)
    for item, first in zip(train.items, firsts, strict=True):
        pieces = first[list(item.counted)]
        np.add.at(seen, pieces[pieces >= 0], 1)
    return {task: _vocabulary(train, task, firsts, seen) for task in tasks}


def _vocabulary(
    train: Items, task: str, firsts: Sequence[Int[np.ndarray, " part"]], seen: Float[np.ndarray, " piece"]
) -> Vocabulary:
    counts_by_label = Counter(label for _, label in train.hidable(task, firsts))
    labels = tuple(sorted(label for label, count in counts_by_label.items() if count >= LEAST))
    numbers = {label: number for number, label in enumerate(labels)}
    counts = np.zeros((len(seen), len(labels)))
    for item, first in zip(train.items, firsts, strict=True):
        for part, mark in item.marks[task].items():
            if mark.label in numbers and first[part] >= 0:
                counts[first[part], numbers[mark.label]] += 1
    total = np.array([counts_by_label[label] for label in labels], float)
    shares = counts / np.maximum(seen, 1)[:, None]
    rare = sum(count for label, count in counts_by_label.items() if label not in numbers)
    return Vocabulary(labels, shares, total / max(1.0, total.sum()), rare)
