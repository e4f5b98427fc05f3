"""SQuAD: places by offset, never a wrong one."""

from __future__ import annotations

import json

import pytest

from lamina.corpora import load_corpus, load_questions
from lamina.corpora.corpus import View
from lamina.corpora.question_sets import read_questions
from lamina.corpora.questions import squad
from lamina.corpora.questions.question import answer_text
from lamina.corpora.questions.squad import UNCOUNTED
from lamina.corpora.reading import Notes
from lamina.errors import FormatError, InputError
from lamina.types import Span

CONTEXT = "Ann Lee won in 2016. She beat Bob by 24:10, says J. R. Ray. Bob wept."


def _qa(id="q1", question="Who won?", answers=(("Ann Lee", 0),), **more):
    return {"id": id, "question": question, "answers": [{"text": t, "answer_start": s} for t, s in answers], **more}


def _file(tmp_path, *qas, context=CONTEXT, indent=None):
    path = tmp_path / "squad.json"
    data = {"version": "1.1", "data": [{"title": "Games", "paragraphs": [{"context": context, "qas": list(qas)}]}]}
    path.write_text(json.dumps(data, indent=indent), encoding="utf-8")
    return path


def _sound(path, noted=None):
    faults = []
    found = list(squad.questions(path, faults.append, noted))
    return found, faults


def test_places_and_supporting_sentences(tmp_path):
    path = _file(tmp_path, _qa(answers=[("Ann Lee", 0), ("She", 21), ("Ann Lee", 0)]))
    (question,) = squad.questions(path)
    edges = question.text.edges
    assert squad.looks_like(path)
    assert (question.text.id, question.text.doc, question.answers) == ("q1", "Games", ("Ann Lee", "She"))
    assert [answer_text(question, edge.span) for edge in edges["answer"]] == ["Ann Lee", "She"]
    assert [answer_text(question, edge.other) for edge in edges["sup"]] == [
        "Ann Lee won in 2016.",
        "She beat Bob by 24:10, says J. R. Ray.",
        "Bob wept.",
    ]
    assert [edge.labels for edge in edges["sup"]] == [("1",), ("1",), ("0",)]
    assert [text.id for text in squad.read(path)] == ["q1"]
    assert squad.documents(path) == ["Games"]


def test_no_sentence_ends_inside_an_answer(tmp_path):
    (question,) = squad.questions(_file(tmp_path, _qa(answers=[("2016. She", 15)])))
    sentences = [answer_text(question, edge.span) for edge in question.text.edges["sentence"]]
    assert sentences == [CONTEXT[:-10], "Bob wept."]
    assert [edge.labels for edge in question.text.edges["sup"]] == [("1",), ("0",)]


def test_one_character_beside_is_a_slip_and_noted(tmp_path):
    noted = Notes()
    (question,), faults = _sound(_file(tmp_path, _qa(answers=[(" Bob", 28)])), noted)
    assert faults == []
    assert noted.ids == {squad.SLIPPED: ("q1",)}
    assert answer_text(question, question.text.edges["answer"][0].span) == "Bob"


@pytest.mark.parametrize(
    ("qa", "what"),
    [
        (_qa("bad", answers=[("Bob", 40)]), "answer_start 40 points at '10,'"),
        (_qa("bad", answers=[("Bob", -30)]), "answer_start -30 points at 'Ann'"),
        (_qa("bad", answers=[("Bob", 4000)]), "answer_start 4000 points at ''"),
        (_qa("bad", answers=[("Ann Lee", 0), ("Cid", 3)]), "the answer 'Cid' is not in the context"),
        (_qa("bad", answers=[("", 3)]), "is not an answer"),
        (_qa("bad", answers=[("Bob", "30")]), "is not an answer"),
        (_qa("bad", answers=[]), "the question has no answer"),
        (_qa("bad", question=" "), "the question is empty"),
    ],
)
def test_faults_name_the_question_and_the_rest_is_read(tmp_path, qa, what):
    path = _file(tmp_path, _qa("a"), qa, _qa("b"), indent=1)
    found, faults = _sound(path)
    assert [question.text.id for question in found] == ["a", "b"]
    (fault,) = faults
    assert what in fault.what
    assert fault.what.startswith("question bad: ")
    assert '"bad"' in path.read_text().split("\n")[fault.line - 1]
    with pytest.raises(FormatError, match="question bad"):
        list(squad.questions(path))


