"""What a passport refuses is refused by the analyses that need it, with the reason, and by no other."""

from __future__ import annotations

from dataclasses import replace
from html import unescape

import pytest

import lamina
from lamina.corpora import Splits, corpus_from
from lamina.errors import ModelError
from lamina.framework.outline import outline
from lamina.framework.passports import needs_of
from lamina.framework.registry import all_analyses
from lamina.models.checks.passports import Check, passport_of, summary
from lamina.report import make_report
from lamina.results import Result
from lamina.testing import TinyEncoder
from lamina.types import Edge, Span, Text

WHY = "Rows sum to 0.7 instead of 1."
MAPS = {"attention", "attention_distance", "heads", "headmap", "corefheads", "parse", "look", "roles"}
ABLATION = {"ablate", "prune", "erase", "patch", "roles"}


def failing(*needs: str, sink: str | None = None, seed: int = 0) -> TinyEncoder:
    """A tiny model that was found to be wrong in one respect."""
    encoder = TinyEncoder(seed=seed)
    wrong = Check("rows", "fails", WHY, 0.3, needs)
    encoder.passport = replace(passport_of(encoder), checks=(wrong,) if needs else (), sink=sink)
    return encoder


def sentences(prefix: str, count: int):
    """Short sentences with dependencies, each a document of its own."""
    dep = (Edge(("det",), Span(0, 1), Span(1, 2)), Edge(("nsubj",), Span(1, 2), Span(2, 3)))
    named = (f"{prefix}{at}" for at in range(count))
    return [Text(name, ("the", name, "saw", "a", "cat"), edges={"dep": dep}, doc=name) for name in named]


@pytest.fixture(scope="module")
def texts():
    return corpus_from(sentences("dog", 6), name="pets")


def test_every_analysis_says_what_it_needs():
    needs = {each.name: needs_of(each, {}) for each in all_analyses()}
    assert {name for name, each in needs.items() if "maps" in each} == MAPS
    assert {name for name, each in needs.items() if not each} <= {"agreement", "compare", "trace", "grow"}
    assert {name for name, each in needs.items() if "ablation" in each} == ABLATION
    others = {name: each for name, each in needs.items() if name not in ABLATION}
    assert all(each in ((), ("states",), ("maps",)) for each in others.values())


@pytest.mark.parametrize("name", ["attention", "heads", "look"])
def test_maps_that_fail_refuse_what_needs_them(name, texts):
    given = "Dogs bark ." if name == "look" else texts
    with pytest.raises(ModelError) as refused:
        getattr(lamina, name)(failing("maps"), given)
    said = "tiny: its attention maps cannot be used: Rows sum to 0.7 instead of 1; analyses of its states work"
    assert str(refused.value) == said
    with pytest.raises(ModelError, match="its attention maps cannot be used"):
        getattr(lamina, name).estimate(failing("maps"), given)


def test_states_work_where_maps_fail_and_the_result_says_what_fails(texts, tmp_path):
    result = lamina.geometry(failing("maps", sink="a learned sink"), texts, samples=5, store=tmp_path)
    assert result.provenance.model["passport"]["fails"] == {"rows": WHY}
    result.save(tmp_path / "kept", charts=False)
    assert Result.load(tmp_path / "kept").provenance.model["passport"]["sink"] == "a learned sink"


def test_states_that_fail_refuse_states_alone(texts, tmp_path):
    with pytest.raises(ModelError, match=r"its hidden states cannot be used: Rows sum to 0.7 instead of 1$"):
        lamina.geometry(failing("states"), texts, store=tmp_path)
    assert all(map(len, lamina.attention(failing("states"), texts, samples=5).tables.values()))


def test_norms_are_needed_only_by_maps_weighted_with_them(texts):
    assert len(lamina.heads(failing("norms"), texts, samples=5).tables["best"])
    with pytest.raises(ModelError, match="the norms of its values cannot be used"):
        lamina.heads(failing("norms"), texts, weights="norm")


def test_two_models_are_compared_without_the_heads_of_one_that_fails(texts, tmp_path):
    found = lamina.diff(failing(), failing("maps", seed=1), texts, samples=5, twin=False, store=tmp_path)
    assert found.provenance.skipped == {"heads not compared (Rows sum to 0.7 instead of 1)": 4}
    assert "attention_similarity" not in set(found.tables["diff"]["measure"])
    sides = [found.provenance.model[side]["passport"]["fails"] for side in "ab"]
    assert sides == [{}, {"rows": WHY}]


def test_only_texts_that_need_windows_are_refused_where_windows_fail(model_folder):
    encoder = lamina.load_encoder(str(model_folder("bert")), device="cpu")
    wrong = Check("windows", "fails", "States differ by 0.2.", 0.2, ("windows",))
    encoder.passport = replace(passport_of(encoder), checks=(wrong,))
    short, long = Text("short", ("the",)), Text("long", ("the",) * (encoder.limit + 1))
    assert next(iter(encoder.encode([short]))).windows == 1
    with pytest.raises(ModelError, match=r"texts longer than its limit cannot be used: States differ by 0\.2"):
        list(encoder.encode([short, long]))


def test_a_report_leaves_out_what_is_refused_and_says_what_fails(texts, tmp_path, monkeypatch):
    from lamina.report import page
    from lamina.report import report as making

    monkeypatch.setattr(page, "chart_script", str)  # takes longer than all else
    few = {name: outline(name) for name in ("geometry", "heads")}
    monkeypatch.setattr(making, "in_report", lambda: few)
    path = make_report(
        failing("maps", sink="a learned sink per head"), texts, tmp_path, runtime=lamina.Runtime(tmp_path / "store")
    )
    said = unescape(path.read_text(encoding="utf-8"))
    assert f'tiny fails the check "rows": {WHY}' in said
    assert "tiny: attention that no token gets goes to a learned sink per head." in said
    assert f"{few['heads'].title} is left out: tiny: its attention maps cannot be used" in said


def test_models_of_several_seeds_have_a_passport_each(texts, tmp_path):
    splits = Splits(corpus_from(sentences("bird", 30), name="birds"), texts)
    short = {"schedule": "steps=2,hidden=4", "seeds": 1, "samples": 5, "twin": False, "store": tmp_path}
    found = lamina.probe([TinyEncoder(), TinyEncoder(seed=1)], splits, tasks=["dep"], **short)
    assert [each["passport"] for each in found.provenance.model["seeds"]] == [summary(passport_of(TinyEncoder()))] * 2
    model = lamina.compare(found, found).provenance.model
    assert model["passports"] == {"tiny": found.provenance.model["passport"]}
