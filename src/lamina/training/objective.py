"""What a model is fine-tuned to do: texts to rows with labels, outputs back to answers, answers to scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from torch import Tensor

from lamina.corpora.questions import Question
from lamina.encoders.pieces import Pieces
from lamina.types import Text

Item = Text | Question
"""What a data set is made of; questions keep their raw context beside the text."""

Batch = dict[str, Tensor]
"""What a model is called with."""

IGNORED = -100
"""The label of what is not learned, as torch has it."""


class Row(NamedTuple):
    """One line of a batch: a text, a part of it, or a window."""

    item: int
    """The number of the text or question it belongs to."""
    ids: np.ndarray
    types: np.ndarray
    """[token] Token types; 1 in a second segment, where the model knows types."""
    words: np.ndarray
    """[token] The word of each token; SPECIAL for special tokens."""
    labels: Any = None
    """What is to be learned, as the objective wants it."""


class Sum(NamedTuple):
    """One text's part of a score: scores are ratios of sums, so that texts can be resampled."""

    top: float
    bottom: float
    judged: int = 1
    """How many things it is about."""


class Outcome(NamedTuple):
    """How one text was done."""

    unit: str
    """What is resampled as a whole: the article, document or story."""
    sums: Mapping[str, Sum]
    """Metric -> this text's part of it."""
    task: str = ""


class Objective(ABC):
    """What to learn, and how it is scored."""

    head: ClassVar[str]
    """Of transformers' AutoModelFor...: which class has the head."""
    metric: str
    """What chooses among checkpoints."""
    greater: bool = True
    """Whether more of it is better."""
    labels: tuple[str, ...] = ()
    """The classes of the head, where it has classes."""

    def __init__(self, pieces: Pieces, length: int) -> None:
        self.pieces = pieces
        self.length = length
        self.noted: Counter[str] = Counter()
        """What was cut or left out, in words -> how often."""

    @abstractmethod
    def rows(self, number: int, item: Item) -> list[Row]:
        """The lines a text becomes, labelled."""

    @abstractmethod
    def label(self, batch: Batch, rows: Sequence[Row]) -> Batch:
        """The batch with what is to be learned in it."""

    @abstractmethod
    def read(self, row: Row, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> Any:
        """What the model says of one row: its logits, cut to its length, made small."""

    @abstractmethod
    def judge(self, item: Item, said: Sequence[Any]) -> Outcome:
        """Score what was read from all rows of a text."""

    def cut(self, number: int, text: Text, labels: Any = None) -> Row:
        """The whole text as one row; what is longer than `length` loses the end of its last segment."""
        tokens, types, _, tail = self.pieces(text)
        size = len(tokens.ids)
        keep = np.arange(size)
        if size > self.length:
            self.noted[f"texts cut to {self.length} pieces"] += 1
            keep = np.r_[0 : self.length - tail, size - tail : size]
        return Row(number, tokens.ids[keep], np.array(types)[keep], tokens.words[keep], labels)


def text_of(item: Item) -> Text:
    """The words of a text or question."""
    return item.text if isinstance(item, Question) else item


def unit_of(text: Text) -> str:
    """What is never cut in two: the document, or the text itself where none is known."""
    return text.doc or text.id
