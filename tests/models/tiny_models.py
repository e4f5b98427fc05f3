"""Tiny random models of every tested architecture, saved as the model folders anyone would have."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

with warnings.catch_warnings():
    # Compiles with torch.jit.script as it is imported, which torch calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import transformers.models.deberta_v2.modeling_deberta_v2

POSITIONS = 40
SIZE = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
BERT_SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
MPNET_SPECIALS = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]
ROBERTA_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
ALBERT_SPECIALS = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
LLAMA_SPECIALS = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
SENTENCES = (
    "The quick brown fox jumps over the lazy dog .",
    "The cats sat on the mat , unhesitatingly , and the dogs barked .",
    "Who barked ? The unhesitating dogs did , and I can't say why !",
    "She pays 1,000.50 dollars ( or 50 % of it ) for a naive guess .",
    "They ran far and further away from the quick fox in the morning .",
    "Nobody knows what the lazy dog thought about the brown cats .",
)


class Tiny(NamedTuple):
    """One architecture, small."""

    make_tokenizer: Callable[[], PreTrainedTokenizerFast]
    make_config: Callable[[int], PreTrainedConfig]
    """Vocabulary size -> config."""
    limit: int = POSITIONS
    """The most tokens the model takes, worked out by hand."""
    causal: bool = False


def build(name: str, folder: Path) -> Path:
    """Save the architecture's tokenizer and seeded random weights under `folder`."""
    tiny = ARCHITECTURES[name]
    tokenizer = tiny.make_tokenizer()
    transformers.utils.logging.disable_progress_bar()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = transformers.AutoModel.from_config(tiny.make_config(len(tokenizer)))
        _shake(model)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _shake(model: PreTrainedModel) -> None:
    """Weights as uneven as trained ones: with the usual start, norms are 1, biases 0 and attention nearly flat."""
    for weight in model.parameters():
        weight.data += 0.1 * torch.randn_like(weight)


def _train(model: Any, cut: Any, trainer: Any, *, lower: bool = False) -> dict[str, Any]:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = cut
    tokenizer.train_from_iterator([text.lower() if lower else text for text in SENTENCES], trainer)
    return json.loads(tokenizer.to_str())["model"]


def _wordpiece(specials: list[str]) -> dict[str, int]:
    # Written out: the library's WordPiece trainer breaks ties differently from run to run.
    letters = sorted({letter for text in SENTENCES for letter in text.lower()} - {" "})
    pieces = ["the", "dog", "cat", "un", "bark", "##ing", "##ly", "##ed", "##at", "quick", "fox"]
    return {piece: i for i, piece in enumerate([*specials, *letters, *(f"##{letter}" for letter in letters), *pieces])}


def _byte_level(specials: list[str]) -> dict[str, Any]:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    return _vocabulary_and_merges(_train(models.BPE(), pre_tokenizers.ByteLevel(add_prefix_space=False), trainer))


def _byte_fallback(specials: list[str]) -> dict[str, Any]:
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=specials, show_progress=False)
    return _vocabulary_and_merges(_train(models.BPE(), pre_tokenizers.Metaspace(), trainer))


def _vocabulary_and_merges(model: dict[str, Any]) -> dict[str, Any]:
    return {"vocab": model["vocab"], "merges": [tuple(merge) for merge in model["merges"]]}


def _unigram(specials: list[str], *, lower: bool) -> list[tuple[str, float]]:
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=specials, unk_token=specials[1], show_progress=False
    )
    model = _train(models.Unigram(), pre_tokenizers.Metaspace(), trainer, lower=lower)
    return [(piece, score) for piece, score in model["vocab"]]


ARCHITECTURES = {
    "bert": Tiny(
        lambda: transformers.BertTokenizer(vocab=_wordpiece(BERT_SPECIALS)),
        lambda size: transformers.BertConfig(vocab_size=size, max_position_embeddings=POSITIONS, **SIZE),
    ),
    "mpnet": Tiny(
        lambda: transformers.MPNetTokenizer(vocab=_wordpiece(MPNET_SPECIALS)),
        lambda size: transformers.MPNetConfig(vocab_size=size, max_position_embeddings=POSITIONS + 2, **SIZE),
    ),
    "roberta": Tiny(
        lambda: transformers.RobertaTokenizer(**_byte_level(ROBERTA_SPECIALS)),
        lambda size: transformers.RobertaConfig(vocab_size=size, max_position_embeddings=POSITIONS + 2, **SIZE),
    ),
    "distilbert": Tiny(
        lambda: transformers.DistilBertTokenizer(vocab=_wordpiece(BERT_SPECIALS)),
        lambda size: transformers.DistilBertConfig(
            vocab_size=size, max_position_embeddings=POSITIONS, dim=16, n_layers=3, n_heads=2, hidden_dim=32
        ),
    ),
    "electra": Tiny(
        lambda: transformers.ElectraTokenizer(vocab=_wordpiece(BERT_SPECIALS)),
        lambda size: transformers.ElectraConfig(
            vocab_size=size, max_position_embeddings=POSITIONS, embedding_size=8, **SIZE
        ),
    ),
    "albert": Tiny(
        lambda: transformers.AlbertTokenizer(vocab=_unigram(ALBERT_SPECIALS, lower=True)),
        lambda size: transformers.AlbertConfig(
            vocab_size=size, max_position_embeddings=POSITIONS, embedding_size=8, pad_token_id=0, **SIZE
        ),
    ),
    "deberta-v2": Tiny(
        lambda: transformers.DebertaV2Tokenizer(vocab=_unigram(BERT_SPECIALS, lower=False)),
        lambda size: transformers.DebertaV2Config(
            vocab_size=size,
            max_position_embeddings=POSITIONS,
            relative_attention=True,
            position_buckets=8,
            norm_rel_ebd="layer_norm",
            share_att_key=True,
            pos_att_type=["p2c", "c2p"],
            position_biased_input=False,
            type_vocab_size=0,
            **SIZE,
        ),
    ),
    "gpt2": Tiny(
        lambda: transformers.GPT2Tokenizer(**_byte_level(["<|endoftext|>"])),
        lambda size: transformers.GPT2Config(
            vocab_size=size, n_positions=POSITIONS, n_embd=16, n_layer=3, n_head=2, bos_token_id=0, eos_token_id=0
        ),
        causal=True,
    ),
    "llama": Tiny(
        lambda: transformers.LlamaTokenizer(**_byte_fallback(LLAMA_SPECIALS), add_bos_token=True),
        lambda size: transformers.LlamaConfig(
            vocab_size=size, max_position_embeddings=POSITIONS, num_key_value_heads=1, **SIZE
        ),
        causal=True,
    ),
}
"""Name -> how to build it; DeBERTa-v2 is set up as v3 is, with relative positions alone."""
