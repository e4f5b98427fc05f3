"""Families of contrasts: against brute force, other programs' numbers, and simulations of the null."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.stats import bootstrap_family, permutation_family, random_signs, sign_flip_family, status_of


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


@settings(max_examples=40, deadline=None)
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


@settings(max_examples=30, deadline=None)
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


def test_random_signs_are_of_whole_units_and_follow_from_the_seed() -> None:
    one, same, other = (random_signs(20, samples=500, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert set(np.unique(one)) == {-1.0, 1.0}
    assert np.abs(one.mean(0)).max() < 0.2
