"""The card of a model: what it is, what fails, and computations that are refused before they start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamina.models.checks.passports import Check, passport_of
from lamina.testing import TinyEncoder

WHY = "maps look ahead by 0.4"


@pytest.fixture
def server(client):
    """A server with a sound model, and one whose maps fail."""
    wrong = TinyEncoder()
    ahead = Check("look-ahead", "fails", WHY, 0.4, ("maps", "norms"))
    wrong.passport = replace(passport_of(wrong), model="wrong", checks=(ahead,), sink="a learned sink")
    made = client({"tiny": TinyEncoder(), "org/wrong": wrong})
    yield made
    made.app.state.lamina.jobs.close()


def test_a_sound_model_says_what_it_is(server):
    card = server.get("/api/models/tiny").json()
    shape = {"blocks": 2, "heads": 2, "width": 16, "limit": None, "causal": False, "language_head": None}
    assert {name: card[name] for name in shape} == shape
    assert card["architecture"] == "TinyEncoder"
    assert card["maps"] == "attention maps in every block"
    assert (card["verdict"], card["refused"]) == ([], {})
    assert {check["verdict"] for check in card["checks"]} <= {"holds", "not applicable"}


def test_a_model_is_examined_only_when_somebody_asks(server):
    models = server.app.state.lamina.models
    server.get("/api/about")
    assert models.loaded() == []
    server.get("/api/models/tiny")
    assert models.loaded() == ["tiny"]


def test_what_fails_is_said_with_what_is_refused(server):
    card = server.get("/api/models/org%2Fwrong").json()
    assert card["name"] == "org/wrong"
    assert card["checks"] == [{"name": "look-ahead", "verdict": "fails", "message": WHY}]
    assert card["verdict"][0] == f"look-ahead: {WHY}"
    assert card["verdict"][-1] == "Attention that no token gets goes to a learned sink."
    assert card["refused"]["heads"] == WHY
    assert "geometry" not in card["refused"]


def test_a_computation_that_needs_what_fails_is_refused_before_it_starts(server):
    refused = server.post("/api/jobs", json={"analysis": "heads", "model": "org/wrong"})
    assert refused.status_code == 400
    assert refused.json()["error"].startswith(f"wrong: its attention maps cannot be used: {WHY}; ")
    assert server.get("/api/jobs").json() == []


def test_the_lens_shows_a_word_without_the_heads_that_fail(server):
    asked = {"sentence": "Dogs bark .", "word": 1}
    assert server.post("/api/lens/reading", json={**asked, "model": "org/wrong"}).json()["attention"] is None
    assert server.post("/api/lens/reading", json={**asked, "model": "tiny"}).json()["attention"] is not None


def test_an_unknown_model_is_a_404(server):
    assert server.get("/api/models/other").status_code == 404
    assert server.get("/api/models/").status_code in (404, 307)
