"""HotpotQA: questions that need facts from two paragraphs, with eight distractor paragraphs.

JSON in either layout: the original (`context` is a list of [title, sentences], `_id`) or that of the Hugging Face hub
(`context` has lists `title` and `sentences`); a question without an id gets one from the file's name and its number.
The context is the joined sentences, without titles and empty sentences. `setting` distractor takes them all, support
only the supporting facts. The answer is placed at its first occurrence in a supporting fact, else in the context; an
occurrence inside a word counts only if there is no other. Questions answered by yes or no are left out and noted, as
are those whose answer is not in the context, and supporting facts that point to no sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lamina.corpora.questions import Document, Noted, Question, make_question
from lamina.corpora.reading import Report, json_start, raise_fault
from lamina.corpora.tokenising import split_words
from lamina.errors import CorpusError
from lamina.types import Text

YES_NO = "the answer is yes or no"
NOWHERE = "the answer is not in the context"
POINTLESS = "a supporting fact points to no sentence"
SHORTENED = "distractors were cut"
SETTINGS = ("distractor", "support")
_EXPECTED = '[{"question": ..., "answer": ..., "context": ..., "supporting_facts": ...}, ...]'
_LONGEST = 10_000
"""Characters of an answer; a bound on the work of looking for it."""


class _Sentence(NamedTuple):
    text: str
    """Includes the white space that separates it from the previous sentence."""
    support: bool


def looks_like(path: Path) -> bool:
    """Whether the file starts like HotpotQA's JSON."""
    head = json_start(path)
    return head.startswith("[") and '"supporting_facts"' in head and '"question"' in head


def read(path: Path, report: Report = raise_fault, noted: Noted | None = None) -> Iterator[Text]:
    """One text per question, distractors included."""
    return (question.text for question in questions(path, report, noted))


def questions(
    path: Path,
    report: Report = raise_fault,
    noted: Noted | None = None,
    *,
    setting: str = "distractor",
    max_words: int | None = None,
) -> Iterator[Question]:
    """Every question with an extractive answer.

    With `max_words` the last distractor sentences are cut until question and context have at most that many words.
    """
    if setting not in SETTINGS:
        raise CorpusError(f"unknown HotpotQA setting {setting!r}; use {' or '.join(SETTINGS)}")
    noted = {} if noted is None else noted
    document = Document(path, report)
    for number, item in enumerate(document.items(None, _EXPECTED), start=1):
        given = item.get("_id", item.get("id", f"{path.stem}-{number}"))
        id = document.new_id(given, f"question {number}")
        if id is not None and (made := _question(id, item, setting, max_words, document, noted)) is not None:
            yield made


def _question(
    id: str, item: dict[str, Any], setting: str, max_words: int | None, document: Document, noted: Noted
) -> Question | None:
    asked, answer = item.get("question"), item.get("answer")
    if not isinstance(asked, str) or not asked.strip():
        return document.fault(id, "the question is empty", "a question")
    if not isinstance(answer, str) or not answer.strip():
        return document.fault(id, "the answer is empty", "an answer")
    if len(answer) > _LONGEST:
        return document.fault(id, "the answer is too long", f"at most {_LONGEST:,} characters")
    if answer.strip().lower() in ("yes", "no"):
        return _note(noted, YES_NO, id)
    try:
        sentences, pointless = _sentences(item)
    except (KeyError, TypeError, ValueError):
        return document.fault(id, "context or supporting_facts cannot be read", "titles with sentences, as in HotpotQA")
    if pointless:
        _note(noted, POINTLESS, id)
    if not sentences:
        return document.fault(id, "the context is empty", "the sentences that hold the answer")
    kept = [one for one in sentences if one.support or setting == "distractor"]
    if max_words is not None and setting == "distractor":
        kept = _shortened(kept, max_words - len(split_words(asked).words))
        if len(kept) < len(sentences):
            _note(noted, SHORTENED, id)
    context = "".join(one.text for one in kept).lstrip()
    ranges = _ranges(kept)
    support = {n for n, one in enumerate(kept) if one.support}
    place = _placed(context, answer.strip(), [ranges[n] for n in sorted(support)])
    if place is None:
        return _note(noted, NOWHERE, id)
    return make_question(
        id, asked, context, ranges, [place], support, doc=id, answers=[answer], task=f"hotpot_{setting}", noted=noted
    )


def _note(noted: Noted, what: str, id: str) -> None:
    noted.setdefault(what, []).append(id)


def _sentences(item: dict[str, Any]) -> tuple[list[_Sentence], bool]:
    """The sentences in order, and whether some supporting fact points to none of them."""
    context, facts = item["context"], item["supporting_facts"]
    if isinstance(context, dict):
        context = list(zip(context["title"], context["sentences"], strict=True))
    if isinstance(facts, dict):
        facts = list(zip(facts["title"], facts["sent_id"], strict=True))
    wanted = {(title, number) for title, number in facts}
    found, seen = [], set()
    for title, sentences in context:
        if not isinstance(sentences, list):
            raise TypeError("not a list of sentences")
        for number, sentence in enumerate(sentences):
            if not isinstance(sentence, str):
                raise TypeError("not a sentence")
            if sentence.strip():
                seen.add((title, number))
                # In the original, a sentence starts with the space before it; paragraphs are separated the same way.
                lead = sentence if sentence[0].isspace() else f" {sentence}"
                found.append(_Sentence(lead.rstrip(), (title, number) in wanted))
    return found, not wanted <= seen


def _shortened(sentences: Sequence[_Sentence], room: int) -> list[_Sentence]:
    """The supporting facts, and the first distractors that still fit."""
    sizes = [len(split_words(one.text).words) for one in sentences]
    room -= sum(size for one, size in zip(sentences, sizes, strict=True) if one.support)
    kept, full = [], False
    for one, size in zip(sentences, sizes, strict=True):
        if not one.support:
            # Stop at the first that does not fit, so that the start of the context is kept.
            full = full or size > room
            room -= size
        if one.support or not full:
            kept.append(one)
    return kept


def _ranges(sentences: Sequence[_Sentence]) -> list[tuple[int, int]]:
    """The character range of each sentence in the context."""
    ranges, at = [], -(len(sentences[0].text) - len(sentences[0].text.lstrip())) if sentences else 0
    for one in sentences:
        end = at + len(one.text)
        ranges.append((end - len(one.text.lstrip()), end))
        at = end
    return ranges


def _placed(context: str, answer: str, support: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """The first occurrence of the answer; prefers whole words, then supporting facts."""
    for whole_words in (True, False):
        for start, end in [*support, (0, len(context))]:
            at = context.find(answer, start, end)
            while at >= 0 and whole_words and not _stands_alone(context, at, at + len(answer)):
                at = context.find(answer, at + 1, end)
            if at >= 0:
                return at, at + len(answer)
    return None


_WORD = re.compile(r"\w")


def _stands_alone(context: str, start: int, end: int) -> bool:
    """Whether neither neighbour of these characters could belong to the same word."""
    return not (_WORD.match(context, start - 1) if start else None) and not _WORD.match(context, end)
