"""Measures by layer of several models: on relative depth; differences are of the same draws of the same texts."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

import lamina
from lamina import figures
from lamina.analyses.heads.surface import MEASURES, SurfaceMeter
from lamina.comparison.measures import HIGHEST, MEAN, UNPAIRED, why_unpaired
from lamina.corpora import corpus_from
from lamina.errors import InputError
from lamina.framework.declare import ComparedTasks
from lamina.framework.registry import get_analysis
from lamina.framework.verify import check_findings
from lamina.framework.watch import watch
from lamina.results import Provenance, Result
from lamina.results.finding import rows_of
from lamina.stats import drawn_contrast
from lamina.testing import TinyEncoder
from tests.language_models import tiny_causal, tiny_masked

TEXTS = [["the", "dog", "saw", "the", "cat"], ["the", "cat", "ran"], ["a", "dog", "ran"]] * 4


def named(name: str, **shape: int) -> TinyEncoder:
    encoder = TinyEncoder(**shape)
    encoder.name = name
    return encoder


@pytest.fixture(scope="module")
def geometries() -> list[Result]:
    return [
        lamina.geometry(named("small", blocks=2), TEXTS, samples=200),
        lamina.geometry(named("deep", blocks=4), TEXTS, samples=200),
    ]


def test_layers_are_shares_of_each_models_own_depth(geometries, tmp_path):
    result = lamina.compare(*geometries, out=tmp_path / "compare")
    depth = result.tables["depth"]
    own = depth[depth["task"] == "Anisotropy"]
    assert own[own["model"] == "small"]["relative_depth"].tolist() == [0, 0.5, 1]
    assert own[own["model"] == "deep"]["relative_depth"].tolist() == [0, 0.25, 0.5, 0.75, 1]
    given = geometries[1].tables["layers"].query("model == 'deep' and measure == 'anisotropy'")
    assert own[own["model"] == "deep"][["value", "low", "high"]].to_numpy().tolist() == (
        given[["value", "low", "high"]].to_numpy().tolist()
    )
    top = result.tables["compare"].query("task == 'Anisotropy' and model == 'deep'").iloc[0]
    assert (top["statistic"], top["layer"]) == (HIGHEST, given.loc[given["value"].idxmax(), "layer"])
    assert UNPAIRED not in result.provenance.skipped
    assert result.provenance.model["name"] == "small and deep"
    charts = lamina.figures.draw(Result.load(tmp_path / "compare"))
    assert list(charts) == ["depth", "differences"]
    drawn = charts["depth"].to_dict()
    assert drawn["title"]["text"] == "Measures by depth: small and deep on data"
    assert "Anisotropy, highest: small " in drawn["description"]


def test_what_only_one_model_has_is_left_out_and_counted():
    encoder, decoder = (
        lamina.attention(each, TEXTS, samples=10, repeated=0)
        for each in (named("both ways"), named("backwards", causal=True))
    )
    result = lamina.compare(encoder, decoder)
    tasks = set(result.tables["depth"]["task"])
    assert "Attention to the previous token" in tasks
    assert "Attention to the next token" not in tasks
    assert result.provenance.skipped["measures that only one of the models has"] == 1


def test_what_cannot_be_put_side_by_side_is_refused(geometries):
    attention = lamina.attention(named("other"), TEXTS, samples=200)
    with pytest.raises(InputError, match="results of geometry and attention cannot be compared with each other"):
        lamina.compare(geometries[0], attention)
    with pytest.raises(InputError, match="give results of different models; these are of small, small"):
        lamina.compare(geometries[0], geometries[0])
    other = lamina.geometry(named("third"), TEXTS[:3], samples=10)
    with pytest.raises(InputError, match="different texts"):
        lamina.compare(geometries[0], other)


def test_differences_are_of_the_same_draws(geometries):
    result = lamina.compare(*geometries)
    table = result.tables["differences"].set_index(["task", "statistic"])
    drawn = [each.tables["draws"].query("measure == 'anisotropy'") for each in geometries]
    small, deep = drawn
    apart = small.groupby("sample")["value"].mean() - deep.groupby("sample")["value"].mean()
    row = table.loc[("Anisotropy", MEAN)]
    values = (
        result.tables["compare"].query(f"task == 'Anisotropy' and statistic == '{MEAN}'").set_index("model")["value"]
    )
    assert row["difference"] == pytest.approx(values["small"] - values["deep"])
    # Simultaneous over the measures that can be tested: at least as wide as alone.
    assert (row["units"], row["unit"]) == (12, "text")
    alone = drawn_contrast(row["difference"], apart.to_numpy(float), 12)
    assert row["low"] <= alone.low + 1e-6 <= row["difference"] <= alone.high - 1e-6 <= row["high"]
    # Too few word types.
    few = table.loc[("Adjusted self-similarity", MEAN)]
    assert (few["units"], few["unit"], few["needed"]) == (4, "word type", 6)
    assert np.isnan(few["p_adjusted"])
    # What is true of this result: the draws are those of geometry, not the setting of compare.
    assert result.provenance.corpus["bootstrap"] == 200
    assert result.provenance.corpus["drawn"] == {"texts": 12, "word types": 4}


def test_differences_are_those_of_a_paired_test():
    draw = random.Random(0)
    words = ["the", "a", "dog", "cat", "bird", "saw", "ran", "hid", "and", "or", ".", ","]
    texts = corpus_from([[draw.choice(words) for _ in range(draw.randint(3, 12))] for _ in range(60)], name="drawn")
    models = [named("one", blocks=2), named("two", blocks=3)]
    results = [lamina.attention(each, texts, samples=2000) for each in models]
    row = (
        lamina.compare(*results)
        .tables["differences"]
        .query(f"task == 'Attention to oneself' and statistic == '{MEAN}'")
    )
    by_text = [[_to_self(model, text) for text in texts] for model in models]
    expected = ttest_rel(*by_text)
    assert row["difference"].item() == pytest.approx(expected.statistic * _error(by_text), abs=1e-6)
    # Nothing that is not paired is as narrow: both models find the same texts hard. It is one of a family.
    ends = expected.confidence_interval()
    width = (row["high"].item() - row["low"].item()) / (ends.high - ends.low)
    assert 0.95 < width < 1.6
    drawn = [
        result.tables["draws"].query("measure == 'to_self'").groupby("sample")["value"].mean() for result in results
    ]
    alone = drawn_contrast(row["difference"].item(), (drawn[0] - drawn[1]).to_numpy(float), 60)
    # 2,000 draws tell a standard error to a few per cent.
    assert alone.high - alone.low == pytest.approx(ends.high - ends.low, rel=0.12)
    assert alone.p == pytest.approx(expected.pvalue, rel=0.5, abs=1e-3)


def _to_self(model: TinyEncoder, text: lamina.Text) -> float:
    meter = SurfaceMeter(model, samples=1)
    watch(model, [text], [meter])
    return float(meter.means.layers().value[MEASURES.index("to_self")].mean())


def _error(by_text: list[list[float]]) -> float:
    apart = np.subtract(*by_text)
    return float(apart.std(ddof=1) / np.sqrt(len(apart)))


def test_findings_say_the_difference_and_what_pairs_it(geometries):
    result = lamina.compare(*geometries)
    told = {found.status: found.text for found in result.findings}
    assert "Paired by " in told["clear"]
    assert "(difference " in told["clear"]
    assert "differences are clear." in told["clear"]
    assert check_findings(result) == []
    first = geometries[0]
    table = first.tables["layers"]
    again = replace(
        first,
        tables={**first.tables, "layers": table.assign(model=table["model"].replace("small", "again"))},
        provenance=replace(first.provenance, model={"name": "again", "fingerprint": "x"}),
    )
    same = lamina.compare(first, again)
    # What is the same in every draw has no interval.
    assert {found.status for found in same.findings} <= {"open", "untested"}
    assert check_findings(same) == []


def test_a_difference_is_told_of_who_is_higher_only_where_it_is_clear(geometries):
    result = lamina.compare(*geometries)
    table = result.tables["differences"].assign(low=-0.5, high=0.5, p_adjusted=0.7, needed=0)
    told = lamina.compare.findings(replace(result, tables={**result.tables, "differences": table}))
    assert [found.status for found in told] == ["open"]
    assert "is higher in small or in deep" in told[0].text


def test_what_is_not_paired_says_so_and_is_not_tested(geometries):
    older = replace(geometries[1], tables={"layers": geometries[1].tables["layers"]})
    result = lamina.compare(geometries[0], older)
    assert result.tables["differences"]["p_adjusted"].isna().all()
    assert result.provenance.skipped[UNPAIRED] == 4
    (said,) = result.findings
    assert said.status == "untested"
    assert said.text == (
        "It was not tested whether measures differ between small and deep: a result of an older version has no "
        "draws; make it again. They are put side by side."
    )
    assert result.provenance.corpus["bootstrap"] == 0
    assert list(lamina.figures.draw(result)) == ["depth"]
    seeded = lamina.geometry(named("other", blocks=2), TEXTS, samples=200, seed=1)
    assert why_unpaired(geometries[0], seeded, lamina.geometry.compares) == "their settings differ (seed)"


def test_a_lens_on_the_next_token_is_not_paired_with_one_on_masked_words():
    learned = corpus_from([[*text, "away"] for text in TEXTS], name="pets", split="train")
    data = {"train": learned, "dev": corpus_from(TEXTS, name="pets", split="dev")}
    lenses = [
        lamina.lens(each, data, tuned=False, samples=20, twin=False)
        for each in (tiny_causal(), _renamed(tiny_causal(seed=1), "other"), tiny_masked())
    ]
    result = lamina.compare(*lenses)
    apart = result.tables["differences"]
    assert apart.query("a == 'tiny gpt2' and b == 'other'")["p_adjusted"].notna().all()
    # By definition the last layer agrees with itself: it is no part of the mean.
    assert set(apart["statistic"]) == {MEAN}
    other = apart[apart["reason"] != ""]
    assert len(other) == 4
    assert set(other["reason"]) == {
        "not paired: they are asked different things (causal language model: the next token; masked language model: a "
        "masked word)"
    }
    assert any(": they are asked different things" in each.text for each in result.findings)
    assert check_findings(result) == []


def _renamed(encoder, name):
    encoder.name = name
    return encoder


def about(name: str) -> Provenance:
    model, corpus = {"name": name, "fingerprint": name}, {"name": "texts", "fingerprint": "the same"}
    return Provenance(model, corpus, {})


class TestNumbersThatAreNotByLayer:
    """What the best heads find: paired by document where results keep what each document has."""

    def heads(self, name: str, hits: int) -> Result:
        documents = [("dobj", unit, hits - unit % 2, 10) for unit in range(8)] + [("rare", 0, 1, 2)]
        found = pd.DataFrame(documents, columns=["relation", "unit", "hits", "count"])
        sums = found.groupby("relation", sort=False)[["hits", "count"]].sum()
        best = pd.DataFrame({"relation": sums.index, "layer": 1, "crossfit_accuracy": sums["hits"] / sums["count"]})
        best = best.assign(crossfit_low=best["crossfit_accuracy"] - 0.1, crossfit_high=best["crossfit_accuracy"] + 0.1)
        return Result("heads", {"best": best, "documents": found}, about(name))

    def test_signs_of_documents_are_flipped(self):
        compared = lamina.compare(self.heads("one", 9), self.heads("other", 4))
        objects, rare = rows_of(compared.tables["differences"])
        # All eight documents are on one side: 2 of 256 flips are as far apart.
        assert (objects.difference, objects.units, objects.unit) == (0.5, 8, "document")
        assert objects.p_adjusted == pytest.approx(2 / 256)
        assert rare.reason == "not paired: fewer than 30 of them"
        (told,) = compared.findings
        assert told.status == "clear"
        assert told.text.startswith("one has a higher accuracy of the best head than other at ")
        assert check_findings(compared) == []

    def test_older_results_are_put_side_by_side(self):
        given = [self.heads(name, 5) for name in ("one", "other")]
        compared = lamina.compare(*(replace(each, tables={"best": each.tables["best"]}) for each in given))
        assert {row.reason for row in rows_of(compared.tables["differences"])} == {
            "not paired: a result of an older version has no draws; make it again"
        }
        assert [told.status for told in compared.findings] == ["untested"]
        assert check_findings(compared) == []
        assert list(figures.draw(compared)) == ["scores"]


def test_measures_without_draws_are_put_side_by_side():
    def structure(name: str, layers: int) -> Result:
        rows = [("uuas", layer, 0.5 + 0.1 * layer, 0.4, 0.9) for layer in range(layers)]
        table = pd.DataFrame(rows, columns=["measure", "layer", "value", "low", "high"])
        return Result("structure", {"best": table}, about(name))

    compared = lamina.compare(structure("one", 3), structure("other", 5))
    assert compared.tables["depth"].groupby("model").size().to_dict() == {"one": 3, "other": 5}
    assert compared.tables["differences"]["p_adjusted"].isna().all()
    (told,) = compared.findings
    assert told.status == "untested"
    assert "keep no numbers of single texts" in told.text
    assert check_findings(compared) == []


def test_words_in_context_are_compared_by_the_models_vectors_alone():
    def words(name: str, value: float) -> Result:
        rows = [(name, 0, value, "test"), (name, 1, value, "test"), ("glove", None, 0.9, "test"), (name, 0, 0.1, "dev")]
        table = pd.DataFrame(rows, columns=["representation", "layer", "value", "split"])
        table = table.assign(context="full", low=table["value"], high=table["value"], seed="all", **{"class": "all"})
        return Result("contextualize", {"sclass": table}, about(name))

    compared = lamina.compare(words("one", 0.25), words("other", 0.5))
    assert sorted(compared.tables["depth"]["value"]) == [0.25, 0.25, 0.5, 0.5]


def test_probing_tasks_of_order_are_compared_as_those_of_probe():
    declared = get_analysis("order").compares
    assert isinstance(declared, ComparedTasks)
    assert declared.scores in get_analysis("order").tables
