"""The sentence lens: a sentence, and one of its words, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING

from fastapi import APIRouter
from pydantic import BaseModel, Field

from lamina.errors import InputError, ModelError, ResultError, SpanError
from lamina.results.index import using
from lamina.web.api.schema import ERRORS, Typed
from lamina.web.state import AppState, BusyError, State, TooLongError

if TYPE_CHECKING:
    from lamina.analyses.heads.look import StrongestPartners
    from lamina.analyses.layers.trace.trace import Beliefs, MarkedTarget, SentenceTracer, TracedTask
    from lamina.analyses.words.neighbours import WordIndex
    from lamina.corpora import Corpus
    from lamina.models import Encoder


MOST_WORDS = 512
"""Per sentence: each word is a button with its bars."""
MOST_MARKED = 32


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


class WordRequest(SentenceRequest):
    """A word of a sentence."""

    word: int = Field(ge=0, lt=MOST_WORDS)


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
    """The probes' answer for one target; the label with the highest mean probability comes first."""

    task: str
    spans: list[tuple[int, int]]
    """First word and one past the last."""
    labels: list[LabelBelief]


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
    beliefs: list[Belief]
    interesting: int
    """The word to start with: the one whose belief changes most from layer to layer."""


class WordHead(BaseModel):
    """A head's largest weight between the word and another one."""

    layer: int
    head: int
    word: int
    """The other one."""
    weight: float


class WordHeads(BaseModel):
    """All heads, the strongest first."""

    incoming: list[WordHead]
    """From another word to this one."""
    outgoing: list[WordHead]
    """From this word to another one."""


class WordView(BaseModel):
    """A word at every layer."""

    path: list[tuple[float, float]]
    """Its position at each layer."""
    others: list[list[tuple[float, float]]]
    """At each layer, the positions of all words of the sentence."""
    explained: tuple[float, float]
    """The share of all variance that the two axes show."""
    attended: WordHeads | None
    """None if the model has no heads, or the text is longer than its limit."""


class NearestWord(BaseModel):
    """A word of the corpus near the one asked about."""

    word: str
    sentence: str
    similarity: float


class NearestWords(BaseModel):
    """At each layer the words nearest by cosine, the nearest first."""

    corpus: str
    sentences: int
    words: int
    layers: list[list[NearestWord]]


router = APIRouter(
    prefix="/lens", tags=["lens"], responses={code: ERRORS[code] for code in (400, 401, 403, 404, 413, 422, 429, 503)}
)

LABELS = 3
"""Labels per word, the strongest; marked spans have all."""
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
def lens(app: State, request: TracedSentence) -> SentenceView:
    """What the trained probes believe: part of speech of every word, and whatever is marked."""
    from lamina.analyses.layers.trace.trace import over_seeds
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
        beliefs=[belief for beliefs in believed for belief in beliefs_of(beliefs)],
        interesting=chosen,
    )


@router.post("/words")
def words(app: State, request: SentenceText) -> SentenceWords:
    """The words of a sentence; no model is needed, so nothing is waited for."""
    return SentenceWords(words=list(words_of(app, request)))


@router.post("/word")
def word(app: State, request: WordRequest) -> WordView:
    """One word at every layer in two dimensions, and the attention to it and from it."""
    from lamina.analyses.heads.look import attended
    from lamina.analyses.layers.trace.trace import encode_sentence, token_paths, word_vectors

    words = words_of(app, request)
    _check_word(words, request.word)
    with app.model(request.model) as encoder:
        encoding = encode_sentence(encoder, words, ("states", "maps") if encoder.has_maps else ("states",))
    paths = token_paths(word_vectors(encoding, len(words)))
    partners = attended(encoding, request.word)
    places = [[(round(x, 5), round(y, 5)) for x, y in layer] for layer in paths.places.tolist()]
    return WordView(
        path=[layer[request.word] for layer in places],
        others=places,
        explained=paths.explained,
        attended=None
        if partners is None
        else WordHeads(incoming=_heads(partners.incoming), outgoing=_heads(partners.outgoing)),
    )


@router.post("/neighbours")
def neighbours(app: State, request: WordRequest) -> NearestWords:
    """The words nearest to one, layer by layer, among the first sentences of the server's first corpus (dev)."""
    from lamina.analyses.layers.trace.trace import encode_sentence, word_vectors
    from lamina.analyses.words.neighbours import nearest_in_corpus
    from lamina.corpora import load_corpus

    words = words_of(app, request)
    _check_word(words, request.word)
    corpus = load_corpus(app.settings.corpora[0], split="dev", limit=SENTENCES)
    with app.model(request.model) as encoder:
        vectors = word_vectors(encode_sentence(encoder, words), len(words))
    index = _index_in_turn(encoder, corpus)
    nearest = nearest_in_corpus(index, vectors[:, request.word], NEIGHBOURS)
    return NearestWords(
        corpus=corpus.name,
        sentences=len(index.sentences),
        words=len(index.places),
        layers=[[NearestWord(**neighbour._asdict()) for neighbour in layer] for layer in nearest],
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
    from lamina.analyses.layers.trace.trace import MarkedTarget
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
    from lamina.analyses.layers.trace.trace import SentenceTracer

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
    from lamina.analyses.layers.trace.trace import (
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
    from lamina.analyses.layers.trace.trace import EVERY_WORD
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
    """What probes make of each target; of words that nobody marked, the strongest labels alone."""
    from lamina.analyses.layers.trace.trace import EVERY_WORD

    for target, spans in enumerate(beliefs.words.tolist()):
        probabilities = beliefs.probabilities[:, target]
        order = (-probabilities.mean(0)).argsort(kind="stable").tolist()
        listed = order[:LABELS] if beliefs.task in EVERY_WORD else order
        labels = [
            LabelBelief(label=beliefs.labels[index], probabilities=probabilities[:, index].round(4).tolist())
            for index in listed
        ]
        yield Belief(task=beliefs.task, spans=[(start, end) for start, end in spans], labels=labels)


def _heads(strongest: StrongestPartners) -> list[WordHead]:
    heads = [
        WordHead(layer=layer, head=head, word=partner, weight=round(weight, 5))
        for layer, (weights, partners) in enumerate(
            zip(strongest.weight.tolist(), strongest.partner.tolist(), strict=True), start=1
        )
        for head, (weight, partner) in enumerate(zip(weights, partners, strict=True), start=1)
        if partner >= 0
    ]
    return sorted(heads, key=lambda head: -head.weight)
