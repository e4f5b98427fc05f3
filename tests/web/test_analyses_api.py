"""The analyses as data: what the pages build their forms from."""

from __future__ import annotations

import pytest

from lamina.framework.registry import all_analyses


@pytest.fixture
def cards(client) -> dict[str, dict]:
    return {card["name"]: card for card in client(corpora=("gum_open", "mine.txt")).get("/api/analyses").json()}


def test_every_analysis_is_there_in_its_order_as_it_describes_itself(cards):
    assert list(cards) == [each.name for each in all_analyses()]
    for each in all_analyses():
        card, told = cards[each.name], each.describe()
        for part in ("title", "question", "method", "chapter", "version", "settings", "data_options", "tables"):
            assert card[part] == told[part]
        assert (card["report"] is None) == (each.report is None)


def test_what_reads_a_model_and_texts_or_questions_can_be_started(cards):
    assert {"geometry", "probe", "diff", "phases", "finetune"} <= {name for name, card in cards.items() if card["job"]}
    assert not any(cards[name]["job"] for name in ("look", "trace", "compare"))
    assert all(given["choices"] == [] for given in cards["look"]["inputs"])


def test_inputs_name_what_this_server_allows(cards):
    model, data = cards["geometry"]["inputs"]
    assert (model["kind"], model["choices"], model["required"]) == ("model", ["tiny"], True)
    assert (data["kind"], data["choices"], data["default"]) == ("texts", ["gum_open", "mine.txt"], "gum_open")
    assert [given["name"] for given in cards["diff"]["inputs"]] == ["model", "other", "data"]
    questions = cards["phases"]["inputs"][1]
    assert (questions["choices"], questions["default"]) == (["stories", "gum_open", "mine.txt"], "stories")
    # The analysis's own default, where the server has it.
    assert cards["corefheads"]["inputs"][1]["default"] == "gum_open"


def test_settings_of_a_report_fit_their_analysis(client, cards):
    server = client()
    server.app.state.lamina.jobs.most = 0
    for name, card in cards.items():
        if card["job"] and card["report"] is not None:
            wanted = {"analysis": name, "model": "tiny", "settings": card["report"]}
            # Only the full queue refuses it.
            assert server.post("/api/jobs", json=wanted).status_code == 429, name


def test_an_analysis_of_another_package_that_cannot_be_loaded_is_left_out(client, monkeypatch):
    from lamina.errors import InputError
    from lamina.framework import registry

    found = registry.get_analysis

    def broken(name: str):
        if name == "geometry":
            raise InputError("the analysis 'geometry' of geometers cannot be loaded: no module named x")
        return found(name)

    monkeypatch.setattr("lamina.framework.registry.get_analysis", broken)
    named = [card["name"] for card in client().get("/api/analyses").json()]
    assert "geometry" not in named
    assert "probe" in named
