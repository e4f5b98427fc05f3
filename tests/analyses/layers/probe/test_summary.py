"""When a statistic is available, how its spread is told, and the order of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from lamina.analyses.layers.probe.statistics import Resampling, expected_layer
from lamina.analyses.layers.probe.summary import (
    TaskPlace,
    TaskSummary,
    bootstrap,
    compare_layers,
    neighbours,
    order,
    readings,
    selectivity,
    selectivity_tests,
    steps,
    summarise,
)
from lamina.analyses.layers.probe.training import ProbeOutcome, TaskRun, Whose
from lamina.probes.bank import DecisionTally, LearningRecord
from lamina.probes.edge import LayerCut
from lamina.probes.streams import ProbeTargets
from lamina.tasks import get_task

TEXTS, LAYERS = 50, 3
CUTS = tuple(LayerCut(probe, layer) for probe in ("cumulative", "layer") for layer in range(LAYERS))
EARLIER = [0.6, 0.2, 0.2]


def tallied(scores: Sequence[float], metric="f1") -> DecisionTally:
    """Ten decisions per text, of which the share `scores` is right; texts differ."""
    share = np.array(scores)[:, None] * np.linspace(0.9, 1.1, TEXTS)
    ten = np.full((len(scores), TEXTS), 10.0)
    parts = [np.round(10 * share), ten, ten]
    return DecisionTally(metric, np.stack(parts if metric == "f1" else parts[:2]))


def outcome(
    of: Whose,
    seed: int,
    scores: Sequence[float],
    *,
    cuts: tuple[LayerCut, ...] = CUTS,
    weights: Sequence[float] = EARLIER,
    loss: Sequence[float] = (9, 9, 9, 3, 1, 2),
    stopped: Sequence[LayerCut] = (),
    overfitted: Sequence[LayerCut] = (),
    reach: float = 10.0,
) -> ProbeOutcome:
    """What probes decided; those of the cuts `stopped` were cut off. Of the single layers, 1 has the lowest loss."""
    mixing = sum(cut.probe == "cumulative" for cut in cuts)
    count = len(cuts)
    late, over = (np.array([cut in some for cut in cuts]) for some in (stopped, overfitted))
    numbers = (np.full(count, 700), np.where(over, 100, 500), np.zeros(count))
    learned = LearningRecord(np.array(loss[-count:], float), *numbers, ~late & ~over, over, np.full(count, reach))
    tallies = {"f1": tallied(scores), "accuracy": tallied(scores, "accuracy")}
    each = np.tile(weights, (mixing, 1))
    return ProbeOutcome(of, seed, cuts, tallies, tallies["accuracy"], learned, each, np.ones(mixing), None)


def made(name: str, outcomes: Sequence[ProbeOutcome], seen: float = 1.0) -> TaskRun:
    none = np.zeros((0, 1, 2), int)
    targets = ProbeTargets((), np.zeros(0, int), none, none, *[np.zeros((0, 0), bool)] * 4, TEXTS)
    return TaskRun(get_task(name), targets, tuple(outcomes), {}, {}, np.arange(100) < 100 * seen, np.ones(LAYERS))


def run(name: str, p: Sequence[float], weights: Sequence[Sequence[float]], **more) -> TaskRun:
    """A task whose every seed has the same scores, and mixing weights of its own; single layers have .5, .6, .8."""
    about = {key: more[key] for key in ("stopped", "overfitted", "reach") if key in more}
    off = more.get("off", [0.0] * len(weights))
    own = [
        outcome("model", seed, [p[0], p[1] + off[seed], p[2], 0.5, 0.6, 0.8], weights=each, **about)
        for seed, each in enumerate(weights)
    ]
    control = outcome("control", 0, [0.2, 0.4, 0.4], cuts=CUTS[3:], stopped=more.get("control", ()))
    return made(name, [*own, control], more.get("seen", 1.0))


EARLY_P = [0.4, 0.78, 0.8]
EARLY = run("pos", [0.4, 0.8, 0.8], [[0.8, 0.1, 0.1]] * 5)
LATE = run("dep", [0.4, 0.4, 0.8], [[0.1, 0.1, 0.8]] * 5)
FLAT = run("ner", [0.6, 0.8, 0.6], [[0.2, 0.6, 0.2]] * 5)


def summarised(*runs: TaskRun, faithful: bool = False, samples: int = 200) -> list[tuple[TaskSummary, TaskPlace]]:
    texts = Resampling(TEXTS, samples, 0)
    found = []
    for number, each in enumerate(runs):
        drawn = bootstrap(each, texts, [0, number])
        found.append(summarise(each, drawn, "toy", selectivity(each, drawn), faithful=faithful))
    return found


def test_expected_layer_is_not_available_where_the_gain_may_be_nothing() -> None:
    (flat, place), (early, _) = summarised(FLAT, EARLY)

    assert np.isnan([flat.expected_layer, flat.el_low, flat.el_high]).all()
    assert np.isnan([flat.kl_differential, flat.kl_differential_low]).all(), "no gain, no shape of it"
    assert np.isnan(place.draws["expected_layer"]).all()
    assert "the gain of P(L) over P(0) was not shown to be above 0" in flat.reason
    assert early.expected_layer == pytest.approx(1)
    assert early.el_low <= early.expected_layer + 1e-9
    assert early.expected_layer <= early.el_high + 1e-9
    assert early.expected_layer == expected_layer(np.array([early.f1_first, early.f1_full, early.f1_full]))
    assert early.kl_differential == pytest.approx(1)
    assert early.kl_differential_low <= 1 <= early.kl_differential_high + 1e-9
    assert not early.reason


LOSING = run("pos", [0.8, 0.6, 0.4], [[0.6, 0.2, 0.2]] * 5)
"""Its cumulative scores fall, as those of the ELMo fixture: .361 to .318."""


def test_wrong_7_losses_have_no_expected_layer_and_no_order() -> None:
    ((row, place), (_, early)) = summarised(LOSING, EARLY)
    (pair,) = [each for each in order([place, early]) if each.statistic == "expected_layer"]

    assert np.isnan([row.expected_layer, row.kl_differential]).all()
    assert "expected layer: the gain of P(L) over P(0) was not shown to be above 0" in row.reason
    assert np.isnan(pair.difference)
    assert not pair.clear


def test_wrong_7_the_twin_s_losses_have_none_either() -> None:
    twin = outcome("random", 0, [0.6, 0.5, 0.2, 0.2, 0.2, 0.2])
    ((row, _),) = summarised(replace(EARLY, outcomes=(*EARLY.outcomes, twin)))

    assert np.isnan(row.twin_expected_layer)
    assert "twin's: the gain of P(L) over P(0) was not shown to be above 0" in row.reason


def test_wrong_7_faithful_prints_the_value_marked_and_compares_it_with_nothing() -> None:
    ((row, place), (_, early)) = summarised(LOSING, EARLY, faithful=True)
    (pair,) = [each for each in order([place, early]) if each.statistic == "expected_layer"]

    assert row.expected_layer == pytest.approx(1.5)
    assert np.isnan([row.el_low, row.el_high]).all()
    assert "printed as --faithful does" in row.reason
    assert np.isnan(pair.p_adjusted)


def test_wrong_8_below_five_seeds_the_expected_layer_has_the_range_over_seeds() -> None:
    """Seeds at 1.5 and 1.25: an interval over texts alone would hold neither."""
    few = run("pos", [0.4, 0.6, 0.8], [EARLIER] * 2, off=[0.0, 0.1])
    ((row, _),) = summarised(few)
    each = [float(expected_layer(np.array([0.4, middle, 0.8]))) for middle in (0.6, 0.7)]

    assert (row.el_low, row.el_high) == pytest.approx((min(each), max(each)), abs=0.03)
    ((alone, place),) = summarised(run("pos", [0.4, 0.6, 0.8], [EARLIER]))
    assert np.isfinite(alone.expected_layer)
    assert np.isnan([alone.el_low, alone.el_high, alone.cog_low]).all(), "one seed has no range"
    assert place.seeds == 1


def test_wrong_8_from_five_seeds_on_seeds_widen_the_interval() -> None:
    same = run("pos", [0.4, 0.6, 0.8], [EARLIER] * 5)
    apart = run("pos", [0.4, 0.6, 0.8], [EARLIER] * 5, off=[-0.1, -0.05, 0.0, 0.05, 0.1])
    (one, _), (other, _) = summarised(same, apart)

    assert other.el_high - other.el_low > 3 * (one.el_high - one.el_low)
    # Student's interval of the seeds' own values, which texts hardly move here.
    each = [float(expected_layer(np.array([0.4, 0.6 + off, 0.8]))) for off in (-0.1, -0.05, 0.0, 0.05, 0.1)]
    expected = stats.t.interval(0.95, 4, np.mean(each), stats.sem(each))
    assert (other.el_low, other.el_high) == pytest.approx(expected, abs=0.06)


@pytest.mark.parametrize(("reach", "available"), [(0.06, False), (3.0, True)])
def test_wrong_9_weights_that_could_not_move_have_neither_centre_nor_divergence(reach: float, available: bool) -> None:
    ((row, _),) = summarised(run("pos", [0.4, 0.8, 0.8], [EARLIER] * 2, reach=reach))

    assert np.isfinite([row.center_of_gravity, row.kl_mixing]).all() == available
    assert ("the mixing weights had too few steps to move (K(s) could not exceed" in row.reason) != available


def test_wrong_9_a_probe_that_overfitted_has_not_converged() -> None:
    ((row, _),) = summarised(run("pos", [0.4, 0.8, 0.8], [EARLIER] * 2, overfitted=[CUTS[2]]))

    assert not row.converged
    assert np.isnan([row.expected_layer, row.center_of_gravity, row.kl_mixing]).all()
    assert "the probe of P(2) and 1 other had overfitted at the first validation (step 100)" in row.reason


@pytest.mark.parametrize(
    ("cut", "gone", "left"),
    [
        (CUTS[0], ["expected_layer", "kl_differential"], ["center_of_gravity", "kl_mixing", "selectivity"]),
        (CUTS[2], ["expected_layer", "center_of_gravity", "kl_mixing"], ["selectivity"]),
        (CUTS[4], ["selectivity"], ["expected_layer", "center_of_gravity"]),
        (CUTS[5], [], ["expected_layer", "center_of_gravity", "selectivity"]),
    ],
)
def test_what_rests_on_a_probe_that_was_cut_off_is_not_available(
    cut: LayerCut, gone: list[str], left: list[str]
) -> None:
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
    assert np.isfinite(place.draws["center_of_gravity"]).all() == available
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
    ((row, _),) = summarised(run("pos", [0.4, 0.6, 0.8], weights))

    each = [0.2 + 2 * (0.2 + 0.1 * seed) for seed in range(5)]
    expected = stats.t.interval(0.95, 4, np.mean(each), stats.sem(each))
    assert row.center_of_gravity == pytest.approx(1.0)
    assert (row.cog_low, row.cog_high) == pytest.approx(expected)


def test_selectivity_is_taken_at_the_layer_that_stopping_texts_choose() -> None:
    # Scored texts would choose layer 2 (0.8); the lowest loss is that of layer 1 (0.6), where the control has 0.4.
    ((row, _),) = summarised(EARLY)

    assert row.selectivity == pytest.approx(0.2, abs=0.01)
    assert (row.selectivity_layer, row.selectivity_metric) == (1, "accuracy")


def selective_of(*runs: TaskRun) -> list[dict[str, float]]:
    texts = Resampling(TEXTS, 500, 0)
    return selectivity_tests([selectivity(each, bootstrap(each, texts, [0])) for each in runs])


def test_the_selectivities_of_all_tasks_are_one_family() -> None:
    alone, (first, second) = selective_of(EARLY), selective_of(EARLY, LATE)

    assert first["difference"] == alone[0]["difference"] == pytest.approx(0.2, abs=0.01)
    assert first["low"] <= alone[0]["low"] < 0.2 < first["high"]
    assert first["p_adjusted"] == pytest.approx(1 / 501)
    assert (second["units"], second["needed"]) == (TEXTS, 0)


def test_wrong_12_a_selectivity_below_0_is_not_told_as_above_it() -> None:
    control = outcome("control", 0, [0.2, 0.63, 0.4], cuts=CUTS[3:])
    (row,) = selective_of(made("pos", [*EARLY.outcomes[:-1], control]))

    assert row["difference"] < 0
    assert row["high"] < 0.02


@pytest.mark.parametrize(("seen", "available"), [(0.24, False), (0.25, True)])
def test_selectivity_needs_targets_that_a_control_could_remember(seen: float, available: bool) -> None:
    ((row, _),) = summarised(run("pos", [0.4, 0.8, 0.8], [EARLIER] * 2, seen=seen))

    assert np.isfinite(row.selectivity) == available
    told = "selectivity: training has seen the words of 24% of the scored targets, under 25%"
    assert (told in row.reason) != available


def test_selectivity_needs_a_converged_control_at_its_layer() -> None:
    for layer, available in ((1, False), (2, True)):
        ((row, _),) = summarised(run("pos", [0.4, 0.8, 0.8], [EARLIER] * 2, control=[LayerCut("layer", layer)]))
        assert np.isfinite(row.selectivity) == available
        assert row.converged, "that of the model's own probes"


def test_the_twin_has_an_expected_layer_of_its_own() -> None:
    twin = outcome("random", 0, [0.2, 0.2, 0.6, 0.2, 0.2, 0.2])
    ((row, _),) = summarised(replace(EARLY, outcomes=(*EARLY.outcomes, twin)))
    ((alone, _),) = summarised(EARLY)

    assert row.twin_expected_layer == pytest.approx(2)
    assert np.isnan([row.twin_el_low, row.twin_el_high]).all(), "one seed has no range"
    assert np.isnan(alone.twin_expected_layer)


def test_the_order_of_tasks() -> None:
    off = (-0.02, -0.01, 0.0, 0.01, 0.02)
    early, late = (run(name, p, [EARLIER] * 5, off=off) for name, p in (("pos", EARLY_P), ("dep", [0.4, 0.42, 0.8])))
    places = [place for _, place in summarised(early, late, FLAT)]
    rows = {(row.task_a, row.task_b, row.statistic): row for row in order(places)}

    assert len(rows) == 6
    assert rows["pos", "dep", "expected_layer"].difference == pytest.approx(0.9, abs=0.05)
    assert rows["pos", "dep", "expected_layer"].clear
    assert np.isnan(rows["pos", "ner", "expected_layer"].difference)
    assert [bool(row.reason) for row in rows.values()] == np.isnan([row.p_adjusted for row in rows.values()]).tolist()
    assert rows["pos", "dep", "center_of_gravity"].reason == "it does not vary over texts and seeds"


def test_centres_of_gravity_are_ordered_by_seeds() -> None:
    earlier, later = (
        run(name, [0.4, 0.8, 0.8], [[0.7 - place - off, 0.1, 0.2 + place + off] for off in np.linspace(0, 0.04, 5)])
        for name, place in (("pos", 0.0), ("dep", 0.4))
    )
    (row,) = [row for row in order([place for _, place in summarised(earlier, later)]) if "gravity" in row.statistic]

    assert row.difference == pytest.approx(0.8)
    assert (row.clear, row.units) == (True, 5)
    assert row.low < 0.8 < row.high


def test_wrong_6_below_five_seeds_no_order_is_told() -> None:
    few = [run(name, p, [EARLIER] * 4) for name, p in (("pos", [0.4, 0.8, 0.8]), ("dep", [0.4, 0.4, 0.8]))]
    for row in order([place for _, place in summarised(*few)]):
        assert np.isnan([row.p_adjusted, row.low, row.high]).all()
        assert (row.units, row.needed, row.clear, row.reason) == (4, 5, False, "fewer than 5 seeds")


def test_wrong_2_eight_separated_tasks_have_all_28_orders() -> None:
    """Holm over 28 bootstrap tests of 1,000 samples could call none of them clear: 28 * 2 / 1,001 is .056."""
    rng = np.random.default_rng(0)
    runs = []
    for number in range(8):
        middle = 0.8 - 0.04 * number
        off = (0.004 * rng.normal(size=5)).tolist()
        runs.append(run("pos", [0.4, middle, 0.8], [EARLIER] * 5, off=off))
    places = [place._replace(task=f"t{at}") for at, (_, place) in enumerate(summarised(*runs, samples=1000))]
    rows = [row for row in order(places) if row.statistic == "expected_layer"]

    assert len(rows) == 28
    assert all(row.clear and row.difference > 0 for row in rows)


def test_every_layer_is_compared_with_the_one_before_it() -> None:
    texts = Resampling(TEXTS, 200, 0)
    rows = {(row.probe, row.layer): row for row in steps(neighbours(EARLY, bootstrap(EARLY, texts, [0])))}

    assert [*rows] == [("cumulative", 1), ("cumulative", 2), ("layer", 1), ("layer", 2)]
    first = rows["cumulative", 1]
    assert first.difference == pytest.approx(0.4, abs=0.02)
    assert first.low <= first.difference <= first.high
    assert first.p_adjusted == pytest.approx(1 / 201)
    same = rows["cumulative", 2]
    assert (same.difference, same.needed) == (0, 0)
    assert np.isnan(same.p_adjusted), "the same decisions could not have differed"


def test_wrong_2_steps_have_p_values_however_many_there_are() -> None:
    texts = Resampling(TEXTS, 200, 0)
    apart = neighbours(EARLY, bootstrap(EARLY, texts, [0]))
    many = steps([row for row in apart if row.probe == "layer"] * 40)

    assert len(many) == 80
    assert max(row.p_adjusted for row in many) < 0.05


def compared(task: TaskRun):
    return compare_layers(task, bootstrap(task, Resampling(TEXTS, 500, 0), [0]))


def test_a_layer_is_compared_with_the_twin_at_the_same_layer() -> None:
    twin = outcome("random", 0, [0.1, 0.1, 0.1, 0.1, 0.55, 0.3])
    constant = {"f1": tallied([0.25])}
    rows = readings([compared(replace(EARLY, outcomes=(*EARLY.outcomes, twin), constant=constant))])
    told = {(row.layer, row.baseline): row for row in rows}

    assert [*told] == [(layer, name) for layer in range(3) for name in ("untrained twin", "constant answer")]
    assert told[2, "untrained twin"].baseline_value == pytest.approx(0.3, abs=0.01)
    assert told[1, "untrained twin"].difference == pytest.approx(0.05, abs=0.01)
    assert told[2, "constant answer"].baseline_value == pytest.approx(0.25, abs=0.02)
    assert all(row.low < row.difference < row.high for row in rows)
    assert {row.unit for row in rows} == {"text"}


def test_what_has_not_converged_is_not_compared() -> None:
    late = run("pos", [0.4, 0.8, 0.8], [EARLIER] * 2, overfitted=[LayerCut("layer", 1)])
    both = compared(replace(late, constant={"f1": tallied([0.25])}))
    rows = readings([both])

    assert np.isnan([row.p_adjusted for row in rows]).tolist() == [False, True, False]
    assert rows[1].reason == "the probe of layer 1 and 1 other had overfitted at the first validation (step 100)"
    assert not any(row.among_best for row in both.best), "another layer might be better"
    assert np.isnan([row.p_beaten for row in both.best]).all()


def test_the_best_layers_are_a_confidence_set() -> None:
    best = compared(EARLY).best

    assert [row.among_best for row in best] == [False, False, True]
    assert best[0].p_beaten < 0.05
    assert best[2].p_beaten == 1
