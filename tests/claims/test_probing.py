"""Claims of probing hold their level and find what is planted: the short form of `benchmarks.claims`."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.claims import Simulation, rates
from benchmarks.claims.probing import SIMULATIONS, all_orders

DRAWS, MOST_ALARMS, LEAST_FOUND = 20, 4, 13


@pytest.mark.parametrize("simulation", SIMULATIONS, ids=lambda simulation: simulation.family)
def test_claims_hold_their_level_and_find_what_is_planted(simulation: Simulation) -> None:
    alarms, found, _ = rates(simulation, DRAWS)

    assert alarms <= MOST_ALARMS
    assert found >= LEAST_FOUND


def test_wrong_2_all_28_orders_of_eight_separated_tasks_are_clear() -> None:
    assert [all_orders(np.random.default_rng(number)) for number in range(5)] == [28] * 5
