"""The probe bank on a CUDA GPU, at BERT-base's shape on the English Web Treebank. Skipped without a GPU."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

import numpy as np
import torch

from benchmarks.bars import Bar
from lamina.probes.bank import ProbeGroup, Schedule, train_probes
from lamina.probes.edge import EdgeProbes, LayerCut
from lamina.probes.streams import ProbeTargets, Stream

LAYERS, WIDTH, LABELS = 13, 768, 50
TEXTS, TOKENS, TARGETS = 4000, 20, 16
STEPS, RUNS = 300, 3


class _RandomStates:
    """Random numbers in place of stored activations."""

    def __init__(self) -> None:
        draw = torch.Generator().manual_seed(0)
        self._states = torch.randn(TOKENS, LAYERS, WIDTH, generator=draw).half()

    @property
    def token_bytes(self) -> int:
        return LAYERS * WIDTH * 2

    def size(self, index: int) -> int:
        return TOKENS

    resident = None

    def start(self, index: int) -> int:
        return 0

    def load(self, index: int) -> torch.Tensor:
        return self._states


def bars() -> Iterator[Bar]:
    """Milliseconds per step of 78 probes, set-up taken off: the difference between a long and a short training."""
    if not torch.cuda.is_available():
        return
    for arity, what, most in ((1, "single spans", 2.5), (2, "pairs", 3.5)):
        stream = Stream(_RandomStates(), _targets(arity), device="cuda")
        cuts = [LayerCut(probe, layer) for probe in ("cumulative", "layer") for layer in range(LAYERS)]
        _seconds(stream, cuts, (0, 1, 2), arity, STEPS)
        bank, one = (
            sorted(_milliseconds(stream, own, seeds, arity) for _ in range(RUNS))
            for own, seeds in ((cuts, (0, 1, 2)), (cuts[12:13], (0,)))
        )
        note = f"[{bank[0]:.2f} to {bank[-1]:.2f}; one probe {median(one):.2f}; {torch.cuda.get_device_name()}]"
        yield Bar(f"a step of 78 probes, {what}", median(bank), most, at_least=False, unit=" ms", note=note)


def _milliseconds(stream: Stream, cuts: list[LayerCut], seeds: tuple[int, ...], arity: int) -> float:
    short, long = (_seconds(stream, cuts, seeds, arity, steps) for steps in (STEPS, 5 * STEPS))
    return (long - short) / (4 * STEPS) * 1e3


def _seconds(stream: Stream, cuts: list[LayerCut], seeds: tuple[int, ...], arity: int, steps: int) -> float:
    probes = EdgeProbes(cuts, layers=LAYERS, width=WIDTH, labels=LABELS, arity=arity, seed=seeds)
    # Only one small validation at the end, so that mostly training is timed.
    valid = Stream(_RandomStates(), stream.targets.among(range(32)), device="cuda")
    group = ProbeGroup(probes, stream.targets, valid.targets, (stream, valid))
    schedule = Schedule(validate_every=steps, max_validations=1)
    torch.cuda.synchronize()
    start = time.perf_counter()
    train_probes([group], schedule, order_seed=0, what="timing")
    torch.cuda.synchronize()
    return time.perf_counter() - start


def _targets(arity: int) -> ProbeTargets:
    rng = np.random.default_rng(0)
    count = TEXTS * TARGETS
    starts = rng.integers(0, TOKENS - 3, size=(count, arity))
    spans = np.stack([starts, starts + rng.integers(1, 4, size=(count, arity))], axis=-1)
    gold = np.eye(LABELS, dtype=bool)[rng.integers(0, LABELS, count)]
    every = np.ones_like(gold)
    text = np.repeat(np.arange(TEXTS), TARGETS)
    labels = tuple(map(str, range(LABELS)))
    return ProbeTargets(labels, text, spans, spans, gold, every, every, np.zeros((count, 0), bool), TEXTS)
