"""A typed question with its answer, and the context as a page shows it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.analyses.answering.roles import ContextPart, marked_context
from lamina.analyses.answering.token_map import token_map
from lamina.corpora.question_sets import typed_question
from lamina.corpora.questions.question import Question
from lamina.errors import InputError
from lamina.models import load_encoder
from lamina.testing import TinyEncoder

CONTEXT = " Dogs bark.  The big cat ran; a CAT sat. Cows moo. "


def typed(answer: str = "") -> Question:
    return next(typed_question("Who ran?", CONTEXT, answer).questions())


def joined(parts: list[ContextPart], role: str) -> list[str]:
    """What is marked, a string a run."""
    runs = [""]
    for part in parts:
        if getattr(part, role):
            runs[-1] += part.text
        elif runs[-1]:
            runs.append("")
    return [run for run in runs if run]


def test_an_answer_is_accepted_wherever_it_stands_by_itself() -> None:
    question = typed("cat")
    assert question.answers == ("cat", "CAT")
    assert joined(marked_context(question), "gold") == ["cat", "CAT"]
    assert joined(marked_context(question), "support") == ["The big cat ran; a CAT sat."]


def test_without_an_answer_nothing_is_known() -> None:
    parts = marked_context(typed(" "))
    assert not any(part.gold or part.support or part.predicted for part in parts)
    assert [part.sentence for part in parts if part.text in ("Dogs", "The", "Cows")] == [0, 1, 2]


@pytest.mark.parametrize("answer", ["horse", "ca", "(", "\\w"])
def test_an_answer_that_is_not_there_is_refused(answer: str) -> None:
    with pytest.raises(InputError, match="is not in the context; copy it from there"):
        typed(answer)


def test_a_mark_runs_through_what_is_between_words() -> None:
    start = CONTEXT.index("bark")
    parts = marked_context(typed("the big cat"), (start, CONTEXT.index(" big")))
    assert joined(parts, "predicted") == ["bark.  The"]
    assert joined(parts, "gold") == ["The big cat"]


@given(context=st.text(st.characters(codec="utf-8"), min_size=1, max_size=60))
def test_all_parts_together_are_the_context(context: str) -> None:
    try:
        question = next(typed_question("Who?", context).questions())
    except InputError:
        return
    assert "".join(part.text for part in marked_context(question)) == context


def test_the_answer_of_a_map_says_where_it_stands(answering_folder, toys) -> None:
    encoder = load_encoder(str(answering_folder), device="cpu")
    question = next(toys.find("q2").questions())
    answer = token_map(encoder, toys, example="q2").tables["answer"].iloc[0]
    assert question.context[answer["start"] : answer["end"]] == answer["predicted"]
    silent = token_map(TinyEncoder(), toys).tables["answer"]
    assert silent[["start", "end"]].isna().to_numpy().all()
