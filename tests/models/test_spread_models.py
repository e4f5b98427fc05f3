"""Models spread over cards, memory and disk: the numbers and the fingerprint of the whole ones, or a clear refusal."""

from __future__ import annotations

import gc
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file

import lamina
from lamina.errors import ModelError
from lamina.files.checking import cache_dir
from lamina.models.checks.passports import examine
from lamina.models.interventions.edited_runs import HeadLoss
from lamina.models.running import devices as placement
from lamina.models.running.devices import cpu_multiplies, is_spread, running_devices
from lamina.models.running.variants import DropoutEncoder
from lamina.testing import check_encoder
from lamina.training.heads import load_with_head
from lamina.types import Text

TEXTS = [Text("short", ("the", "dog")), Text("long", ("the", "lazy", "dog", "barked", "unhesitatingly"))]
PARTS = {"embeddings": "cpu", "encoder.layer.0": "cpu", "encoder.layer.1": "disk", "encoder.layer.2": "cpu"}
PARTS |= {"pooler": "disk"}


@pytest.fixture
def little_memory(monkeypatch):
    """Memory that holds the embeddings of a tiny model, and hardly more."""
    monkeypatch.setattr(placement, "allowed_memory", lambda: {"cpu": 20_000})


@pytest.fixture(scope="module")
def spread(model_folder):
    """The tiny BERT with a block on disk."""
    return lamina.load_encoder(str(model_folder("bert")), device=PARTS)


def assert_same(one, other) -> None:
    assert one.fingerprint == other.fingerprint
    for made, expected in zip(
        one.encode(TEXTS, ("states", "maps")), other.encode(TEXTS, ("states", "maps")), strict=True
    ):
        torch.testing.assert_close(made.states, expected.states)
        torch.testing.assert_close(made.maps, expected.maps)


def test_a_spread_model_is_the_whole_one(spread, tiny_encoder):
    assert is_spread(spread.model)
    assert {each.device.type for each in spread.model.parameters()} == {"cpu", "meta"}
    assert running_devices(spread.model) == ["cpu"]
    assert_same(spread, tiny_encoder("bert"))
    check_encoder(spread)
    passport = examine(spread)
    assert not passport.failed
    assert set(passport.ablatable) == set(examine(tiny_encoder("bert")).ablatable)
    norms, expected = (next(iter(each.encode(TEXTS, ("norms",)))).norms for each in (spread, tiny_encoder("bert")))
    torch.testing.assert_close(norms, expected)


@pytest.mark.skipif(not cpu_multiplies("bfloat16"), reason="this CPU does not multiply in bfloat16")
def test_the_contract_holds_in_bfloat16(model_folder):
    encoder = lamina.load_encoder(str(model_folder("bert")), device=PARTS, dtype="bfloat16")
    assert encoder.dtype == torch.bfloat16
    check_encoder(encoder)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_what_does_not_fit_memory_stays_on_disk(name, model_folder, tiny_encoder, little_memory):
    encoder = lamina.load_encoder(str(model_folder(name)), device="auto")
    assert is_spread(encoder.model)
    assert encoder.device.type == "cpu"
    assert_same(encoder, tiny_encoder(name))


