"""Roles of words and tokens, questions as sets, and who has seen what."""

from __future__ import annotations

import numpy as np
import pytest

from lamina.analyses.answering.roles import GROUPS, groups_of, roles_of
from lamina.analyses.answering.streaming import ANSWERS, COLUMNS, AnswerOutcome, PhaseSums, memberships
from lamina.corpora.question_sets import load_questions, questions_from, typed_question
from lamina.corpora.questions.question import Question, make_question
from lamina.errors import InputError, TaskError
from lamina.testing import TinyEncoder
from lamina.types import Span


@pytest.fixture
def barking() -> Question:
    context = "Dogs bark. Cats mew."
    return make_question("q", "Who barks?", context, [(0, 10), (11, 20)], [(0, 4)], {0}, doc="pets")


def said(question: Question, marks: np.ndarray) -> list[str]:
    return [word for word, mark in zip(question.text.words, marks, strict=True) if mark]


def test_a_word_can_be_gold_predicted_and_support_at_once(barking: Question) -> None:
    roles = roles_of(barking, Span(3, 5))
    assert said(barking, roles.question) == ["Who", "barks", "?"]
    assert said(barking, roles.support) == ["Dogs", "bark", "."]
    assert said(barking, roles.gold) == ["Dogs"]
    assert said(barking, roles.predicted) == ["Dogs", "bark"]
    assert said(barking, roles.gold & roles.predicted & roles.support) == ["Dogs"]
    assert roles.sentence.tolist() == [-1, -1, -1, 0, 0, 0, 1, 1, 1]


def test_tokens_have_the_roles_of_their_words_and_special_ones_none(barking: Question) -> None:
    tokens = TinyEncoder().tokenize(barking.text)
    roles = roles_of(barking).of_tokens(tokens)
    assert len(roles.gold) == len(tokens.ids)
    assert set(tokens.words[roles.gold].tolist()) == {3}
    assert roles.gold.sum() == (tokens.words == 3).sum() == 2
    special = tokens.words == -1
    assert not any(role[special].any() for role in roles[:4])
    assert (roles.sentence[special] == -1).all()


def test_groups_share_no_word_but_for_the_prediction(barking: Question) -> None:
    groups = groups_of(roles_of(barking, Span(4, 5)))
    assert (groups[:4].sum(0) == 1).all()
    assert said(barking, groups[GROUPS.index("support")] > 0) == ["bark", "."]
    assert said(barking, groups[GROUPS.index("other")] > 0) == ["Cats", "mew", "."]
    assert said(barking, groups[GROUPS.index("predicted")] > 0) == ["bark"]


def test_a_context_of_one_sentence_supports_what_it_answers() -> None:
    answered = make_question("q", "Who?", "Dogs bark.", [(0, 10)], [(0, 4)], {0})
    assert said(answered, roles_of(answered).support) == ["Dogs", "bark", "."]
    typed = next(typed_question("Who?", "Dogs bark.").questions())
    assert not roles_of(typed).support.any()


def test_a_typed_question_needs_words() -> None:
    with pytest.raises(InputError, match="question is empty"):
        typed_question(" ", "Dogs bark.")
    with pytest.raises(InputError, match="context is empty"):
        typed_question("Who?", " \n")


def test_stories_carry_their_entities_and_can_be_found() -> None:
    stories = load_questions("stories", "test", limit=5)
    listed = list(stories.questions())
    assert len(listed) == 5
    kinds = {edge.labels[0] for question in listed for edge in question.text.edges["ner"]}
    assert {"person", "place"} <= kinds
    found = stories.find(listed[3].text.id)
    assert [question.question for question in found.questions()] == [listed[3].question]
    with pytest.raises(InputError, match="no question 'nobody' among its 5"):
        stories.find("nobody")


def test_data_without_contexts_is_refused(tmp_path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("Dogs bark .\nCats mew .\n")
    with pytest.raises(TaskError, match="has no questions"):
        load_questions(path, "all", format="plain")


def test_sets_of_other_questions_have_other_fingerprints(barking: Question) -> None:
    one, other = questions_from([barking], "a"), questions_from([barking, barking], "a")
    assert one.fingerprint != other.fingerprint
    assert questions_from([barking], "a").fingerprint == one.fingerprint


@pytest.mark.parametrize(
    ("given", "groups"),
    [
        (None, ["all"]),
        (AnswerOutcome(True, 0.1), ["all", "right"]),
        (AnswerOutcome(False, 0.6), ["all", "wrong", "confident wrong"]),
        (AnswerOutcome(False, 0.4), ["all", "wrong", "low confidence"]),
    ],
)
def test_groups_of_answers(given: AnswerOutcome | None, groups: list[str]) -> None:
    assert [ANSWERS[group] for group in memberships(given, 0.5)] == groups


def test_sums_are_means_over_what_was_measured() -> None:
    sums = PhaseSums(1, samples=200, seed=0)
    column, alike = COLUMNS.index("within_question"), COLUMNS.index("anisotropy")
    for number, (value, unrelated) in enumerate([(0.5, np.nan), (0.7, 0.2), (np.nan, 0.4)]):
        values = np.full((1, len(COLUMNS)), np.nan)
        values[0, column], values[0, alike] = value, unrelated
        sums.add(f"doc {number}", [0], values)
    means = sums.means()
    assert means.values[0, 0, column] == pytest.approx(0.6)
    assert means.values[0, 0, alike] == pytest.approx(0.3)
    assert (means.counts[0, 0, column], means.units[0, 0, column]) == (2, 2)
    assert np.isfinite(means.values).sum() == 2
