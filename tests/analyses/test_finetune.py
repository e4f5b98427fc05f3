"""What a fine-tuning says of itself, what it declares, and what it would take."""

from __future__ import annotations

from typing import get_args

import pandas as pd
import pytest

import lamina
from lamina.analyses.finetune import _CURVE, finetune
from lamina.findings import Finding
from lamina.results import Provenance, Result
from lamina.testing import TinyEncoder
from lamina.training.objective import COLUMNS
from lamina.training.recipes import RECIPES, SCHEDULES, Schedule, Task, make_plans

CURVE = [(5, 0.5, "select", "f1", 0.4), (10, 1.0, "select", "f1", 0.6), (15, 1.5, "select", "f1", 0.5)]


def learned(
    *scores: tuple[str, str, float, float, float],
    baseline: float | None = 0.2,
    curve: list[tuple] = CURVE,
    task: str = "babi",
) -> Result:
    rows = [("scored", of, metric, 100, 1, value, low, high) for of, metric, value, low, high in scores]
    tables = {
        "scores": pd.DataFrame(rows, columns=list(COLUMNS)),
        "curve": pd.DataFrame([(0, *row) if len(row) == 5 else row for row in curve], columns=list(_CURVE)),
    }
    if baseline is not None:
        tables["baseline"] = pd.DataFrame([(rows[0][2], baseline)], columns=["metric", "value"])
    model, corpus = {"name": "m", "fingerprint": "f"}, {"name": "c", "fingerprint": "g"}
    return Result("finetune", tables, Provenance(model, corpus, {"task": task}))


def only(result: Result) -> Finding:
    (one,) = finetune.findings(result)
    return one


def test_a_score_is_compared_with_what_is_most_frequent() -> None:
    clear = only(learned(("all", "f1", 0.8, 0.75, 0.85)))
    assert (clear.status, clear.value, clear.against) == ("clear", 0.8, 0.2)
    assert clear.text == (
        "The model learned babi: F1 .80 [.75, .85] on 100 scored questions; always answering what is most frequent in "
        "training gives .20."
    )
    unsure = only(learned(("all", "f1", 0.25, 0.15, 0.35)))
    assert unsure.status == "open"
    assert "undecided" in unsure.text
    nothing = only(learned(("all", "accuracy", 0.2, 0.19, 0.21), task="pos"))
    assert nothing.status == "null"
    assert "learned no more than what is most frequent" in nothing.text
    worse = only(learned(("all", "f1", 0.05, 0.02, 0.08)))
    assert "learned no more than what is most frequent" in worse.text
    assert worse.status != "open"


def test_a_loss_is_better_when_lower() -> None:
    rows = [(step, 1.0, "select", "loss", value) for step, value in ((5, 3.0), (10, 2.0), (15, 2.5))]
    one = only(learned(("all", "loss", 2.1, 2.0, 2.2), baseline=5.0, curve=rows, task="mlm"))
    assert one.text.startswith("The model learned mlm: loss 2.10 [2.00, 2.20] on 100 scored hidden pieces")


def test_tasks_of_the_data_are_compared() -> None:
    whole = ("all", "f1", 0.5, 0.45, 0.55)
    far = learned(whole, ("qa1", "f1", 0.9, 0.85, 0.95), ("qa2", "f1", 0.2, 0.1, 0.3))
    assert [each.status for each in finetune.findings(far)] == ["clear", "clear"]
    assert finetune.findings(far)[1].text == "It does best on qa1 (.90 [.85, .95]) and worst on qa2 (.20 [.10, .30])."
    near = learned(whole, ("qa1", "f1", 0.55, 0.4, 0.7), ("qa2", "f1", 0.5, 0.4, 0.6))
    assert finetune.findings(near)[1].status == "open"
    assert "the intervals overlap" in finetune.findings(near)[1].text


def test_where_the_last_step_is_the_best_that_is_said() -> None:
    rows = [*CURVE, (20, 2.0, "select", "f1", 0.7)]
    _, still = finetune.findings(learned(("all", "f1", 0.8, 0.75, 0.85), curve=rows))
    assert (still.status, still.value) == ("open", 0.7)
    assert "last step (20)" in still.text


