"""Any task: annotations as they come, `Task` objects, graded values; what is no task; settings; convergence."""

from __future__ import annotations

from dataclasses import asdict, replace
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import pearsonr
from sklearn.metrics import r2_score

import lamina
from lamina import Edge, Result, Schedule, Span, Task, Text, corpus_from
from lamina.analyses.layers.probe.planning import TaskSource, TrainingAmounts, plan_run
from lamina.analyses.layers.probe.predictions import read_predictions
from lamina.analyses.layers.probe.training import PRESETS, QUICK, QUICK_SMALL
from lamina.corpora.splits import Splits
from lamina.errors import InputError, TaskError
from lamina.figures import captions_for
from lamina.tasks import describe_task
from lamina.testing import TinyEncoder

WORDS = {"dog": ("NN", 2.0), "cat": ("NN", 1.5), "ran": ("VBD", -1.0), "sat": ("VBD", -2.5), "the": ("DT", 0.0)}
FEW: dict[str, Any] = {"probes": ["cumulative", "layer"], "seeds": 1, "twin": False}
SHIPPED = PRESETS["quick"]
"""Before `settings` puts its own in the place."""


def annotated(number: int, split: str) -> Text:
    rng = Random(f"{split} {number}")
    words = tuple(rng.choices(list(WORDS), k=5))
    places = [Span(at, at + 1) for at in range(5)]
    verbs = [at for at, word in enumerate(words) if WORDS[word][0] == "VBD"]
    edges = {
        "xpos": tuple(Edge((WORDS[word][0],), place) for word, place in zip(words, places, strict=True)),
        "factuality": tuple(Edge((), place, value=WORDS[word][1]) for word, place in zip(words, places, strict=True)),
        "supersense_verb": tuple(Edge((f"v.{words[at]}",), places[at]) for at in verbs),
        "ques_coarse": (Edge(("long" if len(verbs) > 2 else "short",), Span(0, 5)),),
        "edges": tuple(Edge((f"after_{words[at - 1]}",), places[at], places[at - 1]) for at in range(1, 5)),
        "chains": tuple(Edge((f"c{number % 3}",), place) for place in places[:2]),
        "sentence": (Edge(("0",), Span(0, 5)),),
        "answer": (Edge((f"{words[0]} {number}",), places[0]),),
        "same": (Edge(("yes",), places[0]), Edge(("yes",), places[1])),
        "flat": tuple(Edge((), place, value=3.0) for place in places),
        "odd": (Edge(("x",), places[0]), Edge(("y",), places[0], places[1])),
    }
    return Text(f"{split}-{number}", words, edges=edges, doc=f"{split}-doc-{number // 2}")


@pytest.fixture(scope="module")
def corpus() -> Splits:
    """50 texts to learn from, 20 to score, with annotations that no catalogue names."""
    parts = (("train", 50), ("dev", 20))
    return Splits(
        *(corpus_from([annotated(n, split) for n in range(count)], name="own", split=split) for split, count in parts)
    )


OWN = Task("is_verb", "Verbs", "xpos", 1, normalise=lambda label: "verb" if label == "VBD" else "other")


@pytest.fixture(scope="module")
def probed(corpus: Splits, settings: dict[str, Any]) -> Result:
    tasks = ["xpos", "factuality", "supersense_verb", "ques_coarse", "edges", OWN]
    return lamina.probe(TinyEncoder(blocks=1), corpus, tasks=tasks, **FEW, **settings)


def test_any_annotation_and_a_task_of_one_s_own_are_probed(probed: Result) -> None:
    summary = probed.tables["summary"].set_index("task")
    scores = probed.tables["scores"]

    assert summary.index.tolist() == ["xpos", "factuality", "supersense_verb", "ques_coarse", "edges", "is_verb"]
    metrics = scores.groupby("task", sort=False)["metric"].unique().map(list).to_dict()
    assert metrics.pop("factuality") == ["r2", "correlation"]
    assert set(map(tuple, metrics.values())) == {("f1", "accuracy")}
    assert (summary.loc[["xpos", "factuality", "is_verb"], "f1_full"] > 0.7).all()
    assert read_predictions(probed.files["is_verb.predictions.parquet"]).labels == ("other", "verb")
    assert "start2" in read_predictions(probed.files["edges.predictions.parquet"]).table.dropna(axis=1)


