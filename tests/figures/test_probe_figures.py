"""The figures of probing: what each shows, what is said where a number is missing, and that a part of a run draws."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lamina.figures import draw, to_svg
from lamina.figures.probe import differential_rows, mixing_rows, pipeline
from lamina.figures.trace import Target, marked
from lamina.results import Result


@pytest.fixture(scope="module")
def specs(make_probe) -> dict[str, dict]:
    """Every chart of one result, drawn once: read, never changed."""
    return {name: chart.to_dict() for name, chart in draw(make_probe()).items()}


def data_of(spec: dict, panel: dict) -> pd.DataFrame:
    """The rows of a panel, or of its first layer that has some."""
    holders = [panel, *panel.get("layer", [])]
    (name, *_) = [each["data"]["name"] for each in holders if "name" in each.get("data", {})]
    return pd.DataFrame(spec["datasets"][name])


def test_every_chart_draws_and_says_what_it_shows(specs):
    assert list(specs) == ["pipeline", "weights", "curves", "order", "traces"]
    for spec in specs.values():
        assert "minilm on ewt (dev)" in spec["title"]["text"]
        assert len(spec["description"]) > 50
        assert "NaN" not in json.dumps(spec)
        assert to_svg(spec).startswith("<svg")


def test_the_pipeline_has_scores_and_both_places_with_their_spread(specs):
    spec = specs["pipeline"]
    scores, bars = spec["concat"]
    assert set(data_of(spec, scores)["probe"]) == {"constant", "P(0)", "P(L)"}
    places = data_of(spec, bars)
    assert set(places["statistic"]) == {"centre of gravity", "expected layer"}
    bar, line, number = bars["layer"]
    assert bar["encoding"]["x"]["field"] == "layer"
    assert (line["encoding"]["x"]["field"], line["encoding"]["x2"]["field"]) == ("low", "high")
    assert number["encoding"]["text"]["field"] == "said"
    by_expected = ["Noun supersenses", "Semantic proto-roles", "Part of speech", "Dependencies"]
    assert bar["encoding"]["y"]["sort"] == scores["encoding"]["y"]["sort"] == by_expected


def test_few_seeds_make_a_range_and_no_interval(make_probe):
    charts = [pipeline(make_probe(seeds=seeds).tables, "a title") for seeds in (2, 5, 1)]
    few, many, one = (chart.to_dict()["title"]["subtitle"] for chart in charts if chart is not None)
    assert few[0] == "lines, centre of gravity: lowest to highest of 2 seeds, which is no interval"
    assert "95 % interval, over 5 seeds" in many[0]
    assert "none, there is one seed" in one[0]


def test_weights_sum_to_one_and_gains_to_one(make_probe):
    tables = make_probe().tables
    weights, gains = mixing_rows(tables), differential_rows(tables)
    assert weights.groupby("task")["value"].sum().to_numpy() == pytest.approx(1)
    # The curves only rise, so the best score is the last one.
    assert gains.groupby("task")["value"].sum().to_numpy() == pytest.approx(1)
    assert set(gains["layer"]) == set(range(1, 7))
    assert (weights["low"] <= weights["value"]).all()
    assert (weights["value"] <= weights["high"]).all()


def test_a_fall_is_a_negative_gain_of_the_best_score(make_probe):
    result = make_probe(tasks=("pos",), layers=3)
    scores = result.tables["scores"]
    for layer, value in enumerate((0.5, 0.9, 0.8)):
        scores.loc[(scores["probe"] == "cumulative") & (scores["layer"] == layer), "value"] = value
    assert differential_rows(result.tables)["value"].tolist() == pytest.approx([1.0, -0.25])
    panel = draw(result)["weights"].to_dict()["concat"][0]
    assert panel["layer"][0]["encoding"]["y"]["scale"]["domain"][0] == pytest.approx(-0.3)


def test_weights_are_solid_differentials_outlined_and_scales_beside(specs):
    panels = specs["weights"]["concat"]
    solid, outlined = panels[0]["layer"][:2]
    assert outlined["encoding"]["fill"]["scale"]["range"][1] == "transparent"
    assert outlined["mark"]["strokeWidth"] > solid["mark"]["strokeWidth"]
    assert [panel["title"]["text"] for panel in panels][-1] == "Scale of the layers"


def test_curves_put_twin_control_and_constant_beside_the_model(specs):
    spec = specs["curves"]
    assert [panel["title"]["subtitle"] for panel in spec["concat"][:2]] == ["layer l alone", "layers 0 to l, mixed"]
    band, line, points = spec["concat"][0]["layer"]
    assert (band["encoding"]["y"]["field"], band["encoding"]["y2"]["field"]) == ("low", "high")
    names = ["minilm", "random-weights twin", "control labels", "best constant answer"]
    for encoding in (line["encoding"]["color"], line["encoding"]["strokeDash"], points["encoding"]["shape"]):
        assert encoding["scale"]["domain"] == names
        assert len({str(each) for each in encoding["scale"]["range"]}) == 4
    single = data_of(spec, spec["concat"][0])
    assert set(single["model"]) == set(names)
    assert len(single[single["model"] == "minilm"]) == 7
    assert set(single.loc[single["model"] == "best constant answer", "layer"]) == {0, 6}


def test_both_directions_of_each_order_are_shown_and_sum_to_one(specs):
    spec = specs["order"]
    assert [panel["title"]["text"] for panel in spec["concat"]] == ["centre of gravity", "expected layer"]
    rows = data_of(spec, spec["concat"][0]).set_index(["first", "second"])["probability"]
    assert len(rows) == 12
    assert all(value + rows[second, first] == pytest.approx(1) for (first, second), value in rows.items())


def test_traces_mark_the_spans_and_show_gold_beside_the_strongest_wrong(specs):
    spec = specs["traces"]
    assert [block["title"]["text"] for block in spec["concat"]] == [
        ["he smoked [toronto] in [the] playoffs"],
        ["Dogs bark"],
    ]
    toronto = spec["concat"][0]["concat"][0]
    assert (toronto["title"]["text"], toronto["title"]["subtitle"]) == ("toronto", "Part of speech")
    rows = data_of(spec, toronto)
    assert dict(zip(rows["label"], rows["role"], strict=True)) == {
        "PROPN": "gold label",
        "NOUN": "strongest wrong label",
    }
    assert rows.groupby("layer")["height"].sum().max() <= 1 + 1e-9


def test_of_several_true_labels_the_strongest_is_shown_as_it_is(specs):
    pair = specs["traces"]["concat"][1]["concat"][1]
    assert pair["title"]["text"] == "bark + Dogs"
    rows = data_of(specs["traces"], pair)
    assert set(rows["label"]) == {"awareness", "change_of_state"}
    assert rows["height"].tolist() == rows["probability"].tolist()


def test_brackets_nest_and_are_left_out_where_every_word_is_a_target():
    nothing = pd.DataFrame()
    targets = [Target("dep", (0, 2), (1, 2), nothing)]
    assert marked(["the", "dog", "ran"], targets) == "[the [dog]] ran"
    assert marked(["the", "dog"], targets) == "the dog"


def test_what_is_not_available_is_said(make_probe):
    result = make_probe(tasks=("dep", "pos"))
    summary, order = result.tables["summary"], result.tables["order"]
    summary.loc[summary["task"] == "pos", ["expected_layer", "el_low", "el_high"]] = np.nan
    order.loc[0, "probability"] = np.nan
    charts = draw(result)
    pipes = charts["pipeline"].to_dict()
    assert "n/a" in to_svg(pipes)
    assert "expected layer n/a" in pipes["description"]
    assert pipes["concat"][0]["encoding"]["y"]["sort"][-1] == "Part of speech"
    assert "differential scores not available" in to_svg(charts["weights"])
    assert to_svg(charts["order"]).count("n/a") >= 2


@pytest.mark.parametrize(
    ("probes", "drawn"),
    [
        (("layer",), ["curves"]),
        (("mix",), ["pipeline", "weights", "curves"]),
        (("layer", "mix"), ["pipeline", "weights", "curves"]),
    ],
)
def test_a_run_with_some_of_the_probes_draws_what_there_is(make_probe, probes, drawn):
    charts = draw(make_probe(probes=probes, tasks=("dep", "pos")))
    assert list(charts) == drawn
    assert all(to_svg(chart).startswith("<svg") for chart in charts.values())


def test_sentences_without_their_words_are_drawn_by_position(make_probe):
    result = make_probe(tasks=("pos",))
    bare = {name: table for name, table in result.tables.items() if name != "words"}
    svg = to_svg(draw(replace(result, tables=bare))["traces"])
    assert "words 2:3" in svg
    assert "are not kept" in svg


def test_a_result_read_back_draws_the_same(specs, make_probe, tmp_path):
    again = draw(Result.load(make_probe().save(tmp_path / "probe", charts=False)))
    described = {name: spec["description"] for name, spec in specs.items()}
    assert {name: chart.description for name, chart in again.items()} == described


def test_nothing_but_text_is_made_of_a_name(make_probe):
    svg = to_svg(draw(make_probe(model="a<b>&c", tasks=("pos",)))["curves"])
    assert "a&lt;b&gt;&amp;c on ewt (dev)" in svg
    assert "a<b>" not in svg
