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
from lamina.analyses.probing import probe as module
from lamina.analyses.probing.checkpoints import problems
from lamina.analyses.probing.planning import _validations, plan_run
from lamina.analyses.probing.tables import read_predictions
from lamina.corpora import corpus_from
from lamina.corpora.learning import Splits
from lamina.errors import InputError, ResultError, TaskError
from lamina.probes.bank import PAPER, PAPER_SMALL, QUICK
from lamina.testing import TinyEncoder
from lamina.types import Edge, Span, Text

COLUMNS = {
    "scores": "model,task,probe,of,layer,seed,split,metric,count,value,low,high",
    "mixing": "task,seed,upto,layer,weight,gamma,norm",
    "summary": "task,f1_first,f1_full,center_of_gravity,cog_low,cog_high,expected_layer,el_low,el_high,"
    "kl_mixing,kl_differential,selectivity",
    "order": "task_a,task_b,statistic,probability",
    "order_tests": "task_a,task_b,statistic,p,p_holm",
    "traces": "text_id,task,seed,span1,span2,label,gold,layer,probability",
    "breakdown": "task,by,group,layer,count,value,low,high",
    "control": "task,share_seen",
    "words": "text_id,position,word",
}


def test_the_columns_are_the_contract(result: Result) -> None:
    assert {name: ",".join(table.columns) for name, table in result.tables.items()} == COLUMNS
    declared = {name: ",".join(table.columns) for name, table in lamina.probe.tables.items() if not table.optional}
    assert declared == COLUMNS


def test_every_probe_has_a_row_a_seed_and_one_of_all_seeds(result: Result) -> None:
    scores = result.tables["scores"]
    rows = scores[scores["probe"] != "constant"].groupby(["task", "of", "probe", "seed"])["layer"].apply(list)

    for task in ("pos", "dep"):
        for probe in ("cumulative", "layer"):
            assert all(rows[task, "model", probe, seed] == [0, 1, 2] for seed in ("0", "1", "all"))
        for of in ("control", "random"):
            assert all(rows[task, of, "layer", seed] == [0, 1, 2] for seed in ("0", "all"))
    assert len(rows) == 2 * (2 * 3 + 2 * 2)
    constant = scores[scores["probe"] == "constant"]
    assert constant["layer"].isna().all()
    assert constant[["task", "seed"]].to_numpy().tolist() == [["pos", "all"], ["dep", "all"]]
    assert set(scores["split"]) == {"dev"}
    assert dict(zip(scores["task"], scores["count"], strict=True)) == {"pos": 122, "dep": 100}


def test_values_lie_within_their_intervals_and_what_can_be_learned_is(result: Result) -> None:
    scores = result.tables["scores"]
    full = scores[(scores["of"] == "model") & (scores["probe"] == "cumulative") & (scores["seed"] == "all")]

    assert (scores["low"] <= scores["value"] + 1e-12).all()
    assert (scores["value"] <= scores["high"] + 1e-12).all()
    constant = scores[scores["probe"] == "constant"].set_index("task")["value"]
    assert (full["value"] > full["task"].map(constant) + 0.2).all()


def test_the_pooled_value_is_the_mean_over_seeds(result: Result) -> None:
    scores = result.tables["scores"]
    own = scores[(scores["of"] == "model") & (scores["probe"] == "layer") & (scores["task"] == "dep")]
    by_layer = own.pivot(index="layer", columns="seed", values="value")

    assert by_layer["all"].to_numpy() == pytest.approx(by_layer[["0", "1"]].mean(axis=1).to_numpy())


def test_scores_can_be_worked_out_from_the_predictions(result: Result) -> None:
    scores = result.tables["scores"].set_index(["task", "probe", "of", "layer", "seed"])["value"]
    for task in ("pos", "dep"):
        told = read_predictions(result.files[f"{task}.predictions.parquet"])
        for (seed, layer), rows in told.table.groupby(["seed", "layer"]):
            gold = np.array([[label in each for label in told.labels] for each in rows["gold"]])
            said = np.stack(rows["probabilities"].tolist()) >= 0.5
            missed = np.ones(rows["unseen"].sum(), bool)
            flat = np.concatenate([gold.ravel(), missed]), np.concatenate([said.ravel(), ~missed])
            assert scores[task, "cumulative", "model", layer, str(seed)] == pytest.approx(f1_score(*flat))


def test_macro_f1_where_asked(result: Result, splits: Splits, settings: dict[str, Any]) -> None:
    macro = lamina.probe(TinyEncoder(), splits, tasks=["pos"], metric="macro", **settings)
    scores = macro.tables["scores"]
    assert set(scores["metric"]) == {"macro-F1 over all labels"}
    by_member = scores.set_index(["probe", "of", "layer", "seed"])["value"]
    told = read_predictions(macro.files["pos.predictions.parquet"])
    labels = [*told.labels, "INTJ"]
    for (seed, layer), rows in told.table.groupby(["seed", "layer"]):
        gold = np.array([[label in each for label in labels] for each in rows["gold"]])
        said = np.stack(rows["probabilities"].tolist()) >= 0.5
        said = np.concatenate([said, np.zeros((len(said), 1), bool)], axis=1)
        expected = f1_score(gold, said, average="macro", zero_division=0)
        assert by_member["cumulative", "model", layer, str(seed)] == pytest.approx(expected)
    (row,) = macro.tables["summary"].itertuples()
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
    edges = {"ques": (Edge(("NUM",), Span(0, 1)),), "pos": (Edge(("NOUN",), Span(0, 1)),)}
    texts = [Text(str(number), (f"word{number}",), edges=edges) for number in range(40)]
    asked = Splits(corpus_from(texts[:30], name="own", split="train"), corpus_from(texts[30:], name="own", split="dev"))
    plan: dict[str, Any] = {"tasks": None, "probes": ["layer"], "preset": "quick", "seeds": 1}
    plan |= {"faithful": False, "seed": 0, "device": "cpu"}
    averages = {
        metric: {task.name: task.average for task in plan_run(3, asked, metric=metric, **plan).tasks}
        for metric in (None, "micro", "macro")
    }
    assert averages[None] == {"pos": "micro", "ques": "macro"}
    assert averages["micro"] == {"pos": "micro", "ques": "micro"}
    assert averages["macro"] == {"pos": "macro", "ques": "macro"}


