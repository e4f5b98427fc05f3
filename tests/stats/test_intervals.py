"""Intervals of few units are wide enough."""

from __future__ import annotations

import numpy as np

from lamina.stats import Units, ratio_draws
from lamina.stats.intervals import column_intervals, widened_intervals


def test_widened_intervals_of_six_units_hold_the_mean_as_often_as_they_say() -> None:
    units = Units.of([f"d{number}" for number in range(6)], "document")
    values = np.random.default_rng(0).normal(0, 1, (6, 600))
    draws = ratio_draws(values, np.ones(6), units, samples=500, seed=0)
    plain, wider = column_intervals(draws), widened_intervals(values.mean(0), draws, 6)
    covered = [float(((low <= 0) & (high >= 0)).mean()) for low, high in (plain, wider)]
    assert covered[0] < 0.92
    assert 0.925 < covered[1] < 0.985


def test_one_unit_has_no_interval() -> None:
    low, high = widened_intervals(np.array([1.0, 1.0]), np.array([[0.5, 0.5], [1.5, 1.5]]), np.array([1, 2]))
    assert np.isnan([low[0], high[0]]).all()
    assert low[1] < 0.5
