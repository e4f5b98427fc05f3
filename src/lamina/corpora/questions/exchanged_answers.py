"""Second contexts for a question, in which two strings of one class have changed places.

The strings are the answer and another one, or what the question names and another one, which changes the answer too.
Both contexts hold all strings, so that a model that answers with a span can say either answer in either context.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from lamina.corpora.questions.question import Question
from lamina.types import Edge, Span

Class = Literal["year", "number", "name", "word"]
"""What strings are exchanged: see `class_of`."""

_NUMBERS = (
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|"
    "nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million|billion"
)
_CAPITAL = r"[^\W\d_a-zß-öø-ÿ][\w'\u2019-]*"
_PATTERNS: dict[Class, re.Pattern[str]] = {
    "year": re.compile(r"1\d{3}|20\d{2}"),
    "number": re.compile(rf"\d+(?:[.,]\d+)*|{_NUMBERS}", re.IGNORECASE),
    "name": re.compile(rf"{_CAPITAL}(?: {_CAPITAL})*"),
}
_JOINED = r"\w'\u2019\u2013\u2014/-"
"""What joins strings to longer ones: letters, apostrophes, dashes."""
_BEFORE, _AFTER = rf"(?<![.,{_JOINED}])", rf"(?![{_JOINED}])(?![.,]\d)"
_WORD = re.compile(r"[^\W\d_]+")
_STORIES = "qa"
"""Tasks of stories begin with it: their answers come from a short list."""


class Exchange(NamedTuple):
    """Two strings of a context that can change places, wherever they stand."""

    one: tuple[Span, ...]
    """Words of the question's text (question first, then context)."""
    other: tuple[Span, ...]
    """Each of as many words."""
    kind: str
    """Their class."""


def class_of(answer: str, task: str = "") -> Class | None:
    """The class of an answer, by how it is written; None where it has none.

    A year has four digits, from 1000 to 2099; a number is written in digits, or is one number word; a name is made of
    capitalised words. In stories (bAbI and the generated ones), where all answers come from a short list, any other
    single word is of the class `word`.

    Example:
        >>> [class_of(answer) for answer in ("1985", "1,200", "seven", "New York", "the dog")]
        ['year', 'number', 'number', 'name', None]
        >>> class_of("attic", task="qa1")
        'word'
    """
    if task.startswith(_STORIES) and _WORD.fullmatch(answer):
        return "word"
    return next((kind for kind, pattern in _PATTERNS.items() if pattern.fullmatch(answer)), None)


def known_answers(questions: Sequence[Question]) -> dict[str, frozenset[str]]:
    """Task of stories -> all answers to its questions."""
    by_task: dict[str, set[str]] = {}
    for question in questions:
        if question.task.startswith(_STORIES):
            by_task.setdefault(question.task, set()).update(question.answers)
    return {task: frozenset(answers) for task, answers in by_task.items()}


def exchanges(question: Question, known: Mapping[str, Collection[str]], *, seed: int = 0) -> Iterator[Exchange]:
    """Strings of the context that the answer can change places with, in a random order.

    Both are of one class and of as many words, each occurs once in the context and neither in the question; the other
    one is no accepted answer. Numbers in digits change places with such, number words with such. Names that begin a
    sentence are left out, since any word may be capitalised there. `known` is what `known_answers` gives.

    Example:
        >>> from lamina.corpora.question_sets import typed_question
        >>> question = next(typed_question("When was Ada born?", "Ada: 1815. Bo: 1822.", "1815").questions())
        >>> exchange = next(exchanges(question, {}))
        >>> exchange.kind, exchanged(question, exchange).context, exchanged(question, exchange).answers
        ('year', 'Ada: 1822. Bo: 1815.', ('1822',))
    """
    place = _answer_place(question)
    if place is None:
        return
    answer, kind = place
    answer_string = _written(question, answer)
    if not _is_free(question, answer_string):
        return
    rivals = []
    opening = {edge.span.start for edge in question.text.edges["sentence"]} if kind == "name" else set()
    for span in _strings(question, kind, known.get(question.task, ())):
        string = _written(question, span)
        alike = (
            len(span) == len(answer) and string[0].isdigit() == answer_string[0].isdigit() and span.start not in opening
        )
        accepted = any(_times(string.lower(), other.lower()) for other in question.answers if other != answer_string)
        if (
            alike
            and string != answer_string
            and not accepted
            and not _overlap(span, answer)
            and _is_free(question, string)
        ):
            rivals.append((_drawn(seed, question.text.id, string), span))
    for _, span in sorted(rivals, key=lambda rival: rival[0]):
        yield Exchange((answer,), (span,), kind)


def asked_exchanges(question: Question, *, seed: int = 0) -> Iterator[Exchange]:
    """Exchanges of the string that the question names with another string of the context, in a random order.

    The string is a year, number or name that is in the context too; where entities are annotated (the generated
    stories), an entity. The other string is of the same class and of as many words, and is not in the question. Neither
    is a part of an accepted answer. All their occurrences in the context change places.

    Example:
        >>> from lamina.corpora.question_sets import typed_question
        >>> question = next(typed_question("When was Ada born?", "In 1815 Ada, in 1822 Bo.", "1815").questions())
        >>> exchanged(question, next(asked_exchanges(question))).context
        'In 1815 Bo, in 1822 Ada.'
    """
    by_string = _named(question)
    answers = " ".join(question.answers).lower()
    free = {string: places for string, places in by_string.items() if not _times(string.lower(), answers)}
    named = {string: places for string, places in free.items() if _times(string, question.question)}
    candidates = []
    for one, (kind, spans) in named.items():
        for other, (its_kind, others) in free.items():
            alike = its_kind == kind and len(others[0]) == len(spans[0]) and one[0].isdigit() == other[0].isdigit()
            inside = _times(one.lower(), other.lower()) or _times(other.lower(), one.lower())
            if alike and other not in named and not inside and not _times(other.lower(), question.question.lower()):
                candidates.append((_drawn(seed, question.text.id, f"{one}:{other}"), Exchange(spans, others, kind)))
    for _, exchange in sorted(candidates, key=lambda candidate: candidate[0]):
        yield exchange


