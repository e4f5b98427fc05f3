"""Findings: the interval decides what may be said, and how it is said."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.analyses.legacy import finding, status_of
from lamina.findings import number

NUMBERS = st.floats(-2, 2)


@pytest.mark.parametrize(
    ("low", "high", "against", "status"),
    [
        (0.89, 0.91, 0.51, "clear"),
        (0.40, 0.45, 0.51, "clear"),
        (0.40, 0.70, 0.51, "open"),
        (0.50, 0.52, 0.51, "null"),
        (0.515, 0.525, 0.51, "null"),
        (math.nan, 0.5, 0.4, "open"),
        (0.4, 0.5, math.nan, "open"),
    ],
)
def test_the_interval_decides(low: float, high: float, against: float, status: str) -> None:
    assert status_of(low, high, against) == status


@given(NUMBERS, NUMBERS, NUMBERS)
def test_what_holds_the_comparison_is_never_clear(one: float, other: float, against: float) -> None:
    low, high = sorted((one, other))
    status = status_of(low, high, against)
    assert (status == "clear") <= (not low <= against <= high)
    if low <= against <= high:
        assert status in ("open", "null")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.9, ".90"), (-0.044, "-.04"), (-0.001, ".00"), (1.0, "1.00"), (12.345, "12.35"), (math.inf, "n/a"), (0, ".00")],
)
def test_numbers_are_short(value: float, shown: str) -> None:
    assert number(value) == shown


def test_a_finding_carries_its_numbers() -> None:
    made = finding("F1 {number}; the twin reaches {against}.", 0.9, 0.89, 0.91, 0.51)
    assert made.text == "F1 .90 [.89, .91]; the twin reaches .51."
    assert (made.status, made.value, made.low, made.high, made.against) == ("clear", 0.9, 0.89, 0.91, 0.51)
