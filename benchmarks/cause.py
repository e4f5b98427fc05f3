"""Taking heads away: against a loop that runs the whole model once per head, and all heads of minilm end to end.

On a model of BERT-base's shape with random weights, which do not change the amount of work, and on minilm.

    python -m benchmarks cause
    python -m benchmarks.cause --device cuda
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any, cast

import numpy as np
import torch

from benchmarks.bars import Bar
from lamina.corpora import load_corpus
from lamina.models import load_encoder
from lamina.models.interventions.interventions import Interventions
from lamina.models.running.batching import InputRow, row_groups
from lamina.models.running.huggingface import HuggingFaceEncoder

ROUNDS = 3
SENTENCES = {"cpu": 12, "cuda": 500}
"""Of EWT dev, evenly drawn, that both ways are timed on ..."""
BLOCKS = {"cpu": (0, 2, 5, 6, 9, 11), "cuda": tuple(range(12))}
"""... without each head of these blocks, whose mean is that of all twelve."""
ALL_SENTENCES = 500
SECONDS = {"cpu": 180.0, "cuda": 30.0}
"""For all heads over all sentences: of minilm on two cores, of BERT-base's shape on a GPU."""
TIMES_LOOP = 2.0
"""For twelve blocks."""
MASKED = 0.15
"""Share of tokens at which a masked-LM loss reads the last layer."""


def bars() -> Iterator[Bar]:
    """On this machine's CPU, and on its GPU where there is one."""
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        yield from run(device)


def run(device: str) -> Iterator[Bar]:
    """All bars on one device."""
    large = large_encoder(device)
    yield _against_a_loop(large, device)
    if device == "cuda":
        yield _all_heads(large, device)
        return
    small = cast(HuggingFaceEncoder, load_encoder("minilm", device=device))
    yield _all_heads(small, device)
    yield _memory()


def large_encoder(device: str) -> HuggingFaceEncoder:
    """A model of BERT-base's shape with random weights."""
    from transformers import BertConfig, BertModel

    tokenizer = cast(HuggingFaceEncoder, load_encoder("minilm", device="cpu")).tokenizer
    torch.manual_seed(0)
    with torch.device(device):
        model = BertModel(BertConfig(vocab_size=len(tokenizer)), add_pooling_layer=False)
    return HuggingFaceEncoder(model, tokenizer, name="BERT-base's shape")


def rows_of(encoder: HuggingFaceEncoder, sentences: int) -> list[InputRow]:
    """The rows of some sentences of EWT dev, evenly drawn."""
    texts = list(load_corpus("ewt", split="dev"))
    some = texts[:: len(texts) // sentences][:sentences]
    return [row for at, text in enumerate(some) for row in encoder.rows(at, encoder.word_tokenizer(text))]


def shared(parts: Interventions, rows: Sequence[InputRow], heads: Sequence[tuple[int, int]], **asked: Any) -> None:
    """The last layer of all rows without each head."""
    edits = [parts.without(block, heads=[head]) for block, head in heads]
    for _ in parts.run(rows, edits, **asked):
        pass


def loop(parts: Interventions, rows: Sequence[InputRow], heads: Sequence[tuple[int, int]], tokens: int) -> None:
    """The same by running the whole model once per head, in batches of so many tokens."""
    encoder = parts.encoder
    groups = row_groups([len(row.ids) for row in rows], tokens, pads=encoder.anatomy.pads)
    batches = [[rows[at] for at in group] for group in groups]
    for block, head in heads:
        part = slice(head * parts.size, (head + 1) * parts.size)

        def silence(_module: Any, given: Any, part: slice = part) -> Any:
            handed = given[0].clone()
            handed[..., part] = 0
            return (handed, *given[1:])

        handle = parts.out(block).register_forward_pre_hook(silence)
        for batch in batches:
            encoder.last(batch)
        handle.remove()


def _against_a_loop(encoder: HuggingFaceEncoder, device: str) -> Bar:
    """Both ways in turn, so that a slowdown affects both; the loop in large batches, and with less padding or none.

    What a masked-LM loss needs: the last layer at some tokens. The loop makes it at all; so do we for the other ratio.
    """
    parts = Interventions(encoder)
    rows = rows_of(encoder, SENTENCES[device])
    heads = [(block, head) for block, head in parts.heads if block in BLOCKS[device]]
    draw = np.random.default_rng(0)
    places = [draw.choice(len(row.ids), max(1, round(MASKED * len(row.ids))), replace=False) for row in rows]
    tokens = encoder.batch_size.tokens
    ways: dict[str, Callable[[Sequence[tuple[int, int]]], None]] = {
        "large batches": lambda some: loop(parts, rows, some, tokens),
        "small batches": lambda some: loop(parts, rows, some, tokens // 8),
        "single rows": lambda some: loop(parts, rows, some, 1),
        "all tokens": lambda some: shared(parts, rows, some),
        "asked tokens": lambda some: shared(parts, rows, some, places=places),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way(heads[:1])  # Warm-up; not timed.
    for _ in range(ROUNDS):
        for name, way in ways.items():
            seconds[name].append(_seconds(lambda way=way: way(heads), device))
    # Against the loop in the batches that suit it best.
    loops = [seconds[name] for name in ("large batches", "small batches", "single rows")]
    best = [min(round_) for round_ in zip(*loops, strict=True)]
    ratios, whole = (
        [b / o for b, o in zip(best, seconds[name], strict=True)] for name in ("asked tokens", "all tokens")
    )
    note = f"[{min(ratios):.2f} to {max(ratios):.2f} in {ROUNDS} rounds; last layer at all tokens {median(whole):.2f}; "
    note += f"{len(heads)} heads, {len(rows)} sentences, {median(seconds['asked tokens']):.1f} s; {_place(device)}]"
    what = f"one run per head / states shared, {encoder.name}, {encoder.blocks} blocks, 15 % of tokens asked for"
    return Bar(what, median(ratios), TIMES_LOOP, at_least=True, note=note)


def _all_heads(encoder: HuggingFaceEncoder, device: str) -> Bar:
    parts = Interventions(encoder)
    rows = rows_of(encoder, ALL_SENTENCES)
    shared(parts, rows, parts.heads[:1])  # Warm-up; not timed.
    seconds = _seconds(lambda: shared(parts, rows, parts.heads), device)
    tokens = sum(len(row.ids) for row in rows)
    note = f"[{len(parts.heads)} heads, {tokens:,} tokens; {_place(device)}]"
    what = f"all heads of {encoder.name} over {len(rows)} sentences"
    return Bar(what, seconds, SECONDS[device], at_least=False, unit=" s", note=note)


_PEAK = """
import resource, sys
from benchmarks.cause import rows_of, shared
from lamina.models import load_encoder
from lamina.models.interventions.interventions import Interventions
encoder = load_encoder("minilm", device="cpu")
parts = Interventions(encoder)
shared(parts, rows_of(encoder, int(sys.argv[1])), parts.heads[::36])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def _memory() -> Bar:
    some, more = (float(_printed(_PEAK, texts)) for texts in ("200", "1000"))
    note = f"[{some / 1024:,.0f} MB for 200 sentences, {more / 1024:,.0f} MB for 1,000]"
    return Bar("peak memory of interventions on 5x the text", more / some, 1.1, at_least=False, note=note)


def _printed(program: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _seconds(work: Callable[[], object], device: str) -> float:
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    wait()
    start = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - start


def _place(device: str) -> str:
    return torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} threads"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cause", description=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    for found in run(parser.parse_args().device):
        print(found, flush=True)
