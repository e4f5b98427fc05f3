"""Estimates of computations: tried once, remembered, and not while something runs."""

from __future__ import annotations

import sys
import time

import pytest

from lamina.web.jobs import CostEstimate, Estimates

PROGRAM = """
import json, sys
from pathlib import Path
asked = json.load(sys.stdin)
with Path(asked["counted"]).open("a") as file: file.write("tried\\n")
if asked.get("fails"): print("lamina: there is no such corpus", file=sys.stderr); sys.exit(2)
print(json.dumps({"seconds": 41.5, "memory": 10**9, "disk": 7}))
"""


@pytest.fixture
def estimating(tmp_path, monkeypatch):
    """Makes estimators that share one cache; `busy` in the list keeps them waiting."""
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    busy: list[bool] = []
    made: list[Estimates] = []

    def make() -> Estimates:
        made.append(Estimates(lambda: bool(busy), program=(sys.executable, "-c", PROGRAM)))
        return made[-1]

    make.busy = busy
    make.request = {"analysis": "geometry", "counted": str(tmp_path / "counted"), "out": "here"}
    yield make
    for each in made:
        each.close()


def settled(estimates: Estimates, request) -> CostEstimate:
    for _ in range(6000):
        if (found := estimates.get(request)).state in ("known", "failed"):
            return found
        time.sleep(0.01)
    raise AssertionError(found)


def test_a_trial_is_made_once_and_remembered(estimating, tmp_path):
    one = estimating()
    assert one.get(estimating.request).state in ("waiting", "trying")
    assert settled(one, estimating.request) == CostEstimate("known", 41.5, 10**9, 7)
    again = estimating()
    # Where the result would go changes nothing.
    assert again.known({**estimating.request, "out": "elsewhere"}) == 41.5
    assert again.get(estimating.request).state == "known"
    assert (tmp_path / "counted").read_text() == "tried\n"


def test_what_cannot_be_tried_says_why(estimating):
    found = settled(estimating(), {**estimating.request, "fails": True})
    assert (found.state, found.why) == ("failed", "there is no such corpus")


def test_nothing_is_tried_while_a_computation_runs(estimating, tmp_path):
    estimating.busy.append(True)
    one = estimating()
    one.get(estimating.request)
    time.sleep(0.2)
    assert one.get(estimating.request).state == "waiting"
    assert one.known(estimating.request) is None
    assert not (tmp_path / "counted").exists()
    estimating.busy.clear()
    assert settled(one, estimating.request).seconds == 41.5


def test_without_trials_only_what_was_tried_before_is_known(estimating):
    settled(estimating(), estimating.request)
    off = Estimates(lambda: False, on=False)
    assert off.get(estimating.request).seconds == 41.5
    assert off.get({**estimating.request, "analysis": "heads"}).state == "off"
