"""The sentence lens: a sentence, and one of its words, layer by layer; the same with heads and blocks switched off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import lru_cache
from math import exp
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from lamina.errors import InputError, ModelError, ResultError, SpanError
from lamina.results.index import using
from lamina.web.api.behaviour import TokenGuess
from lamina.web.api.heads import Head, HeadLinks, HeadMeasure, HeadOrRollout, Weights, all_links, measure_of
from lamina.web.api.schema import ERRORS, Typed
from lamina.web.state import AppState, BusyError, State, TooLongError
from lamina.web.workers import in_worker

if TYPE_CHECKING:
    from lamina.analyses.heads.look import HeadOrRollout as Drawn
    from lamina.analyses.heads.look import StrongestPartners
    from lamina.analyses.layers.trace import Beliefs, MarkedTarget, SentenceTracer, TracedTask
    from lamina.analyses.words.neighbours import WordIndex
    from lamina.corpora import Corpus
    from lamina.models import Encoder
    from lamina.models.interventions.interventions import Interventions


MOST_WORDS = 512
"""Per sentence: each word is a button with its bars."""
MOST_MARKED = 32
MOST_NEAR = 32
"""Words whose neighbours are asked for at once."""


class SentenceText(BaseModel):
    """A sentence, whatever the model."""

    sentence: Typed = Field(max_length=1_000_000)


class SentenceRequest(SentenceText):
    """A sentence and a model."""

    model: Typed = Field(max_length=1000)


class SentenceWords(BaseModel):
    """A sentence cut into words, as every analysis of a typed sentence counts them."""

    words: list[str]


class MarkedSpan(BaseModel):
    """Words that are asked about; a second span for tasks of pairs. Both ends are included."""

    task: Typed = Field(max_length=100)
    first: int = Field(ge=0, lt=MOST_WORDS)
    last: int = Field(ge=0, lt=MOST_WORDS)
    first2: int | None = Field(None, ge=0, lt=MOST_WORDS)
    last2: int | None = Field(None, ge=0, lt=MOST_WORDS)


class TracedSentence(SentenceRequest):
    """A sentence with the spans that are asked about."""

    marked: list[MarkedSpan] = Field(default_factory=list, max_length=MOST_MARKED)


class WordsRequest(SentenceRequest):
    """Some words of a sentence."""

    words: list[Annotated[int, Field(ge=0, lt=MOST_WORDS)]] = Field(min_length=1, max_length=MOST_NEAR)


class TaskCard(BaseModel):
    """A question that there are probes for."""

    name: str
    title: str
    about: str
    arity: int
    """Spans it asks about."""
    unasked: bool
    """Whether it is answered for every word without being asked."""
    labels: int


class LabelBelief(BaseModel):
    """One label's probability under the probes P(0)..P(L)."""

    label: str
    probabilities: list[float]


class Belief(BaseModel):
    """The probes' answer for one target; the label that the last probe finds most probable comes first."""

    task: str
    spans: list[tuple[int, int]]
    """First word and one past the last."""
    labels: list[LabelBelief]
    """Of words that are not marked: the most probable ones, and all that lead at a layer."""
    leads: list[int]
    """For each layer, which of the labels leads."""
    decided: int | None
    """The layer from which on the final label stays and leads by the margin; null where it never does."""


class SentenceView(BaseModel):
    """A sentence with the probes' answers."""

    words: list[str]
    tokens: int
    """Of the model, special ones included."""
    layers: int
    tasks: list[TaskCard]
    """Empty where no saved probes fit this model."""
    seeds: int
    """Number of probes that probabilities are averaged over."""
    margin: float
    """How far a label leads the next one where a word counts as decided."""
    beliefs: list[Belief]
    interesting: int
    """The word to start with: the one whose belief changes most from layer to layer."""


class WordPartners(BaseModel):
    """For each word and head (the heads of block 1 first) the other word with the largest weight."""

    weight: list[list[float]]
    word: list[list[int]]
    """The other word; -1 where there is none."""


class WordAttention(BaseModel):
    """Attention between words, by head; to a word itself and to sinks it is left out."""

    blocks: int
    heads: int
    incoming: WordPartners
    """From another word to each word; nothing for a sink."""
    outgoing: WordPartners
    """From each word to another one."""
    sinks: list[int]
    """Words that are sinks: the first one of a decoder. Special tokens always are."""
    to_sinks: list[float]
    """The share of each word's attention that goes to sinks, over all heads."""


class SentenceReading(BaseModel):
    """Every word at every layer, and the attention between words."""

    places: list[list[tuple[float, float]]]
    """At each layer, the position of each word."""
    explained: tuple[float, float]
    """The share of all variance that the two axes show."""
    attention: WordAttention | None
    """None if the model has no heads, or the text is longer than its limit."""


