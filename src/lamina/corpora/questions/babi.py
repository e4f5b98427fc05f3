"""bAbI, and generated stories in its style: facts with questions about them.

bAbI has twenty tasks, one file per task and split. Lines are `n fact` or `n question<TAB>answer<TAB>numbers of the
supporting facts`; a new story starts again at 1. The context of a question is the facts before it. There are two views.
`span` appends the possible answers of the task (those of all files of that task in the folder, sorted; `apple,milk` is
one of them) as `Possible answers: a; b; c.`, and the answer span is always in that list, since not every answer occurs
in the story. `classification` leaves the story as it is, and the label is the answer. The list belongs to no sentence
and is not a supporting fact.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from lamina.corpora.corpus import View, origin_of
from lamina.corpora.questions.question import Question, make_question
from lamina.corpora.reading import Fault, Notes, Report, head_lines, raise_fault, read_lines
from lamina.corpora.splits import SPLITS
from lamina.errors import CorpusError
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


class _BabiQuestion(NamedTuple):
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
    for question in _babi_lines(path, report):
        yield _question(path, question, appended, task, noted)


def possible_answers(path: Path) -> tuple[str, ...]:
    """The answers of all files of the task, sorted."""
    files = (path, *companions(path))
    return tuple(sorted({question.answer for file in files for question in _babi_lines(file, lambda _: None)}))


def _question(
    path: Path, question: _BabiQuestion, appended: tuple[str, ...], task: str, noted: Notes | None
) -> Question:
    context = story = " ".join(question.facts)
    ranges, offset = [], 0
    for fact in question.facts:
        ranges.append((offset, offset + len(fact)))
        offset += len(fact) + 1
    places = []
    if appended:
        start = offset + len(_START) + sum(len(answer) + 2 for answer in appended[: appended.index(question.answer)])
        places = [(start, start + len(question.answer))]
        context = f"{context} {_START}{'; '.join(appended)}."
    doc = f"{path.stem}-{question.story}"
    id = f"{path.stem}-{question.line}"
    return make_question(
        id,
        question.question,
        context,
        ranges,
        places,
        question.support,
        doc=doc,
        origin=origin_of(question.question, story),
        answers=[question.answer],
        task=task,
        noted=noted,
    )


def _babi_lines(path: Path, report: Report) -> Iterator[_BabiQuestion]:
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
        elif (question := _parsed(numbered[2], line.number, story, facts, path, report)) is not None:
            yield question


def _parsed(
    content: str, line: int, story: int, facts: dict[int, str], path: Path, report: Report
) -> _BabiQuestion | None:
    """The question of a line; None after a fault."""
    parts = _QUESTION.fullmatch(content)
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
    return _BabiQuestion(
        line,
        story,
        parts[1],
        parts[2],
        tuple(facts.values()),
        frozenset(places[number] for number in support),
    )


# Generated stories: facts, a question, its answer, and the supporting facts.
#
# Tasks, by bAbI's numbers: 1 where somebody is (one supporting fact), 2 where a thing is (two), 3 where a thing was
# before (three), 15 what somebody is afraid of (deduction from two); and one of its own, 21 the one place, thing or
# animal of a story. The answer always occurs in a supporting fact, so nothing is appended. Each story has one
# question. The same seed gives the same stories on every machine, and a hash of its facts decides the split of a story,
# so that splits never share a story, even with different seeds.

TASK_TITLES = {
    "qa1": "where somebody is after several moves", "qa2": "where a thing is", "qa3": "where a thing was before",
    "qa4": "what is next to what", "qa5": "who gave what to whom", "qa6": "whether somebody is somewhere",
    "qa7": "how many things somebody has", "qa8": "what somebody carries", "qa9": "where somebody is not",
    "qa10": "where somebody may be", "qa11": "where he or she is", "qa12": "where two people are",
    "qa13": "where they are", "qa14": "where somebody was when", "qa15": "what somebody is afraid of",
    "qa16": "what colour something has", "qa17": "what lies where", "qa18": "what fits into what",
    "qa19": "the way from place to place", "qa20": "why somebody goes somewhere",
    "qa21": "the one place, thing or animal",
}  # fmt: skip
"""bAbI's tasks -> what is asked, as sentences say it."""
STORIES = "stories"
"""The name of the corpus."""
VERSION = 1
"""Raised when the same seed gives different stories."""
_Item = TypeVar("_Item")
PEOPLE = ("Ada", "Boris", "Clara", "Dimitri", "Elena", "Felix", "Greta", "Hugo")
PLACES = ("attic", "bakery", "cellar", "harbour", "library", "meadow", "museum", "station")
THINGS = ("basket", "candle", "coin", "drum", "kite", "lantern", "map", "violin")
KINDS = (("badger", "badgers"), ("crow", "crows"), ("fox", "foxes"), ("goose", "geese"), ("lynx", "lynxes"))
_VERBS = {
    "go": ("went to", "walked to", "hurried to", "returned to"),
    "take": ("picked up", "took", "grabbed"),
    "drop": ("put down", "dropped", "set down"),
}
_SIZES = {"train": 500, "dev": 100, "test": 100}
"""Split -> stories per task."""


