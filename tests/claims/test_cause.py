"""Claims about what parts of a model are for: rarely clear without an effect, mostly clear with one."""

from __future__ import annotations

import pytest

from benchmarks.claims import Simulation, rates
from benchmarks.claims.cause import SIMULATIONS


@pytest.mark.parametrize("simulation", SIMULATIONS, ids=[f"{each.analysis}: {each.family}" for each in SIMULATIONS])
def test_claims_hold_their_level_and_find_what_is_planted(simulation: Simulation) -> None:
    alarms, found, _ = rates(simulation, 20)
    assert alarms <= 4  # P(more | 5 %) is .003
    assert found >= 13  # P(fewer | 90 %) is below .001
