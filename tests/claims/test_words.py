"""Claims about words hold their level and find what is planted; the short form of `python -m benchmarks claims`."""

from __future__ import annotations

import pytest

from benchmarks.claims import Simulation, rates
from benchmarks.claims.words import SIMULATIONS


@pytest.mark.parametrize("simulation", SIMULATIONS, ids=lambda each: f"{each.analysis}: {each.family}")
def test_nothing_planted_is_rarely_clear_and_what_is_planted_is_found(simulation: Simulation) -> None:
    alarms, found, _ = rates(simulation, 20)
    assert alarms <= 4  # P(more | 5 %) is .003
    assert found >= 13  # P(fewer | 90 %) is below .001
