"""Suites: tasks from several corpora in one result, the paper's values beside them, and what is refused."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score

import lamina
from lamina import Result
from lamina.analyses.layers.probe.planning import SUITES, ProbeSuite
from lamina.analyses.layers.probe.predictions import TraceRow, read_predictions
from lamina.analyses.layers.probe.probe import reference_table
from lamina.analyses.layers.probe.tables import trace_names
from lamina.cli import main
from lamina.corpora.catalogue import get_entry
from lamina.corpora.corpus import View
from lamina.errors import InputError
from lamina.figures import draw
from lamina.tasks import TASKS, get_task
from lamina.testing import TinyEncoder

WORDS = {"the": "DET", "a": "DET", "dog": "NOUN", "cat": "NOUN", "ran": "VERB", "barked": "VERB", "and": "CCONJ"}


def conllu(documents: range) -> str:
    """Documents of three sentences, of words drawn at random, each hanging on the one before."""
    lines = []
    for document in documents:
        lines.append(f"# newdoc id = d{document}")
        for sentence in range(3):
            rng = Random(f"{document} {sentence}")
            lines.append(f"# sent_id = d{document}-{sentence}")
            for at, word in enumerate(rng.choices(list(WORDS), k=rng.randint(4, 7)), start=1):
                head, relation = (0, "root") if at == 1 else (at - 1, f"of_{WORDS[word].lower()}")
                lines.append(f"{at}\t{word}\t{word}\t{WORDS[word]}\t_\t_\t{head}\t{relation}\t_\t_")
            lines.append("")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two small treebanks."""
    root = tmp_path_factory.mktemp("corpora")
    for number, name in enumerate(("first", "second")):
        start = 100 * number
        (root / name).mkdir()
        (root / name / f"{name}-train.conllu").write_text(conllu(range(start, start + 20)))
        (root / name / f"{name}-dev.conllu").write_text(conllu(range(start + 30, start + 36)))
    return [root / "first", root / "second"]