def test_what_a_task_turned_out_to_be_is_said_in_the_result(probed: Result) -> None:
    told = probed.provenance.corpus["tasks"]

    assert {name: (each["arity"], each["metric"], each["target"]) for name, each in told.items()} == {
        "xpos": (1, "f1", "words"),
        "factuality": (1, "r2", "words"),
        "supersense_verb": (1, "f1", "words"),
        "ques_coarse": (1, "f1", "whole texts"),
        "edges": (2, "f1", "pairs of words"),
        "is_verb": (1, "f1", "words"),
    }
    assert told["ques_coarse"]["in_words"] == (
        "ques_coarse: whole texts, 2 classes, one label per target, micro-F1 over all labels"
    )
    assert told["factuality"]["in_words"] == "factuality: words, graded values, R2 and correlation"
    assert told["ques_coarse"]["in_words"] in captions_for(probed)["curves"]
    assert probed.provenance.corpus["scored"]["factuality"] == 100


def test_a_task_on_too_few_targets_says_so(probed: Result) -> None:
    (warning,) = probed.provenance.warnings

    assert "ques_coarse: 20" in warning
    assert captions_for(probed)["curves"].endswith(warning)
    about_words = [each.text for each in probed.findings if each.text.startswith("xpos:")]
    assert all(text.endswith("Small sample: 100 targets.") for text in about_words)


def test_an_annotation_with_the_name_of_a_task_of_another_kind_is_taken_as_it_comes() -> None:
    def text(number: int, split: str) -> Text:
        good = number % 2
        edges = {
            "rel": (Edge("good" if good else "bad", Span(0, 2)),),
            "pos": (Edge("A" if good else "B", Span(0, 1)),),
        }
        return Text(f"{split}{number}", (f"w{number}{split}", "ran"), edges=edges)

    splits = Splits(*(corpus_from([text(n, each) for n in range(30)], name="own") for each in ("train", "dev")))
    tasks = {task.name: task for task in planned(splits, None).tasks}

    assert {name: task.arity for name, task in tasks.items()} == {"pos": 1, "rel": 1}
    assert describe_task(tasks["rel"], splits.scored).in_words().endswith("(not the catalogue's task of this name)")
    assert describe_task(tasks["pos"], splits.scored).definition == "catalogue"


def test_graded_values_are_scored_by_r2_and_correlation(probed: Result) -> None:
    told = read_predictions(probed.files["factuality.predictions.parquet"])
    scores = probed.tables["scores"].query("task == 'factuality'")
    by_member = scores.set_index(["metric", "probe", "of", "layer", "seed"])["value"]

    assert told.labels == ("value",)
    assert set(told.table["value"]) == {value for _, value in WORDS.values()}
    for (probe, layer), rows in told.table.groupby(["probe", "layer"]):
        said = np.stack(rows["probabilities"].tolist())
        assert said.shape == (100, 1)
        for metric, expected in (
            ("r2", r2_score(rows["value"], said[:, 0])),
            ("correlation", pearsonr(rows["value"], said[:, 0])[0]),
        ):
            assert by_member[metric, probe, "model", layer, "0"] == pytest.approx(expected, abs=1e-5)
    assert scores["count"].iloc[0] == 100
    constant = scores[scores["probe"] == "constant"].set_index(["metric", "of"])["value"]
    assert -0.1 < constant["r2", "model"] <= 0, "the mean of the values learned from"
    assert np.isnan(constant["correlation", "model"])
    row = probed.tables["summary"].set_index("task").loc["factuality"]
    assert (row["metric"], row["selectivity_metric"]) == ("r2", "r2")
    assert row["selectivity"] == pytest.approx(
        probed.tables["control"].set_index("task").loc["factuality"].pipe(lambda own: own["model"] - own["control"])
    )
    assert "factuality" not in set(probed.tables["breakdown"]["task"])
    assert "factuality" not in set(probed.tables["traces"]["task"])


