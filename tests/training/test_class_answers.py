"""Heads of classes answer too, with a class and its probability; of long stories they are shown the newest facts."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from lamina.analyses.answering.finetune import finetune
from lamina.corpora.corpus import View
from lamina.corpora.question_sets import load_questions, read_questions
from lamina.corpora.questions.question import Question, labelled_question, make_question
from lamina.errors import ModelError, TaskError
from lamina.models import load_encoder
from lamina.training.answering import answerer_of, load_answerer, refuse_unfit
from lamina.training.provenance import ABOUT, read_about, view_of
from lamina.training.reading import Sets
from lamina.training.spans import SpanObjective
from lamina.training.tags import ClassChoice, ClassObjective
from lamina.types import Text

SETTINGS = {"task": "classify", "epochs": 500, "batch": 8, "schedule": "constant", "device": "cpu"}
CUT = "questions cut to {} tokens: their oldest facts are left out"
LOST = "questions cut to {} tokens that lost a supporting fact"


def story(facts: int, support: int, answer: str = "mat", id: str = "q") -> Question:
    """A story whose n-th fact is about the n-th word of a few, and a question about one of them."""
    said = [f"the {('dog', 'fox', 'cats')[n % 3]} sat on {n}." for n in range(facts)]
    starts = np.cumsum([0, *(len(fact) + 1 for fact in said)])
    ranges = [(int(start), int(start) + len(fact)) for start, fact in zip(starts, said, strict=False)]
    return make_question(id, "who sat ?", " ".join(said), ranges, [], {support}, answers=[answer], task="qa1")


def test_of_a_long_story_the_newest_facts_are_kept_whole_and_the_question_with_them(encoder) -> None:
    pieces, question = encoder("bert").word_tokenizer, story(9, support=2)
    whole = pieces(question.text)[0]
    length = len(whole.ids) - 5
    objective = ClassObjective(pieces, length, ("dog", "mat"))
    (row,) = objective.rows(0, question)

    facts = [edge.span for edge in question.text.edges["sentence"]]
    kept = set(row.words[row.words >= 0].tolist())
    assert set(question.text.segments[0]) <= kept
    shown = [fact for fact in facts if set(fact) <= kept]
    # Nothing of a fact that is not shown whole; what is lost is the oldest.
    assert kept == {*question.text.segments[0], *(word for fact in shown for word in fact)}
    assert shown == facts[-len(shown) :]
    assert len(row.ids) <= length
    # No more is left out than has to be.
    one_more = [int(word) in facts[-len(shown) - 1] for word in whole.words]
    assert len(row.ids) + sum(one_more) > length
    assert row.labels == 1
    assert objective.noted[CUT.format(length)] == 1
    assert objective.noted[LOST.format(length)] == (facts[2] not in shown)


@pytest.mark.parametrize(("support", "lost"), [(0, 1), (8, 0)])
def test_a_lost_supporting_fact_is_counted(encoder, support: int, lost: int) -> None:
    objective = ClassObjective(encoder("bert").word_tokenizer, 30, ("dog", "mat"))
    objective.rows(0, story(9, support))
    assert objective.noted[LOST.format(30)] == lost


def test_what_fits_is_not_cut_and_a_single_long_fact_loses_its_beginning(encoder) -> None:
    pieces = encoder("bert").word_tokenizer
    objective = ClassObjective(pieces, 400, ("dog", "mat"))
    assert len(objective.rows(0, story(9, 0))[0].ids) == len(pieces(story(9, 0).text)[0].ids)
    assert not objective.noted
    long = make_question("q", "who ?", "dog " * 50 + "mat.", [(0, 204)], [], {0}, answers=["mat"])
    row = ClassObjective(pieces, 20, ("dog", "mat")).rows(0, long)[0]
    assert len(row.ids) == 20
    assert row.words[-2] == len(long.text.words) - 1


@pytest.mark.real
@pytest.mark.data
def test_no_real_story_of_up_to_384_pieces_loses_a_supporting_fact(data_dir, real_encoder) -> None:
    pieces = real_encoder.word_tokenizer
    view, longer, lost = View(babi="classification"), 0, 0
    for path in sorted((data_dir / "babi_en").rglob("qa[1-5]_*test.txt")):
        for number, question in enumerate(islice(read_questions(path, format="babi", view=view), 300)):
            (row,) = ClassObjective(pieces, 384, ("a", "b")).rows(number, question)
            edges, story = question.text.edges.get("sup", ()), question.text.segments[1]
            support = {word for edge in edges if edge.labels == ("1",) and edge.other for word in edge.other}
            gone = set(story) - set(row.words.tolist())
            # What is lost is the oldest, and nothing is where all fits.
            assert gone == set(range(story.start, story.start + len(gone)))
            assert bool(gone) == (len(pieces(question.text)[0].ids) > 384)
            longer += bool(gone)
            lost += not support.isdisjoint(gone)
    # The longer ones are 92 of qa3 and 11 of qa5.
    assert (longer, lost) == (103, 0)


@pytest.fixture(scope="module")
def classes(model_folder, toy_texts, tmp_path_factory) -> Path:
    """A model that knows by heart the first letter of some texts."""
    out = tmp_path_factory.mktemp("classes") / "out"
    items, settings = toy_texts(8, 1), {**SETTINGS, "max_steps": 100, "lr": 5e-3}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lamina.analyses.answering.finetune.apart", lambda sets: sets)
        finetune(str(model_folder("bert")), Sets("toy", items, items, items), out=out, **settings)
    return out


def test_a_class_head_answers_with_a_class_and_knows_whether_it_is_right(classes: Path, toy_texts) -> None:
    answerer = load_answerer(classes, device="cpu")
    questions = [labelled_question(text, "label", "toy") for text in toy_texts(8, 1)]
    answers = list(answerer.answer(questions))

    assert answerer.classes == tuple(read_about(classes)["labels"])
    assert [each.text for each in answers] == [question.answers[0] for question in questions]
    assert all(each.right is True and each.span is None and each.null is None for each in answers)
    assert all(1 / len(answerer.classes) < each.confidence <= 1 for each in answers)
    # Asked about something else it is wrong, and where no answer is known it is neither.
    other = [labelled_question(text, "pos", "toy") for text in toy_texts(8, 1)]
    told = [each.right for each in answerer.answer(other)]
    assert told == [each.text in question.answers for each, question in zip(answers, other, strict=True)]
    unknown = labelled_question(Text("x", ("dog", "sat")), "label", "toy")
    assert next(answerer.answer([unknown])).right is None


def test_the_head_is_that_of_transformers_own_model(classes: Path, toy_texts) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(classes)
    tokenizer = AutoTokenizer.from_pretrained(classes)
    texts = toy_texts(4, 5)
    answers = load_answerer(classes, device="cpu").answer([labelled_question(text, "label", "toy") for text in texts])
    for text, answer in zip(texts, answers, strict=True):
        with torch.no_grad():
            logits = model.eval()(**tokenizer(" ".join(text.words), return_tensors="pt")).logits[0]
        assert answer.text == model.config.id2label[int(logits.argmax())]
        assert answer.confidence == pytest.approx(float(logits.softmax(0).max()), abs=1e-4)


def test_a_head_that_is_not_in_the_checkpoint_does_not_answer(model_folder, tmp_path: Path) -> None:
    copytree(model_folder("bert"), tmp_path / "claims")
    config = json.loads((tmp_path / "claims" / "config.json").read_text())
    claims = config | {"architectures": ["BertForSequenceClassification"]}
    (tmp_path / "claims" / "config.json").write_text(json.dumps(claims))
    assert answerer_of(load_encoder(str(tmp_path / "claims"), device="cpu")) is None
    assert answerer_of(load_encoder(str(model_folder("bert")), device="cpu")) is None


def test_classes_that_are_no_answers_are_silent(classes: Path, toy_questions, toy_texts) -> None:
    encoder = load_encoder(str(classes), device="cpu")
    asked = [labelled_question(text, "label", "toy") for text in toy_texts(4, 2)]
    assert answerer_of(encoder, asked) is not None
    assert answerer_of(encoder, toy_questions(4, 1)) is None
    # It was tuned for classes of texts, not to answer questions: nothing to refuse.
    refuse_unfit(encoder, toy_questions(4, 1), "toys")


@pytest.fixture(scope="module")
def stories(model_folder, tmp_path_factory) -> Path:
    """A model tuned for a step to answer stories by class."""
    out = tmp_path_factory.mktemp("stories") / "out"
    finetune(str(model_folder("bert")), "stories", out=out, limit=24, babi_tasks=[1], max_steps=1, **SETTINGS)
    return out


def test_a_model_of_classes_is_not_asked_for_spans(stories: Path, toy_questions) -> None:
    assert view_of(stories) == View(tasks=(1,))
    encoder = load_encoder(str(stories), device="cpu")
    own = load_questions("stories", "test", limit=20)
    refuse_unfit(encoder, own.questions(), own.name)
    answers = list(load_answerer(stories, device="cpu").answer(own.questions()))
    assert {each.right for each in answers} <= {True, False}
    with pytest.raises(ModelError, match=r"one of \d classes \(.*\), and none of them is an answer in toys; .*stories"):
        refuse_unfit(encoder, toy_questions(4, 1), "toys")


def test_a_model_of_spans_is_not_asked_for_classes(encoder, model_folder, toy_texts, tmp_path: Path) -> None:
    asked = [labelled_question(text, "label", "toy") for text in toy_texts(4, 2)]
    about = {"format": 1, "head": "QuestionAnswering", "labels": [], "view": View().describe()}
    copytree(model_folder("bert"), tmp_path / "spans")
    (tmp_path / "spans" / ABOUT).write_text(json.dumps(about))
    tuned = load_encoder(str(tmp_path / "spans"), device="cpu")
    with pytest.raises(ModelError, match="answers with a span of a context, and the questions of toys have none"):
        refuse_unfit(tuned, asked, "toys")
    with pytest.raises(TaskError, match="no question with a context"):
        SpanObjective(encoder("bert").word_tokenizer, 30).rows(0, asked[0])


def test_a_choice_is_scored(encoder) -> None:
    objective = ClassObjective(encoder("bert").word_tokenizer, 100, ("dog", "mat", "fox"))
    assert objective.judge(story(2, 0), [ClassChoice("mat", 0.9)]).sums["accuracy"].top == 1
    assert objective.judge(story(2, 0), [ClassChoice("dog", 0.9)]).task == "qa1"
