"""The view Heads: all heads at a glance, one head's card and examples, and lines of attention on a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import PurePath
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from lamina.results import Result
from lamina.results.index import using
from lamina.web.api.schema import ERRORS, Typed, rows_of
from lamina.web.state import AppState, State
from lamina.web.workers import in_worker

if TYPE_CHECKING:
    from lamina.analyses.heads.atlas import HeadMeasure as Measured
    from lamina.analyses.heads.look import Head as HeadPlace
    from lamina.analyses.heads.look import HeadExamples, LinkExample, LinkMiss, LinkQuery, RowLinks, SentenceLinks
    from lamina.analyses.heads.look import HeadOrRollout as Drawn
    from lamina.corpora import Corpus
    from lamina.framework.watch import Weighting
    from lamina.models import Encoder
    from lamina.results.index import SavedResult


router = APIRouter(
    prefix="/heads",
    tags=["heads"],
    responses={code: ERRORS[code] for code in (400, 401, 403, 404, 409, 413, 422, 429, 503, 504)},
)

MOST_TOKENS = 512
"""Per sentence: all attention maps are in memory at once, and grow with the square."""
MOST_HEADS = 6
Weights = Annotated[
    Literal["attention", "norm"],
    Field(description="Attention as it is, or times the norm of the value it moves, rows summing to 1 again."),
]
Head = Annotated[str, Field(description="LAYER-HEAD, from 1.", pattern=r"^[0-9]{1,4}-[0-9]{1,4}$", examples=["3-1"])]
HeadOrRollout = Annotated[
    str,
    Field(
        description="LAYER-HEAD, from 1; `rollout`: all heads of all layers together.",
        pattern=r"^([0-9]{1,4}-[0-9]{1,4}|rollout)$",
        examples=["3-1"],
    ),
]
Model = Annotated[Typed, Field(max_length=1000, examples=["minilm"])]
Sentence = Annotated[Typed, Field(examples=["The old man the boats ."])]
Word = Annotated[Typed, Field(max_length=1000, pattern=r"\S")]


class AtlasRequest(BaseModel):
    """Which model, on which sentence."""

    model: Model
    sentence: Sentence
    weights: Weights = "attention"


class SourceResult(BaseModel):
    """A saved result that numbers come from."""

    analysis: str
    id: str
    name: str
    corpus: str
    created: str


class HeadMeasure(BaseModel):
    """One number per head; a category if `names` is not empty."""

    source: str
    name: str
    title: str
    unit: str
    values: list[list[float | None]]
    """By layer, then head."""
    low: float | None
    high: float | None
    baseline: float | None
    rule: str
    """What gives the baseline."""
    names: list[str]


class MeasureGroup(BaseModel):
    """Measures of one source."""

    source: str
    title: str


class OutstandingHead(BaseModel):
    """A head that stands out on the sentence, and by what."""

    head: str
    why: str
    value: float


class HeadAtlas(BaseModel):
    """All heads, by every available measure."""

    layers: int
    heads: int
    tokens: int
    measures: list[HeadMeasure]
    groups: list[MeasureGroup]
    """Where the measures come from, in their order."""
    outstanding: list[OutstandingHead]
    sources: list[SourceResult]
    missing: list[str]
    """Analyses of which this model has no saved result."""


class LinesRequest(BaseModel):
    """Which heads, on which sentence."""

    model: Model
    sentence: Sentence | Annotated[list[Word], Field(max_length=MOST_TOKENS)]
    """Running text, or the words of a corpus as they are."""
    heads: list[HeadOrRollout] = Field(min_length=1, max_length=MOST_HEADS)
    level: Literal["word", "piece"] = "word"
    weights: Weights = "attention"


class HeadLinks(BaseModel):
    """The strongest links of one head: `counts[i]` of them start at unit i, the strongest first."""

    head: str
    counts: list[int]
    to: list[int]
    weight: list[float]
    rest: list[float]
    """The sum of each unit's weaker links."""
    to_sinks: float
    """The share of its attention that goes to sinks, from all other units."""


