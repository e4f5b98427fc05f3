"""A data set in numbers: phases by layer, and whether failure shows early."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from lamina.analyses.answering import phases as module
from lamina.analyses.answering.failure import CONTRAST, FAILURE
from lamina.analyses.answering.phases import phases
from lamina.analyses.answering.streaming import DIFFERENCES, NO_SPANS, NO_SUPPORT, PHASES
from lamina.corpora.question_sets import questions_from
from lamina.corpora.questions.question import labelled_question
from lamina.errors import CorpusError, InputError
from lamina.models import load_encoder
from lamina.results import Result
from lamina.testing import TinyEncoder
from lamina.training.provenance import TEXTS, text_hash
from lamina.types import Edge, Span, Text
from tests.language_models import tiny_causal

QUICK = {"samples": 50, "clustered": 6}


def value(table: pd.DataFrame, measure: str, layer: int, model: str = "tiny", group: str = "all") -> float:
    own = table[(table["model"] == model) & (table["layer"] == layer) & (table["group"] == group)]
    return float(own.loc[own["measure"] == measure, "value"].iloc[0])


def test_a_model_without_a_head_has_phases_for_all_questions(toys) -> None:
    found = phases(TinyEncoder(), toys, **QUICK)
    table = found.tables["phases"]
    assert tuple(table.columns) == PHASES
    assert set(table["model"]) == {"tiny", "tiny (pseudo roles)", "tiny (random)"}
    assert set(table["group"]) == {"all"}
    assert set(table["layer"]) == {0, 1, 2}
    assert set(table["seeds"]) == {1}
    assert set(found.tables) == {"phases", "layers", "differences"}
    # Phases of answering are not told for a model that cannot answer.
    assert [each.status for each in found.findings] == ["untested"]
    assert "the model has no head that answers these questions" in found.findings[0].text
    assert "predicted_apart" not in set(table["measure"])
    assert (table["low"] <= table["value"] + 1e-6).all()
    assert (table["value"] <= table["high"] + 1e-6).all()
    expected = value(table, "within_question", 1) - value(table, "anisotropy", 1)
    assert value(table, "within_question_adjusted", 1) == pytest.approx(expected, abs=1e-6)


def test_differences_are_of_the_same_questions(toys) -> None:
    found = phases(TinyEncoder(), toys, **QUICK)
    values, differences = found.tables["phases"], found.tables["differences"]
    assert tuple(differences.columns) == DIFFERENCES
    np.testing.assert_allclose(differences["value"] - differences["null"], differences["difference"], atol=1e-6)
    assert set(differences["against"]) == {"pseudo roles", "random"}
    rows = differences[(differences["measure"] == "answer_apart") & (differences["layer"] == 2)].set_index("against")
    for against in ("pseudo roles", "random"):
        assert rows.loc[against, "count"] == 12
        assert (rows.loc[against, "units"], rows.loc[against, "needed"]) == (4, 6)
        null = value(values, "answer_apart", 2, f"tiny ({against})")
        assert rows.loc[against, "null"] == pytest.approx(null, abs=1e-5)
        assert rows.loc[against, "value"] == pytest.approx(value(values, "answer_apart", 2), abs=1e-5)
    # The question is the same words among pseudo roles.
    assert "within_question" not in set(differences.loc[differences["against"] == "pseudo roles", "measure"])


def test_seeds_are_averaged(toys) -> None:
    quick = {"samples": 20, "clustered": 0}
    tables = [phases(each, toys, **quick).tables["phases"] for each in (TinyEncoder(seed=1), TinyEncoder(seed=2))]
    both = phases([TinyEncoder(seed=1), TinyEncoder(seed=2)], toys, **quick)
    assert set(both.tables["phases"]["seeds"]) == {2}
    for measure in ("answer_apart", "within_question_adjusted"):
        alone = [value(table, measure, 2) for table in tables]
        assert value(both.tables["phases"], measure, 2) == pytest.approx(np.mean(alone), abs=1e-5)
    assert set(both.tables["differences"]["seeds"]) == {2}


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
    # Its three paragraphs are resampled.
    assert found.tables["phases"]["low"].notna().all()
    assert not found.tables["phases"]["measure"].str.endswith("_adjusted").any()
    assert any(reason.startswith("one document") and count for reason, count in found.provenance.skipped.items())


def test_one_paragraph_has_no_intervals(toys) -> None:
    first = next(toys.questions())
    made = [replace(first, text=replace(first.text, id=f"again {number}")) for number in range(3)]
    found = phases(TinyEncoder(), questions_from(made, "one"), samples=10, clustered=0, twin=False)
    assert found.tables["phases"]["low"].isna().all()
    assert any("no intervals" in reason for reason in found.provenance.skipped)


def test_texts_without_context_have_the_measures_that_need_none() -> None:
    words = ("who", "ate", "the", "fox", "?")
    texts = [Text(f"t{at}", words[at % 2 :], edges={"ques": (Edge(("HUM",), Span(0, 4)),)}) for at in range(6)]
    asked = questions_from([labelled_question(text, "ques", "trec") for text in texts], "types", "test")
    found = phases(TinyEncoder(), asked, samples=10, clustered=2)
    assert set(found.tables["phases"]["measure"]) == {"within_question", "within_question_adjusted", "anisotropy"}
    assert found.provenance.skipped[NO_SPANS] == found.provenance.skipped[NO_SUPPORT] == 6


def test_a_class_head_has_right_and_wrong_answers(pretrained, tmp_path) -> None:
    import torch
    import transformers

    folder = tmp_path / "classes"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            pretrained.model.name_or_path, num_labels=2, id2label={0: "HUM", 1: "LOC"}, label2id={"HUM": 0, "LOC": 1}
        )
    model.save_pretrained(folder)
    pretrained.tokenizer.save_pretrained(folder)
    texts = [
        Text(f"t{at}", ("who", "ran", "?"), edges={"ques": (Edge((kind,), Span(0, 3)),)})
        for at, kind in enumerate(["HUM", "LOC"] * 4)
    ]
    asked = questions_from([labelled_question(text, "ques", "trec") for text in texts], "types", "test")
    found = phases(load_encoder(str(folder), device="cpu"), asked, samples=20, clustered=0)
    table = found.tables["phases"]
    counts = table[(table["measure"] == "within_question") & (table["layer"] == 0)].set_index(["model", "group"])
    # The same words have the same answer: right half of the time.
    name = found.provenance.model["name"]
    assert counts.loc[(name, "right"), "count"] == counts.loc[(name, "wrong"), "count"] == 4
    failure = found.tables["failure"]
    assert failure.loc[failure["feature"] == "confidence", "count"].tolist() == [8]
    assert set(found.tables["contrast"]["measure"]) == {"within_question"}


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
    assert tuple(found.tables["contrast"].columns) == CONTRAST
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


def test_the_first_token_is_left_out_at_every_layer_where_the_user_says_so(toys) -> None:
    """A decoder has no [CLS]: its first token is a word of the question."""
    decoder = tiny_causal()
    tables = [
        phases(decoder, toys, samples=5, clustered=0, twin=False, without_first=without).tables["phases"]
        for without in (False, True)
    ]
    name = decoder.name
    usual, without = (value(table, "within_question", 1, name) for table in tables)
    means = []
    for question, encoded in zip(toys.questions(), decoder.encode(toys), strict=True):
        of_question = torch.from_numpy(encoded.tokens.words < len(question.text.segments[0]))
        of_question[0] = False
        unit = torch.nn.functional.normalize(encoded.states[of_question, 1].float(), dim=1)
        count = len(unit)
        means.append((float((unit @ unit.T).sum()) - count) / (count * (count - 1)))
    assert without == pytest.approx(np.mean(means), abs=1e-5)
    assert without != pytest.approx(usual, abs=1e-4)
