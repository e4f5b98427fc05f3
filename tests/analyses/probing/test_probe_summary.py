"""When a statistic is available, how its spread is told, and the order of tasks."""

from __future__ import annotations

import numpy as np
import pytest

from lamina.analyses.probing.checkpoints import Outcome, TaskRun
from lamina.analyses.probing.statistics import Resampling, bootstrap, expected_layer, order, order_tests, summarise
from lamina.probes.edge import Cut
from lamina.probes.targets import Counts, Targets
from lamina.tasks import get_task

TEXTS, LAYERS = 50, 3
CUTS = tuple(Cut(probe, layer) for probe in ("cumulative", "layer") for layer in range(LAYERS))


def counted(scores: list[float]) -> Counts:
    """Ten decisions a text, of which the share `scores` is right; texts differ."""
    share = np.array(scores)[:, None] * np.linspace(0.9, 1.1, TEXTS)
    ten = np.full((len(scores), TEXTS), 10.0)
    return Counts(np.round(10 * share), ten, ten)


def run(name: str, p: list[float], weights: list[list[float]], stopping: tuple[float, ...] = (0, 1, 0)) -> TaskRun:
    """A task whose every seed has the same scores, and mixing weights of its own."""
    empty = np.zeros((0, 1, 2), int)
    targets = Targets((), np.zeros(0, int), empty, empty, *[np.zeros((0, 0), bool)] * 3, np.zeros((0, 0), bool), TEXTS)
    stop = np.array([0, 0, 0, *stopping])
    outcomes = [
        Outcome("model", seed, CUTS, counted([*p, 0.5, 0.6, 0.8]), stop, np.array([each] * 3), np.ones(3), None)
        for seed, each in enumerate(weights)
    ]
    control = Outcome("control", 0, CUTS[3:], counted([0.2, 0.4, 0.4]), stop[3:], np.ones((0, 3)), np.ones(0), None)
    return TaskRun(get_task(name), targets, (*outcomes, control), Counts.none(1, TEXTS), 1.0, np.ones(LAYERS))


EARLY = run("pos", [0.4, 0.8, 0.8], [[0.8, 0.1, 0.1]] * 5)
LATE = run("dep", [0.4, 0.4, 0.8], [[0.1, 0.1, 0.8]] * 5)
FLAT = run("ner", [0.6, 0.8, 0.6], [[0.2, 0.6, 0.2]] * 5)


def summarised(*runs: TaskRun):
    drawn = bootstrap(runs, Resampling(TEXTS, 200, 0), 0)
    return [summarise(each, draws) for each, draws in zip(runs, drawn, strict=True)]


def test_expected_layer_is_not_available_where_the_gain_may_be_nothing() -> None:
    (flat, place), (early, _) = summarised(FLAT, EARLY)

    assert np.isnan([flat.expected_layer, flat.el_low, flat.el_high]).all()
    assert np.isnan(place.expected_layer).all()
    assert flat.kl_differential == 1, "one positive step of two: defined all the same"
    assert early.expected_layer == pytest.approx(1)
    assert early.el_low <= early.expected_layer <= early.el_high
    assert early.expected_layer == expected_layer(np.array([early.f1_first, early.f1_full, early.f1_full]))


def test_with_few_seeds_the_spread_of_the_centre_of_gravity_is_a_range() -> None:
    weights = [[0.6, 0.2, 0.2], [0.2, 0.2, 0.6]]
    ((row, _),) = summarised(run("pos", [0.4, 0.6, 0.8], weights))

    assert (row.center_of_gravity, row.cog_low, row.cog_high) == pytest.approx((1.0, 0.6, 1.4))


def test_with_enough_seeds_it_is_an_interval_of_the_mean() -> None:
    weights = [[0.6 - 0.1 * seed, 0.2, 0.2 + 0.1 * seed] for seed in range(5)]
    ((row, _),) = summarised(run("pos", [0.4, 0.6, 0.8], weights))

    assert row.center_of_gravity == pytest.approx(1.0)
    assert 0.6 < row.cog_low < 1.0 < row.cog_high < 1.4


def test_selectivity_is_taken_at_the_layer_that_stopping_texts_choose() -> None:
    # Scored texts would choose layer 2 (0.8); the stopping texts say layer 1 (0.6), where the control has 0.4.
    ((row, _),) = summarised(EARLY)

    assert row.selectivity == pytest.approx(0.2, abs=0.01)


def test_the_order_of_tasks() -> None:
    places = [place for _, place in summarised(EARLY, LATE, FLAT)]
    found = {(row.task_a, row.task_b, row.statistic): row.probability for row in order(places)}

    assert found["pos", "dep", "expected_layer"] == 1
    assert found["pos", "dep", "center_of_gravity"] == 1
    assert found["dep", "ner", "center_of_gravity"] == 0
    assert np.isnan(found["pos", "ner", "expected_layer"])
    assert len(found) == 6


def test_equal_tasks_come_before_each_other_half_of_the_time() -> None:
    places = [place for _, place in summarised(EARLY, EARLY)]

    assert [row.probability for row in order(places)] == [0.5, 0.5], "texts are shared, so every draw is a tie"


def test_tests_are_corrected_for_all_pairs_and_need_seeds() -> None:
    places = [place for _, place in summarised(EARLY, LATE, FLAT)]
    tests = [row for row in order_tests(list(order(places)), places) if row.statistic == "center_of_gravity"]
    few = [place._replace(seeds=2) for place in places]

    assert [row.p for row in tests] == pytest.approx([2 / 201] * 3)
    assert [row.p_holm for row in tests] == pytest.approx([6 / 201] * 3)
    assert np.isnan([row.p for row in order_tests(list(order(few)), few)]).all()
