"""What tagging through attention windows is said to show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lamina.analyses.words.windows import BY_WORD, CONSTANT, difference_table, score_table, scores_by_metric, windows
from lamina.figures.windows import draw
from lamina.framework.verify import check_findings
from lamina.results import Provenance, Result
from lamina.training.objective import Sum, TextOutcome


def outcomes(share: float, seed: int, spread: float, documents: int = 40) -> list[TextOutcome]:
    """Documents of 100 words with about this share of right tags."""
    level = np.random.default_rng(0).normal(share, 0.02, documents)
    own = np.random.default_rng([seed, int(1000 * share)]).normal(0, spread, documents)
    return [
        TextOutcome(f"d{at}", {"accuracy": Sum(float(min(100, 100 * (level[at] + own[at]))), 100, 100)})
        for at in range(documents)
    ]


def result(shares: dict[str, float], seeds: int = 1, spread: float = 0.001, documents: int = 40) -> Result:
    """Window -> accuracy; labels looked up by word have .85."""
    runs = {
        window: [outcomes(share, seed, spread, documents) for seed in range(seeds)] for window, share in shares.items()
    }
    by_word = outcomes(0.85, 99, spread, documents)
    scores = {window: scores_by_metric(dict(enumerate(own)), 0) for window, own in runs.items()}
    tables = {
        "scores": score_table(scores),
        "differences": difference_table(runs, by_word, "document", seed=0),
        "baseline": pd.DataFrame(
            [(BY_WORD, "accuracy", 0.85, 0.84, 0.86), (CONSTANT, "accuracy", 0.2, 0.19, 0.21)],
            columns=list(windows.tables["baseline"].columns),
        ),
    }
    made = Result("windows", tables, Provenance({"name": "minilm"}, {"name": "ewt"}, {"task": "pos"}))
    made = replace(made, findings=windows.findings(made))
    assert not check_findings(made)
    return made


def said(given: Result) -> dict[str, str]:
    return {each.text: each.status for each in given.findings}


def test_the_smallest_window_that_is_enough_and_the_word_alone():
    told = said(result({"0": 0.88, "2": 0.949, "8": 0.95, "all": 0.95}))
    assert list(told.values()) == ["clear", "clear", "null"]
    first, second, enough = told
    assert enough.startswith("2 words on each side are enough: accuracy .948, with the whole text .949 (")
    assert first.startswith("Of a model whose words see only themselves accuracy is lower than that of the whole text")
    assert second.startswith(
        "Of a model whose words see only themselves accuracy is higher than that of each word's most frequent label"
    )


def test_too_little_is_known_of_a_small_lack():
    ((text, status),) = said(result({"2": 0.945, "all": 0.95}, spread=0.03)).items()
    assert status == "open"
    assert text.startswith("It is not known whether 2 words on each side are enough, within 1 point of")


def test_no_window_may_be_enough():
    # Told only where every window is clearly behind: its contrast is that of the one that is least so.
    told = said(result({"0": 0.8, "1": 0.9, "all": 0.95}))
    (text,) = [text for text in told if text.startswith("No window does as well as the whole text: with 1 words")]
    assert told[text] == "clear"


def test_few_documents_are_too_few():
    told = said(result({"0": 0.8, "all": 0.95}, documents=4))
    assert set(told.values()) == {"untested"}
    assert all(text.startswith("4 documents are too few to test whether") for text in told)


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_chart_has_every_window_and_marks_seeds(seeds):
    spec = draw(result({"0": 0.8, "16": 0.9, "2": 0.9, "all": 0.95}, seeds))["windows"].to_dict()
    layers = spec["concat"][0]["layer"]
    line = next(each for each in layers if each["mark"]["type"] == "line")
    assert line["encoding"]["x"]["sort"] == ["0", "16", "2", "whole text"]
    assert sum(each["mark"]["type"] == "tick" for each in layers) == (seeds > 1)
    assert spec["description"].endswith("whole text 0.949.")
