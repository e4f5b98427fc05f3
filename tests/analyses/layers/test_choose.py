"""`lamina choose`: the best layer is found, leaks and labels that words give away are told, bad input is refused."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import lamina
from lamina.activations.runtime import Runtime
from lamina.analyses.layers.choose.cells import ChoiceMetric, PooledVectors, cross_validate, metric_of
from lamina.analyses.layers.choose.choose import CHOICE
from lamina.analyses.layers.choose.examples import (
    DUPLICATES,
    LEFT_OUT,
    MERGED,
    NEAR_DUPLICATES,
    NOT_DRAWN,
    find_examples,
    surface_vectors,
)
from lamina.analyses.layers.choose.label_free import LayerScores, regret_findings, regrets_by_rule
from lamina.analyses.overview import cards
from lamina.cli.main import app
from lamina.corpora import corpus_from
from lamina.errors import CorpusError, InputError, TaskError
from lamina.models import Encoder
from lamina.results import Result
from lamina.stats import best_set, regrets
from lamina.testing import TinyEncoder

ALL: dict[str, Any] = {"samples": 100, "device": "cpu"}
FEW: dict[str, Any] = {**ALL, "poolings": ["mean"]}


def rows(count: int = 40, seed: int = 0) -> list[dict[str, Any]]:
    """Sentences whose label one word gives away."""
    draw = random.Random(seed)
    made = []
    for number in range(count):
        label = ("good", "bad")[number % 2]
        word = draw.choice(["fine", "great"] if label == "good" else ["poor", "sad"])
        made.append({"text": f"the {draw.choice('abcdefgh')}{number} dog has a {word} day", "label": label})
    return made


class Refusing(TinyEncoder):
    """An encoder that must not be asked."""

    def encode(self, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        raise AssertionError("it was encoded before the labels were looked at")


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> Result:
    where = tmp_path_factory.mktemp("choose")
    tiny: Encoder = TinyEncoder()
    return lamina.choose(tiny, corpus_from(rows(120)), task="label", label_free=True, store=where / "store", **ALL)


def test_the_table_has_the_columns_that_were_promised(result):
    table = result.tables["choose"]
    assert tuple(table.columns) == CHOICE
    assert len(table) == 3 * 4 + 1
    known = table[table["layer"].notna()]
    assert (known["low"] <= known["value"]).all()
    assert (known["value"] <= known["high"]).all()
    assert (table["regret"] >= 0).all()
    assert table["regret"].min() == 0
    assert (known["bytes_per_text"] == 4 * 16).all()
    assert known["seconds_per_1000_texts"].is_monotonic_increasing


def test_labels_that_words_give_away_are_told(result):
    words = result.tables["answer"].set_index("what").loc["words and characters"]
    assert words["value"] > 0.95
    (answer,) = [card.finding for card in cards([result]) if card.title == "Which layer"]
    assert answer.status != "clear" or answer.claim.startswith("No layer is needed")


def test_a_saved_result_tells_the_same(result, tmp_path):
    result.save(tmp_path / "result")
    again = Result.load(tmp_path / "result")
    told = [[finding.text for finding in lamina.choose.findings(one)] for one in (result, again)]
    assert told[0] == told[1]


def test_the_same_run_gives_the_same_numbers(result, tmp_path):
    again = lamina.choose(TinyEncoder(), corpus_from(rows(120)), task="label", store=tmp_path, **FEW)
    columns = ["layer", "pooling", "value", "low", "high"]
    before, after = (one.tables["choose"].query("pooling == 'mean'")[columns] for one in (result, again))
    pd.testing.assert_frame_equal(before.reset_index(drop=True), after.reset_index(drop=True))


def test_what_chooses_is_not_scored(monkeypatch):
    """With labels at random no fold is predicted, however many cells there are to choose from."""
    draw = random.Random(1)
    texts = [{"text": f"word {number} {draw.random()}", "label": draw.choice("ab")} for number in range(200)]
    examples = find_examples(corpus_from(texts), "label", most=None, seed=0)
    import torch

    rng = np.random.default_rng(0)
    metric = ChoiceMetric("accuracy")
    scores = [
        cross_validate(torch.from_numpy(rng.normal(size=(200, 5)).astype(np.float32)), examples, metric)
        for _ in range(30)
    ]
    inner = np.array([score.inner for score in scores])
    hits = np.zeros(200)
    for fold, best in enumerate(inner.argmax(0)):
        rows_of_fold = examples.fold == fold
        hits[rows_of_fold] = (scores[best].answers.argmax(1) == examples.gold.argmax(1))[rows_of_fold]
    plain = max(float((score.answers.argmax(1) == examples.gold.argmax(1)).mean()) for score in scores)
    assert abs(hits.mean() - 0.5) < 0.1 < plain - 0.5 + 0.05


def test_regrets_cover_and_the_best_is_in_the_set():
    """Layers with known means, scored on 60 documents: a short form of benchmarks/claims."""
    rng = np.random.default_rng(0)
    truth = np.array([0.6, 0.7, 0.78, 0.8, 0.78, 0.7])
    covered, inside, trials = np.zeros(6), 0, 60
    for _ in range(trials):
        scores = truth + rng.normal(0, 0.2, (60, 1)) + rng.normal(0, 0.15, (60, 6))
        weights = rng.poisson(1, (300, 60)).astype(float)
        draws = weights @ scores / weights.sum(1, keepdims=True)
        found = regrets(scores.mean(0), draws, 60)
        true = truth.max() - truth
        covered += (found.low <= true) & (true <= found.high)
        inside += bool(best_set(scores.mean(0), draws, 60).among[3])
    assert covered.min() >= 0.88 * trials
    assert inside >= 0.9 * trials


def test_duplicates_stay_in_one_fold_and_are_told():
    texts = rows(40)
    leaks = [{**row, "id": f"copy{number}"} for number, row in enumerate(texts[:10])]
    examples = find_examples(corpus_from([*texts, *leaks]), "label", most=None, seed=0)
    assert examples.skipped[DUPLICATES] == 20
    by_words: dict[tuple[str, ...], set[int]] = {}
    for (text, _), fold in zip(examples.edges(), examples.fold.tolist(), strict=True):
        by_words.setdefault(text.words, set()).add(fold)
    assert all(len(folds) == 1 for folds in by_words.values())


def test_near_duplicates_are_told():
    draw = random.Random(0)
    words = [f"w{number}" for number in range(400)]
    texts = [{"text": " ".join(draw.choices(words, k=40)), "label": "ab"[number % 2]} for number in range(30)]
    near = [{**row, "text": f"{row['text']} indeed"} for row in texts[:5]]
    examples = find_examples(corpus_from([*texts, *near]), "label", most=None, seed=0)
    assert examples.skipped[NEAR_DUPLICATES] == 10


def test_documents_are_not_split():
    texts = [{**row, "doc": f"d{number // 4}"} for number, row in enumerate(rows(40))]
    examples = find_examples(corpus_from(texts), "label", most=None, seed=0)
    folds = pd.DataFrame({"doc": [text.doc for text, _ in examples.edges()], "fold": examples.fold})
    assert (folds.groupby("doc")["fold"].nunique() == 1).all()
    assert len(examples.units) == 10


def test_rare_classes_are_merged_or_left_out_and_counted():
    rare = [{"text": f"a rare {number} thing", "label": name} for number, name in enumerate("uvwxyz")]
    examples = find_examples(corpus_from([*rows(40), *rare]), "label", most=None, seed=0)
    assert examples.skipped == {MERGED: 6}
    assert "(rare classes)" in examples.labels
    examples = find_examples(corpus_from([*rows(40), *rare[:2]]), "label", most=None, seed=0)
    assert examples.skipped == {LEFT_OUT: 2}
    assert examples.labels == ("bad", "good")


def test_more_examples_than_asked_are_drawn_in_documents():
    examples = find_examples(corpus_from(rows(100)), "label", most=50, seed=0)
    assert len(examples) == 50
    assert examples.skipped[NOT_DRAWN] == 50


@pytest.mark.parametrize(
    ("data", "message", "error"),
    [
        ([{"text": f"text {n}", "label": "same"} for n in range(20)], "one value only", TaskError),
        ([{**row, "doc": "one"} for row in rows(20)], "one document", CorpusError),
        (
            [{"text": f"{n:06d}-a{n}", "label": "ab"[n % 2]} for n in range(40)],
            "look like ids",
            CorpusError,
        ),
        (
            [{"text": f"a plain text {n}", "label": str(n % 60)} for n in range(240)],
            "continuous scale",
            TaskError,
        ),
    ],
)
def test_bad_input_is_refused_in_a_sentence_before_anything_is_encoded(data, message, error):
    with pytest.raises(error, match=message):
        lamina.choose(Refusing(), corpus_from(data), task="label", **FEW)


def test_values_are_scored_by_r2(tmp_path):
    texts = [{"text": f"{'very ' * (n % 5)}good {n}", "score": n % 5 + 0.5} for n in range(60)]
    result = lamina.choose(TinyEncoder(), corpus_from(texts), task="score", store=tmp_path, **FEW)
    assert set(result.tables["choose"]["metric"]) == {"r2"}
    assert result.tables["choose"]["value"].max() > 0.5


def test_metric_sums_are_those_of_scikit_learn():
    from sklearn.metrics import f1_score

    examples = find_examples(corpus_from(rows(60)), "label", most=None, seed=0)
    answers = np.random.default_rng(0).normal(size=examples.gold.shape)
    metric = metric_of(examples, "macro_f1")
    ours = float(metric.value(metric.sums(examples, answers).sum(0)))
    assert ours == pytest.approx(f1_score(examples.gold.argmax(1), answers.argmax(1), average="macro"))


def test_the_surface_baseline_reads_words():
    examples = find_examples(corpus_from(rows(60)), "label", most=None, seed=0)
    import torch

    metric = metric_of(examples, "accuracy")
    score = cross_validate(torch.from_numpy(surface_vectors(examples)), examples, metric)
    assert float(metric.value(metric.sums(examples, score.answers).sum(0))) > 0.95


def test_label_free_measures_pick_one_layer_each(result):
    table = result.tables["label_free"]
    assert set(table["measure"]) == {
        "effective rank", "prompt entropy", "curvature", "LiDAR", "DiME", "intrinsic dimension", "anisotropy",
    }  # fmt: skip
    assert (table.groupby("measure")["picks"].sum() == 1).all()


def test_charts_are_drawn(result, drawn_charts, tmp_path):
    result.save(tmp_path / "result")
    assert {path.stem for path in (tmp_path / "result").glob("*.svg")} >= {"layers", "cost", "curve"}


def test_a_probe_is_saved_and_answers_as_it_did(tmp_path):
    encoder, texts = TinyEncoder(), rows(80)
    lamina.choose(encoder, corpus_from(texts), task="label", save=str(tmp_path / "probe"), store=tmp_path / "s", **FEW)
    assert {path.name for path in (tmp_path / "probe").iterdir()} == {"probe.safetensors", "README.md"}
    probe = lamina.load_probe(tmp_path / "probe", encoder)
    given = [row["text"] for row in texts]
    answers = probe(given)
    assert np.mean([answer.label == row["label"] for answer, row in zip(answers, texts, strict=True)]) > 0.9
    estimator = probe.to_sklearn()
    assert estimator.predict(given).tolist() == [answer.label for answer in answers]
    assert np.allclose(estimator.predict_proba(given), probe.probabilities(given), atol=1e-6)
    assert 0 <= probe.card.calibration_error <= 1
    with pytest.raises(InputError, match="other weights"):
        lamina.load_probe(tmp_path / "probe", TinyEncoder(seed=1))(given)


def test_a_model_that_computes_otherwise_is_refused(tmp_path):
    class Drifted(TinyEncoder):
        def encode(self, *given: Any, **named: Any) -> Any:
            for one in super().encode(*given, **named):
                one.states.mul_(1.01)
                yield one

    encoder = TinyEncoder()
    lamina.choose(encoder, corpus_from(rows(40)), task="label", save=str(tmp_path / "p"), store=tmp_path / "s", **FEW)
    with pytest.raises(InputError, match="known sentences"):
        lamina.load_probe(tmp_path / "p", Drifted())(["a day"])


def test_a_folder_that_is_no_probe_is_not_overwritten(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not a saved probe"):
        lamina.choose(
            TinyEncoder(), corpus_from(rows(40)), task="label", save=str(tmp_path / "mine"), store=tmp_path / "s", **FEW
        )


def layers_of(picks: dict[str, int], task: str, scores: tuple[float, ...] = (0.5, 0.9, 0.7, 0.6)) -> LayerScores:
    return LayerScores("made", task, "m", "accuracy", 300, (0, 2, 4, 6), scores, picks, ((0.4, 0.8, 0.7, 0.6),))


def test_regrets_of_rules_are_those_worked_out_by_hand():
    one = layers_of({"DiME": 4, "curvature": 2}, "a")
    # Two thirds of 6 blocks is layer 4, the last one is layer 6, a random one has .675 on average.
    assert one.regret_of("last layer") == pytest.approx(0.3)
    assert one.regret_of("two thirds of the depth") == pytest.approx(0.2)
    assert one.regret_of("random layer") == pytest.approx(0.225)
    assert (one.regret_of("DiME"), one.regret_of("curvature")) == pytest.approx((0.2, 0.0))
    assert one.regret_of("200 labels") == 0
    assert np.isnan(one.regret_of("LiDAR"))


def test_a_measure_that_picks_the_best_layer_is_shown_to_cost_less():
    cells = [layers_of({"curvature": 2, "DiME": 0}, str(number)) for number in range(12)]
    table = regrets_by_rule(cells).set_index("rule")
    assert table.loc["curvature", "regret"] == 0
    assert table.loc["DiME", "regret"] == pytest.approx(0.4)
    assert table.loc["curvature", "beside last layer"] == pytest.approx(-0.3)
    assert table.loc["curvature", "beside last layer p_adjusted"] < 0.05
    found = {finding.claim: finding.status for finding in regret_findings(table.reset_index())}
    assert found["Choosing by curvature costs less than taking two thirds of the depth"] == "clear"
    assert found["Choosing by DiME costs more than taking two thirds of the depth"] == "clear"


def test_models_of_a_task_count_once():
    cells = [layers_of({}, str(number)) for number in range(8)]
    again = regrets_by_rule([*cells, *cells])
    assert (again["tasks"] == 8).all()
    assert again["low"].equals(regrets_by_rule(cells)["low"])


def test_measures_without_labels_are_evaluated_and_a_second_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(lamina, "load_encoder", lambda _: TinyEncoder())
    monkeypatch.setenv("LAMINA_STORE", str(tmp_path / "store"))
    table = tmp_path / "reviews.csv"
    pd.DataFrame(rows(60)).to_csv(table, index=False)
    command = ["choose", "tiny", "--corpus", str(table), "--evaluate-label-free", "--out", str(tmp_path / "out")]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    saved = pd.read_csv(tmp_path / "out" / "regret.csv")
    assert {"curvature", "last layer", "two thirds of the depth", "random layer"} <= set(saved["rule"])
    (cell,) = (tmp_path / "out" / "cells").glob("*.json")
    written = cell.stat().st_mtime_ns
    assert CliRunner().invoke(app, command).exit_code == 0
    assert cell.stat().st_mtime_ns == written
    # Other settings are another question.
    assert CliRunner().invoke(app, [*command, "--layers", "2"]).exit_code == 0
    assert cell.stat().st_mtime_ns != written


def test_a_report_of_a_table_says_which_layer_to_use(tmp_path):
    whole = corpus_from(rows(60))
    page = lamina.make_report(
        TinyEncoder(), whole, tmp_path / "report", only=["geometry", "choose"], runtime=Runtime(tmp_path / "store")
    )
    assert "Which layer" in page.read_text(encoding="utf-8")
    result = Result.load(tmp_path / "report" / "results" / "choose")
    assert cards([result])[0].title in ("Which layer", "Strongest")
    assert "Which layer" in [card.title for card in cards([result])]


def test_vectors_of_many_texts_are_on_disk_and_read_layer_by_layer(monkeypatch):
    """100,000 texts x 12 layers: 77 MB that are not in memory; one layer is."""
    monkeypatch.setattr("lamina.analyses.layers.choose.cells._MOST_HELD", 2**20)
    tracemalloc.start()
    pooled = PooledVectors(("mean",), 12, 100_000, 16)
    row = np.arange(12, dtype=np.float32)[:, None] * np.ones((12, 16), np.float32)
    for number in range(100_000):
        pooled.put(0, number, row)
    means = [float(pooled.of("mean", layer).mean()) for layer in range(12)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert means == list(range(12))
    assert peak < 3 * 4 * 100_000 * 16


def test_on_disk_or_in_memory_the_numbers_are_the_same(monkeypatch, tmp_path):
    whole = corpus_from(rows(40))
    held = lamina.choose(TinyEncoder(), whole, task="label", store=tmp_path / "store", **FEW)
    monkeypatch.setattr("lamina.analyses.layers.choose.cells._MOST_HELD", 0)
    spread = lamina.choose(TinyEncoder(), whole, task="label", store=tmp_path / "store", **FEW)
    timed = ["seconds_per_1000_texts"]
    pd.testing.assert_frame_equal(
        held.tables["choose"].drop(columns=timed), spread.tables["choose"].drop(columns=timed)
    )
