"""Behaviour: masked scoring against one mask at a time, BLiMP from end to end, the lens against the head alone.

Models: a masked one that was saved with its head (`--masked`, or LAMINA_MASKED) and smollm2. Without a masked one, its
place is taken by a BERT of the same size with random weights, which do not change the amount of work.

    python -m benchmarks.behaviour --masked growing_bert/seed0 --blimp
    python -m benchmarks.behaviour --masked growing_bert/seed0 --device cuda
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any, cast

import torch

from benchmarks.bars import Bar
from lamina.corpora.suites.minimal_pairs import read_pairs
from lamina.models import load_encoder
from lamina.models.language.language_model import (
    LanguageModel,
    WrittenPassage,
    cut_passages,
    language_model,
    query_every_token,
    score_passages,
)
from lamina.models.language.lens import layer_states, lens_logits
from lamina.models.loading import encoder_from
from lamina.models.running.huggingface import HuggingFaceEncoder

ROUNDS = 3
SENTENCES = {"cpu": 300, "cuda": 13_400}
"""Of BLiMP, evenly drawn, that are scored in batches ..."""
LOOPED = {"cpu": 60, "cuda": 200}
"""... and one mask at a time."""
TIMES_NAIVE = {"cpu": 5.0, "cuda": 50.0}
MINUTES = {"masked": 3.0, "smollm2": 10.0}
"""For all of BLiMP, on two cores."""


def bars() -> Iterator[Bar]:
    """Scoring and the lens on this machine's CPU, and on its GPU where there is one."""
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        yield from run(_options(["--device", device]))


