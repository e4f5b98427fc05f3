"""Paired differences over documents: sums by unit, the test against scipy's, cross-fitting by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from lamina.analyses.legacy import DIFFERENCE, paired_difference, sign_flip_p, status_of_difference, surely_ahead
from lamina.stats.best import cross_fit
from lamina.stats.units import CHOOSING, SCORED, UnitSums, halve
from lamina.types import Text


def texts_of(documents: int, each: int = 2) -> list[Text]:
    return [Text(f"t{at}", ("word",), doc=f"d{at // each}") for at in range(documents * each)]


def test_intervals_of_documents_of_equal_size_are_students():
    differences = np.random.default_rng(0).normal(0.5, 2, size=(30, 3))
    found = paired_difference(differences, np.full(30, 4))
    theirs = ttest_1samp(differences / 4, 0)
    interval = theirs.confidence_interval()
    assert found.value == pytest.approx(differences.mean(0) / 4)
    assert found.low == pytest.approx(interval.low)
    assert found.high == pytest.approx(interval.high)


def test_documents_of_unequal_size_vary_as_the_jackknife_says():
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 6, size=25)
    differences = rng.binomial(counts, 0.6) - rng.binomial(counts, 0.3)
    found = paired_difference(differences, counts)
    held = counts > 0
    own, sizes = differences[held], counts[held]
    left_out = (own.sum() - own) / (sizes.sum() - sizes)
    error = np.sqrt((len(own) - 1) / len(own) * np.square(left_out - own.sum() / sizes.sum()).sum())
    assert found.value == pytest.approx(own.sum() / sizes.sum())
    assert (found.high - found.low) / 2 == pytest.approx(2.086 * error, rel=0.02), "Student's t for 20 documents"


@pytest.mark.parametrize(
    "differences",
    [
        [1] * 13 + [-1],
        [0, 1, 0, 2, -1, 3, 0, 1, 1, 2, 0, -1, 1, 2],
        [3, -2, 1, -1, 0, 2, -3, 1, -1, 2, -2, 1, 0, 0],
        [5, 4, 0, 1, 3, 2, 5, 1, 1, 0, 4, 2, 3, -1],
        [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ],
)
def test_p_is_the_share_of_flipped_signs_that_differ_as_much(differences: list[int]):
    flips = np.array(list(product([-1, 1], repeat=14)))
    exact = (np.abs(flips @ differences) >= abs(sum(differences))).mean()
    assert sign_flip_p(np.array(differences)) == pytest.approx(exact, rel=0.35)
    assert paired_difference(np.array(differences), np.full(14, 5)).p == sign_flip_p(np.array(differences))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_differences_need_not_be_whole_numbers(seed: int, scale: float):
    rng = np.random.default_rng(seed)
    differences = scale * rng.lognormal(0, 1, 14) * rng.choice([-1, 1], 14, p=[0.2, 0.8])
    flips = np.array(list(product([-1, 1], repeat=14)))
    exact = (np.abs(flips @ differences) >= abs(differences.sum()) * (1 - 1e-9)).mean()
    assert sign_flip_p(differences, whole=False) == pytest.approx(exact, rel=0.5)
    assert sign_flip_p(np.abs(differences), whole=False) == pytest.approx(2.0**-13)


def test_many_documents_that_differ_little_are_tested_as_student_tests_them():
    differences = np.random.default_rng(0).integers(-2, 4, size=(300, 4)) * np.array([1, 1, 0, -1])
    theirs = ttest_1samp(differences[:, [0, 1, 3]], 0).pvalue
    found = sign_flip_p(differences)
    assert found[2] == 1
    assert np.log10(found[[0, 1, 3]]) == pytest.approx(np.log10(theirs), rel=0.1)


def test_alike_documents_are_no_surer_than_flipping_their_signs():
    found = paired_difference(np.ones(5), np.ones(5))
    assert (found.value, found.low, found.high) == (1, 1, 1)
    assert 2 * 2**-5 <= found.p < 1.3 * 2 * 2**-5
    same = paired_difference(np.zeros(6), np.ones(6))
    assert same.p == 1


@pytest.mark.parametrize("counts", [[0, 0, 0], [0, 5, 0]])
def test_fewer_than_two_documents_have_no_test(counts: list[int]):
    found = paired_difference(np.array([0.0, 3.0, 0.0]), np.array(counts))
    assert np.isnan(found.p)
    assert np.isnan(found.low)
    assert found.value == pytest.approx(0.6) if sum(counts) else np.isnan(found.value)


def test_sums_are_by_document_and_do_not_depend_on_the_order_of_texts():
    texts = texts_of(6)
    halves = halve(texts, seed=0)
    one, other = UnitSums(2, halves), UnitSums(2, halves)
    for sums, order in ((one, texts), (other, texts[::-1])):
        for text in order:
            sums.add(np.array([1.0, float(text.id[1:])]), text)
    np.testing.assert_array_equal(one.values(), other.values())
    np.testing.assert_array_equal(one.weights(samples=7, seed=0), other.weights(samples=7, seed=0))
    assert one.values()[:, 0].tolist() == [2.0] * 6
    assert (one.total(CHOOSING) + one.total(SCORED)).tolist() == one.total().tolist() == [12, 66]


def test_many_documents_share_rows_but_never_halves():
    texts = texts_of(200, each=1)
    halves = halve(texts, seed=0)
    sums = UnitSums(1, halves, most=20)
    for text in texts:
        sums.add(np.array([1.0]), text)
    assert len(sums.values()) <= 20
    assert sums.total(CHOOSING).tolist() == sums.total(SCORED).tolist() == [100]


def test_nothing_counted_is_an_empty_table():
    sums = UnitSums(3, halve(texts_of(2), seed=0))
    assert sums.values().shape == (0, 3)
    assert sums.weights(samples=5, seed=0).shape == (5, 0)
    assert sums.total().tolist() == [0, 0, 0]


def test_each_half_is_scored_by_what_the_other_chose():
    #  Systems 0, 1, 2; the first half prefers 0, the second 2, and both together 2.
    hits = np.array([[3, 0, 1], [2, 1, 2], [0, 1, 3], [1, 0, 3]])
    found = cross_fit(hits, np.array([0, 0, 1, 1]))
    assert (found.system, found.agrees) == (2, False)
    assert found.hits.tolist() == [1, 2, 0, 1]
    alike = cross_fit(hits[[2, 3, 2, 3]], np.array([0, 0, 1, 1]))
    assert (alike.system, alike.agrees, alike.hits.tolist()) == (2, True, [3, 3, 3, 3])


def test_choosing_and_scoring_on_the_same_documents_flatters_and_cross_fitting_does_not():
    rng = np.random.default_rng(0)
    lucky, fitted = [], []
    for _ in range(200):
        hits = rng.binomial(10, 0.5, size=(20, 30))
        found = cross_fit(hits, np.arange(20) % 2)
        lucky.append(hits[:, found.system].mean() / 10)
        fitted.append(found.hits.mean() / 10)
    assert np.mean(lucky) > 0.56
    assert np.mean(fitted) == pytest.approx(0.5, abs=0.01)


def test_a_lead_is_sure_where_interval_and_corrected_test_say_so():
    rows = [(0.2, 0.1, 0.3, 0.01), (0.2, -0.1, 0.5, 0.01), (0.2, 0.1, 0.3, 0.05), (0.2, np.nan, np.nan, np.nan)]
    assert surely_ahead(pd.DataFrame(rows, columns=list(DIFFERENCE))).tolist() == [True, False, False, False]
    assert status_of_difference(-0.3, -0.1, 0.01) == "clear"
    assert status_of_difference(-0.01, 0.01, 1.0) == "null"
    assert status_of_difference(0.1, 0.3, float("nan")) == "open"
