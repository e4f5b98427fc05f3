"""Bootstrap draws: sums over texts that stream past, ratios of sums over units, draws kept with a result."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Float, Real
from scipy.stats import norm

from lamina.stats.intervals import TAILS
from lamina.stats.units import Units, weights_of

if TYPE_CHECKING:
    import torch

DRAWS = ("measure", "layer", "sample", "value")
"""Columns of `draws`: what pairs models whose measures are no sums over texts, or would be large text by text."""
_KEYS, _TEXTS = 128, 1024
"""Keys, and texts, whose sums are held until they are weighed together ..."""
_BUFFERED = 2**22
"""... and numbers in these sums: where there are many of them, fewer keys are held."""


class StreamedBootstrap:
    """Sums over texts, and the same sums over texts drawn with replacement, kept up to date text by text.

    Every text weighs Poisson(1) in every sample: the bootstrap of a stream, whose length is not known beforehand
    (Chamandy et al. 2012). The weights follow from the seed and the text's key alone, so that the order of texts
    changes nothing beyond rounding; texts of one key (a document's) are drawn together. Ratios of sums are means;
    take them of `value` and of `samples` alike.

    Example:
        >>> sums = StreamedBootstrap(2, samples=500, seed=0)
        >>> for text, hits in (("a", 1), ("b", 0), ("c", 1), ("d", 1)):
        ...     sums.add(np.array([hits, 1]), text)
        >>> sums.value.tolist(), sums.samples.shape
        ([3.0, 4.0], (500, 2))
    """

    def __init__(self, size: int, *, samples: int, seed: int) -> None:
        import torch

        self._seed = seed
        self._samples = torch.zeros(samples, size)
        self._value = torch.zeros(size, dtype=torch.float64)
        # Texts of one key are drawn together, so they are summed first.
        self._held = torch.zeros(max(8, min(_KEYS, _BUFFERED // size)), size, dtype=torch.float64)
        self._rows: dict[str, int] = {}
        self._texts = 0

    def add(self, values: Real[np.ndarray, " size"], key: str) -> None:
        """One text's part of every sum; `key` is what is drawn: the text's id, or its document's."""
        import torch

        self.add_all(torch.as_tensor(values)[None], [key])

    def add_all(self, values: torch.Tensor, keys: Sequence[str]) -> None:
        """Several texts' parts, [text, size]; they stay on the device that they are on, and so do the sums after it."""
        import torch

        self._move(values.device)
        most = len(self._held)
        for start in range(0, len(keys), most):
            some = keys[start : start + most]
            if len(self._rows.keys() | set(some)) > most or self._texts >= _TEXTS:
                self._weigh()
            rows = [self._rows.setdefault(key, len(self._rows)) for key in some]
            index = torch.tensor(rows, device=values.device)
            self._held.index_add_(0, index, values[start : start + most].double())
            self._texts += len(some)

    @property
    def value(self) -> Float[np.ndarray, " size"]:
        """The sums themselves."""
        self._weigh()
        return self._value.cpu().numpy()

    @property
    def samples(self) -> Float[np.ndarray, "sample size"]:
        """The sums over resampled texts."""
        self._weigh()
        return self._samples.cpu().numpy()

    def _move(self, device: torch.device) -> None:
        if self._held.device != device:
            self._samples, self._value, self._held = (
                tensor.to(device) for tensor in (self._samples, self._value, self._held)
            )

    def _weigh(self) -> None:
        if not self._rows:
            return
        import torch

        summed = self._held[: len(self._rows)]
        drawn = np.stack([weights_of(key, samples=len(self._samples), seed=self._seed) for key in self._rows])
        self._value += summed.sum(0)
        self._samples.addmm_(torch.from_numpy(drawn).to(summed.device).T, summed.float())
        summed.zero_()
        self._rows.clear()
        self._texts = 0


def ratio_draws(
    sums: Real[np.ndarray, " unit *kinds"],
    counts: Real[np.ndarray, " unit *counted"],
    units: Units,
    *,
    samples: int,
    seed: int,
) -> Float[np.ndarray, " sample *kinds"]:
    """Bootstrap draws of `sum(sums) / sum(counts)`; NaN where a sample draws nothing that is counted.

    Example:
        >>> units = Units.of([str(number) for number in range(50)], "text")
        >>> drawn = ratio_draws(np.arange(50.0), np.ones(50), units, samples=400, seed=0)
        >>> drawn.shape, bool(20 < drawn.mean() < 29)
        ((400,), True)
    """
    weights = units.weights(samples=samples, seed=seed).astype(float)
    top = np.tensordot(weights, np.asarray(sums, float), 1)
    bottom = np.tensordot(weights, np.asarray(counts, float), 1)
    bottom = np.broadcast_to(bottom.reshape(*bottom.shape, *[1] * (top.ndim - bottom.ndim)), top.shape)
    return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0)


def draws_table(drawn: Mapping[str, Float[np.ndarray, "sample layer"]], layers: Sequence[int]) -> pd.DataFrame:
    """Measures in every bootstrap sample, as a table that is kept with the result.

    Which texts a sample draws follows from the seed and the texts alone, so that sample 7 of one model and sample 7 of
    another are of the same texts: the difference of the two is a draw of the paired difference.

    Example:
        >>> draws_table({"entropy": np.array([[0.5, 0.25]])}, [1, 2]).values.tolist()
        [['entropy', 1, 0, 0.5], ['entropy', 2, 0, 0.25]]
    """
    tables = []
    for measure, values in drawn.items():
        layer, sample = np.indices(values.T.shape)
        numbers = {"layer": np.asarray(layers, np.int16)[layer.ravel()], "sample": sample.ravel().astype(np.int32)}
        tables.append(pd.DataFrame({"measure": measure, **numbers, "value": values.T.ravel().astype(np.float32)}))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(DRAWS))


def normal_draws(
    value: float, low: float, high: float, *, samples: int, key: str, seed: int
) -> Float[np.ndarray, " sample"]:
    """Draws around a number of which only its 95 % interval is known.

    Those of two numbers are independent: of numbers that rise and fall together, as of two models on the same texts, a
    difference gets an interval that is too wide.

    Args:
        value: the number.
        low: lower end of its interval.
        high: upper end.
        samples: how many.
        key: what the number is of; the same key gives the same draws.
        seed: of all draws.

    Example:
        >>> drawn = normal_draws(0.5, 0.4, 0.6, samples=4000, key="layer 3", seed=0)
        >>> [round(float(np.quantile(drawn, share)), 1) for share in (0.025, 0.975)]
        [0.4, 0.6]
    """
    digest = hashlib.blake2b(f"{seed}:{key}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    rng = np.random.default_rng(int.from_bytes(digest, "big"))
    return value + rng.standard_normal(samples) * (high - low) / (2 * norm.ppf(TAILS[1]))
