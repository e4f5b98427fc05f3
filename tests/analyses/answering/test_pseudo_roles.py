"""Nulls of the same shape as support and answer."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from lamina.analyses.answering.roles import (
    GROUPS,
    AnswerPositions,
    moved_positions,
    note_answers,
    pseudo_groups,
    roles_of,
    runs_of,
)
from lamina.corpora.questions.question import Question, make_question
from lamina.types import Span

QUESTION, SUPPORT, ANSWER, OTHER, PREDICTED, WORDS = range(len(GROUPS))


def asked(sentences: int = 6, support: tuple[int, ...] = (2,), answer: tuple[int, int] = (1, 3)) -> Question:
    """Sentences of four words and a full stop; the answer is some words of the first supporting one."""
    parts = [" ".join(f"w{number}x{word}" for word in range(4)) + "." for number in range(sentences)]
    context, ranges, at = " ".join(parts), [], 0
    for part in parts:
        ranges.append((at, at + len(part)))
        at += len(part) + 1
    words = parts[support[0]][:-1].split()
    start = ranges[support[0]][0] + sum(len(word) + 1 for word in words[: answer[0]])
    place = (start, start + len(" ".join(words[answer[0] : answer[1]])))
    return make_question("q", "who did it?", context, ranges, [place], set(support), doc="d")


def drawn(question: Question, predicted: Span | None = None, seed: int = 0) -> np.ndarray:
    positions = AnswerPositions()
    note_answers(question, positions)
    return pseudo_groups(question, roles_of(question, predicted), positions, np.random.default_rng(seed)) > 0


@pytest.mark.parametrize("seed", range(5))
def test_pseudo_support_and_answer_have_the_shape_of_the_real_ones_and_share_no_word_with_them(seed: int) -> None:
    question = asked()
    roles = roles_of(question)
    groups = drawn(question, seed=seed)
    (answer,) = runs_of(groups[ANSWER])
    assert len(answer) == int(roles.gold.sum()) == 2
    assert not (groups[ANSWER] & (roles.gold | roles.question)).any()
    assert not (groups[SUPPORT] & (roles.support | roles.gold | roles.question)).any()
    numbers = set(roles.sentence[groups[SUPPORT]])
    assert len(numbers) == 1
    assert not (groups[OTHER] & (roles.support | roles.gold)).any()
    assert (groups[:4].sum(0) <= 1).all()
    assert (groups[QUESTION] == roles.question).all()
    assert (groups[WORDS] == ~roles.gold).all()


def test_a_pseudo_prediction_is_as_long_as_the_prediction_and_no_answer() -> None:
    question = asked()
    first = question.text.segments[1].start
    predicted = Span(first, first + 3)
    groups = drawn(question, predicted)
    roles = roles_of(question, predicted)
    assert groups[PREDICTED].sum() == 3
    assert not (groups[PREDICTED] & (roles.predicted | roles.gold | groups[ANSWER])).any()
    assert (groups[WORDS] == ~(roles.gold | roles.predicted)).all()


def test_neighbouring_sentences_are_replaced_by_neighbours() -> None:
    for seed in range(10):
        one, other = moved_positions([2, 3], {0, 1, 4, 5, 6}, np.random.default_rng(seed))
        assert other - one == 1
        assert {one, other} <= {0, 1, 4, 5, 6}
    assert moved_positions([1, 2], {0, 3}, np.random.default_rng(0)) == []
    # Far from each other they need not keep their distance where it fits nowhere.
    assert sorted(moved_positions([0, 4], {1, 3}, np.random.default_rng(0))) == [1, 3]
    assert moved_positions([0, 4], {1}, np.random.default_rng(0)) == []
    assert moved_positions([], {1}, np.random.default_rng(0)) == []


def test_pseudo_answers_lie_where_answers_lie() -> None:
    draw = np.random.default_rng(0)
    positions = AnswerPositions()
    places = draw.beta(2, 5, 3000)
    for place in places:
        start = int(place * 98)
        positions.add(Span(start, start + 2), Span(0, 100))
    free = np.ones(100, bool)
    found = [positions.draw(2, free, draw) for _ in range(1500)]
    starts = np.array([span.start for span in found if span is not None]) / 98
    # Bins of a twentieth, whole words: the distributions may differ by a little more than chance.
    assert kstest(starts, places).statistic < 0.05
    assert positions.draw(2, np.array([True, False] * 10), draw) is None


def test_without_room_there_is_no_pseudo_role() -> None:
    groups = drawn(asked(sentences=1, support=(0,), answer=(0, 3)))
    assert not groups[ANSWER].any()
    assert not groups[SUPPORT].any()