@pytest.fixture
def suite(corpora: list[Path], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A suite of two tasks, each from a corpus of its own."""
    tasks = {"dep": str(corpora[0]), "pos": str(corpora[1])}
    monkeypatch.setitem(SUITES, "pipeline", ProbeSuite(tasks))
    return tasks


@pytest.mark.parametrize(
    ("suite", "tasks"),
    [
        ("pipeline", ["pos", "const", "dep", "ner", "srl", "coref", "spr", "rel"]),
        ("qa", ["ner", "coref", "rel", "ques", "sup"]),
    ],
)
def test_every_task_of_a_suite_is_its_papers_and_its_corpus_has_it(suite, tasks):
    assert list(SUITES[suite].corpora) == tasks
    assert set(tasks) <= {task.name for task in TASKS}
    for task, corpus in SUITES[suite].corpora.items():
        entry = get_entry(corpus)
        assert entry is not None
        if entry.annotations is not None:
            assert get_task(task).available(entry.annotations), f"{corpus} carries no {task}"


def test_one_result_has_the_tasks_of_several_corpora(suite, settings: dict[str, Any], tmp_path):
    result = lamina.probe(TinyEncoder(), suite="pipeline", reference=True, **settings)
    summary = result.tables["summary"].set_index("task")
    assert summary["corpus"].to_dict() == suite
    assert set(result.tables["scores"]["task"]) == {"dep", "pos"}
    order = result.tables["order"]
    assert set(order[["task_a", "task_b"]].itertuples(index=False, name=None)) == {("dep", "pos")}
    assert (order["p_adjusted"].notna() | (order["reason"] != "")).all(), "an order across corpora, or why not"
    about = result.provenance.corpus
    assert result.provenance.parameters["reference"] is True, "a result with the table is another answer"
    assert about["name"] == "pipeline suite"
    assert [each["name"] for each in about["corpora"]] == list(suite.values())
    texts = pd.read_parquet(result.files["texts.parquet"])
    assert texts.groupby("corpus").size().to_dict() == dict.fromkeys(suite.values(), 18)
    charts = draw(Result.load(result.save(tmp_path / "suite", charts=False)))
    assert "pipeline suite (dev)" in str(charts["statistics"].to_dict()["title"])


def test_the_tasks_of_the_qa_paper_are_scored_by_macro_f1_over_all_labels(
    corpora, settings: dict[str, Any], monkeypatch, tmp_path
):
    """Single layers only; checked against scikit-learn."""
    monkeypatch.setitem(SUITES, "qa", replace(SUITES["qa"], corpora={"dep": str(corpora[0]), "pos": str(corpora[1])}))
    result = lamina.probe(TinyEncoder(blocks=1), suite="qa", schedule="steps=20", seeds=1, twin=False, **settings)
    scores = result.tables["scores"]
    own = scores[(scores["of"] == "model") & (scores["seed"] == "0") & (scores["metric"] == "macro_f1")]

    assert result.tables["summary"]["metric"].tolist() == ["macro_f1", "macro_f1"]
    assert set(own["probe"]) == {"layer"}
    for row in own.itertuples():
        told = read_predictions(result.files[f"{row.task}.predictions.parquet"])
        rows = told.table.query("layer == @row.layer and probe == 'layer'")
        labels = sorted({*told.labels, *(label for each in rows["gold"] for label in each)})
        gold = np.array([[label in each for label in labels] for each in rows["gold"]])
        said = np.zeros_like(gold)
        said[:, [labels.index(label) for label in told.labels]] = np.stack(rows["probabilities"]) >= 0.5
        held = gold.any(0)
        expected = f1_score(gold[:, held], said[:, held], average="macro", zero_division=0)
        assert row.value == pytest.approx(expected)
    best = own[own["task"] == "pos"].sort_values("value", kind="stable").iloc[-1]
    shown = next(iter(lamina.probe.overview(result)))
    assert [row[:3] for row in shown.rows if row[0] == "pos"] == [("pos", "macro_f1", best["layer"])]
    charts = draw(Result.load(result.save(tmp_path / "qa", charts=False)))
    assert {"curves", "heatmap"} <= {*charts}
    assert not {"pipeline", "weights", "order"} & {*charts}, "those need probes that mix layers"


@pytest.mark.parametrize(("task", "left_out"), [("coref", "0"), ("rel", "Other")])
def test_no_label_is_left_out_of_the_score_in_the_qa_suite(task: str, left_out: str):
    asked = SUITES["qa"].task(task)
    assert not isinstance(asked, str)
    assert asked.metric == "macro_f1"
    assert asked.scored((left_out, "x")) == (left_out, "x")
    assert get_task(task).scored((left_out, "x")) == ("x",), "as it is elsewhere"
    assert SUITES["pipeline"].task(task) == task


def hotpot(path: Path, questions: int) -> Path:
    """Every fourth question is answered by yes."""
    items = [
        {
            "_id": f"q{number}",
            "question": f"Which number is {number}?",
            "answer": "yes" if number % 4 == 0 else f"number {number}",
            "supporting_facts": [["Told", 0]],
            "context": [
                ["Told", [f"This names number {number}.", f" Sentence {number} says nothing."]],
                ["Other", [f"That is about {number + 1}.", f" Nor does line {number}."]],
            ],
        }
        for number in range(questions)
    ]
    path.write_text(json.dumps(items))
    return path


def test_questions_are_read_in_the_view_of_the_model_and_what_is_left_out_is_told(
    settings: dict[str, Any], monkeypatch, tmp_path
):
    data = hotpot(tmp_path / "hotpot.json", 100)
    few = {"tasks": ["sup"], "probes": ["layer"], "schedule": "steps=2", "seeds": 1, "twin": False}
    monkeypatch.setattr("lamina.training.provenance.view_of", lambda _: View(max_words=25))

    result = lamina.probe(TinyEncoder(blocks=1), data, **few, **settings)
    given = lamina.probe.ask(TinyEncoder(), data, **few, **settings, view="setting=support").loaded.data

    assert result.provenance.corpus["view"]["max_words"] == 25
    assert (given["view"]["setting"], given["view"]["max_words"]) == ("support", 25), "what is given comes first"
    told = {reason: count for reason, count in result.provenance.skipped.items() if "yes or no" in reason}
    assert {reason.partition(":")[0] for reason in told} == {"training", "scored"}
    assert sum(told.values()) == pytest.approx(22, abs=3), "a quarter of the questions of train and dev"
    texts = pd.read_parquet(result.files["texts.parquet"])
    assert texts["words"].map(len).max() <= 25


def test_texts_that_two_corpora_share_are_written_once():
    """The words of a sentence that both have are not doubled; other words under its id are another sentence."""
    row = TraceRow("s1", "pos", 0, "0:1", "", "DET", True, 0, 0.5)
    texts = [("s1", ("the", "dog")), ("s2", ("a", "cat"))]
    assert trace_names([row], texts, {}, "second") == {"s1": "s1"}
    assert trace_names([row], texts, {"s1": ("the", "dog")}, "second") == {"s1": "s1"}
    assert trace_names([row], texts, {"s1": ("thé", "dog")}, "second") == {"s1": "s1 (second)"}


def test_a_suite_has_every_traced_word_once(corpora, settings: dict[str, Any], monkeypatch, tmp_path):
    """Two corpora of the same texts, as `ewt` and `propbank_ewt` are."""
    copy = shutil.copytree(corpora[0], tmp_path / "copy")
    monkeypatch.setitem(SUITES, "pipeline", ProbeSuite({"dep": str(corpora[0]), "pos": str(copy)}))
    # Probes that have hardly learned are unsure.
    tables = lamina.probe(TinyEncoder(), suite="pipeline", schedule="steps=2", **settings).tables
    words = tables["words"]
    assert tables["traces"].groupby("text_id")["task"].nunique().max() == 2, "both corpora trace the same text"
    assert not words.duplicated(["text_id", "position"]).any()
    assert set(words["text_id"]) == set(tables["traces"]["text_id"])


def test_some_tasks_of_a_suite_read_only_their_corpora(suite, settings: dict[str, Any]):
    result = lamina.probe(TinyEncoder(), suite="pipeline", tasks=["pos"], **settings)
    assert result.tables["summary"]["task"].tolist() == ["pos"]
    assert [each["name"] for each in result.provenance.corpus["corpora"]] == [suite["pos"]]
    assert "reference" not in result.tables


def test_a_task_gets_the_same_numbers_within_a_suite_and_alone(suite, settings: dict[str, Any], monkeypatch, tmp_path):
    """Corpora of a suite do not touch each other: only the draws of the bootstrap are others."""
    few = {**settings, "schedule": "steps=10", "seeds": 1}
    together = lamina.probe(TinyEncoder(), suite="pipeline", **few).tables["scores"]
    # A run kept by the first would be taken as it is.
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LAMINA_STORE", str(tmp_path / "store"))
    alone = lamina.probe(TinyEncoder(), suite["pos"], tasks=["pos"], **few).tables["scores"]
    assert any((tmp_path / "store").rglob("pos.run*")) or any((tmp_path / "cache").rglob("pos.run*"))
    own = together[together["task"] == "pos"]
    assert own["value"].to_numpy() == pytest.approx(alone["value"].to_numpy(), nan_ok=True)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What `lamina probe` says when it does not do what is asked."""

    def ask(*args: object) -> str:
        monkeypatch.setattr(sys, "argv", ["lamina", "probe", "minilm", *map(str, args)])
        with pytest.raises(SystemExit) as stopped:
            main.main()
        said = capsys.readouterr().err.removeprefix("lamina: starting probe\n")
        assert stopped.value.code == 2
        said = said.removeprefix("lamina: starting probe\n")
        assert said.startswith("lamina: ")
        assert said.count("\n") == 1
        return said.rstrip()

    return ask


def test_corpora_that_are_not_at_hand_are_named_with_how_to_get_them(corpora, refused, monkeypatch, tmp_path):
    """Every one at once, before anything is read or written."""
    monkeypatch.setenv("LAMINA_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LAMINA_OFFLINE", "1")
    tasks = {"pos": str(corpora[0]), "srl": "propbank_ewt", "const": "propbank_ewt", "ner": "gum_open"}
    monkeypatch.setitem(SUITES, "pipeline", ProbeSuite(tasks))
    out, store = tmp_path / "out", tmp_path / "store"
    said = refused("--suite", "pipeline", "--out", out, "--store", store)
    assert "2 of the corpora of the suite pipeline are not at hand" in said
    assert "propbank_ewt (for srl, const): propbank_ewt is not on this machine" in said
    assert "gum_open (for ner): gum_open is not on this machine" in said
    assert said.count("set LAMINA_DATA to a folder that holds") == 2
    assert said.endswith("without them you can ask for --task pos")
    assert not out.exists()
    assert not store.exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--corpus", "gum_open"), "the suite pipeline has its own corpora; give --suite or --corpus, not both"),
        (("--task", "supersense"), "the suite pipeline has no task 'supersense'; it has: dep, pos"),
    ],
)
def test_what_is_not_the_suites_is_refused(suite, refused, args, said, tmp_path):
    assert said in refused("--suite", "pipeline", *args, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_task_object_is_no_task_of_a_suite(suite):
    with pytest.raises(InputError, match="the suite pipeline has no task 'pos'; it has: dep, pos"):
        lamina.probe(TinyEncoder(), suite="pipeline", tasks=[get_task("pos")])


def test_the_papers_values_are_those_of_its_eight_tasks():
    table = reference_table([*SUITES["pipeline"].corpora, "supersense"])
    assert set(table["task"]) == set(SUITES["pipeline"].corpora)
    assert table.groupby(["model", "statistic"]).size().to_dict() == {
        ("BERT-base", "expected_layer"): 8,
        ("BERT-large", "center_of_gravity"): 8,
        ("BERT-large", "expected_layer"): 8,
    }
    assert np.allclose(table["depth"] * table["layers"], table["value"])
    large = table.query("model == 'BERT-large' and statistic == 'expected_layer'").set_index("task")["value"]
    assert large.idxmin() == "pos", "parts of speech first, proto-roles last, as the paper says"
    assert large.idxmax() == "spr"
    assert reference_table(["supersense"]).empty
