"""Generated stories in the style of bAbI: facts, a question, its answer, and the supporting facts.

Tasks, by bAbI's numbers: 1 where somebody is (one supporting fact), 2 where a thing is (two), 3 where a thing was
before (three), 15 what somebody is afraid of (deduction from two). The answer always occurs in a supporting fact, so
nothing is appended. Each story has one question. The same seed gives the same stories on every machine, and a hash of
its facts decides the split of a story, so that splits never share a story, even with different seeds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

from lamina.corpora.question import Question, make_question
from lamina.corpora.splits import SPLITS
from lamina.errors import CorpusError

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


class _Event(NamedTuple):
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
    told: dict[tuple[str, ...], Story] = {}
    while len(told) < count:
        story = _TASKS[task](chance)
        if story is not None and split in (None, _split_of(story)):
            told.setdefault(story.facts, story)
    name = "-".join(filter(None, (STORIES, f"qa{task}", split)))
    return tuple(_question(f"{name}-{number}", story, task) for number, story in enumerate(told.values(), start=1))


def story_questions(split: str, *, tasks: Collection[int] | None = None, seed: int = 0) -> Iterator[Question]:
    """The questions of a split (train, dev, test or all) of the corpus `stories`, task by task."""
    for task in tasks or _TASKS:
        for one in SPLITS:
            if split in (one, "all"):
                yield from make_stories(task, _SIZES[one], seed, split=one)


def split_note(split: str, seed: int, tasks: Collection[int] | None = None) -> str:
    """How a split of the corpus `stories` is made."""
    if split not in (*SPLITS, "all"):
        raise CorpusError(f"unknown split {split!r}; use train, dev, test or all")
    size = sum(_SIZES.values()) if split == "all" else _SIZES[split]
    return (
        f"{split} is {size} stories of each of the tasks {', '.join(map(str, tasks or _TASKS))}, made with seed {seed}"
    )


def _split_of(story: Story) -> str:
    """A tenth of all stories is dev, a tenth test."""
    tenth = hashlib.sha256(" ".join(story.facts).encode()).digest()[0] % 10
    return {0: "dev", 1: "test"}.get(tenth, "train")


def _question(id: str, story: Story, task: int) -> Question:
    ranges, at = [], 0
    for fact in story.facts:
        ranges.append((at, at + len(fact)))
        at += len(fact) + 1
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
    touched = {event.what: at for at, event in enumerate(events) if event.does != "go"}
    if not touched:
        return None
    thing = chance.choice(list(touched))
    at = touched[thing]
    # A carried thing moves along; one that was put down stays.
    until = len(events) if events[at].does == "take" else at
    went = _last(events[:until], events[at].who, "go")
    return Story(_told(events, chance), f"Where is the {thing}?", events[went].what, (went, at))


def _before(chance: _Chance) -> Story | None:
    """Task 3: where a thing was before the place somebody carried it to."""
    events = _events(chance, chance.randint(8, 14), things=2)
    found = [carried for thing in THINGS for carried in _carried(events, thing)]
    if not found:
        return None
    thing, came, left, taken = chance.choice(found)
    question = f"Where was the {thing} before the {events[came].what}?"
    return Story(_told(events, chance), question, events[left].what, (left, came, taken))


def _carried(events: list[_Event], thing: str) -> Iterator[tuple[str, int, int, int]]:
    """Every place a thing was carried to just once: the thing, that move, the move before, and the taking."""
    moves, taken = [], None
    places: list[str] = []
    for at, event in enumerate(events):
        if event.what == thing:
            taken = at if event.does == "take" else None
            if taken is not None and not places:
                places.append(events[_last(events[:at], event.who, "go")].what)
        elif taken is not None and event.does == "go" and event.who == events[taken].who:
            moves.append((thing, at, _last(events[:at], event.who, "go"), taken))
            places.append(event.what)
    return (move for move in moves if places.count(events[move[1]].what) == 1)


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


def _events(chance: _Chance, length: int, things: int) -> list[_Event]:
    """What four people do: move around, take things, carry them and put them down."""
    people, at_hand = chance.sample(PEOPLE, 4), chance.sample(THINGS, things)
    place: dict[str, str] = {}
    holder: dict[str, str] = {}
    lies: dict[str, str] = {}
    events: list[_Event] = []
    while len(events) < length:
        who = chance.choice(people)
        near = [thing for thing in at_hand if thing not in holder and lies.get(thing) in (None, place.get(who))]
        held = [thing for thing in at_hand if holder.get(thing) == who]
        can = ["go", "go"] + ["take"] * (bool(near) and who in place) + ["drop"] * bool(held)
        does = chance.choice(can)
        if does == "go":
            place[who] = chance.choice([one for one in PLACES if one != place.get(who)])
            events.append(_Event(who, does, place[who]))
        elif does == "take":
            thing = chance.choice(near)
            holder[thing] = who
            events.append(_Event(who, does, thing))
        else:
            thing = chance.choice(held)
            del holder[thing]
            lies[thing] = place[who]
            events.append(_Event(who, does, thing))
    return events


def _last(events: list[_Event], who: str, does: str) -> int:
    return max(at for at, event in enumerate(events) if (event.who, event.does) == (who, does))


def _told(events: list[_Event], chance: _Chance) -> tuple[str, ...]:
    return tuple(f"{event.who} {chance.choice(_VERBS[event.does])} the {event.what}." for event in events)


_TASKS: dict[int, Callable[[_Chance], Story | None]] = {1: _somebody, 2: _something, 3: _before, 15: _fear}
