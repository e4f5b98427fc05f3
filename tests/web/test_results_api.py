"""Saved results through the API: found, shown, taken away; and nothing else can be read."""

from __future__ import annotations

import io
import json
import os
import time
from dataclasses import replace

import pandas as pd
import pytest

from lamina.errors import InputError
from lamina.results import Provenance, Result
from lamina.results.finding import Finding
from lamina.testing import TinyEncoder
from lamina.web.state import Limits
from lamina.web.workers import DeadlineError

ABOUT = Provenance({"name": "m", "fingerprint": "f"}, {"name": "c", "fingerprint": "g"}, {}, command="lamina try")


@pytest.fixture(scope="module")
def folder(make_geometry, tmp_path_factory):
    root = tmp_path_factory.mktemp("kept")
    make_geometry().save(root / "report" / "results" / "geometry")
    return root


@pytest.fixture
def probed(tmp_path):
    """A result whose rows are of tasks; it has no chart."""
    scores = pd.DataFrame({"task": ["pos", "ner"], "value": [0.9, float("nan")]})
    Result("trial", {"scores": scores}, ABOUT).save(tmp_path / "kept" / "trial")
    return tmp_path / "kept"


def test_results_are_found_in_the_named_folders_at_any_depth_a_report_has(client, folder):
    (only,) = client(folders=[folder]).get("/api/results").json()
    assert (only["analysis"], only["model"], only["corpus"], only["split"]) == ("geometry", "minilm", "ewt", "dev")
    assert only["name"] == f"{folder.name}/report/results/geometry"
    assert only["command"] == "lamina report minilm --corpus ewt --out report"
    assert only["tables"] == ["layers"]


def test_one_result_has_charts_words_and_provenance(client, folder):
    server = client(folders=[folder])
    id = server.get("/api/results").json()[0]["id"]
    whole = server.get(f"/api/results/{id}").json()
    (figure,) = whole["figures"]
    assert figure["name"] == "layers"
    assert figure["spec"]["$schema"].startswith("https://vega.github.io")
    assert figure["summary"]
    assert figure["caption"]
    assert whole["rows"] == {"layers": 112}
    assert whole["provenance"]["seeds"] == [0]
    assert whole["question"]
    assert whole["findings"] == []


def test_findings_are_told_with_their_status_and_old_results_have_none(client, make_geometry, tmp_path):
    said = (Finding("Layer 3 is best", "lead", "clear", 0.9, 0.89, 0.91), Finding("it holds", "", "open"))
    replace(make_geometry(), findings=said).save(tmp_path / "kept" / "new", charts=False)
    folder = make_geometry().save(tmp_path / "kept" / "old", charts=False)
    head = json.loads((folder / "result.json").read_text())
    newer = ("findings", "version", "question", "hashes", "checksum")
    old = {name: value for name, value in head.items() if name not in newer}
    (folder / "result.json").write_text(json.dumps(old | {"format": 1}))
    server = client(folders=[tmp_path / "kept"])
    listed = {each["name"].split("/")[-1]: each for each in server.get("/api/results").json()}
    told = [{"text": each.text, "status": each.status, "weight": each.weight} for each in said]
    assert listed["new"]["findings"] == told
    assert server.get(f"/api/results/{listed['new']['id']}").json()["findings"] == told
    assert listed["old"]["findings"] == server.get(f"/api/results/{listed['old']['id']}").json()["findings"] == []


def test_a_chart_downloads_as_an_image(client, folder):
    server = client(folders=[folder])
    id = server.get("/api/results").json()[0]["id"]
    for kind, start in (("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF")):
        answer = server.get(f"/api/results/{id}/charts/layers.{kind}")
        assert answer.content.startswith(start)
        assert answer.headers["content-disposition"] == f'attachment; filename="geometry-layers.{kind}"'


ENDLESS = {
    "data": {"sequence": {"start": 0, "stop": 1e13, "as": "x"}},
    "mark": "point",
    "encoding": {"x": {"field": "x", "type": "quantitative"}},
}
"""A chart that is drawn for ever."""


