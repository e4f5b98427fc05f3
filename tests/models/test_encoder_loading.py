"""From a name to an encoder, and one clear line where that cannot be."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import huggingface_hub
import pytest
from safetensors.torch import load_file, save_file
from transformers.utils import logging

import lamina
from lamina.errors import HashError, ModelError
from lamina.models.running.devices import check_precision, cpu_multiplies
from lamina.models.weights.hub import check_hub_files
from lamina.types import Text


@pytest.fixture
def copied(model_folder, tmp_path):
    """A copy of the tiny BERT that a test may break."""
    return shutil.copytree(model_folder("bert"), tmp_path / "broken")


def refusal(name, **settings) -> str:
    with pytest.raises(ModelError) as caught:
        lamina.load_encoder(str(name), **{"device": "cpu", **settings})
    message = str(caught.value)
    assert "\n" not in message
    return message


def change_config(folder, **settings) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | settings), encoding="utf-8")


def test_a_folder_is_called_by_its_name(model_folder, capfd):
    encoder = lamina.load_encoder(str(model_folder("bert")), device="cpu")
    assert encoder.name == "bert"
    assert encoder.describe() == {"name": "bert", "fingerprint": encoder.fingerprint}
    assert capfd.readouterr() == ("", "")


def test_loading_leaves_the_users_logging_alone(model_folder):
    logging.enable_progress_bar()
    before = logging.get_verbosity()
    lamina.load_encoder(str(model_folder("bert")), device="cpu")
    assert logging.is_progress_bar_enabled()
    assert logging.get_verbosity() == before
    logging.disable_progress_bar()


@pytest.mark.parametrize("name", ["no-such-owner/no-such-model", "bert-base-nonesuch", "not/a/model", "a b"])
def test_an_unknown_name_says_what_could_be_named(name):
    message = refusal(name)
    assert repr(name) in message
    assert "give an alias (minilm, mpnet, smollm2)" in message


def test_a_corpus_is_not_a_model():
    assert refusal("ewt") == "'ewt' is a corpus, not a model; `lamina assets list` shows the models"


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ("model.safetensors", "cannot be loaded as a model: Error no file named model.safetensors"),
        ("config.json", "cannot be loaded as a model: Unrecognized model"),
        ("tokenizer.json", "has no tokenizer, or an empty one; save the model's tokenizer in the same folder"),
    ],
)
def test_a_folder_that_lacks_a_part(copied, lost, said):
    (copied / lost).unlink()
    message = refusal(copied)
    assert str(copied) in message
    assert said in message


def test_weights_that_are_cut_short(copied):
    path = copied / "model.safetensors"
    path.write_bytes(path.read_bytes()[:5000])
    assert "cannot be loaded as a model" in refusal(copied)


def test_weights_of_the_backbone_must_all_be_there(copied):
    weights = load_file(copied / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if ".layer.1." not in name}
    save_file(kept, copied / "model.safetensors", metadata={"format": "pt"})
    message = refusal(copied)
    assert f"{len(weights) - len(kept)} weights are missing" in message
    assert "first: encoder.layer.1." in message


def test_weights_of_another_shape_are_refused(copied):
    change_config(copied, intermediate_size=64)
    assert "have another shape (first: encoder.layer.0.intermediate.dense.bias)" in refusal(copied)


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("num_hidden_layers", 10**9, "num_hidden_layers = 1000000000"),
        ("num_hidden_layers", -1, "num_hidden_layers = -1"),
        ("num_hidden_layers", 90_000, "far larger than the stored weights"),
        ("num_labels", 10**12, "num_labels = 1000000000000"),
        ("hidden_size", 10**12, "far larger than the stored weights"),
        ("vocab_size", 5 * 10**7, "far larger than the stored weights"),
        ("vocab_size", -5, "negative"),
        ("hidden_size", "wide", "hidden_size"),
        ("hidden_size", 10**30, ""),
    ],
)
def test_a_config_that_cannot_be_true_ends_at_once(copied, setting, value, said):
    change_config(copied, **{setting: value})
    assert said in refusal(copied)


@pytest.mark.parametrize("text", ["", "[]", "7", "\0", "[" * 100_000, '{"a": ' + "9" * 5000 + "}", '{"a": ' * 5000])
def test_a_config_that_is_no_object(copied, text):
    (copied / "config.json").write_text(text, encoding="utf-8")
    assert "config.json" in refusal(copied)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors", "tokenizer_config.json"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_is_never_opened(copied, name, kind):
    (copied / name).unlink()
    if kind == "pipe":
        os.mkfifo(copied / name)
    else:
        (copied / name).symlink_to("/dev/zero")
    message = refusal(copied)
    assert name in message
    assert f"{kind}, not a regular file" in message


def test_a_file_of_the_hub_is_compared_with_its_first_download(copied, tmp_path, monkeypatch):
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_, **__: str(copied / "config.json"))
    check_hub_files("me/tiny", "abc")
    check_hub_files("me/tiny", "abc")
    (copied / "tokenizer.json").write_text("{}")
    with pytest.raises(HashError, match=r"^me/tiny@abc/tokenizer\.json has sha256"):
        check_hub_files("me/tiny", "abc")
    check_hub_files("me/tiny", None)
    # Another revision has files of its own.
    check_hub_files("me/tiny", "def")


def test_code_that_comes_with_a_model_is_never_run(copied, capfd):
    (copied / "modeling_x.py").write_text("raise SystemExit('run!')")
    change_config(copied, model_type="x", auto_map={"AutoConfig": "modeling_x.C", "AutoModel": "modeling_x.M"})
    assert "contains custom code" in refusal(copied)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("device", ["banana", "cuda:x", "cuda:99", "xpu"])
def test_a_device_that_is_not_there(model_folder, device):
    assert repr(device) in refusal(model_folder("bert"), device=device)


def test_a_precision_that_is_none(model_folder):
    assert "use float32, bfloat16 or float16" in refusal(model_folder("bert"), dtype="float64")


def test_half_precision_needs_a_processor_that_has_it(model_folder, monkeypatch):
    monkeypatch.setattr("lamina.models.running.devices.cpu_multiplies", lambda dtype: False)
    assert "bfloat16 matrix products do not work on this machine's CPU" in refusal(
        model_folder("bert"), dtype="bfloat16"
    )
    check_precision("bfloat16", "cuda")
    check_precision("float32", "cpu")


def test_trying_half_precision_never_kills_this_process(monkeypatch):
    assert cpu_multiplies("bfloat16") in (True, False)
    died = subprocess.CompletedProcess([], returncode=-4, stdout="", stderr="")
    monkeypatch.setattr("lamina.models.running.devices.subprocess.run", lambda *a, **k: died)
    assert cpu_multiplies.__wrapped__("bfloat16") is False


def test_states_come_out_in_float32_whatever_the_precision(model_folder, tiny_encoder):
    if not cpu_multiplies("bfloat16"):
        pytest.skip("this CPU does not multiply in bfloat16")
    text = Text("t", ("the", "dog", "barked"))
    (half,) = lamina.load_encoder(str(model_folder("bert")), device="cpu", dtype="bfloat16").encode([text])
    (full,) = tiny_encoder("bert").encode([text])
    assert half.states.dtype == full.states.dtype
    assert 0 < (half.states - full.states).norm() < 0.1 * full.states.norm()


def test_only_the_encoder_of_an_encoder_decoder_is_loaded(model_folder, tmp_path):
    from transformers import AutoTokenizer, T5Config, T5Model

    tokenizer = AutoTokenizer.from_pretrained(model_folder("albert"))
    config = T5Config(vocab_size=len(tokenizer), d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2)
    T5Model(config).save_pretrained(tmp_path / "t5")
    tokenizer.save_pretrained(tmp_path / "t5")
    encoder = lamina.load_encoder(str(tmp_path / "t5"), device="cpu")
    assert (encoder.blocks, encoder.heads, encoder.width, encoder.causal, encoder.limit) == (2, 2, 16, False, 512)
    (made,) = encoder.encode([Text("t", ("the", "dog"))])
    assert made.states.shape == (len(made.tokens.ids), 3, 16)
    (random,) = encoder.random_twin(1, keep_embeddings=True).encode([Text("t", ("the", "dog"))])
    assert random.states[:, 0].equal(made.states[:, 0])


def test_a_misspelt_alias_is_told_at_once() -> None:
    with pytest.raises(ModelError, match="there is no model 'minilmm'; did you mean minilm\\?"):
        lamina.load_encoder("minilmm")
