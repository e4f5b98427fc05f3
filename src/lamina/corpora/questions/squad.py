"""SQuAD: questions about Wikipedia paragraphs, each answer a span of its paragraph. XQuAD has the same layout.

JSON: articles with paragraphs with questions. `doc` is the article's title; the supporting fact is the sentence that
holds the answer, with sentences from `lamina.corpora.tokenising` (none ends inside an answer). An answer has to be at
its offset, or one character off (this occurs in SQuAD's own files and is noted); anything else is a fault, never a
span. Questions without an answer (`is_impossible`, version 2) are left out and noted. A view with `support="count"`
labels the sentence that the released code of van Aken et al. (2019) counts to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from lamina.corpora.corpus import View
from lamina.corpora.questions.question import Question, QuestionContext, QuestionFile, make_question
from lamina.corpora.reading import Notes, Report, json_start, raise_fault
from lamina.corpora.tokenising import sentences_of
from lamina.types import Text

IMPOSSIBLE = "questions without an answer (is_impossible)"
SLIPPED = "questions with an answer one character off its offset (corrected)"
_EXPECTED = '{"data": [{"title": ..., "paragraphs": [{"context": ..., "qas": [...]}]}]}'
UNCOUNTED = "questions whose answer starts beyond the last sentence, counted without blanks: no sentence is labelled"
_SLIPS = (0, 1, -1)


def looks_like(path: Path) -> bool:
    """Whether the file starts like SQuAD's JSON."""
    head = json_start(path)
    return head.startswith("{") and '"paragraphs"' in head and ('"context"' in head or '"qas"' in head)


def read(path: Path, report: Report = raise_fault, noted: Notes | None = None) -> Iterator[Text]:
    """One text per question."""
    return (question.text for question in questions(path, report, noted))


def documents(path: Path) -> list[str]:
    """The titles of the articles."""
    document = QuestionFile(path, raise_fault)
    return [str(article.get("title", "")) for article in document.items("data", _EXPECTED)]


def questions(
    path: Path,
    report: Report = raise_fault,
    noted: Notes | None = None,
    view: View | None = None,
) -> Iterator[Question]:
    """Every question that has an answer."""
    document = QuestionFile(path, report)
    view, noted = view or View(), noted or Notes()
    for article in document.items("data", _EXPECTED):
        title = article.get("title")
        for paragraph in document.inner(article, "paragraphs", f"article {title!r}"):
            yield from _of_paragraph(paragraph, title, document, view, noted)


def _of_paragraph(
    paragraph: dict[str, Any], title: Any, document: QuestionFile, view: View, noted: Notes
) -> Iterator[Question]:
    context = paragraph.get("context")
    entries = document.inner(paragraph, "qas", f"a paragraph of article {title!r}")
    passage = QuestionContext(context) if isinstance(context, str) else None
    for number, qa in enumerate(entries):
        id = document.new_id(qa.get("id"), f"question {number} of a paragraph of article {title!r}")
        if id is None:
            continue
        if passage is None or not passage.split.words:
            document.fault(id, "the context is empty", "the text that holds the answer")
        elif qa.get("is_impossible"):
            noted.add(IMPOSSIBLE, id, str(title))
        elif (question := _question(id, qa, passage, title, document, view, noted)) is not None:
            yield question


def _question(
    id: str, qa: dict[str, Any], passage: QuestionContext, title: Any, document: QuestionFile, view: View, noted: Notes
) -> Question | None:
    question = qa.get("question")
    if not isinstance(question, str) or not question.strip():
        return document.fault(id, "the question is empty", "a question")
    given = document.inner(qa, "answers", f"question {id}")
    places = [_place(id, answer, passage.text, str(title), document, noted) for answer in given]
    if not places:
        return document.fault(id, "the question has no answer", "an answer, or is_impossible as in version 2")
    valid = [place for place in places if place is not None]
    if len(valid) < len(places):
        return None
    sentences = passage.sentences(whole=valid)
    support = sentences_of(valid, sentences) if view.support == "sentence" else counted_sentence(valid[0][0], sentences)
    about: dict[str, Any] = {"doc": str(title), "task": "squad", "origin": passage.origin, "noted": noted}
    typed = make_question(id, question, passage, sentences, valid, support, **about)
    if support or view.support == "sentence":
        return typed
    noted.add(UNCOUNTED, id, str(title))
    edges = {name: targets for name, targets in typed.text.edges.items() if name != "sup"}
    return replace(typed, text=replace(typed.text, edges=edges))


def counted_sentence(start: int, sentences: Sequence[tuple[int, int]]) -> set[int]:
    """The number of the sentence to which the released code of van Aken et al. counts; empty where it finds none.

    Lengths are added up without the blanks between sentences, until they reach the answer's first character.

    Example:
        >>> sentences = [(0, 10), (11, 20), (21, 30)]
        >>> [counted_sentence(start, sentences) for start in (11, 20, 29)]
        [{1}, {2}, set()]
    """
    ends = accumulate(end - begin for begin, end in sentences)
    return {next((number for number, end in enumerate(ends) if end >= start), -1)} - {-1}


def _place(
    id: str, answer: dict[str, Any], context: str, title: str, document: QuestionFile, noted: Notes
) -> tuple[int, int] | None:
    """The character range of an answer, without surrounding white space; None after a fault."""
    text, offset = answer.get("text"), answer.get("answer_start")
    if not isinstance(text, str) or not text.strip() or type(offset) is not int:
        return document.fault(id, f"{json.dumps(answer)[:80]} is not an answer", "a text and answer_start")
    for slip in _SLIPS:
        position = offset + slip
        if position >= 0 and context[position : position + len(text)] == text:
            if slip:
                noted.add(SLIPPED, id, title)
            lead = len(text) - len(text.lstrip())
            return position + lead, position + lead + len(text.strip())
    if text not in context:
        return document.fault(id, f"the answer {text!r} is not in the context", "an answer copied from the context")
    there = context[max(offset, 0) : max(offset, 0) + len(text)]
    where = context.index(text)
    what = f"answer_start {offset} points at {there!r}"
    return document.fault(id, what, f"{text!r} there, counted in characters from 0 (it first occurs at {where})")
