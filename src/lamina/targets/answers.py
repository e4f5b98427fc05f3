"""What a model with a span head answers, while its parts are changed."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from lamina.corpora.questions.question import Question, answer_text
from lamina.errors import CorpusError, ModelError, SpanError
from lamina.models import Encoder
from lamina.models.running.batching import InputRow
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.running.task_heads import HeadOnStates
from lamina.stats.units import unit_of
from lamina.targets.target import QA, QA_EXACT, Target, TargetScores
from lamina.tasks.task import best
from lamina.training import objective
from lamina.training.answering import Answerer, answerer_of
from lamina.training.provenance import folder_of, is_among, used_texts
from lamina.training.spans import best_spans
from lamina.types import Span

Metric = Literal["qa", "qa_em"]
SEEN_QUESTIONS = "questions that the model was fine-tuned on"


class AnswersTarget(Target):
    """F1 (`qa`) or exact match (`qa_em`) of the answers to questions about a context, as SQuAD scores them.

    Questions are read and answered as `lamina finetune` does: long contexts in overlapping windows, the answer being
    the best span of all of them.
    """

    def __init__(
        self, head: HeadOnStates, questions: Sequence[Question], metric: Metric = QA, *, seed: int = 0
    ) -> None:
        """`seed` is of the twin's head."""
        self.name = metric
        self._head, self._questions, self._seed = head, questions, seed
        answerer = span_answerer(head.encoder)
        self.skipped = Counter()
        self._readable: list[Question] = []
        self._windows: list[objective.TrainingRow] = []
        for question in questions:
            try:
                windows = answerer.windows(question)
            except SpanError:
                self.skipped["questions that leave no room for their context"] += 1
                continue
            self._windows += [row._replace(item=len(self._readable)) for row in windows]
            self._readable.append(question)
        if not self._readable:
            raise CorpusError(f"{metric}: there is no question that {head.encoder.name} can read")
        self.rows = [as_row(window) for window in self._windows]
        self.owners = np.array([window.item for window in self._windows])
        self.layers = (head.encoder.blocks,)
        self.items = tuple(question.text.id for question in self._readable)
        unit = unit_of(question.text for question in self._readable)
        self.units = tuple(unit.of(question.text) for question in self._readable)
        self._known: dict[tuple[int, int, int], float] = {}

    def read(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[np.ndarray, "row kept"]:
        """See `Target.read`: the score of the window's best span, its first word and one past its last."""
        with torch.no_grad():
            starts, ends = self._head([self.rows[row] for row in rows], states[self.layers[0]])
        answers = best_spans([self._windows[row] for row in rows], starts, ends)
        return np.array([(answer.score, answer.span.start, answer.span.end) for answer in answers])

    def score(self, values: Float[np.ndarray, "row kept"]) -> TargetScores:
        """See `Target.score`; an item is a question, answered by the best of its windows (of equals, the first)."""
        order = np.lexsort((np.arange(len(values)), -values[:, 0], self.owners))
        first = order[np.searchsorted(self.owners[order], np.arange(len(self.items)))]
        spans = values[first, 1:].astype(int)
        hits = np.array([self._right(number, *span) for number, span in enumerate(spans.tolist())])
        return TargetScores(hits, np.ones(len(hits)))

    def loss(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[Tensor, " row"]:
        """See `Target.loss`: cross-entropy of start and end: the first token where the answer is elsewhere."""
        windows = [self._windows[row] for row in rows]
        logits = self._head([self.rows[row] for row in rows], states[self.layers[0]])
        sizes = torch.tensor([len(window.ids) for window in windows], device=logits[0].device)
        padding = torch.arange(logits[0].shape[1], device=logits[0].device) >= sizes[:, None]
        gold = torch.tensor([window.labels for window in windows], device=logits[0].device)
        both = [
            cross_entropy(window.masked_fill(padding, -torch.inf), gold[:, side], reduction="none")
            for side, window in enumerate(logits)
        ]
        return (both[0] + both[1]) / 2

    def of(self, encoder: HuggingFaceEncoder) -> AnswersTarget:
        """See `Target.of`."""
        twin = copy.copy(self)
        twin._head = self._head.on(encoder, self._seed)
        return twin

    def _right(self, number: int, start: int, end: int) -> float:
        if (number, start, end) not in self._known:
            question = self._readable[number]
            # Where a window was not read, there is no span.
            score = best(answer_text(question, Span(start, end)), question.answers) if end > start else None
            exact = self.name == QA_EXACT
            self._known[number, start, end] = 0.0 if score is None else float(score.exact if exact else score.f1)
        return self._known[number, start, end]


def answerable(encoder: HuggingFaceEncoder, questions: Iterable[Question]) -> tuple[list[Question], int]:
    """Questions with a context and an answer that the model was not fine-tuned on, and on how many of those it was."""
    folder = folder_of(encoder)
    used = frozenset() if folder is None else used_texts(folder)
    known = {question.text.id: question for question in questions if question.context and question.answers}
    unseen = [question for question in known.values() if not is_among(question.text, used)]
    return unseen, len(known) - len(unseen)


def as_row(row: objective.TrainingRow) -> InputRow:
    """A row of fine-tuning as encoders read it.

    Example:
        >>> ids = np.arange(3)
        >>> as_row(objective.TrainingRow(7, ids, ids, ids)).text
        7
    """
    whole = slice(0, len(row.ids))
    return InputRow(row.item, row.ids, row.types, row.words, whole, whole)


def has_span_head(encoder: Encoder) -> bool:
    """Whether the model was saved with a head that answers with a span."""
    return isinstance(encoder, HuggingFaceEncoder) and encoder.span_model is not None


def span_answerer(encoder: Encoder) -> Answerer:
    """The model with its span head; a ModelError where it has none."""
    answerer = answerer_of(encoder) if has_span_head(encoder) else None
    if answerer is None:
        raise ModelError(
            f"{encoder.name} has no head that answers with a span of a context; `lamina finetune MODEL --task squad` "
            "gives it one"
        )
    return answerer


def random_answerer(encoder: HuggingFaceEncoder, seed: int) -> Answerer:
    """The same architecture with new random weights, those of the span head included."""
    model: Any = encoder.span_model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh: Any = type(model)(copy.deepcopy(model.config))
    twin = encoder.random_twin(seed)
    twin.span_model = fresh.to(encoder.device, model.dtype).eval().requires_grad_(False)
    return span_answerer(twin)
