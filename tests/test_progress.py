"""Progress where there is no terminal: lines for people, JSON for programs, or nothing."""

from __future__ import annotations

import json

import pytest

from lamina import progress as module
from lamina.progress import VARIABLE, in_one_line, progress, say


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only when it is told to."""
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_json_tells_the_step_and_how_far_it_is(monkeypatch, capsys):
    monkeypatch.setenv(VARIABLE, "json")
    with progress("encoding", total=3) as advance:
        advance(1, note="train")
        advance(2)
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert said[0] == {"what": "encoding", "done": 0.0, "total": 3}
    assert said[-1] == {"what": "encoding (train)", "done": 3.0, "total": 3}


def test_many_steps_are_told_in_few_lines_of_json(monkeypatch, capsys):
    monkeypatch.setenv(VARIABLE, "json")
    with progress("counting", total=10_000) as advance:
        for _ in range(10_000):
            advance()
    said = capsys.readouterr().err.splitlines()
    assert json.loads(said[-1])["done"] == 10_000
    assert len(said) < 100


def test_in_a_pipe_a_step_begins_and_ends_with_a_line(monkeypatch, capsys, clock):
    monkeypatch.delenv(VARIABLE, raising=False)
    with progress("encoding", total=1000) as advance:
        for _ in range(1000):
            clock[0] += 0.125
            advance()
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "encoding: ..."
    assert said[-1] == "encoding: done in 125.0 s"
    assert said[1:-1] == [f"encoding: {done} of 1,000" for done in (240, 480, 720, 960)]


def test_a_step_of_unknown_length_says_its_note(monkeypatch, capsys, clock):
    monkeypatch.setenv(VARIABLE, "lines")
    with progress("reading") as advance:
        clock[0] = 31
        advance(5, note="train")
    assert "reading: 5 (train)" in capsys.readouterr().err


def test_nothing_is_said_where_nothing_is_wanted(monkeypatch, capsys):
    monkeypatch.setenv(VARIABLE, "none")
    with progress("encoding", total=1) as advance:
        advance()
    say("replaced")
    assert capsys.readouterr().err == ""
    monkeypatch.setenv(VARIABLE, "lines")
    say("replaced")
    assert capsys.readouterr().err == "lamina: replaced\n"


def test_a_step_that_fails_does_not_claim_to_be_done(monkeypatch, capsys):
    monkeypatch.setenv(VARIABLE, "lines")
    with pytest.raises(ValueError, match="broken"), progress("encoding"):
        raise ValueError("broken")
    assert "done" not in capsys.readouterr().err


def test_the_steps_of_an_analysis_are_one_line_in_a_log_and_long_ones_say_how_far_they_are(monkeypatch, capsys, clock):
    monkeypatch.setenv(VARIABLE, "lines")
    with in_one_line("probe"):
        for _ in range(50):
            with progress("a short step", 3) as advance:
                advance(3)
        with progress("encoding", 1000) as advance:
            for _ in range(1000):
                clock[0] += 0.125
                advance()
    said = capsys.readouterr().err.splitlines()
    assert said == [*(f"encoding: {done} of 1,000" for done in (240, 480, 720, 960)), "probe: done in 125.0 s"]


def test_an_analysis_that_fails_does_not_claim_to_be_done(monkeypatch, capsys):
    monkeypatch.setenv(VARIABLE, "lines")
    with pytest.raises(ZeroDivisionError), in_one_line("probe"), progress("a step", 3):
        raise ZeroDivisionError
    assert capsys.readouterr().err == ""
