"""What a model with a span head answers when the context of a question is perturbed."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch

from lamina.analyses.behaviour.perturb_items import PerturbedItems
from lamina.analyses.behaviour.perturb_targets import PerturbationPlan, in_words
from lamina.analyses.behaviour.perturbations import Lexicon, PerturbableText
from lamina.corpora.questions import Question
from lamina.encoders import Encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.errors import ModelError
from lamina.progress import progress
from lamina.tasks.scoring import best
from lamina.training.answering import Answerer, answerer_of
from lamina.types import Span, Text

QA = "qa"
_POSITIONS = "positions not shifted: questions are answered in windows, each at the model's first positions"


def has_span_head(encoder: Encoder) -> bool:
    """Whether the model was saved with a head that answers with a span."""
    return isinstance(encoder, HuggingFaceEncoder) and encoder.span_model is not None


def span_answerer(encoder: Encoder) -> Answerer:
    """The model with its span head; a ModelError where it has none."""
    found = answerer_of(encoder) if has_span_head(encoder) else None
    if found is None:
        raise ModelError(
            f"{encoder.name} has no head that answers with a span of a context; `lamina finetune MODEL --task squad` "
            "gives it one"
        )
    return found


def random_answerer(encoder: HuggingFaceEncoder, seed: int) -> Answerer:
    """The same architecture with new random weights, those of the span head included."""
    model: Any = encoder.span_model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh: Any = type(model)(copy.deepcopy(model.config))
    twin = encoder.random_twin(seed)
    twin.span_model = fresh.to(encoder.device, model.dtype).eval().requires_grad_(False)
    return span_answerer(twin)


def answer_items(
    answerer: Answerer, questions: Sequence[Question], drawing: PerturbationPlan, lexicon: Lexicon | None
) -> Iterator[PerturbedItems]:
    """F1 of the answers, the context perturbed sentence by sentence and as it is, words joined by one space in both."""
    written = [_context(question, lexicon) for question in questions]
    units = tuple(question.text.doc or question.text.id for question in questions)
    as_it_is = [
        _perturbed(question, list(range(len(own.words)))) for question, own in zip(questions, written, strict=True)
    ]
    clean = _f1(answerer, as_it_is, f"answers of {answerer.encoder.name}")
    for each in drawing.plan:
        if each.how == "positions":
            drawing.note({_POSITIONS: len(questions)})
            continue
        perturbation, orders = drawing.orders(each, written, "contexts")
        if not orders:
            continue
        moved = [_perturbed(questions[at], order) for at, own in orders.items() for order in own]
        told = _f1(answerer, moved, f"answers of {answerer.encoder.name}, {in_words(perturbation)}")
        kept = list(orders)
        one = np.ones(len(kept))
        names = tuple(questions[at].text.id for at in kept)
        own = told.reshape(len(kept), -1).mean(1)
        # No guess has an F1 worth naming.
        yield PerturbedItems(
            QA, perturbation, names, tuple(units[at] for at in kept), own, one, clean[kept], one, chance=0.0
        )


def _context(question: Question, lexicon: Lexicon | None) -> PerturbableText:
    """The words of the context; sentences as the question's text says."""
    segment = question.text.segments[1]
    words = question.text.words[segment.start : segment.end]
    spans = sorted(edge.span.shift(-segment.start) for edge in question.text.edges.get("sentence", ()))
    # Between two sentences nothing may be left over.
    whole = [0, *(span.end for span in spans[:-1]), len(words)] if spans else [0, len(words)]
    parts = tuple(Span(start, end) for start, end in pairwise(whole) if start < end)
    return PerturbableText(question.text.id, words, parts, tags=lexicon.tags(words) if lexicon else None)


def _perturbed(question: Question, order: Sequence[int]) -> Question:
    """The question about a context whose words are in another order, with what is accepted as it was."""
    asked, context = question.text.segments
    words = [question.text.words[context.start + word] for word in order]
    ends = list(accumulate(len(word) + 1 for word in words))
    offsets = tuple((end - len(word) - 1, end - 1) for word, end in zip(words, ends, strict=True))
    said = (*question.text.words[: asked.end], *words)
    text = Text(
        question.text.id, said, (asked, Span(asked.end, len(said))), {}, question.text.doc, question.text.origin
    )
    return replace(question, text=text, context=" ".join(words), offsets=offsets)


def _f1(answerer: Answerer, questions: Sequence[Question], what: str) -> np.ndarray:
    with progress(what, len(questions)) as advance:
        found = []
        for question, answer in zip(questions, answerer.answer(questions), strict=True):
            found.append(best(answer.text, question.answers).f1)
            advance()
    return np.array(found)
