"""Questions with contexts: words, places, and what is told of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.corpora.question_sets import read_questions
from lamina.corpora.questions.question import CUT, QuestionContext, answer_text, make_question
from lamina.corpora.reading import Notes
from lamina.errors import CorpusError, SpanError
from lamina.types import Span

CONTEXT = "Dogs bark.  Cats re-appear."


def _question(place, **more):
    return make_question("q", "Who barks?", CONTEXT, [(0, 10), (12, 27)], [place], {0}, **more)


def test_two_segments_and_all_annotations():
    question = _question((0, 4), doc="pets", task="squad")
    text = question.text
    assert text.words == ("Who", "barks", "?", "Dogs", "bark", ".", "Cats", "re", "-", "appear", ".")
    assert text.segments == (Span(0, 3), Span(3, 11))
    assert text.edges["question"][0].span == Span(0, 3)
    assert [(edge.labels, edge.span) for edge in text.edges["sentence"]] == [
        (("0",), Span(3, 6)),
        (("1",), Span(6, 11)),
    ]
    assert [(edge.labels, edge.span, edge.other) for edge in text.edges["sup"]] == [
        (("1",), Span(0, 3), Span(3, 6)),
        (("0",), Span(0, 3), Span(6, 11)),
    ]
    assert [(edge.labels, edge.span) for edge in text.edges["answer"]] == [(("Dogs",), Span(3, 4))]
    assert (text.doc, question.answers, question.task) == ("pets", ("Dogs",), "squad")


def test_answer_text_keeps_what_lies_between_words():
    question = _question((0, 4))
    assert answer_text(question, Span(4, 7)) == "bark.  Cats"
    with pytest.raises(SpanError, match="outside the context"):
        answer_text(question, Span(2, 4))


def test_a_word_is_cut_only_where_an_answer_needs_it():
    noted = Notes()
    assert _question((12, 27), noted=noted).text.words == _question((0, 4)).text.words
    assert noted.ids == {}
    cut = _question((0, 3), noted=noted)
    assert noted.ids == {CUT: ("q",)}
    assert cut.text.words[3:5] == ("Dog", "s")
    assert answer_text(cut, cut.text.edges["answer"][0].span) == "Dog"


def test_white_space_around_an_answer_is_no_part_of_it():
    question = _question((10, 16))
    (edge,) = question.text.edges["answer"]
    assert (edge.labels, answer_text(question, edge.span)) == (("Cats",), "Cats")


def test_a_single_sentence_has_no_supporting_facts_to_tell():
    question = make_question("q", "Who?", "Dogs bark.", [(0, 10)], [(0, 4)], {0})
    assert "sup" not in question.text.edges


@given(st.text(alphabet="aB' .,é1-", min_size=1, max_size=40), st.data())
def test_every_place_comes_back_as_it_was(context, data):
    visible = [at for at, character in enumerate(context) if not character.isspace()]
    if not visible:
        return
    start, end = sorted((data.draw(st.sampled_from(visible)), data.draw(st.sampled_from(visible))))
    question = make_question("q", "Who?", QuestionContext(context), [(0, len(context))], [(start, end + 1)], {0})
    (edge,) = question.text.edges["answer"]
    assert answer_text(question, edge.span) == context[start : end + 1] == question.answers[0]
    words = question.text.words[question.text.segments[1].start :]
    assert list(words) == [context[first:last] for first, last in question.offsets]


def test_ten_thousand_words(tmp_path):
    facts = [f"Ann walked {number} miles." for number in range(2500)]
    context = " ".join(facts)
    ranges, at = [], 0
    for fact in facts:
        ranges.append((at, at + len(fact)))
        at += len(fact) + 1
    question = make_question("q", "How far?", context, ranges, [(len(context) - 11, len(context) - 7)], {2499})
    assert len(question.text.words) > 10_000
    assert answer_text(question, question.text.edges["answer"][0].span) == "2499"


def test_what_has_no_questions_is_refused(tmp_path):
    path = tmp_path / "plain.txt"
    path.write_text("It ended .\n")
    with pytest.raises(CorpusError, match="read as plain"):
        list(read_questions(path))
    with pytest.raises(CorpusError, match="file or folder not found"):
        list(read_questions(tmp_path / "none.json"))
