"""All results at a glance: abilities beside their baselines, heads with their roles, analyses in chapters."""

from __future__ import annotations

from typing import get_args

import pandas as pd
import pytest

from lamina.analyses import all_analyses
from lamina.analyses.declaration import Chapter
from lamina.analyses.overview import CHAPTERS, ability_layers, by_chapter, chapter_of, head_roles
from lamina.figures.overview import abilities, beside, describe_abilities, roles
from lamina.results import Provenance, Result

WHERE = Provenance({"name": "m"}, {"name": "c"}, {})


def probed(*, converged: bool = True) -> Result:
    """One task at three layers, .02 wide; the twin is better at layer 2, the constant better than the twin at 0."""
    values = {"model": [0.5, 0.8, 0.79], "random": [0.1, 0.3, 0.6]}
    rows = [
        ("m", "pos", "layer", of, layer, "all", "f1", 100, value, value - 0.01, value + 0.01)
        for of, own in values.items()
        for layer, value in enumerate(own)
    ]
    rows += [("m", "pos", "constant", "model", None, "all", "f1", 100, 0.2, 0.19, 0.21)]
    columns = ["model", "task", "probe", "of", "layer", "seed", "metric", "count", "value", "low", "high"]
    training = [("pos", "model", "layer", layer, converged or layer > 0, 10) for layer in range(3)]
    tables = {
        "scores": pd.DataFrame(rows, columns=columns),
        "training": pd.DataFrame(training, columns=["task", "of", "probe", "layer", "converged", "steps"]),
    }
    return Result("probe", tables, WHERE)


def looked_at() -> Result:
    rows = [
        (1, 1, "to_previous", 0.9, 0.85, 0.95, 0.1),
        (1, 2, "to_first", 0.61, 0.55, 0.67, 0.1),
        (1, 3, "to_next", 0.2, 0.1, 0.3, 0.1),
        (2, 1, "entropy", 1.8, 1.7, 1.9, 2.0),
    ]
    columns = ["layer", "head", "measure", "value", "low", "high", "baseline"]
    return Result("attention", {"surface": pd.DataFrame(rows, columns=columns)}, WHERE)


def test_a_score_is_told_above_the_larger_of_its_baselines():
    table = ability_layers([probed()])
    assert table["above"].round(6).tolist() == [0.3, 0.5, 0.19]
    assert table["peak"].tolist() == [False, True, False]
    # .79 - .01 and .80 + .01 overlap; .50 does not reach.
    assert set(zip(table["peak_low"], table["peak_high"], strict=True)) == {(1, 2)}


def test_probes_that_had_not_converged_have_no_peak():
    table = ability_layers([probed(converged=False)])
    assert not table["peak"].any()
    assert table["peak_low"].isna().all()
    assert "no peak" in describe_abilities(table)


def test_a_role_is_clear_where_its_whole_interval_is():
    table = head_roles([looked_at()])
    assert table[["role", "clear"]].values.tolist() == [
        ["previous", True],
        ["first", False],
        ["other", False],
        ["broad", True],
    ]
    broad = table.iloc[3]
    assert (broad["value"], broad["low"]) == pytest.approx((0.9, 0.85))


def test_every_analysis_is_in_one_of_five_chapters():
    assert [card.name for card in CHAPTERS] == list(get_args(Chapter))
    for each in all_analyses():
        assert chapter_of(each.name) == each.chapter
    assert list(by_chapter([looked_at(), probed()])) == ["abilities", "heads"]


def test_nothing_to_show_is_an_empty_table():
    assert ability_layers([looked_at()]).empty
    assert head_roles([probed()]).empty


def test_both_charts_share_the_layer_that_is_pointed_at():
    spec = beside(abilities(ability_layers([probed()])), roles(head_roles([looked_at()]))).to_dict()
    (shared,) = [each for each in spec["params"] if each["name"] == "layer"]
    assert len(shared["views"]) >= 2
