"""Language models: head and body apart say what transformers says; models without a head are refused in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerFast

import lamina
from lamina.errors import ModelError
from lamina.models.language.language_model import has_language_model, language_model
from lamina.models.running.anatomy import last_mixer
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.testing import TinyEncoder
from lamina.types import Text
from tests.language_models import HEADS, tiny_causal, tiny_language_model, tiny_masked
from tests.models.tiny_models import build

TEXT = Text("t", ("The", "quick", "dogs", "barked", ",", "and", "the", "cats", "sat", "."))


@pytest.mark.parametrize("name", HEADS)
def test_head_on_last_layer_is_what_the_model_says(name: str) -> None:
    encoder = tiny_language_model(name)
    model = language_model(encoder)
    states = next(iter(encoder.encode([TEXT]))).states
    assert states is not None
    assert encoder.whole is not None
    ids = torch.from_numpy(encoder.tokenize(TEXT).ids).long()[None]
    with torch.no_grad():
        expected = encoder.whole(input_ids=ids).logits[0]
    torch.testing.assert_close(model.logits(states[:, -1]), expected.float(), atol=1e-5, rtol=1e-5)
    assert model.vocabulary == expected.shape[-1]


def test_head_is_loaded_from_a_folder_and_shares_the_weights_of_the_encoder(tmp_path: Path) -> None:
    whole = tiny_masked().whole
    assert whole is not None
    whole.save_pretrained(tmp_path)
    tiny_masked().tokenizer.save_pretrained(tmp_path)
    encoder = lamina.load_encoder(str(tmp_path))
    assert isinstance(encoder, HuggingFaceEncoder)
    assert has_language_model(encoder)
    model = language_model(encoder)
    assert language_model(encoder) is model
    tied = encoder.model.get_input_embeddings().weight
    assert any(each is tied for each in model._head.parameters())
    assert model.fingerprint == language_model(lamina.load_encoder(str(tmp_path))).fingerprint


def test_a_model_in_memory_is_not_changed() -> None:
    encoder = tiny_causal()
    whole = encoder.whole
    assert whole is not None
    ids = torch.arange(6)[None]
    with torch.no_grad():
        before = whole(input_ids=ids).logits
        language_model(encoder)
        assert torch.equal(whole(input_ids=ids).logits, before)


def test_fingerprint_knows_the_head() -> None:
    one, other = tiny_masked(), tiny_masked()
    assert language_model(one).fingerprint == language_model(other).fingerprint
    changed = tiny_masked()
    whole: Any = changed.whole
    whole.cls.predictions.transform.dense.bias.data += 1
    assert changed.fingerprint == one.fingerprint
    assert language_model(changed).fingerprint != language_model(one).fingerprint


def test_twin_has_other_weights_and_the_same_ones_each_time() -> None:
    model = language_model(tiny_masked())
    twin = model.random_twin(3)
    states = torch.randn(4, model.encoder.width, generator=torch.Generator().manual_seed(0))
    assert twin.fingerprint == model.random_twin(3).fingerprint
    assert twin.fingerprint not in (model.fingerprint, model.random_twin(4).fingerprint)
    torch.testing.assert_close(twin.logits(states), model.random_twin(3).logits(states))
    assert (twin.kind, twin.vocabulary) == (model.kind, model.vocabulary)


def test_models_without_a_head_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="has no language-model head; these have: smollm2"):
        language_model(TinyEncoder())
    bare = lamina.load_encoder(str(build("bert", tmp_path / "bare")))
    with pytest.raises(ModelError, match="was saved as BertModel: it has no language-model head"):
        language_model(bare)
    sentences = build("mpnet", tmp_path / "sentences")
    # As sentence-transformers save: the class of the model they began with, without its head.
    config = json.loads((sentences / "config.json").read_text())
    (sentences / "config.json").write_text(json.dumps(config | {"architectures": ["MPNetForMaskedLM"]}))
    (sentences / "modules.json").write_text("[]")
    encoder = lamina.load_encoder(str(sentences))
    assert not has_language_model(encoder)
    with pytest.raises(ModelError, match="is a sentence encoder: it has no language-model head"):
        language_model(encoder)


def test_a_head_that_is_missing_from_the_checkpoint_is_not_made_up(tmp_path: Path) -> None:
    folder = build("distilbert", tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["DistilBertForMaskedLM"]}))
    with pytest.raises(ModelError, match="weights of its head are not in the checkpoint"):
        language_model(lamina.load_encoder(str(folder)))


def test_a_causal_model_without_any_special_token_is_refused() -> None:
    encoder = tiny_causal()
    known = encoder.tokenizer.get_vocab()
    plain = PreTrainedTokenizerFast(tokenizer_object=encoder.tokenizer.backend_tokenizer)
    plain.get_vocab = lambda: {piece: number for piece, number in known.items() if piece != "<|endoftext|>"}
    encoder.tokenizer = plain
    with pytest.raises(ModelError, match="no token that begins a text"):
        language_model(encoder)


def test_the_mark_of_a_turn_does_not_begin_a_text() -> None:
    encoder = tiny_causal()
    tokenizer = encoder.tokenizer
    tokenizer.add_special_tokens({"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"})
    tokenizer.chat_template = "<|im_start|>user {{ messages[0].content }}<|im_end|>"
    assert language_model(encoder).describe()["text_begins_with"] == "<|endoftext|>"


@pytest.mark.parametrize(
    ("name", "mixes"),
    [("bert", "BertAttention"), ("roberta", "RobertaAttention"), ("distilbert", "LayerNorm"), ("albert", "NoneType")],
)
def test_the_last_block_is_run_where_it_is_asked(name: str, mixes: str) -> None:
    encoder = tiny_language_model(name)
    assert type(last_mixer(encoder.model, encoder.trial_ids)).__name__ == mixes
    rows = [row for text in (TEXT, Text("u", TEXT.words[:4])) for row in encoder.rows(0, encoder.word_tokenizer(text))]
    whole = encoder.last(rows)
    places = torch.tensor([5, 2])
    torch.testing.assert_close(encoder.last(rows, places)[:, 0], whole[torch.arange(2), places], atol=1e-5, rtol=1e-5)
