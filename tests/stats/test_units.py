"""Units: their sums, weights and halves; paired differences over them; cross-fitting by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from lamina.stats.best import cross_fit
from lamina.stats.family import paired_difference
from lamina.stats.units import CHOOSING, SCORED, Units, UnitSums, halve, weights_of
from lamina.types import Text


def texts_of(documents: int, each: int = 2) -> list[Text]:
    return [Text(f"t{at}", ("word",), doc=f"d{at // each}") for at in range(documents * each)]


def test_units_are_sorted_and_their_weights_follow_from_name_and_seed():
    units = Units.of(["b", "a", "b"], "document")
    assert (units.names, units.owner) == (("a", "b"), (1, 0, 1))
    np.testing.assert_array_equal(units.weights(samples=9, seed=3)[:, 1], weights_of("b", samples=9, seed=3))
    assert units.sums(np.array([[1.0, 2], [4, 8], [16, 32]])).tolist() == [[4, 8], [17, 34]]


def test_documents_are_units_where_there_are_several():
    assert Units.of_texts(texts_of(3)).kind == "document"
    one = Units.of_texts(texts_of(1))
    assert (one.kind, len(one)) == ("text", 2)


def test_a_paired_interval_covers_and_is_close_to_students():
    inside, widths = 0, []
    for seed in range(200):
        differences = np.random.default_rng(seed).normal(0.5, 2, 20)
        found = paired_difference(differences, np.full(20, 4))
        inside += found.low <= 0.5 / 4 <= found.high
        theirs = ttest_1samp(differences / 4, 0).confidence_interval()
        widths.append((found.high - found.low) / (theirs.high - theirs.low))
    assert 180 <= inside <= 198
    assert 0.95 < np.mean(widths) < 1.05


@pytest.mark.parametrize("counts", [[0, 0, 0], [0, 5, 0]])
def test_fewer_than_two_documents_have_no_test(counts: list[int]):
    found = paired_difference(np.array([0.0, 3.0, 0.0]), np.array(counts))
    assert np.isnan(found.p)
    assert found.estimate == pytest.approx(0.6) if sum(counts) else np.isnan(found.estimate)


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
