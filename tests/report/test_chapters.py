"""The chapters of the default report: each is a question that can be asked, with words and charts of its own."""

from __future__ import annotations

from html import unescape

import pytest

from lamina import load_encoder
from lamina.activations import Runtime
from lamina.corpora import corpus_from
from lamina.corpora.questions import babi
from lamina.errors import ModelError
from lamina.figures import captions_of
from lamina.framework.estimate import Cost
from lamina.framework.outline import outline
from lamina.framework.registry import get_analysis
from lamina.report import make_report
from lamina.report import report as making
from lamina.report.report import in_report
from lamina.results import Result
from lamina.testing import TinyEncoder
from tests.language_models import tiny_masked


def test_every_analysis_of_the_report_has_words_of_its_own():
    for name in in_report():
        declared = get_analysis(name)
        assert declared.question.endswith("?"), name
        assert declared.method.endswith("."), name
        assert captions_of(name), name


def test_a_model_learns_to_answer_and_is_looked_at(model_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(babi, "_SIZES", {"train": 20, "dev": 8, "test": 8})
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
    monkeypatch.setattr(making.ReportPage, "write", lambda self, *_, **__: self.out / "index.html")
    again = made()
    assert {name: each.provenance.created for name, each in again.items()} == {
        name: each.provenance.created for name, each in first.items()
    }


@pytest.fixture
def few_stories(monkeypatch, model_folder, tmp_path):
    """Makes a report of a tiny model with geometry and the chapter on answering, in two steps of learning."""
    monkeypatch.setattr(babi, "_SIZES", {"train": 20, "dev": 8, "test": 8})
    learning = dict(get_analysis("finetune").report or {}) | {"max_steps": 2}
    monkeypatch.setattr(get_analysis("finetune"), "report", learning)
    few = {name: outline(name) for name in ("geometry", "finetune", "token_map")}
    monkeypatch.setattr(making, "in_report", lambda: few)
    monkeypatch.setattr(Result, "charts", lambda self: {})
    monkeypatch.setattr("lamina.report.chapters.draw", lambda result: {})
    encoder = load_encoder(str(model_folder("bert")), device="cpu")
    corpus = corpus_from([["the", "dog"], ["a", "cat"]] * 3, name="pets")

    def make(name: str, **more):
        return make_report(encoder, corpus, tmp_path / name, runtime=Runtime(tmp_path / "store"), **more)

    return make


def test_fine_tuning_is_announced_with_its_time(few_stories, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("LAMINA_PROGRESS", "lines")
    monkeypatch.setattr(making, "finetuning_cost", lambda asked: (Cost(steps=2, seconds=500), 38.0))
    few_stories("here")
    said = "lamina: fine-tuning {} on stories (2 steps): about 38 s of CPU time; leave it out with --without finetune"
    name = Result.load(tmp_path / "here" / "results" / "geometry").provenance.model["name"]
    assert capsys.readouterr().err.count(said.format(name)) == 1
    # What is done already is not announced again.
    few_stories("here")
    assert "fine-tuning" not in capsys.readouterr().err


def test_a_report_has_the_same_chapters_however_busy_the_machine_is(few_stories, monkeypatch, tmp_path):
    monkeypatch.setattr(making, "finetuning_cost", lambda asked: (Cost(steps=2, seconds=30_000), 30_000.0))
    few_stories("busy")
    assert {each.name for each in (tmp_path / "busy" / "results").iterdir()} == {"geometry", "finetune", "token_map"}


def test_nobody_learns_to_answer_from_as_few_texts_as_a_limit_leaves(few_stories, monkeypatch, tmp_path):
    monkeypatch.setattr(making, "is_too_few", lambda limit: limit is not None)
    page = unescape(few_stories("few", limit=4).read_text(encoding="utf-8"))
    assert page.count("Answering stories is left out: --limit leaves too few stories to learn from") == 1
    assert {each.name for each in (tmp_path / "few" / "results").iterdir()} == {"geometry"}
    few_stories("named", only=["token_map"], limit=4)
    assert {each.name for each in (tmp_path / "named" / "results").iterdir()} == {"finetune", "token_map"}


def test_nothing_is_learned_without_answering(few_stories, monkeypatch, tmp_path):
    monkeypatch.setattr(making, "finetuning_cost", lambda asked: pytest.fail("nothing is to be estimated"))
    page = few_stories("here", without=["answering"]).read_text(encoding="utf-8")
    assert {each.name for each in (tmp_path / "here" / "results").iterdir()} == {"geometry"}
    assert "is left out" not in page


def test_a_limit_bounds_what_is_learned_from(few_stories, monkeypatch, tmp_path):
    monkeypatch.setattr(making, "finetuning_cost", lambda asked: (Cost(steps=1, seconds=1), 1.0))
    few_stories("here", only=["finetune"], limit=6)
    made = Result.load(tmp_path / "here" / "results" / "finetune").provenance
    assert made.corpus["texts"] == {"train": 6, "select": 6, "scored": 6}
    # As many of each task.
    scores = Result.load(tmp_path / "here" / "results" / "finetune").tables["scores"]
    assert scores.loc[scores["metric"] == "f1"].set_index("task")["count"].to_dict() == {"all": 6, "qa1": 3, "qa21": 3}


def test_what_is_no_transformer_of_hugging_face_is_not_fine_tuned(tmp_path):
    corpus = corpus_from([["the", "dog"], ["a", "cat"]], name="pets")
    with pytest.raises(ModelError, match="fine-tune"):
        make_report(TinyEncoder(), corpus, tmp_path, only=["phases"])


def test_behaviour_is_left_out_in_one_sentence_where_there_is_no_head(tmp_path, monkeypatch):
    few = {name: outline(name) for name in ("geometry", "surprisal", "pairs")}
    monkeypatch.setattr(making, "in_report", lambda: few)
    monkeypatch.setattr(Result, "charts", lambda self: {})
    monkeypatch.setattr("lamina.report.chapters.draw", lambda result: {})
    corpus = corpus_from([["the", "dog"], ["a", "cat"]] * 3, name="pets")
    where = {"runtime": Runtime(tmp_path / "store")}

    page = make_report(TinyEncoder(), corpus, tmp_path / "report", **where).read_text(encoding="utf-8")
    assert page.count("is left out") == 1
    assert "Behaviour (what a language model says) is left out: tiny has no language-model head." in page
    with pytest.raises(ModelError, match="tiny has no language-model head; these have: smollm2"):
        make_report(TinyEncoder(), corpus, tmp_path / "named", only=["pairs"], **where)


def test_a_model_with_a_head_has_the_chapter(tmp_path, monkeypatch):
    few = {name: outline(name) for name in ("geometry", "surprisal", "pairs")}
    monkeypatch.setattr(making, "in_report", lambda: few)
    monkeypatch.setattr(Result, "charts", lambda self: {})
    monkeypatch.setattr("lamina.report.chapters.draw", lambda result: {})
    monkeypatch.setattr("lamina.assets.local_folder", lambda name: None)
    sentences = [["the", "dog", "runs"], ["a", "cat", "sees", "the", "dog"]]
    learned = [[*sentence, "away"] for sentence in sentences]

    page = make_report(tiny_masked(), (learned, sentences), tmp_path, runtime=Runtime(tmp_path / "store"))
    assert Result.load(tmp_path / "results" / "surprisal").findings[0].chapter == "words"
    said = "Minimal pairs is left out: blimp is not on this machine; get it with `lamina assets get blimp`."
    assert said in unescape(page.read_text(encoding="utf-8"))
