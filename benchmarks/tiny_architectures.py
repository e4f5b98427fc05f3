"""Every text architecture of transformers, small: a few thousand random weights and a tokenizer of a hundred words.

Sizes are found by the names that configs give them, so that architectures that are not listed here are built as well.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

BLOCKS = 2
WIDTH = 32
HEADS = 4
GROUPS = 2
"""Heads of keys and values, where queries share them."""
POSITIONS = 64
VOCABULARY = 128
_MOST = 30_000_000
"""Weights; a model that is larger was not shrunk by the names below."""
_SECTIONS = [2, 1, 1]
"""Positions in time, height and width share half of a head."""
_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_WORDS = """
the cat dog bark sat on mat quick brown fox jump over lazy un hesitat who did and far run away from near river bank
where old king slept while rain fell all night long
"""

_SIZES: tuple[tuple[str, int], ...] = (
    (r"^(num_hidden_layers|n_layers?|num_layers|(encoder|decoder)_layers|num_(encoder|decoder)_layers)$", BLOCKS),
    (r"^(num_attention_heads|n_heads?|num_heads|(encoder|decoder)_(attention|attn)_heads|num_attn_heads)$", HEADS),
    (r"^(num_key_value_heads|num_kv_heads|n_kv_heads|(encoder|decoder)_num_key_value_heads)$", GROUPS),
    (r"^(hidden_size|d_model|n_embd|dim|d_hidden|emb_dim|embed_dim|hidden_dim_model|attention_hidden_size)$", WIDTH),
    (r"^(head_dim|d_kv|attention_head_size|kv_channels|head_size|d_head|global_head_dim)$", WIDTH // HEADS),
    (r"^(qk_nope_head_dim|qk_rope_head_dim|v_head_dim)$", WIDTH // HEADS),
    (r"^qk_head_dim$", 2 * WIDTH // HEADS),
    (r"(intermediate_size|ffn_dim|^d_ff|^n_inner|inner_dim|^ffn_hidden_size|_size_mlp|dense_ffn)", 2 * WIDTH),
    (r"^(embedding_size|word_embed_proj_dim|input_embedding_size)$", WIDTH),
    (r"^(max_position_embeddings|n_positions|n_ctx|max_seq_len|max_sequence_length|context_length)$", POSITIONS),
    (r"^(q_lora_rank|kv_lora_rank|o_lora_rank|index_head_dim)$", WIDTH // 2),
    (r"(num_experts|n_routed_experts|num_local_experts|moe_num_experts|expert_num)$", 4),
    (r"(num_experts_per_tok|num_experts_per_token|top_k|moe_k|topk)$", 2),
    (r"(n_shared_experts|num_shared_experts|n_group|topk_group|first_k_dense_replace|num_zero_experts)$", 1),
    (r"^rotary_dim$", WIDTH // HEADS // 2),
    (r"(vocab_size|vocab_size_per_layer_input)$", VOCABULARY),
)
"""Names of settings -> sizes, the first that fits."""


_ODD: dict[str, dict[str, Any]] = {
    "reformer": {"axial_pos_embds": False, "attn_layers": ["local", "local"], "local_attn_chunk_length": 8},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "use_mamba_kernels": False},
    "esm": {"vocab_size": VOCABULARY, "pad_token_id": 0, "mask_token_id": 4},
    "longformer": {"attention_window": [8, 8]},
    "recurrent_gemma": {"lru_width": WIDTH, "block_types": ["recurrent", "attention"], "attention_window_size": 16},
    "openai-gpt": {"n_positions": POSITIONS},
    "bamba": {"attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8},
    "falcon_h1": {"mamba_d_ssm": 64, "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8},
    "mamba2": {"num_heads": 8, "head_dim": 8, "state_size": 8, "n_groups": 1, "chunk_size": 16},
    "nemotron": {"head_dim": WIDTH // HEADS},
    "ministral": {"head_dim": WIDTH // HEADS},
    "hunyuan_v1_dense": {"head_dim": WIDTH // HEADS},
    "hunyuan_v1_moe": {"head_dim": WIDTH // HEADS},
}
"""Settings that cannot be found by name."""


class Built(NamedTuple):
    """An architecture, small."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast


def names() -> list[str]:
    """The model types that transformers can build a body of, sorted."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    return sorted(MODEL_MAPPING_NAMES)


def build(name: str, *, seed: int = 7, **settings: Any) -> Built | str:
    """A tiny model of an architecture with its tokenizer, or the reason why there is none.

    Args:
        name: a model type of transformers, as in `names`.
        seed: of the random weights.
        settings: of the config, instead of those found by name.

    Example:
        >>> built = build("bert")
        >>> built.model.config.hidden_size, built.tokenizer.tokenize("barked")
        (32, ['bark', '##ed'])
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _build(name, seed, settings)
        except Exception as error:
            return _reason(error)


def _build(name: str, seed: int, settings: Mapping[str, Any]) -> Built | str:
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    found = MODEL_MAPPING_NAMES[name]
    body = getattr(transformers, found if isinstance(found, str) else found[0])
    if body.main_input_name != "input_ids":
        return f"reads {body.main_input_name}, not words"
    given = {**_ODD.get(name, {}), **settings}
    # Settings that are worked out from others follow only if the config is made with them; others only if it is not.
    tried = [_tried(body, make, given, seed) for make in (shrunk, remade)]
    built = [each for each in tried if isinstance(each, Built)]
    if not built:
        first = tried[0]
        return first if isinstance(first, str) else _reason(first)
    return next((each for each in built if _runs(each.model)), built[0])


