"""Progress for programs: lines of JSON on standard error, where they are asked for."""

from __future__ import annotations

import json

from lamina.progress import LINES, progress


def test_lines_tell_the_step_and_how_far_it_is(monkeypatch, capsys):
    monkeypatch.setenv(LINES, "json")
    with progress("encoding", total=3) as advance:
        advance(1, note="train")
        advance(2)
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert said[0] == {"what": "encoding", "done": 0.0, "total": 3}
    assert said[-1] == {"what": "encoding", "done": 3.0, "total": 3}


def test_many_steps_are_told_in_few_lines(monkeypatch, capsys):
    monkeypatch.setenv(LINES, "json")
    with progress("counting", total=10_000) as advance:
        for _ in range(10_000):
            advance()
    said = capsys.readouterr().err.splitlines()
    assert json.loads(said[-1])["done"] == 10_000
    assert len(said) < 100