def test_predictions_name_every_target_and_its_labels(result: Result) -> None:
    told = read_predictions(result.files["pos.predictions.parquet"])
    odd = told.table[told.table["text_id"] == "odd"].iloc[0]

    assert len(told.table) == 122 * 2 * 3
    assert (odd["words1"], odd["gold"].tolist(), odd["unseen"], len(odd["probabilities"])) == ("wow", ["INTJ"], 1, 4)
    assert told.table.loc[0, ["text_id", "doc", "start1", "end1"]].tolist() == ["dev-0", "dev-doc-0", 0, 1]
    assert read_predictions(result.files["dep.predictions.parquet"]).table.loc[0, "start2"] == 2


def test_a_file_that_holds_no_predictions_is_refused(tmp_path) -> None:
    bad = tmp_path / "bad.parquet"
    bad.write_text("no parquet")

    with pytest.raises(ResultError, match="probe again"):
        read_predictions(bad)


def test_the_summary_agrees_with_the_other_tables(result: Result) -> None:
    scores, mixing = result.tables["scores"], result.tables["mixing"]
    pooled = scores[(scores["seed"] == "all") & (scores["probe"] == "cumulative")].set_index(["task", "layer"])["value"]
    full = mixing[mixing["upto"] == 2]
    gravity = (full["layer"] * full["weight"]).groupby([full["task"], full["seed"]]).sum()

    for row in result.tables["summary"].itertuples():
        assert row.f1_first == pooled[row.task, 0]
        assert row.f1_full == pooled[row.task, 2]
        assert row.center_of_gravity == pytest.approx(gravity[row.task].mean(), abs=1e-6)
        assert (row.cog_low, row.cog_high) == pytest.approx((gravity[row.task].min(), gravity[row.task].max()))
        singles = scores[(scores["task"] == row.task) & (scores["probe"] == "layer") & (scores["seed"] == "all")]
        gaps = singles.pivot(index="layer", columns="of", values="value")
        assert np.isclose(row.selectivity, gaps["model"] - gaps["control"]).any()
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
    assert {"pos.predictions.parquet", "dep-1.safetensors"} <= again.files.keys()


def test_a_second_call_trains_nothing_and_says_the_same(
    result: Result, splits: Splits, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(module, "run_task")
    again = lamina.probe(TinyEncoder(), splits, **settings)

    for name, table in result.tables.items():
        pd.testing.assert_frame_equal(again.tables[name], table)


def test_a_stopped_run_goes_on_with_the_task_it_was_at(
    result: Result, splits: Splits, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    work = result.files["pos-0.safetensors"].parent
    (work / "dep.run").unlink()
    trained = []
    run_task = module.run_task

    def noting(task, *rest):
        trained.append(task.name)
        return run_task(task, *rest)

    monkeypatch.setattr(module, "run_task", noting)
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
    run_task = module.run_task
    monkeypatch.setattr(module, "run_task", lambda task, *rest: trained.append(task.name) or run_task(task, *rest))

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

    # Two tasks, on the model and on its twin, two validations of 15 steps.
    assert (cost.passes, cost.texts, cost.steps) == (2, 81, 2 * 2 * 30)
    assert (alone.passes, alone.steps) == (1, 30)
    assert coded.steps > alone.steps
    assert cost.seconds > 0
    assert not list(tmp_path.rglob("*.safetensors"))


def test_training_that_patience_can_end_is_expected_to_take_half_of_the_longest() -> None:
    assert [_validations(each) for each in (QUICK, PAPER, PAPER_SMALL)] == [4, 125, 50]


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


def test_what_cannot_be_asked_is_said(splits: Splits, settings: dict[str, Any]) -> None:
    with pytest.raises(TaskError, match="does not carry coref; it carries pos, dep"):
        lamina.probe(TinyEncoder(), splits, tasks=["coref"], **settings)
    with pytest.raises(InputError, match="metric must be one of micro, macro or None; got 'f2'"):
        lamina.probe(TinyEncoder(), splits, metric="f2", **settings)
    with pytest.raises(InputError, match="probes takes a list, each item one of cumulative, layer, mix; got 'all'"):
        lamina.probe(TinyEncoder(), splits, probes=["all"], **settings)
    with pytest.raises(InputError, match="name at least one of cumulative, layer, mix"):
        lamina.probe(TinyEncoder(), splits, probes=[], **settings)
