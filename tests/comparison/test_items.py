"""Models compared by the items that they were asked: the same numbers as scipy's, and nothing paired that is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, permutation_test

from lamina.comparison.compare import compare
from lamina.errors import InputError
from lamina.framework.verify import check_findings
from lamina.results import Provenance, Result

GROUPS = {"agreement": 40, "islands": 10}


def answered(
    name: str,
    values: dict[str, list[float]],
    *,
    kind: str = "pairs",
    suite: str = "blimp",
    weights: str | None = None,
    **parameters: object,
) -> Result:
    rows = [(f"{group}/{at}", group, value) for group, own in values.items() for at, value in enumerate(own)]
    table = pd.DataFrame(rows, columns=["item", "group", "value"])
    model, data = {"name": name, "fingerprint": weights or name}, {"name": suite, "fingerprint": suite}
    return Result(kind, {"items": table}, Provenance(model, data, parameters), parquet=("items",))


def right(share: float, seed: int = 0) -> dict[str, list[float]]:
    """The same items are easy for every model."""
    ease = np.random.default_rng(seed)
    return {group: (ease.random(size) < share).astype(float).tolist() for group, size in GROUPS.items()}


def test_the_difference_is_paired_by_item_and_groups_are_one_family() -> None:
    a, b = right(0.9), right(0.5)
    result = compare(answered("a", a), answered("b", b), samples=2000)

    rows = result.tables["differences"].set_index("task")
    assert list(rows.index) == ["all", *GROUPS]
    for group, size in GROUPS.items():
        apart = np.subtract(a[group], b[group])
        assert rows.loc[group, "difference"] == pytest.approx(apart.mean())
        assert (rows.loc[group, "units"], rows.loc[group, "unit"]) == (size, "item")
        ahead, behind = int((apart > 0).sum()), int((apart < 0).sum())
        # Corrected for the other group: never below the exact test of this one.
        exact = binomtest(ahead, ahead + behind).pvalue
        p = rows.loc[group, "p_adjusted"]
        assert np.isnan(p) or exact - 0.01 <= p <= 2 * exact + 0.01
    # Groups count alike, whatever their size.
    assert rows.loc["all", "difference"] == pytest.approx(rows.loc[list(GROUPS), "difference"].mean())
    assert [finding.status for finding in result.findings] == ["clear", "clear"]
    assert result.findings[0].text.startswith("a has a higher accuracy than b in the mean over groups: .")
    assert result.findings[1].text.startswith("a has a higher accuracy than b at ")
    assert check_findings(result) == []


def test_one_group_of_right_and_wrong_answers_is_tested_as_mcnemar_does() -> None:
    a, b = ({"agreement": each["agreement"]} for each in (right(0.8), right(0.6)))
    rows = compare(answered("a", a), answered("b", b), samples=200).tables["differences"]
    apart = np.subtract(a["agreement"], b["agreement"])
    ahead, behind = int((apart > 0).sum()), int((apart < 0).sum())
    assert rows["p_adjusted"].item() == pytest.approx(binomtest(ahead, ahead + behind).pvalue, abs=0.01)


def test_items_of_two_groups_may_have_one_name() -> None:
    table = pd.DataFrame(
        [(str(at), group, float(at % 2)) for group in GROUPS for at in range(30)], columns=["item", "group", "value"]
    )
    both = []
    for name in ("a", "b"):
        result = answered(name, right(0.5))
        both.append(Result("pairs", {"items": table}, result.provenance))
    rows = compare(*both, samples=2000).tables["compare"].set_index(["task", "model"])
    widths = rows["high"] - rows["low"]
    # Two independent groups: the mean varies less than either.
    assert widths["all", "a"] < 0.85 * widths["agreement", "a"]


def test_numbers_that_are_neither_right_nor_wrong_are_tested_too() -> None:
    draw = np.random.default_rng(3)
    one = draw.normal(5, 1, 30)
    other = one - 0.3 + draw.normal(0, 1, 30)
    made = compare(answered("a", {"bits": one.tolist()}), answered("b", {"bits": other.tolist()}), samples=4000)

    row = made.tables["differences"].iloc[0]
    expected = permutation_test(
        (one, other), lambda x, y: (x - y).mean(), permutation_type="samples", n_resamples=4000, rng=0
    )
    assert (row["metric"], row["task"]) == ("mean", "bits")
    assert row["p_adjusted"] == pytest.approx(expected.pvalue, abs=0.03)


def test_where_all_items_came_out_alike_the_interval_is_that_of_a_share() -> None:
    never = {"agreement": [0.0] * 20}
    made = compare(answered("a", {"agreement": [1.0] * 20}), answered("b", never), samples=100)

    table = made.tables["compare"].set_index("model")
    assert table.loc["a", ["low", "high"]].tolist() == pytest.approx([0.8316, 1.0], abs=1e-4)
    assert table.loc["b", ["low", "high"]].tolist() == pytest.approx([0.0, 0.1684], abs=1e-4)
    apart = made.tables["differences"].iloc[0]
    assert apart[["low", "high"]].tolist() == pytest.approx([0.8316, 1.0], abs=1e-4)
    assert apart["p_adjusted"] < 0.001


def test_a_few_items_that_nobody_tells_apart_are_not_a_precise_nothing() -> None:
    values = {"agreement": [1.0, 0.0, 1.0, 1.0, 0.0]}
    made = compare(answered("a", values), answered("b", values), samples=100)
    row = made.tables["differences"].iloc[0]
    assert row[["low", "high"]].tolist() == pytest.approx([-0.5218, 0.5218], abs=1e-4)
    assert (np.isnan(row["p_adjusted"]), row["needed"]) == (True, 6)
    (found,) = made.findings
    assert found.status == "untested"
    assert found.text.startswith("5 items are too few to test whether a or b has the higher accuracy at agreement")


def test_items_of_some_models_alone_are_left_out_and_order_changes_nothing() -> None:
    a, b = answered("a", right(0.8)), answered("b", right(0.6))
    few = answered("b", {group: own[:8] for group, own in right(0.6).items()})
    made = compare(a, few, samples=200)
    assert made.provenance.skipped == {"items of a that not all models answered": 34}
    assert len(made.tables["items"]) == 2 * 16

    mixed = Result("pairs", {"items": b.tables["items"].sample(frac=1, random_state=1)}, b.provenance)
    pd.testing.assert_frame_equal(
        compare(a, mixed, samples=200).tables["differences"], compare(a, b, samples=200).tables["differences"]
    )


def test_suites_of_one_model_are_merged_and_unlike_settings_are_told() -> None:
    given = [
        answered(name, right(share), suite=suite, masking=masking)
        for name, share, masking in (("a", 0.8, "piece"), ("b", 0.6, "word"))
        for suite in ("blimp", "own")
    ]
    made = compare(given, samples=100)
    assert list(dict.fromkeys(made.tables["compare"]["task"])) == [
        "all", "agreement (blimp)", "islands (blimp)", "agreement (own)", "islands (own)",
    ]  # fmt: skip
    assert "asked in different ways (masking: a piece, b word)" in " ".join(each.text for each in made.findings)


def test_one_model_asked_in_two_ways_is_compared_with_itself() -> None:
    made = compare(answered("a", right(0.8), masking="word"), answered("a", right(0.6), masking="piece"), samples=50)
    assert set(made.tables["compare"]["model"]) == {"a (1)", "a (2)"}


def test_a_comparison_is_saved_with_its_items_as_parquet_and_drawn(tmp_path: Path) -> None:
    made = compare(answered("a", right(0.8)), answered("b", right(0.6)), samples=50, out=tmp_path / "out")
    assert {"compare.csv", "differences.csv", "items.parquet", "scores.svg", "differences.svg"} <= {
        path.name for path in (tmp_path / "out").iterdir()
    }
    pd.testing.assert_frame_equal(
        Result.load(tmp_path / "out").tables["items"], made.tables["items"], check_dtype=False
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([answered("a", right(0.8)), answered("b", right(0.6), kind="cloze")], "results of pairs and cloze cannot"),
        ([answered("a", right(0.8))], "another folder that `lamina pairs` wrote"),
        ([answered("a", right(0.8)), answered("b", {"other": [1.0]})], "a on blimp and b on blimp have no item in"),
        ([answered("a", right(0.8)), answered("a", right(0.6)), answered("b", right(0.6))], "a was asked blimp twice"),
    ],
    ids=["kinds", "one", "nothing shared", "twice"],
)
def test_what_cannot_be_compared_is_said(given: list[Result], said: str) -> None:
    with pytest.raises(InputError, match=said):
        compare(given, samples=10)
