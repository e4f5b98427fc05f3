"""What each word is to its question (question, support, answer, other), nulls of the same shape, and scored answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from lamina.corpora.questions.question import Question
from lamina.models import SPECIAL, Tokens
from lamina.tasks.task import best
from lamina.training.answering import Answer, Answerer
from lamina.training.spans import MOST_QUESTION
from lamina.types import Span

NOWHERE = -1
"""The sentence number of what is in no sentence: the question, special tokens, answers appended to a story."""

GROUPS = ("question", "support", "answer", "other", "predicted", "words")
"""Groups of words that are measured: the first four share no word; `predicted` may be any of them, `words` is all."""


class QuestionRoles(NamedTuple):
    """The roles of words or of tokens; one can have several."""

    question: Bool[np.ndarray, " unit"]
    support: Bool[np.ndarray, " unit"]
    """In a supporting sentence; in SQuAD, the sentence that holds the answer."""
    gold: Bool[np.ndarray, " unit"]
    """In any of the accepted answers."""
    predicted: Bool[np.ndarray, " unit"]
    sentence: Int[np.ndarray, " unit"]
    """The number of its sentence, from 0; NOWHERE outside the context's sentences."""

    def of_tokens(self, tokens: Tokens) -> QuestionRoles:
        """Every token has the roles of its word; a special token has none."""
        special = tokens.words == SPECIAL
        word = np.where(special, 0, tokens.words)
        question, support, gold, predicted = (role[word] & ~special for role in self[:4])
        return QuestionRoles(question, support, gold, predicted, np.where(special, NOWHERE, self.sentence[word]))


def roles_of(question: Question, predicted: Span | None = None) -> QuestionRoles:
    """The roles of a text's words.

    Example:
        >>> from lamina.corpora.questions.question import make_question
        >>> asked = make_question("q", "Who barks?", "Dogs bark. Cats mew.", [(0, 10), (11, 20)], [(0, 4)], {0})
        >>> roles = roles_of(asked, Span(6, 7))
        >>> [asked.text.words[at] for at in np.flatnonzero(roles.support & ~roles.gold)], roles.sentence.tolist()
        (['bark', '.'], [-1, -1, -1, 0, 0, 0, 1, 1, 1])
    """
    text = question.text
    size = len(text.words)
    gold = _marked(size, (edge.span for edge in text.edges.get("answer", ())))
    if "sup" in text.edges:
        support = (edge.other for edge in text.edges["sup"] if edge.labels == ("1",) and edge.other is not None)
    else:
        # A context of one sentence: where that is known to hold the answer, it is the support.
        support = (edge.span for edge in text.edges["sentence"] if gold.any())
    sentence = np.full(size, NOWHERE)
    for edge in text.edges["sentence"]:
        sentence[edge.span.start : edge.span.end] = int(edge.labels[0])
    in_question = _marked(size, text.segments[:1])
    return QuestionRoles(
        in_question, _marked(size, support), gold, _marked(size, [predicted] if predicted else ()), sentence
    )


def groups_of(roles: QuestionRoles) -> Float[np.ndarray, "group word"]:
    """1 where a word belongs to one of GROUPS. The support is without the answer, which in SQuAD is part of it."""
    context = ~roles.question
    rows = (
        roles.question,
        roles.support & ~roles.gold & context,
        roles.gold & context,
        context & ~roles.support & ~roles.gold,
        roles.predicted,
        np.ones_like(context),
    )
    return np.stack(rows).astype(np.float32)


def _marked(size: int, spans: Iterable[Span]) -> Bool[np.ndarray, " unit"]:
    marks = np.zeros(size, bool)
    for span in spans:
        marks[span.start : span.end] = True
    return marks


class ContextPart(NamedTuple):
    """A word of the context, or what is between two words."""

    text: str
    """As the raw context has it: all parts together are the context."""
    sentence: int
    """From 0; -1 between sentences."""
    support: bool
    gold: bool
    predicted: bool


_NOTHING = (NOWHERE, False, False, False)


