"""bAbI: short stories of facts with questions about them; twenty tasks, one file per task and split.

Lines are `n fact` or `n question<TAB>answer<TAB>numbers of the supporting facts`; a new story starts again at 1. The
context of a question is the facts before it. There are two views. `span` appends the possible answers of the task
(those of all files of that task in the folder, sorted; `apple,milk` is one of them) as `Possible answers: a; b; c.`,
and the answer span is always in that list, since not every answer occurs in the story. `classification` leaves the
story as it is, and the label is the answer. The list belongs to no sentence and is not a supporting fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.notes import Notes
from lamina.corpora.origins import origin_of
from lamina.corpora.question import Question, make_question
from lamina.corpora.reading import Fault, Report, head_lines, raise_fault, read_lines
from lamina.corpora.views import View
from lamina.types import Text

_LINE = re.compile(r"([0-9]{1,9}) (\S.*)")
_QUESTION = re.compile(r"([^\t]*\S)\s*\t([^\t]*\S)\s*\t\s*([0-9]{1,9}(?: +[0-9]{1,9})*)\s*")
_NAME = re.compile(r"qa(\d+)(?!\d)")
_START = "Possible answers: "
# Every question repeats the facts before it and the possible answers, so that both need a limit. bAbI's longest story
# has 233 lines, and no task more than 12 answers.
_LONGEST_STORY = 500
_LONGEST_FACT = 10_000
"""Most characters of a line: each is read again with every later question of its story."""
_MOST_ANSWERS = 1000


class _Asked(NamedTuple):
    """A question as given in its line."""

    line: int
    story: int
    question: str
    answer: str
    facts: tuple[str, ...]
    support: frozenset[int]
    """The supporting facts, as indices into `facts`."""


def looks_like(path: Path) -> bool:
    """Whether the lines are numbered from 1 and some are a question with its answer and supporting facts."""
    lines = [_LINE.fullmatch(line) for line in head_lines(path) if line.strip()] if path.is_file() else []
    numbered = bool(lines) and all(lines) and lines[0] is not None and lines[0][1] == "1"
    return numbered and any(line is not None and _QUESTION.fullmatch(line[2]) for line in lines)


def read(path: Path, report: Report = raise_fault, noted: Notes | None = None) -> Iterator[Text]:
    """One text per question, with the possible answers appended."""
    return (question.text for question in questions(path, report, noted))


def companions(path: Path) -> tuple[Path, ...]:
    """The other files of the task, which hold the other possible answers."""
    task = _NAME.match(path.name)
    if task is None:
        return ()
    files = path.parent.glob(f"qa{task[1]}_*{path.suffix}")
    return tuple(sorted(file for file in files if file.name != path.name and file.is_file()))


def task_of(path: Path) -> str:
    """The task in a file's name, such as qa1; the whole stem if the name contains none.

    Example:
        >>> task_of(Path("qa15_basic-deduction_test.txt")), task_of(Path("mine.txt"))
        ('qa15', 'mine')
    """
    named = _NAME.match(path.name)
    return named[0] if named else path.stem


def questions(
    path: Path, report: Report = raise_fault, noted: Notes | None = None, view: View | None = None
) -> Iterator[Question]:
    """Every question of a file, with all facts before it; none if the view excludes its task."""
    view = view or View()
    task = task_of(path)
    if view.tasks is not None and task not in {f"qa{number}" for number in view.tasks}:
        return
    appended = possible_answers(path) if view.babi == "span" else ()
    if len(appended) > _MOST_ANSWERS:
        what = f"task {task} has {len(appended):,} different answers"
        return report(Fault(path, 0, what, f"at most {_MOST_ANSWERS:,}: every question is shown all of them"))
    for asked in _asked(path, report):
        yield _question(path, asked, appended, task, noted)


def possible_answers(path: Path) -> tuple[str, ...]:
    """The answers of all files of the task, sorted."""
    files = (path, *companions(path))
    return tuple(sorted({asked.answer for file in files for asked in _asked(file, lambda _: None)}))


def _question(path: Path, asked: _Asked, appended: tuple[str, ...], task: str, noted: Notes | None) -> Question:
    context = story = " ".join(asked.facts)
    ranges, at = [], 0
    for fact in asked.facts:
        ranges.append((at, at + len(fact)))
        at += len(fact) + 1
    places = []
    if appended:
        start = at + len(_START) + sum(len(answer) + 2 for answer in appended[: appended.index(asked.answer)])
        places = [(start, start + len(asked.answer))]
        context = f"{context} {_START}{'; '.join(appended)}."
    doc = f"{path.stem}-{asked.story}"
    id = f"{path.stem}-{asked.line}"
    return make_question(
        id,
        asked.question,
        context,
        ranges,
        places,
        asked.support,
        doc=doc,
        origin=origin_of(asked.question, story),
        answers=[asked.answer],
        task=task,
        noted=noted,
    )


def _asked(path: Path, report: Report) -> Iterator[_Asked]:
    story, facts, expected = 0, {}, 1
    for line in read_lines(path, report):
        if line is None:
            expected += 1
            continue
        if not line.text.strip():
            continue
        numbered = _LINE.fullmatch(line.text)
        number = int(numbered[1]) if numbered else 0
        if number == 1:
            story, facts = story + 1, {}
        elif numbered is None or number != expected:
            report(Fault(path, line.number, "not the next line of a story", f"{expected} or 1, a space and a sentence"))
        expected = number + 1 if numbered else expected + 1
        if number == _LONGEST_STORY + 1:
            longest = f"a new story, which starts at 1: one has at most {_LONGEST_STORY:,} lines"
            report(Fault(path, line.number, "the story is too long", longest))
        if numbered is None or not story or number > _LONGEST_STORY:
            continue
        if len(line.text) > _LONGEST_FACT:
            what = f"a line of {len(line.text):,} characters"
            report(Fault(path, line.number, what, f"at most {_LONGEST_FACT:,}"))
            continue
        if "\t" not in numbered[2]:
            facts[number] = numbered[2].strip()
        elif (asked := _parsed(numbered[2], line.number, story, facts, path, report)) is not None:
            yield asked


def _parsed(said: str, line: int, story: int, facts: dict[int, str], path: Path, report: Report) -> _Asked | None:
    """The question of a line; None after a fault."""
    parts = _QUESTION.fullmatch(said)
    id = f"{path.stem}-{line}"
    if parts is None:
        report(Fault(path, line, f"question {id} is not complete", "question, tab, answer, tab, numbers of facts"))
        return None
    if not facts:
        report(Fault(path, line, f"question {id}: the context is empty", "facts before the question"))
        return None
    places = {number: place for place, number in enumerate(facts)}
    support = [int(number) for number in parts[3].split()]
    if unknown := [number for number in support if number not in places]:
        what = f"question {id}: supporting line {unknown[0]} is not a fact before the question"
        report(Fault(path, line, what, "the number of a fact of the story"))
        return None
    return _Asked(
        line,
        story,
        parts[1],
        parts[2],
        tuple(facts.values()),
        frozenset(places[number] for number in support),
    )
