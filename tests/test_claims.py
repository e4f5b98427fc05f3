"""Claims hold their level and find what is planted: the short form of `python -m benchmarks claims`."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.claims import Simulation, rates, simulations
from benchmarks.claims.heads import first_sentences_of_ewt
from benchmarks.claims.probing import all_orders
from lamina.stats.status import SURE

DRAWS = 20
MOST_ALARMS = 4
"""P(more | 5 %) is .003."""
LEAST_FOUND = 13
"""P(fewer | 90 %) is below .001."""


@pytest.mark.parametrize("simulation", simulations(), ids=lambda simulation: ": ".join(simulation[:2]))
def test_claims_hold_their_level_and_find_what_is_planted(simulation: Simulation) -> None:
    alarms, found, _ = rates(simulation, DRAWS)
    assert alarms <= MOST_ALARMS
    assert found >= LEAST_FOUND


def test_wrong_1_case_and_det_are_named_in_the_design_of_200_sentences_of_ewt() -> None:
    """13 documents and 6,912 tests: with Holm, none of them could be below .05 whatever the data."""
    found = first_sentences_of_ewt(np.random.default_rng(0))
    assert found["case"] < SURE
    assert found["det"] < SURE


def test_wrong_2_all_28_orders_of_eight_separated_tasks_are_clear() -> None:
    assert [all_orders(np.random.default_rng(number)) for number in range(5)] == [28] * 5
