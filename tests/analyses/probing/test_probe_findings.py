"""What a probing result is said to show: clear effects, none, and numbers that are not there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import lamina
from lamina import Finding, Result
from lamina.results import Provenance

NAN = float("nan")


def score_rows(
    task: str,
    model: list[float],
    twin: list[float],
    control: list[float],
    *,
    spread: float,
    probe: str = "layer",
    metric: str = "f1",
) -> list[tuple]:
    """By the task's own metric; by accuracy everything is higher, which nothing may be made of."""
    rows = []
    for each, up in ((metric, 0.0), ("accuracy", 0.05)):
        about = ("dev", each, 100)
        rows.append(("minilm", task, "constant", "model", pd.NA, "all", "", *about, 0.2 + up, 0.19 + up, 0.21 + up))
        rows.append(("minilm", task, "constant", "control", pd.NA, "all", "", *about, 0.99, 0.98, 1.0))
        for of, values in (("model", model), ("random", twin), ("control", control)):
            for layer, value in enumerate(values):
                where = ("minilm", task, probe, of, layer, "all", "")
                rows.append((*where, *about, value + up, value + up - spread, value + up + spread))
    return rows


def training_rows(rows: list[tuple], late: set[tuple[str, str, int]]) -> list[tuple]:
    """Of every probe that has a score; those of `late` (task, whose, layer) had not converged."""
    probes = dict.fromkeys((task, of, probe, layer) for _, task, probe, of, layer, *_ in rows if probe != "constant")
    return [
        (task, of, probe, layer, 0, "", 2400, 600, 0.3, 0.01, (task, of, layer) not in late)
        for task, of, probe, layer in probes
    ]


def made(
    rows: list[tuple],
    selectivity: dict[str, float],
    order: list[tuple] = (),
    late: set[tuple[str, str, int]] = frozenset(),
) -> Result:
    """`order`: task_a, task_b, P by expected layer, corrected p, reason."""
    places = {"expected_layer": 1.5, "el_low": 1.2, "el_high": 1.8}
    summary = [
        {"task": task, **places, "selectivity": value, "selectivity_low": value - 0.02}
        | {"selectivity_high": value + 0.02, "selectivity_layer": 1, "selectivity_metric": "accuracy"}
        for task, value in selectivity.items()
    ]
    control = [(task, 0.9, 90, "accuracy", 1, 0.93, 0.93 - value, 0.15) for task, value in selectivity.items()]
    statistic = "expected_layer"
    pairs = [(a, b, statistic, p, *(reason or [""])) for a, b, p, _, *reason in order]
    tests = [(a, b, statistic, p, p) for a, b, _, p, *_ in order]
    tables = {"scores": rows, "summary": summary, "order": pairs, "order_tests": tests, "control": control}
    tables["training"] = training_rows(rows, set(late))
    frames = {name: pd.DataFrame(each, columns=lamina.probe.tables[name].columns) for name, each in tables.items()}
    frames["scores"] = frames["scores"].astype({"layer": "Int64"})
    return _result(frames)


@pytest.mark.parametrize(
    ("late", "status", "sure"),
    [
        ([0.3, 0.5, 0.9], "clear", "no layer does as well at both"),
        ([0.3, 0.88, 0.9], "open", "undecided, intervals of layers overlap"),
    ],
)
def test_without_probes_that_mix_layers_the_best_layers_are_compared(late: list[float], status: str, sure: str) -> None:
    rows = score_rows("ques", [0.7, 0.9, 0.6], [0.3] * 3, [0.1] * 3, spread=0.02, metric="macro_f1")
    rows += score_rows("sup", late, [0.3] * 3, [0.1] * 3, spread=0.02, metric="macro_f1")
    mixed = made(rows, {"ques": 0.3, "sup": 0.3})
    single = mixed.tables["summary"].assign(expected_layer=NAN)
    found = [
        each for each in lamina.probe.findings(_result({**mixed.tables, "summary": single})) if "Best" in each.text
    ]

    assert [(each.text, each.status) for each in found] == [
        (
            f"Best single layers: question type 1, supporting facts 2; question type before supporting facts: {sure}.",
            status,
        )
    ]
    assert not [each for each in lamina.probe.findings(mixed) if "Best single" in each.text], (
        "expected layers tell more"
    )


