"""Extractive question answering: where in the context an answer starts and ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lamina.corpora.questions.question import Question, answer_text
from lamina.errors import SpanError, TaskError
from lamina.models.contract import SPECIAL
from lamina.models.running.tokens import WordTokenizer
from lamina.tasks.task import best
from lamina.training.objective import Batch, Item, Objective, Sum, TextOutcome, TrainingRow, unit_of
from lamina.types import Span, Text

STRIDE = 128
"""Tokens from the start of one window to the start of the next, as BERT's own code has it."""
MOST_QUESTION = 64
"""Maximum number of tokens of the question; the rest is cut off."""


class ContextWindow(NamedTuple):
    """The question with one part of its context."""

    ids: np.ndarray
    types: np.ndarray
    words: np.ndarray
    """[token] Words of the text; SPECIAL for special tokens."""
    cut: bool
    """Whether the question lost its end."""


def windows(
    text: Text, word_tokenizer: WordTokenizer, length: int, *, stride: int = STRIDE, most_question: int = MOST_QUESTION
) -> Iterator[ContextWindow]:
    """Every window of a text of two segments; the last one ends with the context."""
    if len(text.segments) != 2:
        raise SpanError(f"text {text.id!r} has {len(text.segments)} segments; a question with its context has two")
    tokens, types, head, tail = word_tokenizer(text)
    context = text.segments[1]
    question_tokens = _question_tokens(tokens.words, head, context, most_question)
    room = length - len(question_tokens) - tail
    if room < 2:
        raise SpanError(
            f"text {text.id!r}: its question takes {len(question_tokens)} of {length} tokens, which leaves no "
            "room for the context; shorten the question or allow more tokens"
        )
    size = len(tokens.ids)
    end = size - tail
    every = np.array(types, np.int8)
    start = head
    while True:
        stop = _between_words(tokens.words, min(start + room, end), end, after=start)
        chosen = np.r_[question_tokens, start:stop, end:size]
        yield ContextWindow(tokens.ids[chosen], every[chosen], tokens.words[chosen], len(question_tokens) < head)
        if stop == end:
            return
        # No token is skipped, even where the stride is longer than a window.
        start = _between_words(tokens.words, min(start + stride, stop), end, after=start)


def _between_words(words: np.ndarray, position: int, end: int, *, after: int) -> int:
    """The nearest place at or before `at` that cuts no word; `at` itself where one word fills everything since."""
    back = position
    while after < back < end and words[back] == words[back - 1]:
        back -= 1
    return back if back > after else position


def _question_tokens(words: np.ndarray, head: int, context: Span, most: int) -> np.ndarray:
    """The tokens before the context: special ones, and as much of the question as may be."""
    before = np.arange(head)
    in_question = (words[:head] != SPECIAL) & (words[:head] < context.start)
    return before[~in_question | (np.cumsum(in_question) <= most)]


def borders(words: np.ndarray, context: Span) -> tuple[np.ndarray, np.ndarray]:
    """Where in a window an answer may start and end: at the first and last tokens of the context's words.

    Example:
        >>> starts, ends = borders(np.array([-1, 0, -1, 1, 1, 2, -1]), Span(1, 3))
        >>> starts.tolist(), ends.tolist()
        ([3, 5], [4, 5])
    """
    inside = (words >= context.start) & (words < context.end)
    starts = inside & (words != np.append(SPECIAL, words[:-1]))
    ends = inside & (words != np.append(words[1:], SPECIAL))
    return np.flatnonzero(starts), np.flatnonzero(ends)


def place(words: np.ndarray, span: Span) -> tuple[int, int] | None:
    """The tokens that hold an answer, first and last; None where some of it is outside this window.

    Example:
        >>> place(np.array([-1, 0, -1, 1, 1, 2, -1]), Span(1, 3)), place(np.array([-1, 0, -1, 1, 1, -1]), Span(1, 3))
        ((3, 5), None)
    """
    first, last = np.flatnonzero(words == span.start), np.flatnonzero(words == span.end - 1)
    return (int(first[0]), int(last[-1])) if len(first) and len(last) else None


MOST_WORDS = 30
"""Of an answer."""


class Guess(NamedTuple):
    """The best answer one window has."""

    score: float
    """Logit of its start plus logit of its end."""
    span: Span
    """Words of the text."""
    confidence: float
    """Probability of its start times probability of its end, over all tokens of the window."""
    null: float
    """The same for the first token, which says that the answer is not here."""


