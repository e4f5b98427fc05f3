"""Norm-weighted attention: against the formula written out, for every architecture; what cannot be found is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel

from lamina.errors import ModelError
from lamina.models.running.attention_maps import ValueNorms, weigh_by_norm
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.running.variants import DropoutEncoder
from lamina.testing import SAMPLE_TEXTS, TinyEncoder, check_encoder
from lamina.training.heads import WindowedEncoder
from lamina.types import Text

SIZE = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
TEXT = Text("t", ("The", "quick", "fox", "jumps", ",", "the", "dog", "barked", "."))


class Parts(NamedTuple):
    """Of one block, as its authors named them."""

    values: Any
    """The layer that makes the values ..."""
    out: Any
    """... and the one that mixes the heads."""
    cut: Callable[[Tensor], Tensor] = lambda made: made
    """The values of what that layer makes."""


def of_bert(model: Any, block: int) -> Parts:
    layer = model.encoder.layer[block].attention
    return Parts(layer.self.value, layer.output.dense)


def of_deberta(model: Any, block: int) -> Parts:
    layer = model.encoder.layer[block].attention
    return Parts(layer.self.value_proj, layer.output.dense)


def of_mpnet(model: Any, block: int) -> Parts:
    layer = model.encoder.layer[block].attention.attn
    return Parts(layer.v, layer.o)


def of_distilbert(model: Any, block: int) -> Parts:
    layer = model.transformer.layer[block].attention
    return Parts(layer.v_lin, layer.out_lin)


def of_albert(model: Any, block: int) -> Parts:
    layer = model.encoder.albert_layer_groups[0].albert_layers[0].attention
    return Parts(layer.value, layer.dense)


def of_gpt2(model: Any, block: int) -> Parts:
    layer = model.h[block].attn
    return Parts(layer.c_attn, layer.c_proj, lambda made: made.chunk(3, -1)[2])


def of_llama(model: Any, block: int) -> Parts:
    layer = model.layers[block].self_attn
    return Parts(layer.v_proj, layer.o_proj)


def of_neox(model: Any, block: int) -> Parts:
    layer = model.layers[block].attention
    heads = model.config.num_attention_heads
    return Parts(
        layer.query_key_value, layer.dense, lambda made: made.unflatten(-1, (heads, -1)).chunk(3, -1)[2].flatten(-2)
    )


def of_phi3(model: Any, block: int) -> Parts:
    layer = model.layers[block].self_attn
    kept = model.config.num_key_value_heads * model.config.head_dim
    return Parts(layer.qkv_proj, layer.o_proj, lambda made: made[..., -kept:])


def of_t5(model: Any, block: int) -> Parts:
    layer = model.block[block].layer[0].SelfAttention
    return Parts(layer.v, layer.o)


def of_opt(model: Any, block: int) -> Parts:
    layer = model.decoder.layers[block].self_attn
    return Parts(layer.v_proj, layer.out_proj)


def of_bart(model: Any, block: int) -> Parts:
    layer = model.layers[block].self_attn
    return Parts(layer.v_proj, layer.out_proj)


def of_bloom(model: Any, block: int) -> Parts:
    layer = model.h[block].self_attention
    return Parts(layer.query_key_value, layer.dense, lambda made: made.unflatten(-1, (4, 3, -1))[..., 2, :].flatten(-2))


def of_modernbert(model: Any, block: int) -> Parts:
    layer = model.layers[block].attn
    return Parts(layer.Wqkv, layer.Wo, lambda made: made.chunk(3, -1)[2])


def of_falcon(model: Any, block: int) -> Parts:
    layer = model.h[block].self_attention
    # One value for all heads, after the queries of every head and the one key.
    return Parts(layer.query_key_value, layer.dense, lambda made: made[..., -6:])


SAVED = {
    "bert": of_bert, "roberta": of_bert, "electra": of_bert, "albert": of_albert, "mpnet": of_mpnet,
    "distilbert": of_distilbert, "deberta-v2": of_deberta, "gpt2": of_gpt2, "llama": of_llama,
}  # fmt: skip
"""Architectures with a tokenizer -> their parts."""

SPECIAL_TOKENS = ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
GROUPED = {**SIZE, "vocab_size": 50, "num_key_value_heads": 2, "pad_token_id": 0}
FURTHER: dict[str, tuple[Callable[[], Any], Callable[[Any, int], Parts]]] = {
    "llama, grouped": (lambda: transformers.LlamaConfig(**GROUPED), of_llama),
    "mistral": (lambda: transformers.MistralConfig(**GROUPED), of_llama),
    "qwen2": (lambda: transformers.Qwen2Config(**GROUPED), of_llama),
    "qwen3, wide heads": (lambda: transformers.Qwen3Config(**GROUPED, head_dim=16), of_llama),
    "phi3": (lambda: transformers.Phi3Config(**GROUPED, head_dim=6), of_phi3),
    "gpt-neox": (lambda: transformers.GPTNeoXConfig(**SIZE, vocab_size=50), of_neox),
    "gemma, one value for all heads": (
        lambda: transformers.GemmaConfig(**GROUPED | {"num_key_value_heads": 1}, head_dim=8),
        of_llama,
    ),
    "falcon": (lambda: transformers.FalconConfig(**SIZE, vocab_size=50), of_falcon),
    "opt": (
        lambda: transformers.OPTConfig(**SIZE, vocab_size=50, ffn_dim=32, word_embed_proj_dim=24),
        of_opt,
    ),
    "bloom": (lambda: transformers.BloomConfig(hidden_size=24, n_layer=2, n_head=4, vocab_size=50), of_bloom),
    "modernbert": (
        lambda: transformers.ModernBertConfig(**SIZE, vocab_size=50, **dict.fromkeys(SPECIAL_TOKENS, 0)),
        of_modernbert,
    ),
    "bart": (
        lambda: transformers.BartConfig(
            vocab_size=50,
            d_model=24,
            encoder_layers=2,
            encoder_attention_heads=4,
            encoder_ffn_dim=32,
            decoder_layers=1,
            decoder_attention_heads=4,
            decoder_ffn_dim=32,
        ),
        of_bart,
    ),
    "t5": (
        lambda: transformers.T5Config(vocab_size=50, d_model=24, d_kv=8, d_ff=32, num_layers=2, num_heads=4),
        of_t5,
    ),
}
"""Architectures -> their config and parts."""


def built(config: Any) -> PreTrainedModel:
    torch.manual_seed(3)
    config._attn_implementation = "eager"
    model = transformers.AutoModel.from_config(config)
    if config.is_encoder_decoder:
        model = model.get_encoder()
    for weight in model.parameters():
        weight.data += 0.2 * torch.randn_like(weight)
    return model.eval()


class Block(NamedTuple):
    vectors: Tensor
    """[head, from, to, width] What each token brings into each other, written out."""
    output: Tensor
    """[token, width] What the output projection made, less its bias."""


def written_out(model: PreTrainedModel, parts_of: Callable[[Any, int], Parts], **inputs: Tensor) -> list[Block]:
    """The formula, with every vector in memory, from the parts by name."""
    heads, blocks = model.config.num_attention_heads, model.config.num_hidden_layers
    made: dict[tuple[int, str], list[Tensor]] = {}
    for block in range(blocks):
        for name in ("values", "out"):
            layer = getattr(parts_of(model, block), name)
            key = (id(layer), name)
            if key not in made:
                made[key] = []
                layer.register_forward_hook(lambda _layer, _given, out, to=made[key]: to.append(out[0]))
    with torch.no_grad():
        attentions = model(**inputs, output_attentions=True).attentions
    found = []
    for block in range(blocks):
        values, out, cut = parts_of(model, block)
        each = cut(made[id(values), "values"].pop(0)).unflatten(-1, (-1, values_size(out, heads)))
        each = each.repeat_interleave(heads // each.shape[1], 1)
        weight = out.weight if "Conv1D" in type(out).__name__ else out.weight.T
        vectors = torch.stack([
            attentions[block][0, h, :, :, None] * (each[:, h] @ weight.unflatten(0, (heads, -1))[h])[None]
            for h in range(heads)
        ])  # fmt: skip
        bias = 0 if getattr(out, "bias", None) is None else out.bias
        found.append(Block(vectors.detach(), made[id(out), "out"].pop(0) - bias))
    return found


def values_size(out: Any, heads: int) -> int:
    return (out.weight.shape[0] if "Conv1D" in type(out).__name__ else out.weight.shape[1]) // heads


def check(blocks: list[Block], maps: Tensor, norms: Tensor) -> None:
    weighed = weigh_by_norm(maps, norms)
    for at, (vectors, output) in enumerate(blocks):
        # All vectors together are what attention adds: the formula is the model's own.
        torch.testing.assert_close(vectors.sum((0, 2)), output, rtol=1e-4, atol=1e-5)
        expected = vectors.norm(dim=-1)
        torch.testing.assert_close(maps[at] * norms[at][:, None], expected, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(weighed[at], expected / expected.sum(-1, keepdim=True), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", SAVED)
def test_norms_are_those_of_the_formula(name, tiny_encoder, model_folder):
    direct = transformers.AutoModel.from_pretrained(model_folder(name), attn_implementation="eager").eval()
    inputs = tiny_encoder(name).tokenizer(" ".join(TEXT.words), return_tensors="pt")
    # In a batch with others, so that padding is on its way too.
    found = {made.text: made for made in tiny_encoder(name).encode([*SAMPLE_TEXTS, TEXT], ("maps", "norms"))}["t"]
    assert found.states is None
    check(written_out(direct, SAVED[name], **inputs), found.maps, found.norms)


@pytest.mark.parametrize("name", FURTHER)
def test_parts_are_found_in_other_architectures(name):
    config, parts_of = FURTHER[name]
    model = built(config())
    ids = torch.tensor([[5, 17, 3, 9, 22, 41, 8]])
    norms = ValueNorms(model, name=name, heads=4)
    with torch.no_grad(), norms.taken() as taken:
        out = model(input_ids=ids, output_attentions=True)
    maps = torch.stack([block[0] for block in out.attentions])
    check(written_out(model, parts_of, input_ids=ids), maps, torch.stack([block[0] for block in taken]))


def test_the_contract_covers_norms(architecture, tiny_encoder):
    check_encoder(tiny_encoder(architecture))


def test_a_model_that_runs_without_norms_is_left_as_it_was(tiny_encoder):
    encoder = tiny_encoder("bert")
    (before,) = encoder.encode([TEXT], ("states", "maps"))
    # transformers has hooks of its own.
    hooks = [len(layer._forward_hooks) for layer in encoder.model.modules()]
    next(encoder.encode([TEXT], ("states", "maps", "norms")))
    (after,) = encoder.encode([TEXT], ("states", "maps"))
    assert after.norms is None
    assert torch.equal(before.states, after.states)
    assert [len(layer._forward_hooks) for layer in encoder.model.modules()] == hooks


def test_a_long_text_has_no_norms(tiny_encoder):
    (made,) = tiny_encoder("bert").encode([Text("long", TEXT.words * 8)], ("states", "maps", "norms"))
    assert made.windows > 1
    assert made.maps is None
    assert made.norms is None


def test_the_tiny_encoder_weighs_by_the_formula():
    encoder = TinyEncoder(blocks=1)
    (made,) = encoder.encode([TEXT], ("states", "maps", "norms"))
    _, _, value, out = encoder._weights[0]
    for head in range(2):
        part = slice(8 * head, 8 * head + 8)
        vectors = made.maps[0, head][..., None] * (made.states[:, 0] @ value[:, part] @ out[part])
        torch.testing.assert_close(vectors.norm(dim=-1), made.maps[0, head] * made.norms[0, head])


def test_variants_weigh_too_or_say_why_not(tiny_encoder):
    base = tiny_encoder("bert")
    check_encoder(base.random_twin())
    (windowed,) = WindowedEncoder(base, 1).encode([TEXT], ("maps", "norms"))
    assert windowed.norms.shape == windowed.maps.shape[:3]
    for variant in (base.lexical(), DropoutEncoder(base)):
        with pytest.raises(ModelError, match="no attention maps"):
            next(variant.encode([TEXT], ("norms",)))


class Unusual(torch.nn.Module):
    """Values out of something that is no linear layer."""

    def forward(self, given: Tensor) -> Tensor:
        return given.sin()


def test_an_architecture_whose_values_are_not_found_is_refused_in_a_sentence(model_folder):
    from transformers import AutoModel, AutoTokenizer

    folder = model_folder("bert")
    model = AutoModel.from_pretrained(folder)
    model.encoder.layer[1].attention.self.value = Unusual()
    encoder = HuggingFaceEncoder(model, AutoTokenizer.from_pretrained(folder), name="odd")
    with pytest.raises(ModelError, match=r"odd \(BertModel\): the values .* of block 2 .* use --weights attention"):
        next(encoder.encode([TEXT], ("maps", "norms")))
