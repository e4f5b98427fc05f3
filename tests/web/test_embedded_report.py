"""The report in the app: a file that may come from anyone. It is shown, and can do nothing; tables lie beside it."""

from __future__ import annotations

import os
import re
from base64 import b64decode
from pathlib import Path
from urllib.parse import quote

import pytest

from lamina.testing import TinyEncoder
from lamina.web import app as report_page

HIDDEN = "model,score\nsecret,1\n"
KNOWN = "a-long-secret"
PAGE = """<html><body class="x"><h1>Ours</h1><script>1</script>
<img src="figures/one.svg"><img src="figures/gone.svg"><img src="figures/../secret.svg"><img src="figures/out.svg">
<a id="table" href="results/probe/scores.csv">scores</a></body></html>"""


@pytest.fixture
def report(tmp_path) -> Path:
    """A report with a table and an image, and secrets beside and around it."""
    folder = tmp_path / "report"
    (folder / "results" / "probe").mkdir(parents=True)
    (folder / "figures").mkdir()
    (folder / "index.html").write_text(PAGE)
    (folder / "results" / "probe" / "scores.csv").write_text("model,score\ntiny,0.5\n")
    (folder / "figures" / "one.svg").write_text("<svg>one</svg>")
    for secret in (tmp_path / "secret.csv", folder / "secret.csv", folder / "secret.svg", tmp_path / "secret.svg"):
        secret.write_text(HIDDEN)
    (folder / "figures" / "out.svg").symlink_to(tmp_path / "secret.svg")
    return folder


def test_it_is_shown_with_a_way_back_and_as_of_no_site(client, report, tmp_path):
    answer = client(folders=[tmp_path / "results", report]).get("/report")
    assert '<body class="x"><nav aria-label="The app"' in answer.text
    assert 'href="/overview"' in answer.text
    (policy,) = answer.headers.get_list("content-security-policy")
    assert policy.startswith("sandbox allow-scripts ")
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy


def test_images_come_with_it_and_only_those_that_lie_there(client, report):
    page = client(folders=[report]).get("/report").text
    held = [b64decode(each).decode() for each in re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', page)]
    assert held == ["<svg>one</svg>"]
    assert page.count('src="data:,"') == 2
    assert "secret,1" not in page


def test_images_are_not_held_without_end(client, report, monkeypatch):
    (report / "index.html").write_text("<body>" + 9 * '<img src="figures/one.svg">')
    monkeypatch.setattr(report_page, "LONGEST", 300)
    page = client(folders=[report]).get("/report").text
    # 300 bytes hold 20 images of 14 bytes, and the page has nine; then one that is too large.
    assert page.count("base64,") == 9
    (report / "figures" / "one.svg").write_text("x" * 200)
    page = client(folders=[report]).get("/report").text
    assert (page.count("base64,"), page.count('"data:,"')) == (1, 8)
    (report / "index.html").write_text("x" * 301)
    assert client(folders=[report]).get("/report").status_code == 400


def test_without_one_it_is_said_how_to_make_one(client):
    answer = client().get("/report")
    assert answer.status_code == 404
    assert "lamina report" in answer.text
    assert client().get("/report/results/probe/scores.csv").status_code == 404


def test_a_link_in_its_place_is_not_followed(client, report, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "index.html").symlink_to(report / "index.html")
    assert client(folders=[other]).get("/report").status_code == 404


def test_its_links_lead_to_its_tables(client, report):
    server = client(folders=[report])
    assert 'href="/report/results/probe/scores.csv"' in server.get("/report").text
    answer = server.get("/report/results/probe/scores.csv")
    assert answer.text == "model,score\ntiny,0.5\n"
    assert answer.headers["content-disposition"] == 'attachment; filename="scores.csv"'


WAYS_OUT = [
    *("../secret.csv", "../../secret.csv", "probe/../../secret.csv", "./../secret.csv", "probe/../../../secret.csv"),
    *("....//secret.csv", "..;/secret.csv", "..\\secret.csv", "~/secret.csv", "", ".", "probe", "probe/"),
    *("probe/scores.csv/../../../secret.csv", "probe/scores.csv\0", "\0.csv", "x" * 5000 + ".csv"),
    *("\udcff.csv", "probe/scores.CSV", "probe/scores.csv.bak"),
]


@pytest.mark.parametrize("path", [*WAYS_OUT, "ABSOLUTE", "/ABSOLUTE"], ids=range(len(WAYS_OUT) + 2))
@pytest.mark.parametrize("spelled", ["plain", "quoted", "twice"])
def test_there_is_no_way_out_of_its_folder(client, report, tmp_path, path, spelled):
    wanted = path.replace("ABSOLUTE", str(tmp_path / "secret.csv"))
    once = quote(wanted.encode("utf-8", "surrogateescape"), safe="/." if spelled == "plain" else "")
    address = {"plain": once, "quoted": once.replace(".", "%2e"), "twice": quote(once)}[spelled]
    answer = client(folders=[report]).get(f"http://127.0.0.1:8600/report/results/{address}")
    assert "secret,1" not in answer.text
    assert answer.status_code == 404, answer.text


def test_nothing_but_tables_is_served(client, report):
    server = client(folders=[report])
    for name in ("result.json", "model.safetensors", "page.html", "chart.svg", "notes.csv.txt", "csv", ".csv"):
        (report / "results" / "probe" / name).write_text(HIDDEN)
        assert server.get(f"/report/results/probe/{name}").status_code == 404, name
    (report / "results" / "probe" / "kept.parquet").write_text("PAR1")
    assert server.get("/report/results/probe/kept.parquet").text == "PAR1"
    os.mkfifo(report / "results" / "probe" / "pipe.csv")
    assert server.get("/report/results/probe/pipe.csv").status_code == 404


def test_links_out_of_the_folder_are_not_followed(client, report, tmp_path):
    results, server = report / "results", client(folders=[report])
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "secret.csv").write_text(HIDDEN)
    (results / "file.csv").symlink_to(outside / "secret.csv")
    (results / "folder").symlink_to(outside)
    (results / "upwards").symlink_to("..")
    (results / "round.csv").symlink_to("round.csv")
    for path in ("file.csv", "folder/secret.csv", "upwards/secret.csv", "round.csv"):
        assert server.get(f"/report/results/{path}").status_code == 404, path
    # One that stays inside is what it leads to.
    (results / "inside.csv").symlink_to("probe/scores.csv")
    assert server.get("/report/results/inside.csv").status_code == 200
    # Nor is the whole folder, where it is a link.
    other = tmp_path / "other"
    other.mkdir()
    (other / "index.html").write_text(PAGE)
    (other / "results").symlink_to(outside)
    assert client(folders=[other]).get("/report/results/secret.csv").status_code == 404


def test_its_tables_need_the_token(client, report):
    server = client(folders=[report], token=KNOWN)
    assert server.get("/report/results/probe/scores.csv").status_code == 401
    headers = {"authorization": f"Bearer {KNOWN}"}
    assert server.get("/report/results/probe/scores.csv", headers=headers).status_code == 200


@pytest.mark.browser
def test_its_links_work_on_a_server_with_a_token(chromium, served, report, tmp_path):
    """In its sandbox it is a page of no site, and browsers keep the cookie from what such pages open."""
    address = served({"tiny": TinyEncoder()}, [report], token=KNOWN)
    with chromium(tmp_path / "profile") as context:
        page = context.new_page()
        page.goto(f"{address}/report")
        page.get_by_text("asks for its token").wait_for()
        page.goto(f"{address}/report?token={KNOWN}")
        page.get_by_role("heading", name="Ours").wait_for()
        with page.expect_download() as download:
            page.click("#table")
        assert "tiny,0.5" in Path(download.value.path()).read_text()
        page.goto(f"{address}/report")
        page.get_by_role("navigation", name="The app").get_by_role("link", name="Runs").click()
        page.get_by_role("heading", name="Runs").wait_for()
        page.go_back()
        page.get_by_role("heading", name="Ours").wait_for()
        # Whoever does not have it stays outside, whoever sent them.
        context.clear_cookies()
        page.get_by_role("link", name="Runs").click()
        page.get_by_text("asks for its token").wait_for()
