"""Claims about heads hold their level, in short; `python -m benchmarks claims` has 400 draws of them."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.claims import Simulation, rates
from benchmarks.claims.heads import SIMULATIONS, first_sentences_of_ewt
from lamina.stats.status import SURE


@pytest.mark.parametrize("simulation", SIMULATIONS, ids=[f"{each.analysis}: {each.family}" for each in SIMULATIONS])
def test_claims_hold_their_level_and_find_what_is_planted(simulation: Simulation) -> None:
    alarms, found, _ = rates(simulation, 20)
    assert alarms <= 4  # P(more | 5 %) is .003
    assert found >= 13  # P(fewer | 90 %) is below .001


def test_wrong_1_case_and_det_are_named_in_the_design_of_200_sentences_of_ewt() -> None:
    """13 documents and 6,912 tests: with Holm, none of them could be below .05 whatever the data."""
    found = first_sentences_of_ewt(np.random.default_rng(0))
    assert found["case"] < SURE
    assert found["det"] < SURE