def test_seeds_that_still_learn_are_counted() -> None:
    longer = [*CURVE, (20, 2.0, "select", "f1", 0.7)]
    rows = [(seed, *row) for seed, value in enumerate((0.7, 0.8, 0.1)) for row in (*CURVE, (*longer[-1][:4], value))]
    _, still = finetune.findings(learned(("all", "f1", 0.8, 0.75, 0.85), curve=rows))
    assert "was the best on the selection set for 2 of 3 seeds (F1 .53)" in still.text
    few = [(seed, *row) for seed, value in enumerate((0.7, 0.1, 0.1)) for row in (*CURVE, (*longer[-1][:4], value))]
    assert only(learned(("all", "f1", 0.8, 0.75, 0.85), curve=few)).status == "clear"


def test_what_is_missing_does_not_stop_it() -> None:
    # Folders of older versions have neither a baseline nor columns for seeds and, for most tasks, for tasks.
    old = learned(("all", "f1", 0.8, 0.75, 0.85), baseline=None)
    scores, curve = old.tables["scores"].drop(columns=["task", "seeds"]), old.tables["curve"].drop(columns="seed")
    old = Result("finetune", {**old.tables, "scores": scores, "curve": curve}, old.provenance)
    assert only(old).status == "open"
    assert list(finetune.overview(old))
    nan = float("nan")
    assert finetune.findings(learned(("all", "f1", nan, nan, nan))) == ()
    assert only(learned(("all", "f1", 0.5, nan, nan), curve=CURVE[:1])).status == "open"


def test_what_is_declared_is_what_comes(model_folder, tmp_path) -> None:
    settings = {"task": "babi", "babi_tasks": (1, 2), "limit": 12, "batch": 4, "max_steps": 2, "grid": True, "seeds": 2}
    settings |= {"schedule": "constant"}
    result = lamina.finetune(str(model_folder("bert")), "stories", **settings, out=tmp_path / "out", device="cpu")
    assert {name: tuple(table.columns) for name, table in result.tables.items()} == {
        name: table.columns for name, table in finetune.tables.items()
    }
    assert result.findings
    assert result.provenance.parameters["babi_tasks"] == [1, 2]
    # Where a run was continued is not part of the question.
    assert "resume" not in result.provenance.parameters
    assert next(iter(finetune.overview(result))).columns == ("task", "metric", "count", "value")


def test_an_estimate_counts_the_steps_of_every_plan(model_folder) -> None:
    settings = {"task": "babi", "babi_tasks": (1,), "limit": 12, "batch": 4, "epochs": 1, "grid": True}
    told = finetune.estimate(str(model_folder("bert")), "stories", **settings, device="cpu")
    # Windows make more rows than there are stories; three rates are tried with three schedules.
    assert told.steps >= 9 * 3
    assert told.steps % 9 == 0
    assert told.texts == 36
    assert told.seconds > 0
    assert told.disk > 0


def test_a_grid_varies_what_is_not_given() -> None:
    free = {"epochs": None, "lr": None, "batch": None, "schedule": None, "seed": 0, "max_steps": None}
    every = make_plans(RECIPES["squad"], **free, grid=True)
    assert len(every) == len(set(every)) == 3 * 2 * 5
    # A rate that falls does so by the number of epochs; with a constant one the longer run holds the shorter one.
    assert {(plan.schedule, plan.epochs) for plan in every} == {
        *(("constant", 5), ("linear", 2), ("linear", 5), ("warmup", 2), ("warmup", 5))
    }
    assert len(make_plans(RECIPES["squad"], **(free | {"max_steps": 9}), grid=True)) == 3 * 2 * 3
    (one,) = make_plans(RECIPES["squad"], **free, grid=False)
    assert (one.lr, one.batch, one.schedule, one.epochs) == (3e-5, 32, "warmup", 5)


def test_choices_are_the_recipes() -> None:
    assert get_args(Task) == tuple(RECIPES)
    assert get_args(Schedule) == tuple(SCHEDULES)


def test_a_report_asks_it_on_stories() -> None:
    encoder, corpus = TinyEncoder(), lamina.load_questions("stories", "test", limit=1)
    assert finetune.reads.in_report(encoder, corpus, None) == {"model": encoder, "data": "stories"}
    finetune.checker.check(finetune.report or {})


@pytest.mark.parametrize("limit", [None, 3])
def test_sets_of_ones_own_are_taken_as_they_are(model_folder, limit) -> None:
    from lamina.training.reading import load_sets

    sets = load_sets("babi", "stories", babi_tasks=(1,), limit=5)
    asked = finetune.ask(str(model_folder("bert")), sets, task="babi", device="cpu", limit=limit)
    assert asked.loaded.data["texts"] == dict.fromkeys(("train", "select", "scored"), limit or 5)
