"""Encoding and storing EWT dev with minilm, against the bare forward pass and against plain loops."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import cast

import torch

from benchmarks.bars import Bar
from lamina.activations import ActivationStore, ThisMachine
from lamina.corpora import load_corpus
from lamina.encoders import load_encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.types import Text

PAIRS = 9
LOOP_PAIRS = 3


def bars() -> Iterator[Bar]:
    """The three ratios of tokens per second."""
    encoder = cast(HuggingFaceEncoder, load_encoder("minilm", device="cpu"))
    texts = list(load_corpus("ewt", split="dev"))
    batches = _batches(encoder, texts)
    _seconds(lambda: _forward(encoder, batches))

    stored = [(_seconds(lambda: _forward(encoder, batches)), _store(encoder, texts)) for _ in range(PAIRS)]
    ratios = sorted(bare / storing for bare, storing in stored)
    rate = sum(len(encoder.tokenize(text).ids) for text in texts) / median(storing for _, storing in stored)
    note = f"[{ratios[0]:.2f} to {ratios[-1]:.2f} in {PAIRS} pairs; {rate:,.0f} tokens/s]"
    yield Bar("encode + store / bare forward pass", median(ratios), 0.9, at_least=True, note=note)

    loops = [(_seconds(lambda: _plain(encoder, texts, 32)), _store(encoder, texts)) for _ in range(LOOP_PAIRS)]
    yield Bar("encode + store / loop of 32 in file order", median(a / b for a, b in loops), 2.0, at_least=True)
    loops = [(_seconds(lambda: _plain(encoder, texts, 1)), _store(encoder, texts)) for _ in range(LOOP_PAIRS)]
    yield Bar("encode + store / one sentence at a time", median(a / b for a, b in loops), 3.0, at_least=True)


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _store(encoder: HuggingFaceEncoder, texts: list[Text]) -> float:
    with tempfile.TemporaryDirectory() as root:
        store = ActivationStore.of(encoder, root)
        return _seconds(lambda: ThisMachine().fill(encoder, texts, store))


def _batches(encoder: HuggingFaceEncoder, texts: list[Text]) -> list[dict[str, torch.Tensor]]:
    """The batches that the encoder makes, intercepted before the model."""
    caught: list[dict[str, torch.Tensor]] = []
    hook = encoder.model.register_forward_pre_hook(
        lambda _module, _args, inputs: caught.append({k: v for k, v in inputs.items() if isinstance(v, torch.Tensor)}),
        with_kwargs=True,
    )
    for _ in encoder.encode(texts, ordered=False):
        pass
    hook.remove()
    return caught


def _forward(encoder: HuggingFaceEncoder, batches: list[dict[str, torch.Tensor]]) -> None:
    with torch.no_grad():
        for batch in batches:
            encoder.model(**batch, output_hidden_states=True)


def _plain(encoder: HuggingFaceEncoder, texts: list[Text], size: int) -> None:
    """The usual loop: tokenizer with padding, batches in file order, hidden states thrown away."""
    with torch.no_grad():
        for at in range(0, len(texts), size):
            words = [list(text.words) for text in texts[at : at + size]]
            batch = encoder.tokenizer(
                words, is_split_into_words=True, padding=True, truncation=True, max_length=512, return_tensors="pt"
            )
            encoder.model(**batch, output_hidden_states=True)
