"""Confidence sets of best layers."""

from __future__ import annotations

import numpy as np
import pytest

from lamina.stats import best_set, leads


def _draws(data: np.ndarray, rng: np.random.Generator, samples: int = 500) -> np.ndarray:
    units = len(data)
    return rng.multinomial(units, np.full(units, 1 / units), samples) @ data / units


@pytest.mark.parametrize("truth", [(0.0, 0.0, 0.0, 0.0), (0.0, 0.3, 0.3, 0.1), (0.0, 0.05, 0.1, 0.15)])
def test_the_true_best_is_in_the_set(truth: tuple[float, ...]) -> None:
    kept = 0
    for number in range(300):
        rng = np.random.default_rng(number)
        data = np.array(truth) + rng.normal(0, 1, (30, 1)) + rng.normal(0, 0.5, (30, 4))
        kept += bool(best_set(data.mean(0), _draws(data, rng), 30).among[int(np.argmax(truth))])
    assert kept >= 276  # P(fewer | 95 %) is .009


@pytest.mark.parametrize("truth", [(0.0,) * 8, (-1.0,) * 4 + (0.0,) * 4])
def test_of_equally_good_members_none_leaves(truth: tuple[float, ...]) -> None:
    """One member at a time, a set of eight equal ones lost some in a third of all samples."""
    lost = 0
    for number in range(200):
        rng = np.random.default_rng(number)
        data = np.array(truth) + rng.normal(0, 1, (40, 1)) + rng.normal(0, 0.5, (40, 8))
        lost += not best_set(data.mean(0), _draws(data, rng, 300), 40).among[np.array(truth) == 0].all()
    assert lost <= 18  # P(more | 5 %) is .006


def test_a_clear_winner_stands_alone_and_a_worse_layer_leaves() -> None:
    rng = np.random.default_rng(0)
    data = np.array([0.0, 1.0, 0.2]) + rng.normal(0, 1, (60, 1)) + rng.normal(0, 0.3, (60, 3))
    draws = _draws(data, rng)
    assert best_set(data.mean(0), draws, 60).among.tolist() == [False, True, False]
    assert best_set(-data.mean(0), -draws, 60, higher=False).among.tolist() == [False, True, False]


def test_layers_without_a_score_are_not_among_the_best() -> None:
    scores, draws = np.array([np.nan, 0.5]), np.column_stack([np.full(100, np.nan), np.linspace(0.4, 0.6, 100)])
    found = best_set(scores, draws, 20)
    assert found.among.tolist() == [False, True]
    assert found.first == 1
    assert np.isnan(found.p[0])


# arch 8.0.0: arch.bootstrap.MCS(losses, size=0.05, reps=5000, block_size=1, method="R") includes these members.
@pytest.mark.parametrize(
    ("seed", "means", "included"),
    [(1, (0.0, 0.3, 0.5, 0.55), [3]), (2, (0.0, 0.0, 0.0, 1.0), [3]), (3, (0.2, 0.2, 0.25, 0.2), [0, 1, 2, 3])],
)
def test_sets_agree_with_arch(seed: int, means: tuple[float, ...], included: list[int]) -> None:
    rng = np.random.default_rng(seed)
    data = np.array(means) + rng.normal(0, 1, (80, 1)) + rng.normal(0, 0.5, (80, 4))
    found = best_set(data.mean(0), _draws(data, rng, 4000), 80)
    assert np.flatnonzero(found.among).tolist() == included


def test_leads_are_those_behind_the_set_and_few_units_show_none():
    rng = np.random.default_rng(0)
    scores = np.array([0.5, 0.8, np.nan, 0.81])
    draws = scores + rng.normal(0, 0.02, (1000, 4))
    found = leads(scores, draws, 100)
    assert found.best.among.tolist() == best_set(scores, draws, 100).among.tolist() == [False, True, False, True]
    assert found.contrasts.p[0] == best_set(scores, draws, 100).p[0] < 0.05
    assert found.contrasts.low[0] > 0 > found.contrasts.low[1]
    assert np.isnan([found.contrasts.estimate[at] for at in (2, 3)]).all()
    worst = leads(-scores, -draws, 100, higher=False)
    assert worst.contrasts.estimate[:2] == pytest.approx(found.contrasts.estimate[:2])
    few = leads(scores, draws, 4)
    assert few.best.among.tolist() == [True, True, False, True]
    assert few.contrasts.needed[0] == 6
    assert np.isnan(few.contrasts.p).all()


@pytest.mark.parametrize(("members", "units"), [(3, 10), (13, 10), (13, 30)])
def test_where_all_are_alike_none_is_said_to_be_best(members: int, units: int) -> None:
    alarms, by_set_alone = 0, 0
    for number in range(200):
        rng = np.random.default_rng(number)
        data = rng.normal(0, 1, (units, 1)) + rng.normal(0, 1, (units, members))
        weights = rng.poisson(1, (500, units))
        draws = weights @ data / np.maximum(weights.sum(1, keepdims=True), 1)
        alarms += not leads(data.mean(0), draws, units).best.among.all()
        by_set_alone += not best_set(data.mean(0), draws, units).among.all()
    assert alarms <= 18  # P(more | 5 %) is .01
    # The set alone is a statement about the true best, not about whether there is one.
    assert by_set_alone >= alarms
