"""The pages, their scripts and the description of the API: all from this server."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from lamina.analyses.heads.behaviours import BEHAVIOURS
from lamina.figures.theme import COLOURS, DARK, GREY, ROLES, TONES
from lamina.framework.registry import names
from lamina.web.app import CHOOSING, QUESTIONS, VIEWS

STATIC = Path(str(files("lamina.web"))) / "static"
PARTS = sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file())


@pytest.mark.parametrize("view", [*VIEWS, QUESTIONS, CHOOSING], ids=lambda view: view.name)
def test_every_view_has_a_page_that_names_nothing_elsewhere(client, view):
    answer = client().get(view.path)
    assert answer.status_code == 200
    assert f"<h1>{view.title}</h1>" in answer.text
    tabs = answer.text.split('<nav aria-label="Views">')[1].split("</nav>")[0]
    assert tabs.count("<a ") == 4
    assert tabs.count('aria-current="page"') == 1
    for address in re.findall(r'(?:src|href)="([^"]+)"', answer.text):
        assert address.startswith(("/", "#", "data:,")), address


@pytest.mark.parametrize("part", PARTS)
def test_scripts_and_styles_load_nothing_from_elsewhere(client, part):
    server = client()
    answer = server.get(f"/static/{part}")
    assert answer.status_code == 200
    for address in re.findall(r"""(?:from |import |import\(|url\()["']([^"']+)["')]""", answer.text):
        if address == "/static/drawing.js":
            # It lies with the charts: the report has it, too.
            assert server.get(address).text.startswith("// @ts-check\n")
            continue
        assert address.startswith("."), address
        target = (STATIC / part).parent / address
        # Types are imported from a script that only the type checker sees.
        assert target.is_file() or target.with_suffix(".d.ts").is_file(), address
    assert "innerHTML" not in answer.text
    if part.endswith(".js"):
        assert answer.text.startswith("// @ts-check\n")


@pytest.mark.parametrize("part", [part for part in PARTS if part.endswith((".js", ".css"))])
def test_colours_are_tokens(part):
    assert re.findall(r"#[0-9a-fA-F]{6}\b", (STATIC / part).read_text(encoding="utf-8")) == []


def test_no_script_lists_the_analyses():
    """A page may name one that it needs; what there is, in which order, under which titles, is the server's to say."""
    for path in STATIC.rglob("*.js"):
        text = path.read_text(encoding="utf-8")
        # Roles are classes of style sheets, too.
        named = {name for name in names() if f'"{name}"' in text and name != "roles"}
        assert len(named) <= 2, (path, named)


def test_tokens_are_those_of_the_charts_on_light_paper(client):
    tokens = client().get("/static/tokens.css").text
    light = tokens.split("@media")[0]
    assert re.findall(r"--hue-\d+: (#\w+);", light) == list(COLOURS)
    assert re.findall(r"--tone-\d+: (#\w+);", light) == list(TONES)
    assert f"--grey: {GREY};" in light
    dark = tokens.split("@media")[1]
    assert re.findall(r"--(?:hue|tone)-\d+: (#\w+);", dark) == [DARK[each] for each in (*COLOURS, *TONES)]
    assert f"--grey: {DARK[GREY]};" in dark
    assert f"--paper: {DARK['white']};" in dark
    defined = set(re.findall(r"(--[\w-]+):", light))
    own = {"--heads", "--dot", "--role", "--hue"}
    for path in [*STATIC.rglob("*.css"), *STATIC.rglob("*.js"), *Path(str(files("lamina.report"))).glob("*.css")]:
        text = path.read_text(encoding="utf-8")
        used, here = (set(re.findall(what, text)) for what in (r"var\((--[\w-]+)", r"(--[\w-]+):"))
        assert used - {"--hue-"} <= defined | own | here, path


def test_what_things_look_like_is_what_charts_say(client):
    theme = client().get("/api/theme").json()
    assert [look["name"] for look in theme["behaviours"]] == list(BEHAVIOURS)
    assert [look["name"] for look in theme["roles"]] == [role.name for role in ROLES]
    assert theme["roles"][0]["colour"] == COLOURS[0]
    assert theme["roles"][0]["fill"] == "var(--hue-0)"
    # Every one has a value on dark paper.
    assert all(look["fill"].startswith("var(--") for look in (*theme["behaviours"], *theme["roles"]))
    assert theme["dark"] == DARK
    assert {theme["plain"], *theme["rarest"]} <= {look["name"] for look in theme["roles"]}
    assert theme["hues"] == len(COLOURS)


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


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/?sentence=Dogs+bark&word=1", "/sentence?sentence=Dogs+bark&word=1"),
        ("/?mark=dep%3A1%3A0", "/sentence?mark=dep%3A1%3A0"),
        ("/layers?analysis=probe", "/overview?analysis=probe"),
        ("/layers?result=0123456789ab&task=pos", "/runs?result=0123456789ab&task=pos"),
        ("/questions?example=squad-1", "/sentence/question?example=squad-1"),
        ("/results", "/runs"),
    ],
)
def test_addresses_of_earlier_versions_lead_to_where_things_are_now(client, old, new):
    answer = client().get(old, follow_redirects=False)
    assert answer.status_code == 308
    assert answer.headers["location"] == new


def test_the_first_page_is_the_overview(client):
    for address in ("/", "/?model=tiny", "/overview?sentence=Dogs+bark"):
        assert "<h1>Overview</h1>" in client().get(address).text


def test_what_is_not_there_is_said_to_programs_and_to_people(client):
    server = client()
    answer = server.get("/nothing")
    assert answer.status_code == 404
    assert answer.json() == {"error": "Not Found"}
    page = server.get("/no<thing>", headers={"accept": "text/html,*/*"})
    assert page.status_code == 404
    assert "There is no such page" in page.text
    assert "<code>/no&lt;thing&gt;</code>" in page.text
    assert 'href="/overview"' in page.text
    assert server.get("/api/nothing", headers={"accept": "text/html"}).json() == {"error": "Not Found"}


def test_what_a_page_begins_with(client):
    about = client(sentence="Dogs bark.").get("/api/about").json()
    assert about["sentence"] == "Dogs bark."
    assert about["corpora"] == ["ewt"]
    assert len(about["examples"]) >= 3
    assert all(each["why"] for each in about["examples"])
    assert [model["name"] for model in about["models"]] == ["tiny"]
