"""The streamed bootstrap against its definition and against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import bootstrap

from lamina.analyses.resampling import StreamedBootstrap


def test_sums_are_the_sums_however_many_texts_there_are():
    rng = np.random.default_rng(0)
    texts = rng.random((200, 3))
    sums = StreamedBootstrap(3, samples=50, seed=0)
    for text in texts:
        sums.add(text)
    assert sums.value == pytest.approx(texts.sum(0), rel=1e-5)
    assert sums.samples.mean(0) == pytest.approx(texts.sum(0), rel=0.05)


def test_intervals_of_a_mean_are_scipys():
    rng = np.random.default_rng(1)
    texts = rng.normal(5, 2, 400)
    sums = StreamedBootstrap(2, samples=4000, seed=0)
    for text in texts:
        sums.add(np.array([text, 1.0]))
    means = sums.samples[:, 0] / sums.samples[:, 1]
    expected = bootstrap((texts,), np.mean, n_resamples=4000, method="percentile", random_state=0).confidence_interval
    assert np.quantile(means, [0.025, 0.975]) == pytest.approx([expected.low, expected.high], abs=0.03)


def test_the_same_seed_gives_the_same_samples():
    made = []
    for _ in range(2):
        sums = StreamedBootstrap(1, samples=10, seed=3)
        for _ in range(70):
            sums.add(np.ones(1))
        made.append(sums.samples)
    assert np.array_equal(*made)