def marked_context(question: Question, predicted: tuple[int, int] | None = None) -> list[ContextPart]:
    """The context cut into words and what is between them, with their roles.

    What is between two words is in the answer, or the sentence, that both are in, so that a mark has no gaps.

    Args:
        question: with its context.
        predicted: where the predicted answer starts and ends, in characters of the context.

    Example:
        >>> from lamina.corpora.question_sets import typed_question
        >>> asked = next(typed_question("Who barks?", "Big dogs bark. Cats mew.", "big dogs").questions())
        >>> "".join(part.text for part in marked_context(asked) if part.gold)
        'Big dogs'
    """
    words = _words(question, predicted)
    parts: list[ContextPart] = []
    place = 0
    for word, (start, end) in zip(words, question.offsets, strict=True):
        if place < start:
            between = question.context[place:start]
            parts.append(_between(between, parts[-1], word) if parts else ContextPart(between, *_NOTHING))
        parts.append(word)
        place = end
    rest = question.context[place:]
    return [*parts, ContextPart(rest, *_NOTHING)] if rest else parts


def _between(text: str, before: ContextPart, after: ContextPart) -> ContextPart:
    same = before.sentence == after.sentence
    return ContextPart(
        text,
        before.sentence if same else NOWHERE,
        same and before.support,
        before.gold and after.gold,
        before.predicted and after.predicted,
    )


def _words(question: Question, predicted: tuple[int, int] | None) -> list[ContextPart]:
    roles, first = roles_of(question), question.text.segments[1].start
    low, high = predicted or (0, 0)
    return [
        ContextPart(
            question.context[start:end],
            int(roles.sentence[word]),
            bool(roles.support[word]),
            bool(roles.gold[word]),
            low <= start < high,
        )
        for word, (start, end) in enumerate(question.offsets, start=first)
    ]


_BINS = 20
"""Parts of a context that positions of answers are counted in."""


class AnswerPositions:
    """Where in their contexts the answers of a data set start, from 0 (as early as possible) to 1 (as late).

    Example:
        >>> positions = AnswerPositions()
        >>> for _ in range(3):
        ...     positions.add(Span(9, 10), Span(0, 10))
        >>> rng = np.random.default_rng(0)
        >>> positions.draw(2, np.ones(10, bool), rng)
        Span(start=8, end=10)
    """

    def __init__(self) -> None:
        self._counts = np.zeros(_BINS)

    def add(self, answer: Span, context: Span) -> None:
        """Count one answer."""
        free = len(context) - len(answer)
        self._counts[_bin((answer.start - context.start) / free if free > 0 else 0.0)] += 1

    def draw(self, length: int, free: Bool[np.ndarray, " word"], rng: np.random.Generator) -> Span | None:
        """A span of `length` free words at one of the positions of answers; anywhere if none of these is free."""
        size = len(free)
        taken = np.r_[0, np.cumsum(~free)]
        starts = np.arange(size - length + 1)
        starts = starts[taken[starts + length] == taken[starts]] if size >= length else starts[:0]
        if not len(starts):
            return None
        bins = _bin(starts / max(size - length, 1))
        chances = self._counts[bins] / np.bincount(bins, minlength=_BINS)[bins]
        chances = chances if chances.sum() > 0 else np.ones(len(starts))
        start = int(rng.choice(starts, p=chances / chances.sum()))
        return Span(start, start + length)


def _bin(place):
    return np.minimum((np.asarray(place) * _BINS).astype(int), _BINS - 1)


def note_answers(question: Question, positions: AnswerPositions) -> None:
    """Count where the accepted answers of a question are."""
    if len(question.text.segments) > 1:
        for edge in question.text.edges.get("answer", ()):
            positions.add(edge.span, question.text.segments[1])


def pseudo_groups(
    question: Question, roles: QuestionRoles, positions: AnswerPositions, rng: np.random.Generator
) -> Float[np.ndarray, "group word"]:
    """The groups of `groups_of`, with other words in the parts of support, answer and prediction.

    The real answer, prediction and support belong to none of them: they show what a sentence and a span have
    in common with their context where they are neither. A group is empty where the context has no room for it.
    """
    context = ~roles.question
    support = _another_support(question, roles, rng)
    answers = roles.gold | roles.predicted
    # The question comes first in a text: the context is what follows it.
    first = int(roles.question.sum())
    answer, predicted = np.zeros_like(answers), np.zeros_like(answers)
    answer[first:] = _elsewhere(roles.gold[first:], answers[first:], positions, rng)
    predicted[first:] = _elsewhere(roles.predicted[first:], (answers | answer)[first:], positions, rng)
    rows = (
        roles.question,
        support & ~answer & ~answers & context,
        answer,
        context & ~roles.support & ~support & ~answer & ~answers,
        predicted,
        ~answers,
    )
    return np.stack(rows).astype(np.float32)


