"""A model's answers, and how good they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lamina.corpora.questions import Question
from lamina.encoders import SPECIAL, Tokens
from lamina.tasks.scoring import best
from lamina.training.answering import Answer, Answerer
from lamina.training.spans import MOST_QUESTION

CUT = f"questions answered from their first {MOST_QUESTION} pieces, since they are longer"
SILENT = (
    "the model has no head that answers these questions: nothing is predicted (`lamina finetune MODEL --task squad` "
    "gives it one)"
)


class Judged(NamedTuple):
    """An answer, and how good it is; without a gold answer that is not known."""

    answer: Answer
    exact: float | None
    f1: float | None


def judged(answerer: Answerer, questions: Sequence[Question]) -> Iterator[Judged]:
    """Answer questions and compare with what is accepted."""
    for question, answer in zip(questions, answerer.answer(questions), strict=True):
        if not question.answers:
            yield Judged(answer, None, None)
            continue
        if answer.span is None:
            # A class is right or wrong as it is written.
            right = float(answer.text in question.answers)
            yield Judged(answer, right, right)
            continue
        scores = best(answer.text, question.answers)
        yield Judged(answer, scores.exact, scores.f1)


def is_cut(tokens: Tokens, question: Question) -> bool:
    """Whether the question is longer than what a model answers from."""
    asked = (tokens.words != SPECIAL) & (tokens.words < question.text.segments[0].end)
    return int(asked.sum()) > MOST_QUESTION
