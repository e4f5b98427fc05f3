"""Paired differences of scores whose counts differ."""

from __future__ import annotations

import numpy as np
import pytest

from lamina.stats import ratio_differences, sign_flip_family


def test_differences_of_ratios_add_up_to_the_difference_and_hold_their_level() -> None:
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(400):
        counts = rng.poisson(8, (2, 15)) + 1.0
        one, other = (np.stack([rng.binomial(each.astype(int), 0.6), each]) for each in counts)
        ahead, counted = ratio_differences(one, other)
        apart = one[0].sum() / one[1].sum() - other[0].sum() / other[1].sum()
        assert ahead.sum() / counted.sum() == pytest.approx(apart)
        alarms += sign_flip_family(ahead[:, None], counted).one().p < 0.05
    assert alarms <= 29
