"""HotpotQA: questions that need facts from two paragraphs, with eight distractor paragraphs.

JSON in either layout: the original (`context` is a list of [title, sentences], `_id`) or that of the Hugging Face hub
(`context` has lists `title` and `sentences`); a question without an id gets one from the file's name and its number.
The context is the joined sentences, without titles and empty sentences. `setting` distractor takes them all, support
only the supporting facts; with `max_words`, whole paragraphs of distractors are dropped at random until the rest fits,
and paragraphs with a supporting fact always stay whole. The answer is placed at its first occurrence in a supporting
fact, else in the context; an occurrence inside a word counts only if there is no other. Questions answered by yes or no
are left out and noted, as are those whose answer is not in the context, and supporting facts that point to no sentence.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lamina.corpora.corpus import View, origin_of
from lamina.corpora.questions.question import Question, QuestionFile, make_question
from lamina.corpora.reading import Notes, Report, json_start, raise_fault
from lamina.corpora.tokenising import split_words
from lamina.types import Text

YES_NO = "questions where the answer is yes or no"
NOWHERE = "questions where the answer is not in the context"
POINTLESS = "questions with a supporting fact that points to no sentence"
SHORTENED = "questions shown without some of their distractor paragraphs"
LONG = "questions whose paragraphs with supporting facts alone have more than max_words (kept whole)"
_EXPECTED = '[{"question": ..., "answer": ..., "context": ..., "supporting_facts": ...}, ...]'
_LONGEST = 10_000
"""Characters of an answer; a bound on the work of looking for it."""


class _HotpotSentence(NamedTuple):
    text: str
    """Includes the white space that separates it from the previous sentence."""
    support: bool
    paragraph: int
    """Its number."""


def looks_like(path: Path) -> bool:
    """Whether the file starts like HotpotQA's JSON."""
    head = json_start(path)
    return head.startswith("[") and '"supporting_facts"' in head and '"question"' in head


def read(path: Path, report: Report = raise_fault, noted: Notes | None = None) -> Iterator[Text]:
    """One text per question, distractors included."""
    return (question.text for question in questions(path, report, noted))


def questions(
    path: Path, report: Report = raise_fault, noted: Notes | None = None, view: View | None = None
) -> Iterator[Question]:
    """Every question with an extractive answer."""
    view, noted = view or View(), noted or Notes()
    document = QuestionFile(path, report)
    for number, item in enumerate(document.items(None, _EXPECTED), start=1):
        given = item.get("_id", item.get("id", f"{path.stem}-{number}"))
        id = document.new_id(given, f"question {number}")
        if id is not None and (question := _question(id, item, view, document, noted)) is not None:
            yield question


def _question(id: str, item: dict[str, Any], view: View, document: QuestionFile, noted: Notes) -> Question | None:
    question, answer = item.get("question"), item.get("answer")
    if not isinstance(question, str) or not question.strip():
        return document.fault(id, "the question is empty", "a question")
    if not isinstance(answer, str) or not answer.strip():
        return document.fault(id, "the answer is empty", "an answer")
    if len(answer) > _LONGEST:
        return document.fault(id, "the answer is too long", f"at most {_LONGEST:,} characters")
    if answer.strip().lower() in ("yes", "no"):
        return noted.add(YES_NO, id)
    try:
        sentences, pointless = _sentences(item)
    except (KeyError, TypeError, ValueError):
        return document.fault(id, "context or supporting_facts cannot be read", "titles with sentences, as in HotpotQA")
    if pointless:
        noted.add(POINTLESS, id)
    if not sentences:
        return document.fault(id, "the context is empty", "the sentences that hold the answer")
    selected = _selected(sentences, question, id, view, noted)
    context = _joined(selected)
    ranges = _ranges(selected)
    support = {n for n, one in enumerate(selected) if one.support}
    place = _placed(context, answer.strip(), [ranges[n] for n in sorted(support)])
    if place is None:
        return noted.add(NOWHERE, id)
    return make_question(
        id,
        question,
        context,
        ranges,
        [place],
        support,
        doc=id,
        origin=origin_of(question, _joined(sentences)),
        answers=[answer],
        task=f"hotpot_{view.setting}",
        noted=noted,
    )