class AttentionLines(BaseModel):
    """Words or tokens, and the links between them."""

    tokens: list[str]
    sinks: list[bool]
    """Special tokens, and the first word of a decoder: they get much attention whatever the text."""
    words: list[int]
    """The word each belongs to; -1 for special tokens."""
    heads: list[HeadLinks]


class HeadRequest(BaseModel):
    """Which head of which model."""

    model: Model
    head: Head
    weights: Weights = "attention"


class EvidenceRow(BaseModel):
    """A number with its interval and what it is compared with; null where it was not measured."""

    kind: Literal["finds", "looks", "matters"]
    title: str
    """What was measured; empty where nothing was."""
    unit: str
    value: float | None
    low: float | None
    high: float | None
    beside: float | None
    rule: str
    """What gives the number that it is compared with."""
    note: str
    status: Literal["clear", "open", "null", "untested", "missing"]
    needs: list[str]
    """Analyses that would tell, where nothing was measured."""


class HeadCard(BaseModel):
    """What saved results say about one head; lists are empty if the analysis was not run."""

    head: str
    role: str
    says: str
    """What it does, in one sentence."""
    evidence: list[EvidenceRow]
    """Three rows: what it finds, where it looks, what it matters for."""
    behaviours: list[dict[str, Any]]
    relations: list[dict[str, Any]]
    coreference: list[dict[str, Any]]
    pattern: list[dict[str, Any]]
    shapes: list[dict[str, Any]]
    matters: list[dict[str, Any]]
    neighbours: list[dict[str, Any]]
    points: list[dict[str, Any]]
    sources: list[SourceResult]
    missing: list[str]


@router.post("/atlas")
@in_worker
def atlas(app: State, wanted: AtlasRequest) -> HeadAtlas:
    """One number per head: of this sentence, and of saved results of this model."""
    from lamina.analyses.heads.atlas import result_atlas, sentence_atlas

    app.check_length(wanted.sentence)
    with app.model(wanted.model) as encoder:
        reading = sentence_atlas(encoder, wanted.sentence, most=MOST_TOKENS, weights=wanted.weights)
    entries, results = saved_results(app, encoder, wanted.weights)
    measures = list(reading.measures)
    for entry in entries:
        with using(entry):
            measures += result_atlas(results[entry.analysis], encoder.blocks, encoder.heads)
    return HeadAtlas(
        layers=encoder.blocks,
        heads=encoder.heads,
        tokens=reading.tokens,
        measures=[measure_of(measure) for measure in measures],
        groups=[_group(app, source) for source in dict.fromkeys(measure.source for measure in measures)],
        outstanding=[
            OutstandingHead(head=f"{standout.layer}-{standout.head}", why=standout.why, value=standout.value)
            for standout in reading.outstanding
        ],
        sources=[_source(entry) for entry in entries],
        missing=_missing(results),
    )


@router.post("/lines")
@in_worker
def lines(app: State, wanted: LinesRequest) -> AttentionLines:
    """Attention of some heads on a sentence: each word's strongest links, and the sum of all others."""
    from lamina.analyses.heads.look import ROLLOUT, head_of
    from lamina.analyses.heads.look import sentence_links as linked

    app.check_length(*([wanted.sentence] if isinstance(wanted.sentence, str) else wanted.sentence))
    with app.model(wanted.model) as encoder:
        heads: list[Drawn] = [ROLLOUT if name == ROLLOUT else head_of(encoder, name) for name in wanted.heads]
        attention = linked(
            encoder, wanted.sentence, heads, level=wanted.level, most=MOST_TOKENS, weights=wanted.weights
        )
    return AttentionLines(
        tokens=attention.units.names,
        sinks=attention.sinks.tolist(),
        words=attention.words,
        heads=all_links(wanted.heads, attention),
    )