def _result(tables: dict[str, pd.DataFrame]) -> Result:
    return Result("probe", tables, Provenance({"name": "minilm"}, {"name": "ewt", "split": "dev"}, {}))


def found(result: Result) -> tuple[Finding, ...]:
    return lamina.probe.findings(result)


CLEAR = score_rows("dep", [0.7, 0.9, 0.8], [0.5, 0.51, 0.5], [0.4, 0.5, 0.4], spread=0.01)


def test_a_task_is_best_read_where_it_stands_above_twin_and_constant():
    (reading, selective) = found(made(CLEAR, {"dep": 0.4}))
    assert reading.text == (
        "Dependencies: best read at layer 1, F1 .90 [.89, .91]; an untrained twin reaches .51, the best constant "
        "answer reaches .20."
    )
    assert (reading.status, reading.value, reading.against) == ("clear", 0.9, 0.51)
    assert reading.chapter == "abilities"
    assert selective.text == (
        "Dependencies at layer 1, words seen in training: accuracy .93; control labels, which a probe can only "
        "memorise, reach .53 (their best constant answer .15): selectivity .40 [.38, .42]."
    )
    assert (selective.status, selective.value, selective.against) == ("clear", 0.4, 0.0)


def test_layers_that_cannot_be_told_from_the_best_are_named():
    rows = score_rows("dep", [0.7, 0.9, 0.85, 0.88, 0.89], [0.5] * 5, [0.4] * 5, spread=0.02)
    assert "at layer 1 (not clearly better than layers 3-4), F1 .90" in found(made(rows, {}))[0].text


@pytest.mark.parametrize(
    ("twin", "spread", "status", "said"),
    [
        (0.88, 0.05, "open", "does not clearly tell more than its baselines, F1 .90"),
        (0.9, 0.005, "null", "tells no more than its baselines, F1 .90"),
        (0.97, 0.01, "clear", "tells no more than its baselines, F1 .90"),
    ],
)
def test_what_a_twin_reaches_too_is_not_claimed(twin, spread, status, said):
    rows = score_rows("pos", [0.9], [twin], [0.4], spread=spread)
    (reading,) = found(made(rows, {}))
    assert reading.status == status
    assert said in reading.text


def test_tasks_come_by_their_gain_and_leave_room_for_order_and_selectivity():
    rows, gains = [], {"pos": 0.1, "dep": 0.4, "ner": 0.3, "srl": 0.2, "rel": 0.05}
    for task, gain in gains.items():
        rows += score_rows(task, [0.5, 0.5 + gain], [0.5, 0.5], [0.1, 0.1], spread=0.001)
    order = [("pos", "dep", 0.99, 0.01), ("dep", "ner", 0.2, 0.5)]
    texts = [each.text for each in found(made(rows, {"pos": 0.5, "dep": 0.8}, order))]
    assert [text.partition(":")[0] for text in texts] == [
        "Dependencies", "Entities", "Part of speech before dependencies",
        "Part of speech at layer 1, words seen in training",
    ]  # fmt: skip
    assert "expected layers 1.50 [1.20, 1.80] and 1.50 [1.20, 1.80], P > .99; the surest of 2 pairs" in texts[2]
    assert texts[3].endswith("selectivity .50 [.48, .52], the least of 2 tasks.")
    assert len(found(made(rows, {}))) == 4


@pytest.mark.parametrize(("p", "why"), [(NAN, "; a test needs at least 5 seeds"), (0.3, "")])
def test_an_order_that_no_test_carries_is_undecided(p, why):
    rows = [*CLEAR, *score_rows("pos", [0.7, 0.9], [0.5, 0.5], [0.4, 0.5], spread=0.01)]
    (said,) = [each for each in found(made(rows, {}, [("pos", "dep", 0.3, p)])) if "before" in each.text]
    assert said.text == f"Dependencies before part of speech by expected layer: undecided (P = .70{why})."
    assert said.status == "open"