def test_without_a_task_of_the_catalogue_all_annotations_that_tell_kinds_are_probed() -> None:
    texts = [
        Text(t.id, t.words, edges={name: t.edges[name] for name in ("xpos", "factuality", "sentence")}, doc=t.doc)
        for t in (annotated(n, "train") for n in range(40))
    ]
    parts = (("train", texts[:30]), ("dev", texts[30:]))
    splits = Splits(*(corpus_from(some, name="own", split=split) for split, some in parts))

    assert [task.name for task in planned(splits, None).tasks] == ["xpos", "factuality"]


def test_what_cannot_be_learned_is_left_out_where_nobody_asked_for_it() -> None:
    def text(number: int, split: str) -> Text:
        kinds = (Edge(("NOUN",), Span(0, 1)), Edge(("VERB",), Span(1, 2)))
        edges = {"pos": kinds, "dep": (Edge(("nsubj",), Span(0, 1), Span(1, 2)),)}
        return Text(f"{split}{number}", (f"dog{number}{split}", "ran"), edges=edges)

    parts = [[text(number, split) for number in range(30)] for split in ("train", "dev")]
    splits = Splits(
        *(corpus_from(some, name="own", split=split) for some, split in zip(parts, ("train", "dev"), strict=True))
    )
    plan = planned(splits, None)
    assert ([task.name for task in plan.tasks], plan.unusable) == (["pos"], ("dep",))
    with pytest.raises(TaskError, match="dep: every training target of own has the label 'nsubj'"):
        planned(splits, ["pos", "dep"])


def planned(splits: Splits, tasks: Any, **asked: Any):
    metric = asked.pop("metric", None)
    preset = asked.pop("preset", "quick")
    settings: dict[str, Any] = {"probes": ["layer"], "preset": preset, "faithful": False, "seed": 0, "device": "cpu"}
    amounts = TrainingAmounts.read(asked.pop("schedule", None))._replace(**asked)
    return plan_run(2, TaskSource(splits, tasks), amounts=amounts, metric=metric, **settings)


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("nothing", "own does not carry nothing; it carries coref, .*and the annotations .*xpos"),
        ("xposs", r"did you mean xpos\?"),
        ("pos", "own does not carry pos; it carries coref"),
        ("chains", "the labels of chains name single things"),
        ("sentence", "the labels of sentence name single things"),
        ("answer", r"the labels of answer name single things \(50 labels on 50 targets\), not kinds of things"),
        ("odd", "odd: 50 targets are one span and 50 are a pair of spans; a task has one kind of target: give each"),
        ("same", "same: every training target of own has the label 'yes'; there is nothing to learn; leave it out"),
        ("flat", "flat: every training target of own has the value 3; there is nothing to learn; leave it out"),
        (Task("mine", "Mine", "mine", 1), "own does not carry the annotation 'mine' of the task mine; it carries .*xp"),
    ],
    ids=lambda value: value.name if isinstance(value, Task) else str(value),
)
def test_what_is_no_task_is_said(task: Any, why: str, corpus: Splits, settings: dict[str, Any]) -> None:
    with pytest.raises(TaskError, match=why) as said:
        lamina.probe(TinyEncoder(blocks=1), corpus, tasks=[task], **FEW, **settings)
    assert "\n" not in str(said.value)


@pytest.mark.parametrize("metric", ["micro", "macro"])
def test_a_graded_task_cannot_be_asked_for_f1(metric: Any, corpus: Splits, settings: dict[str, Any]) -> None:
    with pytest.raises(TaskError, match="factuality is graded: it is scored by R2 and correlation, not by"):
        lamina.probe(TinyEncoder(blocks=1), corpus, tasks=["factuality"], metric=metric, **FEW, **settings)