def test_a_chart_that_never_ends_keeps_no_other_waiting(client, folder):
    with client(folders=[folder], limits=Limits(answer_seconds=5.0)) as server:
        drawing = server.app.state.lamina.charts
        with pytest.raises(DeadlineError, match="was not drawn within 5 seconds"):
            drawing.draw("svg", ENDLESS)
        # It is not tried again, which would take as long; and the next chart has a process of its own.
        start = time.monotonic()
        with pytest.raises(DeadlineError):
            drawing.draw("svg", ENDLESS)
        assert time.monotonic() - start < 4
        id = server.get("/api/results").json()[0]["id"]
        assert server.get(f"/api/results/{id}/charts/layers.svg").content.startswith(b"<svg")
        # What is no chart is told in a sentence.
        with pytest.raises(InputError, match="the chart cannot be drawn"):
            drawing.draw("svg", {"mark": {"type": "nothing"}, "data": {"values": 3}, "layer": 5})


def test_a_table_downloads_whole(client, folder, make_geometry):
    server = client(folders=[folder])
    id = server.get("/api/results").json()[0]["id"]
    answer = server.get(f"/api/results/{id}/tables/layers.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(answer.text)), make_geometry().tables["layers"])


def test_charts_can_be_asked_for_by_task(client, probed):
    server = client(folders=[probed])
    id = server.get("/api/results").json()[0]["id"]
    assert server.get(f"/api/results/{id}").json()["tasks"] == ["pos", "ner"]
    assert server.get(f"/api/results/{id}?task=ner").json()["figures"] == []
    refused = server.get(f"/api/results/{id}?task=parsing")
    assert refused.status_code == 404
    assert "it has: pos, ner" in refused.json()["error"]


@pytest.mark.parametrize("path", ["tables/scores%2f..%2fresult.csv", "tables/nothing.csv", "charts/nothing.svg"])
def test_what_is_not_of_the_result_is_not_there(client, probed, path):
    server = client(folders=[probed])
    id = server.get("/api/results").json()[0]["id"]
    assert server.get(f"/api/results/{id}/{path}").status_code in (404, 422)


@pytest.mark.parametrize("id", ["0" * 12, "%2e%2e%2fetc", "trial", "0" * 13])
def test_an_id_is_no_path(client, probed, id):
    assert client(folders=[probed]).get(f"/api/results/{id}").status_code in (404, 422)


def test_links_that_lead_outside_are_not_followed(client, probed, tmp_path):
    outside = tmp_path / "outside"
    (outside / "kept").mkdir(parents=True)
    head = json.loads((probed / "trial" / "result.json").read_text())
    (outside / "kept" / "result.json").write_text(json.dumps(head | {"analysis": "secret"}))
    (probed / "linked").symlink_to(outside / "kept", target_is_directory=True)
    (probed / "file").mkdir()
    (probed / "file" / "result.json").symlink_to(outside / "kept" / "result.json")
    assert [each["analysis"] for each in client(folders=[probed]).get("/api/results").json()] == ["trial"]


def test_folders_of_another_kind_are_passed_over(client, probed):
    for name, body in (("broken", "{"), ("other", '{"format": 99}'), ("bare", '{"format": 1}'), ("list", "[]")):
        (probed / name).mkdir()
        (probed / name / "result.json").write_text(body)
    assert len(client(folders=[probed]).get("/api/results").json()) == 1


def test_a_result_that_lost_a_table_is_told(client, probed):
    (probed / "trial" / "scores.csv").unlink()
    server = client(folders=[probed])
    answer = server.get(f"/api/results/{server.get('/api/results').json()[0]['id']}")
    assert answer.status_code == 400
    assert "make it again" in answer.json()["error"]


def poison(folder, **changes):
    """Change the head of a saved result as a stranger could: without a checksum."""
    head = json.loads((folder / "result.json").read_text())
    kept = {name: value for name, value in head.items() if name not in ("checksum", "hashes")}
    (folder / "result.json").write_text(json.dumps(kept | changes))


def test_one_odd_result_is_passed_over_and_named(client, probed):
    for name, changes in (("climbing", {"tables": {"../secret": {}}}), ("header", {"analysis": 'x"\r\nX-Evil: 1'})):
        Result("trial", {}, ABOUT).save(probed / name, charts=False)
        poison(probed / name, **changes)
    server = client(folders=[probed])
    assert [each["name"] for each in server.get("/api/results").json()] == ["kept/trial"]
    passed = {each["name"]: each["why"] for each in server.get("/api/passed-over").json()}
    assert list(passed) == ["kept/climbing", "kept/header"]
    assert "analysis should be the name of an analysis" in passed["kept/header"]


@pytest.mark.parametrize(
    "chart",
    [
        "{",
        "[]",
        "[" * 100_000,
        '{"mark": "\\ud800"}',
        '{"mark": "nothing", "data": 3}',
        '{"mark": "point", "data": {"url": "file:///etc/passwd"}, "encoding": {"text": {"field": "x"}}}',
    ],
    ids=["no JSON", "a list", "deep", "a surrogate", "no chart", "a file elsewhere"],
)
def test_a_chart_of_a_stranger_breaks_nothing_and_reads_nothing(client, probed, chart):
    poison(probed / "trial")
    (probed / "trial" / "x.vl.json").write_text(chart)
    os.mkfifo(probed / "trial" / "\u8868.vl.json")
    server = client(folders=[probed])
    id = server.get("/api/results").json()[0]["id"]
    for tail in ("", "/charts/x.svg", "/charts/x.png", "/charts/x.pdf", "/charts/\u8868.svg", "/tables/\u8868.csv"):
        answer = server.get(f"/api/results/{id}{tail}")
        assert answer.status_code < 500
        assert b"root:" not in answer.content


@pytest.mark.parametrize("analysis", ["probe", "geometry", "attention", "heads", "corefheads", "headmap"])
def test_tables_that_do_not_fit_their_analysis_are_told(client, tmp_path, analysis):
    tiny = TinyEncoder()
    about = replace(ABOUT, model={"name": "tiny", "fingerprint": tiny.fingerprint})
    for name in ("one", "two"):
        Result(analysis, dict.fromkeys(("scores", "odd"), pd.DataFrame({"x": [1]})), about).save(
            tmp_path / "kept" / name, charts=False
        )
    server = client(models={"tiny": tiny}, folders=[tmp_path / "kept"])
    id = server.get("/api/results").json()[0]["id"]
    asked = {"model": "tiny", "other": "tiny", "sentence": "Dogs bark .", "head": "1-1"}
    answers = [server.get(f"/api/results/{id}"), server.get(f"/api/results/{id}/charts/x.svg")]
    answers += [server.post(f"/api/{path}", json=asked) for path in ("heads/atlas", "heads/card", "compare", "lens")]
    assert [answer.status_code for answer in answers if answer.status_code >= 500] == []
    assert all(answer.json()["error"] for answer in answers if answer.status_code != 200)
    assert 400 in [answer.status_code for answer in answers]


def test_a_task_has_examples_and_failures(client, tmp_path):
    encoder = TinyEncoder()
    words = [("a", place, word) for place, word in enumerate(["Dogs", "bark", "loudly"])]
    about = [("a", "pos", 0, "0:1", None, "NOUN", True), ("a", "pos", 0, "1:2", None, "VERB", True)]
    rivals = [("a", "pos", 0, "0:1", None, "VERB", False), ("a", "pos", 0, "1:2", None, "NOUN", False)]
    shares = {0: (0.4, 0.6, 0.6, 0.4), 2: (0.9, 0.2, 0.1, 0.8)}
    columns = ["text_id", "task", "seed", "span1", "span2", "label", "gold"]
    rows = [
        (*row, layer, share)
        for layer, every in shares.items()
        for row, share in zip(about + rivals, every, strict=True)
    ]
    tables = {
        "traces": pd.DataFrame(rows, columns=[*columns, "layer", "probability"]),
        "words": pd.DataFrame(words, columns=["text_id", "position", "word"]),
    }
    provenance = Provenance(encoder.describe(), {"name": "pets", "fingerprint": "g"}, {})
    Result("probe", tables, provenance).save(tmp_path / "kept" / "probe", charts=False)
    found = client(folders=[tmp_path / "kept"]).post("/api/task", json={"model": "tiny", "task": "pos"}).json()
    assert (found["traced"], found["traced_right"]) == (2, 1)
    (right,), (wrong,) = found["right"], found["wrong"]
    assert (right["words"], right["spans"], right["label"]) == (["Dogs", "bark", "loudly"], [[0, 1]], "NOUN")
    assert (right["first"], right["last"], right["rival"], right["rival_last"]) == (0.4, 0.9, "VERB", 0.1)
    assert (wrong["label"], wrong["last"], wrong["rival"], wrong["rival_last"]) == ("VERB", 0.2, "NOUN", 0.8)
