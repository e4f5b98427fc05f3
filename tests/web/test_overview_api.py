"""The model's card: what was measured of it, and what was not."""

from __future__ import annotations

import pandas as pd
import pytest

from lamina.framework.outline import CHAPTERS
from lamina.framework.registry import get_analysis
from lamina.results import Provenance, Result
from lamina.results.finding import Finding
from lamina.testing import TinyEncoder
from lamina.web.jobs import CostEstimate


def geometry(fingerprint: str, *findings: Finding, created: str = "2026-01-01T00:00:00+00:00") -> Result:
    about = {"name": "tiny", "fingerprint": fingerprint}
    provenance = Provenance(about, {"name": "c", "fingerprint": "g"}, {}, created=created)
    return Result("geometry", {"measures": pd.DataFrame({"layer": [0]})}, provenance, findings=findings)


def surface() -> Result:
    rows = [(1, 1, "to_next", 0.7, 0.6, 0.8, 0.1), (1, 2, "to_next", 0.1, 0.0, 0.2, 0.1)]
    table = pd.DataFrame(rows, columns=["layer", "head", "measure", "value", "low", "high", "baseline"])
    about = {"name": "tiny", "fingerprint": TinyEncoder().fingerprint}
    return Result("attention", {"surface": table}, Provenance(about, {"name": "c", "fingerprint": "g"}, {}))


@pytest.fixture
def seen(client, tmp_path):
    """What the server says of a model with these results."""

    def ask(*results: Result) -> dict:
        for number, result in enumerate(results):
            result.save(tmp_path / "results" / f"r{number}", charts=False)
        return client().get("/api/overview/tiny").json()

    return ask


def test_findings_are_those_of_the_models_own_weights_clear_ones_first(seen):
    own, other = TinyEncoder().fingerprint, "another"
    undecided, sure = Finding("it may be", "", "open"), Finding("It is", "", "clear")
    card = seen(geometry(own, undecided, sure), geometry(other, Finding("Of another", "", "clear")))
    assert [each["text"] for each in card["findings"]] == ["It is.", "It is not known whether it may be."]
    assert {each["title"] for each in card["findings"]} == {get_analysis("geometry").title}


def test_of_several_results_of_one_analysis_the_newest_is_shown(seen):
    own = TinyEncoder().fingerprint
    old = geometry(own, Finding("Old", "", "clear"), created="2025-01-01T00:00:00+00:00")
    card = seen(geometry(own, Finding("New", "", "clear")), old)
    assert [each["text"] for each in card["findings"]] == ["New."]


def test_every_chapter_is_there_with_its_results(seen):
    card = seen(geometry(TinyEncoder().fingerprint), surface())
    assert [each["name"] for each in card["chapters"]] == [each.name for each in CHAPTERS]
    assert {each["name"]: [one["analysis"] for one in each["results"]] for each in card["chapters"]} == {
        "layers": ["geometry"],
        "abilities": [],
        "heads": ["attention"],
        "words": [],
        "answering": [],
    }


def test_heads_are_drawn_by_role_with_the_reports_figure(seen):
    card = seen(surface())
    assert "next: 1 (1-1)" in card["glance"]["summary"]
    assert len(card["captions"]) == 1
    # It begins as the report does, in sentences without statistics.
    assert card["paragraph"]
    assert all(sentence["plain"].endswith(".") and "[" not in sentence["plain"] for sentence in card["paragraph"])


def test_of_nothing_there_is_no_figure(seen):
    card = seen()
    assert (card["glance"], card["paragraph"], card["findings"], card["report"]) == (None, [], [], False)


def test_what_was_not_measured_has_an_estimate_and_what_to_send(client, tmp_path, monkeypatch):
    geometry(TinyEncoder().fingerprint).save(tmp_path / "results" / "geometry", charts=False)
    asked = []
    monkeypatch.setattr(
        "lamina.web.jobs.Estimates.get",
        lambda _, request: asked.append(request["analysis"]) or CostEstimate("known", 12.0, 10**9, 0),
    )
    server = client()
    told = {each["analysis"]: each for each in server.get("/api/unmeasured/tiny").json()}
    assert "geometry" not in told
    assert told["attention"]["seconds"] == 12.0
    assert told["attention"]["wanted"] == {
        "analysis": "attention",
        "model": "tiny",
        "settings": dict(get_analysis("attention").report),
    }
    # It says no words, so it is not asked for any, and nothing is tried for that.
    assert told["surprisal"]["state"] == "failed"
    assert "no language-model head" in told["surprisal"]["why"]
    assert "surprisal" not in asked


def test_an_unknown_model_is_said(client):
    answer = client().get("/api/overview/nobody")
    assert answer.status_code == 404
    assert "nobody" in answer.json()["error"]


def test_a_model_that_cannot_be_loaded_is_said_and_its_results_are_found_by_name(client, tmp_path):
    geometry("whatever", Finding("It was", "", "clear")).save(tmp_path / "results" / "geometry", charts=False)
    server = client()
    server.app.state.lamina.models._load = broken
    card = server.get("/api/overview/tiny").json()
    assert [each["text"] for each in card["findings"]] == ["It was."]
    (about,) = server.get("/api/about").json()["models"]
    assert about["trouble"] == "its weights are damaged"


def broken(_: str):
    from lamina.errors import DamagedError

    raise DamagedError("its weights are damaged")
