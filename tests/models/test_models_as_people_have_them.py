"""Names with revisions and sides, sharded and half-precision weights, GGUF by path, models in memory, remote code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import httpx
import pytest
import torch
from huggingface_hub import errors
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

import lamina
from lamina.errors import HashError, ModelError
from lamina.models.weights.hub import ModelName, parse_name
from lamina.types import Text

TEXT = Text("t", ("the", "dog", "barked"))


def states(encoder):
    (made,) = encoder.encode([TEXT])
    return made.states


def refusal(name, **settings) -> str:
    with pytest.raises(ModelError) as caught:
        lamina.load_encoder(name, **{"device": "cpu", **settings})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_path_that_exists_is_taken_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("t5", "odd@name:decoder"):
        Path(name).mkdir()
    assert parse_name("odd@name:decoder") == ModelName("odd@name:decoder")
    assert parse_name("t5:decoder") == ModelName("t5", None, "decoder")
    assert parse_name("me/t5@refs/pr/1:encoder") == ModelName("me/t5", "refs/pr/1", "encoder")
    for name, said in {"t5@v1": "has no revisions", "@v1": "names no model", "": "is empty", "a\0": "null"}.items():
        with pytest.raises(ModelError, match=said):
            parse_name(name)


def test_names_that_cannot_have_a_revision_or_a_side(tmp_path):
    assert "is an alias for one fixed version" in refusal("minilm@v1")
    (tmp_path / "notes.md").write_text("hello")
    assert "is a file; a model is a folder" in refusal(str(tmp_path / "notes.md"))
    (tmp_path / "tiny.vec").write_text("dog 1 2\n")
    assert "holds word vectors: no chat template" in refusal(str(tmp_path / "tiny.vec"), chat=True)


def test_a_pair_in_memory_is_an_encoder_with_its_head(model_folder, tiny_encoder):
    tokenizer = AutoTokenizer.from_pretrained(model_folder("bert"))
    model = AutoModelForMaskedLM.from_pretrained(model_folder("bert"))
    encoder = lamina.load_encoder((model, tokenizer))
    assert torch.equal(states(encoder), states(tiny_encoder("bert")))
    assert encoder.whole is model
    assert "already loaded" not in encoder.name
    assert "use model.to" in refusal((model, tokenizer), device="cpu")
    assert "in this order" in refusal((tokenizer, model), device=None)
    assert "got 3 parts" in refusal((model, tokenizer, 1), device=None)


def test_sharded_weights_are_the_same_model(model_folder, tiny_encoder, tmp_path):
    model = AutoModel.from_pretrained(model_folder("bert"))
    model.save_pretrained(tmp_path / "sharded", max_shard_size="20KB")
    AutoTokenizer.from_pretrained(model_folder("bert")).save_pretrained(tmp_path / "sharded")
    assert (tmp_path / "sharded" / "model.safetensors.index.json").is_file()
    assert lamina.load_encoder(str(tmp_path / "sharded"), device="cpu").fingerprint == tiny_encoder("bert").fingerprint


def test_a_half_precision_checkpoint_is_computed_in_float32(model_folder, tmp_path):
    half = shutil.copytree(model_folder("bert"), tmp_path / "half")
    rounded = shutil.copytree(model_folder("bert"), tmp_path / "rounded")
    weights = {name: weight.bfloat16() for name, weight in load_file(half / "model.safetensors").items()}
    save_file(weights, half / "model.safetensors", metadata={"format": "pt"})
    back = {name: weight.float() for name, weight in weights.items()}
    save_file(back, rounded / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((half / "config.json").read_text(encoding="utf-8"))
    (half / "config.json").write_text(json.dumps(config | {"dtype": "bfloat16"}), encoding="utf-8")
    one, other = (lamina.load_encoder(str(folder), device="cpu") for folder in (half, rounded))
    assert one.model.dtype == torch.float32
    assert one.fingerprint == other.fingerprint
    assert torch.equal(states(one), states(other))


def test_pickled_weights_are_read_without_running_code(model_folder, tiny_encoder, tmp_path):
    folder = shutil.copytree(model_folder("bert"), tmp_path / "pickled")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert lamina.load_encoder(str(folder), device="cpu").fingerprint == tiny_encoder("bert").fingerprint

    class Bomb:
        def __reduce__(self):
            return Path.touch, (tmp_path / "exploded",)

    torch.save({"embeddings.word_embeddings.weight": Bomb()}, folder / "pytorch_model.bin")
    assert "cannot be loaded as a model" in refusal(str(folder))
    assert not (tmp_path / "exploded").exists()


@pytest.fixture
def hub(model_folder, tmp_path, monkeypatch):
    """The hub's cache with two revisions of me/tiny, as a download leaves it."""
    repo = tmp_path / "hub" / "models--me--tiny"
    for revision, commit, architecture in (("main", "a" * 40, "bert"), ("step300", "b" * 40, "bert")):
        shutil.copytree(model_folder(architecture), repo / "snapshots" / commit)
        (repo / "refs").mkdir(exist_ok=True)
        (repo / "refs" / revision).write_text(commit)
    path = repo / "snapshots" / ("b" * 40) / "model.safetensors"
    weights = load_file(path)
    save_file({name: 1.1 * weight for name, weight in weights.items()}, path, metadata={"format": "pt"})
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    return path