class SpanObjective(Objective):
    """SQuAD's exact match and F1; for stories, whose answers are right or wrong, exact match is accuracy."""

    head = "QuestionAnswering"
    metric = "f1"

    def __init__(
        self, word_tokenizer: WordTokenizer, length: int, *, stride: int = STRIDE, most_question: int = MOST_QUESTION
    ) -> None:
        super().__init__(word_tokenizer, length)
        self._stride, self._most_question = stride, most_question

    def rows(self, number: int, item: Item) -> list[TrainingRow]:
        """See `Objective.rows`; an answer outside a window is the window's first token."""
        question = _question(item)
        places = question.text.edges.get("answer", ())
        cut = {"stride": self._stride, "most_question": self._most_question}
        parts = list(windows(question.text, self.word_tokenizer, self.length, **cut))
        rows = []
        for window in parts:
            labels = (place(window.words, places[0].span) if places else None) or (0, 0)
            possible = np.stack(borders(window.words, question.text.segments[1])).astype(np.int16)
            rows.append(TrainingRow(number, window.ids, window.types, window.words, labels, possible))
        if not places:
            self.noted["questions whose answer has no place in the context"] += 1
        self.noted[f"questions cut to {self._most_question} tokens"] += parts[0].cut
        self.noted["questions that took several windows"] += len(rows) > 1
        return rows

    def label(self, batch: Batch, rows: Sequence[TrainingRow]) -> Batch:
        """See `Objective.label`."""
        starts, ends = torch.tensor([row.labels for row in rows]).unbind(1)
        return batch | {"start_positions": starts, "end_positions": ends}

    def read(
        self, rows: Sequence[TrainingRow], outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]
    ) -> list[Guess]:
        """The best answer of each window."""
        return best_spans(rows, outputs["start_logits"], outputs["end_logits"])

    def judge(self, item: Item, predictions: Sequence[Any]) -> TextOutcome:
        """See `Objective.judge`."""
        question = _question(item)
        scores = best(answer_text(question, best_guess(predictions).span), question.answers)
        return _outcome(question, scores.f1, scores.exact)

    def guess(self, train: Sequence[Item], scored: Sequence[Item]) -> Iterator[TextOutcome]:
        """See `Objective.guess`."""
        answers = Counter(question.answers[0] for question in map(_question, train) if question.answers)
        most = max(sorted(answers), key=answers.__getitem__, default="")
        for question in map(_question, scored):
            scores = best(most, question.answers)
            yield _outcome(question, scores.f1, scores.exact)


def best_guess(guesses: Sequence[Guess]) -> Guess:
    """The best answer over all windows of a question; of equals, the first."""
    return max(guesses, key=lambda guess: guess.score)


def best_spans(
    rows: Sequence[TrainingRow], start_logits: Tensor, end_logits: Tensor, most: int = MOST_WORDS
) -> list[Guess]:
    """For each window the words of its context with the highest sum of logits: whole ones, at most `most`, in order.

    Logits are [window, token], padded at the end. All windows are searched at once, where their logits are, and the
    results are copied from there once.

    Example:
        >>> words = np.array([-1, 0, -1, 1, 2, 2, -1])
        >>> row = TrainingRow(0, words, words, words, places=np.stack(borders(words, Span(1, 3))))
        >>> starts, ends = torch.tensor([[9, 9, 0, 2, 1, 0, 0.0]]), torch.tensor([[9, 0, 0, 1, 0, 2, 9.0]])
        >>> best_spans([row], starts, ends)[0].span
        Span(start=1, end=3)
    """
    device, width = start_logits.device, max(row.places.shape[1] for row in rows)
    # Every word of a window has one start and one end; beyond the last word there is nothing to choose.
    places = np.full((2, len(rows), width + most - 1), -1)
    for b, row in enumerate(rows):
        places[:, b, : row.places.shape[1]] = row.places
    positions = torch.from_numpy(places).to(device)
    sizes = torch.tensor([len(row.ids) for row in rows]).to(device)
    padding = torch.arange(start_logits.shape[1], device=device) >= sizes[:, None]
    starts, ends = (logits.float().masked_fill(padding, -torch.inf) for logits in (start_logits, end_logits))
    possible = [
        logits.gather(1, where.clamp(min=0)).masked_fill(where < 0, -torch.inf)
        for logits, where in ((starts, positions[0]), (ends, positions[1]))
    ]
    # Of ends, only those of the next `most` words are looked at.
    sums = possible[0][:, :width, None] + possible[1].unfold(1, most, 1)
    score, chosen = sums.flatten(1).max(1)
    begin, further = chosen // most, chosen % most
    first, last = (
        where.gather(1, word[:, None]) for where, word in ((positions[0], begin), (positions[1], begin + further))
    )
    begins, stops = starts.softmax(1), ends.softmax(1)
    confidence = begins.gather(1, first) * stops.gather(1, last)
    numbers = torch.cat([score[:, None], confidence, (begins * stops)[:, :1], first, last], 1).double().cpu().numpy()
    return [
        Guess(
            float(values[0]),
            Span(int(row.words[int(values[3])]), int(row.words[int(values[4])]) + 1),
            *map(float, values[1:3]),
        )
        for row, values in zip(rows, numbers, strict=True)
    ]


def _outcome(question: Question, f1: float, exact: float) -> TextOutcome:
    sums = {"f1": Sum(f1, 1), "exact_match": Sum(exact, 1)}
    return TextOutcome(unit_of(question.text), sums, question.task if question.task.startswith("qa") else "")


def _question(item: Item) -> Question:
    if not isinstance(item, Question) or not item.context:
        id = item.text.id if isinstance(item, Question) else item.id
        raise TaskError(f"text {id!r} is no question with a context; give SQuAD, HotpotQA or bAbI files")
    return item
