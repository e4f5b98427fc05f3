"""The phases of question answering as numbers: similarities of roles by layer, for right and wrong answers apart."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
import pandas as pd

from lamina.analyses.questions.answering import SILENT, Judged, answerer_of, judged
from lamina.analyses.questions.failure import CONFIDENCE, FAILURE, LENGTH, Cases, failure_rows
from lamina.analyses.questions.reading import Questions
from lamina.analyses.questions.streaming import Given, memberships
from lamina.analyses.questions.watching import Turn, Watcher
from lamina.analyses.unseen import refuse_seen
from lamina.corpora.questions import Question
from lamina.encoders import Encoder
from lamina.errors import CorpusError, InputError
from lamina.progress import progress
from lamina.results import Provenance, Result
from lamina.training.answering import Answerer

PHASES = ("model", "layer", "group", "measure", "count", "value", "low", "high")
"""Columns of `phases.csv`."""
_AT_ONCE = 64
"""Questions held in memory."""


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


def phases(
    encoder: Encoder,
    questions: Questions,
    *,
    samples: int = 1000,
    confident: float = 0.5,
    clustered: int = 100,
    foretold: int = 2000,
    twin: bool = True,
    seed: int = 0,
) -> Result:
    """Similarity within and between roles by layer, answer separation, agreement of clusters, early signs of failure.

    Questions stream: memory does not grow with their number. Beside the model stand shuffled roles (`NAME (shuffled
    roles)`) and the twin with random weights (`NAME (random)`). Table `phases` has a row a model, layer, group of
    answers and measure; `failure`, for a model that answers, how well wrong answers can be foretold. Intervals (95 %)
    resample documents; where there is only one, questions.

    Args:
        encoder: whose layers; where it was fine-tuned to answer questions, right and wrong answers are told apart.
        questions: on which questions.
        samples: bootstrap samples and permutations.
        confident: probability from which an answer counts as confident.
        clustered: questions, drawn at random, whose words are clustered; 0 for none.
        foretold: questions, drawn at random, that failures are foretold of; 0 for none.
        twin: put the random-weights twin beside the model.
        seed: of every draw.
    """
    if not 0 < confident < 1:
        raise InputError(f"confident is a probability between 0 and 1; got {confident}")
    refuse_seen(encoder, questions)
    answerer = answerer_of(encoder)
    plan = _plan(questions, clustered, foretold if answerer else 0, seed)
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
    parameters = {
        "samples": samples,
        "confident": confident,
        "clustered": clustered,
        "foretold": foretold,
        "twin": twin,
        "seed": seed,
    }
    skipped = {reason: count for watcher in watchers for reason, count in watcher.skipped.items()}
    skipped |= _said(plan, answerer)
    return Result("phases", tables, Provenance(encoder.describe(), questions.describe(), parameters, (seed,), skipped))


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


def _said(plan: _Plan, answerer: Answerer | None) -> dict[str, int]:
    return {
        "questions not drawn for clustering": plan.size - len(plan.clustered),
        "questions not drawn for foretelling failures": plan.size - len(plan.places) if answerer else 0,
        SILENT: int(answerer is None),
        "one document only: nothing is adjusted for anisotropy, intervals are over questions": int(plan.documents == 1),
    }
