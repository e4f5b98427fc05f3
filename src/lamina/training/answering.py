"""Asking a fine-tuned model: questions in, answers with their words and confidence out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lamina.corpora.questions import Question, answer_text
from lamina.encoders import Encoder, load_encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.errors import ModelError
from lamina.training.heads import with_padding
from lamina.training.provenance import ABOUT, read_about
from lamina.training.running import Collator, predict, rows_of
from lamina.training.spans import Answering
from lamina.types import Span

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_LENGTH = 384
"""Most pieces in one window, for a model that does not say what it was trained with."""
_AT_ONCE = 64
"""Questions held in memory."""


class Answer(NamedTuple):
    """What the model answers."""

    question: str
    """The question's id."""
    span: Span
    """Its words, counted in the question's text (question first, then context)."""
    text: str
    """The same, cut out of the raw context."""
    confidence: float
    """Probability of its start times probability of its end, in the window it was found in."""
    null: float
    """The same for the token that says that there is no answer in that window."""


class Answerer:
    """A model with a span head and its tokenizer; `encoder` has the same weights, without the head."""

    def __init__(self, encoder: HuggingFaceEncoder, model: PreTrainedModel, length: int) -> None:
        self.encoder = encoder
        self._model = model
        self._objective = Answering(encoder.pieces, min(length, encoder.limit or length))
        self._collator = Collator(self._objective, model, with_padding(encoder.tokenizer))

    def answer(self, questions: Iterable[Question]) -> Iterator[Answer]:
        """The best span for each question, in order: whole words of its context, at most 30 of them."""
        remaining = iter(questions)
        while chunk := list(islice(remaining, _AT_ONCE)):
            rows = rows_of(self._objective, chunk)
            said = predict(self._model, self._objective, rows, self._collator)
            for number, question in enumerate(chunk):
                own = [each for row, each in zip(rows, said, strict=True) if row.item == number]
                guess = self._objective.best(question, own)
                text = answer_text(question, guess.span)
                yield Answer(question.text.id, guess.span, text, guess.confidence, guess.null)


def answerer_of(encoder: Encoder) -> Answerer | None:
    """The encoder's own weights with their span head; None where the model has none."""
    if not isinstance(encoder, HuggingFaceEncoder) or encoder.span_model is None:
        return None
    folder = encoder.model.name_or_path
    length = read_about(folder)["length"] if folder and (Path(folder) / ABOUT).is_file() else _LENGTH
    return Answerer(encoder, encoder.span_model, length)


def load_answerer(folder: str | os.PathLike[str], *, device: str | None = None) -> Answerer:
    """The question-answering model of a folder that `lamina finetune` made, or any other with a span head.

    Example:
        >>> answerer = load_answerer("runs/minilm-squad")  # doctest: +SKIP
        >>> next(answerer.answer([question])).text  # doctest: +SKIP
        'Denver Broncos'
    """
    encoder = load_encoder(str(folder), device=device)
    found = answerer_of(encoder)
    if found is None:
        made_as = encoder.model.config.architectures if isinstance(encoder, HuggingFaceEncoder) else ["word vectors"]
        raise ModelError(
            f"{folder} has no span head (it is {', '.join(made_as or ()) or 'of no known class'}); "
            "`lamina finetune MODEL --task squad` makes a model that answers questions"
        )
    return found
