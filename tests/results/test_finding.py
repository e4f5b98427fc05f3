"""Findings: the tested contrast decides what may be said; each status is worded in one place."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.results.finding import (
    Finding,
    Source,
    best_in_words,
    finding,
    not_tested,
    number,
    read_finding,
    saved_finding,
)
from lamina.stats.status import Contrast, status_of

NUMBERS = st.floats(-2, 2)


def made(test: Contrast, **others: object) -> Finding:
    words = {
        "claim": "Head 2-1 finds objects",
        "whether": "head 2-1 finds objects",
        "absent": "Head 2-1 finds no objects",
        "contrast": "lead",
        "source": Source("best"),
    }
    return finding(**words | others, test=test)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("low", "high", "p", "status"),
    [
        (0.1, 0.3, 0.01, "clear"),
        (-0.3, -0.1, 0.01, "clear"),
        (0.1, 0.3, 0.2, "open"),
        (-0.1, 0.3, 0.01, "clear"),
        (-0.01, 0.01, 0.9, "null"),
        (0.001, 0.01, 0.001, "null"),
        (math.nan, 0.5, math.nan, "open"),
        (-math.inf, math.inf, math.nan, "open"),
    ],
)
def test_the_tested_contrast_decides(low: float, high: float, p: float, status: str) -> None:
    assert status_of(low, high, p) == status


@given(NUMBERS, NUMBERS, st.floats(0, 1))
def test_nothing_is_clear_without_a_small_p(one: float, other: float, p: float) -> None:
    low, high = sorted((one, other))
    assert (status_of(low, high, p) == "clear") <= (p < 0.05)


@pytest.mark.parametrize(
    ("test", "text"),
    [
        (Contrast(0.2, 0.1, 0.3, 0.01, 13), "Head 2-1 finds objects (lead .20 [.10, .30])."),
        (Contrast(0.2, -0.1, 0.5, 0.3, 13), "It is not known whether head 2-1 finds objects (lead .20 [-.10, .50])."),
        (Contrast(0.0, -0.01, 0.01, 0.9, 13), "Head 2-1 finds no objects (lead .00 [-.01, .01])."),
        (
            Contrast(0.2, -0.01, 0.41, 0.04, 13),
            "Head 2-1 finds objects (lead .20, p = .040; the interval, of a more cautious test, is [-.01, .41]).",
        ),
        # Without a lower end there is no interval to speak of.
        (Contrast(0.2, -math.inf, 0.41, 0.04, 13), "Head 2-1 finds objects (lead .20)."),
        (
            Contrast(0.2, math.nan, math.nan, math.nan, 5, 6),
            "5 documents are too few to test whether head 2-1 finds objects; at least 6 are needed.",
        ),
        (
            Contrast(0.2, math.nan, math.nan, math.nan, 1, 6),
            "1 document is too few to test whether head 2-1 finds objects; at least 6 are needed.",
        ),
    ],
)
def test_each_status_has_its_wording(test: Contrast, text: str) -> None:
    assert made(test).text == text


def test_what_was_not_tested_has_a_reason() -> None:
    found = not_tested("layer 3 is best", "2 of 7 probes had not converged")
    assert (found.status, found.p) == ("untested", None)
    assert found.text == "It was not tested whether layer 3 is best: 2 of 7 probes had not converged."


def test_a_finding_comes_back_as_it_was_saved() -> None:
    found = made(Contrast(0.2, 0.1, 0.3, 0.01, 13), importance=("answers", "localised"), note="Small sample.")
    assert read_finding(saved_finding(found)) == found
    assert saved_finding(found)["text"] == found.text


def test_important_claims_weigh_more() -> None:
    test = Contrast(0.2, 0.1, 0.3, 0.01, 13)
    weights = [made(test, importance=worth).weight for worth in (("answers",), ("beats control", "localised"), ())]
    assert weights == sorted(weights, reverse=True)


@pytest.mark.parametrize(
    ("among", "words"),
    [([1, 0, 0], "layer 4"), ([1, 1, 0], "layers 4 and 5"), ([1, 1, 1], ""), ([0, 0, 0], "")],
)
def test_a_set_of_best_layers_is_told_or_not(among: list[int], words: str) -> None:
    assert best_in_words([4, 5, 6], [bool(each) for each in among]) == words


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.9, ".90"), (-0.044, "-.04"), (-0.001, ".00"), (1.0, "1.00"), (12.345, "12.35"), (math.inf, "n/a"), (0, ".00")],
)
def test_numbers_are_short(value: float, shown: str) -> None:
    assert number(value) == shown


def test_rows_without_a_layer_are_none_of_a_layer() -> None:
    table = pd.DataFrame({"layer": pd.array([1, None], "Int64"), "value": [0.5, 0.25]})
    assert Source("revisions", {"layer": 1}).rows(table)["value"].tolist() == [0.5]
    assert Source("revisions", {"layer": None}).rows(table)["value"].tolist() == [0.25]
