"""Questions with their contexts: what question answering trains on, and what its analyses look at.

A question is a text of two segments, its own words and its context's, and beside it the raw strings and where each
word of the context stands. Words come of `lamina.corpora.words`; a word is cut only where an answer starts or ends
inside it, so that an answer is always made of whole words.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.faults import Report, raise_fault
from lamina.corpora.words import Split, split_words
from lamina.errors import CorpusError, SpanError
from lamina.types import Edge, Span, Text

Noted = dict[str, list[str]]
"""What a reader left out or changed, in words -> the ids of the questions."""

CUT = "an answer starts or ends inside a word, which is cut there"


@dataclass(frozen=True)
class Question:
    """One question with its context, as read: raw text, words, and where each word stands.

    Example:
        >>> question = make_question("q1", "Who barks?", "Dogs bark. Cats mew.", [(0, 10), (11, 20)], [(0, 4)], {0})
        >>> question.text.words[:3], question.offsets[0], [edge.labels for edge in question.text.edges["sup"]]
        (('Who', 'barks', '?'), (0, 4), [('1',), ('0',)])
    """

    text: Text
    """Two segments: the question's words, then the context's; `doc` is the article (bAbI: the story).

    Annotations: `question` (segment 0), `sentence` (one a sentence of the context, numbered from 0), `answer` (one an
    accepted place; the first is the one to train on), `sup` (question and sentence, labelled 1 or 0; absent where the
    context is a single sentence).
    """
    question: str
    context: str
    """Raw, as the file has it (HotpotQA: sentences joined; bAbI: facts joined by spaces)."""
    offsets: tuple[tuple[int, int], ...]
    """Where each word of the context (the second segment) starts and ends in `context`, in characters."""
    answers: tuple[str, ...]
    """All accepted answers, raw."""
    task: str = ""
    """bAbI: qa1, qa2, ...; else the kind of data."""

    def characters(self, span: Span) -> tuple[int, int]:
        """Where these words of the text (question included) start and end in the raw context."""
        context = self.text.segments[1]
        if not context.start <= span.start < span.end <= context.end:
            raise SpanError(f"question {self.text.id!r}: {span} lies outside the context's words {context}")
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
    context: str | Passage,
    sentences: Sequence[tuple[int, int]],
    places: Iterable[tuple[int, int]],
    support: Collection[int],
    *,
    doc: str | None = None,
    answers: Iterable[str] | None = None,
    task: str = "",
    noted: Noted | None = None,
) -> Question:
    """Put a question together from its strings.

    `sentences` and `places` (of answers) are characters of the context, half-open; `support` numbers sentences.
    `answers` are what the places hold, where not given.
    """
    passage = context if isinstance(context, Passage) else Passage.of(context)
    asked = split_words(question).words
    found = list(dict.fromkeys(trimmed(passage.text, *place) for place in places))
    split = passage.cut_at({border for place in found for border in place})
    if noted is not None and split is not passage.split:
        noted.setdefault(CUT, []).append(id)
    head = Span(0, len(asked))
    spans = [_words_within(split, *place).shift(len(asked)) for place in sentences]
    edges = {
        "question": (Edge(("question",), head),),
        "sentence": tuple(Edge((str(n),), span) for n, span in enumerate(spans)),
        "answer": tuple(
            Edge((passage.text[start:end],), _words_within(split, start, end).shift(len(asked))) for start, end in found
        ),
    }
    if len(spans) > 1:
        edges["sup"] = tuple(Edge(("1" if n in support else "0",), head, span) for n, span in enumerate(spans))
    words = (*asked, *split.words)
    text = Text(id, words, (head, Span(len(asked), len(words))), edges, doc)
    given = (passage.text[start:end] for start, end in found) if answers is None else answers
    return Question(text, question, passage.text, split.offsets, tuple(dict.fromkeys(given)), task)


class Passage(NamedTuple):
    """A context with its words, split once for all its questions."""

    text: str
    split: Split

    @classmethod
    def of(cls, text: str) -> Passage:
        """Split a context into words."""
        return cls(text, split_words(text))

    def cut_at(self, borders: Collection[int]) -> Split:
        """The words, with a boundary at every border; the very same ones where no border falls inside a word."""
        starts = [start for start, _ in self.split.offsets]
        for border in borders:
            at = bisect_left(starts, border) - 1
            if at >= 0 and border < self.split.offsets[at][1]:
                return split_words(self.text, borders)
        return self.split


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The same characters without the white space at their ends.

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


def read_questions(
    path: Path | str,
    *,
    format: str | None = None,
    setting: str = "distractor",
    view: str = "span",
    tasks: Collection[int] | None = None,
    max_words: int | None = None,
    report: Report = raise_fault,
    noted: Noted | None = None,
) -> Iterator[Question]:
    """The questions of a file or folder in the format squad, hotpot or babi, told from the content where not given.

    `setting` (HotpotQA) is distractor or support; `max_words` cuts its distractors. `view` (bAbI) is span or
    classification, and `tasks` takes some of its twenty. `noted` collects what was left out or changed.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "qa1_where_train.txt"
        >>> _ = path.write_text("1 Mary went home.\\n2 John went to sea.\\n3 Where is Mary?\\thome\\t1\\n")
        >>> [(question.question, question.answers) for question in read_questions(path)]
        [('Where is Mary?', ('home',))]
    """
    from lamina.corpora import babi, hotpot, squad
    from lamina.corpora.formats import detect, files_of, get_format

    path = Path(path)
    if not path.exists():
        raise CorpusError(f"there is no file or folder {path}")
    form = get_format(format) if format else detect(path)
    for file in files_of(path, form):
        if form.name == "squad":
            yield from squad.questions(file, report, noted)
        elif form.name == "hotpot":
            yield from hotpot.questions(file, report, noted, setting=setting, max_words=max_words)
        elif form.name == "babi":
            yield from babi.questions(file, report, noted, view=view, tasks=tasks)
        else:
            raise CorpusError(f"{path} is read as {form.name}, which has no contexts; use squad, hotpot or babi")
