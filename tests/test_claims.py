"""Claims hold their level and find what is planted: the short form of `python -m benchmarks claims`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from benchmarks.claims import Simulation, draws_of, simulations
from benchmarks.claims.heads import first_sentences_of_ewt
from benchmarks.claims.probing import all_orders
from lamina.stats.status import SURE

DRAWS = 12
MOST_ALARMS = 3
"""P(more | 5 %) is .002; alarms in 40 % of draws are noticed in 77 % of cases, in 60 % of draws in 98 %."""
LEAST_FOUND = 7
"""P(fewer | 90 %) is below .001; a claim that is found in 30 % of draws is noticed in 96 % of cases."""


@pytest.mark.parametrize("simulation", simulations(), ids=lambda simulation: ": ".join(simulation[:2]))
def test_claims_hold_their_level_and_find_what_is_planted(simulation: Simulation) -> None:
    assert not at_least(MOST_ALARMS + 1, draws_of(simulation, DRAWS, planted=False))
    assert at_least(LEAST_FOUND, draws_of(simulation, DRAWS, planted=True))


def at_least(needed: int, draws: Iterator[bool]) -> bool:
    """Whether so many of the draws are clear: no further ones are made once that is certain."""
    clear = 0
    for left, one in zip(reversed(range(DRAWS)), draws, strict=False):
        clear += one
        if clear >= needed or clear + left < needed:
            break
    return clear >= needed


def test_counting_ends_where_no_further_draw_could_change_the_answer() -> None:
    draws = iter([True] * 3 + [False] * 9)
    assert at_least(3, draws)
    assert len(list(draws)) == 9
    draws = iter([False] * 8 + [True] * 4)
    assert not at_least(5, draws)
    assert len(list(draws)) == 4


def test_wrong_1_case_and_det_are_named_in_the_design_of_200_sentences_of_ewt() -> None:
    """13 documents and 6,912 tests: with Holm, none of them could be below .05 whatever the data."""
    found = first_sentences_of_ewt(np.random.default_rng(0))
    assert found["case"] < SURE
    assert found["det"] < SURE


def test_wrong_2_all_28_orders_of_eight_separated_tasks_are_clear() -> None:
    assert [all_orders(np.random.default_rng(number)) for number in range(5)] == [28] * 5
