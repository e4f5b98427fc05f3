"""Questions with their contexts, for training question answering and for its analyses.

A question is a text of two segments, its own words and those of its context, plus the raw strings and the position of
each word of the context. Words come from `lamina.corpora.tokenising`; a word is cut only where an answer starts or
ends inside it, so that an answer always consists of whole words.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from lamina.corpora.corpus import origin_of, origins
from lamina.corpora.reading import Fault, Notes, Report
from lamina.corpora.tokenising import Split, sentence_ends, split_sentences, split_words
from lamina.errors import SpanError
from lamina.files.reading import parse_json, read_regular
from lamina.types import Edge, Span, Text

Item = dict[str, Any]
_ID = re.compile(r'"_?id"\s*:\s*("[^"\\]*(?:\\.[^"\\]*)*"|-?\d+)')


class QuestionFile:
    """One JSON file; each id may occur only once."""

    def __init__(self, path: Path, report: Report) -> None:
        self.path = path
        self._report = report
        self._raw = ""
        self._uses = Counter[str]()

    def items(self, key: str | None, expected: str) -> list[Item]:
        """The objects of the list under `key` (None: the file itself is the list); empty after a fault."""
        loaded = self._load()
        entries = loaded.get(key) if key and isinstance(loaded, dict) else loaded
        if loaded is None:
            return []
        if not isinstance(entries, list) or not all(isinstance(item, dict) for item in entries):
            self._report(Fault(self.path, 1, f"no list of {key or 'questions'}", expected))
            return []
        return entries

    def inner(self, item: Item, key: str, where: str) -> list[Item]:
        """The objects of a list within an item; empty after a fault."""
        entries = item.get(key)
        if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
            self._report(Fault(self.path, 1, f"{where} has no list of {key}", f'"{key}": [{{...}}, ...]'))
            return []
        return entries

    def new_id(self, id: object, where: str) -> str | None:
        """The id of a question, as a string; None after a fault."""
        if not isinstance(id, str | int) or id == "":
            self._report(Fault(self.path, 1, f"{where} has no id", '"id": "..."'))
            return None
        name = str(id)
        self._uses[name] += 1
        return name if self._uses[name] == 1 else self.fault(name, "the id is used twice", "unique ids")

    def fault(self, id: str, what: str, expected: str) -> None:
        """Report what is wrong with a question, with its id and line."""
        lines = self._lines.get(id, [1])
        line = lines[min(self._uses[id], len(lines)) - 1]
        self._report(Fault(self.path, line, f"question {id}: {what}", expected))

    @cached_property
    def _lines(self) -> Mapping[str, Sequence[int]]:
        """Id -> the line of each of its uses; found in one pass, however many faults there are."""
        lines = defaultdict[str, list[int]](list)
        line, position = 1, 0
        for match in _ID.finditer(self._raw):
            line, position = line + self._raw.count("\n", position, match.start()), match.start()
            lines[str(json.loads(match[1]))].append(line)
        return lines

    def _load(self) -> Any:
        """The content of the file; None after a fault."""
        try:
            self._raw = read_regular(self.path).decode("utf-8-sig")
            return parse_json(self._raw) if self._raw.strip() else None
        except UnicodeDecodeError as error:
            what, line = (
                f"byte 0x{error.object[error.start]:02x} is not UTF-8",
                error.object.count(b"\n", 0, error.start) + 1,
            )
            self._report(Fault(self.path, line, what, "text saved as UTF-8"))
        except json.JSONDecodeError as error:
            self._report(Fault(self.path, error.lineno, f"not JSON ({error.msg})", "one whole JSON file"))
        except ValueError as error:
            self._report(Fault(self.path, 1, str(error), "one whole JSON file"))
        return None


CUT = "questions with a word that is cut where an answer starts or ends inside it"


@dataclass(frozen=True)
class Question:
    """One question with its context, as read: raw text, words, and the position of each word.

    Example:
        >>> question = make_question("q1", "Who barks?", "Dogs bark. Cats mew.", [(0, 10), (11, 20)], [(0, 4)], {0})
        >>> question.text.words[:3], question.offsets[0], [edge.labels for edge in question.text.edges["sup"]]
        (('Who', 'barks', '?'), (0, 4), [('1',), ('0',)])
    """

    text: Text
    """Two segments: the question's words, then the context's; `doc` is the article (bAbI: the story). Where the answer
    is a class (TREC, GLUE) there is no context: one segment, or two sentences.

    Annotations: `question` (segment 0), `sentence` (one per sentence of the context, numbered from 0), `answer` (one
    per accepted span; the first is used for training; none where the answer is a class), `sup` (question and sentence,
    labelled 1 or 0; absent if the context is a single sentence).
    """
    question: str
    context: str
    """Raw, as in the file (HotpotQA: sentences joined; bAbI: facts joined by spaces)."""
    offsets: tuple[tuple[int, int], ...]
    """Where each word of the context (the second segment) starts and ends in `context`, in characters."""
    answers: tuple[str, ...]
    """All accepted answers, raw; or the class of the text, none where the file does not say it."""
    task: str = ""
    """bAbI: qa1, qa2, ...; otherwise the kind of data."""

    def characters(self, span: Span) -> tuple[int, int]:
        """The character range of these words of the text (question included) in the raw context."""
        context = self.text.segments[1]
        if not context.start <= span.start < span.end <= context.end:
            raise SpanError(f"question {self.text.id!r}: {span} is outside the context's words {context}")
        first, last = span.start - context.start, span.end - context.start - 1
        return self.offsets[first][0], self.offsets[last][1]


def answer_text(question: Question, span: Span) -> str:
    """The part of the raw context that these words of the text (question included) cover.

    Example:
        >>> question = make_question("q1", "Who barks?", "Big dogs  bark.", [(0, 15)], [(0, 8)], {0})
        >>> answer_text(question, question.text.edges["answer"][0].span)
        'Big dogs'
    """
    start, end = question.characters(span)
    return question.context[start:end]


def make_question(
    id: str,
    question: str,
    context: str | QuestionContext,
    sentences: Sequence[tuple[int, int]],
    places: Iterable[tuple[int, int]],
    support: Collection[int],
    *,
    doc: str | None = None,
    origin: str | None = None,
    answers: Iterable[str] | None = None,
    task: str = "",
    noted: Notes | None = None,
) -> Question:
    """Build a question from its strings.

    `sentences` and `places` (of answers) are half-open character ranges of the context; `support` holds sentence
    numbers. `origin` is by what the question is recognised, and is to be given where something was cut from the context
    or appended to it. `answers` defaults to the text at the places.
    """
    passage = context if isinstance(context, QuestionContext) else QuestionContext(context)
    typed = split_words(question)
    question_words = typed.words
    answer_places = list(dict.fromkeys(trimmed(passage.text, *place) for place in places))
    split = passage.cut_at({border for place in answer_places for border in place})
    if noted is not None and split is not passage.split:
        noted.add(CUT, id, doc)
    head = Span(0, len(question_words))
    spans = [span.shift(len(question_words)) for span in passage.spans(sentences, split)]
    edges = {
        "question": (Edge(("question",), head),),
        "sentence": tuple(Edge((str(n),), span) for n, span in enumerate(spans)),
        "answer": tuple(
            Edge((passage.text[start:end],), _words_within(split, start, end).shift(len(question_words)))
            for start, end in answer_places
        ),
    }
    if len(spans) > 1:
        edges["sup"] = tuple(Edge(("1" if n in support else "0",), head, span) for n, span in enumerate(spans))
    words = (*question_words, *split.words)
    segments = (head, Span(len(question_words), len(words)))
    glued = (*typed.glued, *(len(question_words) + word for word in split.glued))
    text = Text(id, words, segments, edges, doc, origin or origin_of(question, passage.text), glued)
    given = (passage.text[start:end] for start, end in answer_places) if answers is None else answers
    return Question(text, question, passage.text, split.offsets, tuple(dict.fromkeys(given)), task)


def labelled_question(text: Text, annotation: str, task: str) -> Question:
    """A text whose class is the answer, as a question without a context; the class is that of `annotation`.

    Example:
        >>> typed = Text("q1", ("Who", "barks", "?"), edges={"ques": (Edge(("HUM:ind",), Span(0, 3)),)})
        >>> question = labelled_question(typed, "ques", "trec")
        >>> question.question, question.answers, question.context
        ('Who barks ?', ('HUM:ind',), '')
    """
    first = text.segments[0]
    classes = tuple(label for edge in text.edges.get(annotation, ()) for label in edge.labels)
    edges = {**text.edges, "question": (Edge(("question",), first),), "sentence": (), "answer": ()}
    labelled = replace(text, edges=edges, origin=" ".join(origins(text)))
    return Question(labelled, " ".join(text.words[first.start : first.end]), "", (), classes, task)


@dataclass(frozen=True)
class QuestionContext:
    """A context, split once for all its questions.

    Example:
        >>> passage = QuestionContext("Dogs bark. Cats mew.")
        >>> passage.split.words[:3], passage.sentences(), passage.sentences(whole=[(5, 15)])
        (('Dogs', 'bark', '.'), ((0, 10), (11, 20)), ((0, 20),))
    """

    text: str

    @cached_property
    def split(self) -> Split:
        """Its words."""
        return split_words(self.text)

    @cached_property
    def origin(self) -> str:
        """By which all its questions are recognised."""
        return origin_of("", self.text)

    def sentences(self, whole: Iterable[tuple[int, int]] = ()) -> tuple[tuple[int, int], ...]:
        """The character range of each sentence; none ends inside a range of `whole`."""
        return tuple(split_sentences(self.text, whole, self._ends))

    def spans(self, sentences: Sequence[tuple[int, int]], split: Split) -> Sequence[Span]:
        """The words of each sentence, counted from the start of the context."""
        if split is not self.split:
            return [_words_within(split, *place) for place in sentences]
        known = tuple(sentences)
        if known not in self._spans:
            self._spans[known] = [_words_within(split, *place) for place in known]
        return self._spans[known]

    def cut_at(self, borders: Collection[int]) -> Split:
        """The words, with a boundary at every border; the same object if no border falls inside a word."""
        for border in borders:
            index = bisect_left(self._starts, border) - 1
            if index >= 0 and border < self.split.offsets[index][1]:
                return split_words(self.text, borders)
        return self.split

    @cached_property
    def _starts(self) -> Sequence[int]:
        return [start for start, _ in self.split.offsets]

    @cached_property
    def _ends(self) -> Sequence[int]:
        return tuple(sentence_ends(self.text))

    @cached_property
    def _spans(self) -> dict[tuple[tuple[int, int], ...], list[Span]]:
        """Most questions of a passage see the same sentences."""
        return {}


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The same character range without white space at its ends.

    Example:
        >>> trimmed("in  Paris .", 2, 10)
        (4, 9)
    """
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


def _words_within(split: Split, start: int, end: int) -> Span:
    first = bisect_left(split.offsets, (start, -1))
    last = bisect_right(split.offsets, end, key=lambda offset: offset[1])
    return Span(first, last)
