"""Two results side by side: relative depth, differences, and how sure they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lamina.analyses.compare import Estimate, by_model, compare, difference
from lamina.errors import InputError
from lamina.results import Provenance, Result

NAN = float("nan")


def probed(
    model="small", corpus="ewt", tasks=("pos", "dep"), last=4, seeds=2, lift=0.0, probes=("cumulative", "layer")
):
    """A result whose scores rise by 0.1 a layer from 0.4, with intervals of 0.02 below and 0.01 above."""
    scores, summary = [], []
    for task in tasks:
        metric = "micro-F1 over all labels"
        scores.append((model, task, "constant", "model", None, "all", "dev", metric, 9, 0.1, 0.1, 0.1))
        for of in ("model", "random"):
            for probe in probes:
                for layer in range(last + 1):
                    value = (0.4 + 0.1 * layer + lift) if of == "model" else 0.2
                    for seed in (*map(str, range(seeds)), "all"):
                        row = (model, task, probe, of, layer, seed, "dev", metric, 9, value, value - 0.02, value + 0.01)
                        scores.append(row)
        mixed = "cumulative" in probes
        places = (2.0, 1.8, 2.2, 1.0, 0.5, 2.0) if mixed else (NAN,) * 6
        summary.append((task, 0.4 if mixed else NAN, 0.8, *places, 0.1, 0.2, 0.3))
    tables = {
        "scores": pd.DataFrame(
            scores,
            columns=[
                "model",
                "task",
                "probe",
                "of",
                "layer",
                "seed",
                "split",
                "metric",
                "count",
                "value",
                "low",
                "high",
            ],
        ).astype({"layer": "Int64"}),
        "summary": pd.DataFrame(
            summary,
            columns=[
                "task",
                "f1_first",
                "f1_full",
                "center_of_gravity",
                "cog_low",
                "cog_high",
                "expected_layer",
                "el_low",
                "el_high",
                "kl_mixing",
                "kl_differential",
                "selectivity",
            ],
        ),
    }
    about = {"name": model, "fingerprint": model}, {"name": corpus, "split": "dev", "fingerprint": corpus}
    return Result("probe", tables, Provenance(*about, {"preset": "quick"}, (0, 1), revision=None))


def row(result: Result, task: str, statistic: str) -> Any:
    table: Any = result.tables["compare"]
    return table[(table["task"] == task) & (table["statistic"] == statistic)].iloc[0]


def test_scores_differ_with_an_interval_of_both():
    found = row(compare(probed("small", lift=0.05), probed("large")), "pos", "f1_full")

    assert (found["a"], found["a_low"], found["a_high"]) == pytest.approx((0.85, 0.83, 0.86))
    assert (found["b"], found["b_low"], found["b_high"]) == pytest.approx((0.8, 0.78, 0.81))
    wide = np.hypot(0.02, 0.01)
    assert (found["difference"], found["low"], found["high"]) == pytest.approx((0.05, 0.05 - wide, 0.05 + wide))


def test_places_are_shares_of_each_model_s_own_depth():
    result = compare(probed("small", last=4), probed("large", last=8))

    layer = row(result, "dep", "expected_layer")
    assert (layer["a"], layer["b"], layer["difference"]) == pytest.approx((0.25, 0.125, 0.125))
    assert (layer["a_low"], layer["a_high"]) == pytest.approx((0.125, 0.5))
    assert layer["spread"] == "interval"
    depth: Any = result.tables["depth"]
    assert list(depth.columns) == ["model", "task", "probe", "layer", "relative_depth", "value", "low", "high"]
    for model, last in (("small", 4), ("large", 8)):
        own = depth[(depth["model"] == model) & (depth["task"] == "pos") & (depth["probe"] == "layer")]
        assert own["layer"].tolist() == list(range(last + 1))
        assert own["relative_depth"].tolist() == pytest.approx([layer / last for layer in range(last + 1)])
        assert own["value"].max() == pytest.approx(0.4 + 0.1 * last)
    assert row(result, "pos", "f1_full")["b"] == pytest.approx(1.2)


def test_single_layers_are_stretched_from_the_worst_to_the_best():
    table: Any = compare(probed("small", last=4), probed("large", last=8)).tables["layers"]
    assert ",".join(table.columns) == "model,task,layer,value,low,high,normalised"
    own = table[(table["model"] == "small") & (table["task"] == "dep")]
    assert own["value"].tolist() == pytest.approx([0.4, 0.5, 0.6, 0.7, 0.8])
    assert own["normalised"].tolist() == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert compare(probed(last=0), probed("large", last=0)).tables["layers"]["normalised"].isna().all()
    assert compare(probed(probes=("cumulative",)), probed("large", probes=("cumulative",))).tables["layers"].empty


@pytest.mark.parametrize(("seeds", "spread", "half"), [(2, "range", 0.1), (5, "interval", np.hypot(0.05, 0.05))])
def test_with_few_seeds_the_spread_of_gravity_is_a_range(seeds, spread, half):
    found = row(compare(probed("small", seeds=seeds), probed("large", seeds=5)), "pos", "center_of_gravity")

    assert found["spread"] == spread
    assert found["a"] == pytest.approx(0.5)
    assert (found["difference"], found["low"], found["high"]) == pytest.approx((0.0, -half, half))


def test_scores_on_other_texts_are_shown_but_not_subtracted():
    result = compare(probed(corpus="ewt"), probed(corpus="gum"))

    for statistic in ("f1_first", "f1_full"):
        found = row(result, "pos", statistic)
        assert found[["a", "b"]].notna().all()
        assert found[["difference", "low", "high"]].isna().all()
    assert row(result, "pos", "expected_layer")["difference"] == 0
    assert set(result.tables["depth"]["model"]) == {"small (ewt)", "small (gum)"}
    assert result.provenance.corpus["name"] == "ewt and gum"


def test_other_metrics_are_not_subtracted():
    other = probed("large")
    scores = other.tables["scores"].replace("micro-F1 over all labels", "with the root")
    found = compare(probed(), replace(other, tables={**other.tables, "scores": scores}))

    assert np.isnan(row(found, "pos", "f1_full")["difference"])


def test_what_a_result_lacks_is_not_available():
    result = compare(probed("small", probes=("layer",)), probed("large"))

    for statistic in ("f1_first", "f1_full", "center_of_gravity", "expected_layer"):
        found = row(result, "pos", statistic)
        assert found[["a", "difference", "low", "high"]].isna().all()
        assert np.isfinite(found["b"])


def test_common_tasks_only_and_the_others_are_counted():
    result = compare(probed(tasks=("pos", "dep", "ner")), probed("large", tasks=("ner", "pos")))

    assert result.tables["compare"]["task"].unique().tolist() == ["pos", "ner"]
    assert result.provenance.skipped == {"tasks of small alone": 1}


def test_results_on_several_corpora_stand_side_by_side():
    given = [
        probed(model, corpus, tasks)
        for corpus, tasks in (("squad", ("sup", "ner")), ("babi", ("sup",)))
        for model in ("base", "tuned")
    ]
    result = compare(given)
    assert result.tables["compare"]["task"].unique().tolist() == ["sup (squad)", "ner", "sup (babi)"]
    assert result.tables["layers"]["model"].unique().tolist() == ["base", "tuned"]
    assert result.provenance.corpus["name"] == "squad, babi"
    assert np.isfinite(row(result, "sup (babi)", "f1_full")["difference"]), "the same texts"
    assert by_model(given[:2]) == (given[0], given[1])
    with pytest.raises(InputError, match="results of two models; got a on ewt; b on ewt; c on ewt"):
        by_model([probed(model) for model in "abc"])
    with pytest.raises(InputError, match="a task was probed twice on one corpus by one model"):
        by_model([probed("a"), probed("a"), probed("b")])


def test_a_comparison_is_saved_and_read_back(tmp_path):
    result = compare(probed(), probed())
    read = Result.load(result.save(tmp_path / "out", charts=False))

    for name, table in result.tables.items():
        pd.testing.assert_frame_equal(read.tables[name], table)
    assert read.key == result.key != compare(probed(), probed("large")).key
    assert set(result.tables["depth"]["model"]) == {"small (a)", "small (b)"}


def test_what_cannot_be_compared_is_told(make_geometry):
    with pytest.raises(InputError, match="a comparison needs two results"):
        compare(probed())
    with pytest.raises(InputError, match="is a 'geometry' result; only results of `lamina probe`"):
        compare(probed(), make_geometry())
    with pytest.raises(InputError, match="no task in common: small has pos, large has dep"):
        compare(probed(tasks=("pos",)), probed("large", tasks=("dep",)))


def test_the_interval_of_a_difference_covers_as_often_as_it_says():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(2000):
        a, b = rng.normal(3, 1), rng.normal(1, 2)
        found = difference(Estimate(a, a - 1.96, a + 1.96), Estimate(b, b - 3.92, b + 3.92))
        inside += found.low <= 2 <= found.high
    assert inside / 2000 == pytest.approx(0.95, abs=0.015)


def test_findings_say_who_is_better_where():
    ahead, deeper = compare(probed("small", lift=0.05), probed("large")).findings
    assert ahead.status == "clear"
    assert ahead.text == "small is better than large at 2 of 2 tasks, most at pos: F1 .05 [.03, .07] higher."
    assert (ahead.value, ahead.low, ahead.against) == pytest.approx((0.05, 0.05 - np.hypot(0.02, 0.01), 0.0))
    assert deeper.status == "open"
    assert deeper.text.startswith("Neither model resolves any of 2 tasks clearly deeper")
    turned, _ = compare(probed("large"), probed("small", lift=0.05)).findings
    assert turned.text == ahead.text


def test_findings_say_where_a_task_lies_deeper():
    a = probed("small")
    places = a.tables["summary"].assign(expected_layer=3.0, el_low=2.9, el_high=3.1)
    result = compare(replace(a, tables={**a.tables, "summary": places}), probed("large"))
    (deeper,) = (each for each in result.findings if "deeper" in each.text)
    assert deeper.status == "clear"
    assert deeper.text.startswith(
        "small resolves 2 of 2 tasks deeper than large, most pos: its expected layer lies .50 ["
    )


def test_equal_results_find_nothing_and_other_texts_are_not_compared():
    same = probed()
    narrow = same.tables["scores"].assign(low=same.tables["scores"]["value"], high=same.tables["scores"]["value"])
    precise = replace(same, tables={**same.tables, "scores": narrow})
    nothing = next(each for each in compare(precise, precise).findings if "better" in each.text)
    assert nothing.status == "null"
    assert nothing.text.startswith(
        "Neither model is clearly better at any of 2 tasks: F1 differs most at pos, by .00 ["
    )
    elsewhere = compare(probed(corpus="ewt"), probed(corpus="gum")).findings
    assert [each.status for each in elsewhere] == ["open", "open"]
    assert elsewhere[0].text.startswith("F1 is not compared: no task has a score of both on the same texts")


def test_findings_survive_what_is_missing():
    assert [each.status for each in compare(probed(probes=("layer",)), probed("large")).findings] == ["open"]
    result = compare(probed(), probed("large"))
    empty = replace(result, tables={name: table.head(0) for name, table in result.tables.items()})
    assert compare.findings(empty) == ()


def test_both_results_are_recorded_and_shown():
    a, b = probed("small"), probed("large", last=8)
    result = compare(a, b)
    assert result.provenance.model["name"] == "small and large"
    assert result.provenance.model["a"]["key"] == a.key
    assert result.provenance.model["b"]["parameters"] == {"preset": "quick"}
    both, best = compare.overview(result)
    assert both.title == "a: small on ewt   b: large on ewt"
    assert both.rows[1][:3] == ("pos", "f1_full", "0.800 [0.780, 0.810]")
    assert ("pos", "large", 8, "1.200 [1.180, 1.210]") in best.rows


def odd(table: str, change) -> Result:
    """A probing result with a table that is not as `lamina probe` writes it."""
    whole = probed("odd")
    return replace(whole, tables={**whole.tables, table: change(whole.tables[table])})


@pytest.mark.parametrize(
    ("table", "change", "said"),
    [
        ("scores", lambda t: t.drop(columns="value"), "scores.csv lacks the column value"),
        ("scores", lambda t: t.drop(columns=["of", "seed"]), "scores.csv lacks the column of"),
        ("summary", lambda t: t.drop(columns="el_low"), "summary.csv lacks the column el_low"),
        ("summary", lambda t: t.rename(columns={"task": "Taßk"}), "summary.csv lacks the column task"),
        ("summary", lambda t: t.rename(columns={"task": ""}), "summary.csv lacks the column task"),
        ("scores", lambda t: pd.concat([t, t["value"]], axis=1), "scores.csv has 2 columns named value"),
        (
            "scores",
            lambda t: t.assign(value="much"),
            "the column value of scores.csv holds something other than numbers",
        ),
        ("scores", lambda t: t.assign(low=[[1]] * len(t)), "the column low of scores.csv holds something other than"),
        ("scores", lambda t: t.assign(layer=0.5), "the column layer of scores.csv holds something other than layers"),
        (
            "scores",
            lambda t: t.assign(layer=np.inf),
            "the column layer of scores.csv holds something other than layers",
        ),
        ("scores", lambda t: t[t["task"] != "dep"], "scores.csv has no scores of the task 'dep'"),
        ("scores", lambda t: t.iloc[:0], "scores.csv has no scores of the task 'dep'"),
        ("summary", lambda t: pd.concat([t, t]), "summary.csv has two rows of the task 'pos'"),
    ],
)
def test_odd_tables_are_told_in_a_sentence(table: str, change, said: str):
    for results in (
        (odd(table, change), probed()),
        (probed(), odd(table, change)),
        (probed(), odd(table, change), probed()),
    ):
        with pytest.raises(InputError, match=f"odd on ewt: {said}"):
            compare(results)


def test_further_columns_do_not_matter():
    more = {"_fields": 1, "count": 2, "index": 3, "class": 4, "a b": 5, "水": 6, "relative_depth": "x"}
    strange = odd("scores", lambda t: t.assign(**more))
    plain = compare(probed("odd"), probed()).tables

    for name, table in compare(strange, probed()).tables.items():
        pd.testing.assert_frame_equal(table, plain[name])


def test_a_result_without_its_tables_or_origin_is_told_in_a_sentence():
    bare = replace(probed("odd"), tables={})
    with pytest.raises(InputError, match=r"odd on ewt: the result has no scores\.csv"):
        compare(bare, probed())
    unknown = replace(probed(), provenance=replace(probed().provenance, corpus={"name": "ewt"}))
    with pytest.raises(InputError, match="does not say what it was made of"):
        compare(probed(), unknown)
