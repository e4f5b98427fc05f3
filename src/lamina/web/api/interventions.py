"""A typed sentence with heads and blocks switched off: beliefs, attention and answers, with and without the change."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache
from math import exp
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from lamina.errors import InputError
from lamina.web.api.behaviour import TokenGuess
from lamina.web.api.heads import Head, HeadLinks, HeadMeasure, HeadOrRollout, Weights, all_links, measure_of
from lamina.web.api.schema import ERRORS, Typed
from lamina.web.api.sentence import Belief, TracedSentence, beliefs_of, marked_of, tracer_of, words_of
from lamina.web.state import State, TooLongError
from lamina.web.workers import in_worker

if TYPE_CHECKING:
    from lamina.analyses.heads.look import HeadOrRollout as Drawn
    from lamina.analyses.layers.trace.trace import MarkedTarget, SentenceTracer
    from lamina.models import Encoder
    from lamina.models.interventions.interventions import Interventions

MOST_TOKENS = 256
"""Per text: the model runs several times, and all maps are in memory at once."""
MOST_OFF = 2048
"""Heads, and layers, of one request."""
MOST_SHOWN = 6
"""Heads whose links are shown."""
MOST_TOP = 50
_DIGITS = 6
_CACHED_MODELS = 2
"""Models whose parts are kept in memory."""

router = APIRouter(
    prefix="/interventions",
    tags=["interventions"],
    responses={code: ERRORS[code] for code in (400, 401, 403, 404, 409, 413, 422, 429, 503, 504)},
)


class InterventionRequest(TracedSentence):
    """A sentence, and the parts of the model that are switched off."""

    heads: list[Head] = Field(default=[], max_length=MOST_OFF)
    """LAYER-HEAD, from 1."""
    layers: list[Annotated[int, Field(ge=1, le=10_000)]] = Field(default=[], max_length=MOST_OFF)
    """From 1: their blocks are skipped, so that the hidden states pass through unchanged."""
    how: Literal["zero", "mean"] = "zero"
    """What replaces the output of a head: zeros, or its mean over the tokens of the sentence."""
    question: Typed = Field("", max_length=10_000)
    """For a model that answers with a span: a question about the sentence."""
    linked: list[HeadOrRollout] = Field(default=[], max_length=MOST_SHOWN)
    """Heads whose links are given, those of all heads together as `rollout`."""
    weights: Weights = "attention"
    top: int = Field(10, ge=1, le=MOST_TOP)


class SpanAnswer(BaseModel):
    """What a model with a span head answers."""

    text: str
    confidence: float
    """Probability of its start times probability of its end."""


class ModelReading(BaseModel):
    """What the model makes of the sentence."""

    beliefs: list[Belief]
    """Of its saved probes, under every layer; empty where there are none."""
    measures: list[HeadMeasure]
    """One number per head: where it looks in the sentence; empty where the model has no maps."""
    links: list[HeadLinks]
    """Between words, of the heads that were asked for."""
    guesses: list[TokenGuess] | None
    """What a language model says next (causal), or in the gap of the sentence, written [MASK], [Y] or ___; null where
    it has no language-model head, or a masked one has no gap to fill."""
    answer: SpanAnswer | None
    """Null where nothing was asked, or the model has no span head."""


class Intervention(BaseModel):
    """A sentence with and without the change."""

    words: list[str]
    units: list[str]
    """Words and special tokens, between which links are."""
    tokens: int
    """Of the model, special ones included."""
    before: ModelReading
    """By the whole model."""
    after: ModelReading
    """With the parts switched off."""


@router.post("")
@in_worker
def switched(app: State, request: InterventionRequest) -> Intervention:
    """Beliefs, attention and answers with some heads and blocks switched off, beside those of the whole model."""
    from lamina.analyses.cause.effects import disabled
    from lamina.analyses.heads.look import head_of
    from lamina.types import Text

    words = words_of(app, request)
    app.check_length(request.question)
    marked = [marked_of(mark) for mark in request.marked]
    with app.model(request.model) as encoder:
        tokens = len(encoder.tokenize(Text("typed", words)).ids)
        _check_size(encoder, tokens)
        parts = _parts(encoder)
        heads = [head_of(encoder, head) for head in request.heads]
        edit = disabled(parts, words, heads=heads, layers=request.layers, how=request.how)
        tracer = tracer_of(app, encoder)
        readings = []
        for change in (nullcontext(), parts.applied(edit)):
            with change:
                readings.append(_reading(encoder, tracer, request, words, marked))
        units = _units(encoder, words)
    return Intervention(words=list(words), units=units, tokens=tokens, before=readings[0], after=readings[1])


@lru_cache(maxsize=_CACHED_MODELS)
def _parts(encoder: Encoder) -> Interventions:
    """Finding the parts of a model takes several runs, so they are cached."""
    from lamina.models.interventions.interventions import Interventions

    return Interventions(encoder, heads=False)


def _reading(
    encoder: Encoder,
    tracer: SentenceTracer | None,
    request: InterventionRequest,
    words: Sequence[str],
    marked: Sequence[MarkedTarget],
) -> ModelReading:
    from lamina.analyses.heads.atlas import sentence_atlas
    from lamina.analyses.heads.look import ROLLOUT, head_of, sentence_links
    from lamina.analyses.layers.trace.trace import over_seeds

    believed = [] if tracer is None else over_seeds(tracer.beliefs(words, marked))
    measures, links = [], []
    if encoder.has_maps:
        atlas = sentence_atlas(encoder, request.sentence, most=MOST_TOKENS, weights=request.weights)
        measures = [measure_of(measure) for measure in atlas.measures]
    if request.linked:
        drawn: list[Drawn] = [ROLLOUT if head == ROLLOUT else head_of(encoder, head) for head in request.linked]
        attention = sentence_links(
            encoder, request.sentence, drawn, level="word", most=MOST_TOKENS, weights=request.weights
        )
        links = all_links(request.linked, attention)
    return ModelReading(
        beliefs=[belief for beliefs in believed for belief in beliefs_of(beliefs)],
        measures=measures,
        links=links,
        guesses=_guesses(encoder, request),
        answer=_answer(encoder, request),
    )


def _guesses(encoder: Encoder, request: InterventionRequest) -> list[TokenGuess] | None:
    """The most likely tokens after a text, or in its gap."""
    from lamina.corpora.suites.cloze import SLOT
    from lamina.models.language.language_model import has_language_model, language_model
    from lamina.models.language.slots import Gap, top

    if not has_language_model(encoder):
        return None
    model, gaps = language_model(encoder), list(SLOT.finditer(request.sentence))
    if len(gaps) > 1:
        raise InputError(f"the sentence has {len(gaps)} gaps; one [MASK], [Y] or ___ is filled at a time")
    if not gaps and model.kind == "masked":
        return None
    before, after = (
        (request.sentence[: gaps[0].start()], request.sentence[gaps[0].end() :])
        if gaps
        else (f"{request.sentence} ", "")
    )
    guesses = next(top(model, [Gap("typed", before, after)], request.top))
    return [TokenGuess(piece=guess.piece, probability=round(exp(guess.logprob), _DIGITS)) for guess in guesses]


def _answer(encoder: Encoder, request: InterventionRequest) -> SpanAnswer | None:
    from lamina.corpora.question_sets import typed_question
    from lamina.targets.answers import has_span_head, span_answerer

    if not request.question.strip() or not has_span_head(encoder):
        return None
    questions = typed_question(request.question, request.sentence)
    answer = next(span_answerer(encoder).answer(questions.questions()))
    return SpanAnswer(text=answer.text, confidence=round(answer.confidence, _DIGITS))


def _units(encoder: Encoder, words: Sequence[str]) -> list[str]:
    from lamina.analyses.heads.look import units_of
    from lamina.types import Text

    text = Text("typed", tuple(words))
    return units_of(encoder, text, encoder.tokenize(text), "word").names


def _check_size(encoder: Encoder, tokens: int) -> None:
    most = min(MOST_TOKENS, encoder.limit)
    if tokens > most:
        raise TooLongError(f"the sentence has {tokens:,} tokens of {encoder.name}; at most {most} are taken here")
