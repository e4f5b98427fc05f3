"""Examples of what a head does, in a corpus: where it does it most clearly, and where it fails."""

from __future__ import annotations

from pathlib import PurePath
from threading import Lock
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from lamina.results.index import using
from lamina.web.api.heads import HeadRequest, saved_results
from lamina.web.api.schema import ERRORS, Typed
from lamina.web.state import State

if TYPE_CHECKING:
    from lamina.analyses.heads.examples import Head, HeadExamples, LinkExample, LinkMiss, LinkQuery
    from lamina.corpora import Corpus
    from lamina.framework.watch import Weighting
    from lamina.models import Encoder

router = APIRouter(
    prefix="/heads", tags=["heads"], responses={code: ERRORS[code] for code in (400, 401, 403, 404, 413, 422, 429, 503)}
)

SENTENCES = 200
"""Sentences of the corpus that examples come from ..."""
SHORTEST, LONGEST = 4, 40
"""... with so many words: what can be read at a glance."""
_SETS = 8
"""Sets of examples kept in memory, one per model, kind of maps and relation asked for."""


class HeadExamplesRequest(HeadRequest):
    """Which head of which model, and examples of what."""

    relation: Annotated[
        Typed,
        Field(
            max_length=100,
            description="A dependency that the head is asked for; empty for what it is known for.",
            examples=["obj"],
        ),
    ] = ""


class HeadExampleCard(BaseModel):
    """A sentence of the corpus, and the head's strongest link in it."""

    id: str
    words: list[str]
    source: int
    """The word that attends."""
    target: int
    """The word attended to."""
    weight: float
    relation: str
    """The dependency between the two words in the corpus; empty if there is none."""


class HeadMissCard(BaseModel):
    """A sentence of the corpus, and a word in it for which the head chooses a wrong one."""

    id: str
    words: list[str]
    asked: int
    """The word that the head is asked about."""
    chosen: int
    """The word that it chooses."""
    right: int
    weight: float
    """Between the word asked about and the one chosen."""
    right_weight: float
    """Between the word asked about and the right one."""
    relation: str
    """The dependency between the word asked about and the right one in the corpus; empty if there is none."""


class ExamplesOfHead(BaseModel):
    """The sentences in which a head does most clearly what it is known for, or asked for, and where it fails."""

    head: str
    sought: str
    """Which links count, in words."""
    relation: str
    """The dependency that is looked for; empty for other links."""
    attends: bool
    """Whether the word asked about attends; otherwise it is attended to."""
    corpus: str
    sentences: int
    """So many were looked at."""
    limits: str
    """Which sentences of the corpus, in words."""
    examples: list[HeadExampleCard]
    asked: int
    """Words that the head was asked about in these sentences; 0 where no link is right or wrong."""
    found: int
    """Of these, for how many it chooses the right word."""
    misses: list[HeadMissCard]
    """Of the others those with the largest weight on a wrong word, at most one per sentence."""


@router.post("/examples")
def examples(app: State, wanted: HeadExamplesRequest) -> ExamplesOfHead:
    """Five sentences of the server's first corpus (dev) with the head's strongest links, and five where it fails.

    It fails where it chooses a wrong word. The first head of a model takes seconds: all heads are looked at in one
    pass.
    """
    from lamina.analyses.heads.examples import queries_by, queries_for
    from lamina.analyses.heads.look import head_of
    from lamina.corpora import load_corpus

    with app.model(wanted.model) as encoder:
        place = head_of(encoder, wanted.head)
    entries, results = saved_results(app, encoder, wanted.weights)
    with using(*entries):
        size = (encoder.blocks, encoder.heads)
        sought = queries_for(wanted.relation, results, *size) if wanted.relation else queries_by(results, *size)
    corpus = load_corpus(app.settings.corpora[0], split="dev", limit=SENTENCES)
    shown, count = _LOOKED.examples(encoder, corpus, sought, wanted.weights)
    kind, own = sought[place], shown[place]
    return ExamplesOfHead(
        head=wanted.head,
        sought=kind.in_words(),
        relation=kind.relation,
        attends=kind.attends,
        corpus=PurePath(corpus.name).name,
        sentences=count,
        limits=f"of the first {SENTENCES} sentences those of {SHORTEST} to {LONGEST} words",
        examples=[_example(each) for each in own.best],
        asked=own.targets,
        found=own.hits,
        misses=[_miss(each) for each in own.misses],
    )


class _Looked:
    """The last sets of examples; by fingerprint, so that a model that is no longer used can go."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sets: dict[tuple, tuple[dict[Head, HeadExamples], int]] = {}

    def examples(
        self, encoder: Encoder, corpus: Corpus, sought: dict[Head, LinkQuery], weights: Weighting
    ) -> tuple[dict[Head, HeadExamples], int]:
        """What every head does in the corpus, and the number of sentences."""
        from lamina.analyses.heads.examples import examples_of

        key = (encoder.fingerprint, corpus.fingerprint, tuple(sought.items()), weights)
        # One at a time, without holding the model: its other requests do not wait for the corpus.
        with self._lock:
            if key not in self._sets:
                texts = [text for text in corpus if SHORTEST <= len(text.words) <= LONGEST]
                self._sets[key] = examples_of(encoder, texts, sought, weights=weights), len(texts)
            # The one used last comes last.
            found = self._sets[key] = self._sets.pop(key)
            for oldest in list(self._sets)[:-_SETS]:
                del self._sets[oldest]
        return found


_LOOKED = _Looked()


def _example(example: LinkExample) -> HeadExampleCard:
    return HeadExampleCard(
        id=example.text.id,
        words=list(example.text.words),
        source=example.source,
        target=example.target,
        weight=round(example.weight, 4),
        relation=example.relation,
    )


def _miss(miss: LinkMiss) -> HeadMissCard:
    return HeadMissCard(
        id=miss.text.id,
        words=list(miss.text.words),
        asked=miss.word,
        chosen=miss.chosen,
        right=miss.right,
        weight=round(miss.weight, 4),
        right_weight=round(miss.right_weight, 4),
        relation=miss.relation,
    )
