"""Several results side by side: same axes, models told apart, what is missing said."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lamina.comparison.tables import DepthScore, ModelDifference, ModelValue, RankedLayer
from lamina.figures import draw, to_svg
from lamina.results import Provenance, Result

MODELS = ("minilm", "mpnet", "smollm2", "bert", "roberta", "distilbert")
KINDS = {
    "score_first": 0.6,
    "score_full": 0.9,
    "score_best_layer": 0.92,
    "center_of_gravity": 0.5,
    "expected_layer": 0.3,
}


def compared(
    count: int = 2, tasks=("pos", "dep"), depths=(6, 12), probes=("cumulative", "layer"), metric="f1"
) -> Result:
    """A comparison made by hand: of two models of different depth, or of more."""
    models = {model: depths[at % len(depths)] for at, model in enumerate(MODELS[:count])}
    values, apart, curves, best = [], [], [], []
    shown = [name for name in KINDS if ("layer" if name == "score_best_layer" else "cumulative") in probes]
    for task in tasks:
        for name in shown:
            spread = "range" if name == "center_of_gravity" else "interval"
            for at, model in enumerate(models):
                value = KINDS[name] - 0.02 * at
                values.append((task, metric, name, model, value, value - 0.01, value + 0.01, spread, None, ""))
            for a in range(count):
                for b in range(a + 1, count):
                    gap = 0.02 * (b - a)
                    row = (task, metric, name, MODELS[a], MODELS[b], gap, gap - 0.015, gap + 0.015, spread)
                    apart.append((*row, 0.03, 40, 0, "text", ""))
        for model, last in models.items():
            for probe in probes:
                for layer in range(last + 1):
                    value = 0.6 + 0.3 * layer / last
                    curves.append((model, task, metric, probe, layer, layer / last, value, value - 0.01, value + 0.01))
                    if probe == "layer":
                        row = (task, 1, model, layer, layer / last, value, value - 0.01, value + 0.01)
                        best.append((*row, 0.01, False, layer == last, layer / last))
    tables = {
        "compare": pd.DataFrame(values, columns=list(ModelValue._fields)).astype({"layer": "Int64"}),
        "differences": pd.DataFrame(apart, columns=list(ModelDifference._fields)),
        "depth": pd.DataFrame(curves, columns=list(DepthScore._fields)),
        "best_layers": pd.DataFrame(best, columns=list(RankedLayer._fields)).sort_values("value", ascending=False),
    }
    about = {"name": ", ".join(models), "fingerprint": "f"}, {"name": "ewt", "fingerprint": "c"}
    return Result("compare", tables, Provenance(*about, {}))


def test_models_share_relative_depth_and_are_told_apart():
    specs = {name: chart.to_dict() for name, chart in draw(compared()).items()}
    expected = ["scores", "differences", "places", "depth", "heatmap"]
    assert list(specs) == expected, "layers of models of other depths are not on one axis"
    assert [panel["title"]["text"] for panel in specs["places"]["concat"]] == ["Centre of gravity", "Expected layer"]
    assert [panel["title"]["text"] for panel in specs["scores"]["concat"]] == ["All layers mixed", "Best single layer"]
    assert len(specs["depth"]["concat"]) == 4
    bars, line, points = specs["depth"]["concat"][0]["layer"]
    assert line["encoding"]["x"]["field"] == "relative_depth"
    assert line["encoding"]["x"]["scale"]["domain"] == [0, 1]
    assert bars["encoding"]["y"]["scale"]["domain"] == line["encoding"]["y"]["scale"]["domain"] == [0.5, 1.0]
    for encoding in (line["encoding"]["color"], line["encoding"]["strokeDash"], points["encoding"]["shape"]):
        assert encoding["scale"]["domain"] == ["minilm", "mpnet"]
    for spec in specs.values():
        assert "NaN" not in json.dumps(spec)
        assert to_svg(spec).startswith("<svg")


@pytest.mark.parametrize(("count", "pairs"), [(2, 1), (3, 3), (4, 6), (6, 5)])
def test_two_to_six_models_differ_in_colour_shape_and_dash(count, pairs):
    charts = {name: chart.to_dict() for name, chart in draw(compared(count)).items()}
    _, line, points = charts["depth"]["concat"][0]["layer"]
    for encoding in (line["encoding"]["color"], line["encoding"]["strokeDash"], points["encoding"]["shape"]):
        assert len({json.dumps(each) for each in encoding["scale"]["range"]}) == count
    # With many models only the pairs with the first are drawn, and that is said.
    drawn = charts["differences"]["concat"][0]["layer"][1]["encoding"]["color"]["scale"]["domain"]
    assert len(drawn) == pairs
    assert ("only pairs with minilm" in charts["differences"]["title"]["subtitle"]) is (count > 4)


def test_a_range_over_seeds_is_called_one():
    gravity, expected = draw(compared())["places"].to_dict()["concat"]
    assert gravity["title"]["subtitle"] == "lines: range over seeds, no interval"
    assert expected["title"]["subtitle"] == "lines: 95 % interval"


def test_what_is_not_available_is_said():
    result = compared()
    table = result.tables["compare"]
    gone = (table["task"] == "pos") & (table["statistic"] == "expected_layer") & (table["model"] == "minilm")
    table.loc[gone, ["value", "low", "high"]] = np.nan
    chart = draw(result)["places"]
    assert to_svg(chart).count(">n/a<") == 1
    assert (
        "Part of speech, expected layer, share of the depth: minilm n/a, mpnet 0.28." in chart.to_dict()["description"]
    )


@pytest.mark.parametrize(
    ("probes", "drawn"),
    [
        (("layer",), ["scores", "differences", "depth", "by_layer", "heatmap"]),
        (("cumulative",), ["scores", "differences", "places", "depth"]),
    ],
)
def test_results_with_some_of_the_probes_draw_what_there_is(probes, drawn):
    charts = draw(compared(probes=probes, depths=(6,)))
    assert list(charts) == drawn
    assert all(to_svg(chart).startswith("<svg") for chart in charts.values())


def test_an_interval_without_ends_is_not_drawn():
    whole = compared()
    few = whole.tables["differences"].assign(low=-np.inf, high=np.inf, p_adjusted=np.nan, needed=6)
    chart = draw(replace(whole, tables={**whole.tables, "differences": few}))["differences"].to_dict()
    rule = chart["concat"][0]["layer"][1]
    assert np.isfinite(rule["encoding"]["x"]["scale"]["domain"]).all()
    assert to_svg(chart).startswith("<svg")


def test_nothing_is_drawn_of_nothing():
    whole = compared()
    assert draw(replace(whole, tables={name: table.head(0) for name, table in whole.tables.items()})) == {}
    alone = compared(2)
    same = alone.tables["differences"].assign(difference=np.nan)
    assert "differences" not in draw(replace(alone, tables={**alone.tables, "differences": same}))


def test_layers_of_models_of_one_depth_by_layer_and_as_heat_maps():
    charts = draw(compared(depths=(6,), tasks=("pos", "dep", "ner")))
    by_layer, heatmap = (charts[name].to_dict() for name in ("by_layer", "heatmap"))
    assert len(by_layer["concat"]) == 3
    assert [panel["title"] for panel in heatmap["concat"]] == ["minilm", "mpnet"]
    assert heatmap["concat"][0]["layer"][0]["encoding"]["color"]["field"] == "normalised"
    assert "mpnet: Part of speech, best score of one layer alone: mpnet 0.90 at layer 6." in heatmap["description"]


def test_other_metrics_than_f1_are_named():
    charts = draw(compared(metric="r2"))
    assert charts["depth"].to_dict()["concat"][0]["layer"][1]["encoding"]["y"]["title"] == "R2"
    assert "Part of speech, R2" in to_svg(charts["scores"])