class Story(NamedTuple):
    """Facts with one question about them."""

    facts: tuple[str, ...]
    question: str
    answer: str
    support: tuple[int, ...]
    """The facts the answer follows from; the first holds it."""


class _Chance:
    """Random draws that are the same on every machine for the same task and seed."""

    def __init__(self, task: int, seed: int) -> None:
        import numpy as np

        self._generator = np.random.default_rng([task, seed])

    def randint(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return int(self._generator.integers(low, high + 1))

    def choice(self, among: Sequence[_Item]) -> _Item:
        """One of them."""
        return among[self.randint(0, len(among) - 1)]

    def sample(self, among: Sequence[_Item], count: int) -> list[_Item]:
        """`count` different ones, in any order."""
        return [among[int(place)] for place in self._generator.permutation(len(among))[:count]]


class _StoryEvent(NamedTuple):
    who: str
    does: str
    """go, take or drop."""
    what: str
    """The place or the thing."""


def make_stories(task: int, count: int, seed: int, *, split: str | None = None) -> list[Question]:
    """`count` different stories of one task, as questions; with `split`, only stories of that split.

    Example:
        >>> story = make_stories(15, 1, seed=0)[0]
        >>> len(story.text.edges["sentence"]), sum(edge.labels == ("1",) for edge in story.text.edges["sup"])
        (8, 2)
    """
    if task not in _TASKS:
        raise CorpusError(f"there are no stories for task {task}; use {', '.join(map(str, _TASKS))}")
    if count < 1 or seed < 0:
        raise CorpusError(f"stories need a count of at least 1 and a seed of at least 0; got {count} and {seed}")
    return list(_made(task, count, seed, split))


# Cached: analyses read stories several times, and generating them is slow.
@lru_cache(maxsize=32)
def _made(task: int, count: int, seed: int, split: str | None) -> tuple[Question, ...]:
    chance = _Chance(task, seed)
    stories: dict[tuple[str, ...], Story] = {}
    while len(stories) < count:
        story = _TASKS[task](chance)
        if story is not None and split in (None, _split_of(story)):
            stories.setdefault(story.facts, story)
    name = "-".join(filter(None, (STORIES, f"qa{task}", split)))
    return tuple(
        _story_question(f"{name}-{number}", story, task) for number, story in enumerate(stories.values(), start=1)
    )


def story_questions(split: str, *, tasks: Collection[int] | None = None, seed: int = 0) -> Iterator[Question]:
    """The questions of a split (train, dev, test or all) of the corpus `stories`, task by task."""
    for task in tasks or _USUAL:
        for one in SPLITS:
            if split in (one, "all"):
                yield from make_stories(task, _SIZES[one], seed, split=one)


def split_note(split: str, seed: int, tasks: Collection[int] | None = None) -> str:
    """How a split of the corpus `stories` is made."""
    if split not in (*SPLITS, "all"):
        raise CorpusError(f"unknown split {split!r}; use train, dev, test or all")
    size = sum(_SIZES.values()) if split == "all" else _SIZES[split]
    return (
        f"{split} is {size} stories of each of the tasks {', '.join(map(str, tasks or _USUAL))}, made with seed {seed}"
    )


def _split_of(story: Story) -> str:
    """A tenth of all stories is dev, a tenth test."""
    tenth = hashlib.sha256(" ".join(story.facts).encode()).digest()[0] % 10
    return {0: "dev", 1: "test"}.get(tenth, "train")


def _story_question(id: str, story: Story, task: int) -> Question:
    ranges, offset = [], 0
    for fact in story.facts:
        ranges.append((offset, offset + len(fact)))
        offset += len(fact) + 1
    holds = story.support[0]
    start = ranges[holds][0] + story.facts[holds].rindex(story.answer)
    place = (start, start + len(story.answer))
    context = " ".join(story.facts)
    return make_question(id, story.question, context, ranges, [place], story.support, doc=id, task=f"qa{task}")


def _somebody(chance: _Chance) -> Story:
    """Task 1: where somebody is."""
    events = _events(chance, chance.randint(3, 7), things=0)
    who = chance.choice([event.who for event in events])
    last = _last(events, who, "go")
    return Story(_told(events, chance), f"Where is {who}?", events[last].what, (last,))


def _something(chance: _Chance) -> Story | None:
    """Task 2: where a thing is that somebody carries or has put down."""
    events = _events(chance, chance.randint(6, 10), things=3)
    touched = {event.what: position for position, event in enumerate(events) if event.does != "go"}
    if not touched:
        return None
    thing = chance.choice(list(touched))
    position = touched[thing]
    # A carried thing moves along; one that was put down stays.
    until = len(events) if events[position].does == "take" else position
    went = _last(events[:until], events[position].who, "go")
    return Story(_told(events, chance), f"Where is the {thing}?", events[went].what, (went, position))


def _before(chance: _Chance) -> Story | None:
    """Task 3: where a thing was before the place somebody carried it to."""
    events = _events(chance, chance.randint(8, 14), things=2)
    moves = [carried for thing in THINGS for carried in _carried(events, thing)]
    if not moves:
        return None
    thing, came, left, taken = chance.choice(moves)
    question = f"Where was the {thing} before the {events[came].what}?"
    return Story(_told(events, chance), question, events[left].what, (left, came, taken))


def _carried(events: list[_StoryEvent], thing: str) -> Iterator[tuple[str, int, int, int]]:
    """Every place a thing was carried to just once: the thing, that move, the move before, and the taking."""
    moves, taken = [], None
    places: list[str] = []
    for position, event in enumerate(events):
        if event.what == thing:
            taken = position if event.does == "take" else None
            if taken is not None and not places:
                places.append(events[_last(events[:position], event.who, "go")].what)
        elif taken is not None and event.does == "go" and event.who == events[taken].who:
            moves.append((thing, position, _last(events[:position], event.who, "go"), taken))
            places.append(event.what)
    return (move for move in moves if places.count(events[move[1]].what) == 1)


def _kind(chance: _Chance) -> Story:
    """Task 21: the one place, thing or animal of a story; the question says which of them."""
    people = chance.sample(PEOPLE, 3)
    place, thing, (animal, _) = chance.choice(PLACES), chance.choice(THINGS), chance.choice(KINDS)
    facts = [
        (f"{people[0]} {chance.choice(_VERBS['go'])} the {place}.", "Where did somebody go?", place),
        (f"{people[1]} {chance.choice(_VERBS['take'])} the {thing}.", "What did somebody take?", thing),
        (f"{people[2]} is a {animal}.", "What is somebody?", animal),
    ]
    order = chance.sample(facts, len(facts))
    position = chance.randint(0, len(order) - 1)
    _, question, answer = order[position]
    return Story(tuple(fact for fact, _, _ in order), question, answer, (position,))


def _fear(chance: _Chance) -> Story:
    """Task 15: what somebody is afraid of, given their kind."""
    kinds = chance.sample(KINDS, 4)
    feared = {kind: chance.choice([other for other in kinds if other != kind]) for kind in kinds}
    people = {who: chance.choice(kinds) for who in chance.sample(PEOPLE, 4)}
    facts = [f"{kind[1].capitalize()} are afraid of {feared[kind][1]}." for kind in kinds]
    facts += [f"{who} is a {kind[0]}." for who, kind in people.items()]
    facts = chance.sample(facts, len(facts))
    who, kind = chance.choice(list(people.items()))
    fear = facts.index(f"{kind[1].capitalize()} are afraid of {feared[kind][1]}.")
    support = (fear, facts.index(f"{who} is a {kind[0]}."))
    return Story(tuple(facts), f"What is {who} afraid of?", feared[kind][1], support)


def _events(chance: _Chance, length: int, things: int) -> list[_StoryEvent]:
    """What four people do: move around, take things, carry them and put them down."""
    people, at_hand = chance.sample(PEOPLE, 4), chance.sample(THINGS, things)
    place: dict[str, str] = {}
    holder: dict[str, str] = {}
    lies: dict[str, str] = {}
    events: list[_StoryEvent] = []
    while len(events) < length:
        who = chance.choice(people)
        near = [thing for thing in at_hand if thing not in holder and lies.get(thing) in (None, place.get(who))]
        carried = [thing for thing in at_hand if holder.get(thing) == who]
        can = ["go", "go"] + ["take"] * (bool(near) and who in place) + ["drop"] * bool(carried)
        does = chance.choice(can)
        if does == "go":
            place[who] = chance.choice([one for one in PLACES if one != place.get(who)])
            events.append(_StoryEvent(who, does, place[who]))
        elif does == "take":
            thing = chance.choice(near)
            holder[thing] = who
            events.append(_StoryEvent(who, does, thing))
        else:
            thing = chance.choice(carried)
            del holder[thing]
            lies[thing] = place[who]
            events.append(_StoryEvent(who, does, thing))
    return events


def _last(events: list[_StoryEvent], who: str, does: str) -> int:
    return max(position for position, event in enumerate(events) if (event.who, event.does) == (who, does))


def _told(events: list[_StoryEvent], chance: _Chance) -> tuple[str, ...]:
    return tuple(f"{event.who} {chance.choice(_VERBS[event.does])} the {event.what}." for event in events)


_TASKS: dict[int, Callable[[_Chance], Story | None]] = {1: _somebody, 2: _something, 3: _before, 15: _fear, 21: _kind}
_USUAL = (1, 2, 3, 15)
"""Tasks of the corpus where none is named; 21, which is learned soonest, is for those who name it."""