def _another_support(question: Question, roles: QuestionRoles, rng: np.random.Generator) -> Bool[np.ndarray, " word"]:
    """As many sentences that support nothing, as far from each other as those that do."""
    spans = {int(edge.labels[0]): edge.span for edge in question.text.edges["sentence"]}
    numbers = [number for number, span in spans.items() if roles.support[span.start : span.end].any()]
    marks = np.zeros(len(roles.support), bool)
    for number in moved_positions(numbers, spans.keys() - numbers, rng):
        marks[spans[number].start : spans[number].end] = True
    return marks


def moved_positions(numbers: list[int], free: Iterable[int], rng: np.random.Generator) -> list[int]:
    """The same pattern elsewhere; where it fits nowhere, any free sentences, unless neighbours are to stay together."""
    free = sorted(free)
    if not numbers:
        return []
    steps = [number - numbers[0] for number in numbers]
    starts = [start for start in free if all(start + step in free for step in steps)]
    if starts:
        start = int(rng.choice(starts))
        return [start + step for step in steps]
    together = any(after - before == 1 for before, after in pairwise(steps))
    if together or len(free) < len(numbers):
        return []
    return sorted(rng.choice(free, len(numbers), replace=False).tolist())


def _elsewhere(
    marked: Bool[np.ndarray, " word"],
    taken: Bool[np.ndarray, " word"],
    positions: AnswerPositions,
    rng: np.random.Generator,
) -> Bool[np.ndarray, " word"]:
    """For each run of marked words another one of its length; nothing where one does not fit."""
    marks = np.zeros_like(marked)
    for run in runs_of(marked):
        span = positions.draw(len(run), ~(taken | marks), rng)
        if span is None:
            return np.zeros_like(marked)
        marks[span.start : span.end] = True
    return marks


def runs_of(marked: Bool[np.ndarray, " word"]) -> list[Span]:
    """The runs of neighbouring marked words.

    Example:
        >>> runs_of(np.array([True, True, False, True]))
        [Span(start=0, end=2), Span(start=3, end=4)]
    """
    edges = np.flatnonzero(np.diff(np.r_[0, marked.astype(int), 0]))
    return [Span(int(start), int(end)) for start, end in edges.reshape(-1, 2)]


def moved_around(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels of words moved along by a random number of words, those at the end to the start; -1 stays.

    Runs of one label keep their length (but for the one that is cut), while what they cover changes.

    Example:
        >>> moved_around(np.array([-1, 0, 0, 0, 1, 1]), np.random.default_rng(0)).tolist()
        [-1, 0, 0, 1, 1, 0]
    """
    moved = labels.copy()
    there = labels != -1
    size = int(there.sum())
    if size > 1:
        moved[there] = np.roll(labels[there], int(rng.integers(1, size)))
    return moved


CUT = f"questions answered from their first {MOST_QUESTION} tokens, since they are longer"
SILENT = (
    "the model has no head that answers these questions: nothing is predicted (`lamina finetune MODEL --task squad` "
    "gives it one)"
)


class ScoredAnswer(NamedTuple):
    """An answer, and how good it is; without a gold answer that is not known."""

    answer: Answer
    exact: float | None
    f1: float | None


def score_answers(answerer: Answerer, questions: Sequence[Question]) -> Iterator[ScoredAnswer]:
    """Answer questions and compare with what is accepted."""
    for question, answer in zip(questions, answerer.answer(questions), strict=True):
        if not question.answers:
            yield ScoredAnswer(answer, None, None)
            continue
        if answer.span is None:
            # A class is right or wrong as it is written.
            right = float(answer.text in question.answers)
            yield ScoredAnswer(answer, right, right)
            continue
        scores = best(answer.text, question.answers)
        yield ScoredAnswer(answer, scores.exact, scores.f1)


def is_cut(tokens: Tokens, question: Question) -> bool:
    """Whether the question is longer than what a model answers from."""
    in_question = (tokens.words != SPECIAL) & (tokens.words < question.text.segments[0].end)
    return int(in_question.sum()) > MOST_QUESTION
