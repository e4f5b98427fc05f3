"""The sentence lens: what every layer makes of a sentence, and of one of its words."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING

from fastapi import APIRouter

from lamina.errors import InputError, ModelError, ResultError, SpanError
from lamina.web.api.answers import ERRORS
from lamina.web.api.lens_answers import (
    MOST_WORDS,
    Belief,
    Head,
    Heads,
    Label,
    Lens,
    Mark,
    MarkedSentence,
    Neighbour,
    Neighbours,
    OneWord,
    Sentence,
    TaskCard,
    Word,
)
from lamina.web.desk import BusyError, Desk, TheDesk, TooLongError

if TYPE_CHECKING:
    from lamina.analyses.probing.typed import Asked, Beliefs, Marked, SentenceTracer
    from lamina.analyses.sentence.attended import Strongest
    from lamina.analyses.sentence.nearest import WordIndex
    from lamina.corpora import Corpus
    from lamina.encoders import Encoder

router = APIRouter(
    prefix="/lens", tags=["lens"], responses={code: ERRORS[code] for code in (400, 401, 403, 404, 413, 422, 429)}
)

LABELS = 3
"""Shown of every word, the strongest; of what is marked, all."""
NEIGHBOURS = 8
"""Of a word, at each layer."""
SENTENCES = 500
"""Of the corpus, among whose words neighbours are looked for."""
_TRACERS, _INDICES = 3, 2
"""Kept in memory: probes, one a model, and words of a corpus, at most 192 MB each."""
_INDEXING = Lock()
_WAITING = BoundedSemaphore(8)
"""Requests that wait while a corpus is read; all others would soon wait behind them."""


@router.post("")
def lens(desk: TheDesk, asked: MarkedSentence) -> Lens:
    """What the trained probes believe: part of speech of every word, and whatever is marked."""
    from lamina.analyses.probing.typed import over_seeds
    from lamina.types import Text

    words = _words(desk, asked)
    marked = [_marked(mark) for mark in asked.marked]
    with desk.model(asked.model) as encoder:
        tracer = _tracer_of(desk, encoder)
        told = [] if tracer is None else over_seeds(tracer.beliefs(words, marked))
        chosen = _interesting(encoder, words, told)
    return Lens(
        words=list(words),
        tokens=len(encoder.tokenize(Text("typed", words)).ids),
        layers=encoder.layers,
        tasks=[] if tracer is None else [_card(name, task) for name, task in tracer.tasks.items()],
        seeds=0 if tracer is None else len(tracer.seeds),
        beliefs=[belief for each in told for belief in _beliefs(each)],
        interesting=chosen,
    )


@router.post("/word")
def word(desk: TheDesk, asked: OneWord) -> Word:
    """One word's way through the layers in two dimensions, and the heads that look at it and from it."""
    from lamina.analyses.sentence.attended import attended
    from lamina.analyses.sentence.encoding import encode_sentence, word_vectors
    from lamina.analyses.sentence.paths import token_paths

    words = _words(desk, asked)
    _check_word(words, asked.word)
    with desk.model(asked.model) as encoder:
        made = encode_sentence(encoder, words, ("states", "maps") if encoder.heads else ("states",))
    paths = token_paths(word_vectors(made, len(words)))
    found = attended(made, asked.word)
    places = [[(round(x, 5), round(y, 5)) for x, y in layer] for layer in paths.places.tolist()]
    return Word(
        path=[layer[asked.word] for layer in places],
        others=places,
        explained=paths.explained,
        attended=None if found is None else Heads(incoming=_heads(found.incoming), outgoing=_heads(found.outgoing)),
    )


@router.post("/neighbours")
def neighbours(desk: TheDesk, asked: OneWord) -> Neighbours:
    """The words nearest to one, layer by layer, among the first sentences of the server's first corpus (dev)."""
    from lamina.analyses.sentence.encoding import encode_sentence, word_vectors
    from lamina.analyses.sentence.nearest import nearest_in_corpus
    from lamina.corpora import load_corpus

    words = _words(desk, asked)
    _check_word(words, asked.word)
    corpus = load_corpus(desk.settings.corpora[0], split="dev", limit=SENTENCES)
    with desk.model(asked.model) as encoder:
        vectors = word_vectors(encode_sentence(encoder, words), len(words))
    index = _index_in_turn(encoder, corpus)
    found = nearest_in_corpus(index, vectors[:, asked.word], NEIGHBOURS)
    return Neighbours(
        corpus=corpus.name,
        sentences=len(index.sentences),
        words=len(index.places),
        layers=[[Neighbour(**each._asdict()) for each in layer] for layer in found],
    )