def exchanged(question: Question, exchange: Exchange) -> Question:
    """The question about the context in which two strings have changed places.

    Where one of them is an accepted answer, the other takes its place there too.
    """
    text, start = question.text, question.text.segments[1].start
    by_place = dict.fromkeys(exchange.one, exchange.other[0]) | dict.fromkeys(exchange.other, exchange.one[0])
    begins = {place.start: place for place in by_place}
    words, pieces, offsets, position, number, written = list(text.words), [], [], 0, start, 0
    while number < len(text.words):
        place = begins.get(number, Span(number, number + 1))
        source = by_place.get(place, place)
        (first, last), (begin, end) = question.characters(place), question.characters(source)
        written += first - position
        source_offsets = question.offsets[source.start - start : source.end - start]
        offsets += [(written + low - begin, written + high - begin) for low, high in source_offsets]
        pieces += [question.context[position:first], question.context[begin:end]]
        words[place.start : place.end] = text.words[source.start : source.end]
        written += end - begin
        position, number = last, place.end
    context = "".join((*pieces, question.context[position:]))
    one, other = (_written(question, spans[0]) for spans in (exchange.one, exchange.other))
    accepted = [answer for answer in question.answers if _times(one, answer) == 1]
    answers = tuple(dict.fromkeys(_put(answer, one, other) for answer in accepted)) or question.answers
    edges = {**text.edges, "answer": tuple(Edge((other,), span) for span in exchange.one)} if accepted else text.edges
    changed = replace(text, words=tuple(words), edges=edges)
    return replace(question, text=changed, context=context, offsets=tuple(offsets), answers=answers)


def _named(question: Question) -> dict[str, tuple[str, tuple[Span, ...]]]:
    """String -> its class, and its places in the context; entities where these are annotated."""
    by_string: dict[str, tuple[str, list[Span]]] = {}
    context = question.text.segments[1]
    entities = [edge for edge in question.text.edges.get("ner", ()) if edge.span.start >= context.start]
    if entities:
        for edge in entities:
            by_string.setdefault(_written(question, edge.span), (edge.labels[0], []))[1].append(edge.span)
    else:
        opening = {edge.span.start for edge in question.text.edges["sentence"]}
        story = question.task.startswith(_STORIES)
        for kind in _PATTERNS:
            for span in _strings(question, kind, ()) if not story or kind == "name" else ():
                by_string.setdefault(_written(question, span), (kind, []))[1].append(span)
        # A word that is capitalised at the beginning of a sentence alone may be no name; in stories it is one.
        by_string = {
            string: (kind, spans)
            for string, (kind, spans) in by_string.items()
            if kind != "name" or story or any(span.start not in opening for span in spans)
        }
    # Each occurrence has to be one that changes places.
    return {
        string: (kind, tuple(spans))
        for string, (kind, spans) in by_string.items()
        if _times(string, question.context) == len(spans)
    }


def _answer_place(question: Question) -> tuple[Span, Class] | None:
    """The shortest accepted answer that has a class."""
    candidates = []
    for edge in question.text.edges.get("answer", ()):
        kind = class_of(_written(question, edge.span), question.task)
        if kind is not None:
            candidates.append((edge.span, kind))
    return min(candidates, key=lambda candidate: len(candidate[0]), default=None)


def _strings(question: Question, kind: Class, known: Collection[str]) -> list[Span]:
    """The strings of a class in a context, as words of the question's text."""
    if kind == "word":
        inside = "|".join(map(re.escape, sorted(known)))
        pattern = re.compile(_BEFORE + rf"(?:{inside})" + _AFTER) if inside else None
    else:
        pattern = re.compile(_BEFORE + rf"(?:{_PATTERNS[kind].pattern})" + _AFTER, _PATTERNS[kind].flags)
    start = question.text.segments[1].start
    begins = {low: number for number, (low, _) in enumerate(question.offsets, start=start)}
    ends = {high: number + 1 for number, (_, high) in enumerate(question.offsets, start=start)}
    return [
        Span(begins[match.start()], ends[match.end()])
        for match in (pattern.finditer(question.context) if pattern else ())
        if match.start() in begins
        and match.end() in ends
        and (kind != "number" or not _PATTERNS["year"].fullmatch(match.group()))
    ]


def _is_free(question: Question, string: str) -> bool:
    """Whether a string is once in the context and not in the question."""
    return _times(string, question.context) == 1 and not _times(string.lower(), question.question.lower())


def _times(string: str, text: str) -> int:
    return len(re.findall(rf"(?<!\w){re.escape(string)}(?!\w)", text))


def _put(text: str, old: str, new: str) -> str:
    return re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", lambda _: new, text)


def _written(question: Question, span: Span) -> str:
    start, end = question.characters(span)
    return question.context[start:end]


def _overlap(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end


def _drawn(seed: int, id: str, string: str) -> bytes:
    key = f"{seed}:{id}:{string}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(key, digest_size=8).digest()
