"""A table that a page was given: kept, described, read by a job, and refused in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.web.state import Limits

TABLE = "review,stars,score,id\n" + "".join(
    f'"It was a {word} day, number {n}",{word},{n}.5,{word}-{n}\n' for n in range(20) for word in ("good", "bad")
)


@pytest.fixture
def asked(client, tmp_path: Path):
    """A client of a server without trials, that takes tables of 100,000 bytes."""
    return client(folders=[tmp_path], estimates=False, limits=Limits(table=100_000))


def test_a_table_is_kept_and_its_columns_are_described(asked, tmp_path):
    kept = asked.post("/api/tables", json={"name": "../my reviews.csv", "text": TABLE}).json()
    assert {column["name"]: column["looks_like"] for column in kept["columns"]} == {
        "review": "text", "stars": "labels", "score": "values", "id": "ids",
    }  # fmt: skip
    assert kept["rows"] == 40
    (file,) = (tmp_path / "tables").iterdir()
    assert file.name == kept["name"]
    assert file.read_text(encoding="utf-8") == TABLE
    # The same table again is the same file.
    assert asked.post("/api/tables", json={"name": "my reviews.csv", "text": TABLE}).json()["name"] == kept["name"]


def test_a_kept_table_can_be_read_by_a_job_and_others_cannot(asked):
    name = asked.post("/api/tables", json={"name": "a.csv", "text": TABLE}).json()["name"]
    wanted = {"analysis": "choose", "model": "tiny", "settings": {"task": "label"}}
    data = {"name": name, "format": "table:text=review,label=stars"}
    answer = asked.post("/api/tables/estimate", json=wanted | {"data": data})
    assert answer.status_code == 200, answer.text
    assert answer.json()["state"] in ("off", "known")
    other = asked.post("/api/tables/estimate", json=wanted | {"data": data | {"name": "../a.csv"}})
    assert other.status_code == 400
    assert "were not named when this server was started" in other.json()["error"]


def test_what_is_no_table_is_refused_and_not_kept(asked, tmp_path):
    answer = asked.post("/api/tables", json={"name": "a.csv", "text": "Only a line of prose, with a comma."})
    assert answer.status_code == 400
    assert "is not a table" in answer.json()["error"]
    assert not list((tmp_path / "tables").iterdir())


def test_only_a_table_may_be_larger_than_other_requests(asked):
    assert asked.post("/api/tables", json={"name": "a.csv", "text": "x" * 100_001}).status_code == 413
    assert asked.post("/api/jobs", json={"analysis": "x" * 300_000, "model": "m"}).status_code == 413
