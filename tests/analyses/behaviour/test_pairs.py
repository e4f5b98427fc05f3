"""Minimal pairs against planted verdicts, scipy's tests, and sentences scored one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

import lamina
from lamina.analyses.behaviour.judging import SCORES, Verdicts, n_grams_of, score_pairs
from lamina.analyses.behaviour.pairs import Accuracies
from lamina.corpora.suites.minimal_pairs import MinimalPair, MinimalPairs, pairs_from
from lamina.corpora.suites.syntaxgym import RegionItem, RegionSuites, parse
from lamina.figures import captions_of, draw
from lamina.framework.declare import Overview
from lamina.framework.registry import get_analysis
from lamina.framework.verify import check_findings
from lamina.models.language.language_model import WrittenPassage, language_model, score_passages
from lamina.results import Result
from tests.language_models import tiny_causal, tiny_masked

WORDS = ("the", "dog", "barked", "at", "a", "cat", "and", "ran")


def suite(*, reverse: bool = False) -> MinimalPairs:
    """Two paradigms of unequal size in one term, one in another; some sentences occur twice."""
    draw = np.random.default_rng(0)
    sizes = {"small": 3, "large": 9, "other": 6}
    made = []
    for paradigm, size in sizes.items():
        for number in range(size):
            words = draw.choice(WORDS, 5, replace=False).tolist()
            bad = [*words[:2], *words[3:], words[2]][: 4 if number % 3 == 0 else 5] + ["away"] * (number % 3 == 1)
            term = "one" if paradigm != "other" else "two"
            made.append(MinimalPair(str(number), "f", term, paradigm, " ".join(words), " ".join(bad)))
    # The same two sentences under other names.
    made += [made[3]._replace(id="again"), made[4]._replace(id="again too")]
    return pairs_from(made[::-1] if reverse else made, "own")


@pytest.fixture(scope="module")
def found() -> Result:
    return lamina.pairs(tiny_causal(), suite(), samples=200, ngrams=None, twin_limit=2)


def planted(
    values: dict[str, list[float]], twin: dict[str, list[float]] | None = None, samples: int = 2000
) -> Accuracies:
    """Paradigm -> verdicts, in place of a model's."""
    items = [MinimalPair(str(at), "-", "t", name, "g", "b") for name, own in values.items() for at in range(len(own))]

    def verdicts(given: dict[str, list[float]]) -> Verdicts:
        each = np.array([value for own in given.values() for value in own])
        return Verdicts(dict.fromkeys(SCORES, each), dict.fromkeys(SCORES, each - 0.5))

    spoken = {"model": verdicts(values)} | ({} if twin is None else {"twin": verdicts(twin)})
    return Accuracies(items, spoken, np.full(len(items), 0.5), samples, 0)


def test_all_is_the_mean_over_paradigms_whatever_their_size() -> None:
    accuracies = planted({"a": [1.0] * 30 + [0.0] * 10, "b": [1.0] * 40 + [0.0] * 60})
    (overall,) = accuracies.groups("all")
    value, low, high = accuracies.accuracy(overall, "model", "plain")
    assert value == pytest.approx((0.75 + 0.4) / 2)
    error = np.sqrt(0.75 * 0.25 / 40 + 0.4 * 0.6 / 100) / 2
    assert (low, high) == pytest.approx((value - 1.96 * error, value + 1.96 * error), abs=0.01)


def test_paradigms_are_tested_exactly_and_ties_decide_nothing() -> None:
    accuracies = planted({"a": [1.0] * 15 + [0.0] * 3 + [0.5] * 4, "b": [1.0] * 5 + [0.0] * 5, "c": [0.0] * 9})
    for group, right, decided in zip(accuracies.groups("paradigm"), (15, 5, 0), (18, 10, 9), strict=True):
        found = accuracies.against_chance([group], "plain").one()
        assert found.p == pytest.approx(binomtest(right, decided).pvalue, abs=0.015)
        assert (found.units, found.estimate) == (decided, pytest.approx(right / decided - 0.5))
    tied, *_, none = (accuracies.accuracy(group, "model", "plain") for group in accuracies.groups("paradigm"))
    assert tied.value == pytest.approx((15 + 2) / 22)
    # Resampling nine wrong items shows no spread; the exact interval does.
    assert (none.low, none.high) == pytest.approx(tuple(binomtest(0, 9).proportion_ci(method="exact")))


