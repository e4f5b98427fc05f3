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
from lamina.web.api.heads import Head, HeadLinks, HeadMeasure, HeadOrRollout, Weights, links_of, measure_of
from lamina.web.api.schema import ERRORS, Typed
from lamina.web.api.sentence import Belief, TracedSentence, beliefs_of, marked_of, tracer_of, words_of
from lamina.web.state import State, TooLongError

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
_KEPT = 2
"""Models whose parts are kept in memory."""

router = APIRouter(
    prefix="/interventions",
    tags=["interventions"],
    responses={code: ERRORS[code] for code in (400, 401, 403, 404, 413, 422, 429, 503)},
)


class InterventionRequest(TracedSentence):
    """A sentence, and the parts of the model that are switched off."""

    heads: list[Head] = Field(default=[], max_length=MOST_OFF)
    """LAYER-HEAD, from 1."""
    layers: list[Annotated[int, Field(ge=1, le=10_000)]] = Field(default=[], max_length=MOST_OFF)
    """From 1: their blocks hand on what they read."""
    how: Literal["zero", "mean"] = "zero"
    """What a head hands on instead: zeros, or its mean over the tokens of the sentence."""
    question: Typed = Field("", max_length=10_000)
    """For a model that answers with a span: a question about the sentence."""
    shown: list[HeadOrRollout] = Field(default=[], max_length=MOST_SHOWN)
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
    said: list[TokenGuess] | None
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
def switched(app: State, asked: InterventionRequest) -> Intervention:
    """Beliefs, attention and answers with some heads and blocks switched off, beside those of the whole model."""
    from lamina.analyses.cause.effects import disabled
    from lamina.analyses.heads.look import head_of
    from lamina.types import Text

    words = words_of(app, asked)
    app.check_length(asked.question)
    marked = [marked_of(mark) for mark in asked.marked]
    with app.model(asked.model) as encoder:
        tokens = len(encoder.tokenize(Text("typed", words)).ids)
        _check_size(encoder, tokens)
        parts = _parts(encoder)
        heads = [head_of(encoder, head) for head in asked.heads]
        edit = disabled(parts, words, heads=heads, layers=asked.layers, how=asked.how)
        tracer = tracer_of(app, encoder)
        told = []
        for change in (nullcontext(), parts.applied(edit)):
            with change:
                told.append(_told(encoder, tracer, asked, words, marked))
        units = _units(encoder, words)
    return Intervention(words=list(words), units=units, tokens=tokens, before=told[0], after=told[1])


@lru_cache(maxsize=_KEPT)
def _parts(encoder: Encoder) -> Interventions:
    """Finding the parts of a model takes several runs, so they are kept."""
    from lamina.models.interventions.interventions import Interventions

    return Interventions(encoder, heads=False)


def _told(
    encoder: Encoder,
    tracer: SentenceTracer | None,
    asked: InterventionRequest,
    words: Sequence[str],
    marked: Sequence[MarkedTarget],
) -> ModelReading:
    from lamina.analyses.heads.atlas import sentence_atlas
    from lamina.analyses.heads.look import ROLLOUT, head_of, sentence_links
    from lamina.analyses.layers.trace.trace import over_seeds

    believed = [] if tracer is None else over_seeds(tracer.beliefs(words, marked))
    measures, links = [], []
    if encoder.has_maps:
        found = sentence_atlas(encoder, asked.sentence, most=MOST_TOKENS, weights=asked.weights)
        measures = [measure_of(each) for each in found.measures]
    if asked.shown:
        drawn: list[Drawn] = [ROLLOUT if each == ROLLOUT else head_of(encoder, each) for each in asked.shown]
        linked = sentence_links(encoder, asked.sentence, drawn, level="word", most=MOST_TOKENS, weights=asked.weights)
        links = [links_of(each, own) for each, own in zip(asked.shown, linked.links, strict=True)]
    return ModelReading(
        beliefs=[belief for each in believed for belief in beliefs_of(each)],
        measures=measures,
        links=links,
        said=_said(encoder, asked),
        answer=_answer(encoder, asked),
    )


def _said(encoder: Encoder, asked: InterventionRequest) -> list[TokenGuess] | None:
    """The most likely pieces after a text, or in its gap."""
    from lamina.corpora.suites.cloze import SLOT
    from lamina.models.language.language_model import has_language_model, language_model
    from lamina.models.language.slots import Gap, top

    if not has_language_model(encoder):
        return None
    model, gaps = language_model(encoder), list(SLOT.finditer(asked.sentence))
    if len(gaps) > 1:
        raise InputError(f"the sentence has {len(gaps)} gaps; one [MASK], [Y] or ___ is filled at a time")
    if not gaps and model.kind == "masked":
        return None
    before, after = (
        (asked.sentence[: gaps[0].start()], asked.sentence[gaps[0].end() :]) if gaps else (f"{asked.sentence} ", "")
    )
    found = next(top(model, [Gap("typed", before, after)], asked.top))
    return [TokenGuess(piece=each.piece, probability=round(exp(each.logprob), _DIGITS)) for each in found]


def _answer(encoder: Encoder, asked: InterventionRequest) -> SpanAnswer | None:
    from lamina.corpora.question_sets import typed_question
    from lamina.targets.answers import has_span_head, span_answerer

    if not asked.question.strip() or not has_span_head(encoder):
        return None
    questions = typed_question(asked.question, asked.sentence)
    found = next(span_answerer(encoder).answer(questions.questions()))
    return SpanAnswer(text=found.text, confidence=round(found.confidence, _DIGITS))


def _units(encoder: Encoder, words: Sequence[str]) -> list[str]:
    from lamina.analyses.heads.look import units_of
    from lamina.types import Text

    text = Text("typed", tuple(words))
    return units_of(encoder, text, encoder.tokenize(text), "word").names


def _check_size(encoder: Encoder, tokens: int) -> None:
    most = min(MOST_TOKENS, encoder.limit)
    if tokens > most:
        raise TooLongError(f"the sentence has {tokens:,} tokens of {encoder.name}; at most {most} are taken here")
