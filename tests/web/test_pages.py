"""The pages, their scripts and the description of the API: all from this server."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from lamina.web.pages import VIEWS

ALONE = (
    "api.js",
    "dom.js",
    "heads_canvas.js",
    "heads_style.js",
    "questions_places.js",
    "questions_roles.js",
    "state.js",
)
"""Scripts that import nothing."""


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_every_view_has_a_page_that_names_nothing_elsewhere(client, view):
    answer = client().get(view.path)
    assert answer.status_code == 200
    assert f"<h1>{view.title}</h1>" in answer.text
    assert answer.text.count('aria-current="page"') == 1
    for address in re.findall(r'(?:src|href)="([^"]+)"', answer.text):
        assert address.startswith(("/", "#", "data:,")), address


def test_scripts_and_styles_load_nothing_from_elsewhere(client):
    server = client()
    for part in files("lamina.web").joinpath("static").iterdir():
        answer = server.get(f"/static/{part.name}")
        assert answer.status_code == 200
        loaded = re.findall(r"""(?:from |import |import\(|url\()["']?([^"')\s]*[/.][^"')\s]*)["')]""", answer.text)
        assert loaded or part.suffix == ".css" or part.name in ALONE, part.name
        assert all(address.startswith(("./", "/static/", "data:")) for address in loaded), (part.name, loaded)
        assert "innerHTML" not in answer.text


def test_the_charts_script_is_made_here(client):
    answer = client().get("/static/vega.js")
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "vegaEmbed" in answer.text


def test_the_api_is_described_without_a_cdn(client):
    server = client()
    described = server.get("/api/openapi.json").json()
    page = server.get("/api").text
    for path, methods in described["paths"].items():
        assert path.startswith("/api/")
        for method in methods:
            assert f"{method.upper()} {path}" in page


def test_what_is_not_there_is_said(client):
    answer = client().get("/nothing")
    assert answer.status_code == 404
    assert answer.json() == {"error": "Not Found"}


def test_what_a_page_begins_with(client):
    about = client(sentence="Dogs bark.").get("/api/about").json()
    assert about["sentence"] == "Dogs bark."
    assert about["corpora"] == ["ewt"]
    assert [model["name"] for model in about["models"]] == ["tiny"]
