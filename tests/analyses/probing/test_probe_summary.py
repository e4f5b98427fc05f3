"""When a statistic is available, how its spread is told, and the order of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from lamina.analyses.probing.checkpoints import Outcome, TaskRun, Whose
from lamina.analyses.probing.statistics import Resampling, expected_layer
from lamina.analyses.probing.summary import (
    Place,
    Summary,
    bootstrap,
    corrected,
    neighbours,
    order,
    order_tests,
    summarise,
)
from lamina.probes.bank import Learned
from lamina.probes.edge import Cut
from lamina.probes.tallies import Tally
from lamina.probes.targets import Targets
from lamina.tasks import get_task

TEXTS, LAYERS = 50, 3
CUTS = tuple(Cut(probe, layer) for probe in ("cumulative", "layer") for layer in range(LAYERS))
EARLIER = [0.6, 0.2, 0.2]


def tallied(scores: Sequence[float], metric="f1") -> Tally:
    """Ten decisions per text, of which the share `scores` is right; texts differ."""
    share = np.array(scores)[:, None] * np.linspace(0.9, 1.1, TEXTS)
    ten = np.full((len(scores), TEXTS), 10.0)
    parts = [np.round(10 * share), ten, ten]
    return Tally(metric, np.stack(parts if metric == "f1" else parts[:2]))


def outcome(
    of: Whose,
    seed: int,
    scores: Sequence[float],
    *,
    cuts: tuple[Cut, ...] = CUTS,
    weights: Sequence[float] = EARLIER,
    loss: Sequence[float] = (9, 9, 9, 3, 1, 2),
    stopped: Sequence[Cut] = (),
) -> Outcome:
    """What probes decided; those of the cuts `stopped` were cut off. Of the single layers, 1 has the lowest loss."""
    mixing = sum(cut.probe == "cumulative" for cut in cuts)
    count = len(cuts)
    done = np.array([cut not in stopped for cut in cuts])
    learned = Learned(np.array(loss[-count:], float), np.full(count, 700), np.full(count, 500), np.zeros(count), done)
    tallies = {"f1": tallied(scores), "accuracy": tallied(scores, "accuracy")}
    each = np.tile(weights, (mixing, 1))
    return Outcome(of, seed, cuts, tallies, tallies["accuracy"], learned, each, np.ones(mixing), None)


def made(name: str, outcomes: Sequence[Outcome], seen: float = 1.0) -> TaskRun:
    none = np.zeros((0, 1, 2), int)
    targets = Targets((), np.zeros(0, int), none, none, *[np.zeros((0, 0), bool)] * 4, TEXTS)
    return TaskRun(get_task(name), targets, tuple(outcomes), {}, {}, np.arange(100) < 100 * seen, np.ones(LAYERS))


def run(name: str, p: Sequence[float], weights: Sequence[Sequence[float]], **more) -> TaskRun:
    """A task whose every seed has the same scores, and mixing weights of its own; single layers have .5, .6, .8."""
    own = [
        outcome("model", seed, [*p, 0.5, 0.6, 0.8], weights=each, stopped=more.get("stopped", ()))
        for seed, each in enumerate(weights)
    ]
    control = outcome("control", 0, [0.2, 0.4, 0.4], cuts=CUTS[3:], stopped=more.get("control", ()))
    return made(name, [*own, control], more.get("seen", 1.0))


EARLY = run("pos", [0.4, 0.8, 0.8], [[0.8, 0.1, 0.1]] * 5)
LATE = run("dep", [0.4, 0.4, 0.8], [[0.1, 0.1, 0.8]] * 5)
FLAT = run("ner", [0.6, 0.8, 0.6], [[0.2, 0.6, 0.2]] * 5)


def summarised(*runs: TaskRun) -> list[tuple[Summary, Place]]:
    texts = Resampling(TEXTS, 200, 0)
    return [summarise(each, bootstrap(each, texts, [0, number]), "toy") for number, each in enumerate(runs)]


def test_expected_layer_is_not_available_where_the_gain_may_be_nothing() -> None:
    (flat, place), (early, _) = summarised(FLAT, EARLY)

    assert np.isnan([flat.expected_layer, flat.el_low, flat.el_high]).all()
    assert np.isnan([flat.kl_differential, flat.kl_differential_low]).all(), "no gain, no shape of it"
    assert np.isnan(place.expected_layer).all()
    assert "the gain of P(L) over P(0) cannot be told from 0" in flat.reason
    assert early.expected_layer == pytest.approx(1)
    assert early.el_low <= early.expected_layer <= early.el_high
    assert early.expected_layer == expected_layer(np.array([early.f1_first, early.f1_full, early.f1_full]))
    assert early.kl_differential == pytest.approx(1)
    assert early.kl_differential_low <= 1 <= early.kl_differential_high + 1e-9
    assert not early.reason


@pytest.mark.parametrize(
    ("cut", "gone", "left"),
    [
        (CUTS[0], ["expected_layer", "kl_differential"], ["center_of_gravity", "kl_mixing", "selectivity"]),
        (CUTS[2], ["expected_layer", "center_of_gravity", "kl_mixing"], ["selectivity"]),
        (CUTS[4], ["selectivity"], ["expected_layer", "center_of_gravity"]),
        (CUTS[5], [], ["expected_layer", "center_of_gravity", "selectivity"]),
    ],
)
def test_what_rests_on_a_probe_that_was_cut_off_is_not_available(cut: Cut, gone: list[str], left: list[str]) -> None:
    ((row, _),) = summarised(run("pos", [0.4, 0.8, 0.8], [EARLIER] * 2, stopped=[cut]))

    assert not row.converged
    assert np.isnan([getattr(row, name) for name in gone]).all()
    assert np.isfinite([getattr(row, name) for name in left]).all()
    assert ("had not converged after 700 steps" in row.reason) == bool(gone)


@pytest.mark.parametrize(("weights", "available"), [([0.30, 0.33, 0.37], False), ([0.25, 0.33, 0.42], True)])
def test_weights_as_good_as_equal_have_no_centre(weights: Sequence[float], available: bool) -> None:
    ((row, place),) = summarised(run("pos", [0.4, 0.8, 0.8], [weights] * 2))
    bits = stats.entropy(weights, [1 / 3] * 3, base=2)

    assert row.kl_mixing == pytest.approx(bits)
    assert np.isfinite([row.center_of_gravity, row.cog_low, row.cog_high]).all() == available
    assert np.isfinite(place.center_of_gravity).all() == available
    why = f"centre of gravity: the mixing weights are as good as equal (K(s) {bits:.3f} bits)"
    assert (why in row.reason) != available
    assert np.isfinite(row.expected_layer), "it does not rest on the weights"


def test_with_few_seeds_the_spread_of_the_centre_of_gravity_is_a_range() -> None:
    weights = [[0.6, 0.2, 0.2], [0.2, 0.2, 0.6]]
    ((row, _),) = summarised(run("pos", [0.4, 0.6, 0.8], weights))

    assert (row.center_of_gravity, row.cog_low, row.cog_high) == pytest.approx((1.0, 0.6, 1.4))
    assert [row.kl_mixing_low, row.kl_mixing_high] == pytest.approx([row.kl_mixing] * 2)


def test_with_enough_seeds_it_is_student_s_interval_of_the_mean() -> None:
    weights = [[0.6 - 0.1 * seed, 0.2, 0.2 + 0.1 * seed] for seed in range(5)]
    texts = Resampling(TEXTS, 5000, 0)
    asked = run("pos", [0.4, 0.6, 0.8], weights)
    row, _ = summarise(asked, bootstrap(asked, texts, [0]), "toy")

    each = [0.2 + 2 * (0.2 + 0.1 * seed) for seed in range(5)]
    expected = stats.t.interval(0.95, 4, np.mean(each), stats.sem(each))
    assert row.center_of_gravity == pytest.approx(1.0)
    assert (row.cog_low, row.cog_high) == pytest.approx(expected, abs=0.05)


def test_selectivity_is_taken_at_the_layer_that_stopping_texts_choose() -> None:
    # Scored texts would choose layer 2 (0.8); the lowest loss is that of layer 1 (0.6), where the control has 0.4.
    ((row, _),) = summarised(EARLY)

    assert row.selectivity == pytest.approx(0.2, abs=0.01)
    assert row.selectivity_low < row.selectivity < row.selectivity_high
    assert (row.selectivity_layer, row.selectivity_metric) == (1, "accuracy")


@pytest.mark.parametrize(("seen", "available"), [(0.24, False), (0.25, True)])
def test_selectivity_needs_targets_that_a_control_could_remember(seen: float, available: bool) -> None:
    ((row, _),) = summarised(run("pos", [0.4, 0.8, 0.8], [EARLIER] * 2, seen=seen))

    assert np.isfinite(row.selectivity) == available
    told = "selectivity: training has seen the words of 24% of the scored targets, under 25%"
    assert (told in row.reason) != available


def test_selectivity_needs_a_converged_control_at_its_layer() -> None:
    for layer, available in ((1, False), (2, True)):
        ((row, _),) = summarised(run("pos", [0.4, 0.8, 0.8], [EARLIER] * 2, control=[Cut("layer", layer)]))
        assert np.isfinite(row.selectivity) == available
        assert row.converged, "that of the model's own probes"


def test_the_twin_has_an_expected_layer_of_its_own() -> None:
    twin = outcome("random", 0, [0.2, 0.2, 0.6, 0.2, 0.2, 0.2])
    ((row, _),) = summarised(replace(EARLY, outcomes=(*EARLY.outcomes, twin)))
    ((alone, _),) = summarised(EARLY)

    assert row.twin_expected_layer == pytest.approx(2)
    assert row.twin_el_low <= 2 <= row.twin_el_high
    assert np.isnan(alone.twin_expected_layer)


def test_the_order_of_tasks() -> None:
    places = [place for _, place in summarised(EARLY, LATE, FLAT)]
    rows = list(order(places))
    found = {(row.task_a, row.task_b, row.statistic): row.probability for row in rows}

    assert found["pos", "dep", "expected_layer"] == 1
    assert found["pos", "dep", "center_of_gravity"] == 1
    assert found["dep", "ner", "center_of_gravity"] == 0
    assert np.isnan(found["pos", "ner", "expected_layer"])
    assert len(found) == 6
    assert [bool(row.reason) for row in rows] == np.isnan([row.probability for row in rows]).tolist()


def test_what_varies_over_seeds_only_has_no_order_with_few_of_them() -> None:
    few = [run(name, p, [EARLIER] * 4) for name, p in (("pos", [0.4, 0.8, 0.8]), ("dep", [0.4, 0.4, 0.8]))]
    places = [place for _, place in summarised(*few)]
    layer, gravity = order(places)

    assert layer.probability == 1
    assert np.isnan(gravity.probability)
    assert gravity.reason == "it varies over seeds only, and there are fewer than 5"
    assert np.isnan([row.p for row in order_tests([layer, gravity], places)]).all()


def test_tests_that_cannot_be_made_take_no_part_in_the_correction() -> None:
    places = [place for _, place in summarised(EARLY, LATE, FLAT)]
    tests = {row[:3]: row for row in order_tests(list(order(places)), places)}

    # Three pairs have a centre of gravity; one has an expected layer on both sides.
    for pair in (("pos", "dep"), ("pos", "ner"), ("dep", "ner")):
        assert tests[*pair, "center_of_gravity"].p == pytest.approx(2 / 201)
        assert tests[*pair, "center_of_gravity"].p_adjusted == pytest.approx(6 / 201)
    told = tests["pos", "dep", "expected_layer"]
    assert told.p == told.p_adjusted == pytest.approx(2 / 201)
    assert np.isnan(tests["pos", "ner", "expected_layer"][-2:]).all()


def test_every_layer_is_compared_with_the_one_before_it() -> None:
    texts = Resampling(TEXTS, 200, 0)
    steps = corrected(neighbours(EARLY, bootstrap(EARLY, texts, [0])))
    found = {(step.probe, step.layer): step for step in steps}

    assert [*found] == [("cumulative", 1), ("cumulative", 2), ("layer", 1), ("layer", 2)]
    assert found["cumulative", 1].difference == pytest.approx(0.4, abs=0.02)
    assert found["cumulative", 1].low <= found["cumulative", 1].difference <= found["cumulative", 1].high
    assert found["cumulative", 1].p == pytest.approx(2 / 201)
    assert found["cumulative", 1].p_adjusted == pytest.approx(4 / 201), "two steps of this kind"
    assert (found["cumulative", 2].difference, found["cumulative", 2].p) == (0, 1), "the same decisions"
