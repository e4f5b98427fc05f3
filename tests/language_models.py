"""Tiny language models with heads and random weights, in memory."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers

from lamina.models.loading import encoder_from
from lamina.models.running.huggingface import HuggingFaceEncoder
from tests.models.tiny_models import ARCHITECTURES

HEADS = {
    "bert": "AutoModelForMaskedLM",
    "roberta": "AutoModelForMaskedLM",
    "distilbert": "AutoModelForMaskedLM",
    "albert": "AutoModelForMaskedLM",
    "electra": "AutoModelForMaskedLM",
    "mpnet": "AutoModelForMaskedLM",
    "deberta-v2": "AutoModelForMaskedLM",
    "gpt2": "AutoModelForCausalLM",
    "llama": "AutoModelForCausalLM",
}
"""Architecture -> the class that has its head."""


def tiny_language_model(name: str, seed: int = 7) -> HuggingFaceEncoder:
    """An encoder of this architecture whose model has its head in memory; weights as uneven as trained ones."""
    tiny = ARCHITECTURES[name]
    tokenizer = tiny.make_tokenizer()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = getattr(transformers, HEADS[name]).from_config(tiny.make_config(len(tokenizer)))
        for weight in model.parameters():
            weight.data += 0.3 * torch.randn_like(weight)
    encoder = encoder_from(model, tokenizer, name=f"tiny {name}")
    assert isinstance(encoder, HuggingFaceEncoder)
    return encoder


def tiny_masked(seed: int = 7) -> HuggingFaceEncoder:
    """A small BERT with its masked-LM head."""
    return tiny_language_model("bert", seed)


def tiny_causal(seed: int = 7) -> HuggingFaceEncoder:
    """A small GPT-2 with its head."""
    return tiny_language_model("gpt2", seed)


def save(encoder: HuggingFaceEncoder, folder: Path) -> Path:
    """A model with its head and its tokenizer, saved as Hugging Face saves them."""
    assert encoder.whole is not None
    encoder.whole.save_pretrained(folder)
    encoder.tokenizer.save_pretrained(folder)
    return folder
