"""Intervals of sums over texts that stream past: memory does not grow with the corpus."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Real

_TOGETHER = 64
"""Texts weighed at a time."""


class StreamedBootstrap:
    """Sums over texts, and the same sums over texts drawn with replacement, kept up to date text by text.

    Every text weighs Poisson(1) in every sample: the bootstrap of a stream, whose length nobody knows beforehand
    (Chamandy et al. 2012). Ratios of sums are means; take them of `value` and of `samples` alike.

    Example:
        >>> sums = StreamedBootstrap(2, samples=500, seed=0)
        >>> for hits in (1, 0, 1, 1):
        ...     sums.add(np.array([hits, 1]))
        >>> sums.value.tolist(), sums.samples.shape
        ([3.0, 4.0], (500, 2))
    """

    def __init__(self, size: int, *, samples: int, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._samples = np.zeros((samples, size), np.float32)
        self._value = np.zeros(size)
        self._held: list[np.ndarray] = []

    def add(self, values: Real[np.ndarray, " size"]) -> None:
        """One text's part of every sum."""
        self._held.append(np.asarray(values, np.float32))
        if len(self._held) == _TOGETHER:
            self._weigh()

    @property
    def value(self) -> Float[np.ndarray, " size"]:
        """The sums themselves."""
        self._weigh()
        return self._value

    @property
    def samples(self) -> Float[np.ndarray, "sample size"]:
        """The sums over resampled texts."""
        self._weigh()
        return self._samples

    def _weigh(self) -> None:
        if not self._held:
            return
        held = np.stack(self._held)
        self._held.clear()
        weights = self._rng.poisson(1.0, (len(self._samples), len(held))).astype(np.float32)
        self._value += held.sum(0, dtype=float)
        self._samples += weights @ held