def test_a_model_that_fits_is_not_spread(model_folder, tiny_encoder, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    encoder = lamina.load_encoder(str(model_folder("bert")), device="auto")
    assert not is_spread(encoder.model)
    assert encoder.fingerprint == tiny_encoder("bert").fingerprint


def test_weights_that_are_written_to_disk_go_with_the_model(model_folder, tiny_encoder, tmp_path, monkeypatch):
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    # Not safetensors: these cannot be read where they are.
    folder = shutil.copytree(model_folder("bert"), tmp_path / "pickled")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    encoder = lamina.load_encoder(str(folder), device={"": "disk"})
    (written,) = (cache_dir() / "offload").iterdir()
    assert any(written.iterdir())
    assert_same(encoder, tiny_encoder("bert"))
    del encoder
    gc.collect()
    assert not written.exists()


def test_the_twin_of_a_spread_model_is_the_twin_of_the_whole_one(spread, tiny_encoder):
    twin = spread.random_twin(3, keep_embeddings=True)
    assert twin.fingerprint == tiny_encoder("bert").random_twin(3, keep_embeddings=True).fingerprint


def test_a_span_head_is_spread_with_its_body(model_folder, tmp_path, little_memory):
    config = transformers.AutoConfig.from_pretrained(model_folder("bert"))
    transformers.BertForQuestionAnswering(config).save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(model_folder("bert")).save_pretrained(tmp_path)
    one, other = (lamina.load_encoder(str(tmp_path), device=device) for device in ("auto", "cpu"))
    assert is_spread(one.model)
    assert_same(one, other)
    ids = torch.tensor([[2, 7, 8, 9, 3]])
    torch.testing.assert_close(one.span_model(ids).start_logits, other.span_model(ids).start_logits)


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (DropoutEncoder, "dropout needs it on one"),
        (HeadLoss, "gradients need it on one"),
        (lambda encoder: load_with_head(encoder, None, seed=0), "fine-tuning needs it on one"),
    ],
    ids=["dropout", "gradients", "fine-tuning"],
)
def test_what_needs_one_device_is_refused(spread, use, said):
    with pytest.raises(ModelError, match=said) as caught:
        use(spread)
    assert "use --device cpu or cuda" in str(caught.value)


def test_a_model_that_reads_weights_of_others_is_refused_where_these_are_on_disk(model_folder, little_memory):
    with pytest.raises(ModelError, match="cannot run with parts of it kept in memory or on disk"):
        lamina.load_encoder(str(model_folder("deberta-v2")), device="auto")


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({}, "names no part of the model"),
        ({"head": "cpu"}, "BertModel has no part 'head'; it consists of embeddings, encoder, pooler"),
        ({"embeddings": "cpu", "encoder": "disk"}, "does not give any device for the following parameters: pooler"),
        ({"": "auto"}, "'auto' is for a whole model"),
        ({"": "gpu"}, "'gpu' is not a device of this machine"),
    ],
    ids=["none", "unknown", "incomplete", "auto", "no-device"],
)
def test_parts_and_devices_that_there_are_not(model_folder, parts, said):
    with pytest.raises(ModelError, match=said):
        lamina.load_encoder(str(model_folder("bert")), device=parts)


@pytest.mark.parametrize(
    ("dtype", "fix"), [("float32", "--dtype bfloat16 (18 KiB), or --device auto"), ("float16", "--device auto")]
)
def test_a_model_larger_than_the_memory_is_refused_before_it_is_read(model_folder, monkeypatch, dtype, fix):
    monkeypatch.setattr(placement, "free_in_memory", lambda: 10_000)
    monkeypatch.setattr("lamina.models.loading.read_weights", lambda *_, **__: pytest.fail("weights were read"))
    monkeypatch.setattr("lamina.models.running.devices.cpu_multiplies", lambda _: True)
    with pytest.raises(ModelError) as caught:
        lamina.load_encoder(str(model_folder("bert")), device="cpu", dtype=dtype)
    assert f"KiB in {dtype}, 9.8 KiB are free in memory; use {fix}" in str(caught.value)


def test_a_model_that_was_never_loaded_says_so(model_folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder("bert"))
    with torch.device("meta"):
        model = transformers.AutoModel.from_config(transformers.AutoConfig.from_pretrained(model_folder("bert")))
    with pytest.raises(ModelError, match="was never loaded"):
        lamina.load_encoder((model, tokenizer))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_model_over_memory_and_card(model_folder):
    """Blocks in memory are copied to the card when their turn comes."""
    where = {"embeddings": 0, "encoder.layer.0": 0, "encoder.layer.1": "cpu", "encoder.layer.2": "disk", "pooler": 0}
    encoder = lamina.load_encoder(str(model_folder("bert")), device=where)
    whole = lamina.load_encoder(str(model_folder("bert")), device="cuda")
    assert running_devices(encoder.model) == ["cuda"]
    assert_same(encoder, whole)
    check_encoder(encoder)
