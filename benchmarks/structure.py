"""Structural probes: all layers of minilm on EWT at full rank, and all ranks and layers of BERT-base's shape.

python -m benchmarks structure
python -m benchmarks.structure --device cuda
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
import torch

import lamina
from benchmarks.bars import Bar
from lamina.probes.structural import StructuralBank, StructuralGroup, StructuralSchedule, TreeSentences

SECONDS = {"cpu": 180.0, "cuda": 120.0}
"""For minilm on two cores; for BERT-base's shape on a GPU."""
LAYERS, WIDTH = 13, 768
SENTENCES, WORDS = 12_000, 16
"""About EWT's."""


def bars() -> Iterator[Bar]:
    """On this machine's CPU, and on its GPU where there is one."""
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        yield from run(device)


def run(device: str) -> Iterator[Bar]:
    """The bar of one device."""
    start = time.perf_counter()
    if device == "cpu":
        lamina.structure(
            "minilm", "ewt", ranks=["full"], twin=False, control=False, attention=0, samples=200, device="cpu"
        )
        name = "structural probes of all layers of minilm on EWT, full rank, with encoding"
    else:
        steps = _all_ranks(device)
        name = f"all ranks and layers of BERT-base's shape, {steps} steps"
    taken = time.perf_counter() - start
    yield Bar(name, taken, SECONDS[device], at_least=False, unit=" s")


def _all_ranks(device: str) -> int:
    """Random words and chains as trees: the amount of work is that of real ones; all validations are run."""
    draw = torch.Generator(device).manual_seed(0)
    words = torch.randn(LAYERS, SENTENCES * WORDS, WIDTH, generator=draw, device=device, dtype=torch.float16)
    place = np.arange(WORDS)
    chain = np.abs(place[:, None] - place)
    starts = np.arange(SENTENCES) * WORDS
    learn = TreeSentences(words, starts, np.full(SENTENCES, WORDS), [chain] * SENTENCES, [place] * SENTENCES)
    stop = TreeSentences(words, starts[:600], np.full(600, WORDS), [chain] * 600, [place] * 600)
    ranks = [2**power for power in range(10)] + [WIDTH]
    groups = [StructuralGroup(kind, rank, 0) for kind in ("distance", "depth") for rank in ranks]
    schedule = StructuralSchedule(max_validations=30, stop_after=31)
    StructuralBank(groups, schedule).fit(learn, stop)
    torch.cuda.synchronize()
    return 30 * (schedule.validate_every or 0)


def main() -> None:
    """Print the bars of one device."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    for bar in run(parser.parse_args().device):
        print(bar)


if __name__ == "__main__":
    main()
