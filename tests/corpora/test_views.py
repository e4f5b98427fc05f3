"""The views of questions: what they change, what they leave alone, and what does not fit."""

from __future__ import annotations

import json

import pytest

from lamina.corpora import load_corpus, load_questions, load_splits
from lamina.corpora.corpus import View
from lamina.corpora.questions.question import Question
from lamina.errors import CorpusError, InputError

STORY = "1 Mary went home.\n2 John went away.\n3 Where is Mary?\thome\t1\n"


@pytest.fixture
def babi(tmp_path):
    for task in (1, 2):
        for split in ("train", "test"):
            (tmp_path / f"qa{task}_x_{split}.txt").write_text(STORY * 12)
    return tmp_path


def test_a_view_is_written_and_read_back():
    view = View("support", "classification", (1, 15), 200, 3)
    assert View.of(json.loads(json.dumps(view.describe()))) == view
    assert View.of({}) == View()


@pytest.mark.parametrize(
    "said",
    [
        {"setting": "all"},
        {"babi": "list"},
        {"tasks": []},
        {"tasks": [0]},
        {"tasks": "1"},
        {"max_words": 0},
        {"max_words": 2.5},
        {"seed": -1},
        {"words": 3},
        "span",
        None,
    ],
    ids=str,
)
def test_what_is_no_view_is_said(said):
    with pytest.raises(InputError, match="a view"):
        View.of(said)


def test_questions_and_texts_are_shown_alike(babi):
    for view in (View(), View(babi="classification"), View(tasks=(2,))):
        asked, texts = load_questions(babi, "test", view=view), load_corpus(babi, "test", view=view)
        assert [question.text for question in asked.questions()] == list(texts) == list(asked)
        assert asked.fingerprint == texts.fingerprint
        assert asked.describe() == texts.describe()
        assert asked.view == view


def test_the_view_is_part_of_the_fingerprint_where_it_matters(babi):
    plain = load_corpus(babi, "test")
    assert load_corpus(babi, "test", view=View(setting="support", max_words=9, seed=4)).fingerprint == plain.fingerprint
    other = load_corpus(babi, "test", view=View(babi="classification"))
    assert other.fingerprint != plain.fingerprint
    assert "view" not in plain.describe()
    assert other.describe()["view"] == View(babi="classification").describe()


def test_both_sets_of_a_split_are_shown_in_the_view(babi):
    splits = load_splits(babi, "test", view=View(tasks=(1,)))
    assert {text.id[:3] for part in (splits.train, splits.scored) for text in part} == {"qa1"}


def test_tasks_that_are_not_there_are_said(babi):
    with pytest.raises(CorpusError, match=r"has no questions of task 7, 8; choose others"):
        load_questions(babi, "test", view=View(tasks=(7, 8)))
    with pytest.raises(CorpusError, match="no stories for task 4"):
        list(load_questions("stories", "test", view=View(tasks=(4,))))


def classified(questions) -> list[tuple[str, str, tuple[str, ...], tuple[object, ...]]]:
    assert all(isinstance(question, Question) for question in questions)
    return [(each.question, each.context, each.answers, each.offsets) for each in questions]


def test_questions_of_trec_are_answered_by_their_type(tmp_path):
    (tmp_path / "test.txt").write_text("DESC:manner How did it end ?\nHUM:ind Who was it ?\n")
    asked = load_questions(tmp_path, "test")
    assert classified([*asked.questions()]) == [
        ("How did it end ?", "", ("DESC:manner",), ()),
        ("Who was it ?", "", ("HUM:ind",), ()),
    ]
    first = next(asked.questions())
    assert first.task == "trec"
    assert first.text.edges["answer"] == first.text.edges["sentence"] == ()
    assert first.text.edges["ques"][0].labels == ("DESC:manner",)


def test_sentences_of_glue_are_answered_by_their_class(tmp_path):
    (tmp_path / "dev.tsv").write_text("sentence1\tsentence2\tlabel\nDogs bark.\tA dog barks.\t1\n")
    (tmp_path / "test.tsv").write_text("sentence1\tsentence2\nCats mew.\tA cat mews.\n")
    (labelled,) = load_questions(tmp_path, "dev").questions()
    assert classified([labelled]) == [("Dogs bark .", "", ("1",), ())]
    assert [labelled.text.words[span.start : span.end] for span in labelled.text.segments] == [
        ("Dogs", "bark", "."),
        ("A", "dog", "barks", "."),
    ]
    (unknown,) = load_questions(tmp_path, "test").questions()
    assert unknown.answers == ()