def test_a_revision_is_loaded_named_and_kept_in_provenance(hub, tiny_encoder):
    main, early = (lamina.load_encoder(name, device="cpu") for name in ("me/tiny", "me/tiny@step300"))
    assert (main.name, early.name) == ("me/tiny", "me/tiny@step300")
    assert main.fingerprint == tiny_encoder("bert").fingerprint != early.fingerprint
    assert (main.describe()["commit"], early.describe()["commit"]) == ("a" * 40, "b" * 40)
    assert "there is no model 'me/tiny@step9' on this machine" in refusal("me/tiny@step9")
    assert lamina.load_series("me/tiny@step300,main").faults == ()
    # Each revision is compared with its own first download.
    hub.write_bytes((hub.parents[1] / ("a" * 40) / "model.safetensors").read_bytes())
    with pytest.raises(HashError, match=r"me/tiny@b{40}/model\.safetensors has sha256"):
        lamina.load_encoder("me/tiny@step300", device="cpu")


def hub_error(kind, said):
    response = httpx.Response(401, request=httpx.Request("GET", "https://huggingface.co/me/x"))
    made = kind(said, response=response)
    made.server_message = said
    return made


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            hub_error(errors.GatedRepoError, "Access to model me/x is restricted"),
            "me/x is gated (Access to model me/x is restricted); accept its licence at https://huggingface.co/me/x",
        ),
        (hub_error(errors.RepositoryNotFoundError, "Repository Not Found"), "log in with `hf auth login`"),
        (
            hub_error(errors.RevisionNotFoundError, "Invalid rev id: v9"),
            "me/x has no revision 'v9' (Invalid rev id: v9)",
        ),
        (
            errors.LocalEntryNotFoundError("no network"),
            "there is no model 'me/x@v9' on this machine, and the hub cannot be reached",
        ),
        (errors.OfflineModeIsEnabled("offline mode"), "unset HF_HUB_OFFLINE"),
    ],
    ids=["gated", "missing", "revision", "offline", "switched off"],
)
def test_the_hubs_own_reason_and_what_to_do(monkeypatch, error, said):
    def fail(*_, **__):
        raise error

    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr("transformers.utils.hub.hf_hub_download", fail)
    assert said in refusal("me/x@v9")


CODE = """
from transformers import BertConfig, BertModel
class OddConfig(BertConfig):
    model_type = "odd"
class OddModel(BertModel):
    config_class = OddConfig
"""


def test_remote_code_runs_only_if_asked_for_and_is_named(model_folder, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = shutil.copytree(model_folder("bert"), tmp_path / "odd")
    (folder / "modeling_odd.py").write_text(CODE)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8")) | {
        "model_type": "odd",
        "auto_map": {"AutoConfig": "modeling_odd.OddConfig", "AutoModel": "modeling_odd.OddModel"},
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    said = refusal(str(folder))
    assert "contains custom code" in said
    assert "--trust-remote-code" in said
    assert capfd.readouterr() == ("", "")
    encoder = lamina.load_encoder(str(folder), device="cpu", trust_remote_code=True)
    assert f"warning: running the code that comes with {folder} (--trust-remote-code)" in capfd.readouterr().err
    assert encoder.describe()["remote_code"] == str(folder)
    assert type(encoder.model).__name__ == "OddModel"
    # Without code of its own, there is nothing to warn of.
    plain = lamina.load_encoder(str(model_folder("bert")), device="cpu", trust_remote_code=True)
    assert "remote_code" not in plain.describe()
    assert capfd.readouterr().err == ""
