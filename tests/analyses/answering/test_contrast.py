"""Right against wrong answers among similar questions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lamina.analyses.answering.failure import CONTRAST, CONTRASTED, TOGETHER, AnsweredQuestions, contrast_table


def answered(rows: list[tuple[float, bool, str, str]], layers: int = 1) -> AnsweredQuestions:
    values, right, units, strata = zip(*rows, strict=True)
    table = np.full((len(rows), layers, len(CONTRASTED)), np.nan)
    table[:, :, 0] = np.array(values)[:, None]
    return AnsweredQuestions(
        table, np.array(right), units, [each if each.startswith("qa") else f"|{each}" for each in strata]
    )


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
    assert (row["layer"], row["measure"], row["seeds"]) == (0, CONTRASTED[0], 1)
    assert (row["units"], row["needed"], row["unit"]) == (2, 6, "document")
    assert row["task"] == TOGETHER


def test_right_and_wrong_are_compared_within_a_task_and_never_between_tasks() -> None:
    """qa1 is nearly always right and far apart, qa15 always wrong and close: between them lies a task, no answer."""
    draw = np.random.default_rng(0)
    rows = [(1.0 + 0.01 * draw.normal(), number % 5 > 0, f"a{number}", "qa1|where|1") for number in range(40)]
    rows += [(0.0 + 0.01 * draw.normal(), False, f"b{number}", "qa15|what|1") for number in range(40)]
    table = contrast_table("m", [answered(rows)], samples=200, seed=0).set_index("task")
    assert table.index.tolist() == [TOGETHER, "qa1"]
    for task in table.index:
        assert abs(table.loc[task, "difference"]) < 0.02
        assert table.loc[task, "low"] < 0 < table.loc[task, "high"]
        assert table.loc[task, "right_low"] < table.loc[task, "right"] < table.loc[task, "right_high"]
    assert (table.loc[TOGETHER, "matched"], table.loc[TOGETHER, "unmatched"]) == (8, 40)
    assert table.loc["qa1", "unmatched"] == 0


def test_single_tasks_are_one_family() -> None:
    made = simulated(0.1, 0)
    strata = [f"qa{1 + number % 3}{each}" for number, each in enumerate(made.strata)]
    table = contrast_table("m", [made._replace(strata=strata)], samples=300, seed=0).set_index("task")
    alone = [
        contrast_table("m", [_only(made, strata, f"qa{number}")], samples=300, seed=0).iloc[0] for number in (1, 2, 3)
    ]
    widths = table["high"] - table["low"]
    # Simultaneous over the three, and wider than alone.
    assert all(widths[f"qa{at}"] > one["high"] - one["low"] for at, one in enumerate(alone, start=1))


def _only(made: AnsweredQuestions, strata: list[str], task: str) -> AnsweredQuestions:
    own = [number for number, each in enumerate(strata) if each.startswith(task)]
    return AnsweredQuestions(
        made.values[own], made.right[own], [made.units[at] for at in own], [strata[at] for at in own]
    )


def simulated(effect: float, seed: int, documents: int = 30) -> AnsweredQuestions:
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


def test_seeds_are_averaged_and_all_layers_and_measures_are_one_family() -> None:
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
    # The same numbers six times are one test, however often they are asked for.
    assert table["p_adjusted"].nunique() == 1
    assert table["p_adjusted"].iloc[0] == pytest.approx(
        contrast_table("m", [one], samples=100, seed=0)["p_adjusted"].iloc[0]
    )
    pd.testing.assert_frame_equal(table, contrast_table("m", [one._replace(values=values)], samples=100, seed=0))


def test_from_five_seeds_on_seeds_vary_too() -> None:
    shifted = [simulated(effect, 0) for effect in (0.0, 0.1, 0.2, 0.3, 0.4)]
    four, five = (contrast_table("m", shifted[:count], samples=300, seed=0).iloc[0] for count in (4, 5))
    assert five["high"] - five["low"] > 2 * (four["high"] - four["low"])
    alone = [contrast_table("m", [each], samples=20, seed=0).iloc[0]["difference"] for each in shifted]
    assert five["difference"] == pytest.approx(np.mean(alone))