def _selected(
    sentences: list[_HotpotSentence], question: str, id: str, view: View, noted: Notes
) -> list[_HotpotSentence]:
    """The sentences that the view leaves."""
    if view.setting == "support":
        return [one for one in sentences if one.support]
    if view.max_words is None:
        return sentences
    room = view.max_words - len(split_words(question).words)
    shortened = _shortened(sentences, room, f"{view.seed}:{id}")
    if len(shortened) < len(sentences):
        noted.add(SHORTENED, id)
    if sum(len(split_words(one.text).words) for one in shortened) > room:
        noted.add(LONG, id)
    return shortened


def _joined(sentences: Sequence[_HotpotSentence]) -> str:
    return "".join(one.text for one in sentences).lstrip()


def _sentences(item: dict[str, Any]) -> tuple[list[_HotpotSentence], bool]:
    """The sentences in order, and whether some supporting fact points to none of them."""
    context, facts = item["context"], item["supporting_facts"]
    if isinstance(context, dict):
        context = list(zip(context["title"], context["sentences"], strict=True))
    if isinstance(facts, dict):
        facts = list(zip(facts["title"], facts["sent_id"], strict=True))
    wanted = {(title, number) for title, number in facts}
    nonblank, seen = [], set()
    for paragraph, (title, sentences) in enumerate(context):
        if not isinstance(sentences, list):
            raise TypeError("not a list of sentences")
        for number, sentence in enumerate(sentences):
            if not isinstance(sentence, str):
                raise TypeError("not a sentence")
            if sentence.strip():
                seen.add((title, number))
                # In the original, a sentence starts with the space before it; paragraphs are separated the same way.
                lead = sentence if sentence[0].isspace() else f" {sentence}"
                nonblank.append(_HotpotSentence(lead.rstrip(), (title, number) in wanted, paragraph))
    return nonblank, not wanted <= seen


def _shortened(sentences: Sequence[_HotpotSentence], room: int, seed: str) -> list[_HotpotSentence]:
    """The context without some distractor paragraphs, dropped in a random order until the words fit into `room`.

    Which paragraphs go does not depend on where they are, and what stays keeps its order, so that the place of a
    supporting fact says no more than in the whole context.
    """
    sizes: dict[int, int] = defaultdict(int)
    for one in sentences:
        sizes[one.paragraph] += len(split_words(one.text).words)
    supporting = {one.paragraph for one in sentences if one.support}
    distractors = sorted(sizes.keys() - supporting, key=lambda paragraph: drawn_order(seed, paragraph))
    while distractors and sum(sizes.values()) > room:
        del sizes[distractors.pop()]
    return [one for one in sentences if one.paragraph in sizes]


def drawn_order(seed: str, paragraph: int) -> bytes:
    """A random number, the same on every machine."""
    return hashlib.sha256(f"{seed}:{paragraph}".encode("utf-8", "surrogatepass")).digest()


def _ranges(sentences: Sequence[_HotpotSentence]) -> list[tuple[int, int]]:
    """The character range of each sentence in the context."""
    ranges, start = [], -(len(sentences[0].text) - len(sentences[0].text.lstrip())) if sentences else 0
    for one in sentences:
        end = start + len(one.text)
        ranges.append((end - len(one.text.lstrip()), end))
        start = end
    return ranges


def _placed(context: str, answer: str, support: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """The first occurrence of the answer; prefers whole words, then supporting facts."""
    for whole_words in (True, False):
        for start, end in [*support, (0, len(context))]:
            position = context.find(answer, start, end)
            while position >= 0 and whole_words and not _stands_alone(context, position, position + len(answer)):
                position = context.find(answer, position + 1, end)
            if position >= 0:
                return position, position + len(answer)
    return None


_WORD = re.compile(r"\w")


def _stands_alone(context: str, start: int, end: int) -> bool:
    """Whether neither neighbour of these characters could belong to the same word."""
    return not (_WORD.match(context, start - 1) if start else None) and not _WORD.match(context, end)
