"""Checkpoints of one training: ordered, compared, and what is wrong with them found."""

from __future__ import annotations

import itertools
import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

import lamina
from lamina.cli.main import app
from lamina.errors import InputError, ModelError
from lamina.models.series import best_order, contradictions, series_place

STEPS = ("checkpoint-100", "checkpoint-200", "checkpoint-400", "final")


@pytest.fixture(scope="module")
def walked(model_folder, tmp_path_factory):
    """Four checkpoints of a random walk from the tiny BERT, and one of a walk from other random weights."""
    home = tmp_path_factory.mktemp("series") / "sound"
    torch.manual_seed(0)
    weights = load_file(model_folder("bert") / "model.safetensors")
    for size, name in zip((1, 1, 1.4, 2), STEPS, strict=True):
        weights = {key: value + 0.05 * size * torch.randn_like(value) for key, value in weights.items()}
        save(model_folder, weights, home / name)
    other = {key: torch.randn_like(value) * value.std() for key, value in weights.items()}
    save(model_folder, other, home.parent / "other")
    return home


def save(model_folder, weights, folder):
    shutil.copytree(model_folder("bert"), folder)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def rearranged(walked, to, order):
    """Copies of the checkpoints under each other's names."""
    for name, taken in zip(STEPS, order, strict=True):
        shutil.copytree(walked / taken, to / name)
    return to


def kinds(folder) -> dict[str, list[str]]:
    faults = lamina.load_series(folder).faults
    return {name: sorted({f.kind for f in faults if f.checkpoint == name}) for name in {f.checkpoint for f in faults}}


def test_a_sound_series_is_in_order_and_has_no_faults(walked):
    series = lamina.load_series(walked)
    assert [(each.name, each.path, each.step) for each in series] == [
        ("checkpoint-100", "", 100),
        ("checkpoint-200", "", 200),
        ("checkpoint-400", "", 400),
        ("final", "", None),
    ]
    assert series.faults == ()
    one, two, three = (each.distance or 0.0 for each in series.checkpoints[1:])
    # The steps of the walk, 0.05 times 1, 1.4 and 2 per value.
    assert (two / one, three / one) == pytest.approx((1.4, 2), rel=0.03)
    assert series.require_sound() is series
    assert [encoder.name for _, encoder in series.encoders(device="cpu")] == list(STEPS)


@pytest.mark.parametrize("swap", list(itertools.combinations(range(4), 2)), ids=str)
def test_every_swap_is_found(walked, tmp_path, swap):
    order = list(STEPS)
    order[swap[0]], order[swap[1]] = order[swap[1]], order[swap[0]]
    found = kinds(rearranged(walked, tmp_path / "series", order))
    # Distances have no direction: the ends swapped are the middle swapped.
    expected = {STEPS[at] for at in ((1, 2) if swap == (0, 3) else swap)}
    assert found == {name: ["order"] for name in expected}


def test_a_duplicate_and_a_stranger_are_found(walked, tmp_path):
    folder = rearranged(walked, tmp_path / "series", STEPS)
    shutil.copytree(walked / "checkpoint-200", folder / "checkpoint-300")
    shutil.copytree(walked.parent / "other", folder / "checkpoint-250")
    assert kinds(folder) == {"checkpoint-300": ["duplicate"], "checkpoint-250": ["path"]}
    with pytest.raises(ModelError, match=r"series is not a sound series: checkpoint-300 has the same weights .*1 more"):
        lamina.load_series(folder).require_sound()


def test_a_branch_from_the_same_start_is_found(walked, model_folder, tmp_path):
    folder = rearranged(walked, tmp_path / "series", STEPS)
    start = load_file(model_folder("bert") / "model.safetensors")
    save(model_folder, {k: v + 0.09 * torch.randn_like(v) for k, v in start.items()}, folder / "checkpoint-300")
    assert "order" in kinds(folder)["checkpoint-300"]


def test_what_differs_in_shape_tokenizer_or_step_is_found(walked, model_folder, tmp_path):
    folder = rearranged(walked, tmp_path / "series", STEPS)
    shutil.copytree(model_folder("mpnet"), folder / "checkpoint-300")
    tokenizer = folder / "final" / "tokenizer.json"
    content = json.loads(tokenizer.read_text(encoding="utf-8"))
    content["normalizer"]["lowercase"] = False
    tokenizer.write_text(json.dumps(content), encoding="utf-8")
    (folder / "checkpoint-200" / "trainer_state.json").write_text('{"global_step": 150}')
    (folder / "checkpoint-400" / "model.safetensors").write_bytes(b"broken")
    found = kinds(folder)
    assert found["checkpoint-300"] == ["shape", "tokenizer"]
    assert found["final"] == ["tokenizer"]
    assert found["checkpoint-200"] == ["step"]
    assert found["checkpoint-400"] == ["unreadable"]


