"""Two results side by side: same axes, both models told apart, what is missing said."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lamina.analyses.compare import compare
from lamina.figures import draw, to_svg
from lamina.results import Result


@pytest.fixture
def compared(make_probe) -> Result:
    return compare(make_probe(), make_probe(model="mpnet", layers=13))


def test_places_and_curves_share_relative_depth(compared):
    specs = {name: chart.to_dict() for name, chart in draw(compared).items()}
    assert list(specs) == ["places", "depth", "heatmap"], "layers of models of other depths are not on one axis"
    assert [panel["title"]["text"] for panel in specs["places"]["concat"]] == ["Centre of gravity", "Expected layer"]
    assert len(specs["depth"]["concat"]) == 8
    _, line, points = specs["depth"]["concat"][0]["layer"]
    assert line["encoding"]["x"]["field"] == "relative_depth"
    assert line["encoding"]["x"]["scale"]["domain"] == [0, 1]
    for encoding in (line["encoding"]["color"], line["encoding"]["strokeDash"], points["encoding"]["shape"]):
        assert encoding["scale"]["domain"] == ["minilm", "mpnet"]
    for spec in specs.values():
        assert "NaN" not in json.dumps(spec)
        assert to_svg(spec).startswith("<svg")


def test_a_range_over_seeds_is_called_one(compared):
    gravity, expected = draw(compared)["places"].to_dict()["concat"]
    assert gravity["title"]["subtitle"] == "lines: range over seeds, no interval"
    assert expected["title"]["subtitle"] == "lines: 95 % interval"


def test_what_is_not_available_is_said(make_probe):
    a = make_probe()
    summary = a.tables["summary"]
    summary.loc[summary["task"] == "pos", ["expected_layer", "el_low", "el_high"]] = np.nan
    chart = draw(compare(a, make_probe(model="mpnet")))["places"]
    assert to_svg(chart).count(">n/a<") == 1
    assert "Part of speech, expected layer as a share of the depth: minilm n/a, mpnet" in chart.to_dict()["description"]


@pytest.mark.parametrize(
    ("probes", "drawn"), [(("layer",), ["depth", "by_layer", "heatmap"]), (("mix",), ["places", "depth"])]
)
def test_results_with_some_of_the_probes_draw_what_there_is(make_probe, probes, drawn):
    charts = draw(compare(make_probe(probes=probes), make_probe(model="mpnet", probes=probes)))
    assert list(charts) == drawn
    assert all(to_svg(chart).startswith("<svg") for chart in charts.values())
