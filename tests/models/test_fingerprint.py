"""A fingerprint changes when the numbers could, and only then."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

import lamina


@pytest.fixture
def copied(model_folder, tmp_path):
    """A copy of the tiny BERT that a test may change."""
    return shutil.copytree(model_folder("bert"), tmp_path / "elsewhere")


def fingerprint(folder, **settings) -> str:
    return lamina.load_encoder(str(folder), device="cpu", **settings).fingerprint


def rewrite(folder, change) -> None:
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})


def test_the_same_model_elsewhere_has_the_same_fingerprint(architecture, model_folder, tiny_encoder, tmp_path):
    folder = model_folder(architecture)
    expected = tiny_encoder(architecture).fingerprint
    assert fingerprint(folder) == expected
    assert fingerprint(shutil.copytree(folder, tmp_path / "elsewhere")) == expected


def test_architectures_differ(tiny, tiny_encoder):
    names = ("bert", "mpnet", "roberta", "distilbert", "electra", "albert", "deberta-v2", "gpt2", "llama")
    assert len({tiny_encoder(name).fingerprint for name in names}) == len(names)


def test_one_weight_changes_it(copied, tiny_encoder):
    def nudge(weights):
        weights["encoder.layer.2.output.dense.bias"][3] += 1e-3
        return weights

    rewrite(copied, nudge)
    assert fingerprint(copied) != tiny_encoder("bert").fingerprint


def test_the_limit_changes_it(copied, tiny_encoder):
    made = {fingerprint(copied, limit=limit) for limit in (16, 17, None)}
    assert len(made) == 3
    assert tiny_encoder("bert").fingerprint in made


def test_the_tokenizer_changes_it(copied, tiny_encoder):
    path = copied / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["normalizer"]["lowercase"] = False
    path.write_text(json.dumps(content), encoding="utf-8")
    config = copied / "tokenizer_config.json"
    settings = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps(settings | {"do_lower_case": False}), encoding="utf-8")
    assert fingerprint(copied) != tiny_encoder("bert").fingerprint


def test_the_config_changes_it(copied, tiny_encoder):
    path = copied / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"layer_norm_eps": 1e-3}), encoding="utf-8")
    assert fingerprint(copied) != tiny_encoder("bert").fingerprint


def test_the_precision_changes_it(copied, tiny_encoder, monkeypatch):
    # Half precision itself may not work on this machine; nothing is multiplied to find the direction either.
    monkeypatch.setattr("lamina.models.running.devices.cpu_multiplies", lambda dtype: True)
    seen = tiny_encoder("bert").anatomy
    monkeypatch.setattr("lamina.models.running.huggingface.anatomy", lambda model, ids, *, name: seen)
    made = {fingerprint(copied, dtype=dtype) for dtype in ("float32", "bfloat16", "float16")}
    assert len(made) == 3
    assert tiny_encoder("bert").fingerprint in made


def test_a_pooler_that_the_checkpoint_lacks_does_not_blur_it(copied, tiny_encoder):
    rewrite(copied, lambda weights: {name: weight for name, weight in weights.items() if "pooler" not in name})
    # What is missing would be drawn at random, from another state each time.
    torch.manual_seed(1)
    one = fingerprint(copied)
    torch.manual_seed(2)
    assert fingerprint(copied) == one == tiny_encoder("bert").fingerprint


def test_the_name_does_not_change_it(copied, tiny_encoder):
    renamed = lamina.load_encoder(str(copied), device="cpu")
    assert renamed.name != tiny_encoder("bert").name
    assert renamed.lexical().fingerprint == tiny_encoder("bert").lexical().fingerprint
    assert renamed.random_twin().fingerprint == tiny_encoder("bert").random_twin().fingerprint