def test_what_is_asked_stands_in_the_place_of_the_preset(corpus: Splits) -> None:
    asked = {"seeds": 4, "steps": 300, "batch": 7, "lr": 2e-3, "hidden": 12, "train_texts": 30, "stop_texts": 2}
    setup = planned(corpus, ["xpos"], preset="paper", **asked).setup
    schedule = setup.preset.schedule

    assert (setup.seeds, schedule.max_steps, schedule.batch_texts, schedule.hidden) == (4, 300, 7, 12)
    assert schedule.learning_rate == 2e-3
    assert schedule.min_learning_rate == pytest.approx(1e-6 * 2e-3 / 1e-4), "as many halvings as before"
    assert schedule == setup.preset.small
    assert 30 <= len(setup.splits.train) < 32
    assert len(setup.division.stop) <= 2
    assert (schedule.halve_after, schedule.stop_after) == (5, 20), "the rest is the preset's"


def test_a_batch_that_was_asked_for_is_of_texts(corpus: Splits) -> None:
    for preset in ("standard", "paper"):
        assert planned(corpus, ["xpos"], preset=preset, batch=9).setup.preset.schedule.batch_targets is None
    assert PRESETS["standard"].schedule.batch_targets is not None


@pytest.mark.parametrize("steps", [1, 9, 20, 99, 1000])
def test_few_steps_are_validated_often_and_never_exceeded(steps: int, corpus: Splits) -> None:
    schedule = planned(corpus, ["xpos"], preset="standard", steps=steps).setup.preset.schedule

    assert schedule.max_steps <= steps
    assert schedule.max_steps > steps / schedule.growth
    assert schedule.max_validations >= min(steps, 4)
    halved = planned(corpus, ["xpos"], preset="quick", steps=steps).setup.preset.schedule
    assert halved.growth is None
    assert steps >= halved.max_steps > steps - halved.validate_every
    assert halved.max_validations >= min(steps, 4)


def test_a_schedule_is_given_as_an_object_or_by_its_fields(corpus: Splits) -> None:
    given = Schedule(learning_rate=3e-3, validate_every=7, stop_after=2, batch_targets=50)
    for schedule in (given, asdict(given), "learning_rate=3e-3,validate_every=7,stop_after=2"):
        planned_ = planned(corpus, ["xpos"], schedule=schedule).setup.preset
        assert (planned_.schedule.learning_rate, planned_.schedule.validate_every) == (3e-3, 7)
        assert (planned_.schedule.stop_after, planned_.schedule.clip) == (2, 5.0)
    both = planned(corpus, ["xpos"], schedule=given, hidden=5, steps=14).setup.preset.schedule
    assert (both.hidden, both.learning_rate, both.max_steps) == (5, 3e-3, 14)


@pytest.mark.parametrize(
    "bad",
    [
        "fast",
        "[1]",
        "3",
        "rate=1",
        "learning_rate=high",
        "learning_rate=-1",
        "validate_every=0",
        "validate_every=2.5",
        "validate_every=",
        {"learning_rate": True},
        "learning_rate=nan",
        "learning_rate=inf",
        {"validate_every": None},
    ],
)
def test_a_schedule_that_cannot_be_read_is_refused(bad: Any, corpus: Splits) -> None:
    with pytest.raises(InputError, match="the schedule"):
        planned(corpus, ["xpos"], schedule=bad)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"learning_rate": -1.0}, "the schedule has learning_rate=-1.0; give a number above 0"),
        ({"min_gain": float("nan")}, "the schedule has min_gain=nan; give a number above 0"),
        ({"validate_every": 0}, "the schedule has validate_every=0; give a whole number above 0"),
        ({"learning_rate": float("inf")}, "the schedule has learning_rate=inf; give a number above 0"),
        ({"batch_targets": -3}, "the schedule has batch_targets=-3; give a whole number above 0"),
    ],
)
def test_a_schedule_with_a_number_that_nothing_can_be_trained_by_is_said(bad: Any, why: str, corpus: Splits) -> None:
    with pytest.raises(InputError, match=f"^{why}$"):
        planned(corpus, ["xpos"], schedule=Schedule(**bad))


