"""Right against wrong answers among similar questions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lamina.analyses.questions.contrast import CONTRAST, CONTRASTED, TOGETHER, Answered, contrast_table
from lamina.analyses.questions.intervals import over_seeds


def answered(rows: list[tuple[float, bool, str, str]], layers: int = 1) -> Answered:
    values, right, units, strata = zip(*rows, strict=True)
    table = np.full((len(rows), layers, len(CONTRASTED)), np.nan)
    table[:, :, 0] = np.array(values)[:, None]
    return Answered(table, np.array(right), units, [each if each.startswith("qa") else f"|{each}" for each in strata])


def test_a_wrong_answer_is_compared_with_right_ones_of_its_document_and_kind() -> None:
    rows = [
        # Matched within the document: .4 against the mean of .5 and .7.
        (0.4, False, "a", "who|1"),
        (0.5, True, "a", "who|1"),
        (0.7, True, "a", "who|1"),
        # Its document has no right answer of this kind: against all right ones of the kind, .6.
        (0.1, False, "b", "who|1"),
        # No right answer of this kind anywhere.
        (0.9, False, "b", "why|1"),
        # A right answer of another kind counts nowhere.
        (9.0, True, "b", "what|1"),
    ]
    (row,) = contrast_table("m", [answered(rows)], samples=50, seed=0).to_dict("records")
    assert (row["matched"], row["within_document"], row["unmatched"]) == (2, 1, 1)
    assert row["wrong"] == pytest.approx((0.4 + 0.1) / 2)
    assert row["right"] == pytest.approx((0.6 + 0.6) / 2)
    assert row["difference"] == pytest.approx(0.35)
    assert (row["layer"], row["measure"], row["seeds"], row["documents"]) == (0, CONTRASTED[0], 1, 2)
    assert row["task"] == TOGETHER


def test_right_and_wrong_are_compared_within_a_task_and_never_between_tasks() -> None:
    """qa1 is nearly always right and far apart, qa15 always wrong and close: between them lies a task, no answer."""
    draw = np.random.default_rng(0)
    rows = [(1.0 + 0.01 * draw.normal(), number % 10 > 0, f"a{number}", "qa1|where|1") for number in range(40)]
    rows += [(0.0 + 0.01 * draw.normal(), False, f"b{number}", "qa15|what|1") for number in range(40)]
    table = contrast_table("m", [answered(rows)], samples=200, seed=0).set_index("task")
    assert table.index.tolist() == [TOGETHER, "qa1"]
    for task in table.index:
        assert abs(table.loc[task, "difference"]) < 0.02
        assert table.loc[task, "low"] < 0 < table.loc[task, "high"]
        assert table.loc[task, "right_low"] < table.loc[task, "right"] < table.loc[task, "right_high"]
    assert (table.loc[TOGETHER, "matched"], table.loc[TOGETHER, "unmatched"]) == (4, 40)
    assert table.loc["qa1", "unmatched"] == 0


def test_holm_counts_single_tasks_together() -> None:
    made = simulated(0.1, 0)
    strata = [f"qa{1 + number % 3}{each}" for number, each in enumerate(made.strata)]
    table = contrast_table("m", [made._replace(strata=strata)], samples=100, seed=0).set_index("task")
    single = table.loc[["qa1", "qa2", "qa3"]]
    assert table.loc[TOGETHER, "p_adjusted"] == table.loc[TOGETHER, "p"]
    assert single["p_adjusted"].min() == pytest.approx(min(1, 3 * single["p"].min()))


def simulated(effect: float, seed: int, documents: int = 30) -> Answered:
    """Long answers are apart and often wrong: without matching, wrong answers look apart."""
    draw = np.random.default_rng(seed)
    rows = []
    for document in range(documents):
        shift = draw.normal() * 0.2
        for _ in range(12):
            long = draw.random() < 0.5
            right = bool(draw.random() < (0.2 if long else 0.8))
            value = shift + 0.5 * long + effect * right + draw.normal() * 0.1
            rows.append((value, right, f"d{document}", f"who|{long}"))
    return answered(rows)


def test_a_planted_difference_is_found_and_length_alone_is_none() -> None:
    found = contrast_table("m", [simulated(0.2, 0)], samples=200, seed=0).iloc[0]
    assert found["low"] < 0.2 < found["high"]
    assert found["p_adjusted"] < 0.01
    made = simulated(0.0, 1)
    nothing = contrast_table("m", [made], samples=200, seed=0).iloc[0]
    assert nothing["low"] < 0 < nothing["high"]
    plain = np.nanmean(made.values[made.right, 0, 0]) - np.nanmean(made.values[~made.right, 0, 0])
    assert plain < -0.2


def test_intervals_cover_and_documents_are_what_varies() -> None:
    inside = 0
    for seed in range(60):
        found = contrast_table("m", [simulated(0.1, seed, documents=12)], samples=100, seed=seed).iloc[0]
        inside += found["low"] <= 0.1 <= found["high"]
    # 95 % of 60 are 57; less than 51 would happen once in 300 times.
    assert inside >= 51


def test_seeds_are_averaged_and_holm_counts_all_layers_and_measures() -> None:
    one, other = simulated(0.2, 0), simulated(0.4, 0)
    both = contrast_table("m", [one, other], samples=100, seed=0).iloc[0]
    alone = [contrast_table("m", [each], samples=100, seed=0).iloc[0]["difference"] for each in (one, other)]
    assert both["difference"] == pytest.approx(np.mean(alone))
    assert both["seeds"] == 2
    values = np.repeat(one.values, 3, axis=1)
    values[:, :, 1] = values[:, :, 0]
    table = contrast_table("m", [one._replace(values=values)], samples=100, seed=0)
    assert tuple(table.columns) == CONTRAST
    assert len(table) == 6
    assert table["p_adjusted"].min() == pytest.approx(min(1, 6 * table["p"].min()))
    pd.testing.assert_frame_equal(table, contrast_table("m", [one._replace(values=values)], samples=100, seed=0))


def test_from_five_seeds_on_seeds_vary_too() -> None:
    draw = np.random.default_rng(0)
    draws = 0.5 + 0.01 * draw.normal(size=(5, 500))
    values = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    draws += (values - 0.5)[:, None]
    five = over_seeds(values, draws, 50)
    four = over_seeds(values[:4], draws[:4], 50)
    assert four.high - four.low < 0.05
    assert five.high - five.low > 0.5
    assert five.value == pytest.approx(0.5)
