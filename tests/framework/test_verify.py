"""Findings are derived again, and their numbers are looked up."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

import lamina
from lamina.framework.verify import check_finding, check_findings, check_note, check_words
from lamina.results import Provenance, Result
from lamina.results.finding import Finding, Source, finding
from lamina.stats.status import Contrast
from lamina.testing import TinyEncoder

TABLE = pd.DataFrame(
    {
        "relation": ["case", "obj"],
        "layer": [2, 3],
        "head": [1, 1],
        "accuracy": [0.7512, 0.43],
        "offset_accuracy": [0.361, 0.4],
        "difference": [0.3902, 0.03],
        "diff_low": [0.32, -0.1],
        "diff_high": [0.44, 0.16],
        "p_adjusted": [0.004, 0.6],
        "units": [13, 13],
        "needed": [0, 0],
    }
)
FOUND = finding(
    claim="Head 2-1 finds 75 % of case markers; the best fixed offset finds 36 %",
    whether="head 2-1 finds more case markers than the best fixed offset",
    absent="Head 2-1 finds as many case markers as the best fixed offset",
    contrast="difference",
    test=Contrast.of(next(TABLE.itertuples()), "difference", "diff_low", "diff_high"),
    source=Source("best", {"relation": "case"}),
)


def _wrong(found: Finding) -> list[str]:
    return list(check_finding(found, {"best": TABLE}))


def test_a_finding_of_its_rows_is_borne_out() -> None:
    assert FOUND.status == "clear"
    assert _wrong(FOUND) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"claim": "Head 2-1 finds 76 % of case markers"}, "76 %"),
        ({"claim": "Head 2-2 finds 75 % of case markers"}, "2-2"),
        ({"claim": "Head 2-1 finds .74 of case markers"}, ".74"),
        ({"estimate": 0.5}, "0.5"),
        ({"status": "open"}, "its contrast is clear"),
        ({"p": 0.2}, "0.2"),
        ({"source": (Source("best", {"relation": "det"}),)}, "rows that are not there"),
        ({"source": (Source("heads"),)}, "which the result does not have"),
        ({"contrast": ""}, "no contrast"),
    ],
)
def test_what_the_rows_do_not_bear_out_is_found(change: dict[str, object], said: str) -> None:
    assert any(said in problem for problem in _wrong(replace(FOUND, **change)))


def test_a_difference_within_the_margin_is_null_however_small_its_p() -> None:
    tiny = finding(
        claim="A is better", whether="A is better", absent="A is as good as B", contrast="difference",
        test=Contrast(0.005, 0.001, 0.009, 0.001, 400), source=Source("best"),
    )  # fmt: skip
    assert (tiny.status, tiny.text) == ("null", "A is as good as B (difference .01 [.00, .01]).")


SCORES = pd.DataFrame(
    {
        "role": ["first", "first", "other"],
        "count": [400, 30, 8],
        "value": [0.8712, 0.31, 0.5],
        "explained_x": [0.2, 0.3, 0.4],
        "explained_y": [0.1, 0.25, 0.13],
    }
)
RESULT = Result("demo", {"scores": SCORES}, Provenance({}, {"scored": {"pos": 438}}, {"samples": 500}))


@pytest.mark.parametrize(
    "text",
    [
        "F1 .87, with 95 % intervals over 500 samples",
        "438 targets; first: 2, other: 1",
        "two axes hold 30% to 55% of the variance",
        "not drawn: relations of fewer than 40 words (2)",
        "Small sample: fewer than 200 targets are scored (pos: 30)",
    ],
)
def test_wrong_numbers_are_not_seen_where_a_caption_can_be_derived(text: str) -> None:
    assert check_words(RESULT, {"caption": text}) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("F1 .88, with 95 % intervals over 500 samples", ".88"),
        ("F1 .87, over 400 to 501 samples", "501"),
        ("437 targets", "437"),
        ("first: 7, other: 1", "7"),
        ("two axes hold 36% to 55% of the variance", "36%"),
        ("not drawn: relations of fewer than 35 words (17)", "17"),
    ],
)
def test_a_wrong_number_in_a_caption_is_caught(text: str, said: str) -> None:
    assert f"demo, caption: {said} stands in none of its tables" in check_words(RESULT, {"caption": text})


def test_a_chart_may_count_what_one_seed_scored_and_repeat_a_part_of_a_reason() -> None:
    traces = pd.DataFrame(
        {
            "text_id": ["a", "a", "b"] * 4,
            "seed": [0, 0, 0, 1, 1, 1] * 2,
            "span": ["0:1", "1:2", "0:1"] * 4,
            "layer": [0] * 6 + [1] * 6,
        }
    )
    reason = "expected layer: the probe of P(0) and 61 others had not converged; selectivity: too few words"
    result = replace(RESULT, tables={"traces": traces, "summary": pd.DataFrame({"reason": [reason]})})
    assert check_words(result, {"title": "2 of 3 targets", "text": "the probe of P(0) and 61 others"}) == []
    assert check_words(result, {"title": "17 targets", "text": "the probe of P(0) and 63 others"}) != []


def test_a_sentence_in_other_words_is_told_from_one_that_nothing_bears_out() -> None:
    texts = [["Dogs", "bark"], ["Cats", "do", "not"], ["Dogs", "do"]] * 4
    result = lamina.geometry(TinyEncoder(), texts, samples=20)
    first, *others = result.findings
    reworded = replace(first, claim=f"{first.claim}, as they say")
    (problem,) = check_findings(replace(result, findings=(reworded, *others)))
    assert problem.startswith(f"geometry: its tables are worded otherwise today: {reworded.text!r} is ")
    other = replace(reworded, n=first.n + 1)
    assert len(check_findings(replace(result, findings=(other, *others)))) == 2


def test_a_wrong_number_in_the_remark_behind_a_sentence_is_caught() -> None:
    best = replace(RESULT, tables={"best": TABLE})
    assert list(check_note(replace(FOUND, note="Small sample: 438 targets in 13 documents."), best)) == []
    (wrong,) = check_note(replace(FOUND, note="Small sample: 38 targets in 13 documents."), best)
    assert wrong == "38 in its remark stands in none of its rows"
    # A number of another row is none of this finding's.
    (other,) = check_note(replace(FOUND, note="The next one finds .43."), best)
    assert ".43" in other