@router.post("/card")
@in_worker
def card(app: State, wanted: HeadRequest) -> HeadCard:
    """What saved results say about one head: role, relations, what breaks without it, pattern and neighbours."""
    from lamina.analyses.heads.atlas import card as card_of
    from lamina.analyses.heads.atlas import evidence, in_a_sentence
    from lamina.analyses.heads.look import head_of

    with app.model(wanted.model) as encoder:
        layer, head = head_of(encoder, wanted.head)
    entries, results = saved_results(app, encoder, wanted.weights)
    with using(*entries):
        summary = card_of(layer, head, results)
        says, rows = in_a_sentence(summary), evidence(summary)
    tables = {name: rows_of(table) for name, table in summary._asdict().items() if name != "role"}
    return HeadCard(
        head=f"{layer}-{head}",
        role=summary.role,
        says=says,
        evidence=[EvidenceRow(**{name: _plain(value) for name, value in row._asdict().items()}) for row in rows],
        **tables | {"behaviours": [_doing(row) for row in tables["behaviours"]]},
        sources=[_source(entry) for entry in entries],
        missing=_missing(results),
    )


def saved_results(app: AppState, encoder: Encoder, weights: str) -> tuple[list[SavedResult], dict[str, Result]]:
    """The newest result of each analysis of heads, over maps that are weighted so."""
    from lamina.analyses.heads.atlas import READ

    newest: dict[str, SavedResult] = {}
    for entry in app.results.of_model(encoder.fingerprint):
        # Results of older versions know plain attention only; without a head, weights do not matter.
        if entry.analysis in ("ablate", "roles") or entry.parameters.get("weights", "attention") == weights:
            newest.setdefault(entry.analysis, entry)
    ordered = [newest[name] for name in READ if name in newest]
    return ordered, {entry.analysis: app.results.result(entry.id) for entry in ordered}


def _missing(results: dict[str, Result]) -> list[str]:
    from lamina.analyses.heads.atlas import EXPECTED

    return [name for name in EXPECTED if name not in results]


def _doing(row: dict[str, Any]) -> dict[str, Any]:
    """A behaviour with its unit, and the rule that its value is compared with."""
    from lamina.analyses.heads.behaviours import BROADLY, INDUCTION, SHARES

    unit = {BROADLY: "nats of entropy"}.get(
        row["behaviour"], "of attention" if row["behaviour"] in (*SHARES, INDUCTION) else "accuracy"
    )
    beside = {INDUCTION: "the same tokens without a copy"} | dict.fromkeys(SHARES, "uniform attention")
    rules = {"rule": "simple rule" if unit == "accuracy" else "over", "beside": beside.get(row["behaviour"], "it")}
    return row | {"unit": unit, **rules}


def _source(entry: SavedResult) -> SourceResult:
    return SourceResult(
        analysis=entry.analysis,
        id=entry.id,
        name=entry.name,
        corpus=f"{entry.corpus.get('name', '')} {entry.corpus.get('split', '')}".strip(),
        created=entry.created,
    )


def _group(app: AppState, source: str) -> MeasureGroup:
    from lamina.analyses.heads.atlas import SENTENCE

    return MeasureGroup(source=source, title="On this sentence" if source == SENTENCE else app.words_of(source)[0])


def measure_of(measure: Measured) -> HeadMeasure:
    """A measure of all heads, as JSON has it."""
    values = [[_number(value) for value in row] for row in measure.values.tolist()]
    known = [value for row in values for value in row if value is not None]
    return HeadMeasure(
        source=measure.source,
        name=measure.name,
        title=measure.title,
        unit=measure.unit,
        values=values,
        low=min(known, default=None),
        high=max(known, default=None),
        baseline=_number(measure.baseline),
        rule=measure.rule,
        names=list(measure.names),
    )


def all_links(heads: Sequence[str], attention: SentenceLinks) -> list[HeadLinks]:
    """The links of some heads, as JSON has them."""
    columns = zip(heads, attention.links, attention.to_sinks, strict=True)
    return [_links(head, links, to_sinks) for head, links, to_sinks in columns]


def _links(head: str, links: RowLinks, to_sinks: float) -> HeadLinks:
    return HeadLinks(
        head=head,
        to_sinks=round(to_sinks, 4),
        counts=links.counts.tolist(),
        to=links.to.tolist(),
        weight=[round(weight, 4) for weight in links.weight.tolist()],
        rest=[round(rest, 4) for rest in links.rest.tolist()],
    )


