"""The chapters of the default report: each is a question that can be asked, with words and charts of its own."""

from __future__ import annotations

import pandas as pd
import pytest

from lamina import analyses, load_encoder
from lamina.corpora import stories
from lamina.errors import ModelError
from lamina.report import ANALYSES, answering, make_report
from lamina.report.wording import section_of
from lamina.testing import TinyEncoder

CHAPTER = "questions"


def test_every_analysis_of_the_report_is_a_function_with_words_of_its_own():
    asked = [name for name in ANALYSES if name != CHAPTER]
    assert all(callable(getattr(analyses, name)) for name in asked)
    assert all(section_of(name).question for name in (*asked, "finetune", "token_map", "phases"))


def test_a_model_learns_to_answer_and_is_looked_at(model_folder, tmp_path, monkeypatch):
    monkeypatch.setitem(answering.LEARNING, "max_steps", 2)
    monkeypatch.setattr(stories, "_SIZES", {"train": 20, "dev": 8, "test": 8})
    encoder = load_encoder(str(model_folder("bert")), device="cpu")
    settings = {"samples": 20, "clustered": 2, "twin": False}
    made = answering.answer_questions(encoder, tmp_path, **settings)
    assert [result.analysis for _, result in made] == ["finetune", "token_map", "phases"]
    assert all((folder / "result.json").is_file() for folder, _ in made)
    tokens = made[1][1].tables["tokens"]
    assert isinstance(tokens, pd.DataFrame)
    assert tokens["layer"].nunique() == encoder.layers
    assert tokens["gold"].any()
    again = answering.answer_questions(encoder, tmp_path, **settings)
    assert [result.provenance.created for _, result in again] == [result.provenance.created for _, result in made]


def test_what_is_no_transformer_of_hugging_face_is_not_fine_tuned(tmp_path):
    from lamina.corpora import corpus_from

    corpus = corpus_from([["the", "dog"], ["a", "cat"]], name="pets")
    with pytest.raises(ModelError, match="cannot be fine-tuned"):
        make_report(TinyEncoder(), corpus, tmp_path, only=[CHAPTER])
