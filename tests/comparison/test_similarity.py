"""CKA: against the formula with matrices of rows by rows, by hand, and what must not change it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st

from lamina.comparison.similarity import (
    CkaSums,
    HsicMoments,
    LayerSimilarity,
    LeaveOneOut,
    hsic,
    jackknife_draws,
    leave_out,
    over_models,
)
from lamina.stats import interval


def unbiased_hsic(k: np.ndarray, m: np.ndarray) -> float:
    """Song et al. (2012), equation 5, on kernel matrices."""
    n = len(k)
    k, m = (each - np.diag(np.diag(each)) for each in (k, m))
    ones = np.ones(n)
    trace = np.trace(k @ m)
    whole = ones @ k @ ones * (ones @ m @ ones) / ((n - 1) * (n - 2))
    return (trace + whole - 2 / (n - 2) * ones @ k @ m @ ones) / (n * (n - 3))


def gram_cka(x: torch.Tensor, y: torch.Tensor) -> float:
    k, m = (each.double().numpy() @ each.double().numpy().T for each in (x, y))
    return unbiased_hsic(k, m) / np.sqrt(unbiased_hsic(k, k) * unbiased_hsic(m, m))


def drawn(seed: int, rows: int, width: int) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def test_by_hand():
    # K without its diagonal has 1 at (0, 1) alone: trace 2, sum 2, sum of its square 2, four rows.
    x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    assert hsic(HsicMoments.of(x, x)) == pytest.approx((2 + 2 * 2 / 6 - 2 / 2 * 2) / 4)


@given(st.integers(0, 999), st.integers(5, 30), st.integers(1, 8), st.integers(1, 8))
def test_sums_say_what_kernel_matrices_say(seed, rows, wide, other):
    x = drawn(seed, rows, wide) + 3
    y = x @ drawn(seed + 1, wide, other) + drawn(seed + 2, rows, other)
    k, m = (each.numpy() @ each.numpy().T for each in (x, y))
    assert hsic(HsicMoments.of(x, y)) == pytest.approx(unbiased_hsic(k, m), rel=1e-8, abs=1e-8)
    assert CkaSums.of(x, y).cka() == pytest.approx(gram_cka(x, y), nan_ok=True, rel=1e-6, abs=1e-8)


@given(st.integers(0, 999), st.floats(0.1, 10), st.floats(-3, 3))
def test_rotation_scale_shift_and_order_of_sides_do_not_matter(seed, scale, shift):
    x, y = drawn(seed, 40, 5), drawn(seed + 1, 40, 5) + drawn(seed, 40, 5)
    turn = torch.linalg.qr(drawn(seed + 2, 5, 5))[0]
    value = CkaSums.of(x, y).cka()
    assert CkaSums.of(x, scale * y @ turn + shift).cka() == pytest.approx(value, rel=1e-6, abs=1e-8)
    assert CkaSums.of(y, x).cka() == pytest.approx(value)
    assert CkaSums.of(x, scale * x @ turn + shift).cka() == pytest.approx(1)


@given(st.integers(0, 999), st.integers(1, 19))
def test_parts_add_up_and_are_taken_off_again(seed, cut):
    x, y = drawn(seed, 20, 4), drawn(seed + 1, 20, 3)
    whole, first, rest = (CkaSums.of(x[part], y[part]) for part in (slice(None), slice(cut), slice(cut, None)))
    assert (first + rest).cka() == pytest.approx(whole.cka())
    assert hsic((whole - first).xy) == pytest.approx(hsic(rest.xy), nan_ok=True, abs=1e-9)


def test_few_words_do_not_make_spaces_alike():
    values = [CkaSums.of(drawn(seed, 30, 100), drawn(seed + 500, 30, 100)).cka() for seed in range(200)]
    x, y = (drawn(seed, 30, 100) - drawn(seed, 30, 100).mean(0) for seed in (0, 500))
    plain = (x.T @ y).norm() ** 2 / (x.T @ x).norm() / (y.T @ y).norm()
    assert np.mean(values) == pytest.approx(0, abs=0.01)
    assert plain > 0.7


def test_the_interval_covers_the_value_of_many_words():
    def both(seed: int, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = drawn(seed, rows, 6)
        return x, x + drawn(seed + 10_000, rows, 6)

    truth = CkaSums.of(*both(77, 100_000)).cka()
    inside = 0
    for seed in range(100):
        x, y = both(seed, 400)
        groups = [CkaSums.of(*part) for part in zip(x.split(20), y.split(20), strict=True)]
        whole = leave_out(groups)
        low, high = interval(jackknife_draws(whole, samples=1000, seed=seed))
        assert low < whole.value < high
        inside += low <= truth <= high
    assert inside / 100 == pytest.approx(0.95, abs=0.04)


def test_what_has_no_spread_has_no_similarity():
    flat = torch.ones(10, 3)
    assert np.isnan(CkaSums.of(flat, drawn(0, 10, 3)).cka())
    few = leave_out([CkaSums.of(drawn(0, 3, 3), drawn(1, 3, 3))])
    assert np.isnan(few.value)
    assert np.isnan(jackknife_draws(few, samples=10, seed=0)).all()


def test_draws_are_the_jackknifes_and_from_five_models_on_over_models_too():
    groups, models = 0.01 * drawn(0, 20, 1).numpy()[:, 0], np.array([0.5, 0.52, 0.6, 0.44, 0.54])
    every = [
        LayerSimilarity(value, jackknife_draws(LeaveOneOut(value, value + groups), samples=100_000, seed=0), 0.3)
        for value in models
    ]
    by_text, by_seed = 19 * groups.var(), models.var(ddof=1) / 5
    # With fewer models, what they differ by says too little: the interval holds for these models.
    few = over_models(every[:4])
    low, high = interval(few.draws)
    assert few.value == pytest.approx(models[:4].mean())
    assert high - low == pytest.approx(2 * scipy.stats.t.ppf(0.975, 19) * by_text**0.5, rel=0.02)
    many = over_models(every)
    # Student's t of four degrees of freedom has twice the variance, of nineteen 19 / 17.
    assert many.draws.std() ** 2 == pytest.approx(by_text * 19 / 17 + by_seed * 2, rel=0.1)
    assert many.baseline == pytest.approx(0.3)
