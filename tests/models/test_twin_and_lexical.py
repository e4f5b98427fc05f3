"""Baselines made of a model: its random twin and its raw embeddings."""

from __future__ import annotations

import pytest
import torch

from lamina.errors import ModelError
from lamina.models.running.variants import LexicalFirst
from lamina.testing import SAMPLE_TEXTS, TinyEncoder, check_encoder

TEXTS = SAMPLE_TEXTS[:3]


def states(encoder) -> torch.Tensor:
    return torch.cat([made.states for made in encoder.encode(TEXTS)])


def test_the_same_seed_gives_the_same_twin(tiny_encoder):
    encoder = tiny_encoder("bert")
    one, again, other = (encoder.random_twin(seed) for seed in (1, 1, 2))
    assert one.fingerprint == again.fingerprint
    assert torch.equal(states(one), states(again))
    assert len({encoder.fingerprint, one.fingerprint, other.fingerprint}) == 3
    assert one.name == "bert (random)"
    assert encoder.random_twin(keep_embeddings=True).name == "bert (random, embeddings kept)"


def test_a_twin_keeps_the_contract_and_the_limit(tiny_encoder):
    for name in ("electra", "llama"):
        twin = tiny_encoder(name).random_twin()
        assert twin.limit == tiny_encoder(name).limit
        assert twin.causal == tiny_encoder(name).causal
        check_encoder(twin)


def test_nothing_is_kept_unless_asked(architecture, tiny_encoder):
    encoder = tiny_encoder(architecture)
    assert not torch.isclose(states(encoder.random_twin(3)), states(encoder), atol=1e-4).all(-1).any()


def test_kept_embeddings_are_layer_0_and_nothing_else(architecture, tiny_encoder):
    encoder = tiny_encoder(architecture)
    twin = encoder.random_twin(3, keep_embeddings=True)
    mine, theirs = states(twin), states(encoder)
    assert torch.equal(mine[:, 0], theirs[:, 0])
    assert not torch.isclose(mine[:, 1:], theirs[:, 1:], atol=1e-4).all(-1).any()
    kept = [
        key for key, value in twin.model.state_dict().items() if torch.equal(value, encoder.model.state_dict()[key])
    ]
    assert not [key for key in kept if any(part.isdigit() for part in key.split("."))]


def test_a_twin_leaves_the_random_state_and_the_model_alone(tiny_encoder):
    encoder = tiny_encoder("gpt2")
    before = states(encoder)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    twin = encoder.random_twin(1, keep_embeddings=True)
    assert torch.equal(torch.rand(3), expected)
    assert twin.model.config is not encoder.model.config
    assert torch.equal(states(encoder), before)


def test_lexical_vectors_are_rows_of_the_embedding_table(architecture, tiny_encoder):
    encoder = tiny_encoder(architecture)
    lexical = encoder.lexical()
    (made,) = lexical.encode(TEXTS[:1])
    table = encoder.model.get_input_embeddings().weight
    assert torch.equal(made.states[:, 0], table[made.tokens.ids.tolist()])
    assert (lexical.layers, lexical.heads, lexical.width) == (1, 0, table.shape[1])
    check_encoder(lexical)


@pytest.mark.parametrize("name", ["bert", "mpnet", "roberta", "distilbert", "electra", "albert", "deberta-v2"])
def test_lexical_vectors_with_their_layer_norm(name, tiny_encoder):
    encoder = tiny_encoder(name)
    (plain,), (normed,) = (encoder.lexical(layer_norm=asked).encode(TEXTS[:1]) for asked in (False, True))
    weights = encoder.model.state_dict()
    scale, shift = weights["embeddings.LayerNorm.weight"], weights["embeddings.LayerNorm.bias"]
    x = plain.states[:, 0]
    centred = x - x.mean(-1, keepdim=True)
    expected = centred / (centred.square().mean(-1, keepdim=True) + 1e-12).sqrt() * scale + shift
    torch.testing.assert_close(normed.states[:, 0], expected, atol=1e-4, rtol=1e-3)


def test_lexical_is_not_layer_0(tiny_encoder):
    for name, normed in (("bert", False), ("bert", True), ("gpt2", False)):
        encoder = tiny_encoder(name)
        (lexical,), (model,) = encoder.lexical(layer_norm=normed).encode(TEXTS[:1]), encoder.encode(TEXTS[:1])
        assert not torch.isclose(lexical.states[:, 0], model.states[:, 0], atol=1e-3).all(-1).any()


def test_what_lexical_cannot_do(tiny_encoder):
    for name in ("gpt2", "llama"):
        with pytest.raises(ModelError, match="no LayerNorm on its embeddings"):
            tiny_encoder(name).lexical(layer_norm=True)
    with pytest.raises(ModelError, match="no attention maps"):
        next(tiny_encoder("bert").lexical().encode(TEXTS, ("maps",)))
    with pytest.raises(ModelError, match="is meaningless"):
        tiny_encoder("bert").lexical().random_twin()


def test_lexical_fingerprints_tell_the_kinds_apart(tiny_encoder):
    encoder = tiny_encoder("bert")
    made = {encoder.fingerprint, encoder.lexical().fingerprint, encoder.lexical(layer_norm=True).fingerprint}
    assert len(made) == 3


def test_layer_0_can_be_the_lexical_vectors(tiny_encoder):
    encoder = tiny_encoder("bert")
    first = LexicalFirst(encoder)
    check_encoder(first)
    made, lexical = states(first), states(encoder.lexical(layer_norm=True))
    assert torch.equal(made[:, :1], lexical)
    torch.testing.assert_close(made[:, 1:], states(encoder)[:, 1:])
    assert first.fingerprint not in (encoder.fingerprint, first.random_twin().fingerprint)
    assert torch.equal(states(first.random_twin(keep_embeddings=True))[:, 0], made[:, 0])


@pytest.mark.parametrize(("name", "said"), [("electra", "8 wide, its layers 16"), ("gpt2", "no LayerNorm")])
def test_layer_0_stays_where_there_is_nothing_to_take_its_place(name, said, tiny_encoder):
    with pytest.raises(ModelError, match=said):
        LexicalFirst(tiny_encoder(name))
    with pytest.raises(ModelError, match="no token embeddings"):
        LexicalFirst(TinyEncoder())
