"""Tiny models learn eight examples by heart, and a run that is killed ends as one that was not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForQuestionAnswering, AutoModelForTokenClassification, TrainerCallback

import lamina
from lamina.analyses.answering.finetune import finetune
from lamina.errors import CorpusError, InputError, ModelError, ResultError, TaskError
from lamina.results import Result
from lamina.testing import TinyEncoder
from lamina.training import running
from lamina.training.answering import load_answerer
from lamina.training.provenance import read_about, refuse_used, text_hash, used_texts
from lamina.training.reading import Sets
from lamina.training.running import last_checkpoint
from lamina.types import Text

Asked = Callable[..., Result]


def by_heart(make: Callable[[int, int], tuple[Any, ...]]) -> Sets:
    return Sets("toy", make(8, 1), make(8, 2), make(8, 3))


def losses(result: Result, split: str) -> list[float]:
    curve = result.tables["curve"]
    return curve[(curve["split"] == split) & (curve["metric"] == "loss")]["value"].tolist()


@pytest.fixture
def learn(model_folder, tmp_path, toy_texts, toy_questions) -> Asked:
    def run(task: str, architecture: str = "bert", out: str = "out", **settings: Any) -> Result:
        make = toy_questions if task == "squad" else toy_texts
        chosen = {"epochs": 500, "max_steps": 12, "lr": 1e-2, "batch": 8, "schedule": "constant", "device": "cpu"}
        data = settings.pop("data", by_heart(make))
        folder = str(model_folder(architecture))
        return finetune(folder, data, task=task, out=tmp_path / out, **(chosen | settings))

    return run


@pytest.mark.parametrize("task", ["squad", "classify", "ner"])
def test_eight_examples_are_learned_by_heart(learn, toy_texts, toy_questions, monkeypatch, task: str) -> None:
    make = toy_questions if task == "squad" else toy_texts
    items = make(8, 1)
    # Scored on what was learned: the point is that the head, the labels and the reading of outputs fit each other.
    monkeypatch.setattr("lamina.analyses.answering.finetune.apart", lambda sets: sets)
    result = learn(task, data=Sets("toy", items, items, items), max_steps=100, lr=5e-3 if task == "classify" else 1e-2)

    assert result.tables["scores"]["value"].tolist() == [1.0] * len(result.tables["scores"])
    assert losses(result, "train")[-1] < 0.2 * losses(result, "train")[0]


def test_the_masked_model_gets_better(learn) -> None:
    result = learn("mlm", max_steps=30)
    assert losses(result, "select")[-1] < losses(result, "select")[0]
    assert set(result.tables["scores"]["metric"]) == {"loss", "accuracy"}


@pytest.mark.parametrize("architecture", ["gpt2", "llama", "mpnet"])
def test_other_architectures_answer_too_and_load_as_encoders(learn, model_folder, tmp_path, architecture) -> None:
    before = lamina.load_encoder(str(model_folder(architecture)), device="cpu")
    result = learn("squad", architecture, max_steps=2, lr=1e-9)
    after = lamina.load_encoder(str(tmp_path / "out"), device="cpu")

    assert result.tables["scores"]["count"].tolist() == [8, 8]
    # After steps of no size the body is the pretrained one: nothing was drawn anew on the way in or out.
    for name, weight in before.model.state_dict().items():
        assert torch.allclose(after.model.state_dict()[name], weight, atol=1e-5), name


def test_the_folder_is_a_model_with_its_result(learn, tmp_path, toy_texts) -> None:
    result = learn("pos")
    out = tmp_path / "out"
    model = AutoModelForTokenClassification.from_pretrained(out)

    assert list(result.tables["curve"].columns) == ["seed", "step", "epoch", "split", "metric", "value"]
    assert list(result.tables["scores"].columns) == [
        *("split", "task", "metric", "count", "seeds", "value", "low", "high")
    ]
    assert result.tables["baseline"]["metric"].tolist() == ["accuracy"]
    assert model.config.id2label[0] == "b"
    assert read_about(out)["task"] == "pos"
    assert {path.name for path in out.iterdir()} >= {"model.safetensors", "tokenizer.json", "result.json", "curve.csv"}
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".out")]
    assert used_texts(out) == {text_hash(text) for seed in (1, 2) for text in toy_texts(8, seed)}
    with pytest.raises(CorpusError, match=r"fine-tuned on 8 of the texts of mine \(first: 2-0\)"):
        refuse_used(out, toy_texts(8, 2), "mine")
    refuse_used(out, toy_texts(8, 3), "mine")
    assert Result.load(out).key == result.key


def test_asked_again_it_is_read_and_a_fine_tuned_model_knows_its_texts(learn, tmp_path, toy_texts, monkeypatch) -> None:
    first = learn("pos")
    monkeypatch.setattr("lamina.training.finetune.try_all", None)
    assert learn("pos").key == first.key
    monkeypatch.undo()
    swapped = Sets("swapped", toy_texts(8, 4), toy_texts(8, 5), toy_texts(8, 1))
    with pytest.raises(CorpusError, match="swapped"):
        finetune(str(tmp_path / "out"), swapped, task="pos", out=tmp_path / "next", device="cpu")


class _KilledError(Exception):
    pass


class _Kill(TrainerCallback):
    def __init__(self, at: int) -> None:
        self.at = at

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.at:
            raise _KilledError


@pytest.mark.parametrize("task", ["pos", "mlm"])
def test_killed_and_continued_it_ends_bit_for_bit_the_same(learn, tmp_path, monkeypatch, task: str) -> None:
    settings = {"max_steps": 20, "batch": 3, "schedule": "linear", "lr": 1e-3}
    whole = learn(task, out="whole", **settings)
    original = running.train
    monkeypatch.setattr("lamina.training.finetune.train", lambda *a, **k: original(*a, callbacks=[_Kill(9)], **k))
    with pytest.raises(_KilledError):
        learn(task, out="killed", **settings)
    monkeypatch.undo()
    work = next(tmp_path.glob(".killed.work-*")) / "trial-0"
    assert last_checkpoint(work) == work / "checkpoint-8"
    # A checkpoint cut short by the kill is not taken.
    shutil.copytree(work / "checkpoint-8", work / "checkpoint-9")
    (work / "checkpoint-9" / "trainer_state.json").write_text("{")
    continued = learn(task, out="killed", **settings)

    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "killed"))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert whole.tables["curve"].equals(continued.tables["curve"])
    assert whole.tables["scores"].equals(continued.tables["scores"])
    assert not list(tmp_path.glob(".killed.*"))


def test_a_run_that_was_stopped_starts_anew_where_that_is_asked(learn, tmp_path, monkeypatch) -> None:
    original = running.train
    monkeypatch.setattr("lamina.training.finetune.train", lambda *a, **k: original(*a, callbacks=[_Kill(9)], **k))
    with pytest.raises(_KilledError):
        learn("pos", max_steps=20)
    monkeypatch.undo()
    resumed = []
    monkeypatch.setattr(
        "lamina.training.finetune.train",
        lambda *a, **k: resumed.append(last_checkpoint(a[5])) or original(*a, **k),
    )
    learn("pos", max_steps=20, resume=False)
    assert resumed == [None]


def test_seeds_are_honoured(learn, tmp_path) -> None:
    for out, seed in (("a", 0), ("b", 0), ("c", 1)):
        learn("classify", out=out, max_steps=3, seed=seed)
    a, b, c = (load_file(tmp_path / name / "model.safetensors") for name in "abc")
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not all(torch.equal(a[name], c[name]) for name in a)


def test_a_grid_keeps_what_does_best_on_the_selection_set(learn) -> None:
    result = learn("pos", grid=True, schedule=None, max_steps=2)
    grid = result.tables["grid"]

    assert grid["schedule"].tolist() == ["constant", "linear", "warmup"]
    assert set(grid["lr"]) == {1e-2}
    assert grid["chosen"].sum() == 1
    assert grid.loc[grid["chosen"], "value"].item() == grid["value"].max()


def test_answers_are_words_of_the_context(learn, tmp_path, toy_questions) -> None:
    learn("squad", max_steps=4)
    answerer = load_answerer(tmp_path / "out", device="cpu")
    questions = toy_questions(70, 9)
    answers = list(answerer.answer(questions))

    assert [each.question for each in answers] == [question.text.id for question in questions]
    for question, each in zip(questions, answers, strict=True):
        assert each.text in question.context
        assert each.span is not None
        assert each.text.split() == list(question.text.words[each.span.start : each.span.end])
        assert 0 <= each.confidence <= 1
        assert each.right == (each.text == question.answers[0])
    assert answerer.encoder.layers == 4
    assert AutoModelForQuestionAnswering.from_pretrained(tmp_path / "out").qa_outputs.weight.shape[0] == 2


def test_only_models_that_answer_are_loaded_to_answer(learn, model_folder, tmp_path) -> None:
    with pytest.raises(ModelError, match="no head for spans or classes"):
        load_answerer(model_folder("bert"))
    with pytest.raises(ModelError, match=r"no readable lamina\.json"):
        read_about(model_folder("bert"))


def test_mistakes_are_said(learn, tmp_path, toy_texts, toy_questions) -> None:
    with pytest.raises(InputError, match="task must be one of squad"):
        learn("clasify")
    with pytest.raises(InputError, match="schedule must be one of constant, linear, warmup or None; got 'cosine'"):
        learn("pos", schedule="cosine")
    with pytest.raises(InputError, match="lr must be more than 0"):
        learn("pos", lr=0.0)
    with pytest.raises(InputError, match="say where with out=FOLDER"):
        finetune(TinyEncoder(), by_heart(toy_texts), task="pos")
    with pytest.raises(InputError, match="task has to be given"):
        finetune(TinyEncoder(), by_heart(toy_texts), out=tmp_path / "out")
    with pytest.raises(ModelError, match="no blocks to fine-tune"):
        finetune(TinyEncoder(), by_heart(toy_texts), task="pos", out=tmp_path / "out")
    with pytest.raises(InputError, match="data is a name, a path, train, dev and test by name"):
        learn("pos", data=7)
    with pytest.raises(InputError, match="lr must be a number of at least 0"):
        learn("pos", lr=-1.0)
    with pytest.raises(TaskError, match="attention window is for pos, ner and tag"):
        learn("classify", attention_window=2)
    with pytest.raises(TaskError, match="no question with a context"):
        learn("squad", data=by_heart(toy_texts))
    with pytest.raises(CorpusError, match="no texts in scored"):
        learn("pos", data=Sets("toy", toy_texts(2, 1), toy_texts(2, 2), ()))
    with pytest.raises(CorpusError, match="scored texts may not be trained on"):
        learn("pos", data=Sets("toy", toy_texts(4, 1), toy_texts(4, 2), toy_texts(4, 1)))
    with pytest.raises(ModelError, match="no mask token"):
        learn("mlm", "gpt2")
    plain = (Text("x", ("dog",)),)
    with pytest.raises(TaskError, match="has no pos annotation"):
        learn("pos", data=Sets("toy", plain, toy_texts(2, 2), toy_texts(2, 3)))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(ResultError, match="something other than a result"):
        learn("pos", out="mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"
    # What is refused leaves nothing behind.
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_texts_in_two_sets_are_left_out_and_counted(learn, toy_texts) -> None:
    train, scored = toy_texts(8, 1), toy_texts(8, 3)
    result = learn("pos", data=Sets("toy", (*train, scored[0]), toy_texts(8, 2), scored), max_steps=1)
    assert result.provenance.skipped["training texts that are also in the selection or scored texts"] == 1
    assert result.provenance.corpus["texts"] == {"train": 8, "select": 8, "scored": 8}
