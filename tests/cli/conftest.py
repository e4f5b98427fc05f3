"""A tiny BERT and a hand-written treebank, as a user would name them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from lamina.__main__ import main

SENTENCES = [
    "The dog barked .",
    "A cat ran and the dog ran .",
    "the dogs bark .",
    "Yes",
    "The the the cat .",
    "the end .",
]


@pytest.fixture(scope="session")
def speaker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny GPT-2 with its head."""
    from tests.language_models import save, tiny_causal

    return save(tiny_causal(), tmp_path_factory.mktemp("models") / "tinygpt")


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two tiny blocks with a WordPiece tokenizer, saved as Hugging Face saves it."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordPiece(**{"unk_token": "[UNK]"}))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(SENTENCES, trainers.WordPieceTrainer(vocab_size=80, special_tokens=special))
    ends = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    folder = tmp_path_factory.mktemp("models") / "tinybert"
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True)),
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=80,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture
def treebank(tmp_path: Path) -> Path:
    lines = []
    for number, sentence in enumerate(SENTENCES):
        lines.append(f"# sent_id = s{number}")
        for at, word in enumerate(sentence.split(), start=1):
            lines.append(f"{at}\t{word}\t{word}\tX\t_\t_\t{at - 1}\t{'root' if at == 1 else 'dep'}\t_\t_")
        lines.append("")
    path = tmp_path / "own-dev.conllu"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


class Done(NamedTuple):
    """What a command left behind."""

    exit_code: int
    output: str
    """Standard output, then standard error."""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Runs `lamina` as a shell would: mistakes end in a status and a sentence."""
    monkeypatch.setenv("COLUMNS", "200")

    def command(*words: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["lamina", *map(str, words)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        said = capsys.readouterr()
        return Done(code, said.out + said.err)

    return command
