"""What a model answers, where it is one that answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lamina.corpora.questions import Question
from lamina.encoders import SPECIAL, Encoder, Tokens
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.tasks.answers import best
from lamina.training.answering import Answer, Answerer, load_answerer
from lamina.training.heads import source_of
from lamina.training.windows import MOST_QUESTION

CUT = f"questions answered from their first {MOST_QUESTION} pieces, since they are longer"
SILENT = "the model has no span head: nothing is predicted (`lamina finetune MODEL --task squad` gives it one)"


class Judged(NamedTuple):
    """An answer, and how good it is; without a gold answer that is not known."""

    answer: Answer
    exact: float | None
    f1: float | None


def answers(encoder: Encoder) -> bool:
    """Whether the model was fine-tuned to answer questions."""
    made_as = encoder.model.config.architectures or [] if isinstance(encoder, HuggingFaceEncoder) else []
    return any(name.endswith("ForQuestionAnswering") for name in made_as)


def answerer_of(encoder: Encoder) -> Answerer | None:
    """The encoder's model with its span head; None where it has none."""
    if not isinstance(encoder, HuggingFaceEncoder) or not answers(encoder):
        return None
    return load_answerer(source_of(encoder), device=str(encoder.model.device))


def judged(answerer: Answerer, questions: Sequence[Question]) -> Iterator[Judged]:
    """Answer questions and compare with what is accepted."""
    for question, answer in zip(questions, answerer.answer(questions), strict=True):
        if not question.answers:
            yield Judged(answer, None, None)
            continue
        scores = best(answer.text, question.answers)
        yield Judged(answer, scores.exact, scores.f1)


def is_cut(tokens: Tokens, question: Question) -> bool:
    """Whether the question is longer than what a model answers from."""
    asked = (tokens.words != SPECIAL) & (tokens.words < question.text.segments[0].end)
    return int(asked.sum()) > MOST_QUESTION
