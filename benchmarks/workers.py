"""Two workers of one thread each against one, on EWT dev with minilm; and how far apart their states are."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.bars import Bar
from lamina.activations import ActivationStore, StoredActivations
from lamina.activations.workers import ProcessEngine, RayEngine, deal
from lamina.corpora import load_corpus
from lamina.models import Encoder, load_encoder
from lamina.types import Text

WARM_UP = 16
"""Texts that every worker encodes before the clock starts."""


def bars() -> Iterator[Bar]:
    """The ratio of two workers to one, of each engine, without the time that workers need to start."""
    threads = torch.get_num_threads()
    # What an engine divides among its workers: one each, whatever their number.
    encoder, texts = load_encoder("minilm", device="cpu"), list(load_corpus("ewt", split="dev"))
    for name, engine in (("gpus", ProcessEngine), ("ray", RayEngine)):
        with tempfile.TemporaryDirectory() as folder:
            seconds, stored = [], []
            for workers in (1, 2):
                torch.set_num_threads(workers)
                took, read = _encode(encoder, texts, engine(workers), Path(folder) / str(workers))
                seconds.append(took)
                stored.append(read)
            note = f"[{seconds[0]:.1f} s and {seconds[1]:.1f} s; 1.7 is hoped for on two idle cores]"
            yield Bar(f"--engine {name}, 2 workers / 1 worker", seconds[0] / seconds[1], 1.0, at_least=True, note=note)
            apart = max(_apart(*(each.load(at) for each in stored)) for at in range(len(texts)))
            yield Bar(f"--engine {name}, largest difference of a vector / its norm", apart, 1e-3, at_least=False)
    torch.set_num_threads(threads)


def _encode(
    encoder: Encoder, texts: list[Text], engine: ProcessEngine | RayEngine, root: Path
) -> tuple[float, StoredActivations]:
    """The seconds from when every worker has encoded some texts, and what is stored."""
    store = ActivationStore.of(encoder, root)
    with engine.crew(encoder, store) as crew:
        deal(texts[: WARM_UP * crew.size], crew, None, _unseen)
        start = time.perf_counter()
        deal(texts, crew, len(texts), _unseen)
        took = time.perf_counter() - start
    return took, store.open(texts)


def _unseen(by: float = 1, note: str | None = None) -> None:
    """Progress without output."""


def _apart(one: torch.Tensor, other: torch.Tensor) -> float:
    one, other = one.float(), other.float()
    return float(((one - other).norm(dim=-1) / one.norm(dim=-1)).max())
