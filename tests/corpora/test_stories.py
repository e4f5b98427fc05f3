"""Generated stories, answered once more by a solver that reads nothing but their sentences."""

from __future__ import annotations

import re

import pytest

from lamina.corpora import load_corpus
from lamina.corpora.questions.babi import KINDS, PLACES, make_stories, story_questions
from lamina.corpora.questions.question import answer_text
from lamina.errors import CorpusError

TASKS = (1, 2, 3, 15)
FACT = re.compile(r"(\w+) (.+) the (\w+)\.")
SUPPORTING = {1: 1, 2: 2, 3: 3, 15: 2}


def _world(facts):
    """Where people are, and every place each thing is known to have been, in order."""
    at, carried, trail = {}, {}, {}

    def seen(thing, place):
        places = trail.setdefault(thing, [])
        if place is not None and places[-1:] != [place]:
            places.append(place)

    for fact in facts:
        who, does, what = FACT.fullmatch(fact).groups()
        if what in PLACES:
            at[who] = what
            for thing in (thing for thing, holder in carried.items() if holder == who):
                seen(thing, what)
        elif does in ("put down", "dropped", "set down"):
            assert carried.pop(what, who) == who, "nobody puts down what another carries"
            seen(what, at.get(who))
        else:
            assert what not in carried, "nobody takes what another carries"
            carried[what] = who
            assert trail.get(what, [at.get(who)])[-1] == at.get(who), "a thing is taken where it lies"
            seen(what, at.get(who))
    return at, trail


def _solve(facts, question):
    if who := re.fullmatch(r"Where is (\w+)\?", question):
        return _world(facts)[0][who[1]]
    if thing := re.fullmatch(r"Where is the (\w+)\?", question):
        return _world(facts)[1][thing[1]][-1]
    if asked := re.fullmatch(r"Where was the (\w+) before the (\w+)\?", question):
        trail = _world(facts)[1][asked[1]]
        assert trail.count(asked[2]) == 1, "only one place is the one before"
        return trail[trail.index(asked[2]) - 1]
    who = re.fullmatch(r"What is (\w+) afraid of\?", question)[1]
    many = {one: more.capitalize() for one, more in KINDS}
    (kind,) = [many[fact.removeprefix(f"{who} is a ")[:-1]] for fact in facts if fact.startswith(f"{who} is a ")]
    (fear,) = [fact.rsplit(" ", 1)[1][:-1] for fact in facts if fact.startswith(f"{kind} are afraid of ")]
    return fear


@pytest.mark.parametrize("task", TASKS)
def test_a_solver_agrees_on_answers_and_supporting_facts(task):
    for question in make_stories(task, 200, seed=3):
        edges = question.text.edges
        facts = [answer_text(question, edge.span) for edge in edges["sentence"]]
        support = [answer_text(question, edge.other) for edge in edges["sup"] if edge.labels == ("1",)]
        assert " ".join(facts) == question.context
        assert question.answers == (_solve(facts, question.question),)
        assert len(support) == SUPPORTING[task]
        # The answer follows from the supporting facts alone.
        assert _solve(support, question.question) == question.answers[0]
        (edge,) = edges["answer"]
        assert answer_text(question, edge.span) == question.answers[0]
        holding = [other.other for other in edges["sup"] if edge.span.start in other.other]
        assert answer_text(question, holding[0]) in support
        assert (question.task, question.text.doc) == (f"qa{task}", question.text.id)


@pytest.mark.parametrize("task", TASKS)
def test_seeds_are_honoured_and_stories_differ(task):
    first, again, other = (make_stories(task, 50, seed) for seed in (1, 1, 2))
    assert first == again
    assert [one.context for one in first] != [one.context for one in other]
    assert len({one.context for one in first}) == len({one.text.id for one in first}) == 50


def test_splits_share_no_story_whatever_the_seeds():
    told = {
        split: {q.context for seed in (0, 1) for q in story_questions(split, tasks=[1], seed=seed)}
        for split in ("train", "dev", "test")
    }
    assert not told["train"] & told["dev"]
    assert not told["train"] & told["test"]
    assert not told["dev"] & told["test"]


def test_a_corpus_that_is_made():
    corpus = load_corpus("stories", "dev", limit=150)
    assert len(corpus) == 150
    assert corpus.annotations == ("question", "sentence", "answer", "sup")
    assert corpus.made_split == "dev is 100 stories of each of the tasks 1, 2, 3, 15, made with seed 0"
    assert corpus.fingerprint != load_corpus("stories", "dev", limit=150, seed=1).fingerprint
    with pytest.raises(CorpusError, match="unknown split 'valid'"):
        load_corpus("stories", "valid")


def test_what_cannot_be_made_is_said():
    with pytest.raises(CorpusError, match="no stories for task 4; use 1, 2, 3, 15"):
        make_stories(4, 1, 0)
    with pytest.raises(CorpusError, match="at least 1"):
        make_stories(1, 0, 0)
