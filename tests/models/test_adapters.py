"""PEFT adapters: merged into their base, or refused in words."""

from __future__ import annotations

import json
import shutil
import sys

import peft
import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

import lamina
from lamina.assets import refuse_misspelt_model
from lamina.errors import ModelError
from lamina.types import Text

TEXT = Text("t", ("the", "dog", "barked", "unhesitatingly"))


def train(base, folder, auto=AutoModel, **settings):
    """An adapter with random weights of some size, saved as PEFT saves it; returns the adapted model."""
    torch.manual_seed(3)
    lora = peft.LoraConfig(r=4, target_modules=["query", "value"], lora_alpha=8, **settings)
    model = peft.get_peft_model(auto.from_pretrained(base), lora).eval()
    for name, weight in model.named_parameters():
        if "lora_" in name or "modules_to_save" in name:
            weight.data = 0.3 * torch.randn_like(weight)
    model.save_pretrained(folder)
    return model


@pytest.fixture(scope="module")
def base(model_folder):
    return model_folder("bert")


def states(name):
    (made,) = lamina.load_encoder(str(name), device="cpu").encode([TEXT])
    return made.states


@pytest.mark.parametrize("auto", [AutoModel, AutoModelForMaskedLM], ids=["body", "with head"])
def test_the_merged_model_computes_what_peft_computes(base, tmp_path, auto):
    adapted = train(base, tmp_path / "adapter", auto)
    encoder = lamina.load_encoder(f"{base}+{tmp_path / 'adapter'}", device="cpu")
    (made,) = encoder.encode([TEXT], ("states", "maps"))
    ids = torch.from_numpy(made.tokens.ids).long()[None]
    with torch.no_grad():
        expected = adapted(input_ids=ids, output_hidden_states=True).hidden_states
    assert torch.allclose(made.states, torch.stack([layer[0] for layer in expected], 1), atol=1e-5)
    assert not torch.allclose(made.states, states(base), atol=1e-2)
    assert encoder.name == "adapter"
    assert encoder.describe() == {"name": "adapter", "fingerprint": encoder.fingerprint, "base": "bert"}


def test_the_fingerprint_is_that_of_the_sum(base, tmp_path):
    adapted = train(base, tmp_path / "adapter")
    adapted.merge_and_unload().save_pretrained(tmp_path / "merged")
    AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path / "merged")
    names = (f"{base}+{tmp_path / 'adapter'}", str(tmp_path / "merged"))
    fingerprints = [lamina.load_encoder(name, device="cpu").fingerprint for name in names]
    assert fingerprints[0] == fingerprints[1]


def test_a_whole_module_that_was_trained_counts(base, tmp_path):
    train(base, tmp_path / "adapter", modules_to_save=["word_embeddings"])
    assert not torch.allclose(states(f"{base}+{tmp_path / 'adapter'}")[:, 0], states(base)[:, 0], atol=1e-2)


def refusal(name) -> str:
    with pytest.raises(ModelError) as caught:
        lamina.load_encoder(str(name), device="cpu")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def rewrite(adapter, **settings) -> None:
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | settings), encoding="utf-8")


def test_what_cannot_be_merged_is_refused_in_words(base, model_folder, tmp_path, monkeypatch):
    train(base, tmp_path / "sound")

    def broken(name):
        return shutil.copytree(tmp_path / "sound", tmp_path / name)

    assert "does not fit" in refusal(f"{model_folder('mpnet')}+{broken('other')}")
    rewrite(wider := broken("wider"), r=8)
    assert "does not fit" in refusal(f"{base}+{wider}")
    assert f"is an adapter on {tmp_path / 'gone'}, which cannot be loaded: " in refusal(
        f"{tmp_path / 'gone'}+{broken('lost')}"
    )
    rewrite(nameless := broken("nameless"), base_model_name_or_path=None)
    assert "does not name the model it was trained on" in refusal(nameless)
    pickled = broken("pickled")
    (pickled / "adapter_model.safetensors").rename(pickled / "adapter_model.bin")
    assert "can run code when it is read" in refusal(f"{base}+{pickled}")
    shutil.copytree(base, both := broken("both"), dirs_exist_ok=True)
    assert "holds both a model and an adapter" in refusal(both)
    assert "is an adapter itself" in refusal(f"{tmp_path / 'sound'}+{wider}")
    assert f"leave out {base}+" in refusal(f"{base}+{model_folder('mpnet')}")
    monkeypatch.setitem(sys.modules, "peft", None)
    assert "pip install 'lamina[peft]'" in refusal(f"{base}+{tmp_path / 'sound'}")


def test_a_base_that_nobody_typed_is_not_looked_up(base, tmp_path, monkeypatch):
    train(base, tmp_path / "sound")
    looked_up = []
    monkeypatch.setattr("transformers.utils.hub.cached_file", lambda *names, **_: looked_up.append(names))
    rewrite(tmp_path / "sound", base_model_name_or_path="someone/else")
    message = refusal(tmp_path / "sound")
    assert "an adapter on 'someone/else', which you did not name" in message
    assert f"name them together: someone/else+{tmp_path / 'sound'}" in message
    assert not looked_up


SLOW = r"((\w+\.?)+)+X"
"""A pattern that searches for longer than anyone waits on the names of a model's modules."""


def test_a_pattern_that_never_ends_is_not_searched_with(base, tmp_path):
    train(base, tmp_path / "adapter")
    plain = lamina.load_encoder(f"{base}+{tmp_path / 'adapter'}", device="cpu").fingerprint
    about = tmp_path / "adapter" / "adapter_config.json"
    settings = json.loads(about.read_text())
    about.write_text(json.dumps(settings | {"target_modules": SLOW, "exclude_modules": SLOW}))
    # Which modules are changed is read from the weights.
    assert lamina.load_encoder(f"{base}+{tmp_path / 'adapter'}", device="cpu").fingerprint == plain


@pytest.mark.parametrize("kind", ["rank_pattern", "alpha_pattern"])
def test_ranks_by_pattern_are_read_for_plain_names_only(base, tmp_path, kind):
    train(base, tmp_path / "adapter")
    about = tmp_path / "adapter" / "adapter_config.json"
    settings = json.loads(about.read_text())
    about.write_text(json.dumps(settings | {kind: {SLOW: 4}}))
    with pytest.raises(ModelError, match="only names of modules are read"):
        lamina.load_encoder(f"{base}+{tmp_path / 'adapter'}", device="cpu")
    name = r"encoder\.layer\.0\.attention\.self\.query"
    about.write_text(json.dumps(settings | {kind: {name: 4 if kind == "rank_pattern" else 8}}))
    assert lamina.load_encoder(f"{base}+{tmp_path / 'adapter'}", device="cpu").blocks == 3


def test_both_names_of_an_adapter_with_its_base_are_checked(base, tmp_path):
    train(base, tmp_path / "adapter")
    refuse_misspelt_model(f"{base}+{tmp_path / 'adapter'}")
    refuse_misspelt_model(f"minilm+{tmp_path / 'adapter'}")
    with pytest.raises(ModelError, match="did you mean minilm"):
        refuse_misspelt_model(f"minilmm+{tmp_path / 'adapter'}")
    with pytest.raises(ModelError, match="there is no model 'no/where'"):
        refuse_misspelt_model(f"{base}+no/where")
