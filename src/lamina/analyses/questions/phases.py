"""The phases of question answering as numbers: similarities of roles by layer, for right and wrong answers apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd

from lamina.analyses.declaration import Overview, Table, Tables, analysis
from lamina.analyses.estimate import Cost, Estimator, time_call
from lamina.analyses.findings import cell
from lamina.analyses.inputs import QuestionSet
from lamina.analyses.questions.answering import SILENT, Judged, judged
from lamina.analyses.questions.failure import CONFIDENCE, FAILURE, LENGTH, Cases, failure_rows, time_layer
from lamina.analyses.questions.findings import failure_findings, role_findings
from lamina.analyses.questions.streaming import ALL, Given, Turn, Watcher, memberships
from lamina.analyses.settings import Samples, Seed, Setting, Twin
from lamina.corpora import Questions
from lamina.corpora.question_sets import questions_from
from lamina.corpora.questions import Question
from lamina.encoders import Encoder
from lamina.errors import CorpusError
from lamina.progress import progress
from lamina.results import Finding, Result
from lamina.training.answering import Answerer, answerer_of
from lamina.training.provenance import refuse_seen

PHASES = ("model", "layer", "group", "measure", "count", "value", "low", "high")
"""Columns of `phases.csv`."""
_AT_ONCE = 64
"""Questions held in memory."""
_TIMED = 8
"""Questions clustered to estimate how long it takes."""
_SHOWN = ("within_question", "within_support", "question_nearer_support", "answer_apart", "ami_sentences", "ami_roles")
"""Measures that the terminal shows."""


class _Plan(NamedTuple):
    """Which questions are looked at more closely, drawn before anything is encoded."""

    size: int
    documents: int
    clustered: frozenset[int]
    places: dict[int, int]
    """Number of a question -> where its vectors are kept."""


class _Known:
    """What is known of the questions whose vectors are kept."""

    def __init__(self, size: int) -> None:
        self.wrong, self.confidence, self.length = np.zeros(size, bool), np.zeros(size), np.zeros(size)
        self.documents = np.zeros(size, int)
        self._numbers: dict[str, int] = {}

    def note(self, turn: Turn, given: Given) -> None:
        if turn.place is not None:
            self.wrong[turn.place], self.confidence[turn.place] = not given.right, given.confidence
            self.length[turn.place] = len(turn.question.text.segments[0])
            self.documents[turn.place] = self._numbers.setdefault(turn.document, len(self._numbers))


@analysis(
    title="The phases of answering",
    question=(
        "At which layers do question, support and answer come together or move apart, and can failures be predicted "
        "early?"
    ),
    method=(
        "We take mean cosines within and between groups of words, minus the layer's anisotropy; how far the answer "
        "lies from all other words; and the agreement of k-means clusters with sentences, roles and entity types. "
        "Shuffled roles and the random-weights twin are measured the same way; intervals resample documents. A "
        "logistic regression on one layer's vectors, trained and scored on different documents, predicts wrong answers."
    ),
    cites=("van Aken et al. 2019",),
    reads=QuestionSet(),
    version=2,  # bootstrap weights follow from a text's id, no longer from the order of texts
    tables={
        "phases": Table("One row per model, layer, group of answers and measure.", PHASES),
        "failure": Table(
            "One row per model, layer and feature that predicts wrong answers; only for a model that answers.",
            FAILURE,
            optional=True,
        ),
    },
    chapter="answering",
    report={"samples": 300, "clustered": 40},
    example="lamina phases runs/squad --data xquad_en --split all --out results/phases",
)
def phases(
    encoder: Encoder,
    questions: Questions,
    *,
    samples: Samples = 1000,
    confident: Annotated[float, Setting("Probability from which an answer counts as confident.", min=0, max=1)] = 0.5,
    clustered: Annotated[
        int, Setting("Questions whose words are clustered, drawn at random; 0 for none.", min=0)
    ] = 100,
    predicted: Annotated[
        int, Setting("Questions used to predict failures, drawn at random; 0 for none.", min=0)
    ] = 2000,
    twin: Twin = True,
    seed: Seed = 0,
) -> Tables:
    """How question, support and answer relate at each layer, and whether failures can be predicted early.

    Best with a model that answers questions: a folder of `lamina finetune --task squad|hotpot|babi`. Then right and
    wrong answers are measured apart, and `failure` says how well wrong ones can be predicted from one layer's vectors.

    Questions stream: memory does not grow with their number. Beside the model are shuffled roles (`NAME (shuffled
    roles)`) and the random-weights twin (`NAME (random)`). Intervals (95 %) resample documents; where there is only
    one, questions. `samples` is also the number of permutations of each test.

    Example:
        >>> import lamina
        >>> from lamina.testing import TinyEncoder
        >>> asked = lamina.load_questions("stories", "test", limit=4)
        >>> result = lamina.phases(TinyEncoder(), asked, samples=10, clustered=0)
        >>> sorted(set(result.tables["phases"]["model"]))
        ['tiny', 'tiny (random)', 'tiny (shuffled roles)']
    """
    refuse_seen(encoder, questions)
    answerer = answerer_of(encoder)
    plan = _plan(questions, clustered, predicted if answerer else 0, seed)
    encoders = [encoder, *([encoder.random_twin(seed)] if twin and encoder.blocks else [])]
    settings = {"samples": samples, "seed": seed, "by_document": plan.documents > 1, "places": len(plan.places)}
    watchers = [Watcher(each, **settings, control=each is encoder) for each in encoders]
    known = _Known(len(plan.places))
    with progress(f"phases of {encoder.name}", plan.size) as advance:
        for turns in _turns(questions, answerer, plan, confident, known):
            for watcher in watchers:
                watcher.watch(turns)
            advance(len(turns))
    lines = [line for watcher in watchers for line in watcher.lines()]
    tables = {"phases": pd.DataFrame(lines, columns=list(PHASES))}
    if answerer and plan.places:
        names = [each.name for each in encoders]
        tables["failure"] = _failure(names, watchers, known, samples, seed)
    skipped = {reason: count for watcher in watchers for reason, count in watcher.skipped.items()}
    return Tables(tables, skipped | _left_out(plan, answerer))


@phases.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Whether the answer stands apart, the question is nearer its support, and failures can be predicted."""
    yield from role_findings(result)
    yield from failure_findings(result)


