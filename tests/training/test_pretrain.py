"""Small models from nothing: transformers' own loss, one training however often it is stopped, a series at the end."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM
from typer.testing import CliRunner

import lamina
from lamina.cli.main import app
from lamina.corpora import corpus_from
from lamina.errors import CorpusError, InputError
from lamina.files.checking import read_json
from lamina.models.series import log_steps
from lamina.training import pretrain
from lamina.training.pretrain import (
    ABOUT_SERIES,
    ModelShape,
    PackedBatches,
    PretrainingPlan,
    documents_of,
    masked_loss,
    new_model,
    pack,
    train_series,
    train_tokenizer,
)
from lamina.training.reading import Sets
from lamina.types import Text

NOUNS, VERBS, THINGS = ("dog", "cat", "bird", "fox"), ("sees", "hears", "finds"), ("stones", "rivers", "houses")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    draw = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("text") / "own.txt"
    lines = [
        " ".join(f"the {draw.choice(NOUNS)} {draw.choice(VERBS)} {draw.choice(THINGS)} ." for _ in range(20))
        for _ in range(120)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def plan_of(**settings):
    given = {"steps": 16, "checkpoints": 4, "seeds": 1, "vocabulary": 300, "batch": 4, "length": 32, "lr": 3e-3}
    return PretrainingPlan(ModelShape.of("2x16"), **(given | settings))


@pytest.fixture(scope="module")
def grown(text, tmp_path_factory):
    return train_series([text], tmp_path_factory.mktemp("series") / "two", plan_of(seeds=2), device="cpu")


def test_a_series_has_an_untrained_checkpoint_and_log_spaced_ones_of_every_seed(grown):
    series = lamina.load_series(grown)
    assert series.faults == ()
    steps = [0, *log_steps(16, 4)]
    assert [(each.path, each.step) for each in series] == [(f"seed{seed}", step) for seed in (0, 1) for step in steps]
    assert [each.tokens for each in series][: len(steps)] == [step * 4 * 32 for step in steps]
    losses = read_json(grown / ABOUT_SERIES)["losses"]
    assert losses[0]["loss"] > losses[len(steps) - 1]["loss"]


def test_the_loss_is_transformers_own(grown, text):
    plan = plan_of()
    documents = list(documents_of([text]))
    tokenizer = train_tokenizer(documents, plan)
    rows = pack(documents, tokenizer, plan).held_out
    batch = PackedBatches(plan, tokenizer, 0)([{"input_ids": row} for row in rows[:4]])
    model = new_model(plan, tokenizer, 0).eval()
    # The logits of all tokens, as transformers computes them, against those of the masked ones.
    assert masked_loss(model, batch).item() == pytest.approx(model(**batch).loss.item(), abs=1e-5)
    last = AutoModelForMaskedLM.from_pretrained(grown / "seed0-step16").eval()
    with torch.no_grad():
        batches = [
            PackedBatches(plan, tokenizer, 0)([{"input_ids": row} for row in rows[start : start + 4]])
            for start in range(0, len(rows), 4)
        ]
        sums = [(last(**made).loss.item(), int((made["labels"] != -100).sum())) for made in batches]
    mean = sum(loss * count for loss, count in sums) / sum(count for _, count in sums)
    recorded = [row for row in read_json(grown / ABOUT_SERIES)["losses"] if (row["seed"], row["step"]) == (0, 16)]
    assert recorded[0]["loss"] == pytest.approx(mean, abs=1e-4)


def test_a_stopped_training_continues_to_the_same_weights(grown, text, tmp_path, monkeypatch):
    saved = pretrain._SeriesCallback.on_step_end

    def stopping(self, args, state, control, **rest):
        saved(self, args, state, control, **rest)
        if state.global_step == 11:
            raise KeyboardInterrupt

    folder = tmp_path / "stopped"
    monkeypatch.setattr(pretrain._SeriesCallback, "on_step_end", stopping)
    with pytest.raises(KeyboardInterrupt):
        train_series([text], folder, plan_of(seeds=2), device="cpu")
    monkeypatch.setattr(pretrain._SeriesCallback, "on_step_end", saved)
    train_series([text], folder, plan_of(seeds=2), device="cpu")
    for checkpoint in lamina.load_series(grown):
        one, other = (load_file(home / checkpoint.name / "model.safetensors") for home in (grown, folder))
        assert all(torch.equal(one[name], other[name]) for name in one), checkpoint.name


def test_a_causal_model_grows_too(text, tmp_path):
    folder = train_series([text], tmp_path / "causal", plan_of(objective="causal"), device="cpu")
    losses = [row["loss"] for row in read_json(folder / ABOUT_SERIES)["losses"]]
    assert losses[-1] < losses[0] - 0.5
    encoder = lamina.load_encoder(str(folder / "seed0-step16"), device="cpu")
    assert encoder.causal


@pytest.mark.parametrize("shape", ["large", "4", "4x0", "2x130x4"])
def test_a_shape_that_cannot_be_is_refused(shape):
    with pytest.raises(InputError, match="shape"):
        ModelShape.of(shape)


def test_a_folder_with_another_series_is_left_alone(grown, text):
    with pytest.raises(InputError, match="another steps"):
        train_series([text], grown, plan_of(seeds=2, steps=8), device="cpu")


def test_too_little_text_is_refused(tmp_path):
    path = tmp_path / "short.txt"
    path.write_text("Dogs bark.\nCats do not.\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="give more text"):
        train_series([path], tmp_path / "none", plan_of(), device="cpu")


def test_the_command_prints_losses(text, tmp_path):
    words = ["pretrain", "--text", str(text), "--shape", "2x16", "--steps", "4", "--checkpoints", "2", "--seeds", "1"]
    words += ["--vocabulary", "300", "--length", "32", "--batch", "4", "--out", str(tmp_path / "s"), "--device", "cpu"]
    printed = CliRunner().invoke(app, words)
    assert printed.exit_code == 0, printed.output
    assert "Loss on held-out" in printed.output


def sentences(count):
    draw = np.random.default_rng(1)
    return [
        Text(str(number), tuple(f"the {draw.choice(NOUNS)} {draw.choice(VERBS)} {draw.choice(THINGS)} .".split()))
        for number in range(count)
    ]


def test_weights_that_do_not_fit_their_step_are_found_by_the_loss(grown, tmp_path):
    corpus = corpus_from(sentences(60), name="own", split="dev")
    home = tmp_path / "changed"
    for checkpoint in grown.glob("seed0-*"):
        shutil.copytree(checkpoint, home / checkpoint.name)
    path = home / "seed0-step16" / "model.safetensors"
    torch.manual_seed(0)
    weights = load_file(path)
    save_file({key: value + 0.3 * torch.randn_like(value) for key, value in weights.items()}, path, {"format": "pt"})
    audit = lamina.grow(home, data=corpus, ask=["geometry"], samples=20, device="cpu").tables["audit"]
    assert audit["loss"].notna().all()
    odd = audit[audit["verdict"] != "ok"]
    assert odd["checkpoint"].tolist() == ["seed0-step16"]
    assert "loss" in odd["verdict"].iloc[0]


def test_a_fine_tuning_that_keeps_steps_is_a_series(model_folder, toy_texts, tmp_path):
    sets = Sets("toy", toy_texts(24, 1), toy_texts(6, 2), toy_texts(12, 3))
    how = {"task": "pos", "max_steps": 2, "batch": 4, "lr": 1e-3, "seeds": 2, "keep_steps": "log", "device": "cpu"}
    lamina.finetune(str(model_folder("bert")), sets, out=tmp_path / "tuned", **how)
    series = lamina.load_series(tmp_path / "tuned")
    steps = [0, *log_steps(2, 8)]
    assert [(each.path, each.step) for each in series] == [(f"seed{seed}", step) for seed in (0, 1) for step in steps]
    assert series.faults == ()
