"""Real questions: as many as their sources count, and every answer where it should be."""

from __future__ import annotations

from collections import Counter

import pytest

from lamina.corpora import load_corpus
from lamina.corpora.corpus import View
from lamina.corpora.formats.lines import read_trec
from lamina.corpora.loading import find_source, part_of
from lamina.corpora.question_sets import read_questions
from lamina.corpora.questions import squad
from lamina.corpora.questions.hotpot import YES_NO
from lamina.corpora.questions.question import CUT, answer_text
from lamina.corpora.questions.squad import SLIPPED
from lamina.corpora.reading import Notes
from lamina.types import Text

pytestmark = pytest.mark.data
SPLITS = ("train", "dev", "test")


@pytest.fixture
def at_hand(data_dir, cache, monkeypatch):
    monkeypatch.setenv("LAMINA_DATA", str(data_dir))
    return data_dir


@pytest.mark.parametrize(
    ("name", "counts", "notes"),
    [
        ("squad_v1.1_dev", (48, 2067, 10565), {CUT: 79, SLIPPED: 15}),
        ("xquad_en", (48, 240, 1190), {CUT: 1}),
    ],
)
def test_every_answer_of_squad_is_an_accepted_one(data_dir, name, counts, notes):
    noted, articles, paragraphs, size = Notes(), set(), set(), 0
    for question in read_questions(data_dir / name, noted=noted):
        size += 1
        articles.add(question.text.doc)
        paragraphs.add(question.context)
        edges = question.text.edges
        assert edges["answer"], question.text.id
        for edge in edges["answer"]:
            assert edge.labels == (answer_text(question, edge.span),)
            assert answer_text(question, edge.span) in question.answers
        if "sup" in edges:
            held = [one.other for one in edges["sup"] if one.labels == ("1",)]
            assert all(
                any(edge.span.start in span and edge.span.end - 1 in span for span in held) for edge in edges["answer"]
            )
    assert (len(articles), len(paragraphs), size) == counts
    assert noted.counts() == notes


def test_articles_are_split_and_xquad_scores_the_same_ones(at_hand):
    xquad = [{text.doc for text in load_corpus("xquad_en", split)} for split in SPLITS]
    assert [len(articles) for articles in xquad] == [36, 4, 8]
    assert len(set().union(*xquad)) == 48
    assert {text.doc for text in load_corpus("xquad_en", "test", seed=1)} != xquad[2]
    # SQuAD has ten times as many questions: its texts are read once, its articles alone for every split.
    test = load_corpus("squad_v1.1_dev", "test")
    assert {text.doc for text in test} == xquad[2]
    assert test.made_split == "test is 8 of the 48 documents of the corpus, by hash with seed 0"
    source = find_source("squad_v1.1_dev")
    articles = [Text(name, ("a",), doc=name) for path in source.files[None] for name in squad.documents(path)]
    parts = [part_of(source, split, seed=0) for split in SPLITS]
    assert [{text.doc for text in articles if part.holds(text)} for part in parts] == xquad


def test_hotpot_in_both_layouts_and_settings(data_dir):
    for setting in ("distractor", "support"):
        noted = Notes()
        questions = list(read_questions(data_dir / "hotpotqa_sample", view=View(setting=setting), noted=noted))
        assert len(questions) + noted.counts()[YES_NO] == 200
        assert set(noted.counts()) <= {CUT, YES_NO}
        for question in questions:
            (edge,) = question.text.edges["answer"]
            assert answer_text(question, edge.span) == question.answers[0].strip()


def test_babi_as_counted(data_dir):
    sizes, tasks = Counter(), set()
    for question in read_questions(data_dir / "babi_en"):
        sizes["train" if "_train-" in question.text.id else "test"] += 1
        tasks.add(question.task)
        (edge,) = question.text.edges["answer"]
        assert (answer_text(question, edge.span),) == question.answers
    assert sizes == {"train": 9391, "test": 10391}
    assert len(tasks) == 20


def test_babi_stories_stay_whole(at_hand, tmp_path):
    for task in ("qa1_", "qa15_"):
        for path in (at_hand / "babi_en").rglob(f"{task}*"):
            (tmp_path / path.name).symlink_to(path)
    train, dev = ({text.doc for text in load_corpus(tmp_path, split, format="babi")} for split in ("train", "dev"))
    assert train
    assert dev
    assert not train & dev


def test_trec_as_counted(at_hand):
    noted = Notes()
    texts = list(read_trec(at_hand / "trec_qtypes" / "questions.txt", noted=noted))
    assert (len(texts), sum(noted.counts().values())) == (4941, 57)
    labels = {name: {edge.labels for text in texts for edge in text.edges[name]} for name in ("ques", "ques_coarse")}
    assert (len(labels["ques"]), len(labels["ques_coarse"])) == (49, 6)
    assert sum(len(load_corpus("trec_qtypes", split)) for split in SPLITS) == 4941
