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
SCORES = lamina.probe.tables["scores"].columns
SUMMARY = lamina.probe.tables["summary"].columns


def score_rows(task: str, model: list[float], twin: list[float], control: list[float], *, spread: float, probe="layer"):
    about = ("dev", "micro-F1 over all labels", 100)
    rows = [("minilm", task, "constant", "model", pd.NA, "all", *about, 0.2, 0.19, 0.21)]
    for of, values in (("model", model), ("random", twin), ("control", control)):
        for layer, value in enumerate(values):
            where = ("minilm", task, probe, of, layer, "all")
            rows.append((*where, *about, value, value - spread, value + spread))
    return rows


def made(rows: list[tuple], selectivity: dict[str, float], order: list[tuple] = ()) -> Result:
    """`order`: task_a, task_b, P by expected layer, corrected p."""
    summary = [(task, *[NAN] * (len(SUMMARY) - 2), value) for task, value in selectivity.items()]
    table = pd.DataFrame(summary, columns=SUMMARY)
    table[["expected_layer", "el_low", "el_high"]] = [1.5, 1.2, 1.8]
    pairs = [(a, b, "expected_layer", p) for a, b, p, _ in order]
    tests = [(a, b, "expected_layer", p, p) for a, b, _, p in order]
    tables = {
        "scores": pd.DataFrame(rows, columns=SCORES).astype({"layer": "Int64"}),
        "summary": table,
        "order": pd.DataFrame(pairs, columns=lamina.probe.tables["order"].columns),
        "order_tests": pd.DataFrame(tests, columns=lamina.probe.tables["order_tests"].columns),
    }
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
    assert "at layer 1: F1 .90 [.89, .91]; control labels" in selective.text
    assert selective.text.endswith("reach .50 [.49, .51] (selectivity .40).")
    assert selective.status == "clear"


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
        "Dependencies", "Entities", "Part of speech before dependencies", "Part of speech at layer 1",
    ]  # fmt: skip
    assert "expected layers 1.50 [1.20, 1.80] and 1.50 [1.20, 1.80], P = .99; the surest of 2 pairs" in texts[2]
    assert "(selectivity .50, the least of 2 tasks)" in texts[3]
    assert len(found(made(rows, {}))) == 4


@pytest.mark.parametrize(("p", "why"), [(NAN, "; a test needs at least 5 seeds"), (0.3, "")])
def test_an_order_that_no_test_carries_is_undecided(p, why):
    rows = [*CLEAR, *score_rows("pos", [0.7, 0.9], [0.5, 0.5], [0.4, 0.5], spread=0.01)]
    (said,) = [each for each in found(made(rows, {}, [("pos", "dep", 0.3, p)])) if "before" in each.text]
    assert said.text == f"Dependencies before part of speech by expected layer: undecided (P = .70{why})."
    assert said.status == "open"


def test_an_order_that_is_not_available_is_not_spoken_of():
    rows = [*CLEAR, *score_rows("pos", [0.7], [0.5], [0.4], spread=0.01)]
    assert not [each for each in found(made(rows, {}, [("pos", "dep", NAN, NAN)])) if "before" in each.text]


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
    assert len(found(old)) == 2, "results of older versions have no order_tests"
    assert found(replace(bare, tables={})) == ()


def test_findings_are_the_same_when_a_result_is_read_back(result: Result, tmp_path):
    again = Result.load(result.save(tmp_path / "saved", charts=False))
    assert 1 <= len(result.findings) <= 4
    assert again.findings == lamina.probe.findings(again) == result.findings
    assert all(np.isfinite(each.value) for each in result.findings)
