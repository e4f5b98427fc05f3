"""Questions with their raw contexts, as a corpus for analyses."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self

from lamina.corpora.corpus import Corpus, SampleSource, View, fingerprint_of
from lamina.corpora.detection import FileSelection, detect, folder_contents
from lamina.corpora.formats.catalogue import FORMATS, get_format
from lamina.corpora.loading import CorpusSource, FaultyTexts, find_source, load_corpus, part_of
from lamina.corpora.questions.babi import KINDS, PEOPLE, PLACES, STORIES, THINGS, story_questions
from lamina.corpora.questions.question import Question, make_question
from lamina.corpora.reading import Notes, Report, raise_fault
from lamina.corpora.tokenising import sentences_of, split_sentences, split_words
from lamina.errors import CorpusError, InputError, TaskError
from lamina.types import Edge, Span

_ENTITIES = (
    dict.fromkeys(PEOPLE, "person")
    | dict.fromkeys(PLACES, "place")
    | dict.fromkeys(THINGS, "thing")
    | dict.fromkeys((name for kind in KINDS for name in kind), "animal")
)
"""Word -> entity type, for the generated stories, whose vocabulary is known."""


@dataclass(frozen=True)
class Questions(Corpus):
    """A corpus of questions that keeps the raw strings as well as the words; made by `load_questions`.

    Example:
        >>> stories = load_questions("stories", "test", limit=2)
        >>> [question.question for question in stories.questions()] == [q.question for q in stories.questions()]
        True
    """

    question_source: Callable[[], Iterator[Question]] = field(default=lambda: iter(()), repr=False, compare=False)
    """Reads the questions from the beginning."""

    def questions(self) -> Iterator[Question]:
        """Every question, of a sample those that are drawn."""
        return self.question_source()

    def take(self, n: int) -> Self:
        """See `Corpus.take`."""
        taken, read = super().take(n), self.question_source
        return self if taken is self else replace(taken, question_source=lambda: islice(read(), min(n, sys.maxsize)))

    def sample(self, n: int, seed: int = 0) -> Self:
        """See `Corpus.sample`."""
        drawn, read = super().sample(n, seed), self.question_source
        if drawn is self:
            return self
        source = SampleSource(read, n, seed, lambda question: question.text.doc or question.text.id)
        return replace(drawn, question_source=source)

    def find(self, id: str) -> Questions:
        """The question with this id, as a set of one."""
        ids = []
        for question in self.questions():
            if question.text.id == id:
                return questions_from([question], self.name, self.split)
            ids.append(question.text.id)
        first = ", ".join(ids[:3])
        raise InputError(f"{self.name} ({self.split}) has no question {id!r} among its {len(ids):,} ({first}, ...)")


def load_questions(
    data: str | Path,
    split: str = "test",
    *,
    format: str | None = None,
    include: str | None = None,
    exclude: str | None = None,
    skip_faulty: float = 0.0,
    limit: int | None = None,
    first: int | None = None,
    seed: int = 0,
    split_from: str | None = None,
    view: View | None = None,
) -> Questions:
    """The questions of a SQuAD, HotpotQA or bAbI corpus or file, or of the generated stories.

    The questions of TREC and the texts of GLUE have no context, and their class is the answer. Splits, choices of
    files, limits, `seed` and `view` are as in `load_corpus`.
    """
    selection = FileSelection.of(include, exclude)
    if view is not None and view.segments == "one":
        raise InputError("segments=one is for probes; where answers are scored, question and context are two segments")
    if str(data) != STORIES:
        _refuse_statements(find_source(data, format, selection))
    files: dict[str, Any] = {"include": include, "exclude": exclude, "skip_faulty": skip_faulty}
    corpus = load_corpus(data, split, format=format, **files, seed=seed, split_from=split_from, view=view)
    common = {attribute.name: getattr(corpus, attribute.name) for attribute in fields(corpus)}
    corpus_view, notes = corpus.view, corpus.notes
    if str(data) == STORIES:
        stories = partial(story_questions, split, tasks=corpus_view.tasks, seed=seed)
        questions = Questions(**common, question_source=lambda: map(_with_entities, stories()))
        return questions.part(limit, first, seed)
    source = find_source(data, format, selection)
    chosen = part_of(source, split, seed, split_from)

    def questions_of(faults: FaultyTexts) -> Iterator[Question]:
        settings: dict[str, Any] = {"view": corpus_view, "noted": notes, "report": faults.report}
        for part in chosen.sources:
            for path in source.files[part]:
                for question in read_questions(path, format=source.format.name, **settings):
                    if chosen.holds(question.text):
                        yield question

    def read() -> Iterator[Question]:
        faults = FaultyTexts(source.name, notes, skip_faulty)
        yield from faults.counted(questions_of(faults))

    return Questions(**common, question_source=read).part(limit, first, seed)


def _refuse_statements(source: CorpusSource) -> None:
    if source.format.questions is None:
        raise TaskError(
            f"{source.name} is {source.format.name}, which has no questions; give {' or '.join(_asking())} data, or "
            f"{STORIES!r}"
        )


def _asking() -> list[str]:
    return [form.name for form in FORMATS if form.questions is not None]


def read_questions(
    path: Path | str,
    *,
    format: str | None = None,
    view: View | None = None,
    report: Report = raise_fault,
    noted: Notes | None = None,
) -> Iterator[Question]:
    """The questions of a file or folder in the format squad, hotpot, babi, trec or glue; it is detected by default.

    `view` is how they are shown. `noted` collects what was left out or changed.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "qa1_where_train.txt"
        >>> _ = path.write_text("1 Mary went home.\\n2 John went to sea.\\n3 Where is Mary?\\thome\\t1\\n")
        >>> [(question.question, question.answers) for question in read_questions(path)]
        [('Where is Mary?', ('home',))]
    """
    path = Path(path)
    if not path.exists():
        raise CorpusError(f"file or folder not found: {path}")
    form = get_format(format) if format else detect(path)
    if form.questions is None:
        raise CorpusError(f"{path} is read as {form.name}, which has no questions; use {' or '.join(_asking())}")
    for file in folder_contents(path, form).read:
        yield from form.questions(file, report, noted, view)


def typed_question(question: str, context: str, answer: str = "", support: Sequence[str] = ()) -> Questions:
    """A question and a context typed by a user, with the expected answer and its supporting sentences if given.

    The answer is accepted wherever it occurs in the context, ignoring case. `support` names sentences by some of their
    words; by default the sentences that hold the answer are the supporting facts.

    Example:
        >>> typed_question("Who barks?", "Dogs bark. Cats mew.").name
        'a typed question'
        >>> next(typed_question("Who barks?", "Dogs bark. Cats mew.", "dogs").questions()).answers
        ('Dogs',)
    """
    if not split_words(question).words:
        raise InputError("the question is empty; give it in quotes")
    if not split_words(context).words:
        raise InputError("the context is empty; give the text that holds the answer, in quotes")
    places = _places(answer.strip(), context)
    sentences = split_sentences(context, whole=places)
    facts = [place for words in support for place in _places(words.strip(), context, "support")[:1]]
    supporting = sentences_of(facts or places, sentences)
    typed = make_question("typed", question, context, sentences, places, supporting)
    return questions_from([typed], "a typed question")


def _places(answer: str, context: str, what: str = "answer") -> list[tuple[int, int]]:
    """Every occurrence of an answer, or of words of a supporting sentence, as whole words."""
    if not answer:
        return []
    occurrences = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", context, re.IGNORECASE)]
    if not occurrences:
        raise InputError(f"the {what} {answer[:80]!r} is not in the context; copy it from there, or leave it empty")
    return occurrences


def questions_from(questions: Sequence[Question], name: str, split: str = "") -> Questions:
    """A set made of these questions."""
    contents = [[question.text.id, question.question, question.context, question.answers] for question in questions]
    return Questions(
        name=name,
        split=split,
        unit="sentence",
        scheme="",
        fingerprint=fingerprint_of("questions", name, split, contents),
        source=lambda: (question.text for question in questions),
        question_source=lambda: iter(questions),
    )


def _with_entities(question: Question) -> Question:
    words = question.text.words
    known = [(position, _ENTITIES[word]) for position, word in enumerate(words) if word in _ENTITIES]
    edges = {
        **question.text.edges,
        "ner": tuple(Edge((kind,), Span(position, position + 1)) for position, kind in known),
    }
    return replace(question, text=replace(question.text, edges=edges))
