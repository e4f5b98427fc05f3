"""`lamina.probe` from end to end, on an encoder and a corpus of almost no size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score

import lamina
from lamina import Result
from lamina.analyses.layers.probe import training as elsewhere
from lamina.analyses.layers.probe.planning import TaskSource, TrainingAmounts, expected_steps, plan_run
from lamina.analyses.layers.probe.predictions import read_predictions
from lamina.analyses.layers.probe.training import PAPER, PAPER_SMALL, QUICK, STANDARD, problems
from lamina.corpora import corpus_from
from lamina.corpora.splits import Splits
from lamina.errors import InputError, ResultError, TaskError
from lamina.testing import TinyEncoder
from lamina.types import Edge, Span, Text

COLUMNS = {
    "scores": "model,task,probe,of,layer,seed,tuning_seed,split,metric,count,value,low,high",
    "training": "task,of,probe,layer,seed,tuning_seed,steps,best_step,loss,last_gain,converged,overfitted,reach",
    "mixing": "task,seed,tuning_seed,upto,layer,weight,gamma,norm",
    "summary": "task,corpus,metric,probe_seeds,tuning_seeds,f1_first,f1_full,center_of_gravity,cog_low,cog_high,"
    "expected_layer,el_low,el_high,"
    "kl_mixing,kl_mixing_low,kl_mixing_high,kl_differential,kl_differential_low,kl_differential_high,"
    "selectivity,selectivity_low,selectivity_high,selectivity_layer,selectivity_metric,"
    "twin_expected_layer,twin_el_low,twin_el_high,converged,reason",
    "readings": "task,metric,probe,layer,baseline,value,baseline_value,difference,low,high,p_adjusted,units,needed,"
    "unit,reason",
    "best_layers": "task,metric,probe,layer,value,p_beaten,among_best,units,reason",
    "steps": "task,probe,layer,difference,low,high,p_adjusted,units,needed",
    "order": "task_a,task_b,statistic,difference,low,high,p_adjusted,units,needed,clear,reason",
    "traces": "text_id,task,seed,span1,span2,label,gold,layer,probability",
    "breakdown": "task,by,group,layer,count,value,low,high",
    "control": "task,share_seen,targets,metric,layer,model,control,constant,difference,low,high,"
    "p_adjusted,units,needed,unit",
    "words": "text_id,position,word",
}


def test_the_columns_are_the_contract(result: Result) -> None:
    assert {name: ",".join(table.columns) for name, table in result.tables.items()} == COLUMNS
    declared = {name: ",".join(table.columns) for name, table in lamina.probe.tables.items() if not table.optional}
    assert declared == COLUMNS


def test_every_probe_has_a_row_a_seed_and_one_of_all_seeds(result: Result) -> None:
    scores = result.tables["scores"]
    probed = scores[scores["probe"] != "constant"]
    rows = probed.groupby(["task", "metric", "of", "probe", "seed"])["layer"].apply(list)

    for about in ((task, metric) for task in ("pos", "dep") for metric in ("f1", "accuracy")):
        for probe in ("cumulative", "layer"):
            assert all(rows[*about, "model", probe, seed] == [0, 1, 2] for seed in ("0", "1", "all"))
            assert all(rows[*about, "random", probe, seed] == [0, 1, 2] for seed in ("0", "all"))
        assert all(rows[*about, "control", "layer", seed] == [0, 1, 2] for seed in ("0", "all"))
    assert len(rows) == 4 * (2 * 3 + 2 * 2 + 2)
    for task in ("pos", "dep"):
        assert scores.loc[scores["task"] == task, "metric"].unique().tolist() == ["f1", "accuracy"], "its own first"
    assert set(scores["split"]) == {"dev"}
    assert set(zip(probed["task"], probed["count"], strict=True)) == {("pos", 122), ("dep", 100)}


def test_the_best_constant_answers_to_task_and_control_are_beside_the_scores(result: Result, splits: Splits) -> None:
    scores = result.tables["scores"]
    constant = scores[scores["probe"] == "constant"].set_index(["task", "metric", "of"])
    tags = [edge.labels[0] for text in splits.scored for edge in text.edges["pos"]]

    assert constant["layer"].isna().all()
    assert set(constant["seed"]) == {"all"}
    assert len(constant) == 2 * 2 * 2
    assert constant.loc[("pos", "f1", "model"), "count"] == 122
    # NOUN and DET are as frequent in training, and the first of them is said of everything: as accuracy.
    assert constant.loc[("pos", "accuracy", "model"), "value"] in [tags.count(tag) / 122 for tag in ("DET", "NOUN")]
    control = result.tables["control"].set_index("task")
    for task in ("pos", "dep"):
        own, row = constant.loc[(task, "accuracy", "control")], control.loc[task]
        assert (own["count"], own["value"]) == (row["targets"], row["constant"])
        assert row["targets"] == round(row["share_seen"] * constant.loc[(task, "f1", "model"), "count"])
    assert control.loc["pos", "targets"] == 121, "wow was never seen"


def test_training_says_of_every_probe_how_it_went(result: Result) -> None:
    training = result.tables["training"]
    rows = training.groupby(["task", "of", "probe", "seed"])["layer"].apply(list)

    assert all(layers == [0, 1, 2] for layers in rows)
    assert len(rows) == 2 * (2 * 2 + 2 * 1 + 1)
    assert training["converged"].all(), "the tests' own preset is long enough"
    assert (training["best_step"] <= training["steps"]).all()
    assert (training["steps"] % 10 == 0).all()
    assert training["steps"].between(20, 400).all()
    assert (training["loss"] > 0).all()
    assert training["last_gain"].between(0, 1).all()
    summary = result.tables["summary"]
    assert summary["converged"].all()
    assert set(summary["metric"]) == {"f1"}
    assert set(summary["corpus"]) == {"toy"}
    assert not [reason for reason in result.provenance.skipped if "not converged" in reason]


def test_steps_are_differences_of_neighbouring_layers(result: Result) -> None:
    scores, steps = result.tables["scores"], result.tables["steps"]
    own = scores[(scores["of"] == "model") & (scores["seed"] == "all") & (scores["metric"] == "f1")]
    value = own.set_index(["task", "probe", "layer"])["value"]

    assert len(steps) == 2 * 2 * 2
    for row in steps.itertuples():
        below = value[row.task, row.probe, row.layer - 1]
        assert row.difference == pytest.approx(value[row.task, row.probe, row.layer] - below)
    known = steps.dropna(subset=["p_adjusted"])
    assert len(known) > 4
    assert (known["low"] <= known["difference"]).all()
    assert (known["difference"] <= known["high"]).all()
    assert known["p_adjusted"].between(0, 1).all()


def test_wrong_15_values_lie_within_their_intervals_and_what_can_be_learned_is(result: Result) -> None:
    scores = result.tables["scores"]
    full = scores[(scores["of"] == "model") & (scores["probe"] == "cumulative") & (scores["seed"] == "all")]

    assert (scores["low"] <= scores["value"] + 1e-12).all()
    assert (scores["value"] <= scores["high"] + 1e-12).all()
    constant = scores[(scores["probe"] == "constant") & (scores["of"] == "model")]
    both = full.merge(constant, on=["task", "metric"], suffixes=("", "_constant"))
    assert len(both) == len(full)
    assert (both["value"] > both["value_constant"] + 0.2).all()


def test_the_pooled_value_is_the_mean_over_seeds(result: Result) -> None:
    scores = result.tables["scores"]
    own = scores[(scores["of"] == "model") & (scores["probe"] == "layer") & (scores["task"] == "dep")]
    own = own[own["metric"] == "accuracy"]
    by_layer = own.pivot(index="layer", columns="seed", values="value")

    assert by_layer["all"].to_numpy() == pytest.approx(by_layer[["0", "1"]].mean(axis=1).to_numpy())


def test_scores_can_be_worked_out_from_the_predictions(result: Result) -> None:
    scores = result.tables["scores"].set_index(["task", "metric", "probe", "of", "layer", "seed"])["value"]
    for task in ("pos", "dep"):
        told = read_predictions(result.files[f"{task}.predictions.parquet"])
        assert set(told.table["probe"]) == {"cumulative", "layer"}
        for (seed, probe, layer), rows in told.table.groupby(["seed", "probe", "layer"]):
            gold = np.array([[label in each for label in told.labels] for each in rows["gold"]])
            probabilities = np.stack(rows["probabilities"].tolist())
            said = probabilities >= 0.5
            missed = np.ones(rows["unseen"].sum(), bool)
            flat = np.concatenate([gold.ravel(), missed]), np.concatenate([said.ravel(), ~missed])
            assert scores[task, "f1", probe, "model", layer, str(seed)] == pytest.approx(f1_score(*flat))
            right = gold[np.arange(len(gold)), probabilities.argmax(1)].mean()
            # Kept in half precision, two labels that are nearly sure of themselves may tie.
            assert scores[task, "accuracy", probe, "model", layer, str(seed)] == pytest.approx(right, abs=0.02)


def test_macro_f1_where_asked(result: Result, splits: Splits, settings: dict[str, Any]) -> None:
    macro = lamina.probe(TinyEncoder(), splits, tasks=["pos"], metric="macro", **settings)
    assert macro.tables["scores"]["metric"].unique().tolist() == ["macro_f1", "accuracy"]
    scores = macro.tables["scores"].query("metric == 'macro_f1'")
    by_member = scores.set_index(["probe", "of", "layer", "seed"])["value"]
    told = read_predictions(macro.files["pos.predictions.parquet"])
    labels = [*told.labels, "INTJ"]
    for (seed, probe, layer), rows in told.table.groupby(["seed", "probe", "layer"]):
        gold = np.array([[label in each for label in labels] for each in rows["gold"]])
        said = np.stack(rows["probabilities"].tolist()) >= 0.5
        said = np.concatenate([said, np.zeros((len(said), 1), bool)], axis=1)
        expected = f1_score(gold, said, average="macro", zero_division=0)
        assert by_member[probe, "model", layer, str(seed)] == pytest.approx(expected)
    (row,) = macro.tables["summary"].itertuples()
    assert row.metric == "macro_f1"
    assert row.f1_full == pytest.approx(by_member["cumulative", "model", 2, "all"])
    parts = macro.tables["breakdown"].set_index(["by", "layer"])
    assert parts.loc[("macro", 2), "value"] == pytest.approx(row.f1_full)
    assert row.f1_full < result.tables["summary"].set_index("task").loc["pos", "f1_full"], "INTJ is a label like any"
    constant = scores[scores["probe"] == "constant"].iloc[0]
    # Everything said of everything: 2 n / (n + 122) each, of DET, NOUN, ADJ, VERB and the tag nobody knows.
    assert constant["value"] == pytest.approx(np.mean([2 * n / (n + 122) for n in (40, 41, 20, 20)] + [0]))
    weights = [each.tables["mixing"].query("task == 'pos'")["weight"].tolist() for each in (result, macro)]
    assert weights[0] == weights[1], "what is trained, and when it stops, is the same"


def test_a_task_is_scored_by_its_own_metric_where_none_is_asked_for() -> None:
    said = [{"ques": ("NUM",), "pos": ("NOUN",)}, {"ques": ("HUM",), "pos": ("VERB",)}]
    edges = [{name: (Edge(labels, Span(0, 1)),) for name, labels in each.items()} for each in said]
    texts = [Text(str(number), (f"word{number}",), edges=edges[number % 2]) for number in range(40)]
    asked = Splits(corpus_from(texts[:30], name="own", split="train"), corpus_from(texts[30:], name="own", split="dev"))
    plan: dict[str, Any] = {"probes": ["layer"], "preset": "quick", "amounts": TrainingAmounts(seeds=1)}
    plan |= {"faithful": False, "seed": 0, "device": "cpu"}
    averages = {
        metric: {task.name: task.average for task in plan_run(3, TaskSource(asked, None), metric=metric, **plan).tasks}
        for metric in (None, "micro", "macro")
    }
    assert averages[None] == {"pos": "micro", "ques": "macro"}
    assert averages["micro"] == {"pos": "micro", "ques": "micro"}
    assert averages["macro"] == {"pos": "macro", "ques": "macro"}


def test_predictions_name_every_target_and_its_labels(result: Result) -> None:
    told = read_predictions(result.files["pos.predictions.parquet"])
    odd = told.table[told.table["text_id"] == "odd"].iloc[0]

    assert len(told.table) == 122 * 2 * 2 * 3
    assert (odd["words1"], odd["gold"].tolist(), odd["unseen"], len(odd["probabilities"])) == ("wow", ["INTJ"], 1, 4)
    assert told.table.loc[0, ["text_id", "doc", "start1", "end1"]].tolist() == ["dev-0", "dev-doc-0", 0, 1]
    assert read_predictions(result.files["dep.predictions.parquet"]).table.loc[0, "start2"] == 2


def test_the_words_of_all_scored_texts_come_with_the_result(result: Result, splits: Splits) -> None:
    texts = pd.read_parquet(result.files["texts.parquet"])

    assert texts.columns.tolist() == ["corpus", "text_id", "doc", "words"]
    assert set(texts["corpus"]) == {"toy"}
    assert texts["text_id"].tolist() == [text.id for text in splits.scored]
    assert texts["words"].map(tuple).tolist() == [text.words for text in splits.scored]


def test_a_file_that_holds_no_predictions_is_refused(tmp_path) -> None:
    bad = tmp_path / "bad.parquet"
    bad.write_text("no parquet")

    with pytest.raises(ResultError, match="probe again"):
        read_predictions(bad)


def test_the_summary_agrees_with_the_other_tables(result: Result) -> None:
    scores, mixing = result.tables["scores"].query("metric == 'f1' and seed == 'all'"), result.tables["mixing"]
    pooled = scores.query("probe == 'cumulative' and of == 'model'").set_index(["task", "layer"])["value"]
    control = result.tables["control"].set_index("task")
    full = mixing[mixing["upto"] == 2]
    gravity = (full["layer"] * full["weight"]).groupby([full["task"], full["seed"]]).sum()

    for row in result.tables["summary"].itertuples():
        assert row.f1_first == pooled[row.task, 0]
        assert row.f1_full == pooled[row.task, 2]
        assert row.center_of_gravity == pytest.approx(gravity[row.task].mean(), abs=1e-6)
        assert (row.cog_low, row.cog_high) == pytest.approx((gravity[row.task].min(), gravity[row.task].max()))
        assert row.kl_mixing_low <= row.kl_mixing <= row.kl_mixing_high
        own = control.loc[row.task]
        assert row.selectivity == pytest.approx(own["model"] - own["control"])
        assert row.selectivity == own["difference"]
        # Of pos, model and control are right about all targets in every draw: nothing varies.
        ends = [row.selectivity_low, row.selectivity_high]
        assert np.isnan(ends).all() or ends[0] <= row.selectivity <= ends[1]
        assert (row.selectivity_layer, row.selectivity_metric) == (own["layer"], "accuracy")
        training = result.tables["training"].query("task == @row.task and of == 'model' and probe == 'layer'")
        by_stopping = training.groupby("layer")["loss"].mean().idxmin()
        assert row.selectivity_layer == by_stopping
    assert np.allclose(mixing.groupby(["task", "seed", "upto"])["weight"].sum(), 1)
    assert (mixing["layer"] <= mixing["upto"]).all()


def test_labels_unseen_in_training_are_counted_and_shown(result: Result) -> None:
    parts = result.tables["breakdown"].set_index(["task", "by", "group", "layer"])

    assert parts.loc[("pos", "label", "INTJ", 2), ["count", "value"]].tolist() == [1, 0]
    assert parts.loc[("pos", "seen", "unseen", 0), "count"] == 1
    assert parts.loc[("dep", "distance", "0", 0), "count"] == 60, "amod, nsubj and the second det stand side by side"
    assert result.provenance.skipped["pos: scored labels unseen in training (scored as errors)"] == 1


def test_it_is_saved_and_read_back(result: Result, tmp_path) -> None:
    again = Result.load(result.save(tmp_path / "saved", charts=False))

    for name, table in result.tables.items():
        if len(table):
            pd.testing.assert_frame_equal(again.tables[name], table, check_dtype=False)
    assert again.files.keys() == result.files.keys()
    assert {"pos.predictions.parquet", "dep-1.safetensors", "texts.parquet"} <= again.files.keys()


def test_a_second_call_trains_nothing_and_says_the_same(
    result: Result, splits: Splits, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(elsewhere, "run_task")
    again = lamina.probe(TinyEncoder(), splits, **settings)

    for name, table in result.tables.items():
        pd.testing.assert_frame_equal(again.tables[name], table)


def test_a_stopped_run_goes_on_with_the_task_it_was_at(
    result: Result, splits: Splits, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    work = result.files["pos-0.safetensors"].parent
    (work / "dep.run").unlink()
    trained = []
    run_task = elsewhere.run_task

    def noting(task, *rest):
        trained.append(task.name)
        return run_task(task, *rest)

    monkeypatch.setattr(elsewhere, "run_task", noting)
    again = lamina.probe(TinyEncoder(), splits, **settings)

    assert trained == ["dep"]
    pd.testing.assert_frame_equal(again.tables["scores"], result.tables["scores"])


@pytest.mark.parametrize("name", ["dep.run", "dep-1.safetensors"])
def test_a_flipped_bit_in_a_kept_run_has_it_computed_again(
    result: Result, splits: Splits, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys, name: str
) -> None:
    root = result.files["pos-0.safetensors"].parents[2]
    path = result.files["pos-0.safetensors"].with_name(name)
    assert problems(root) == []
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    assert [problem.path for problem in problems(root)] == [path]
    trained = []
    run_task = elsewhere.run_task
    monkeypatch.setattr(elsewhere, "run_task", lambda task, *rest: trained.append(task.name) or run_task(task, *rest))

    again = lamina.probe(TinyEncoder(), splits, **settings)

    assert trained == ["dep"]
    assert "dep is probed again" in capsys.readouterr().err
    pd.testing.assert_frame_equal(again.tables["scores"], result.tables["scores"])
    assert problems(root) == []


def test_an_estimate_counts_steps_and_stores_nothing(splits: Splits, settings: dict[str, Any], tmp_path: Path) -> None:
    cost = lamina.probe.estimate(TinyEncoder(), splits, store=tmp_path, **settings)
    alone = lamina.probe.estimate(TinyEncoder(), splits, tasks=["pos"], twin=False, store=tmp_path, **settings)
    coded = lamina.probe.estimate(
        TinyEncoder(), splits, tasks=["pos"], twin=False, mdl=True, store=tmp_path, **settings
    )

    # Two tasks, each with the model's probes, the control's and the twin's; half of 40 validations of 10 steps.
    assert (cost.passes, cost.texts, cost.steps) == (2, 81, 2 * 3 * 200)
    assert (alone.passes, alone.steps) == (1, 2 * 200)
    assert coded.steps > alone.steps
    assert cost.seconds > 0
    assert not list(tmp_path.rglob("*.safetensors"))


def test_training_that_patience_can_end_is_expected_to_take_half_of_the_longest() -> None:
    assert [expected_steps(each, 500) for each in (QUICK, PAPER, PAPER_SMALL)] == [1200, 125_000, 5000]
    assert expected_steps(STANDARD, 500) == STANDARD.end_of(4), "cycles, from 200 steps on"
    assert expected_steps(STANDARD, 50) == round(50 * 1.5**3), "from one pass over few targets on"


@pytest.mark.parametrize("probes", [("layer",), ("mix",)])
def test_a_part_of_the_probes_gives_a_part_of_the_numbers(
    probes: tuple[str, ...], splits: Splits, settings: dict[str, Any]
) -> None:
    tables = lamina.probe(
        TinyEncoder(blocks=1), splits, tasks=["pos"], probes=probes, seeds=1, twin=False, **settings
    ).tables
    (row,) = tables["summary"].itertuples()

    assert np.isnan([row.f1_first, row.expected_layer, row.kl_differential]).all()
    assert np.isnan(row.f1_full) == np.isnan(row.center_of_gravity) == (probes == ("layer",))
    assert np.isnan(row.selectivity) == (probes == ("mix",))
    assert tables["traces"].empty
    assert row.converged
    assert ("no single-layer probes" in row.reason) == (probes == ("mix",))


def test_what_cannot_be_asked_is_said(splits: Splits, settings: dict[str, Any]) -> None:
    with pytest.raises(TaskError, match="does not carry coref; it carries pos, dep"):
        lamina.probe(TinyEncoder(), splits, tasks=["coref"], **settings)
    with pytest.raises(InputError, match="metric must be one of micro, macro or None; got 'f2'"):
        lamina.probe(TinyEncoder(), splits, metric="f2", **settings)
    with pytest.raises(
        InputError, match="probes takes a list, each item one of cumulative, layer, mix or None; got 'all'"
    ):
        lamina.probe(TinyEncoder(), splits, probes=["all"], **settings)
    with pytest.raises(InputError, match="name at least one of cumulative, layer, mix"):
        lamina.probe(TinyEncoder(), splits, probes=[], **settings)
