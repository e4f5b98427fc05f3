"""A report on several models: each asked by itself, all on one page."""

from __future__ import annotations

from html import unescape

import pytest

from lamina.activations import Runtime
from lamina.corpora import corpus_from
from lamina.errors import InputError
from lamina.framework.outline import outline
from lamina.framework.registry import get_analysis
from lamina.report import make_report
from lamina.report import page as pages
from lamina.report import report as making
from lamina.report.page import folder_names
from lamina.results import Result
from lamina.testing import TinyEncoder
from tests.language_models import tiny_causal

SENTENCES = [["the", "dog", "saw", "the", "cat"], ["the", "cat", "ran"], ["a", "dog", "ran"]] * 4


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Makes a page of tiny models, with a few analyses."""
    few = {name: outline(name) for name in ("geometry", "attention", "headmap", "surprisal")}
    monkeypatch.setattr(making, "in_report", lambda: few)
    monkeypatch.setattr(Result, "charts", lambda self: {})

    def made(*models, **more):
        learned = corpus_from([[*sentence, "away"] for sentence in SENTENCES], name="pets", split="train")
        data = {"train": learned, "dev": corpus_from(SENTENCES, name="pets", split="dev")}
        return make_report([*models], data, tmp_path / "report", runtime=Runtime(tmp_path / "store"), **more)

    return made


def named(name: str, **shape: int) -> TinyEncoder:
    encoder = TinyEncoder(**shape)
    encoder.name = name
    return encoder


def test_each_model_has_its_results_and_the_page_has_all(make):
    page = make(named("small"), named("deep", blocks=3))
    kept = {each.relative_to(page.parent / "results").as_posix() for each in page.parent.rglob("result.json")}
    assert kept == {
        *(f"{model}/{name}/result.json" for model in ("small", "deep") for name in ("geometry", "attention")),
        "compare-geometry/result.json",
        "compare-attention/result.json",
    }
    words = unescape(page.read_text(encoding="utf-8"))
    assert "<title>small and deep on pets" in words
    # Each comparison is in the chapter of what it compares.
    assert "Several models side by side: geometry of the layers" in words
    assert words.index("Several models side by side: geometry") < words.index("Several models side by side: what heads")
    assert "small: Behaviour (what a language model says) is left out" in words
    # Asked again, everything is reused.
    stamps = {each: each.stat().st_mtime_ns for each in page.parent.rglob("result.json")}
    make(named("small"), named("deep", blocks=3))
    assert stamps == {each: each.stat().st_mtime_ns for each in page.parent.rglob("result.json")}


def test_language_models_are_compared_text_by_text(make):
    page = make(tiny_causal(), _renamed(tiny_causal(seed=1), "other"), only=["surprisal"])
    result = Result.load(page.parent / "results" / "compare-surprisal")
    whole = result.tables["differences"].iloc[0]
    assert (whole["a"], whole["b"]) == ("tiny gpt2", "other")
    assert whole["low"] <= whole["difference"] <= whole["high"]
    assert result.findings
    assert result.findings[0].text in unescape(page.read_text(encoding="utf-8"))


def _renamed(encoder, name):
    encoder.name = name
    return encoder


def test_what_only_one_model_can_answer_is_said(make):
    page = make(named("small"), tiny_causal())
    words = unescape(page.read_text(encoding="utf-8"))
    title = get_analysis("surprisal").title
    assert f"{title} is left out: only one of the models has it." in words


def test_what_cannot_be_compared_is_refused_by_name(make):
    with pytest.raises(InputError, match="headmap: not compared between models; a report on several has geometry"):
        make(named("small"), named("deep"), only=["headmap"])
    with pytest.raises(InputError, match="several models are called tiny"):
        folder_names([TinyEncoder(), "models/tiny"])


def test_results_that_lie_there_are_compared_too(make, monkeypatch, tmp_path):
    monkeypatch.setattr(making, "in_report", lambda: {"geometry": outline("geometry")})
    monkeypatch.setattr(pages, "BY_NAME", ("attention",))
    models = (named("small"), named("deep", blocks=3))
    texts = corpus_from(SENTENCES, name="pets", split="dev")
    for encoder in models:
        get_analysis("attention")(encoder, texts, samples=20).save(
            tmp_path / "report" / "results" / encoder.name / "attention", charts=False
        )
    page = make(*models)
    assert Result.load(page.parent / "results" / "compare-attention").tables["differences"].notna().any().any()
    assert "Several models side by side: what heads look at" in unescape(page.read_text(encoding="utf-8"))


def test_analyses_that_no_report_on_one_model_has_are_chosen_by_name():
    assert making.choose(["structure", "geometry"], several=True) == ["geometry", "structure"]
    with pytest.raises(InputError, match="a report has no analysis 'structure'"):
        making.choose(["structure"])
