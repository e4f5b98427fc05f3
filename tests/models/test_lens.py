"""Every layer through a model's own head, for every architecture that has one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from lamina.errors import ModelError
from lamina.models.language.language_model import WrittenPassage, cut_passages, language_model, query_every_token
from lamina.models.language.lens import ending_of, layer_states, lens_logits
from lamina.models.loading import encoder_from
from lamina.models.running.anatomy import watch_blocks
from lamina.types import Text
from tests.language_models import HEADS, tiny_causal, tiny_language_model
from tests.models.tiny_models import ARCHITECTURES, SIZE

TEXT = Text("s1", ("the", "quick", "fox", "and", "the", "lazy", "dogs", "barked", "."))
POSITIONS = {"max_position_embeddings": 40}
MORE: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt_neox": ("gpt2", "AutoModelForCausalLM", {**SIZE, **POSITIONS}),
    "opt": (
        "gpt2",
        "AutoModelForCausalLM",
        {"hidden_size": 16, "num_hidden_layers": 3, "ffn_dim": 32, "num_attention_heads": 2, "word_embed_proj_dim": 16}
        | {**POSITIONS, "pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 2},
    ),
    "modernbert": (
        "bert",
        "AutoModelForMaskedLM",
        {**SIZE, **POSITIONS, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2}
        | {"sep_token_id": 3},
    ),
    # A cap on the logits belongs to the head.
    "gemma2": ("gpt2", "AutoModelForCausalLM", {**SIZE, **POSITIONS, "head_dim": 8, "num_key_value_heads": 1}),
}
"""Model type -> whose tokenizer it gets, the class with its head, its config."""
ENDINGS = {
    "gpt2": ("ln_f",),
    "llama": ("norm",),
    "gpt_neox": ("final_layer_norm",),
    "opt": ("decoder.final_layer_norm",),
    "modernbert": ("final_norm",),
    "gemma2": ("norm",),
}
"""What runs after the last block; nothing in all others."""


def encoder_of(name: str) -> Any:
    if name in HEADS:
        return tiny_language_model(name)
    tokenizer, head, settings = MORE[name]
    made = ARCHITECTURES[tokenizer].make_tokenizer()
    config = transformers.AutoConfig.for_model(name, vocab_size=len(made), **settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = getattr(transformers, head).from_config(config)
        for weight in model.parameters():
            weight.data += 0.2 * torch.randn_like(weight)
    return encoder_from(model, made, name=f"tiny {name}")


@pytest.mark.parametrize("name", [*HEADS, *MORE])
def test_the_last_layer_says_what_the_model_says_and_the_last_block_gets_there(name: str) -> None:
    encoder = encoder_of(name)
    model = language_model(encoder)
    assert ending_of(encoder).names == ENDINGS.get(name, ())
    inputs = encoder.inputs(encoder.rows(0, encoder.word_tokenizer(TEXT)))
    with torch.no_grad():
        own = encoder.whole(**inputs).logits[0].float()
        made = watch_blocks(encoder.model, {each: inputs[each] for each in inputs}).reads[-1].output
    states = next(iter(encoder.encode([TEXT]))).states
    last = encoder.layers - 1
    assert torch.allclose(lens_logits(model, states[:, last], last), own, atol=1e-5)
    # What the last block made is an inner layer's kind of state: through norm and head it says the same.
    assert made is not None
    assert torch.allclose(lens_logits(model, made[0], last - 1), own, atol=1e-5)


def test_an_inner_layer_of_gpt2_goes_through_the_final_norm() -> None:
    encoder = tiny_causal()
    whole: Any = encoder.whole
    states = next(iter(encoder.encode([TEXT]))).states
    assert states is not None
    with torch.no_grad():
        norm = torch.nn.functional.layer_norm(
            states[:, 1], (16,), whole.transformer.ln_f.weight, whole.transformer.ln_f.bias, eps=1e-5
        )
        expected = norm @ whole.lm_head.weight.T
    assert torch.allclose(lens_logits(language_model(encoder), states[:, 1], 1), expected, atol=1e-5)


def test_states_are_those_of_the_pieces_asked_for_and_of_the_last_block() -> None:
    encoder = tiny_causal()
    model = language_model(encoder)
    cut = cut_passages(model, [WrittenPassage.of(TEXT)])[0]
    _, wanted = query_every_token(model, [cut])
    ((numbers, states),) = layer_states(model, wanted, raw=True)
    assert numbers.tolist() == list(range(len(cut.tokens.ids) - 1))
    # The logarithm of each piece's probability, from transformers' own loss.
    ids = torch.from_numpy(cut.tokens.ids)[None]
    with torch.no_grad():
        loss = encoder.whole(input_ids=ids, labels=ids).loss  # type: ignore[misc]
    said = model.logits(states[:, -2]).log_softmax(-1)
    mine = -said[torch.arange(len(numbers)), torch.from_numpy(wanted.target)].mean()
    assert mine.item() == pytest.approx(loss.item(), abs=1e-5)
    assert torch.allclose(ending_of(encoder)(states[:, -1]), states[:, -2], atol=1e-5)


def test_a_model_that_ends_in_its_own_way_is_refused_in_words() -> None:
    class Doubled(transformers.GPT2Model):
        """Makes its last states outside of any module."""

        def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
            self, input_ids: Any = None, attention_mask: Any = None, **named: Any
        ) -> Any:
            out: Any = super().forward(input_ids=input_ids, attention_mask=attention_mask, **named)
            out.last_hidden_state = 2 * out.last_hidden_state
            return out

    tiny = ARCHITECTURES["gpt2"]
    tokenizer = tiny.make_tokenizer()
    config: Any = tiny.make_config(len(tokenizer))
    encoder: Any = encoder_from(Doubled(config), tokenizer, name="doubled")
    with pytest.raises(ModelError, match="what it does between its last block and its head is not known"):
        ending_of(encoder)
