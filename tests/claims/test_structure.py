"""Claims of trees, order and phases hold their level and find what is planted: the short form of the benchmark."""

from __future__ import annotations

import pytest

from benchmarks.claims import Simulation, rates
from benchmarks.claims.structure import SIMULATIONS

DRAWS, MOST_ALARMS, LEAST_FOUND = 20, 4, 13


@pytest.mark.parametrize("simulation", SIMULATIONS, ids=lambda simulation: simulation.family)
def test_claims_hold_their_level_and_find_what_is_planted(simulation: Simulation) -> None:
    alarms, found, _ = rates(simulation, DRAWS)

    assert alarms <= MOST_ALARMS
    assert found >= LEAST_FOUND
