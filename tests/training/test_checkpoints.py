"""Checkpoints that are damaged are not continued from; one that cannot be written does not end the training."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel, TrainerCallback

from lamina.errors import DiskFullError
from lamina.training.heads import load_with_head
from lamina.training.running import Collator, TrainedPlan, is_sound, last_checkpoint, rows_of, train
from lamina.training.settings import TrainingPlan
from lamina.training.tags import TagObjective

PLAN = TrainingPlan(100, 1e-2, 4, "constant", 0, 20, 1000, 1.0)
SCORES = [0.1, 0.2, 0.3, 0.9, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0]
"""By evaluation: the fourth, at step 8, is the best."""


class _KilledError(Exception):
    pass


class _Kill(TrainerCallback):
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == 13:
            raise _KilledError


class _Scores(TrainerCallback):
    """Scores by step, so that a continued run finds the same ones."""

    step = 0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.step = state.global_step

    def __call__(self, _: Any) -> dict[str, float]:
        return {"f1": SCORES[(self.step - 1) // 2]}


Learned = tuple[TrainedPlan, dict[str, torch.Tensor]]


@pytest.fixture(scope="module")
def learn(encoder, toy_texts) -> Callable[..., Learned]:
    """Train in a folder: what was trained, and the weights it ends with."""
    base, items = encoder("bert"), toy_texts(8, 1)
    objective = TagObjective.learn(base.word_tokenizer, 32, "pos", items)
    rows = rows_of(objective, items)

    def run(folder: Path, *callbacks: TrainerCallback) -> Learned:
        model = load_with_head(base, objective, seed=0)
        scores = _Scores()
        collator = Collator(objective, model, base.tokenizer)
        chooses = {"metric": "f1", "greater": True, "what": "test", "callbacks": [scores, *callbacks]}
        return train(model, rows, collator, scores, PLAN, folder, **chooses), model.state_dict()

    return run


@pytest.fixture(scope="module")
def whole(learn, tmp_path_factory: pytest.TempPathFactory) -> Learned:
    """A training that nothing happened to."""
    return learn(tmp_path_factory.mktemp("whole"))


def same(one: Learned, other: Learned) -> bool:
    weights = all(torch.equal(value, other[1][name]) for name, value in one[1].items())
    return weights and one[0][1:] == other[0][1:]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 64
    path.write_bytes(content)


def test_a_damaged_checkpoint_is_passed_over(learn, whole: Learned, tmp_path: Path) -> None:
    assert whole[0].step == 8
    with pytest.raises(_KilledError):
        learn(tmp_path, _Kill())
    best, last = tmp_path / "checkpoint-8", tmp_path / "checkpoint-12"
    assert last_checkpoint(tmp_path) == last

    flip(last / "optimizer.pt")
    assert not is_sound(last)
    assert last_checkpoint(tmp_path) == best
    assert same(learn(tmp_path), whole)


def test_without_its_best_weights_a_checkpoint_is_not_continued_from(learn, tmp_path: Path) -> None:
    with pytest.raises(_KilledError):
        learn(tmp_path, _Kill())
    flip(tmp_path / "checkpoint-8" / "model.safetensors")

    assert is_sound(tmp_path / "checkpoint-12")
    assert last_checkpoint(tmp_path) is None


def test_a_damaged_model_is_trained_again(learn, whole: Learned, tmp_path: Path, capsys) -> None:
    shutil.copytree(whole[0].folder.parent, tmp_path, dirs_exist_ok=True)
    assert learn(tmp_path)[0][1:] == whole[0][1:]
    assert "damaged" not in capsys.readouterr().err
    flip(tmp_path / "best" / "model.safetensors")

    again = learn(tmp_path)

    assert "is damaged; training starts again" in capsys.readouterr().err
    assert same(again, whole)


class _At(TrainerCallback):
    """Does something after a step was saved."""

    def __init__(self, step: int, work: Callable[[], Any]) -> None:
        self.step, self.work = step, work

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.step:
            self.work()


class _Full(TrainerCallback):
    """From a step on, the disk is full: nothing more can be written."""

    def __init__(self, patch: pytest.MonkeyPatch, start: int, end: int) -> None:
        self.patch, self.start, self.end = patch, start, end

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.start:
            self.patch.setattr(torch, "save", self._refuse)
        if state.global_step == self.end:
            self.patch.undo()

    def _refuse(self, content: Any, path: Any, *_: Any, **__: Any) -> None:
        Path(path).write_bytes(b"half")
        raise RuntimeError("PytorchStreamWriter failed writing file data/1: file write failed")


@pytest.mark.parametrize("end", [11, 20])
def test_a_full_disk_does_not_end_the_training(learn, whole: Learned, tmp_path, monkeypatch, capsys, end: int) -> None:
    trained = learn(tmp_path, _Full(monkeypatch, 5, end))

    monkeypatch.undo()
    assert same(trained, whole), "with the best weights, of a step whose checkpoint could not be written"
    assert capsys.readouterr().err.count("training goes on") == 1, "said once"
    assert not list(tmp_path.glob("checkpoint-*"))


def test_best_weights_that_were_only_in_memory_are_trained_again(learn, whole, tmp_path, monkeypatch) -> None:
    with monkeypatch.context() as patch, pytest.raises(_KilledError):
        learn(tmp_path, _Full(patch, 5, 9), _Kill())
    assert is_sound(tmp_path / "checkpoint-12")
    assert last_checkpoint(tmp_path) != tmp_path / "checkpoint-12"

    assert same(learn(tmp_path), whole)


def test_a_model_that_cannot_be_saved_is_told_and_its_training_not_lost(learn, whole, tmp_path, monkeypatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(DiskFullError, match="run the same command again"):
        learn(tmp_path, _At(20, lambda: patch.setattr(PreTrainedModel, "save_pretrained", full)))
    saved: list[int] = []

    assert same(learn(tmp_path, _At(20, lambda: saved.append(20))), whole)
    assert not saved, "no step is taken again"
