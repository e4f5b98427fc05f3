"""Every statistic against numbers worked by hand, and what must hold of any numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lamina.analyses.probing.statistics import (
    Draws,
    Resampling,
    before,
    center_of_gravity,
    differentials,
    expected_layer,
    holm,
    interval,
    kl_from_uniform,
    kl_of_differentials,
)
from lamina.probes.targets import Counts

SCORES = np.array([0.80, 0.90, 0.88, 0.92])
"""D = 0.10, -0.02, 0.04."""

grids = arrays(float, st.integers(2, 8), elements=st.floats(0.015625, 1, width=32))


def counts(seed: int = 0, members: int = 3, texts: int = 40) -> Counts:
    rng = np.random.default_rng(seed)
    gold = np.broadcast_to(rng.integers(0, 6, texts), (members, texts)).astype(float)
    said = rng.integers(0, 6, (members, texts)).astype(float)
    return Counts(rng.binomial(np.minimum(said, gold).astype(int), 0.8).astype(float), said, gold)


def test_centre_of_gravity_is_the_mean_layer() -> None:
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [1, 0, 0, 0]])

    assert center_of_gravity(weights) == pytest.approx([2.0, 0.0])


def test_kl_from_uniform_in_bits() -> None:
    # 0.5 log2(0.5 * 3) + 2 * 0.25 log2(0.25 * 3)
    assert kl_from_uniform(np.array([0.5, 0.25, 0.25])) == pytest.approx(0.5 * 0.5849625 - 0.5 * 0.4150375)
    assert kl_from_uniform(np.full(4, 0.25)) == pytest.approx(0, abs=1e-12)
    assert kl_from_uniform(np.array([0.0, 1.0])) == pytest.approx(1)


def test_expected_layer_keeps_negative_differentials() -> None:
    assert differentials(SCORES) == pytest.approx([0.10, -0.02, 0.04])
    # (1 * 0.10 - 2 * 0.02 + 3 * 0.04) / 0.12
    assert expected_layer(SCORES) == pytest.approx(1.5)


def test_kl_of_differentials_drops_negative_ones() -> None:
    # 0.10 and 0.04 of 0.14, over three steps
    shares = np.array([0.10, 0.04]) / 0.14
    assert kl_of_differentials(SCORES) == pytest.approx(float((shares * np.log2(shares * 3)).sum()))


def test_what_is_undefined_is_nan() -> None:
    flat, falling = np.array([0.5, 0.75, 0.5]), np.array([0.75, 0.5, 0.25])

    assert np.isnan(expected_layer(flat))
    assert np.isnan(kl_of_differentials(falling))
    assert np.isnan(expected_layer(np.array([0.5]))), "a model of one layer has no step"
    assert np.isnan(kl_of_differentials(np.array([0.5])))
    assert np.isnan(interval(np.array([np.nan]))).all()


@settings(max_examples=50, deadline=None)
@given(grids)
def test_statistics_of_weights_lie_within_their_bounds(raw: np.ndarray) -> None:
    weights = raw / raw.sum()

    assert -1e-9 <= center_of_gravity(weights) <= len(weights) - 1 + 1e-9
    assert -1e-9 <= kl_from_uniform(weights) <= np.log2(len(weights)) + 1e-9


@settings(max_examples=50, deadline=None)
@given(grids, st.floats(0.125, 4), st.floats(-1, 1))
def test_expected_layer_ignores_scale_and_level(p: np.ndarray, scale: float, level: float) -> None:
    rising = np.cumsum(p)

    assert expected_layer(scale * rising + level) == pytest.approx(expected_layer(rising), rel=1e-6)
    assert expected_layer(np.stack([rising, rising])) == pytest.approx([float(expected_layer(rising))] * 2)


def test_before_counts_ties_half_and_leaves_out_what_is_missing() -> None:
    a, b = np.array([1.0, 2.0, 3.0, np.nan]), np.array([2.0, 2.0, 4.0, 0.0])

    assert before(a, b) == pytest.approx((1 + 0.5 + 1) / 3)
    assert before(a, b) + before(b, a) == pytest.approx(1)
    assert np.isnan(before(a, np.full(4, np.nan)))


def test_holm_by_hand() -> None:
    # Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1 and never falling.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == pytest.approx([1, 1])
    adjusted = holm([0.01, np.nan, 0.02])
    assert np.isnan(adjusted[1])
    assert adjusted[[0, 2]] == pytest.approx([0.02, 0.02]), "what is missing is not tested"


def test_a_draw_of_texts_is_a_resampled_corpus() -> None:
    counted = counts()
    drawn = np.random.default_rng(7).integers(0, 40, 40)
    again = Counts(*(part[:, drawn] for part in (counted.right, counted.said, counted.gold)))

    assert Resampling(40, 1, seed=7).f1(counted)[0] == pytest.approx(again.f1())


def test_draws_are_reproducible_and_shared_by_all_that_is_scored_on_the_texts() -> None:
    texts = Resampling(40, 300, seed=3)
    one, other = texts.f1(counts(0)), texts.f1(counts(0))

    assert np.array_equal(one, other)
    assert np.array_equal(one, Resampling(40, 300, seed=3).f1(counts(0)))
    assert not np.array_equal(one, Resampling(40, 300, seed=4).f1(counts(0)))


def test_texts_without_a_decision_change_no_score() -> None:
    few = counts(1)
    empty = np.zeros((3, 10))
    more = Counts(*(np.concatenate([part, empty], 1) for part in (few.right, few.said, few.gold)))

    assert more.f1() == pytest.approx(few.f1())
    assert Resampling(50, 400, 0).f1(more).mean(0) == pytest.approx(few.f1(), abs=0.02)


def test_the_joint_interval_takes_the_spread_over_seeds_in() -> None:
    good, bad = counts(1), counts(1)
    bad.right[:] *= 0.1
    texts = Resampling(40, 500, seed=0)
    apart = Draws.of([good, bad], texts, np.random.default_rng(0))
    alike = Draws.of([good, good], texts, np.random.default_rng(0))

    assert apart.value == pytest.approx((good.f1() + bad.f1()) / 2)
    widths = [np.subtract(*interval(draws)[::-1]) for draws in (apart.pooled[:, 0], apart.by_seed[0][:, 0])]
    assert widths[0] > 1.5 * widths[1]
    assert np.array_equal(alike.pooled, alike.by_seed[0]), "equal seeds add nothing to the spread over texts"
    assert interval(apart.pooled[:, 0])[0] <= apart.value[0] <= interval(apart.pooled[:, 0])[1]


def test_draws_over_seeds_are_means_of_seeds() -> None:
    draws = Draws.of([counts(1), counts(2)], Resampling(40, 200, 0), np.random.default_rng(0))

    assert set(draws.over_seeds(np.array([1.0, 2.0])).tolist()) == {1.0, 1.5, 2.0}
