"""Families of contrasts: against brute force, other programs' numbers, and simulations of the null."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from lamina.stats import (
    bootstrap_family,
    chance_family,
    permutation_family,
    random_signs,
    sign_flip_family,
    sign_flip_strata,
    status_of,
)


def _by_brute_force(differences: np.ndarray) -> np.ndarray:
    """Step-down max-T as it is defined: every flip, every subset, nothing shared."""
    units, members = differences.shape
    statistic = differences.sum(0) / np.sqrt((differences**2).sum(0))
    order = np.argsort(-np.abs(statistic), kind="stable")
    p = np.zeros(members)
    flips = list(product((1, -1), repeat=units))
    for rank, member in enumerate(order):
        rest = order[rank:]
        reached = 0
        for signs in flips:
            flipped = np.array(signs) @ differences[:, rest] / np.sqrt((differences[:, rest] ** 2).sum(0))
            reached += np.abs(flipped).max() >= abs(statistic[member]) - 1e-9
        p[member] = reached / len(flips)
    p[order] = np.maximum.accumulate(p[order])
    return p


@pytest.mark.parametrize("units", [6, 8])
def test_step_down_equals_brute_force(units: int) -> None:
    differences = np.random.default_rng(units).normal([0.0, 0.5, 1.0, 2.0], 1, (units, 4))
    found = sign_flip_family(differences, np.ones(units))
    np.testing.assert_allclose(found.p, _by_brute_force(differences), atol=1e-12)


def test_without_the_thing_a_unit_counts_as_zero() -> None:
    differences = np.array([1.0, 2, 1, 1, 2, 1, 0, 0])[:, None]
    counts = np.array([2, 4, 2, 2, 4, 2, 0, 0])[:, None]
    found = sign_flip_family(differences, counts)
    without = sign_flip_family(differences[:6], counts[:6])
    assert found.p == pytest.approx(without.p)
    assert found.estimate == pytest.approx(0.5)
    assert found.units.tolist() == [6]


@pytest.mark.parametrize(("units", "needed"), [(3, 6), (5, 6), (6, 0)])
def test_fewer_than_six_units_are_untested(units: int, needed: int) -> None:
    found = sign_flip_family(np.ones((units, 1)), np.ones(units)).one()
    assert found.needed == needed
    assert np.isnan(found.p) == (needed > 0)
    assert status_of(found.low, found.high, found.p, needed=found.needed) == ("untested" if needed else "clear")


def test_few_units_of_unequal_size_are_untested_too() -> None:
    found = sign_flip_family(np.array([[-17.0], [-15.0]]), np.ones(2)).one()
    assert found.needed == 6
    assert np.isnan(found.p)


@pytest.mark.parametrize("alternative", ["two-sided", "greater"])
def test_five_units_of_unequal_size_are_untested_too(alternative: str) -> None:
    sizes = np.arange(1.0, 6)
    found = sign_flip_family(sizes[:, None] * np.ones(3), sizes, alternative=alternative)  # type: ignore[arg-type]
    assert (found.needed == 6).all()
    assert np.isnan(found.p).all()


def test_a_rare_thing_among_common_ones_is_untested_not_absent() -> None:
    rng = np.random.default_rng(0)
    differences, counts = rng.normal(0, 1, (13, 200)), np.ones((13, 200))
    differences[4:, 0] = counts[4:, 0] = 0
    differences[:4, 0] = 1
    found = sign_flip_family(differences, counts)
    assert found.needed[0] > 4
    assert np.isnan(found.p[0])
    assert (found.needed[1:] == 0).all()


def test_the_smallest_reachable_p_does_not_depend_on_how_many_are_compared() -> None:
    rng = np.random.default_rng(1)
    differences = rng.normal(0, 1, (13, 2000))
    differences[:, 0] = 1 + rng.normal(0, 0.05, 13)
    assert sign_flip_family(differences, np.ones(13)).p[0] < 0.05


@given(seed=st.integers(0, 10_000), units=st.integers(6, 20), members=st.integers(1, 6))
def test_adjusted_p_is_monotone_and_agrees_with_the_interval(seed: int, units: int, members: int) -> None:
    rng = np.random.default_rng(seed)
    differences = rng.normal(rng.normal(0, 1, members), 1, (units, members))
    found = sign_flip_family(differences, np.ones(units))
    statistic = np.abs(differences.sum(0)) / np.sqrt((differences**2).sum(0))
    order = np.argsort(-statistic)
    assert (np.diff(found.p[order]) >= 0).all()
    assert ((found.low <= found.estimate) & (found.estimate <= found.high)).all()
    # The interval inverts the single-step test, so only the step-down p can be surer.
    excludes = (found.low > 0) | (found.high < 0)
    assert not (excludes & (found.p >= 0.05)).any()
    assert excludes[order[0]] == (found.p[order[0]] < 0.05)


@given(seed=st.integers(0, 10_000))
def test_order_and_scale_of_members_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    differences = rng.normal(0.3, 1, (9, 5))
    order = rng.permutation(5)
    found = sign_flip_family(differences, np.ones(9))
    other = sign_flip_family(differences[:, order] * 7.5, np.ones(9))
    np.testing.assert_allclose(found.p[order], other.p)


def _alarms(draws: int, one: object) -> int:
    return sum(bool(one(np.random.default_rng(number))) for number in range(draws))  # type: ignore[operator]


def test_nothing_planted_is_rarely_clear() -> None:
    def alarm(rng: np.random.Generator) -> bool:
        sizes = rng.integers(5, 40, 13)
        differences = rng.binomial(sizes[:, None], 0.4, (13, 50)) - rng.binomial(sizes[:, None], 0.4, (13, 50))
        return bool((sign_flip_family(differences, sizes).p < 0.05).any())

    assert _alarms(200, alarm) <= 18  # P(more | 5 %) is .006


def test_bootstrap_family_holds_its_level_and_finds_what_is_planted() -> None:
    def test(rng: np.random.Generator, planted: float) -> np.ndarray:
        data = rng.normal([planted, 0, 0, 0, 0], 1, (40, 5))
        weights = rng.multinomial(40, np.full(40, 1 / 40), 500) / 40
        return bootstrap_family(data.mean(0), weights @ data, 40).p

    assert _alarms(200, lambda rng: (test(rng, 0) < 0.05).any()) <= 18
    assert _alarms(50, lambda rng: test(rng, 0.8)[0] < 0.05) >= 45


def test_bootstrap_draws_that_do_not_vary_have_no_p() -> None:
    found = bootstrap_family(np.array([1.0, 0.5]), np.ones((100, 2)) * [1.0, 0.5], 50)
    assert np.isnan(found.p).all()
    assert np.isnan(found.low).all()


def test_permutations_are_adjusted_together() -> None:
    rng = np.random.default_rng(0)
    p = permutation_family(np.array([6.0, 1.0, 0.0]), rng.normal(0, 1, (999, 3)))
    assert p[0] == pytest.approx(0.001)
    assert p[1] > 0.3
    assert permutation_family(np.array([1.0]), np.ones((99, 1))).tolist() != [0.01]


# mne.stats.permutation_t_test(MNE_DATA, n_permutations="all") of mne 1.13.2: single-step max-T over all flips.
MNE_DATA = [
    [0.0, 0.7, 0.63, 0.41], [-0.45, -0.59, 0.96, 2.64], [-0.49, -0.22, 1.39, 1.66], [0.11, -0.53, 0.87, 2.0],
    [-1.34, -0.06, -1.0, 0.01], [-1.84, 0.16, -0.37, 1.57], [0.16, 0.21, -1.62, 0.76], [-0.05, 0.51, -0.63, 0.82],
    [-0.98, -0.41, 1.96, 0.49], [-0.03, 1.28, 0.32, 1.19],
]  # fmt: skip
MNE_P = [0.174168, 0.964775, 0.937377, 0.003914]


def test_max_t_agrees_with_mne() -> None:
    found = sign_flip_family(np.array(MNE_DATA), np.ones(10))
    # With equal units Student's t orders flips as our statistic does; the largest is corrected alike by both.
    assert found.p[3] == pytest.approx(MNE_P[3], abs=1e-3)
    assert (found.p <= np.array(MNE_P) + 1e-3).all()


@pytest.mark.parametrize("sizes", [(5, 6), (30, 40, 50)], ids=["all flips", "drawn flips"])
def test_strata_are_a_family_of_units_that_have_one_thing_each(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    strata = [rng.normal(0.3 * number, 1, (size, 2)) for number, size in enumerate(sizes)]
    starts = np.cumsum([0, *sizes])
    whole, counts = np.zeros((sum(sizes), len(sizes), 2)), np.zeros((sum(sizes), len(sizes), 2))
    for number, values in enumerate(strata):
        whole[starts[number] : starts[number + 1], number] = values
        counts[starts[number] : starts[number + 1], number] = 1
    within, overall = sign_flip_strata(strata)
    expected = sign_flip_family(whole, counts)
    exactly = sum(sizes) <= 14
    np.testing.assert_allclose(within.estimate, expected.estimate)
    np.testing.assert_allclose(within.p, expected.p, atol=1e-12 if exactly else 0.02)
    np.testing.assert_allclose(within.low, expected.low, atol=1e-6 if exactly else 0.02)
    np.testing.assert_allclose(within.needed, expected.needed)
    weights = np.concatenate([np.full(size, 1 / size) for size in sizes])
    mean = sign_flip_family(np.concatenate(strata) * weights[:, None], weights)
    assert overall.estimate == pytest.approx(np.mean([values.mean(0) for values in strata], axis=0))
    np.testing.assert_allclose(overall.p, mean.p, atol=1e-12 if exactly else 0.02)
    np.testing.assert_allclose(overall.high, mean.high, atol=1e-6 if exactly else 0.02)


def test_what_chance_gives_is_the_binomial_test_and_one_member_more_is_one_test_more() -> None:
    for right in (9, 12, 15, 18):
        (p,) = chance_family(np.array([right]), np.array([18]), np.array([0.5]), [[0]]).p
        assert p == pytest.approx(binomtest(right, 18, 0.5).pvalue, abs=0.015)
    rights, counts = np.array([16, 9, 12]), np.array([18, 18, 18])
    tests = chance_family(rights, counts, np.full(3, 0.5), [[0], [1], [2]])
    first, last, second = (binomtest(right, 18, 0.5).pvalue for right in rights.tolist())
    expected = [1 - (1 - first) ** 3, last, 1 - (1 - second) ** 2]
    assert tests.p == pytest.approx(expected, abs=0.015), "Holm's steps; independent tests are not counted twice"
    assert ((tests.low <= tests.estimate) & (tests.estimate <= tests.high)).all()
    assert tests.low[0] > 0, "interval and p agree"


def test_all_right_is_the_clearest_outcome_and_too_few_items_are_untested() -> None:
    (clear,) = chance_family(np.array([18]), np.array([18]), np.array([0.5]), [[0]]).p
    assert clear < 0.001
    five = chance_family(np.array([5]), np.array([5]), np.array([0.5]), [[0]]).one()
    assert (np.isnan(five.p), five.needed) == (True, 6)
    many = chance_family(np.full(67, 10), np.full(67, 10), np.full(67, 0.5), [[at] for at in range(67)])
    assert (many.needed == 12).all(), "67 * 2 ** -11 is below .05"
    unknown = chance_family(np.array([3]), np.array([9]), np.array([np.nan]), [[0]]).one()
    assert np.isnan(unknown.p)
    assert unknown.needed == 0


def test_units_beyond_memory_are_flipped_together() -> None:
    ahead = np.random.default_rng(0).normal(0.05, 1, (30_000, 2))
    tests = sign_flip_family(ahead, np.ones(len(ahead)))
    assert tests.estimate == pytest.approx(ahead.mean(0))
    assert tests.p.max() < 0.001
    assert tests.units.tolist() == [30_000, 30_000]
    assert (tests.high - tests.low) == pytest.approx(2 * 2.24 / 30_000**0.5, rel=0.05)


def test_random_signs_are_of_whole_units_and_follow_from_the_seed() -> None:
    one, same, other = (random_signs(20, samples=500, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert set(np.unique(one)) == {-1.0, 1.0}
    assert np.abs(one.mean(0)).max() < 0.2
