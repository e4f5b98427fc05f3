"""The chapters of the default report: each is a question that can be asked, with words and charts of its own."""

from __future__ import annotations

import pytest

from lamina import load_encoder
from lamina.activations import Runtime
from lamina.analyses import get_analysis
from lamina.corpora import corpus_from, stories
from lamina.errors import ModelError
from lamina.figures import captions_of
from lamina.report import make_report, making
from lamina.report.making import in_report
from lamina.results import Result
from lamina.testing import TinyEncoder


def test_every_analysis_of_the_report_has_words_of_its_own():
    for name, declared in in_report().items():
        assert declared.question.endswith("?"), name
        assert declared.method.endswith("."), name
        assert captions_of(name), name


def test_a_model_learns_to_answer_and_is_looked_at(model_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(stories, "_SIZES", {"train": 20, "dev": 8, "test": 8})
    learning = dict(get_analysis("finetune").report or {}) | {"max_steps": 2}
    monkeypatch.setattr(get_analysis("finetune"), "report", learning)
    monkeypatch.setattr(get_analysis("phases"), "report", {"samples": 20, "clustered": 2, "twin": False})
    monkeypatch.setattr(Result, "charts", lambda self: {})
    encoder = load_encoder(str(model_folder("bert")), device="cpu")
    corpus = corpus_from([["the", "dog"], ["a", "cat"]], name="pets")
    where = {"only": ["finetune", "token_map", "phases"], "runtime": Runtime(tmp_path / "store")}

    def made() -> dict[str, Result]:
        page = make_report(encoder, corpus, tmp_path / "report", **where)
        return {name: Result.load(page.parent / "results" / name) for name in where["only"]}

    first = made()
    tokens = first["token_map"].tables["tokens"]
    assert tokens["layer"].nunique() == encoder.layers
    assert tokens["gold"].any()
    assert (tmp_path / "report" / "results" / "finetune" / "model.safetensors").is_file()
    # The page was drawn above.
    monkeypatch.setattr(making, "write_report", lambda results, out, **_: out / "index.html")
    again = made()
    assert {name: each.provenance.created for name, each in again.items()} == {
        name: each.provenance.created for name, each in first.items()
    }


def test_what_is_no_transformer_of_hugging_face_is_not_fine_tuned(tmp_path):
    corpus = corpus_from([["the", "dog"], ["a", "cat"]], name="pets")
    with pytest.raises(ModelError, match="fine-tune"):
        make_report(TinyEncoder(), corpus, tmp_path, only=["phases"])
