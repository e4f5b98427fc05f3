"""The streamed bootstrap against its definition and against scipy; the order of texts does not matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap, poisson

from lamina.stats.bootstrap import StreamedBootstrap
from lamina.stats.units import weights_of


def summed(texts: np.ndarray, order: list[int] | None = None, *, samples: int = 50, seed: int = 0) -> StreamedBootstrap:
    sums = StreamedBootstrap(texts.shape[1], samples=samples, seed=seed)
    for at in range(len(texts)) if order is None else order:
        sums.add(texts[at], f"s{at}")
    return sums


def test_sums_are_the_sums_however_many_texts_there_are():
    texts = np.random.default_rng(0).random((200, 3))
    sums = summed(texts)
    assert sums.value == pytest.approx(texts.sum(0), rel=1e-5)
    assert sums.samples.mean(0) == pytest.approx(texts.sum(0), rel=0.05)


def test_intervals_of_a_mean_are_scipys():
    texts = np.random.default_rng(1).normal(5, 2, 400)
    sums = summed(np.stack([texts, np.ones(400)], axis=1), samples=4000)
    means = sums.samples[:, 0] / sums.samples[:, 1]
    expected = bootstrap((texts,), np.mean, n_resamples=4000, method="percentile", random_state=0).confidence_interval
    assert np.quantile(means, [0.025, 0.975]) == pytest.approx([expected.low, expected.high], abs=0.03)


def test_intervals_cover_the_true_mean_about_as_often_as_they_say():
    draw = np.random.default_rng(2)
    covered = 0
    for trial in range(200):
        texts = np.stack([draw.normal(1.0, 1.0, 60), np.ones(60)], axis=1)
        sums = summed(texts, samples=300, seed=trial)
        low, high = np.quantile(sums.samples[:, 0] / sums.samples[:, 1], [0.025, 0.975])
        covered += low <= 1.0 <= high
    assert 0.89 <= covered / 200 <= 0.985


def test_the_same_seed_gives_the_same_samples_and_another_gives_others():
    texts = np.ones((70, 1))
    assert np.array_equal(summed(texts, seed=3).samples, summed(texts, seed=3).samples)
    assert not np.array_equal(summed(texts, seed=3).samples, summed(texts, seed=4).samples)


@given(st.integers(1, 150), st.integers(0, 99), st.integers(0, 5))
def test_the_order_of_texts_changes_nothing_beyond_rounding(count: int, seed: int, own: int):
    texts = np.random.default_rng(seed).random((count, 2))
    order = np.random.default_rng(seed + 1).permutation(count).tolist()
    one, other = summed(texts, seed=own), summed(texts, order, seed=own)
    np.testing.assert_allclose(one.samples, other.samples, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(one.value, other.value, rtol=1e-9)


def test_looking_at_sums_on_the_way_changes_nothing():
    texts = np.random.default_rng(0).random((100, 2))
    looked_at, whole = StreamedBootstrap(2, samples=20, seed=0), summed(texts, samples=20)
    for at, values in enumerate(texts):
        looked_at.add(values, f"s{at}")
        assert looked_at.value.shape == (2,)
    np.testing.assert_allclose(looked_at.samples, whole.samples, rtol=1e-5)


def test_texts_of_one_key_are_drawn_together():
    whole, parts = (StreamedBootstrap(1, samples=50, seed=4) for _ in range(2))
    whole.add(np.array([3]), "a document")
    for value in (1, 2):
        parts.add(np.array([value]), "a document")
    np.testing.assert_array_equal(whole.samples, parts.samples)
    assert len(np.unique(whole.samples)) > 1


def test_weights_are_poisson_and_those_of_two_texts_are_unrelated():
    drawn = np.stack([weights_of(f"text {at}", samples=1000, seed=0) for at in range(200)])
    shares = np.bincount(drawn.astype(int).ravel(), minlength=6)[:6] / drawn.size
    assert shares == pytest.approx(poisson.pmf(range(6), 1.0), abs=0.004)
    assert drawn.var() == pytest.approx(1.0, abs=0.02)
    between = np.corrcoef(drawn)[np.triu_indices(200, 1)]
    assert np.abs(between).max() < 0.2
    assert between.mean() == pytest.approx(0, abs=0.002)


def test_weights_are_the_same_on_every_machine_and_in_every_version():
    assert weights_of("s1", samples=12, seed=0).tolist() == [2, 3, 4, 1, 2, 3, 1, 1, 1, 2, 3, 0]
    # Characters that are no text, as some corpora have them.
    assert weights_of("\ud800", samples=3, seed=0).shape == (3,)
