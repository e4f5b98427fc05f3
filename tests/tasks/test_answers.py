"""Exact match and F1 as SQuAD's own script has them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import TaskError
from lamina.tasks.task import best, exact_match, f1, normalise

ANSWERS = st.text(alphabet="abthen .,'-THE24\u2013\u00e9\t", max_size=30)


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ("The Broncos", "broncos"),
        ("Theatre", "theatre"),
        ("a an the", ""),
        ("U.S.", "us"),
        ("  two\t words\n", "two words"),
        ("24\u201310", "24\u201310"),  # an en dash is not among string.punctuation, nor is it in the official script
        ("Levi's", "levis"),
        ("the-the", "thethe"),  # punctuation goes first, as in the official script
    ],
)
def test_normalised_as_the_official_script_does(given_, expected):
    assert normalise(given_) == expected


@pytest.mark.parametrize(
    ("prediction", "answer", "exact", "overlap"),
    [
        ("Denver Broncos", "Denver Broncos", 1, 1),
        ("the Denver Broncos!", "denver broncos", 1, 1),
        # 2 words shared of 3 and 2: precision 2/3, recall 1, F1 = 0.8
        ("Denver Broncos team", "Denver Broncos", 0, 0.8),
        # words count as often as they occur: 1 shared of 2 and 1
        ("two two", "two", 0, 2 / 3),
        # 3 shared of 5 and 4: 2 * 3/5 * 3/4 / (3/5 + 3/4) = 2/3
        ("won by Denver in 2016", "Denver won in February", 0, 2 / 3),
        ("Panthers", "Broncos", 0, 0),
        ("", "Broncos", 0, 0),
        # Nothing is left of either: equal, but no word is shared; the official script says so too.
        ("the", "a", 1, 0),
    ],
)
def test_cases_worked_by_hand(prediction, answer, exact, overlap):
    assert exact_match(prediction, answer) == exact
    assert f1(prediction, answer) == pytest.approx(overlap)


def test_the_best_accepted_answer_counts():
    scores = best("gold", ["golden anniversary", "the gold", "gold-themed"])
    assert scores == (1.0, 1.0)
    # 1 shared of 2 and 3, and 2 of 2 and 3
    assert best("red car", ["a big red bus", "the very red car"]) == (0.0, 0.8)
    with pytest.raises(TaskError, match="without accepted answers"):
        best("gold", [])


@given(ANSWERS, ANSWERS)
def test_bounded_symmetric_and_agreeing(one, two):
    assert 0 <= f1(one, two) <= 1
    assert f1(one, two) == f1(two, one)
    assert exact_match(one, two) == exact_match(two, one)
    if exact_match(one, two) and normalise(one):
        assert f1(one, two) == 1
    assert normalise(normalise(one)) == normalise(one)


@given(ANSWERS, st.lists(ANSWERS, min_size=1, max_size=4))
def test_more_accepted_answers_never_score_less(prediction, answers):
    scores = best(prediction, answers)
    assert scores.exact <= best(prediction, [*answers, prediction]).exact == 1
    assert scores.f1 <= best(prediction, [*answers, "more"]).f1
