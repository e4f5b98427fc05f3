"""Encoding and storing, against the bare forward pass, plain loops and the disk.

On a CPU EWT dev with minilm; on a GPU, where there is one, texts as long as EWT's at BERT-base's shape.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import cast

import torch

from benchmarks.bars import Bar
from lamina.activations import ActivationStore, ThisMachine
from lamina.activations.extraction import GPU_SHARD_BYTES
from lamina.activations.shards import fresh_file, page_aligned, write_past_cache
from lamina.corpora import load_corpus
from lamina.models import load_encoder
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.types import Text

PAIRS = 9
LOOP_PAIRS = DISK_PAIRS = 3
MANY = 12_500


def bars() -> Iterator[Bar]:
    """Ratios of tokens per second, and of bytes per second to the disk."""
    yield from _cpu_bars()
    if torch.cuda.is_available():
        yield from _gpu_bars(torch.bfloat16)
        yield from _gpu_bars(torch.float32)


def _cpu_bars() -> Iterator[Bar]:
    encoder = cast(HuggingFaceEncoder, load_encoder("minilm", device="cpu"))
    texts = list(load_corpus("ewt", split="dev"))
    batches = _batches(encoder, texts)
    _seconds(lambda: _forward(encoder, batches))

    stored = [(_seconds(lambda: _forward(encoder, batches)), _store(encoder, texts)) for _ in range(PAIRS)]
    ratios = sorted(bare / storing for bare, storing in stored)
    rate = sum(len(encoder.tokenize(text).ids) for text in texts) / median(storing for _, storing in stored)
    note = f"[{ratios[0]:.2f} to {ratios[-1]:.2f} in {PAIRS} pairs; {rate:,.0f} tokens/s]"
    yield Bar("encode + store / bare forward pass", median(ratios), 0.95, at_least=True, note=note)

    loops = [(_seconds(lambda: _plain(encoder, texts, 32)), _store(encoder, texts)) for _ in range(LOOP_PAIRS)]
    yield Bar("encode + store / loop of 32 in file order", median(a / b for a, b in loops), 2.0, at_least=True)
    loops = [(_seconds(lambda: _plain(encoder, texts, 1)), _store(encoder, texts)) for _ in range(LOOP_PAIRS)]
    yield Bar("encode + store / one sentence at a time", median(a / b for a, b in loops), 3.0, at_least=True)


def _gpu_bars(dtype: torch.dtype) -> Iterator[Bar]:
    encoder, texts = _bert_base(dtype), _many_texts()
    # Until the size of batches is found.
    while not encoder.batch_size.settled:
        _left_on_card(encoder, texts)
    batches = _batches(encoder, texts)
    pairs = [
        (_seconds(lambda: _forward(encoder, batches)), _seconds(lambda: _left_on_card(encoder, texts)))
        for _ in range(PAIRS)
    ]
    tokens = sum(len(encoder.tokenize(text).ids) for text in texts)
    ratios = sorted(bare / packed for bare, packed in pairs)
    said = str(dtype).removeprefix("torch.")
    note = (
        f"[{ratios[0]:.2f} to {ratios[-1]:.2f} in {PAIRS} pairs; {tokens / min(packed for _, packed in pairs):,.0f} "
        f"tokens/s in batches of {encoder.batch_size.tokens:,}; {torch.cuda.get_device_name()}]"
    )
    yield Bar(f"states left on the card / bare forward pass, {said}", median(ratios), 0.7, at_least=True, note=note)

    stored = [(_store(encoder, texts), _write(encoder, tokens)) for _ in range(DISK_PAIRS)]
    rate = median(written / storing for storing, written in stored)
    gigabytes = _stored_bytes(encoder, tokens) / 1e9
    note = f"[{gigabytes / min(storing for storing, _ in stored):.2f} GB/s]"
    yield Bar(f"extract / writing the same bytes, {said}", rate, 0.8, at_least=True, note=note)


def _bert_base(dtype: torch.dtype) -> HuggingFaceEncoder:
    """BERT-base's shape with random weights, and minilm's tokenizer."""
    from transformers import BertConfig, BertModel

    tokenizer = cast(HuggingFaceEncoder, load_encoder("minilm", device="cpu")).tokenizer
    torch.manual_seed(0)
    model = BertModel(BertConfig(vocab_size=len(tokenizer)), add_pooling_layer=False)
    torch.nn.Module.to(model, "cuda", dtype)
    return HuggingFaceEncoder(model, tokenizer, name=f"bert-base shape, {dtype}")


def _many_texts() -> list[Text]:
    """12,500 texts: those of EWT dev again and again, each time with another last word, since a text is stored once."""
    texts = list(load_corpus("ewt", split="dev"))
    times = -(-MANY // len(texts))
    return [Text(f"{n} {text.id}", (*text.words, f"n{n}")) for n in range(times) for text in texts][:MANY]


def _left_on_card(encoder: HuggingFaceEncoder, texts: list[Text]) -> None:
    for _ in encoder.packed(texts, dtype=torch.float16, on="device"):
        pass


def _stored_bytes(encoder: HuggingFaceEncoder, tokens: int) -> int:
    return 2 * tokens * encoder.layers * encoder.width


def _write(encoder: HuggingFaceEncoder, tokens: int) -> float:
    """Seconds to write as many bytes to the same disk, past the page cache and synced, in files of a shard's size."""
    memory = page_aligned(GPU_SHARD_BYTES)
    memory[:] = 7
    with tempfile.TemporaryDirectory() as root:
        start = time.perf_counter()
        for number in range(max(1, _stored_bytes(encoder, tokens) // len(memory))):
            with fresh_file(Path(root) / str(number)) as file:
                write_past_cache(file, b"", memory.data)
        return time.perf_counter() - start


def _seconds(run: Callable[[], object]) -> float:
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    wait()
    start = time.perf_counter()
    run()
    wait()
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
