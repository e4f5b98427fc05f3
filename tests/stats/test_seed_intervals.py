"""Intervals of means over seeds: texts and seeds vary together, and 95 % means 95 %."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from lamina.stats.seeds import seed_interval, seed_ratio_interval

SIMULATED, SAMPLES, TEXTS, SEEDS = 1000, 200, 60, 5


def simulated(rng: np.random.Generator, spread: tuple[float, float], kinds: int) -> tuple[np.ndarray, np.ndarray]:
    """Means by seed, [seed, kind], and their bootstrap draws, [seed, sample, kind]; deviations of texts and seeds."""
    by_text, by_seed = spread
    shape = (SEEDS, TEXTS, kinds)
    values = by_text * rng.normal(size=(1, *shape[1:])) + by_seed * rng.normal(size=(SEEDS, 1, kinds))
    values = values + rng.normal(size=shape)
    weights = rng.poisson(1, (SAMPLES, TEXTS)).astype(float)
    drawn = np.einsum("bt,stk->sbk", weights / weights.sum(1, keepdims=True), values)
    return values.mean(1), drawn


@pytest.mark.parametrize("spread", [(2.0, 0.0), (1.0, 0.1), (0.5, 0.5), (0.0, 1.0)])
def test_a_mean_over_five_seeds_is_covered(spread: tuple[float, float]) -> None:
    """The bar of the issue: 93 to 97 % in 1,000 simulated draws."""
    rng, covered = np.random.default_rng(1), 0
    for _ in range(SIMULATED):
        values, drawn = simulated(rng, spread, 1)
        low, high = seed_interval(values[:, 0], drawn[:, :, 0], TEXTS)
        covered += low <= 0 <= high
    assert 930 <= covered <= 970


@pytest.mark.parametrize("spread", [(1.0, 0.1), (0.5, 0.5)])
def test_a_ratio_over_five_seeds_is_covered(spread: tuple[float, float]) -> None:
    """The true ratio is 2; its bottom is four to eight standard errors above 0."""
    rng, covered = np.random.default_rng(2), 0
    for _ in range(SIMULATED):
        values, drawn = simulated(rng, spread, 2)
        tops, bottoms = values[:, 0] + 2.4, values[:, 1] + 1.2
        low, high = seed_ratio_interval(tops, bottoms, (drawn[:, :, 0] + 2.4, drawn[:, :, 1] + 1.2), TEXTS)
        covered += not low > 2 and not high < 2
    assert 930 <= covered <= 970


def test_without_texts_that_vary_it_is_students() -> None:
    values = np.array([0.2, 0.5, 0.1, 0.9, 0.4, 0.6])
    still = np.repeat(values[:, None], 50, 1)
    expected = stats.t.interval(0.95, 5, values.mean(), stats.sem(values))

    assert seed_interval(values, still, 1000) == pytest.approx(expected)
    ones = np.ones_like(values)
    assert seed_ratio_interval(values, ones, (still, np.ones_like(still)), 1000) == pytest.approx(expected)


def test_seeds_that_agree_leave_the_interval_over_texts() -> None:
    rng = np.random.default_rng(0)
    drawn = np.tile(rng.normal(3, 0.1, 20_000), (5, 1))
    low, high = seed_interval(np.full(5, 3.0), drawn, 30)

    reach = stats.t.ppf(0.975, 29) * 0.1 * np.sqrt(30 / 29)
    assert (low, high) == pytest.approx((3 - reach, 3 + reach), abs=0.003)


def test_with_four_seeds_there_is_no_interval() -> None:
    values, drawn = np.arange(4.0), np.zeros((4, 10))

    assert np.isnan(seed_interval(values, drawn, 50)).all()
    assert np.isnan(seed_ratio_interval(values, values + 1, (drawn, drawn), 50)).all()


def test_a_ratio_whose_bottom_may_be_nothing_has_no_interval() -> None:
    tops, bottoms = np.ones(5), np.array([-1.0, 1.0, -1.0, 1.0, 0.5])
    still = tuple(np.repeat(each[:, None], 50, 1) for each in (tops, bottoms))

    assert np.isnan(seed_ratio_interval(tops, bottoms, (still[0], still[1]), 50)).all()