def _tried(body: Any, make: Callable[..., PreTrainedConfig], given: Mapping[str, Any], seed: int) -> Any:
    try:
        return _sized(body, lambda: make(body.config_class, given), seed)
    except Exception as error:
        # Configs disagree with themselves in as many ways as there are architectures.
        return error


def _reason(error: Exception) -> str:
    said = str(error).strip().partition("\n")[0] or type(error).__name__
    return f"cannot be built tiny ({type(error).__name__}: {said[:120]})"


def _runs(model: PreTrainedModel) -> bool:
    try:
        with torch.no_grad():
            model(input_ids=torch.tensor([[7, 8, 9]]))
    except Exception:
        return False
    return True


def _sized(body: Any, make: Callable[[], PreTrainedConfig], seed: int) -> Built | str:
    with torch.device("meta"):
        size = sum(weight.numel() for weight in body(make()).parameters())
    if size > _MOST:
        return f"cannot be built tiny ({size:,} weights are left)"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = body(make()).eval()
        shake(model)
    return Built(model, tokenizer())


def shake(model: torch.nn.Module) -> None:
    """Weights as uneven as trained ones: with the usual start, norms are 1, biases 0 and attention nearly flat."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.is_floating_point():
                weight.nan_to_num_(0.0).add_(0.1 * torch.randn_like(weight))


def shrunk(kind: type[PreTrainedConfig], settings: Mapping[str, Any]) -> PreTrainedConfig:
    """A config of a kind with small sizes."""
    config = kind()
    _shrink(config)
    for key, value in settings.items():
        setattr(config, key, value)
    return config


def remade(kind: type[PreTrainedConfig], settings: Mapping[str, Any]) -> PreTrainedConfig:
    """A config of a kind, made with small sizes instead of given them later."""
    return kind(**{**_small_settings(kind()), **settings})


def _small_settings(config: PreTrainedConfig) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in vars(config).items():
        if isinstance(value, PreTrainedConfig):
            found[key] = _small_settings(value)
        elif isinstance(value, int) and not isinstance(value, bool) and _small(key, value) != value:
            found[key] = _small(key, value)
        elif key == "rope_parameters" and isinstance(value, dict) and _has_three_positions(config):
            found[key] = {**value, "mrope_section": _SECTIONS}
    return found | _ungrouped(config)


def _shrink(config: PreTrainedConfig) -> None:
    for key, value in list(vars(config).items()):
        if isinstance(value, PreTrainedConfig):
            _shrink(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            setattr(config, key, _small(key, value))
        elif key == "rope_parameters" and isinstance(value, dict) and _has_three_positions(config):
            setattr(config, key, {**value, "mrope_section": _SECTIONS})
    for key, value in _ungrouped(config).items():
        setattr(config, key, value)
    with suppress(AttributeError):
        # Where kinds of layers are worked out from other settings, they cannot be set.
        _one_layer_of_each_kind(config)


def _ungrouped(config: PreTrainedConfig) -> dict[str, int]:
    """Keys and values that are unpacked from a latent vector (DeepSeek) have a head for every query."""
    return {"num_key_value_heads": HEADS} if getattr(config, "kv_lora_rank", None) else {}


def _has_three_positions(config: PreTrainedConfig) -> bool:
    return re.search(r"vl|glm4v|glm46v|glmga|ocr|glm_image|omni", str(config.model_type)) is not None


def _small(key: str, value: int) -> int:
    if key.endswith("_token_id") or key.endswith("_token_index"):
        # Ids of a larger vocabulary; those of padding and of the beginning are the tokenizer's.
        return {"pad_token_id": 0, "bos_token_id": 2}.get(key, min(value, 3))
    for pattern, size in _SIZES:
        if re.search(pattern, key):
            return min(value, size) if value > 0 else value
    return value


def _one_layer_of_each_kind(config: PreTrainedConfig) -> None:
    kinds = getattr(config, "layer_types", None)
    if isinstance(kinds, list) and kinds:
        one_each = list(dict.fromkeys(kinds))
        config.layer_types = one_each if len(one_each) > 1 else one_each * BLOCKS
        config.num_hidden_layers = len(config.layer_types)


@cache
def _vocabulary() -> dict[str, int]:
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    signs = list(".,?!'$%()0125")
    pieces = ["ed", "ing", "ly", "s", *letters]
    every = [
        *_SPECIALS,
        *dict.fromkeys([*signs, *letters, *_WORDS.split()]),
        *dict.fromkeys(f"##{piece}" for piece in pieces),
    ]
    return {piece: at for at, piece in enumerate(every)}


def tokenizer() -> PreTrainedTokenizerFast:
    """Word pieces, lower-cased, between `[CLS]` and `[SEP]`."""
    named = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), _SPECIALS, strict=True))
    backend = Tokenizer(models.WordPiece(_vocabulary(), unk_token=named["unk_token"]))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    ends = {"bos_token": named["cls_token"], "eos_token": named["sep_token"]}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **named, **ends)
