"""A data set in numbers: phases by layer, and whether failure shows early."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from lamina.analyses.questions import phases as module
from lamina.analyses.questions.failure import FAILURE, Cases, failure_rows
from lamina.analyses.questions.phases import PHASES, phases
from lamina.corpora.question_sets import questions_from
from lamina.encoders import load_encoder
from lamina.errors import CorpusError, InputError
from lamina.results import Result
from lamina.testing import TinyEncoder
from lamina.training.provenance import TEXTS, text_hash

QUICK = {"samples": 50, "clustered": 6}


def value(table: pd.DataFrame, measure: str, layer: int, model: str = "tiny", group: str = "all") -> float:
    own = table[(table["model"] == model) & (table["layer"] == layer) & (table["group"] == group)]
    return float(own.loc[own["measure"] == measure, "value"].iloc[0])


def test_a_model_without_a_head_has_phases_for_all_questions(toys) -> None:
    found = phases(TinyEncoder(), toys, **QUICK)
    table = found.tables["phases"]
    assert tuple(table.columns) == PHASES
    assert set(table["model"]) == {"tiny", "tiny (shuffled roles)", "tiny (random)"}
    assert set(table["group"]) == {"all"}
    assert set(table["layer"]) == {0, 1, 2}
    assert "failure" not in found.tables
    assert "predicted_apart" not in set(table["measure"])
    assert (table["low"] <= table["value"] + 1e-6).all()
    assert (table["value"] <= table["high"] + 1e-6).all()
    expected = value(table, "within_question", 1) - value(table, "anisotropy", 1)
    assert value(table, "within_question_adjusted", 1) == pytest.approx(expected, abs=1e-6)


def test_the_same_seed_gives_the_same_numbers_however_many_are_held(toys, monkeypatch) -> None:
    one = phases(TinyEncoder(), toys, **QUICK).tables["phases"]
    monkeypatch.setattr(module, "_AT_ONCE", 5)
    other = phases(TinyEncoder(), toys, **QUICK).tables["phases"]
    # Sums over other chunks: the rounding differs.
    pd.testing.assert_frame_equal(one, other, rtol=1e-4, atol=1e-5)


def test_a_value_is_the_mean_over_questions(toys) -> None:
    asked = list(toys.questions())[:2]
    quick = {"samples": 10, "clustered": 0, "twin": False}
    both = phases(TinyEncoder(), questions_from(asked, "two"), **quick).tables["phases"]
    single = [phases(TinyEncoder(), questions_from([each], "one"), **quick).tables["phases"] for each in asked]
    alone = [value(table, "between_question_support", 2) for table in single]
    assert value(both, "between_question_support", 2) == pytest.approx(np.mean(alone), abs=1e-6)


def test_one_document_is_not_adjusted_and_that_is_said(toys) -> None:
    found = phases(TinyEncoder(), toys.take(3), samples=10, clustered=0, twin=False)
    assert not found.tables["phases"]["measure"].str.endswith("_adjusted").any()
    assert any(reason.startswith("one document") and count for reason, count in found.provenance.skipped.items())


def test_a_model_that_answers_tells_right_from_wrong(answering_folder, toys, tmp_path) -> None:
    encoder = load_encoder(str(answering_folder), device="cpu")
    found = phases(encoder, toys, **QUICK)
    table = found.tables["phases"]
    counts = table[table["measure"] == "question_nearer_support"].groupby("group")["count"].max()
    assert counts["all"] == 12
    assert counts.get("right", 0) + counts["wrong"] == 12
    assert counts.get("confident wrong", 0) + counts.get("low confidence", 0) == counts["wrong"]
    assert "predicted_apart" in set(table["measure"])
    assert tuple(found.tables["failure"].columns) == FAILURE
    again = Result.load(found.save(tmp_path / "saved", charts=False))
    pd.testing.assert_frame_equal(again.tables["phases"], table)
    assert again.tables["failure"]["layer"].isna().tolist() == found.tables["failure"]["layer"].isna().tolist()


def test_texts_it_was_fine_tuned_on_are_never_scored(answering_folder, toys) -> None:
    (answering_folder / TEXTS).write_text(text_hash(next(iter(toys.find("q4")))) + "\n")
    with pytest.raises(CorpusError, match="fine-tuned on"):
        phases(load_encoder(str(answering_folder), device="cpu"), toys)


def test_mistakes_are_said() -> None:
    with pytest.raises(InputError, match="confident must be a number from 0 to 1"):
        phases(TinyEncoder(), questions_from([], "none"), confident=1.5)
    with pytest.raises(CorpusError, match="no questions"):
        phases(TinyEncoder(), questions_from([], "none"))


def _cases(told: bool, count: int = 120) -> Cases:
    draw = np.random.default_rng(0)
    wrong = draw.random(count) < 0.4
    vectors = draw.normal(size=(count, 2, 6)).astype(np.float32)
    if told:
        vectors[:, 1, 2] += 3 * wrong
    return Cases(vectors, wrong, np.arange(count) // 10, draw.random(count), draw.integers(5, 15, count).astype(float))


def test_failure_is_predicted_where_a_layer_tells_it_and_nowhere_else() -> None:
    rows = pd.DataFrame(failure_rows("m", _cases(told=True), samples=200, seed=0), columns=list(FAILURE))
    vectors = rows[rows["feature"] == "vectors"].set_index("layer")
    assert vectors.loc[1, "auc"] > 0.9
    assert vectors.loc[1, "low"] > 0.8
    assert vectors.loc[1, "p_holm"] < 0.02
    assert vectors.loc[0, "low"] < 0.5 < vectors.loc[0, "high"] + 0.1
    assert vectors.loc[0, "p_holm"] > 0.05
    gaps = rows[rows["feature"] == "vectors - confidence"].set_index("layer")
    assert gaps.loc[1, "auc"] == pytest.approx(
        vectors.loc[1, "auc"] - float(rows.loc[rows["feature"] == "confidence", "auc"].iloc[0])
    )
    assert gaps.loc[1, "low"] > 0
    assert (rows["p_holm"].dropna() >= rows.loc[rows["p_holm"].notna(), "p"]).all()


def test_the_auc_compares_only_questions_tried_together() -> None:
    cases = _cases(told=False, count=60)
    documents = np.arange(60) % 2
    # Confidence tells in either document, though the second is more confident throughout.
    confidence = 2.0 * documents - cases.wrong + np.random.default_rng(1).normal(size=60) * 0.5
    cases = cases._replace(documents=documents, confidence=confidence)
    rows = pd.DataFrame(failure_rows("m", cases, samples=20, seed=0), columns=list(FAILURE))
    wins, pairs = 0.0, 0
    for document in (0, 1):
        own = documents == document
        count = int(cases.wrong[own].sum()) * int((~cases.wrong[own]).sum())
        wins, pairs = wins + count * roc_auc_score(cases.wrong[own], -confidence[own]), pairs + count
    assert float(rows.loc[rows["feature"] == "confidence", "auc"].iloc[0]) == pytest.approx(wins / pairs)
    assert rows["count"].eq(60).all()


def test_nothing_is_predicted_where_all_answers_are_alike() -> None:
    cases = _cases(told=False)
    assert list(failure_rows("m", cases._replace(wrong=np.ones(120, bool)), samples=10, seed=0)) == []
    assert list(failure_rows("m", cases._replace(documents=np.zeros(120, int)), samples=10, seed=0)) == []
