"""What is known of a set of questions before anything is encoded."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from lamina.analyses.questions.pseudo import Positions, note_answers
from lamina.corpora import Questions
from lamina.corpora.questions import Question
from lamina.errors import CorpusError

NO_SPANS = "questions without an answer in their context: what needs its place is not measured"
NO_SUPPORT = "questions whose supporting sentences are not known: what needs them is not measured"
UNKNOWN = "questions without an accepted answer: neither right nor wrong"


class Plan(NamedTuple):
    """What is known of the questions before anything is encoded, and which of them are looked at more closely."""

    size: int
    documents: int
    paragraphs: int
    """Different contexts."""
    positions: Positions
    """Of answers, for pseudo-answers."""
    lacking: Counter[str]
    clustered: frozenset[int]
    places: dict[int, int]
    """Number of a question -> where its vectors are kept."""

    @property
    def kind(self) -> str:
        """What a unit is."""
        return "document" if self.documents > 1 else "paragraph"

    def unit(self, question: Question) -> str:
        """What is resampled: the document; where there is only one, the paragraph. Never the question alone."""
        if self.documents > 1:
            return question.text.doc or question.text.id
        return question.context or question.text.id


def plan(questions: Questions, *, clustered: int, kept: int, seed: int) -> Plan:
    """Read all questions once; draw those whose words are clustered and those whose vectors are kept."""
    count, positions, lacking = 0, Positions(), Counter()
    documents: set[str] = set()
    # Only whether there are several matters, so that hashes do.
    paragraphs: set[int] = set()
    for question in questions.questions():
        documents.add(question.text.doc or question.text.id)
        paragraphs.add(hash(question.context))
        note_answers(question, positions)
        edges = question.text.edges
        lacking[NO_SPANS] += not edges.get("answer")
        lacking[NO_SUPPORT] += not edges.get("answer") and not edges.get("sup")
        lacking[UNKNOWN] += not question.answers
        count += 1
    if not count:
        raise CorpusError(f"{questions.name} ({questions.split}) has no questions")
    draw = np.random.default_rng(seed)
    chosen = draw.choice(count, min(clustered, count), replace=False).tolist()
    followed = np.sort(draw.choice(count, min(kept, count), replace=False)).tolist()
    places = {number: place for place, number in enumerate(followed)}
    return Plan(count, len(documents), len(paragraphs), positions, lacking, frozenset(chosen), places)
