"""What TensorFloat-32 does to scores: probes trained as on a GPU, once with its narrower products and once without.

A GPU's matrix units round the factors of a product to 11 significant bits and add in float32. Here factors are rounded
the same way on a CPU, with the same gradients and batches that a GPU has, so that nothing else differs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

import lamina
from benchmarks.bars import Bar
from lamina.probes.streams import SpanBounds, Stream
from lamina.results import Result

TASKS = ("pos", "dep")
MOST = 0.002


def bars() -> Iterator[Bar]:
    """The largest difference of a score, for each task."""
    with tempfile.TemporaryDirectory() as store, patch.object(Stream, "_spans", _bounds):
        # Apart, so that neither finds the other's probes.
        exact = _probed(f"{store}/exact")
        with _narrow_products():
            narrow = _probed(f"{store}/narrow")
    keys = ["task", "probe", "of", "layer", "seed", "metric"]
    one, other = (each.tables["scores"].set_index(keys)["value"] for each in (exact, narrow))
    apart = (one - other).abs().dropna()
    for task in TASKS:
        own = apart.xs(task)
        told = f"mean {own.mean():.4f}; means over layers at most {_means(one, other, task):.4f} apart"
        note = f"[{len(own)} scores; {told}]"
        yield Bar(f"{task}: score by narrower products", float(own.max()), MOST, at_least=False, note=note)


def _probed(store: str) -> Result:
    settings: dict[str, Any] = {"tasks": list(TASKS), "seeds": 1, "schedule": "train_texts=1500", "samples": 20}
    return lamina.probe("minilm", "ewt", **settings, store=store, device="cpu")


def _means(one: Any, other: Any, task: str) -> float:
    """The largest difference between means over the layers."""
    first, second = (each.xs(task).groupby(["probe", "of", "metric"]).mean() for each in (one, other))
    return float((first - second).abs().max())


def _bounds(_stream: Stream, bounds: Any) -> tuple[SpanBounds, ...]:
    """Spans as a GPU pools them."""
    return tuple(SpanBounds(torch.from_numpy(bounds[:, span].copy())) for span in range(bounds.shape[1]))


@contextmanager
def _narrow_products() -> Iterator[None]:
    with (
        patch.object(torch, "bmm", _narrowed(torch.bmm, 0)),
        patch.object(torch, "baddbmm", _narrowed(torch.baddbmm, 1)),
        patch.object(Tensor, "__matmul__", _narrowed(Tensor.__matmul__, 0)),
    ):
        yield


def _narrowed(product: Callable[..., Tensor], first: int) -> Callable[..., Tensor]:
    """A product whose two factors, from argument `first` on, are rounded."""

    def narrow(*given: Tensor, **settings: Any) -> Tensor:
        factors = [_rounded(each) if first <= at < first + 2 else each for at, each in enumerate(given)]
        return product(*factors, **settings)

    return narrow


def _rounded(factor: Tensor) -> Tensor:
    """To 11 significant bits, the nearest."""
    if factor.dtype != torch.float32:
        return factor
    bits = factor.detach().contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)