def test_a_second_question_of_the_same_id_is_a_fault(tmp_path):
    found, faults = _sound(_file(tmp_path, _qa("a"), _qa("b"), _qa("a"), indent=1))
    assert [question.text.id for question in found] == ["a", "b"]
    assert "question a: the id is used twice" in faults[0].what


@pytest.mark.parametrize("context", ["", "  \n", None])
def test_an_empty_context_is_a_fault(tmp_path, context):
    found, faults = _sound(_file(tmp_path, _qa("a"), context=context))
    assert found == []
    assert faults[0].what == "question a: the context is empty"


def test_questions_without_answers_are_left_out_and_noted(tmp_path):
    noted = Notes()
    found, faults = _sound(
        _file(tmp_path, _qa("a", answers=[], is_impossible=True), _qa("b", is_impossible=False)), noted
    )
    assert [question.text.id for question in found] == ["b"]
    assert (faults, noted.ids) == ([], {squad.IMPOSSIBLE: ("a",)})


@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        (b'{"data": [\n{"title" 1}]}', 2, "not JSON"),
        (b'{"data":\n"\xff"}', 2, "byte 0xff is not UTF-8"),
        (b'{"data": 3}', 1, "no list of data"),
        (b'{"data": [{"title": "T"}]}', 1, "article 'T' has no list of paragraphs"),
        (b'{"data": [{"title": "T", "paragraphs": [{"context": "C"}]}]}', 1, "has no list of qas"),
        (b'{"data": [{"title": "T", "paragraphs": [{"context": "C", "qas": [{}]}]}]}', 1, "has no id"),
    ],
)
def test_broken_files(tmp_path, content, line, what):
    path = tmp_path / "squad.json"
    path.write_bytes(content)
    found, faults = _sound(path)
    assert found == []
    assert (faults[0].line, what in faults[0].what) == (line, True), faults


def test_the_released_code_counts_sentences_without_the_blanks_between_them(tmp_path):
    """Three sentences of 10, 9 and 9 characters: 28 without blanks, so an answer from 29 on lies beyond the last."""
    context = "Dogs bark. Cats mew. Cows low."
    asked = [("mew", 16), ("low.", 26), (".", 29)]
    items = [
        {"id": str(number), "question": "Who?", "answers": [{"text": text, "answer_start": start}]}
        for number, (text, start) in enumerate(asked)
    ]
    path = tmp_path / "counted.json"
    path.write_text(json.dumps({"data": [{"title": "a", "paragraphs": [{"context": context, "qas": items}]}]}))
    noted = Notes()
    counted = [*read_questions(path, view=View(support="count"), noted=noted)]
    labels = [[edge.labels for edge in question.text.edges.get("sup", ())] for question in counted]
    assert labels == [[("0",), ("1",), ("0",)], [("0",), ("0",), ("1",)], []]
    assert noted.ids == {UNCOUNTED: ("2",)}
    assert all("sup" in question.text.edges for question in read_questions(path))


def test_question_and_context_are_one_segment_where_a_view_says_so(tmp_path):
    path = tmp_path / "one-dev.json"
    item = {"id": "1", "question": "Who?", "answers": [{"text": "Dogs", "answer_start": 0}]}
    path.write_text(json.dumps({"data": [{"title": "a", "paragraphs": [{"context": "Dogs bark.", "qas": [item]}]}]}))
    two, one = (next(iter(load_corpus(path, "all", view=view))) for view in (None, View(segments="one")))
    assert (two.segments, one.segments) == ((Span(0, 2), Span(2, 5)), (Span(0, 5),))
    assert one.edges == two.edges
    with pytest.raises(InputError, match="segments=one is for probes"):
        load_questions(path, "all", view=View(segments="one"))
