"""Models of several fine-tuning seeds probed as one: what is a mean over models, and what varies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import lamina
from lamina import Result
from lamina.analyses.layers.probe import training as elsewhere
from lamina.analyses.layers.probe.predictions import SavedPredictions
from lamina.analyses.layers.probe.statistics import Resampling, ScoreDraws
from lamina.analyses.layers.trace import SentenceTracer
from lamina.comparison.predictions import read_answers, resample
from lamina.corpora.splits import Splits
from lamina.errors import CorpusError, InputError
from lamina.figures import draw
from lamina.probes.bank import DecisionTally
from lamina.stats.intervals import interval
from lamina.testing import TinyEncoder
from lamina.training import provenance

ASKED: dict[str, Any] = {"tasks": ["pos"], "seeds": 2}


@pytest.fixture(scope="module")
def models() -> list[TinyEncoder]:
    return [TinyEncoder(blocks=1, seed=seed) for seed in (3, 4, 5)]


@pytest.fixture(scope="module")
def tuned(models: list[TinyEncoder], splits: Splits, settings: dict[str, Any]) -> Result:
    """Three models, with two seeds of probes each."""
    return lamina.probe(models, splits, **ASKED, **settings)


def test_scores_tell_seeds_of_probes_from_fine_tuning_seeds(tuned: Result) -> None:
    scores = tuned.tables["scores"]
    own = scores[(scores["of"] == "model") & (scores["probe"] == "layer") & (scores["metric"] == "f1")]
    pairs = own[["seed", "tuning_seed"]].drop_duplicates().itertuples(index=False, name=None)

    assert set(pairs) == {*((probe, model) for probe in "01" for model in "012"), ("all", "all")}
    assert set(scores.loc[scores["of"] == "random", "tuning_seed"]) == {""}, "one twin serves all models"
    control = scores[(scores["of"] == "control") & (scores["probe"] == "layer")]
    assert set(control["tuning_seed"]) == {"0", "1", "2", "all"}
    single, pooled = own[own["seed"] != "all"], own[own["seed"] == "all"]
    assert pooled["value"].to_numpy() == pytest.approx(single.groupby("layer")["value"].mean().to_numpy())
    (row,) = tuned.tables["summary"].itertuples()
    assert (row.probe_seeds, row.tuning_seeds) == (2, 3)
    for name in ("training", "mixing"):
        table = tuned.tables[name]
        assert set(table.loc[table["of"] == "model" if "of" in table else table.index, "tuning_seed"]) == set("012")


def test_the_centre_of_gravity_ranges_over_models_not_over_probes(tuned: Result) -> None:
    mixing = tuned.tables["mixing"].query("upto == 1")
    each = (mixing["layer"] * mixing["weight"]).groupby([mixing["tuning_seed"], mixing["seed"]]).sum()
    by_model = each.groupby("tuning_seed").mean()
    (row,) = tuned.tables["summary"].itertuples()

    assert row.center_of_gravity == pytest.approx(by_model.mean(), abs=1e-6)
    assert (row.cog_low, row.cog_high) == pytest.approx((by_model.min(), by_model.max()), abs=1e-6)


def test_every_model_is_kept_as_if_it_had_been_probed_alone(
    tuned: Result, models: list[TinyEncoder], splits: Splits, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(elsewhere, "run_task")
    alone = lamina.probe(models[1], splits, **ASKED, twin=False, **settings).tables["scores"]
    again = lamina.probe(models, splits, **ASKED, **settings)

    pd.testing.assert_frame_equal(again.tables["scores"], tuned.tables["scores"])
    assert set(alone["tuning_seed"]) == {""}
    keys = ["probe", "of", "layer", "seed", "metric"]
    together = tuned.tables["scores"].query("tuning_seed == '1'").set_index(keys)["value"]
    own = alone[alone["seed"] != "all"].set_index(keys)["value"]
    assert own.to_numpy() == pytest.approx(together.reindex(own.index).to_numpy(), abs=1e-12)


def test_predictions_and_probes_of_all_models_come_with_the_result(tuned: Result, models: list[TinyEncoder]) -> None:
    path = tuned.files["pos.predictions.parquet"]
    answers = read_answers(path, "f1")
    scores = tuned.tables["scores"].query("of == 'model' and seed == 'all' and metric == 'f1'")

    assert answers.units == (0, 0, 1, 1, 2, 2)
    assert answers.value() == pytest.approx(scores[scores["probe"] != "constant"]["value"].to_numpy(), abs=1e-6)
    (sampled,) = resample([answers], samples=50, seed=0)
    assert sampled.shares.shape == (50, 3)
    assert {f"pos-seed-{model}-{probe}.safetensors" for model in range(3) for probe in range(2)} <= {*tuned.files}
    assert SavedPredictions(path, "toy").seeds == (0, 1), "decisions are those of the first model"
    assert SentenceTracer(models[2], tuned).seeds == (0, 1), "a sentence is read by the model's own probes"


def test_several_models_are_compared_with_one(
    tuned: Result, models: list[TinyEncoder], splits: Splits, settings: dict[str, Any]
) -> None:
    before = lamina.probe(models[1], splits, **ASKED, twin=False, **settings)
    found = lamina.compare(before, tuned, samples=100).tables["compare"]
    full = found[found["statistic"] == "score_full"]["value"].tolist()

    assert full == pytest.approx([each.tables["summary"]["f1_full"].item() for each in (before, tuned)], abs=1e-6)


def test_figures_say_what_intervals_are_over(tuned: Result) -> None:
    charts = draw(tuned)
    assert "documents, for the mean of 3 fine-tuning seeds" in str(charts["curves"].to_dict()["title"]["subtitle"])


def texts_alike(values: list[float]) -> list[DecisionTally]:
    """One tally per value; all texts have the same score, so that only what varies beside them is left."""
    found = []
    for value in values:
        sums = np.ones((3, 1, 40, 1), np.float32)
        sums[0] = value
        found.append(DecisionTally("macro_f1", sums))
    return found


def test_the_interval_of_a_mean_over_models_is_students() -> None:
    """Worked with scipy: probes of one model have that model in common, so that models are counted, not probes."""
    by_model = np.array([0.50, 0.55, 0.61, 0.48, 0.70, 0.52])
    values = [value + off for value in by_model for off in (-0.01, 0.01)]
    units = [model for model in range(6) for _ in range(2)]
    texts = Resampling(40, 40_000, 0)
    draws = ScoreDraws.of(texts_alike(values), texts, np.random.default_rng(0), units)
    expected = stats.t.interval(0.95, 5, by_model.mean(), stats.sem(by_model))

    assert draws.value == pytest.approx([by_model.mean()], abs=1e-6)
    assert interval(draws.pooled[:, 0]) == pytest.approx(expected, abs=0.004)
    probes = ScoreDraws.of(texts_alike(values), texts, np.random.default_rng(0))
    assert np.diff(interval(probes.pooled[:, 0])) < 0.75 * np.diff(interval(draws.pooled[:, 0])), "far too narrow"


def test_with_few_models_only_texts_vary() -> None:
    draws = ScoreDraws.of(
        texts_alike([0.4, 0.5, 0.6, 0.7] * 2), Resampling(40, 100, 0), np.random.default_rng(0), [0, 1, 2, 3] * 2
    )
    assert interval(draws.pooled[:, 0]) == pytest.approx((0.55, 0.55), abs=1e-6)


def test_what_several_models_cannot_be_asked_is_said(
    models: list[TinyEncoder], splits: Splits, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    with pytest.raises(InputError, match="tiny is 3 models; name one of its folders seed-N, or leave --mdl out"):
        lamina.probe(models, splits, **ASKED, mdl=True, **settings)
    # The last of them has seen a scored text.
    (tmp_path / provenance.TEXTS).write_text(provenance.text_hash(next(iter(splits.scored))))
    home = {id(models[-1]): tmp_path}
    monkeypatch.setattr(provenance, "folder_of", lambda encoder: home.get(id(encoder)))
    with pytest.raises(CorpusError, match=r"was fine-tuned on 1 of the texts of toy \(dev\)"):
        lamina.probe(models, splits, **ASKED, **settings)