def _plain(value: Any) -> Any:
    """Numbers of tables as JSON has them; anything else as it is."""
    return _number(float(value)) if isinstance(value, float) else value


def _number(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None


examples_router = APIRouter(
    prefix="/heads",
    tags=["heads"],
    responses={code: ERRORS[code] for code in (400, 401, 403, 404, 409, 413, 422, 429, 503, 504)},
)

SENTENCES = 200
"""Sentences at the start of the corpus that examples are chosen from."""
SHORTEST, LONGEST = 4, 40
"""Words of the shortest and the longest such sentence, so that it can be read at a glance."""
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
    word: int
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
    """Number of sentences that were searched."""
    limits: str
    """Which sentences of the corpus, in words."""
    examples: list[HeadExampleCard]
    targets: int
    """Words that the head was asked about in these sentences; 0 where no link is right or wrong."""
    hits: int
    """Of these, for how many it chooses the right word."""
    misses: list[HeadMissCard]
    """Of the others those with the largest weight on a wrong word, at most one per sentence."""
    to_sinks: float
    """The share of its attention in these sentences that goes to sinks, which are no examples."""


@examples_router.post("/examples")
@in_worker
def examples(app: State, wanted: HeadExamplesRequest) -> ExamplesOfHead:
    """Five sentences of the server's first corpus (dev) with the head's strongest links, and five where it fails.

    It fails where it chooses a wrong word. The first head of a model takes seconds: all heads are looked at in one
    pass.
    """
    from lamina.analyses.heads.look import head_of, queries_by, queries_for
    from lamina.corpora import load_corpus

    with app.model(wanted.model) as encoder:
        place = head_of(encoder, wanted.head)
    entries, results = saved_results(app, encoder, wanted.weights)
    with using(*entries):
        size = (encoder.blocks, encoder.heads)
        sought = queries_for(wanted.relation, results, *size) if wanted.relation else queries_by(results, *size)
    corpus = load_corpus(app.settings.corpora[0], split="dev", first=SENTENCES)
    by_head, count = _LOOKED.examples(encoder, corpus, sought, wanted.weights)
    kind, head_examples = sought[place], by_head[place]
    return ExamplesOfHead(
        head=wanted.head,
        sought=kind.in_words(),
        relation=kind.relation,
        attends=kind.attends,
        corpus=PurePath(corpus.name).name,
        sentences=count,
        limits=f"of the first {SENTENCES} sentences those of {SHORTEST} to {LONGEST} words",
        examples=[_example(example) for example in head_examples.best],
        targets=head_examples.targets,
        hits=head_examples.hits,
        misses=[_miss(miss) for miss in head_examples.misses],
        to_sinks=round(head_examples.to_sinks, 4),
    )


class _Looked:
    """The last sets of examples; by fingerprint, so that a model that is no longer used can go."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sets: dict[tuple, tuple[dict[HeadPlace, HeadExamples], int]] = {}

    def examples(
        self, encoder: Encoder, corpus: Corpus, sought: dict[HeadPlace, LinkQuery], weights: Weighting
    ) -> tuple[dict[HeadPlace, HeadExamples], int]:
        """What every head does in the corpus, and the number of sentences."""
        from lamina.analyses.heads.look import examples_of

        key = (encoder.fingerprint, corpus.fingerprint, tuple(sought.items()), weights)
        # One at a time, without holding the model: its other requests do not wait for the corpus.
        with self._lock:
            if key not in self._sets:
                texts = [text for text in corpus if SHORTEST <= len(text.words) <= LONGEST]
                self._sets[key] = examples_of(encoder, texts, sought, weights=weights), len(texts)
            # The one used last comes last.
            latest = self._sets[key] = self._sets.pop(key)
            for oldest in list(self._sets)[:-_SETS]:
                del self._sets[oldest]
        return latest


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
        word=miss.word,
        chosen=miss.chosen,
        right=miss.right,
        weight=round(miss.weight, 4),
        right_weight=round(miss.right_weight, 4),
        relation=miss.relation,
    )
