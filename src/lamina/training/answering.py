"""Asking a fine-tuned model: questions in; answers with their confidence, and whether they are right, out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lamina.corpora.questions.question import Question, answer_text
from lamina.errors import ModelError
from lamina.models import Encoder, load_encoder
from lamina.models.running.devices import is_spread, spread
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.tasks.task import best
from lamina.training.heads import load_class_head, reload, with_padding
from lamina.training.objective import MaskedObjective, Objective, TrainingRow
from lamina.training.provenance import ABOUT, folder_of, read_about
from lamina.training.reading import Sets
from lamina.training.running import Collator, predict, rows_of, weight_hashes
from lamina.training.settings import PAPER_SETTINGS, Task, TrainingPlan
from lamina.training.spans import SpanObjective, best_guess
from lamina.training.tags import ClassObjective, TagObjective
from lamina.types import Span

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from lamina.training.finetune import Finetuning


_LENGTH = 384
"""Most tokens in one window, for a model that does not say what it was trained with."""
_AT_ONCE = 256
"""Questions held in memory."""
_SAMPLED = 200
"""Questions that show whether a model's classes are their answers."""
_NAMED = 5
"""Classes named in an error."""


class Answer(NamedTuple):
    """What the model answers."""

    question: str
    """The question's id."""
    span: Span | None
    """Its words, counted in the question's text (question first, then context); None where the answer is a class."""
    text: str
    """The same, cut out of the raw context; or the class."""
    confidence: float
    """Probability of its start times probability of its end, in the window it was found in; or of the class."""
    null: float | None = None
    """The same for the token that says that there is no answer in that window; None where the answer is a class."""
    right: bool | None = None
    """Whether it is one of the accepted answers (of a span, by SQuAD's exact match); None where none is known."""


class Answerer:
    """A model with its head and tokenizer; `encoder` has the same weights, without the head."""

    def __init__(
        self, encoder: HuggingFaceEncoder, model: PreTrainedModel, length: int, classes: Sequence[str] = ()
    ) -> None:
        """`classes` are those of the head, in its order; none for a span head."""
        self.encoder = encoder
        self.classes = tuple(classes)
        self._model = model
        longest = min(length, encoder.limit or length)
        self._objective = (
            ClassObjective(encoder.word_tokenizer, longest, self.classes)
            if classes
            else SpanObjective(encoder.word_tokenizer, longest)
        )
        self._collator = Collator(self._objective, model, with_padding(encoder.tokenizer))

    def answer(self, questions: Iterable[Question]) -> Iterator[Answer]:
        """The answer to each question, in order: at most 30 whole words of its context, or a class."""
        remaining = iter(questions)
        while chunk := list(islice(remaining, _AT_ONCE)):
            rows = rows_of(self._objective, chunk)
            by_question: list[list[Any]] = [[] for _ in chunk]
            for row, prediction in zip(rows, predict(self._model, self._objective, rows, self._collator), strict=True):
                by_question[row.item].append(prediction)
            yield from map(self._answer, chunk, by_question)

    def windows(self, question: Question) -> list[TrainingRow]:
        """What the model reads to answer a question: the whole, or overlapping parts of a long context."""
        return self._objective.rows(0, question)

    def answers_to(self, questions: Iterable[Question]) -> bool:
        """Whether these can be answered: with a span of their context, or with a class that is an answer of some.

        Questions whose answers are not known are taken on trust.
        """
        some = list(islice(questions, _SAMPLED))
        if not self.classes:
            return all(question.context for question in some)
        known = {answer for question in some for answer in question.answers}
        return not known or not known.isdisjoint(self.classes)

    def _answer(self, question: Question, predictions: Sequence[Any]) -> Answer:
        id, accepted = question.text.id, question.answers
        if self.classes:
            (choice,) = predictions
            right = choice.label in accepted if accepted else None
            return Answer(id, None, choice.label, choice.confidence, right=right)
        guess = best_guess(predictions)
        text = answer_text(question, guess.span)
        right = best(text, accepted).exact == 1 if accepted else None
        return Answer(id, guess.span, text, guess.confidence, guess.null, right)


def answerer_of(
    model: Encoder | str | os.PathLike[str], questions: Iterable[Question] | None = None
) -> Answerer | None:
    """The encoder's own weights with the head it was saved with: of spans or of classes; None where it has neither.

    With `questions`, also None where these cannot be answered: a model of sentiments has no answer to SQuAD.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> answerer_of(TinyEncoder()) is None
        True
    """
    encoder = model if isinstance(model, Encoder) else load_encoder(str(model))
    if not isinstance(encoder, HuggingFaceEncoder):
        return None
    answerer = _answerer(encoder)
    return None if answerer is None or (questions is not None and not answerer.answers_to(questions)) else answerer


def _answerer(encoder: HuggingFaceEncoder) -> Answerer | None:
    length = _about(encoder).get("length", _LENGTH)
    if encoder.span_model is not None:
        return Answerer(encoder, encoder.span_model, length)
    model: Any = load_class_head(encoder)
    if model is None:
        return None
    classes = [str(model.config.id2label[number]) for number in range(model.config.num_labels)]
    if len(classes) < 2:
        return None
    spread(model, "auto" if is_spread(encoder.model) else str(encoder.device))
    return Answerer(encoder, model, length, classes)