class NearestWord(BaseModel):
    """A word of the corpus near the one asked about."""

    word: str
    sentence: str
    similarity: float


class WordNeighbours(BaseModel):
    """At each layer the words nearest by cosine, the nearest first."""

    word: int
    layers: list[list[NearestWord]]


class NearestWords(BaseModel):
    """The neighbours of some words, in the order asked for."""

    corpus: str
    sentences: int
    words: int
    neighbours: list[WordNeighbours]


router = APIRouter(
    prefix="/lens",
    tags=["lens"],
    responses={code: ERRORS[code] for code in (400, 401, 403, 404, 409, 413, 422, 429, 503, 504)},
)

LABELS = 3
"""Labels per word, the most probable ones; marked spans have all."""
NEIGHBOURS = 8
"""Neighbours per word and layer."""
SENTENCES = 500
"""Sentences of the corpus that neighbours come from."""
_TRACERS, _INDICES = 3, 2
"""Kept in memory: probes, one set per model, and words of a corpus, at most 192 MB each."""
_INDEXING = Lock()
_WAITING = BoundedSemaphore(8)
"""Most requests that wait while a corpus is read."""


@router.post("")
@in_worker
def lens(app: State, request: TracedSentence) -> SentenceView:
    """What the trained probes believe: part of speech of every word, and whatever is marked."""
    from lamina.analyses.layers.trace import MARGIN, over_seeds
    from lamina.types import Text

    words = words_of(app, request)
    marked = [marked_of(mark) for mark in request.marked]
    with app.model(request.model) as encoder:
        tracer = tracer_of(app, encoder)
        believed = [] if tracer is None else over_seeds(tracer.beliefs(words, marked))
        chosen = _interesting(encoder, words, believed)
    return SentenceView(
        words=list(words),
        tokens=len(encoder.tokenize(Text("typed", words)).ids),
        layers=encoder.layers,
        tasks=[] if tracer is None else [_card(name, task) for name, task in tracer.tasks.items()],
        seeds=0 if tracer is None else len(tracer.seeds),
        margin=MARGIN,
        beliefs=[belief for beliefs in believed for belief in beliefs_of(beliefs)],
        interesting=chosen,
    )


@router.post("/words")
def words(app: State, request: SentenceText) -> SentenceWords:
    """The words of a sentence; no model is needed, so nothing is waited for."""
    return SentenceWords(words=list(words_of(app, request)))


@router.post("/reading")
@in_worker
def reading(app: State, request: SentenceRequest) -> SentenceReading:
    """All words at every layer in two dimensions, and the attention between them: what is shown when one is hovered."""
    from lamina.analyses.heads.look import attended
    from lamina.analyses.layers.trace import encode_sentence, token_paths, word_vectors

    words = words_of(app, request)
    with app.model(request.model) as encoder:
        encoding = encode_sentence(encoder, words, ("states", "maps") if encoder.has_maps else ("states",))
    paths = token_paths(word_vectors(encoding, len(words)))
    between = attended(encoding, causal=encoder.causal_maps)
    return SentenceReading(
        places=[[(round(x, 5), round(y, 5)) for x, y in layer] for layer in paths.places.tolist()],
        explained=paths.explained,
        attention=None
        if between is None
        else WordAttention(
            blocks=encoder.blocks,
            heads=encoder.heads,
            incoming=_partners(between.incoming),
            outgoing=_partners(between.outgoing),
            sinks=between.sinks,
            to_sinks=[round(share, 4) for share in between.to_sinks.tolist()],
        ),
    )


@router.post("/neighbours")
@in_worker
def neighbours(app: State, request: WordsRequest) -> NearestWords:
    """The words nearest to some, layer by layer, among the first sentences of the server's first corpus (dev)."""
    from lamina.analyses.layers.trace import encode_sentence, word_vectors
    from lamina.analyses.words.neighbours import nearest_in_corpus
    from lamina.corpora import load_corpus

    words = words_of(app, request)
    for word in request.words:
        _check_word(words, word)
    corpus = load_corpus(app.settings.corpora[0], split="dev", first=SENTENCES)
    with app.model(request.model) as encoder:
        vectors = word_vectors(encode_sentence(encoder, words), len(words))
    index = _index_in_turn(encoder, corpus)
    return NearestWords(
        corpus=corpus.name,
        sentences=len(index.sentences),
        words=len(index.places),
        neighbours=[
            WordNeighbours(
                word=word,
                layers=[
                    [NearestWord(**neighbour._asdict()) for neighbour in layer]
                    for layer in nearest_in_corpus(index, vectors[:, word], NEIGHBOURS)
                ],
            )
            for word in dict.fromkeys(request.words)
        ],
    )


