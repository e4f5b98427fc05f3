"""Tiny random models of every tested architecture, saved as the model folders anyone would have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

POSITIONS = 40
SIZE = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
BERT_SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
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


def _wordpiece(specials: list[str]) -> dict[str, int]:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))  # noqa-free: a vocabulary entry, not a secret
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=specials, show_progress=False)
    tokenizer.train_from_iterator([sentence.lower() for sentence in SENTENCES], trainer)
    return tokenizer.get_vocab()


def _bpe(specials: list[str], *, byte_level: bool) -> tuple[dict[str, int], list[tuple[str, str]]]:
    tokenizer = Tokenizer(models.BPE())
    if byte_level:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        alphabet = ["▁"]
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    made = __import__("json").loads(tokenizer.to_str())["model"]
    return made["vocab"], [tuple(merge) for merge in made["merges"]]