def refuse_unfit(encoder: Encoder, questions: Iterable[Question], what: str) -> None:
    """Raise a ModelError where a model that lamina fine-tuned to answer questions cannot answer these.

    `what` names the questions. Models that were tuned for something else are merely silent.
    """
    about = _about(encoder)
    head, labels = about.get("head"), about.get("labels") or ()
    if head == "QuestionAnswering" and not all(question.context for question in islice(questions, 1)):
        raise ModelError(
            f"{encoder.name} answers with a span of a context, and the questions of {what} have none; name a model "
            "made by `lamina finetune --task classify`"
        )
    if head == "SequenceClassification" and about.get("view") is not None:
        known = {answer for question in islice(questions, _SAMPLED) for answer in question.answers}
        if known and known.isdisjoint(labels):
            named = ", ".join(labels[:_NAMED]) + (", ..." if len(labels) > _NAMED else "")
            raise ModelError(
                f"{encoder.name} answers with one of {len(labels)} classes ({named}), and none of them is an answer in "
                f"{what}; ask it what it was fine-tuned on ({about.get('data', {}).get('name', 'its own data')})"
            )


def _about(encoder: Encoder) -> dict[str, Any]:
    """What `lamina finetune` says of the model; nothing where lamina did not make it."""
    folder = folder_of(encoder)
    return read_about(folder) if folder is not None and (folder / ABOUT).is_file() else {}


def load_answerer(folder: str | os.PathLike[str], *, device: str | None = None) -> Answerer:
    """The model of a folder that `lamina finetune` made to answer questions, or any other with a head that can.

    Example:
        >>> answerer = load_answerer("runs/minilm-squad")  # doctest: +SKIP
        >>> next(answerer.answer([question])).text  # doctest: +SKIP
        'Denver Broncos'
    """
    encoder = load_encoder(str(folder), device=device)
    answerer = answerer_of(encoder)
    if answerer is None:
        architectures = (
            encoder.model.config.architectures if isinstance(encoder, HuggingFaceEncoder) else ["word vectors"]
        )
        raise ModelError(
            f"{folder} has no head for spans or classes (it is {', '.join(architectures or ()) or 'no known class'}); "
            "`lamina finetune MODEL --task squad` makes a model that answers questions"
        )
    return answerer


# A fine-tuned model, read back: what it learned, with which head, from which model and by which settings.


@dataclass(frozen=True)
class FinetunedFolder:
    """A folder that `lamina finetune` wrote.

    Example:
        >>> tuned = FinetunedFolder.of(lamina.load_encoder("runs/pos"))  # doctest: +SKIP
        >>> tuned.task, tuned.plan.lr  # doctest: +SKIP
        ('pos', 5e-05)
    """

    folder: Path
    about: Mapping[str, Any]
    """What `lamina.json` says."""
    encoder: HuggingFaceEncoder
    """Its model without the head."""

    @classmethod
    def of(cls, encoder: Encoder) -> FinetunedFolder:
        """The folder that an encoder was loaded from; a ModelError where lamina did not fine-tune it."""
        folder = folder_of(encoder)
        if not isinstance(encoder, HuggingFaceEncoder) or folder is None or not (folder / ABOUT).is_file():
            raise ModelError(
                f"{encoder.name} was not fine-tuned by lamina (there is no {ABOUT} beside its weights), so its task "
                "and the model it came from are not known; name a folder that `lamina finetune` wrote"
            )
        with_padding(encoder.tokenizer)
        return cls(folder, read_about(folder), encoder)

    @property
    def task(self) -> Task:
        """What it was tuned to do."""
        return self.about["task"]

    @property
    def plan(self) -> TrainingPlan:
        """The settings of its training."""
        return TrainingPlan(**self.about["plan"])

    @property
    def window(self) -> int | None:
        """How many words to each side a word could see; None where it could see all."""
        return self.about.get("attention_window")

    @cached_property
    def model(self) -> Any:
        """With its head, on the encoder's device."""
        model: Any = reload(self.folder, self.about["head"])
        return model.requires_grad_(False).to(self.encoder.device)

    @property
    def weights(self) -> dict[str, str]:
        """The hashes of its weights, the head's among them."""
        return weight_hashes(self.folder)

    def is_from(self, encoder: HuggingFaceEncoder, sets: Sets) -> bool:
        """Whether it was made from this very model with these very texts."""
        known = self.about["base"].get("fingerprint"), self.about["data"].get("fingerprint")
        return known == (encoder.fingerprint, sets.fingerprint)

    def objective(self, encoder: HuggingFaceEncoder | None = None) -> Objective:
        """What it learned, with its own labels; of another model of the same kind where one is given."""
        words, tokenizer = (encoder or self.encoder).word_tokenizer, (encoder or self.encoder).tokenizer
        kind, labels, length = PAPER_SETTINGS[self.task].kind, tuple(self.about["labels"]), self.about["length"]
        if kind == "span":
            return SpanObjective(words, length)
        if kind == "class":
            return ClassObjective(words, length, labels)
        if kind == "tags":
            return TagObjective(words, length, self.task, labels)
        return MaskedObjective(words, length, tokenizer, self.plan.seed)

    def learning(self, sets: Sets, encoder: HuggingFaceEncoder | None = None) -> Finetuning:
        """The same task on these texts, of this model or of the one given."""
        # transformers' Trainer is slow to import.
        from lamina.training.finetune import Finetuning

        return Finetuning(encoder or self.encoder, sets, self.task, self.objective(encoder), self.window)
