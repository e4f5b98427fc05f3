"""Questions are shown as they were shown to the model when it was fine-tuned, unless the user says otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from lamina.activations.runtime import Runtime
from lamina.corpora.corpus import View
from lamina.corpora.question_sets import Questions
from lamina.errors import CorpusError, InputError, ModelError
from lamina.framework.inputs import OneQuestion, QuestionSet, TwoModels, chosen_view
from lamina.models import load_encoder
from lamina.training.provenance import ABOUT

STORY = "1 Mary went home.\n2 John went to sea.\n3 Where is Mary?\thome\t1\n4 Where is John?\tsea\t2\n"
NOTHING = {"view": None}
OPTIONS = {"split": "all", "format": None, "limit": None, "unit": "sentence", "annotation": None, **NOTHING}
CPU = Runtime(None, "cpu", None)


@pytest.fixture(scope="module")
def babi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("babi")
    for task in ("qa1_where", "qa2_who"):
        (folder / f"{task}_test.txt").write_text(STORY)
    return folder


@pytest.fixture
def tuned(model_folder, tmp_path: Path):
    """A model that says in which view it was fine-tuned, with classes where those are given."""

    def make(name: str, view: View | None, labels: tuple[str, ...] = ()) -> Path:
        copytree(model_folder("bert"), tmp_path / name)
        head = "SequenceClassification" if labels else "QuestionAnswering"
        about = {
            "format": 1,
            "head": head,
            "labels": labels,
            "view": view and view.describe(),
            "data": {"name": "babi"},
        }
        (tmp_path / name / ABOUT).write_text(json.dumps(about))
        return tmp_path / name

    return make


def asked(model: Path, data: Path | str, reads: QuestionSet | None = None, **options: Any) -> Questions:
    given = {"model": str(model), "data": data}
    return (reads or QuestionSet()).load(given, {**OPTIONS, **options}, {}, CPU).arguments[1]


def test_what_the_user_says_is_first_then_the_model_then_the_default(model_folder, tuned) -> None:
    plain = load_encoder(str(model_folder("bert")), device="cpu")
    own = load_encoder(str(tuned("own", View(setting="support", tasks=(2,), max_words=90))), device="cpu")
    assert chosen_view(NOTHING, plain) == View()
    assert chosen_view(NOTHING, own) == chosen_view(NOTHING, plain, own) == View("support", "span", (2,), 90)
    for given in ("setting=distractor,tasks=1+3", {"setting": "distractor", "tasks": [1, 3]}):
        assert chosen_view({"view": given}, own) == View("distractor", "span", (1, 3), 90)
    assert chosen_view({"view": View(tasks=(1,))}, own) == View(tasks=(1,)), "a whole view takes the place of another"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("support", "the view 'support' cannot be read; write NAME=VALUE"),
        ("sitting=support", "the view has no 'sitting'; did you mean setting"),
        ("tasks=one", r"the view: tasks must be whole numbers, as in 1\+2|the view: tasks must be a whole number"),
        ("max_words=many", "the view: max_words must be a whole number; got 'many'"),
        ("setting=both", "a view's setting is distractor or support; got 'both'"),
        (3, "a view is text, a mapping or a lamina.View"),
    ],
)
def test_a_view_that_cannot_be_read_is_refused(given: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        chosen_view({"view": given})


def test_stories_are_shown_as_the_model_learned_them(babi: Path, model_folder, tuned) -> None:
    plain = asked(model_folder("bert"), babi)
    assert all("Possible answers" in question.context for question in plain.questions())
    assert {question.task for question in plain.questions()} == {"qa1", "qa2"}
    by_class = tuned("by-class", View(babi="classification", tasks=(2,)), labels=("home", "sea"))
    shown = asked(by_class, babi)
    assert [question.context for question in shown.questions()] == ["Mary went home. John went to sea."] * 2
    assert {question.task for question in shown.questions()} == {"qa2"}
    assert shown.describe()["fingerprint"] != plain.describe()["fingerprint"]
    other = asked(by_class, babi, view="babi=span,tasks=1")
    assert next(other.questions()).context.endswith("Possible answers: home; sea.")
    assert {question.task for question in other.questions()} == {"qa1"}


def test_the_map_of_one_question_is_of_that_view_too(babi: Path, tuned) -> None:
    by_class = tuned("by-class", View(babi="classification"), labels=("home", "sea"))
    shown = asked(by_class, babi, OneQuestion(), question=None, context=None)
    assert "Possible answers" not in next(shown.questions()).context


def test_a_view_that_does_not_fit_the_data_is_refused(babi: Path, tuned, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"one of 2 classes \(dog, fox\), and none of them is an answer in .*babi"):
        asked(tuned("other", View(babi="classification"), labels=("dog", "fox")), babi)
    with pytest.raises(CorpusError, match="has no questions of task 7; choose others"):
        asked(tuned("seventh", View(tasks=(7,))), babi)
    (tmp_path / "trec.txt").write_text("HUM:ind Who barks ?\nLOC:city Where is Ann ?\n" * 3)
    with pytest.raises(ModelError, match=r"answers with a span of a context, and the questions of .* have none"):
        asked(tuned("spans", View()), tmp_path / "trec.txt", format="trec")


def test_two_models_are_shown_the_same(babi: Path, model_folder, tuned) -> None:
    def compared(*models: Path, **options: Any) -> Any:
        given = {"model": str(models[0]), "other": str(models[1]), "data": babi}
        return TwoModels().load(given, {**OPTIONS, **options}, {}, CPU).arguments[2]

    plain = model_folder("bert")
    by_class, by_span = tuned("by-class", View(babi="classification")), tuned("by-span", View(setting="support"))
    assert compared(plain, by_class).view == compared(by_class, plain).view == View(babi="classification")
    # HotpotQA's setting makes no difference to stories.
    assert compared(plain, by_span).view == View()
    with pytest.raises(ModelError, match=r"by-class and by-span were fine-tuned on different views of .*--view"):
        compared(by_class, by_span)
    assert compared(by_class, by_span, view={"babi": "span"}).view == View()
