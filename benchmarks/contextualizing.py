"""Class probes of every layer: trained together against one after another, from the same vectors."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import torch

from benchmarks.bars import Bar
from lamina.probes.mlp import ClassProbe, Examples, MLPTraining, decide

LAYERS, WIDTH, CLASSES = 7, 384, 26
EXAMPLES, BATCH, HIDDEN = 128 * 8, 128, 1024
RUNS = 3
EPOCHS = {"cpu": 1, "cuda": 20}
"""Enough that drawing initial weights does not matter."""


def bars() -> Iterator[Bar]:
    """On this machine's cores, on its GPU if there is one, then the real command."""
    yield from ratios()
    yield from _command()


def ratios() -> Iterator[Bar]:
    """Alone and together in turn, since the speed of a shared machine varies."""
    devices = [("cpu", 1.3), *([("cuda", 20.0)] if torch.cuda.is_available() else [])]
    for device, bar in devices:
        told = _told()
        _alone(told, ClassProbe(0, 0), device)
        pairs = [(_all_alone(told, device), _together(told, device)) for _ in range(RUNS)]
        ratio = median(alone / together for alone, together in pairs)
        alone, together = (median(each) for each in zip(*pairs, strict=True))
        what = f"{LAYERS * CLASSES} probes of {WIDTH} x {HIDDEN}, batch {BATCH}, {EPOCHS[device] * EXAMPLES:,} examples"
        spread = f"{min(a / b for a, b in pairs):.1f} to {max(a / b for a, b in pairs):.1f}"
        note = f"[{what}: {together:.2f} s against {alone:.2f} s; {spread}]"
        yield Bar(f"class probes one after another / together, {device}", ratio, bar, at_least=True, note=note)


def _told() -> Examples:
    draw = torch.Generator().manual_seed(0)
    gold = torch.rand(1, EXAMPLES, CLASSES, generator=draw) < 0.1
    return Examples(torch.randn(LAYERS, EXAMPLES, WIDTH, generator=draw), gold)


def _together(told: Examples, device: str) -> float:
    probes = [ClassProbe(row, label) for row in range(LAYERS) for label in range(CLASSES)]
    training = MLPTraining(HIDDEN, epochs=EPOCHS[device], batch=BATCH, select=False)
    start = time.perf_counter()
    decide(told, told, [], probes, training, device=device)
    _wait(device)
    return time.perf_counter() - start


def _all_alone(told: Examples, device: str) -> float:
    """Time one layer, and multiply by the number of layers."""
    start = time.perf_counter()
    for label in range(CLASSES):
        _alone(told, ClassProbe(0, label), device)
    _wait(device)
    return (time.perf_counter() - start) * LAYERS


def _alone(told: Examples, probe: ClassProbe, device: str) -> None:
    """With torch's own modules and optimiser."""
    linear = torch.nn.Linear
    model = torch.nn.Sequential(linear(WIDTH, HIDDEN), torch.nn.ReLU(), linear(HIDDEN, 1)).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    vectors, gold = told.vectors[probe.row].to(device), told.gold[0, :, probe.label].float().to(device)
    for epoch in range(EPOCHS[device]):
        for rows in torch.from_numpy(np.random.default_rng(epoch).permutation(EXAMPLES)).to(device).split(BATCH):
            logits = model(vectors[rows]).squeeze(1)
            optimiser.zero_grad()
            torch.nn.functional.binary_cross_entropy_with_logits(logits, gold[rows]).backward()
            optimiser.step()


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _command() -> Iterator[Bar]:
    """The real command, once, with nothing stored; models and corpora come from the cache."""
    with tempfile.TemporaryDirectory() as holder:
        asked = ["contextualize", "minilm", "--corpus", "ewt", "--preset", "quick", "--out", f"{holder}/out"]
        start = time.perf_counter()
        with (Path(holder) / "said").open("wb") as said:
            child = subprocess.Popen(
                [sys.executable, "-m", "lamina", *asked, "--store", f"{holder}/store", "--device", "cpu"],
                stdout=said,
                stderr=said,
            )
            # For this child only, which `resource` cannot separate from earlier ones.
            _, status, used = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0, (Path(holder) / "said").read_text()
    what = "lamina contextualize minilm --corpus ewt --preset quick"
    note = f"[{used.ru_utime + used.ru_stime:.0f} s of CPU]"
    yield Bar(what, seconds, 300, at_least=False, unit=" s", note=note)
    yield Bar(f"peak memory of {what}", used.ru_maxrss / 1024**2, 4.0, at_least=False, unit=" GB")