def test_the_mean_of_equal_paradigms_is_tested_like_one_large_paradigm() -> None:
    accuracies = planted({name: [1.0] * 13 + [0.0] * 7 for name in "abc"})
    (overall,) = accuracies.groups("all")
    assert accuracies.against_chance([overall], "plain").p == pytest.approx(binomtest(39, 60).pvalue, abs=0.005)


def test_differences_are_paired_and_of_the_items_that_both_were_asked() -> None:
    nan = float("nan")
    own = {"a": [1.0, 0.0] * 20, "b": [1.0] * 4}
    other = {"a": [1.0, 0.0] * 10 + [nan] * 20, "b": [0.0, nan, nan, nan]}
    accuracies = planted(own, other, samples=200)
    a, b = accuracies.groups("paradigm")
    assert accuracies.count(a, "twin") == 20
    # Equal on all of them: no luck of the draw is left in the difference.
    each = accuracies.differences([a, b], "twin", "plain")
    assert (each.estimate[0], each.low[0], each.high[0]) == (0.0, 0.0, 0.0)
    assert each.estimate[1] == 1.0
    assert each.units.tolist() == [20, 1]
    assert each.needed[1] >= 6, "one item decides nothing"
    assert accuracies.differences(accuracies.groups("all"), "twin", "plain").one().estimate == pytest.approx(0.5)