def _words(desk: Desk, asked: Sentence) -> tuple[str, ...]:
    from lamina.corpora.words import split_words

    desk.check_length(asked.sentence)
    words = split_words(asked.sentence).words
    if not words:
        raise InputError("the sentence has no words; type some")
    if len(words) > MOST_WORDS:
        raise TooLongError(f"the sentence has {len(words):,} words; the lens takes at most {MOST_WORDS}")
    return words


def _check_word(words: tuple[str, ...], word: int) -> None:
    if word >= len(words):
        raise SpanError(f"there is no word {word}; the sentence has {len(words)}, counted from 0")


def _marked(mark: Mark) -> Marked:
    from lamina.analyses.probing.typed import Marked
    from lamina.types import Span

    if (mark.first2 is None) != (mark.last2 is None):
        raise SpanError("a second span needs both its first and its last word")
    second = None if mark.first2 is None or mark.last2 is None else Span(mark.first2, mark.last2 + 1)
    return Marked(mark.task, Span(mark.first, mark.last + 1), second)


def _tracer_of(desk: Desk, encoder: Encoder) -> SentenceTracer | None:
    """The newest saved probes that were trained on this very model."""
    for entry in desk.shelf.of_model(encoder.fingerprint):
        if entry.analysis == "probe":
            tracer = _tracer(encoder, entry.folder, str(entry.head["provenance"].get("created")))
            if tracer is not None:
                return tracer
    return None


@lru_cache(maxsize=_TRACERS)
def _tracer(encoder: Encoder, folder: Path, _made: str) -> SentenceTracer | None:
    """Read once as long as the folder holds what was made then; None where it holds no probes to trace with."""
    from lamina.analyses.probing.typed import SentenceTracer

    try:
        return SentenceTracer(encoder, folder)
    except (ModelError, ResultError):
        return None


def _index_in_turn(encoder: Encoder, corpus: Corpus) -> WordIndex:
    """Made once, and not in the model's turn: whoever types a sentence meanwhile does not wait for the corpus."""
    if not _WAITING.acquire(blocking=False):
        raise BusyError("the corpus is still being read for others; try again in a moment")
    try:
        with _INDEXING:
            return _index(encoder, corpus)
    finally:
        _WAITING.release()


@lru_cache(maxsize=_INDICES)
def _index(encoder: Encoder, corpus: Corpus) -> WordIndex:
    from lamina.analyses.sentence.nearest import index_words

    return index_words(encoder, corpus)


def _interesting(encoder: Encoder, words: tuple[str, ...], told: list[Beliefs]) -> int:
    """The word whose part of speech is believed to change most; without such probes, the one that moves farthest."""
    from lamina.analyses.probing.typed import UNASKED, most_changed
    from lamina.analyses.sentence.encoding import encode_sentence, word_vectors
    from lamina.analyses.sentence.paths import farthest_travelled

    for each in told:
        if each.task in UNASKED:
            first = each.words[most_changed(each.probabilities[:, : len(words)]), 0, 0]
            return int(first)
    return farthest_travelled(word_vectors(encode_sentence(encoder, words), len(words)), words)


def _card(name: str, asked: Asked) -> TaskCard:
    from lamina.analyses.probing.typed import UNASKED
    from lamina.tasks import TASKS

    # A name may have its corpus in brackets behind it.
    known = next((task for task in TASKS if task.name == name.partition(" (")[0]), None)
    return TaskCard(
        name=name,
        title=known.title if known else name,
        about=known.what if known else "",
        arity=asked.arity,
        unasked=name in UNASKED,
        labels=len(asked.labels),
    )


def _beliefs(told: Beliefs) -> Iterator[Belief]:
    from lamina.analyses.probing.typed import UNASKED

    for target, spans in enumerate(told.words.tolist()):
        own = told.probabilities[:, target]
        order = (-own.mean(0)).argsort(kind="stable").tolist()
        shown = order[:LABELS] if told.task in UNASKED else order
        labels = [Label(label=told.labels[at], probabilities=own[:, at].round(4).tolist()) for at in shown]
        yield Belief(task=told.task, spans=[(start, end) for start, end in spans], labels=labels)


def _heads(strongest: Strongest) -> list[Head]:
    heads = [
        Head(layer=layer, head=head, word=partner, weight=round(weight, 5))
        for layer, (weights, partners) in enumerate(
            zip(strongest.weight.tolist(), strongest.partner.tolist(), strict=True), start=1
        )
        for head, (weight, partner) in enumerate(zip(weights, partners, strict=True), start=1)
        if partner >= 0
    ]
    return sorted(heads, key=lambda each: -each.weight)