def test_an_order_that_is_likely_but_cannot_be_tested_stays_open():
    (said,) = [each for each in found(made(CLEAR, {}, [("pos", "dep", 0.998, NAN)])) if "before" in each.text]
    assert said.text == (
        "Part of speech before dependencies by expected layer: likely (P > .99; a test needs at least 5 seeds)."
    )
    assert said.status == "open"


def test_an_order_that_is_not_available_has_a_reason_or_is_not_spoken_of():
    rows = [*CLEAR, *score_rows("pos", [0.7], [0.5], [0.4], spread=0.01)]
    why = "pos: the probe of P(1) had not converged after 2,400 steps"
    *_, said = found(made(rows, {}, [("pos", "dep", NAN, NAN, why), ("pos", "ner", NAN, NAN, why)]))
    assert said.text == (
        f"The order of part of speech and dependencies by expected layer is not available (nor of 1 other pair): {why}."
    )
    assert (said.status, said.value) == ("open", None)
    assert not [each for each in found(made(rows, {}, [("pos", "dep", NAN, NAN)])) if "order" in each.text]


def test_a_pair_without_an_order_does_not_hide_one_that_has_it():
    order = [("pos", "dep", NAN, NAN, "pos: no gain"), ("dep", "ner", 0.99, 0.01)]
    result = made([*CLEAR], {"dep": NAN, "ner": NAN}, order)
    (said,) = [each for each in found(result) if "before" in each.text]
    assert said.text.startswith("Dependencies before entities: expected layers 1.50 [1.20, 1.80]")
    assert said.status == "clear"


def test_nothing_is_said_of_the_place_where_probes_have_not_converged():
    (reading,) = found(made(CLEAR, {}, late={("dep", "model", 2)}))
    assert reading.text == (
        "Dependencies: the best layer is not available, 1 of 3 probes had not converged after 2,400 steps; the highest "
        "F1 so far is .90 [.89, .91]; an untrained twin reaches .51, the best constant answer reaches .20."
    )
    assert reading.status == "open"


def test_a_twin_that_has_not_converged_leaves_the_comparison_open():
    (reading,) = found(made(CLEAR, {}, late={("dep", "random", 0), ("dep", "control", 1)}))
    assert "best read at layer 1, F1 .90" in reading.text
    assert "an untrained twin reaches .51 (not all of its probes had converged)" in reading.text
    assert reading.status == "open"


@pytest.mark.parametrize(("metric", "name"), [("macro_f1", "macro-F1"), ("r2", "R2")])
def test_a_task_is_told_by_its_own_metric(metric, name):
    rows = score_rows("ques", [0.7, 0.9], [0.5, 0.5], [0.4, 0.4], spread=0.01, metric=metric)
    assert f"best read at layer 1, {name} .90 [.89, .91]" in found(made(rows, {}))[0].text


def test_selectivity_that_may_be_nothing_is_open():
    *_, said = found(made(CLEAR, {"dep": 0.01}))
    assert said.text.endswith("selectivity .01 [-.01, .03].")
    assert said.status == "open"


def test_probes_that_mix_layers_are_said_to():
    rows = score_rows("dep", [0.7, 0.9], [], [], spread=0.01, probe="cumulative")
    (reading,) = found(made(rows, {"dep": NAN}))
    assert (
        "best read at layers 0 to 1 together, F1 .90 [.89, .91]; the best constant answer reaches .20." in reading.text
    )


def test_nothing_is_said_of_numbers_that_are_not_there():
    rows = score_rows("dep", [NAN, NAN], [NAN, NAN], [NAN, NAN], spread=0.0)
    assert found(made(rows, {"dep": NAN})) == ()
    bare = made(CLEAR, {"dep": 0.4})
    old = replace(bare, tables={name: bare.tables[name] for name in ("scores", "summary", "order")})
    assert len(found(old)) == 1, "results of older versions have neither order_tests nor what a control reached"
    assert found(replace(bare, tables={})) == ()


def test_findings_are_the_same_when_a_result_is_read_back(result: Result, tmp_path):
    again = Result.load(result.save(tmp_path / "saved", charts=False))
    assert 1 <= len(result.findings) <= 4
    assert again.findings == lamina.probe.findings(again) == result.findings
    assert all(each.value is None or np.isfinite(each.value) for each in result.findings)
