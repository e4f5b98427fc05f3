"""The figures of probing: what each shows, what is said where a number is missing, and that a part of a run draws."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lamina.figures import draw, to_svg
from lamina.figures.pipeline import differential_rows, mixing_rows, order, pipeline, weights
from lamina.figures.theme import themed
from lamina.figures.trace import Target, marked
from lamina.results import Result

PIPELINE = ("pos", "const", "dep", "ner", "srl", "coref", "spr", "rel")


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
    assert list(specs) == ["pipeline", "statistics", "weights", "curves", "heatmap", "control", "traces"]
    for spec in specs.values():
        assert "minilm on ewt (dev)" in spec["title"]["text"]
        assert len(spec["description"]) > 50
        assert "NaN" not in json.dumps(spec)
        assert to_svg(spec).startswith("<svg")


def test_the_pipeline_has_scores_both_places_with_their_spread_and_divergences(specs):
    spec = specs["statistics"]
    scores, bars, bits = spec["concat"]
    assert scores["title"] == "F1"
    assert set(data_of(spec, scores)["column"]) == {"constant", "P(0)", "P(L)"}
    assert set(data_of(spec, scores).query("column == 'constant'")["said"]) == {"0.200"}
    assert data_of(spec, bits).groupby("column")["said"].first().to_dict() == {"K(D)": "0.61", "K(s)": "0.12"}
    places = data_of(spec, bars)
    assert set(places["statistic"]) == {"centre of gravity", "expected layer"}
    bar, line, number, *_ = bars["layer"]
    assert bar["encoding"]["x"]["field"] == "layer"
    assert (line["encoding"]["x"]["field"], line["encoding"]["x2"]["field"]) == ("low", "high")
    assert number["encoding"]["text"]["field"] == "said"
    by_expected = ["Noun supersenses", "Semantic proto-roles", "Part of speech", "Dependencies"]
    assert bar["encoding"]["y"]["sort"] == scores["encoding"]["y"]["sort"] == by_expected


def marks_of(chart) -> pd.DataFrame:
    """What lies on the bars of the pipeline chart."""
    spec = chart.to_dict()
    return pd.DataFrame(spec["datasets"][spec["concat"][1]["layer"][-1]["data"]["name"]])


def test_the_twin_and_the_papers_values_are_marked(make_probe):
    plain, asked = (
        draw(make_probe(tasks=("pos", "supersense"), reference=each))["statistics"] for each in (False, True)
    )
    twin = "expected layer of the random-weights twin"
    assert set(marks_of(plain)["mark"]) == {twin}
    assert marks_of(plain)["layer"].tolist() == pytest.approx([0.3 * 6] * 2)
    marks = marks_of(asked).query("mark != @twin").set_index(["mark", "statistic"])
    assert set(marks["task"]) == {"Part of speech"}, "the paper has no supersenses"
    assert len(marks) == 3
    base = marks.loc[("BERT-base, 12 layers", "expected layer")]
    assert (base["published"], base["layer"]) == (1.76, pytest.approx(1.76 / 12 * 6))
    assert "moved to the same share of this model's depth" in to_svg(asked)
    assert "Tenney" not in to_svg(plain)


def test_a_model_as_deep_as_the_papers_has_its_values_on_the_layer_axis(make_probe):
    marks = marks_of(draw(make_probe(tasks=("pos",), layers=25, reference=True))["statistics"])
    own = marks[marks["mark"] == "BERT-large, 24 layers"].set_index("statistic")["layer"]
    assert own.to_dict() == {"expected layer": pytest.approx(3.39), "centre of gravity": pytest.approx(11.68)}


def test_tasks_of_different_metrics_are_named_with_theirs(make_probe):
    charts = {name: chart.to_dict() for name, chart in draw(make_probe(tasks=("pos", "ques", "factuality"))).items()}
    scores = charts["statistics"]["concat"][0]
    assert scores["title"] == "score"
    assert set(data_of(charts["statistics"], scores)["task"]) == {
        "Part of speech (F1)", "Question type (macro-F1)", "factuality (R2)",
    }  # fmt: skip
    axes = {panel["title"]["text"]: panel["layer"][1]["encoding"]["y"]["title"] for panel in charts["curves"]["concat"]}
    assert axes == {"Part of speech": "F1", "Question type": "macro-F1", "factuality": "R2"}
    assert charts["curves"]["title"]["text"].startswith("Score by layer")


def test_few_seeds_make_a_range_and_no_interval(make_probe):
    charts = [pipeline(make_probe(seeds=seeds).tables, "a title") for seeds in (2, 5, 1)]
    few, many, one = (chart.to_dict()["title"]["subtitle"] for chart in charts if chart is not None)
    assert few[0] == "lines: lowest to highest of 2 seeds, not an interval; an order needs 5 seeds"
    assert "95 % interval, over 5 seeds" in many[0]
    assert one[0] == "no lines, there is one seed; an order needs 5 seeds"


def test_weights_sum_to_one_and_gains_to_one(make_probe):
    tables = make_probe().tables
    weights, gains = mixing_rows(tables), differential_rows(tables)
    assert weights.groupby("task")["value"].sum().to_numpy() == pytest.approx(1)
    # The curves only rise, so the best score is the last one.
    assert gains.groupby("task")["value"].sum().to_numpy() == pytest.approx(1)
    assert set(gains["layer"]) == set(range(1, 7))
    assert ((gains["low"] < gains["value"]) & (gains["value"] < gains["high"])).all()
    assert (weights["low"] <= weights["value"]).all()
    assert (weights["value"] <= weights["high"]).all()


def test_a_fall_is_a_negative_gain_of_the_best_score(make_probe):
    result = make_probe(tasks=("pos",), layers=3)
    scores, steps = result.tables["scores"], result.tables["steps"]
    for layer, value in enumerate((0.5, 0.9, 0.8)):
        scores.loc[(scores["probe"] == "cumulative") & (scores["layer"] == layer), "value"] = value
    steps[["difference", "low", "high"]] = [(0.4, 0.36, 0.44), (-0.1, -0.14, -0.06)]
    gains = differential_rows(result.tables)
    assert gains["value"].tolist() == pytest.approx([1.0, -0.25])
    assert gains[["low", "high"]].iloc[1].tolist() == pytest.approx([-0.35, -0.15])
    panel = draw(result)["weights"].to_dict()["concat"][0]
    assert panel["layer"][0]["encoding"]["y"]["scale"]["domain"][0] == pytest.approx(-0.4)
    older = {name: table for name, table in result.tables.items() if name != "steps"}
    assert differential_rows(older)["value"].tolist() == pytest.approx([1.0, -0.25])


def test_weights_are_solid_differentials_outlined_and_scales_beside(specs):
    panels = specs["weights"]["concat"]
    solid, outlined = panels[0]["layer"][:2]
    assert outlined["encoding"]["fill"]["scale"]["range"][1] == "transparent"
    assert outlined["mark"]["strokeWidth"] > solid["mark"]["strokeWidth"]
    assert [panel["title"]["text"] for panel in panels][-1] == "Scale of the layers"
    assert panels[0]["title"]["subtitle"] == ["K(s) .12 [.10, .15] bits", "K(D) .61 [.50, .70] bits"]


def test_curves_put_twin_and_constant_beside_the_model(specs):
    spec = specs["curves"]
    assert [panel["title"]["subtitle"] for panel in spec["concat"][:2]] == ["layer l alone", "layers 0 to l, mixed"]
    band, line, points = spec["concat"][0]["layer"]
    assert (band["encoding"]["y"]["field"], band["encoding"]["y2"]["field"]) == ("low", "high")
    names = ["minilm", "random-weights twin", "best constant answer"]
    for encoding in (line["encoding"]["color"], line["encoding"]["strokeDash"], points["encoding"]["shape"]):
        assert encoding["scale"]["domain"] == names
        assert len({str(each) for each in encoding["scale"]["range"]}) == 3
    single = data_of(spec, spec["concat"][0])
    assert set(single["model"]) == set(names)
    assert len(single[single["model"] == "minilm"]) == 7
    assert set(single.loc[single["model"] == "best constant answer", "layer"]) == {0, 6}
    assert set(single.loc[single["model"] == "best constant answer", "value"]) == {0.2}
    assert single["converged"].all()
    assert spec["title"]["text"].startswith("F1 by layer")


def test_a_control_is_shown_by_the_metric_in_which_it_means_something(specs):
    spec = specs["control"]
    panels = {panel["title"]["text"]: panel for panel in spec["concat"]}
    said = {task: panel["layer"][1]["encoding"]["y"]["title"] for task, panel in panels.items()}
    assert said["Part of speech"] == "accuracy"
    assert said["Semantic proto-roles"] == "F1", "a target of several labels has no accuracy"
    panel = panels["Part of speech"]
    told = " ".join(panel["title"]["subtitle"])
    assert told == "selectivity .41 [.38, .44] at layer 3; 90% of targets seen in training"
    rows = data_of(spec, panel)
    assert set(rows["model"]) == {"minilm", "control labels", "best constant answer to control labels"}
    assert rows.loc[rows["model"] == "control labels", "value"].min() == pytest.approx(0.5)
    assert set(rows.loc[rows["model"] == "best constant answer to control labels", "value"]) == {0.15}
    gap = panel["layer"][3]
    assert pd.DataFrame(spec["datasets"][gap["data"]["name"]]).iloc[0].to_dict() == {
        "layer": 3.0, "model": 0.93, "control": 0.52,
    }  # fmt: skip


def test_probes_that_have_not_converged_are_hollow_and_counted(make_probe):
    late = {("pos", "model", "cumulative", 6), ("pos", "random", "layer", 2), ("pos", "control", "layer", 3)}
    charts = {name: chart.to_dict() for name, chart in draw(make_probe(tasks=("dep", "pos"), late=late)).items()}
    said = "hollow points ({}): the probe had not converged when its steps ended"
    assert charts["curves"]["title"]["subtitle"][1] == said.format(2)
    assert charts["control"]["title"]["subtitle"][1] == said.format(1)
    by_title = {(each["title"]["text"], each["title"]["subtitle"]): each for each in charts["curves"]["concat"]}
    mixed = by_title["Part of speech", "layers 0 to l, mixed"]
    rows = data_of(charts["curves"], mixed)
    assert rows.loc[~rows["converged"], ["model", "layer"]].to_numpy().tolist() == [["minilm", 6]]
    assert mixed["layer"][-1]["transform"] == [{"filter": "!datum.converged"}]
    assert len(by_title["Dependencies", "layers 0 to l, mixed"]["layer"]) == 3
    assert "minilm 0.98 at layer 6 (not all probes had converged)" in charts["curves"]["description"]


def test_both_directions_of_each_order_are_shown_and_only_clear_ones_shaded(make_probe):
    spec = draw(make_probe(seeds=5))["order"].to_dict()
    assert [panel["title"]["text"] for panel in spec["concat"]] == ["centre of gravity", "expected layer"]
    rows = data_of(spec, spec["concat"][0]).set_index(["first", "second"])
    assert len(rows) == 12
    apart, signs = rows["difference"], rows["sign"]
    assert all(value + apart[second, first] == 0 for (first, second), value in apart.items())
    assert (apart["Dependencies", "Part of speech"], signs["Dependencies", "Part of speech"]) == (1.25, 1)
    assert set(signs[abs(apart) < 0.5]) <= {0}
    assert "Dependencies before Part of speech by expected layer, 1.25 layers" in spec["description"]


def test_wrong_6_with_few_seeds_no_order_is_drawn(make_probe):
    assert "order" not in draw(make_probe(seeds=2))


def test_why_an_order_is_not_available_is_said(make_probe):
    result = make_probe(tasks=("dep", "pos", "spr"), seeds=5)
    order = result.tables["order"]
    tests = ["difference", "low", "high", "p_adjusted"]
    equal = "the mixing weights are as good as equal"
    order.loc[order["statistic"] == "center_of_gravity", [*tests, "clear", "reason"]] = [*[np.nan] * 4, False, equal]
    order.loc[0, [*tests, "clear", "reason"]] = [*[np.nan] * 4, False, "pos: no gain"]
    chart = draw(result)["order"].to_dict()
    assert [panel["title"]["text"] for panel in chart["concat"]] == ["expected layer"], "no matrix of n/a"
    assert chart["title"]["subtitle"][2:] == [
        f"n/a by centre of gravity: {equal}", "n/a by expected layer: pos: no gain",
    ]  # fmt: skip
    assert to_svg(chart).count(">n/a<") == 2


def test_wrong_7_what_faithful_prints_without_a_gain_is_marked(make_probe):
    result = make_probe(tasks=("dep", "pos"))
    summary = result.tables["summary"]
    summary.loc[summary["task"] == "pos", ["el_low", "el_high"]] = np.nan
    why = "expected layer: the gain of P(L) over P(0) was not shown to be above 0, printed as --faithful does"
    summary.loc[summary["task"] == "pos", "reason"] = why
    chart = draw(result)["statistics"].to_dict()
    assert any(line.startswith("* the cumulative scores do not gain") for line in chart["title"]["subtitle"])
    value = summary.set_index("task")["expected_layer"]["pos"]
    assert f">{value:.2f}*<" in to_svg(chart)


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


def test_what_is_not_available_is_said_with_its_reason(make_probe):
    result = make_probe(tasks=("dep", "pos"), reference=True)
    summary = result.tables["summary"]
    why = "the probe of P(6) had not converged after 2,400 steps"
    places = ["expected_layer", "el_low", "el_high", "center_of_gravity", "cog_low", "cog_high"]
    summary.loc[summary["task"] == "pos", [*places, "selectivity", "kl_mixing", "kl_differential"]] = np.nan
    reasons = [f"expected layer: {why}", f"centre of gravity: {why}", "selectivity: too few words"]
    summary.loc[summary["task"] == "pos", "reason"] = "; ".join(reasons)
    charts = {name: chart.to_dict() for name, chart in draw(result).items()}
    assert to_svg(charts["statistics"]).count(f">n/a: {why}<") == 2
    assert f"expected layer n/a ({why}), centre of gravity n/a ({why})." in charts["statistics"]["description"]
    assert charts["statistics"]["concat"][0]["encoding"]["y"]["sort"][-1] == "Part of speech"
    bars = charts["statistics"]["concat"][1]["layer"]
    marks = pd.DataFrame(charts["statistics"]["datasets"][bars[-1]["data"]["name"]])
    assert set(marks["task"]) == {"Dependencies"}, "nothing is marked where a reason is written"
    panel = charts["weights"]["concat"][1]
    assert " ".join(panel["title"]["subtitle"]) == f"mixing weights n/a: {why} differential scores n/a: {why}"
    assert data_of(charts["weights"], panel).empty
    (control,) = [panel for panel in charts["control"]["concat"] if panel["title"]["text"] == "Part of speech"]
    assert control["title"]["subtitle"] == ["selectivity n/a: too few words"]
    assert len(control["layer"]) == 3, "no line for a selectivity that is not available"


@pytest.mark.parametrize("layers", [7, 25])
def test_the_eight_tasks_of_the_suite_fit_on_a_page(make_probe, layers):
    tables = make_probe(tasks=PIPELINE, layers=layers, seeds=5, reference=True).tables
    for chart in (pipeline, weights, order):
        svg = to_svg(themed(chart(tables, "minilm on ewt (dev)")))
        width = float(re.search(r'<svg[^>]* width="([\d.]+)"', svg)[1])
        # 17 cm of a page: text of 12 pixels is then at least 7 points.
        assert width * 7 / 9 <= 17 / 2.54 * 96, chart.__name__


@pytest.mark.parametrize(
    ("probes", "drawn"),
    [
        (("layer",), ["curves", "heatmap", "control"]),
        (("mix",), ["statistics", "weights", "curves"]),
        (("layer", "mix"), ["statistics", "weights", "curves", "heatmap", "control"]),
    ],
)
def test_a_run_with_some_of_the_probes_draws_what_there_is(make_probe, probes, drawn):
    charts = draw(make_probe(probes=probes, tasks=("dep", "pos")))
    assert list(charts) == drawn
    assert all(to_svg(chart).startswith("<svg") for chart in charts.values())


def test_the_heat_map_shades_each_task_over_its_own_layers(specs):
    spec = specs["heatmap"]
    (panel,) = spec["concat"]
    rows = data_of(spec, panel)
    scaled = rows.groupby("task")["normalised"]

    assert set(rows["task"]) == {"dep", "pos", "spr", "supersense"}
    assert scaled.min().eq(0).all()
    assert scaled.max().eq(1).all()
    assert rows.groupby("task")["layer"].apply(list).map(lambda layers: layers == [0, 1, 2, 3, 4, 5, 6]).all()
    beside = rows.drop_duplicates("task").set_index("task")["beside"]
    # The mean of two seeds that are .002 apart, at the last layer, within .01; the twin starts .1 below the model.
    assert beside["pos"].startswith("F1 .98 [.97, .99] at 6; twin ")
    assert beside["pos"].endswith("; constant .20; best: layer 6")
    assert "Part of speech, best score of one layer alone: minilm 0.98 at layer 6." in spec["description"]


def test_wrong_16_layers_that_are_not_established_are_not_shaded(make_probe):
    result = make_probe(tasks=("dep", "pos"))
    readings = result.tables["readings"]
    late = (readings["task"] == "pos") & (readings["layer"] == 6)
    readings.loc[late, "p_adjusted"] = np.nan
    below = (readings["task"] == "dep") & (readings["layer"] == 5) & (readings["baseline"] == "constant answer")
    readings.loc[below, ["difference", "p_adjusted"]] = [-0.1, 0.001]
    spec = draw(result)["heatmap"].to_dict()
    shades = data_of(spec, spec["concat"][0]).set_index(["task", "layer"])["normalised"]
    assert (shades["pos", 6], shades["dep", 5]) == (0, 0)
    assert shades["dep", 6] == 1


def test_a_task_alone_has_no_heat_map(make_probe):
    assert "heatmap" not in draw(make_probe(tasks=("pos",)))


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


def test_a_result_of_an_older_version_draws(make_probe):
    result = make_probe(tasks=("dep", "pos"))
    old = {name: result.tables[name].copy() for name in ("scores", "mixing", "summary", "order")}
    old["scores"] = old["scores"].query("metric == 'f1'").assign(metric="micro-F1 over all labels")
    columns = [name for name in old["summary"] if name.startswith(("f1", "center", "cog", "expected", "el_"))]
    old["summary"] = old["summary"][["task", *columns, "kl_mixing", "kl_differential", "selectivity"]]
    old["order"] = old["order"][["task_a", "task_b", "statistic"]].assign(probability=0.9)
    charts = draw(replace(result, tables=old))
    assert list(charts) == ["pipeline", "statistics", "weights", "curves", "heatmap"], "its order was not tested"
    assert "F1 by layer" in to_svg(charts["curves"])