def words_of(app: AppState, request: SentenceText) -> tuple[str, ...]:
    """The words of a typed sentence; too many are refused."""
    from lamina.corpora.tokenising import split_words

    app.check_length(request.sentence)
    words = split_words(request.sentence).words
    if not words:
        raise InputError("the sentence has no words; type some")
    if len(words) > MOST_WORDS:
        raise TooLongError(f"the sentence has {len(words):,} words; the lens takes at most {MOST_WORDS}")
    return words


def _check_word(words: tuple[str, ...], word: int) -> None:
    if word >= len(words):
        raise SpanError(f"word {word} is not in the sentence, which has {len(words)}, counted from 0")


def marked_of(mark: MarkedSpan) -> MarkedTarget:
    """What a request marks, as probes are asked about it."""
    from lamina.analyses.layers.trace import MarkedTarget
    from lamina.types import Span

    if (mark.first2 is None) != (mark.last2 is None):
        raise SpanError("a second span needs both its first and its last word")
    second = None if mark.first2 is None or mark.last2 is None else Span(mark.first2, mark.last2 + 1)
    return MarkedTarget(mark.task, Span(mark.first, mark.last + 1), second)


def tracer_of(app: AppState, encoder: Encoder) -> SentenceTracer | None:
    """The newest saved probes of exactly this model."""
    for entry in app.results.of_model(encoder.fingerprint):
        if entry.analysis == "probe":
            with using(entry):
                tracer = _tracer(encoder, entry.folder, entry.saved)
            if tracer is not None:
                return tracer
    return None


@lru_cache(maxsize=_TRACERS)
def _tracer(encoder: Encoder, folder: Path, _saved: int) -> SentenceTracer | None:
    """Cached as long as the folder holds the same result; None if it has no usable probes."""
    from lamina.analyses.layers.trace import SentenceTracer

    try:
        return SentenceTracer(encoder, folder)
    except (ModelError, ResultError):
        return None


def _index_in_turn(encoder: Encoder, corpus: Corpus) -> WordIndex:
    """Made once, without holding the model, so that other requests do not wait for the corpus."""
    if not _WAITING.acquire(blocking=False):
        raise BusyError("the corpus is still being read for others; try again in a moment")
    try:
        with _INDEXING:
            return _index(encoder, corpus)
    finally:
        _WAITING.release()


@lru_cache(maxsize=_INDICES)
def _index(encoder: Encoder, corpus: Corpus) -> WordIndex:
    from lamina.analyses.words.neighbours import index_words

    return index_words(encoder, corpus)


def _interesting(encoder: Encoder, words: tuple[str, ...], believed: list[Beliefs]) -> int:
    """The word whose predicted part of speech changes most; without probes, the word that moves farthest."""
    from lamina.analyses.layers.trace import (
        EVERY_WORD,
        encode_sentence,
        farthest_travelled,
        most_changed,
        word_vectors,
    )

    for beliefs in believed:
        if beliefs.task in EVERY_WORD:
            first = beliefs.words[most_changed(beliefs.probabilities[:, : len(words)]), 0, 0]
            return int(first)
    return farthest_travelled(word_vectors(encode_sentence(encoder, words), len(words)), words)


def _card(name: str, traced: TracedTask) -> TaskCard:
    from lamina.analyses.layers.trace import EVERY_WORD
    from lamina.tasks import TASKS

    # A name may have its corpus in brackets behind it.
    known = next((task for task in TASKS if task.name == name.partition(" (")[0]), None)
    return TaskCard(
        name=name,
        title=known.title if known else name,
        about=known.what if known else "",
        arity=traced.arity,
        unasked=name in EVERY_WORD,
        labels=len(traced.labels),
    )


def beliefs_of(beliefs: Beliefs) -> Iterator[Belief]:
    """What probes make of each target; of words that are not marked, only the strongest labels."""
    from lamina.analyses.layers.trace import EVERY_WORD, decided_at

    for target, spans in enumerate(beliefs.words.tolist()):
        probabilities = beliefs.probabilities[:, target]
        leads = probabilities.argmax(1).tolist()
        order = (-probabilities[-1]).argsort(kind="stable").tolist()
        if beliefs.task in EVERY_WORD:
            order = [index for place, index in enumerate(order) if place < LABELS or index in leads]
        labels = [
            LabelBelief(label=beliefs.labels[index], probabilities=probabilities[:, index].round(4).tolist())
            for index in order
        ]
        yield Belief(
            task=beliefs.task,
            spans=[(start, end) for start, end in spans],
            labels=labels,
            leads=[order.index(index) for index in leads],
            decided=decided_at(probabilities),
        )


def _partners(strongest: StrongestPartners) -> WordPartners:
    return WordPartners(
        weight=[[round(weight, 4) for weight in word.tolist()] for word in strongest.weight.flatten(1)],
        word=strongest.partner.flatten(1).tolist(),
    )


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

interventions_router = APIRouter(
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


@interventions_router.post("")
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
    from lamina.analyses.layers.trace import over_seeds

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
