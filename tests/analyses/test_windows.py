"""What tagging through attention windows is said to show."""

from __future__ import annotations

import pandas as pd
import pytest

from lamina.analyses.windows import BY_WORD, CONSTANT, windows
from lamina.figures.windows import draw
from lamina.results import Provenance, Result


def result(scores: dict[str, float], lacks: dict[str, tuple[float, float, float]], seeds: int = 1) -> Result:
    """Window -> accuracy, and -> its difference from the whole text."""
    names = [*map(str, range(seeds)), "all"]
    tables = {
        "scores": pd.DataFrame(
            [(w, seed, "accuracy", 100, v, v - 0.01, v + 0.01) for w, v in scores.items() for seed in names],
            columns=list(windows.tables["scores"].columns),
        ),
        "differences": pd.DataFrame(
            [(window, "accuracy", *own) for window, own in lacks.items()],
            columns=list(windows.tables["differences"].columns),
        ),
        "baseline": pd.DataFrame(
            [(BY_WORD, "accuracy", 0.85, 0.84, 0.86), (CONSTANT, "accuracy", 0.2, 0.19, 0.21)],
            columns=list(windows.tables["baseline"].columns),
        ),
    }
    return Result("windows", tables, Provenance({"name": "minilm"}, {"name": "ewt"}, {"task": "pos"}))


def said(given: Result) -> dict[str, str]:
    return {each.text: each.status for each in windows.findings(given)}


def test_the_smallest_window_that_is_enough_and_the_word_alone():
    told = said(
        result(
            {"0": 0.88, "2": 0.95, "8": 0.95, "all": 0.95},
            {"0": (-0.07, -0.08, -0.06), "2": (-0.001, -0.003, 0.001), "8": (0.0, -0.002, 0.002)},
        )
    )
    assert told == {
        "2 words on each side are enough: accuracy .95 [.94, .96]; the whole text gives .95 [.94, .96], a difference "
        "of -.001 [-.003, .001].": "null",
        "With the whole text accuracy is .95 [.94, .96]; a model whose words see only themselves reaches .88 "
        "[.87, .89].": "clear",
        "Words that see only themselves reach accuracy .88 [.87, .89]; each word's most frequent label in training "
        "gives .85 [.84, .86].": "clear",
    }  # fmt: skip


def test_wide_intervals_leave_it_open():
    told = said(result({"2": 0.93, "all": 0.95}, {"2": (-0.02, -0.05, 0.01)}))
    assert told == {
        "2 words on each side may be enough: accuracy .93 [.92, .94]; the whole text gives .95 [.94, .96], a "
        "difference of -.020 [-.050, .010].": "open",
    }  # fmt: skip


def test_no_window_may_be_enough():
    told = said(result({"0": 0.8, "1": 0.9, "all": 0.95}, {"0": (-0.15, -0.2, -0.1), "1": (-0.05, -0.06, -0.04)}))
    assert told[
        "No window does as well as the whole text: 1 words on each side lack .050 [.040, .060] of .95 [.94, .96] "
        "(accuracy)."
    ] == "clear"  # fmt: skip


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_chart_has_every_window_and_marks_seeds(seeds):
    spec = draw(result({"0": 0.8, "16": 0.9, "2": 0.9, "all": 0.95}, {}, seeds))["windows"].to_dict()
    layers = spec["concat"][0]["layer"]
    line = next(each for each in layers if each["mark"]["type"] == "line")
    assert line["encoding"]["x"]["sort"] == ["0", "16", "2", "whole text"]
    assert sum(each["mark"]["type"] == "tick" for each in layers) == (seeds > 1)
    assert spec["description"].endswith("whole text 0.950.")
