"""`lamina model check`: one row per model, what fails and what follows, and an exit status that says it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lamina.models.checks import passports
from lamina.models.checks.passports import Check, examine

AHEAD = Check("look-ahead", "fails", "Maps look ahead by 0.4.", 0.4, ("maps",))


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    """Nothing is known of any model."""
    monkeypatch.setattr(passports, "_KNOWN", {})
    monkeypatch.setattr(passports, "cache_dir", lambda: tmp_path / "cache")


@pytest.fixture
def wrong(monkeypatch):
    """Every model that is examined looks ahead."""

    def looks_ahead(encoder):
        found = examine(encoder)
        others = (check for check in found.checks if check.name != AHEAD.name)
        return replace(found, checks=(*others, AHEAD))

    monkeypatch.setattr(passports, "examine", looks_ahead)


def test_a_sound_model_has_a_row_and_status_0(run, bert):
    done = run("model", "check", bert)
    assert done.exit_code == 0
    head, row, *_ = done.output.splitlines()
    assert head.split()[:2] == ["model", "architecture"]
    assert row.split()[:2] == [str(bert), "BertModel"]
    assert "FAILS" not in row
    assert "sees the whole text; 2 blocks, 2 heads, 16 wide; attention maps in every block" in done.output


def test_what_fails_is_told_with_what_follows_and_status_1(run, bert, wrong):
    done = run("model", "check", bert)
    assert done.exit_code == 1
    assert "FAILS 0.4" in done.output
    assert "look-ahead: Maps look ahead by 0.4." in done.output
    assert "Refused: attention, attention_distance, heads, headmap, corefheads, parse, look, roles.\n" in done.output
    assert "All other analyses work." in done.output


def test_one_that_cannot_be_loaded_does_not_stop_the_others(run, bert, tmp_path):
    done = run("model", "check", tmp_path / "nothing", bert, "--json")
    assert done.exit_code == 2
    said, at = json.JSONDecoder().raw_decode(done.output)
    assert [each["name"] for each in said] == [str(bert), str(tmp_path / "nothing")]
    assert (said[0]["architecture"], said[0]["blocks"]) == ("BertModel", 2)
    assert {check["verdict"] for check in said[0]["checks"]} <= {"holds", "not applicable"}
    assert said[1]["error"] in done.output[at:]
    assert "Traceback" not in done.output


def test_a_command_that_needs_what_fails_is_refused_and_another_is_not(run, bert, treebank, store, tmp_path, wrong):
    given = ["--corpus", treebank, "--split", "dev", "--out", tmp_path / "out"]
    refused = run("heads", bert, *given)
    assert refused.exit_code == 2
    assert "its attention maps cannot be used: Maps look ahead by 0.4; analyses of its states work" in refused.output
    assert not (tmp_path / "out").exists()
    done = run("geometry", bert, *given, "--store", store, "--samples", 5, "--no-twin")
    assert done.exit_code == 0
    kept = json.loads((tmp_path / "out" / "result.json").read_text())
    assert kept["provenance"]["model"]["passport"]["fails"] == {"look-ahead": "Maps look ahead by 0.4."}


def test_a_request_file_is_refused_the_same_way(run, bert, treebank, tmp_path, wrong):
    path = tmp_path / "request.toml"
    path.write_text(f'analysis = "look"\nmodel = "{bert}"\nsentence = "The dog barked."\nout = "{tmp_path / "out"}"\n')
    refused = run("run", path)
    assert refused.exit_code == 2
    assert "its attention maps cannot be used: Maps look ahead by 0.4" in refused.output


@pytest.mark.real
def test_the_real_model_passes(run, real_encoder):
    done = run("model", "check", "minilm", "--device", "cpu")
    assert done.exit_code == 0
    assert "6 blocks, 12 heads, 384 wide; attention maps in every block" in done.output
    assert "FAILS" not in done.output
