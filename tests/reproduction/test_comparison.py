"""Published numbers beside ours: selections, units, depths, intervals and verdicts."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest

from lamina.reproduction import get_paper
from lamina.reproduction.papers import PublishedTable
from lamina.reproduction.running import compare_numbers, last_layer, paper_table
from lamina.results import Provenance, Result

PROVENANCE = Provenance({"name": "little"}, {"name": "c"}, {})


def result(**tables: pd.DataFrame) -> Result:
    return Result("heads", tables, PROVENANCE)


def table(**changes: object) -> PublishedTable:
    plain = PublishedTable(
        "heads", "Table 1", "bert", "wsj", "table 1", ("head", "offset"), ("%", "%"),
        {"det": (94.3, 51.7), "amod": (75.6, 68.3)}, runs=("run",), table="best", key="relation",
        values=({"value": "accuracy", "low": "low", "high": "high"}, {"value": "offset"}),
    )  # fmt: skip
    return replace(plain, **changes)  # type: ignore[arg-type]


BEST = pd.DataFrame(
    [("det", 0.9, 0.85, 0.96, 0.5), ("obj", 0.7, 0.6, 0.8, 0.4)],
    columns=["relation", "accuracy", "low", "high", "offset"],
)


def test_shares_stand_beside_per_cent_with_the_interval_of_ours() -> None:
    numbers = compare_numbers([table()], {"run": result(best=BEST)}).set_index(["row", "column"])
    head = numbers.loc[("det", "head")]
    assert head[["ours", "low", "high"]].tolist() == pytest.approx([90, 85, 96])
    assert head[["difference", "diff_low", "diff_high"]].tolist() == pytest.approx([-4.3, -9.3, 1.7])
    assert head["verdict"] == "agrees"
    assert numbers.loc[("det", "offset"), "verdict"] == "no interval"
    assert numbers.loc[("amod", "head"), "verdict"] == "not there"
    assert compare_numbers([table()], {})["verdict"].unique().tolist() == ["not run"]


def test_a_number_outside_the_interval_of_ours_is_above_or_below() -> None:
    low = compare_numbers([table(rows={"det": (99.0, 51.7)})], {"run": result(best=BEST)})
    high = compare_numbers([table(rows={"det": (80.0, 51.7)})], {"run": result(best=BEST)})
    assert (low["verdict"].iloc[0], high["verdict"].iloc[0]) == ("below", "above")


def test_layers_of_models_of_another_depth_are_matched_and_compared_by_depth() -> None:
    layers = pd.DataFrame({"layer": [0, 1, 2, 3], "value": [0.5, 0.6, 0.7, 0.8]})
    by_layer = table(
        columns=("test",),
        units=("share",),
        rows={"6": (0.75,), "12": (0.8,)},
        layers=12,
        table="sclass",
        key="layer",
        values=({"value": "value"},),
    )
    numbers = compare_numbers([by_layer], {"run": result(sclass=layers)})
    # Layer 6 of 12 is layer 2 of 3 by rounding half to even; layer 12 the last.
    assert numbers["ours"].tolist() == [0.7, 0.8]
    expected = pd.DataFrame([("pos", 1.5, 1.2, 1.8, 3)], columns=["task", "expected_layer", "low", "high", "layer"])
    placed = table(
        columns=("expected layer",),
        units=("layer",),
        rows={"pos": (3.0,)},
        layers=12,
        table="summary",
        key="task",
        values=({"value": "expected_layer", "low": "low", "high": "high"},),
    )
    number = compare_numbers([placed], {"run": result(summary=expected)}).iloc[0]
    assert last_layer(result(summary=expected)) == 3
    assert number[["difference", "diff_low", "diff_high"]].tolist() == pytest.approx([0.25, 0.15, 0.35])


def test_rows_are_selected_by_other_columns_and_the_best_of_several() -> None:
    coref = pd.DataFrame(
        [("head", "all", 0.5), ("head", "all", 0.6), ("nearest", "all", 0.3)],
        columns=["system", "mention_type", "accuracy"],
    )
    asked = table(
        columns=("all",),
        units=("%",),
        rows={"nearest": (27.0,), "best_head": (65.0,)},
        table="coref",
        key="system",
        selections={"best_head": {"system": "head", "best": "accuracy"}},
        values=({"value": "accuracy", "where": {"mention_type": "all"}},),
    )
    assert compare_numbers([asked], {"run": result(coref=coref)})["ours"].tolist() == pytest.approx([30, 60])


def test_an_f1_over_decisions_that_should_all_be_yes_is_made_of_the_recall() -> None:
    """Half of the combinations found: F1 is 2 * .5 / 1.5; the interval goes along."""
    recall = pd.DataFrame([("P-random", 0.5, 0.4, 0.6)], columns=["representation", "value", "low", "high"])
    bags = table(
        columns=("test",),
        units=("share",),
        rows={"p_random": (0.63,)},
        table="recall",
        key="representation",
        selections={"p_random": {"representation": "P-random"}},
        values=({"value": "value", "low": "low", "high": "high", "of_recall": True},),
    )
    number = compare_numbers([bags], {"run": result(recall=recall)}).iloc[0]
    assert number[["ours", "low", "high"]].tolist() == pytest.approx([2 / 3, 0.8 / 1.4, 1.2 / 1.6])
    assert number["verdict"] == "agrees"


def test_means_are_over_the_rows_that_both_have() -> None:
    suites = pd.DataFrame({"paradigm": ["cleft", "mvrr"], "accuracy": [0.9, 0.5], "score": ["plain", "plain"]})
    paper = get_paper("syntaxgym")
    numbers = compare_numbers(paper.tables, {"suites": result(pairs=suites.assign(low=0.0, high=1.0))})
    mean = numbers[numbers["row"] == "mean over these suites (2)"].iloc[0]
    both = [paper.tables[0].rows[name][0] for name in ("cleft", "mvrr")]
    assert (mean["published"], mean["ours"]) == (pytest.approx(sum(both) / 2), pytest.approx(0.7))
    assert math.isnan(mean["diff_low"])


def test_a_paper_table_has_every_cell_in_words() -> None:
    drawn = paper_table(table(), compare_numbers([table()], {"run": result(best=BEST)}))
    assert drawn.rows[0].cells[0] == ("94.3", "90.0 [85.0, 96.0]", "-4.3 [-9.3, 1.7], agrees")
    assert drawn.rows[1].cells[0] == ("75.6", "not there", "")
    assert drawn.summary.startswith("1 of 1 numbers with an interval agree")
    assert drawn.figure is not None
