"""Which weights belong to which layer: with those of layers 0 to l exchanged, layer l is that of the other model."""

from __future__ import annotations

import pytest
import torch

from lamina.errors import ModelError
from lamina.models import load_encoder
from lamina.models.contract import apart
from lamina.models.interventions.pruned import exchanged, layer_weights, refuse_unlike, weights_of
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.types import Text

TEXT = Text("a", ("the", "quick", "brown", "fox", "jumps"))


def loaded(folder: object) -> HuggingFaceEncoder:
    encoder = load_encoder(str(folder), device="cpu")
    assert isinstance(encoder, HuggingFaceEncoder)
    return encoder


def states(encoder: HuggingFaceEncoder) -> torch.Tensor:
    (made,) = encoder.encode([TEXT])
    assert made.states is not None
    return made.states


@pytest.mark.parametrize("name", ["bert", "mpnet", "distilbert", "deberta-v2", "gpt2", "llama"])
def test_with_all_weights_below_a_layer_is_the_other_models(model_folder, name: str) -> None:
    encoder = loaded(model_folder(name))
    twin = encoder.random_twin(3)
    layers = layer_weights(encoder)
    named = [each for own in layers for each in own]
    assert sorted(named) == sorted(name for name, _ in encoder.model.named_parameters())
    wanted, before = states(encoder), states(twin)
    for layer in range(encoder.layers):
        below = [each for own in layers[: layer + 1] for each in own]
        with exchanged(twin.model, weights_of(encoder, below)):
            changed = states(twin)
            # Whatever is above is still the twin's.
            assert layer == encoder.blocks or apart(changed[:, -1], wanted[:, -1]) > 1e-3
        assert apart(changed[:, layer], wanted[:, layer]) < 1e-5, layer
    assert torch.equal(states(twin), before), "its own weights are back"


def test_a_norm_after_the_last_block_belongs_to_the_last_layer(model_folder) -> None:
    layers = layer_weights(loaded(model_folder("gpt2")))
    assert {"ln_f.weight", "ln_f.bias"} <= set(layers[-1])
    assert {name.partition(".")[0] for name in layers[0]} == {"wte", "wpe"}


def test_weights_that_all_blocks_use_are_put_back_with_the_embeddings(model_folder) -> None:
    assert "encoder.relative_attention_bias.weight" in layer_weights(loaded(model_folder("mpnet")))[0]


def test_blocks_that_share_their_weights_are_refused(model_folder) -> None:
    with pytest.raises(ModelError, match="its blocks share their weights"):
        layer_weights(loaded(model_folder("albert")))


def test_another_architecture_is_said_in_words(model_folder) -> None:
    one, other = loaded(model_folder("bert")), loaded(model_folder("gpt2"))
    with pytest.raises(ModelError, match=r"different architectures: layer 0 of the first has the weight .* has none"):
        refuse_unlike(one, other, layer_weights(one))
