"""bAbI: stories line by line."""

from __future__ import annotations

import pytest

from lamina.corpora.corpus import View
from lamina.corpora.question_sets import read_questions
from lamina.corpora.questions import babi
from lamina.corpora.questions.question import answer_text

STORY = """1 Mary got the milk.
2 John went home.
3 What does Mary carry? \tmilk\t1
4 Mary got the apple.
5 What does Mary carry? \tmilk,apple\t1 4
1 Ann is here.
2 What does Ann carry?\tnothing\t1
"""


def _file(tmp_path, content=STORY, name="qa8_lists_train.txt"):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return path


def test_a_context_is_the_facts_before_the_question(tmp_path):
    path = _file(tmp_path)
    first, second, third = babi.questions(path, view=View(babi="classification"))
    assert babi.looks_like(path)
    assert first.context == "Mary got the milk. John went home."
    assert second.context == "Mary got the milk. John went home. Mary got the apple."
    assert [edge.labels for edge in second.text.edges["sup"]] == [("1",), ("0",), ("1",)]
    assert second.answers == ("milk,apple",)
    assert second.text.edges["answer"] == ()
    assert [question.text.doc for question in (first, second, third)] == [
        "qa8_lists_train-1",
        "qa8_lists_train-1",
        "qa8_lists_train-2",
    ]
    assert (third.context, third.task) == ("Ann is here.", "qa8")
    assert "sup" not in third.text.edges


def test_possible_answers_are_appended_and_the_answer_is_among_them(tmp_path):
    path = _file(tmp_path)
    # The other file of the task knows an answer more; both files offer the same ones.
    other = _file(tmp_path, "1 Bob has it.\n2 What does Bob carry?\tdrum\t1\n", "qa8_lists_test.txt")
    questions = [*babi.questions(path), *babi.questions(other)]
    assert babi.companions(path) == (other,)
    for question in questions:
        assert question.context.endswith(". Possible answers: drum; milk; milk,apple; nothing.")
        (edge,) = question.text.edges["answer"]
        assert answer_text(question, edge.span) == question.answers[0]
        last = question.text.edges["sentence"][-1].span.end
        assert last <= edge.span.start, "the list is part of no sentence"
    assert answer_text(questions[0], questions[0].text.edges["sentence"][-1].span) == "John went home."


def test_tasks_are_taken_by_number(tmp_path):
    _file(tmp_path)
    _file(tmp_path, "1 Bob left.\n2 Who left?\tBob\t1\n", "qa1_who_train.txt")
    assert {question.task for question in read_questions(tmp_path)} == {"qa1", "qa8"}
    assert {question.task for question in read_questions(tmp_path, view=View(tasks=(1,)))} == {"qa1"}


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ("1 Who left?\tBob\t1", "qa1_who-3: the context is empty"),
        ("1 A.\n2 Who left?\tBob", "qa1_who-4 is not complete"),
        ("1 A.\n2 Who left?\t\t1", "qa1_who-4 is not complete"),
        ("1 A.\n2 Who left?\tBob\tone", "qa1_who-4 is not complete"),
        ("1 A.\n2 Who left?\tBob\t7", "supporting line 7 is not a fact before the question"),
        ("1 A.\n3 B.", "not the next line of a story"),
        ("no number", "not the next line of a story"),
    ],
)
def test_faults_name_the_line_and_the_rest_is_read(tmp_path, bad, what):
    sound = "1 Bob left.\n2 Who left?\tBob\t1\n"
    path = _file(tmp_path, f"{sound}{bad}\n{sound}", "qa1_who.txt")
    faults = []
    assert len(list(babi.questions(path, faults.append))) == 2
    (fault,) = faults
    assert what in fault.what
    assert fault.line == 2 + bad.count("\n") + 1
