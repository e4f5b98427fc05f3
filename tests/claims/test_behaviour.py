"""Families of claims about behaviour: rarely clear without an effect, mostly clear with one."""

from __future__ import annotations

import pytest

from benchmarks.claims import Simulation, rates
from benchmarks.claims.behaviour import SIMULATIONS


@pytest.mark.parametrize("simulation", SIMULATIONS, ids=lambda each: f"{each.analysis}: {each.family}")
def test_claims_hold_their_level_and_find_what_is_planted(simulation: Simulation) -> None:
    alarms, found, _ = rates(simulation, 40)
    assert alarms <= 6
    assert found >= 28