@phases.shows
def _overview(result: Result) -> Iterable[Overview]:
    """The main measures by layer."""
    table, name = result.tables["phases"], result.provenance.model["name"]
    own = table[(table["model"] == name) & (table["group"] == ALL)]
    there = set(own["measure"])
    shown = [f"{measure}_adjusted" if f"{measure}_adjusted" in there else measure for measure in _SHOWN]
    shown = [measure for measure in shown if measure in there]
    values = dict(zip(zip(own["layer"], own["measure"], strict=True), own["value"], strict=True))
    rows = [
        (int(layer), *(cell(values.get((layer, measure), float("nan"))) for measure in shown))
        for layer in sorted(set(own["layer"]))
    ]
    yield Overview(f"{name}: phases by layer", ("layer", *shown), rows)


@phases.costs
def _cost(
    estimator: Estimator,
    encoder: Encoder,
    questions: Questions,
    *,
    samples: int,
    clustered: int,
    predicted: int,
    twin: bool,
    seed: int,
    **_: object,
) -> Cost:
    """Reading grows with the questions; clustering and predicting failures use a limited number of them."""
    encoders = 1 + (twin and encoder.blocks > 0)
    answers = answerer_of(encoder) is not None
    reading = estimator.trial(passes=encoders + answers, settings={"clustered": 0, "predicted": 0})
    plan = _plan(questions, clustered, predicted if answers else 0, seed)
    seconds = _time_clustering(encoder, questions, seed) * encoders * len(plan.clustered)
    if plan.places:
        layer = time_layer(
            2 * encoder.width, len(plan.places), min(plan.documents, len(plan.places)), samples=samples, seed=seed
        )
        seconds += layer * encoder.layers * encoders
    return reading + Cost(passes=0, seconds=seconds)


def _time_clustering(encoder: Encoder, questions: Questions, seed: int) -> float:
    """Seconds to cluster the words of one question, beyond reading it."""
    few = questions_from(list(islice(questions.questions(), _TIMED)), questions.name, questions.split)
    quick = {"samples": 1, "confident": 0.5, "predicted": 0, "twin": False, "seed": seed}
    # Warm-up; not timed.
    phases.function(encoder, few, clustered=1, **quick)
    plain, grouped = (
        time_call(lambda count=count: phases.function(encoder, few, clustered=count, **quick)) for count in (0, _TIMED)
    )
    return max(0.0, grouped - plain) / min(_TIMED, len(few))


def _plan(questions: Questions, clustered: int, kept: int, seed: int) -> _Plan:
    count, documents, last = 0, 0, None
    for question in questions.questions():
        document = question.text.doc or question.text.id
        documents += document != last
        last = document
        count += 1
    if not count:
        raise CorpusError(f"{questions.name} ({questions.split}) has no questions")
    draw = np.random.default_rng(seed)
    chosen = draw.choice(count, min(clustered, count), replace=False).tolist()
    followed = np.sort(draw.choice(count, min(kept, count), replace=False)).tolist()
    return _Plan(count, documents, frozenset(chosen), {number: place for place, number in enumerate(followed)})


def _turns(
    questions: Questions, answerer: Answerer | None, plan: _Plan, confident: float, known: _Known
) -> Iterator[list[Turn]]:
    remaining, number = questions.questions(), 0
    while chunk := list(islice(remaining, _AT_ONCE)):
        answers = list(judged(answerer, chunk)) if answerer else [None] * len(chunk)
        turns = []
        for question, answer in zip(chunk, answers, strict=True):
            turns.append(_turn(number, question, answer, plan, confident, known))
            number += 1
        yield turns


def _turn(number: int, question: Question, answer: Judged | None, plan: _Plan, confident: float, known: _Known) -> Turn:
    given = None
    if answer is not None and answer.exact is not None:
        given = Given(answer.exact == 1, answer.answer.confidence)
    predicted = answer.answer.span if answer else None
    place = plan.places.get(number) if given else None
    turn = Turn(number, question, memberships(given, confident), predicted, number in plan.clustered, place)
    if given:
        known.note(turn, given)
    return turn


def _failure(names: list[str], watchers: list[Watcher], known: _Known, samples: int, seed: int) -> pd.DataFrame:
    rows = []
    for name, watcher in zip(names, watchers, strict=True):
        cases = Cases(watcher.vectors, known.wrong, known.documents, known.confidence, known.length)
        found = failure_rows(name, cases, samples=samples, seed=seed)
        # Confidence and length are the model's; a twin answers nothing.
        rows += [row for row in found if watcher is watchers[0] or row[2] not in (CONFIDENCE, LENGTH)]
    return pd.DataFrame(rows, columns=list(FAILURE)).astype({"layer": "Int64"})


def _left_out(plan: _Plan, answerer: Answerer | None) -> dict[str, int]:
    return {
        "questions not drawn for clustering": plan.size - len(plan.clustered),
        "questions not drawn for predicting failures": plan.size - len(plan.places) if answerer else 0,
        SILENT: int(answerer is None),
        "one document only: nothing is adjusted for anisotropy, intervals are over questions": int(plan.documents == 1),
    }
