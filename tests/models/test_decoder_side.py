"""Both sides of an encoder-decoder: states, maps and words where they belong."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers

import lamina
from lamina.errors import ModelError
from lamina.models import SPECIAL
from lamina.models.checks.passports import examine
from lamina.testing import check_encoder
from lamina.types import Text

SIZES = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "eos_token_id": 3,
}
CONFIGS = {
    "t5": lambda size: transformers.T5Config(
        vocab_size=size, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_decoder_layers=3, num_heads=4,
        decoder_start_token_id=0,
    ),
    "bart": lambda size: transformers.BartConfig(vocab_size=size, decoder_start_token_id=2, bos_token_id=2, **SIZES),
    "marian": lambda size: transformers.MarianConfig(vocab_size=size, decoder_start_token_id=0, **SIZES),
    "pegasus": lambda size: transformers.PegasusConfig(vocab_size=size, decoder_start_token_id=0, **SIZES),
}  # fmt: skip
TEXTS = [Text("short", ("the", "dog")), Text("long", ("the", "lazy", "dog", "barked", "unhesitatingly"))]


@pytest.fixture(scope="module", params=sorted(CONFIGS))
def folder(request, model_folder, tmp_path_factory):
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder("albert"))
    torch.manual_seed(1)
    model = transformers.AutoModel.from_config(CONFIGS[request.param](len(tokenizer)))
    for weight in model.parameters():
        weight.data += 0.1 * torch.randn_like(weight)
    home = tmp_path_factory.mktemp(request.param) / "tiny"
    model.save_pretrained(home)
    tokenizer.save_pretrained(home)
    return home


def test_the_decoder_reads_what_transformers_gives_it_in_training(folder):
    encoder = lamina.load_encoder(f"{folder}:decoder", device="cpu")
    assert (encoder.name, encoder.blocks, encoder.heads, encoder.width) == ("tiny:decoder", 3, 4, 16)
    whole = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    start = torch.tensor([whole.config.decoder_start_token_id])
    for made, text in zip(encoder.encode(TEXTS, ("states", "maps")), TEXTS, strict=True):
        # By hand: the encoder reads the text with what closes it; the decoder one token behind, without it.
        read = torch.tensor(whole_ids(folder, text))
        shifted = torch.cat([start, read[:-1]])
        assert made.tokens.ids.tolist() == shifted.tolist()
        with torch.no_grad():
            out = whole(
                input_ids=read[None],
                decoder_input_ids=shifted[None],
                output_hidden_states=True,
                output_attentions=True,
            )
        expected = torch.stack([layer[0] for layer in out.decoder_hidden_states], 1)
        assert torch.allclose(made.states, expected, atol=1e-5)
        assert torch.allclose(made.maps, torch.stack([block[0] for block in out.decoder_attentions]), atol=1e-5)
        # The state of a word is that of the position where it is read, not where it is predicted.
        pieces = [encoder.joined_ids([word]) for word in text.words]
        for word, ids in enumerate(pieces):
            assert made.tokens.ids[made.tokens.words == word].tolist() == ids


def whole_ids(folder, text):
    return transformers.AutoTokenizer.from_pretrained(folder)(" ".join(text.words))["input_ids"]


def test_it_looks_back_but_knows_the_whole_text(folder):
    encoder = lamina.load_encoder(f"{folder}:decoder", device="cpu")
    assert (encoder.causal, encoder.causal_maps) == (False, True)
    one, other = encoder.encode([Text("a", ("the", "dog", "barked")), Text("b", ("the", "dog", "cats"))], ("states",))
    first = np.flatnonzero(one.tokens.words == 0)
    assert not torch.allclose(one.states[first, -1], other.states[first, -1], atol=1e-4)
    (made,) = encoder.encode(TEXTS[1:], ("maps",))
    assert made.maps.triu(1).abs().max() == 0


def test_both_sides_keep_the_contract(folder):
    sides = [lamina.load_encoder(f"{folder}{side}", device="cpu") for side in ("", ":encoder", ":decoder")]
    for encoder in sides[1:]:
        check_encoder(encoder)
        assert examine(encoder).failed == ()
    assert sides[0].fingerprint == sides[1].fingerprint != sides[2].fingerprint
    assert sides[2].tokenize(TEXTS[0]).words[0] == SPECIAL
    twin = sides[2].random_twin(1)
    assert twin.fingerprint != sides[2].fingerprint
    assert twin.blocks == 3


def test_only_an_encoder_decoder_has_sides(model_folder, folder):
    with pytest.raises(ModelError, match="is not an encoder-decoder, so it has no sides; leave out :decoder"):
        lamina.load_encoder(f"{model_folder('gpt2')}:decoder", device="cpu")
    with pytest.raises(ModelError, match="leave out --chat or :decoder"):
        lamina.load_encoder(f"{folder}:decoder", device="cpu", chat=True)
