"""What a fine-tuning says of itself, what it declares, and what it would take."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pandas as pd
import pytest

import lamina
from lamina.analyses.answering.finetune import CURVE_COLUMNS, finetune
from lamina.framework.verify import check_findings
from lamina.results import Provenance, Result
from lamina.results.finding import Finding
from lamina.testing import TinyEncoder
from lamina.training.objective import Sum, TextOutcome, contrast_table, drawn_score, means, score_contrasts, score_table
from lamina.training.settings import PAPER_SETTINGS, SCHEDULES, Schedule, Task, make_plans

CURVE = [(5, 0.5, "select", "f1", 0.4), (10, 1.0, "select", "f1", 0.6), (15, 1.5, "select", "f1", 0.5)]


def outcomes(hits: dict[str, float], documents: int, items: int = 10, metric: str = "f1") -> list[TextOutcome]:
    """Task -> share of hits, in every document alike but for one item."""
    return [
        TextOutcome(f"d{document}", {metric: Sum(share * items + (document % 2) * 0.5, items, items)}, task)
        for task, share in hits.items()
        for document in range(documents)
    ]


def learned(
    hits: dict[str, float],
    constant: dict[str, float],
    *,
    documents: int = 12,
    curve: list[tuple] = CURVE,
    task: str = "babi",
    metric: str = "f1",
) -> Result:
    """What a fine-tuning says of these shares of hits, by task of the data."""
    own, other = outcomes(hits, documents, metric=metric), outcomes(constant, documents, metric=metric)
    tables = {
        "scores": score_table("scored", own, seed=0),
        "contrasts": contrast_table([own], other, "document", seed=0),
        "curve": pd.DataFrame([(0, *row) if len(row) == 5 else row for row in curve], columns=list(CURVE_COLUMNS)),
        "baseline": pd.DataFrame(means(other).items(), columns=["metric", "value"]),
    }
    model, corpus = {"name": "m", "fingerprint": "f"}, {"name": "c", "fingerprint": "g"}
    result = Result("finetune", tables, Provenance(model, corpus, {"task": task}))
    made = replace(result, findings=finetune.findings(result))
    assert not check_findings(made)
    return made


def only(result: Result) -> Finding:
    (one,) = result.findings
    return one


def test_wrong_12_a_low_score_is_told_beside_the_constant_answer_and_nothing_is_said_to_be_learned() -> None:
    low = only(learned({"": 0.3}, {"": 0.2}))
    assert low.status == "clear"
    assert low.text == (
        "The fine-tuned model does better on babi than always answering what is most frequent in training: F1 .33 "
        "against .23 on 120 scored questions (difference .10 [.10, .10])."
    )
    assert "learned" not in low.text


def test_a_score_is_compared_with_the_constant_answer_document_by_document() -> None:
    assert only(learned({"": 0.2}, {"": 0.2})).status == "null"
    worse = only(learned({"": 0.05}, {"": 0.2}))
    assert (worse.status, worse.claim.startswith("The fine-tuned model does worse on babi")) == ("clear", True)
    few = only(learned({"": 0.8}, {"": 0.2}, documents=5))
    assert (few.status, few.n, few.needed) == ("untested", 5, 6)
    assert few.text.startswith("5 documents are too few to test whether the fine-tuned model does better on babi")


def test_overlapping_intervals_do_not_hide_a_paired_difference() -> None:
    draw = np.random.default_rng(0)
    level = draw.random(20)
    runs = [
        [
            TextOutcome(f"d{at}", {"f1": Sum(10 * each + more + draw.normal(0, 0.1), 20, 20)})
            for at, each in enumerate(level)
        ]
        for more in (0.8, 0.0)
    ]
    one, other = (drawn_score(each, "f1", seed=0).interval for each in runs)
    assert one[0] < other[1], "the intervals overlap"
    found = score_contrasts([([runs[0]], [runs[1]])], "f1", seed=0).one()
    assert found.p < 0.001
    assert 0.03 < found.low < found.estimate < found.high < 0.05


def test_a_loss_is_better_when_lower() -> None:
    rows = [(step, 1.0, "select", "loss", value) for step, value in ((5, 3.0), (10, 2.0), (15, 2.5))]
    one = only(learned({"": 2.1}, {"": 5.0}, curve=rows, task="mlm", metric="loss"))
    assert one.text.startswith(
        "The fine-tuned model does better on mlm than always answering what is most frequent in training: loss 2.12 "
        "against 5.03 on 120 scored masked tokens"
    )


def test_tasks_of_the_data_are_one_family() -> None:
    both = learned({"qa1": 0.9, "qa2": 0.4}, {"qa1": 0.2, "qa2": 0.2}).findings
    assert [each.status for each in both] == ["clear", "clear"]
    assert both[1].text == (
        "All 2 tasks are done better than by always answering what is most frequent in training; qa2 has the least "
        "sure difference (difference in F1 of qa2 .20 [.20, .20])."
    )
    one = learned({"qa1": 0.9, "qa2": 0.2}, {"qa1": 0.2, "qa2": 0.2}).findings
    assert one[1].claim.startswith("Of 2 tasks, qa1 is done better")
    none = learned({"qa1": 0.2, "qa2": 0.2}, {"qa1": 0.2, "qa2": 0.2}).findings
    assert [each.status for each in none] == ["null", "null"]


def test_where_the_last_step_is_the_best_that_is_said() -> None:
    rows = [*CURVE, (20, 2.0, "select", "f1", 0.7)]
    still = only(learned({"": 0.8}, {"": 0.2}, curve=rows))
    assert still.note == "The last step (20) was the best on the selection set: longer training may do better."


def test_seeds_that_still_learn_are_counted() -> None:
    longer = [*CURVE, (20, 2.0, "select", "f1", 0.7)]
    rows = [(seed, *row) for seed, value in enumerate((0.7, 0.8, 0.1)) for row in (*CURVE, (*longer[-1][:4], value))]
    assert "was the best on the selection set for 2 of 3 seeds" in only(learned({"": 0.8}, {"": 0.2}, curve=rows)).note
    few = [(seed, *row) for seed, value in enumerate((0.7, 0.1, 0.1)) for row in (*CURVE, (*longer[-1][:4], value))]
    assert not only(learned({"": 0.8}, {"": 0.2}, curve=few)).note


def test_what_is_missing_does_not_stop_it() -> None:
    # Folders of older versions have neither contrasts nor columns for seeds and, for most tasks, for tasks.
    old = learned({"": 0.8}, {"": 0.2})
    scores, curve = old.tables["scores"].drop(columns=["task", "seeds"]), old.tables["curve"].drop(columns="seed")
    old = Result("finetune", {"scores": scores, "curve": curve}, old.provenance)
    assert finetune.findings(old) == ()
    assert list(finetune.overview(old))
    assert only(learned({"": 0.5}, {"": 0.2}, curve=CURVE[:1])).status == "clear"


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
    every = make_plans(PAPER_SETTINGS["squad"], **free, grid=True)
    assert len(every) == len(set(every)) == 3 * 2 * 5
    # A rate that falls does so by the number of epochs; with a constant one the longer run holds the shorter one.
    assert {(plan.schedule, plan.epochs) for plan in every} == {
        *(("constant", 5), ("linear", 2), ("linear", 5), ("warmup", 2), ("warmup", 5))
    }
    assert len(make_plans(PAPER_SETTINGS["squad"], **(free | {"max_steps": 9}), grid=True)) == 3 * 2 * 3
    (one,) = make_plans(PAPER_SETTINGS["squad"], **free, grid=False)
    assert (one.lr, one.batch, one.schedule, one.epochs) == (3e-5, 32, "warmup", 5)


def test_choices_are_the_recipes() -> None:
    assert get_args(Task) == tuple(PAPER_SETTINGS)
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