def test_how_weights_are_spread_over_files_does_not_matter(walked, tmp_path):
    folder = rearranged(walked, tmp_path / "series", STEPS)
    weights = load_file(folder / "final" / "model.safetensors")
    torch.save(weights, folder / "final" / "pytorch_model.bin")
    (folder / "final" / "model.safetensors").unlink()
    assert [each.hash for each in lamina.load_series(folder)] == [each.hash for each in lamina.load_series(walked)]


@pytest.mark.parametrize("decay", [0.0, 1.0], ids=["constant rate", "decaying rate"])
def test_simulated_trainings_raise_no_alarm_and_swaps_do(decay):
    draw = np.random.default_rng(1)
    for marks in ([1, 3, 10, 40], [10, 20, 30, 40, 50], [1, 2, 4, 8, 16, 32]):
        sizes = np.array([1 - decay * step / (1.2 * marks[-1]) for step in range(marks[-1])])
        path = np.cumsum(sizes[:, None] * (draw.normal(size=(len(sizes), 3000)) + 0.1), axis=0)[np.array(marks) - 1]
        apart = np.linalg.norm(path[:, None] - path[None], axis=-1)
        assert contradictions(apart) == []
        assert best_order(apart) == list(range(len(marks)))
        for at in range(len(marks) - 2):
            order = list(range(len(marks)))
            order[at], order[at + 1] = order[at + 1], order[at]
            assert contradictions(apart[np.ix_(order, order)])


def test_steps_are_read_from_names():
    said = {
        "global_step1000": ("", 1000),
        "step-5": ("", 5),
        "epoch_3": ("", 3),
        "ckpt.20k": ("", 20_000),
        "500": ("", 500),
        "seed-3": ("seed-3", None),
        "seed0-final": ("seed0", None),
        "bert": ("bert", None),
    }
    assert {name: tuple(series_place(name)) for name in said} == said


@pytest.mark.parametrize(
    ("where", "said"),
    [("gone", "is not a folder"), (".", "holds 0 checkpoints"), ("me/x@v1", "a series names its revisions")],
)
def test_what_is_no_series_is_said(tmp_path, monkeypatch, where, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=said):
        lamina.load_series(where)


def test_the_command_prints_the_table_and_ends_with_1_if_something_is_wrong(walked, tmp_path):
    shown = CliRunner().invoke(app, ["model", "series", str(walked)])
    assert (shown.exit_code, shown.output.count(" ok ")) == (0, 4)
    swapped = rearranged(walked, tmp_path / "series", [STEPS[0], STEPS[2], STEPS[1], STEPS[3]])
    shown = CliRunner().invoke(app, ["model", "series", str(swapped)])
    assert shown.exit_code == 1
    assert "the order is checkpoint-100 < checkpoint-400 < checkpoint-200 < final, or the reverse" in shown.output
    told = CliRunner().invoke(app, ["model", "series", str(swapped), "--json"])
    assert [each["kind"] for each in json.loads(told.stdout)["faults"]] == ["order", "order"]


@pytest.mark.data
def test_the_growing_bert_is_two_trainings(data_dir):
    series = lamina.load_series(data_dir / "growing_bert")
    assert {name: [each.step for each in path] for name, path in series.paths.items()} == {
        "seed0": [300, 1000, 3000, None],
        "seed1": [None],
    }
    assert series.faults == ()


def test_a_checkpoint_that_was_changed_lies_beside_the_path(walked, model_folder, tmp_path):
    home = tmp_path / "changed"
    shutil.copytree(walked, home)
    weights = load_file(walked / "checkpoint-200" / "model.safetensors")
    torch.manual_seed(5)
    noisy = {key: value + 0.3 * torch.randn_like(value) for key, value in weights.items()}
    save_file(noisy, home / "checkpoint-200" / "model.safetensors", metadata={"format": "pt"})
    assert kinds(home) == {"checkpoint-200": ["distance"]}


def test_steps_can_be_given(walked):
    series = lamina.load_series(walked, {"final": 800})
    assert series.checkpoints[-1].step == 800
    with pytest.raises(InputError, match="no checkpoint 'last'"):
        lamina.load_series(walked, {"last": 800})


def test_revisions_by_pattern_need_the_hub_or_its_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match=r"name the revisions: no/model@step1000,step3000"):
        lamina.load_series("no/model@step*")
