"""Models that order tasks alike or not, planted in saved predictions."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from lamina.comparison.agreement import agreement
from lamina.errors import InputError
from lamina.framework.verify import check_findings
from lamina.results import Result
from lamina.stats import kendall_correlation
from tests.comparison.test_compare import probed

TASKS = ("pos", "dep", "ner")


def model(folder: Path, name: str, lifts: tuple[float, ...], seeds: int = 5) -> list[Result]:
    """One result per task: a higher lift is gained at the first layer, so that the task is resolved earlier."""
    return [
        probed(folder, name, tasks=(task,), last=4, lift=lift, seeds=seeds, probes=("cumulative",))
        for task, lift in zip(TASKS, lifts, strict=True)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("agreement")


@pytest.fixture(scope="module")
def alike(folder: Path) -> list[Result]:
    return model(folder, "one", (0.2, 0.1, 0.0)) + model(folder, "two", (0.2, 0.1, 0.0))


def expected(result: Result) -> float:
    scores = result.tables["scores"].query("metric == 'f1' and probe == 'cumulative'").sort_values("layer")
    values = scores["value"].to_numpy(float)
    gains = np.diff(values)
    return float((gains * np.arange(1, len(values))).sum() / gains.sum() / (len(values) - 1))


def test_a_planted_order_is_found_in_every_model_and_counted(alike: list[Result]) -> None:
    result = agreement(*alike, tasks=["pos", "dep", "ner"], samples=300)
    places = result.tables["places"].set_index(["model", "task"])["value"]
    for one in alike:
        task = str(one.tables["summary"]["task"].iloc[0])
        name = str(one.provenance.model["name"])
        assert places[name, task] == pytest.approx(expected(one), abs=1e-6)
    pairs = result.tables["pairs"].set_index(["task_a", "task_b"])
    assert pairs.loc[("pos", "ner"), "a_first"] == 2
    assert pairs["models"].tolist() == [2, 2, 2]
    chances = result.tables["models"]
    assert chances["order"].tolist() == ["pos < dep < ner"] * 2
    assert (chances["probability"] > 0.9).all()
    tau = result.tables["kendall"]
    assert tau["tau"].tolist() == [1.0, 1.0]
    texts = [finding.text for finding in result.findings]
    assert any(text.startswith("2 of 2 models resolve part of speech before entities") for text in texts), texts
    assert check_findings(result) == []


def test_models_that_differ_are_counted_both_ways(folder: Path, alike: list[Result]) -> None:
    result = agreement(*alike, *model(folder, "three", (0.0, 0.1, 0.2)), tasks=["ner", "dep", "pos"], samples=300)
    pairs = result.tables["pairs"].set_index(["task_a", "task_b"])
    assert pairs.loc[("ner", "pos"), ["a_first", "b_first"]].tolist() == [1, 2]
    assert any("the other way round in 1" in finding.text for finding in result.findings)
    tau = result.tables["kendall"].set_index(["model_a", "model_b"])["tau"]
    assert tau["one", "three"] == tau["two", "three"] == -1.0
    assert tau["all", "all"] == pytest.approx(-1 / 3)
    chance = result.tables["models"].set_index("model")["probability"]
    assert chance["three"] > 0.9
    assert chance["one"] < 0.1
    assert check_findings(result) == []


def test_below_five_seeds_nothing_is_claimed(folder: Path) -> None:
    result = agreement(*model(folder, "a", (0.2, 0.1, 0.0), 2), *model(folder, "b", (0.2, 0.1, 0.0), 2))
    assert set(result.tables["order"]["verdict"]) == {"untested"}
    assert {finding.status for finding in result.findings} == {"untested"}
    assert result.tables["models"]["probability"].isna().all()


def test_what_is_no_set_of_probing_results_is_refused(alike: list[Result]) -> None:
    with pytest.raises(InputError, match="two models"):
        agreement(alike[0])
    with pytest.raises(InputError, match="not all results have srl"):
        agreement(*alike, tasks=["pos", "srl"])


def test_kendall_is_that_of_scipy() -> None:
    from scipy.stats import kendalltau

    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(20, 6)), rng.normal(size=(20, 6))
    ours = kendall_correlation(one, other)
    assert ours == pytest.approx([kendalltau(a, b).statistic for a, b in zip(one, other, strict=True)])
    assert math.isnan(kendall_correlation(np.array([1.0, np.nan]), np.array([1.0, 2.0])))