def test_a_task_of_one_label_is_refused_before_anything_is_encoded(
    corpus: Splits, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = TinyEncoder(blocks=1)
    monkeypatch.setattr(TinyEncoder, "encode", lambda *_, **__: pytest.fail("encoded"))
    for ask in (lamina.probe, lamina.probe.estimate):
        with pytest.raises(TaskError, match="every training target of own has the label 'yes'"):
            ask(encoder, corpus, tasks=["xpos", "same"], **FEW, **settings)


@pytest.mark.parametrize(("targets", "schedule"), [(1999, QUICK_SMALL), (2000, QUICK)])
def test_quick_is_careful_with_tasks_of_few_targets(targets: int, schedule: Schedule, corpus: Splits) -> None:
    setup = replace(planned(corpus, ["xpos"]).setup, preset=SHIPPED)
    many: Any = range(targets)

    assert setup.schedule(many) == schedule
    assert QUICK_SMALL.learning_rate < QUICK.learning_rate
    assert QUICK_SMALL.validate_every < QUICK.validate_every


def test_presets_get_longer_and_say_what_they_are() -> None:
    quick, standard, paper = (PRESETS[name] for name in ("quick", "standard", "paper"))

    assert (standard.train_texts, standard.stop_texts, standard.seeds) == (None, None, 5)
    assert (paper.train_texts, paper.stop_texts, paper.seeds, paper.few) == (None, None, 5, 20_000)
    assert standard.schedule.hidden == paper.schedule.hidden == 256
    for preset in (standard, paper):
        assert preset.schedule.max_validations > preset.schedule.stop_after, "a plateau can be seen"
    assert quick.beside_seeds <= quick.seeds


@pytest.fixture(scope="module")
def cut_off(splits: Splits, settings: dict[str, Any]) -> Result:
    asked = {"schedule": "learning_rate=1e-3,validate_every=10,hidden=16,steps=20", "seeds": 1}
    return lamina.probe(TinyEncoder(blocks=1), splits, **asked, **settings)


def test_what_is_made_of_probes_that_have_not_converged_is_not_available(cut_off: Result) -> None:
    tables = cut_off.tables

    assert not tables["training"]["converged"].any()
    assert set(tables["training"]["steps"]) == {20}
    for row in tables["summary"].itertuples():
        assert not row.converged
        numbers = [row.center_of_gravity, row.cog_low, row.expected_layer, row.el_high, row.kl_mixing, row.selectivity]
        numbers += [row.kl_differential, row.selectivity_low, row.twin_expected_layer, row.twin_el_low]
        assert np.isnan(numbers).all()
        for part in ("expected layer: the probe of P(0) and 1 other", "centre of gravity: the probe of P(1)"):
            assert f"{part} had not converged after 20 steps" in row.reason
        assert "selectivity: the probe of layer" in row.reason
        assert np.isfinite([row.f1_first, row.f1_full]).all(), "scores are what they are"
    for row in tables["order"].itertuples():
        assert np.isnan([row.difference, row.p_adjusted]).all()
        assert "pos: the probe of P(" in row.reason
        assert "had not converged after 20 steps" in row.reason
    assert tables["readings"]["p_adjusted"].isna().all()
    assert not tables["best_layers"]["among_best"].any()
    skipped = cut_off.provenance.skipped
    # Two layers: four probes of the model, as many of the twin, two of the control.
    assert skipped["pos: probes that had not converged when their steps ended"] == 4 + 4 + 2


def test_settings_are_in_the_provenance(cut_off: Result, tmp_path) -> None:
    again = Result.load(cut_off.save(tmp_path / "saved", charts=False))
    for result in (cut_off, again):
        told = result.provenance.parameters
        assert (told["steps"], told["seeds"], told["preset"]) == (20, 1, "quick")
        assert "0.001" in str(told["schedule"])
    assert pd.isna(again.tables["summary"]["expected_layer"]).all()


def test_the_same_texts_with_other_settings_are_trained_anew(
    cut_off: Result, splits: Splits, settings: dict[str, Any]
) -> None:
    asked: dict[str, Any] = {"seeds": 1, "tasks": ["pos"], "twin": False}
    schedule = {"learning_rate": 1e-3, "validate_every": 10, "hidden": 16, "steps": 30}
    longer = lamina.probe(TinyEncoder(blocks=1), splits, schedule=schedule, **asked, **settings)

    assert set(longer.tables["training"]["steps"]) == {30}
    assert set(cut_off.tables["training"]["steps"]) == {20}