def run(options: argparse.Namespace) -> Iterator[Bar]:
    """What the options ask for."""
    model = _masked(options)
    sentences = _sentences(max(SENTENCES[options.device], LOOPED[options.device]))
    yield _batched(model, sentences, options.device)
    yield _lens(model, sentences[:: max(1, len(sentences) // LOOPED[options.device])], options.device)
    if options.blimp:
        yield from _blimp(model, "masked", options)
        yield from _blimp(_loaded("smollm2", options.device), "smollm2", options)


def _batched(model: LanguageModel, sentences: list[str], device: str) -> Bar:
    """Pieces per second in batches and one mask at a time, alternating, so that a slowdown affects both."""
    many = sentences[: SENTENCES[device]]
    few = sentences[:: max(1, len(sentences) // LOOPED[device])][: LOOPED[device]]
    # Warm-up; not timed.
    _score(model, many)
    _one_at_a_time(model, few[:5])
    ratios, rates = [], []
    for _ in range(ROUNDS):
        alone, naive = _timed(lambda: _one_at_a_time(model, few), device)
        together, batched = _timed(lambda: _score(model, many), device)
        ratios.append((batched / together) / (naive / alone))
        rates.append(batched / together)
    ratios.sort()
    note = f"[{ratios[0]:.1f} to {ratios[-1]:.1f} in {ROUNDS} rounds; {median(rates):,.0f} pieces/s; {_place(device)}]"
    what = f"masked scoring / one mask at a time, {model.name}"
    return Bar(what, median(ratios), TIMES_NAIVE[device], at_least=True, note=note)


def _lens(model: LanguageModel, sentences: list[str], device: str) -> Bar:
    """All layers through the head, against the last layer alone: as many times the work of the head, and no more."""
    passages = [WrittenPassage.typed(sentence, sentence) for sentence in sentences]
    layers = model.encoder.layers

    def all_layers() -> int:
        _, wanted = query_every_token(model, cut_passages(model, passages), "piece")
        for _, states in layer_states(model, wanted):
            for layer in range(layers):
                lens_logits(model, states[:, layer], layer)
        return len(passages)

    _timed(all_layers, device)  # Warm-up; not timed.
    ratios = []
    for _ in range(ROUNDS):
        alone, _ = _timed(lambda: _score(model, sentences), device)
        seconds, _ = _timed(all_layers, device)
        ratios.append(seconds / alone)
    note = f"[{layers} layers, {len(passages)} sentences; {_place(device)}]"
    what = f"lens of all layers / scoring alone, {model.name}"
    return Bar(what, median(ratios), float(layers), at_least=False, note=note)


def _blimp(model: LanguageModel, called: str, options: argparse.Namespace) -> Iterator[Bar]:
    """All pairs scored once, and the whole command: with the twin, the n-gram model, tables and charts."""
    seconds, _ = _timed(lambda: _score(model, _sentences(None)), options.device)
    note = f"[{_place(options.device)}]"
    yield Bar(f"BLiMP scored by {model.name}", seconds / 60, MINUTES[called], at_least=False, unit=" min", note=note)
    name = "smollm2" if called == "smollm2" else options.masked
    if name is None:
        return
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "lamina", "pairs", name, "--suite", "blimp", "--device", options.device]
        start = time.perf_counter()
        subprocess.run([*command, "--out", f"{out}/pairs"], check=True, capture_output=True)
        minutes = (time.perf_counter() - start) / 60
    yield Bar(f"lamina pairs {model.name} --suite blimp, with its twin", minutes, 2 * MINUTES[called], False, " min")


def _score(model: LanguageModel, sentences: Sequence[str]) -> int:
    """The number of pieces scored."""
    return sum(each.pieces for each in score_passages(model, [WrittenPassage.typed(each, each) for each in sentences]))


def _one_at_a_time(model: LanguageModel, sentences: Sequence[str]) -> int:
    """The usual loop: each sentence once per piece, with that piece masked, alone in its batch."""
    encoder = model.encoder
    pieces = 0
    with torch.no_grad():
        for sentence in sentences:
            given = encoder.tokenizer(sentence, return_tensors="pt").to(encoder.device)
            ids = cast(torch.Tensor, given["input_ids"])
            for place in range(1, ids.shape[1] - 1):
                hidden = ids.clone()
                hidden[0, place] = cast(int, model.mask)
                states = encoder.model(input_ids=hidden, attention_mask=given["attention_mask"]).last_hidden_state
                logits = model.logits(states)[0, place]
                logits.log_softmax(-1)[ids[0, place]].item()
                pieces += 1
    return pieces


def _sentences(count: int | None) -> list[str]:
    """Both sentences of BLiMP's pairs; so many of them, evenly drawn."""
    pairs = read_pairs("blimp").pairs
    every = 1 if count is None else max(1, 2 * len(pairs) // count)
    return [sentence for pair in pairs[::every] for sentence in (pair.good, pair.bad)][:count]


def _masked(options: argparse.Namespace) -> LanguageModel:
    if options.masked is not None:
        return _loaded(options.masked, options.device)
    from transformers import BertConfig, BertForMaskedLM

    tokenizer = cast(HuggingFaceEncoder, load_encoder("minilm", device="cpu")).tokenizer
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=256, num_hidden_layers=6, num_attention_heads=4, intermediate_size=1024
    )
    torch.manual_seed(0)
    model = BertForMaskedLM(config)
    torch.nn.Module.to(model, options.device)
    encoder = encoder_from(model, tokenizer, name="random BERT")
    return language_model(encoder)


def _loaded(name: str, device: str) -> LanguageModel:
    return language_model(load_encoder(name, device=device))


def _timed(work: Callable[[], Any], device: str) -> tuple[float, Any]:
    """Seconds, and what was made."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    wait()
    start = time.perf_counter()
    made = work()
    wait()
    return time.perf_counter() - start, made


def _place(device: str) -> str:
    return torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} threads"


def _options(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.behaviour", description=__doc__)
    parser.add_argument("--masked", default=os.environ.get("LAMINA_MASKED"), help="a masked model saved with its head")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--blimp", action="store_true", help="score all of BLiMP with both models too")
    return parser.parse_args(given)


if __name__ == "__main__":
    for found in run(_options(None)):
        print(found, flush=True)