def test_terms_are_compared_with_each_other_and_not_by_their_intervals() -> None:
    accuracies = planted({"a": [1.0] * 60 + [0.0] * 20, "b": [1.0] * 40 + [0.0] * 40, "c": [1.0] * 42 + [0.0] * 38})
    pairs, tests = accuracies.between(accuracies.groups("paradigm"), "plain")
    assert [(one.name, other.name) for one, other in pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert tests.estimate == pytest.approx([0.25, 0.225, -0.025])
    assert (tests.p < 0.05).tolist() == [True, True, False]


@pytest.mark.parametrize("make", [tiny_causal, tiny_masked], ids=["causal", "masked"])
def test_pairs_are_scored_as_their_sentences_are_one_by_one(make) -> None:
    model = language_model(make())
    pairs = suite().pairs[:4]
    scored = score_pairs(model, pairs)
    for at, pair in enumerate(pairs):
        good, bad = (
            next(score_passages(model, [WrittenPassage.typed("", sentence)])) for sentence in (pair.good, pair.bad)
        )
        assert (scored.good[at], scored.bad[at]) == pytest.approx((good.total, bad.total), abs=1e-4)
        assert (scored.pieces_good[at], scored.pieces_bad[at]) == (good.pieces, bad.pieces)
        verdicts = scored.verdicts().value
        assert verdicts["plain"][at] == float(good.total > bad.total)
        assert verdicts["per_token"][at] == float(good.total / good.pieces > bad.total / bad.pieces)


def test_tables_agree_with_their_items(found: Result) -> None:
    items, pairs = found.tables["items"], found.tables["pairs"]
    columns = "suite,field,term,paradigm,score,pairs,accuracy,low,high,chance,"
    columns += "difference,diff_low,diff_high,p_adjusted,units,needed,beside_chance"
    assert ",".join(pairs.columns) == columns
    assert found.parquet == ("items",)
    assert items.columns.tolist()[:3] == ["item", "group", "value"]
    for score_name, column in (("plain", "value"), ("per_token", "per_token")):
        own = pairs[pairs["score"] == score_name].set_index("paradigm")
        means = items.groupby("group", sort=False)[column].mean()
        assert own["accuracy"].drop("all").to_dict() == pytest.approx(means.to_dict())
        assert own.loc["all", "accuracy"] == pytest.approx(means.mean())
        assert own["difference"].to_numpy() == pytest.approx((own["accuracy"] - own["chance"]).to_numpy(), abs=0.02)
    by_term = found.tables["terms"].query("level == 'term' and score == 'plain'").set_index("name")["accuracy"]
    means = items.groupby("group", sort=False)["value"].mean()
    assert by_term["one"] == pytest.approx(means[["small", "large"]].mean())
    twin = found.tables["baselines"].query("of == 'twin' and level == 'all' and score == 'plain'")
    assert (twin["pairs"].item(), items["twin"].notna().sum()) == (6, 6)
    assert items["ngram"].isna().all()
    wrong = found.tables["wrong"]
    assert wrong["margin"].max() <= 0
    assert wrong.groupby("paradigm")["margin"].apply(lambda own: own.is_monotonic_increasing).all()


def test_wrong_15_the_twin_is_shown_with_its_own_number_of_items(found: Result) -> None:
    """Wrong 15: .300 in a row of 100 pairs was of 10."""
    (overview,) = get_analysis("pairs").overview(found)
    assert isinstance(overview, Overview)
    rows = {row[0]: row for row in overview.rows}
    assert rows["all"][1] == 20
    assert str(rows["all"][-1]).endswith("(of 6)")


def test_the_order_of_pairs_changes_nothing(found: Result) -> None:
    other = lamina.pairs(tiny_causal(), suite(reverse=True), samples=200, ngrams=None, twin=False).tables["pairs"]
    own = found.tables["pairs"].set_index(["paradigm", "score"]).sort_index()
    again = other.set_index(["paradigm", "score"]).sort_index()
    pd.testing.assert_frame_equal(own, again, rtol=1e-5)


def test_findings_say_number_interval_comparison_and_status(found: Result) -> None:
    overall = found.tables["pairs"].query("paradigm == 'all' and score == 'plain'").iloc[0]
    (first,) = (each for each in found.findings if dict(each.source[0].where) == {"paradigm": "all", "score": "plain"})
    assert first.estimate == overall["difference"]
    assert {each.unit for each in found.findings} == {"item"}
    assert check_findings(found) == []
    charts = draw(found)
    assert set(charts) == {"terms", "paradigms"} == set(captions_of("pairs"))


def test_wrong_17_the_published_number_of_blimp_is_that_of_the_large_model() -> None:
    """Wrong 17: .830 is GPT-2-large, not the model of 117 million."""
    docs = Path(__file__).parents[3] / "docs"
    for page in ("studies/behaviour.md", "methods/behaviour.md"):
        text = " ".join((docs / page).read_text(encoding="utf-8").split())
        assert "GPT-2-large (774 million parameters, 36 layers" in text
        assert "GPT-2 (117 million" not in text
        assert ".818" in text, "argument structure"


def test_n_grams_do_not_learn_the_sentences_they_judge(tmp_path: Path) -> None:
    (tmp_path / "own-train.txt").write_text("The dog barked .\nThe cat ran .\n")
    asked = pairs_from([("the dog barked.", "the dog ran.")])
    grams, left_out = n_grams_of(str(tmp_path / "own-train.txt"), 2, asked.pairs)
    assert (grams.knows("cat"), grams.knows("barked"), left_out) == (True, False, 1)


def test_suites_of_regions_are_asked_by_the_same_analysis() -> None:
    formula = (parse("(2;%good%) < (2;%bad%)"),)
    words = [{"good": "dog", "bad": "ran"}, {"good": "barked", "bad": "cat"}]
    sentences = [{name: {1: "the", 2: word} for name, word in each.items()} for each in words]
    items = tuple(
        RegionItem(str(at), "syntaxgym", "agreement", "own", each, formula, "sum", 0.5)
        for at, each in enumerate(sentences)
    )
    made = lamina.pairs(tiny_masked(), RegionSuites("gym", "f", items), samples=20, ngrams=None, twin=False)
    table = made.tables["items"]
    assert table["item"].tolist() == ["own/0", "own/1"]
    assert (table["value"] == (table["margin"] > 0)).all()
    assert table["surprisals"].str.startswith("(2;%good%) ").all()
