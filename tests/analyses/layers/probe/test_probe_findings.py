"""What a probing result is said to show: every task, their whole order, and what could have been memorised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import pytest

import lamina
from lamina import Finding, Result
from lamina.framework.verify import check_findings
from lamina.results import Provenance

NAN = float("nan")
LATE = "the probe of layer 2 had not converged after 2,400 steps"


def readings(
    task: str,
    model: Sequence[float],
    twin: Sequence[float] | None,
    constant: float = 0.2,
    *,
    spread: float = 0.03,
    late: Sequence[int] = (),
    probe: str = "layer",
    metric: str = "f1",
) -> list[dict]:
    """Rows of `readings`; a difference is clear where its interval excludes 0."""
    rows = []
    for layer, value in enumerate(model):
        for name, other in (("untrained twin", twin[layer] if twin else None), ("constant answer", constant)):
            if other is None:
                continue
            apart = value - other
            test = {"low": apart - spread, "high": apart + spread, "p_adjusted": 0.001 if abs(apart) > spread else 0.4}
            if layer in late:
                test = {"low": NAN, "high": NAN, "p_adjusted": NAN}
            about = {"task": task, "metric": metric, "probe": probe, "layer": layer, "baseline": name}
            numbers = {"value": value, "baseline_value": other, "difference": apart, "units": 40.0, "needed": 0.0}
            rows.append(about | numbers | test | {"unit": "document", "reason": LATE if layer in late else None})
    return rows


def layers(task: str, model: Sequence[float], among: Sequence[int], probe: str = "layer", late: bool = False) -> list:
    return [
        (task, "f1", probe, layer, value, NAN if late else 0.5 if layer in among else 0.01,
         layer in among and not late, 40, LATE if late else None)
        for layer, value in enumerate(model)
    ]  # fmt: skip


def pair(a: str, b: str, difference: float, p: float = 0.001, *, needed: int = 0, reason: str | None = None) -> tuple:
    seeds, ends = (2, (NAN, NAN)) if needed else (5, (difference - 0.2, difference + 0.2))
    if p != p:
        ends = (NAN, NAN)
    return (a, b, "expected_layer", difference, *ends, p, seeds, needed, p < 0.05, reason)


def controlled(task: str, model: float, control: float, p: float = 0.001, spread: float = 0.02) -> tuple:
    apart = model - control
    numbers = (apart, apart - spread, apart + spread, p, 40.0, 0.0)
    return (task, 0.9, 90, "accuracy", 1.0, model, control, 0.15, *numbers, "document")


def made(
    rows: Sequence[dict] = (),
    best: Sequence[tuple] = (),
    order: Sequence[tuple] = (),
    control: Sequence[tuple] = (),
    places: dict[str, float] | None = None,
) -> Result:
    columns = {name: list(table.columns) for name, table in lamina.probe.tables.items()}
    summary = [{"task": task, "expected_layer": place, "f1_full": 0.9} for task, place in (places or {}).items()]
    tables = {
        "readings": pd.DataFrame(rows, columns=columns["readings"]),
        "best_layers": pd.DataFrame(best, columns=columns["best_layers"]),
        "order": pd.DataFrame(order, columns=columns["order"]),
        "control": pd.DataFrame(control, columns=columns["control"]),
        "summary": pd.DataFrame(summary, columns=columns["summary"]),
    }
    return Result("probe", tables, Provenance({"name": "minilm"}, {"name": "ewt", "split": "dev"}, {}))


def found(result: Result) -> tuple[Finding, ...]:
    """The findings; every number of them stands in the rows they name."""
    findings = lamina.probe.findings(result)
    assert check_findings(replace(result, findings=findings)) == []
    return findings


DEP = [0.76, 0.82, 0.866, 0.878, 0.856]
TWIN = [0.60, 0.61, 0.62, 0.618, 0.60]


def test_a_task_is_told_beside_the_twin_and_at_its_best_layer() -> None:
    (reading,) = found(made(readings("dep", DEP, TWIN), layers("dep", DEP, [3])))

    assert reading.text == (
        "Dependencies can be read above the untrained twin, best at layer 3: F1 .88 at layer 3, twin .62 (difference "
        ".26 [.23, .29])."
    )
    assert (reading.status, reading.unit, reading.n) == ("clear", "document", 40)
    assert set(reading.importance) == {"answers", "beats control", "localised"}


def test_wrong_5_a_task_whose_layers_are_not_told_apart_is_not_said_to_be_best_at_one() -> None:
    scores, twin = [0.678, 0.676, 0.666], [0.18, 0.15, 0.16]
    (reading,) = found(made(readings("supersense", scores, twin, 0.1), layers("supersense", scores, [0, 1, 2])))

    assert reading.text == (
        "Noun supersenses can be read above the untrained twin: F1 .68 at layer 0, twin .18; no layer was shown to be "
        "better than another (difference .50 [.47, .53])."
    )
    assert "localised" not in reading.importance


def test_wrong_5_every_task_has_a_finding() -> None:
    tasks = ("pos", "dep", "ner", "srl", "rel", "coref", "spr", "const")
    rows = [row for task in tasks for row in readings(task, DEP, TWIN)]
    best = [row for task in tasks for row in layers(task, DEP, [3])]

    assert len(found(made(rows, best))) == len(tasks)


def test_wrong_6_the_twin_is_told_as_the_tables_beside_the_finding_show_it() -> None:
    # The twin's best layer has .65; at the layer that is told it has .64.
    (reading,) = found(made(readings("pos", [0.8, 0.93], [0.65, 0.64]), layers("pos", [0.8, 0.93], [1])))

    assert "F1 .93 at layer 1, twin .64" in reading.text


def test_wrong_4_the_layer_that_is_told_has_the_highest_score() -> None:
    scores = [0.5, 0.85, 0.83, 0.79]
    (reading,) = found(made(readings("dep", scores, [0.3] * 4), layers("dep", scores, [1, 2])))

    assert "best at layers 1 and 2: F1 .85 at layer 1" in reading.text


@pytest.mark.parametrize(
    ("twin", "spread", "status", "said"),
    [
        (0.87, 0.05, "open", "It is not known whether dependencies can be read above the untrained twin (F1 .88 at"),
        (0.875, 0.01, "null", "Dependencies can be predicted as well from the untrained twin: F1 .88 at layer 3"),
        (0.95, 0.03, "clear", "Dependencies can be predicted better from the untrained twin: F1 .88 at layer 3"),
    ],
)
def test_what_a_twin_reaches_too_is_not_claimed(twin: float, spread: float, status: str, said: str) -> None:
    (reading,) = found(made(readings("dep", DEP, [twin] * 5, spread=spread), layers("dep", DEP, [3])))

    assert reading.status == status
    assert reading.text.startswith(said)


def test_the_harder_baseline_is_the_one_that_is_told() -> None:
    (reading,) = found(made(readings("dep", DEP, TWIN, 0.7), layers("dep", DEP, [3])))

    assert "above the best constant answer, best at layer 3: F1 .88 at layer 3, constant .70" in reading.text


def test_without_a_twin_the_constant_answer_is() -> None:
    (reading,) = found(made(readings("dep", DEP, None), layers("dep", DEP, [3])))

    assert "above the best constant answer" in reading.text


def test_probes_that_have_not_converged_are_passed_over_and_the_best_layer_is_not_told() -> None:
    (reading,) = found(made(readings("dep", DEP, TWIN, late=[3]), layers("dep", DEP, [], late=True)))

    assert "F1 .87 at layer 2, twin .62 (difference .25 [.22, .28])." in reading.text
    assert reading.text.endswith(f"The best layer is not available: {LATE}.")
    (untested,) = found(made(readings("dep", DEP, TWIN, late=range(5)), layers("dep", DEP, [], late=True)))
    assert untested.text == (f"It was not tested whether dependencies can be read above the untrained twin: {LATE}.")
    assert untested.status == "untested"


@pytest.mark.parametrize(("metric", "name"), [("macro_f1", "macro-F1"), ("r2", "R2")])
def test_a_task_is_told_by_its_own_metric(metric: str, name: str) -> None:
    (reading,) = found(made(readings("ques", DEP, TWIN, metric=metric), layers("ques", DEP, [3])))
    assert f"{name} .88 at layer 3" in reading.text


def test_probes_that_mix_layers_are_said_to() -> None:
    rows = readings("dep", [0.7, 0.9], [0.4, 0.5], probe="cumulative")
    (reading,) = found(made(rows, layers("dep", [0.7, 0.9], [1], "cumulative")))
    assert "F1 .90 at layers 0 to 1, twin .50" in reading.text


PLACES = {"pos": 1.2, "dep": 1.3, "ner": 2.4, "srl": 3.5}
PAIRS = [
    pair("pos", "dep", 0.1, 0.4), pair("pos", "ner", 1.2), pair("pos", "srl", 2.3),
    pair("dep", "ner", 1.1), pair("dep", "srl", 2.2), pair("ner", "srl", 1.1, 0.02),
]  # fmt: skip


def test_the_whole_order_is_told_with_its_ties() -> None:
    (order,) = found(made(order=PAIRS, places=PLACES))

    assert order.text == (
        "Tasks by expected layer, earliest first: part of speech, dependencies, entities and semantic roles; 5 of 6 "
        "pairs differ, all but part of speech and dependencies (least sure of them, semantic roles minus "
        "entities 1.10 [.90, 1.30])."
    )
    assert (order.status, order.p, order.unit, order.n) == ("clear", 0.02, "seed", 5)


def test_a_pair_whose_order_is_the_other_way_round_is_turned() -> None:
    (order,) = found(made(order=[pair("dep", "pos", -0.8)], places={"pos": 1.2, "dep": 2.0}))

    assert order.text == (
        "The order by expected layer is part of speech before dependencies (difference in layers .80 [.60, 1.00])."
    )
    assert order.estimate == pytest.approx(0.8)
    assert (order.low, order.high) == pytest.approx((0.6, 1.0))


def test_an_order_that_no_test_carries_is_open() -> None:
    (order,) = found(made(order=[pair("pos", "dep", 0.1, 0.3)], places=PLACES))
    assert order.text == (
        "It is not known whether the order by expected layer is part of speech before dependencies (difference in "
        "layers .10 [-.10, .30])."
    )
    assert order.status == "open"
    several = [pair(*row[:2], 0.1, 0.3) for row in PAIRS]
    (order,) = found(made(order=several, places=PLACES))
    assert order.text.startswith(
        "It is not known whether any task comes before another by expected layer (surest pair,"
    )


def test_wrong_6_with_few_seeds_no_order_is_told_and_that_once() -> None:
    pairs = [pair(*row[:2], row[3], NAN, needed=5) for row in PAIRS]
    gravity = [(*row[:2], "center_of_gravity", *row[3:]) for row in pairs]
    (order,) = found(made(order=[*pairs, *gravity], places=PLACES))

    assert order.text == (
        "2 seeds are too few to test whether tasks are resolved at different layers; at least 5 are needed."
    )
    assert order.status == "untested"


def test_an_order_that_is_not_available_has_a_reason() -> None:
    why = "pos: the probe of P(1) had not converged after 2,400 steps"
    (order,) = found(made(order=[pair("pos", "dep", NAN, NAN, reason=why)], places=PLACES))

    assert order.text == f"It was not tested whether tasks are resolved at different layers: {why}."


def test_the_least_selective_task_is_told() -> None:
    (said,) = found(made(control=[controlled("pos", 0.95, 0.5), controlled("dep", 0.93, 0.53)]))

    assert said.text == (
        "Dependencies, the least selective task, can be read beyond what a probe memorises: accuracy .93 at layer 1, "
        "control labels .53 (selectivity .40 [.38, .42])."
    )
    assert said.status == "clear"


@pytest.mark.parametrize(("model", "control", "p", "status"), [(0.60, 0.63, 0.001, "clear"), (0.60, 0.61, 0.6, "open")])
def test_wrong_12_a_selectivity_below_0_is_not_clear_reading(
    model: float, control: float, p: float, status: str
) -> None:
    (said,) = found(made(control=[controlled("dep", model, control, p)]))

    assert said.status == status
    assert not said.text.startswith("Dependencies can be read beyond")
    assert said.text.startswith("Control labels" if status == "clear" else "It is not known whether dependencies can")


def test_nothing_is_said_of_numbers_that_are_not_there() -> None:
    bare = made(control=[("dep", 0.1, 9, "accuracy", *[NAN] * 8, 0.0, 0.0, "document")])
    assert found(bare) == ()
    old = replace(bare, tables={"scores": bare.tables["summary"]})
    assert lamina.probe.findings(old) == (), "results of older versions have no tests of their own"


def test_findings_are_the_same_when_a_result_is_read_back(result: Result, tmp_path) -> None:
    again = Result.load(result.save(tmp_path / "saved", charts=False))

    assert len(result.findings) >= 3
    assert again.findings == lamina.probe.findings(again) == result.findings
