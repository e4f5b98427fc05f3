"""Second contexts in which two strings of one class have changed places."""

from __future__ import annotations

import pytest

from lamina.corpora.question_sets import load_questions, typed_question
from lamina.corpora.questions.exchanged_answers import asked_exchanges, class_of, exchanged, exchanges, known_answers
from lamina.corpora.questions.question import Question


def ask(question: str, context: str, answer: str) -> Question:
    return next(typed_question(question, context, answer).questions())


def others(question: Question) -> set[str]:
    return {exchanged(question, each).context for each in exchanges(question, {})}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [("1066", "year"), ("2100", "number"), ("3.5", "number"), ("Twelve", "number"), ("Émile Zola", "name"),
     ("McCarthy's", "name"), ("the Beatles", None), ("born 1815", None), ("dogs", None)],
)  # fmt: skip
def test_the_class_of_an_answer_is_told_from_its_letters(answer: str, kind: str | None) -> None:
    assert class_of(answer) == kind


def test_answers_change_places_with_strings_of_their_class_alone() -> None:
    context = "Ada came in 1815 with 12 dogs. Bo left in 1822, Cy in 1850-51 with Bo, in all 40 times."
    assert others(ask("When did Ada come?", context, "1815")) == {
        "Ada came in 1822 with 12 dogs. Bo left in 1815, Cy in 1850-51 with Bo, in all 40 times."
    }, "1850 is a part of a longer string"
    assert others(ask("With how many dogs?", context, "12")) == {
        "Ada came in 1815 with 40 dogs. Bo left in 1822, Cy in 1850-51 with Bo, in all 12 times."
    }, "a year is no number"
    assert not others(ask("Who left in 1822?", context, "Bo")), "it is there twice"


def test_what_is_asked_for_or_accepted_changes_no_places() -> None:
    context = "It was in 1815, or 1822, or 1850."
    assert others(ask("Was it 1822?", context, "1815")) == {"It was in 1850, or 1822, or 1815."}
    assert not others(ask("What of 1815?", context, "1815")), "the question names the answer"


def test_words_and_places_of_the_other_context_fit() -> None:
    question = ask("Who won?", "Last year Anna Lind lost, and Bob won. Later, Jo Smith came.", "Anna Lind")
    (found,) = exchanges(question, {})
    other = exchanged(question, found)
    assert other.context == "Last year Jo Smith lost, and Bob won. Later, Anna Lind came."
    start = other.text.segments[1].start
    assert [other.context[low:high] for low, high in other.offsets] == list(other.text.words[start:])
    assert other.answers == ("Jo Smith",)
    assert len(other.text.words) == len(question.text.words)


def test_in_stories_answers_are_exchanged_with_answers_and_names_with_names() -> None:
    stories = list(load_questions("stories", "test").questions())
    known = known_answers(stories)
    checked = 0
    for story in stories[::40]:
        for found in exchanges(story, known):
            other = exchanged(story, found)
            assert other.answers[0] in known[story.task] - set(story.answers)
            assert exchanged(other, found).context == story.context, "twice is as before"
            checked += 1
        for found in asked_exchanges(story):
            other = exchanged(story, found)
            assert other.answers == story.answers
            assert other.context != story.context
            assert {story.text.words[span.start] for span in found.one} <= set(
                story.text.words[: story.text.segments[0].end]
            )
            checked += 1
    assert checked > 10


def test_all_places_of_what_the_question_names_change() -> None:
    question = ask("Where is Ada?", "First of all Ada came to Rome, then Bo went to Oslo, and Ada too.", "Rome")
    made = {exchanged(question, each).context for each in asked_exchanges(question)}
    assert "First of all Bo came to Rome, then Ada went to Oslo, and Bo too." in made
    assert not any("Rome" not in context for context in made), "the answer stays"
