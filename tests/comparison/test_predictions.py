"""Scores of several models from their saved predictions, on the same draws of the same texts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, r2_score

from lamina.comparison.predictions import (
    DrawnDifference,
    LayerCut,
    ProbeAnswers,
    difference_family,
    read_answers,
    resample,
)
from lamina.errors import ResultError
from lamina.probes.bank import DecisionTally
from lamina.stats import Contrast, widening
from tests.comparison.saved_predictions import LABELS, write_predictions

# What predictions are worth


def predictions(path: Path, *, seed: int = 0, **head: Any) -> tuple[Path, np.ndarray, np.ndarray, np.ndarray]:
    """Several labels per target, some unseen in training, some decisions not scored: gold, said, counted."""
    rng = np.random.default_rng(seed)
    every = [*LABELS, "E", "F"]
    gold, said = rng.random((90, 6)) < 0.3, rng.random((90, 4)) < 0.4
    counted = rng.random((90, 4)) < 0.8
    table = [
        {"text_id": f"t{at % 30}", "start1": at, "end1": at + 1, "gold": [every[i] for i in np.flatnonzero(gold[at])],
         "unseen": int(gold[at, 4:].sum()), "scored": None if at % 3 == 0 else counted[at].tolist(), "seed": 0,
         "probe": "layer", "layer": 0, "probabilities": np.where(said[at], 0.5, 0.49).tolist()}
        for at in range(90)
    ]  # fmt: skip
    counted[::3] = True
    return write_predictions(path, table, **head), gold, said, counted


@pytest.mark.parametrize(("metric", "average"), [("f1", "micro"), ("macro_f1", "macro")])
def test_scores_from_predictions_are_scikit_learn_s(metric, average, tmp_path):
    path, gold, said, counted = predictions(tmp_path / "x.predictions.parquet")
    truth = np.hstack([gold[:, :4] & counted, gold[:, 4:]])
    guess = np.hstack([said & counted, np.zeros((90, 2), bool)])
    found = read_answers(path, metric)
    assert found.value() == pytest.approx([f1_score(truth, guess, average=average, zero_division=0)])
    assert found.cuts == (LayerCut("layer", 0),)
    assert len(found.texts) == 30


def test_labels_a_task_does_not_score_never_count(tmp_path):
    path, gold, said, counted = predictions(tmp_path / "x.predictions.parquet", unscored=["A"])
    counted[:, 0] = False
    truth = np.hstack([gold[:, :4] & counted, gold[:, 4:]])
    guess = np.hstack([said & counted, np.zeros((90, 2), bool)])
    assert read_answers(path, "f1").value() == pytest.approx([f1_score(truth, guess, average="micro")])


def test_graded_values_are_scored_by_r2(tmp_path):
    rng = np.random.default_rng(0)
    gold = rng.normal(size=80)
    said = {(seed, layer): gold + rng.normal(size=80) for seed in range(2) for layer in range(2)}
    table = [
        {"text_id": f"t{at % 20}", "start1": at, "end1": at + 1, "gold": [], "unseen": 0, "value": gold[at],
         "seed": seed, "probe": "layer", "layer": layer, "probabilities": [float(said[seed, layer][at])]}
        for seed, layer in said for at in range(80)
    ]  # fmt: skip
    answers = read_answers(write_predictions(tmp_path / "x.predictions.parquet", table, labels=["value"]), "r2")
    expected = [np.mean([r2_score(gold, said[seed, layer]) for seed in range(2)]) for layer in range(2)]
    assert answers.value() == pytest.approx(expected, abs=1e-5)
    (sampled,) = resample([answers], samples=200, seed=0)
    assert np.isfinite(sampled.draws).all()
    assert sampled.draws.mean(0) == pytest.approx(expected, abs=0.15)


def test_a_file_without_predictions_has_no_answers(tmp_path):
    assert read_answers(write_predictions(tmp_path / "y.predictions.parquet", []), "f1").cuts == ()


def test_what_is_no_table_of_predictions_is_told(tmp_path):
    path = tmp_path / "x.predictions.parquet"
    path.write_bytes(b"no table")
    with pytest.raises(ResultError, match="holds no predictions that can be read"):
        read_answers(path, "f1")
    row = {"text_id": "t", "gold": ["A"], "unseen": 0, "seed": 0, "probe": "layer", "layer": 0,
           "probabilities": [0.0] * 4}  # fmt: skip
    for odd, why in (([row, row | {"layer": 1}, row], "different numbers of targets"),
                     ([row, row | {"layer": 1, "seed": 1}], "seeds have different probes")):  # fmt: skip
        with pytest.raises(ResultError, match=why):
            read_answers(write_predictions(path, odd), "f1")


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_the_order_of_rows_does_not_matter(tmp_path_factory, seed):
    path, *_ = predictions(tmp_path_factory.mktemp("order") / "x.predictions.parquet", seed=seed)
    table = pq.read_table(path)
    mixed = path.with_name("mixed.parquet")
    pq.write_table(table.take(np.random.default_rng(seed).permutation(len(table))), mixed)
    one, other = (read_answers(each, "macro_f1") for each in (path, mixed))
    assert one.targets == other.targets
    assert one.texts == other.texts
    (first,), (second,) = (resample([each], samples=20, seed=seed) for each in (one, other))
    assert first.draws == pytest.approx(second.draws)


# Intervals and tests


def simulated(rng: np.random.Generator, *, seeds: int = 1, lift: float = 0.0, texts: int = 40) -> list[ProbeAnswers]:
    """Two models that are right at 70 % (the second at `lift` more) of ten words per text, with texts hard for both."""
    hard = rng.normal(0, 0.1, texts)
    made = []
    for share in (0.7, 0.7 + lift):
        sums = []
        for _ in range(seeds):
            right = rng.binomial(10, np.clip(share + hard + rng.normal(0, 0.03, texts), 0, 1))[None].astype(float)
            ten = np.full_like(right, 10)
            sums.append(DecisionTally("f1", np.stack([right, ten, ten])))
        ids = tuple(f"t{at}" for at in range(texts))
        made.append(
            ProbeAnswers("pos", "", ids, ids, "same", (LayerCut("layer", 0),), tuple(sums), tuple(range(len(sums))))
        )
    return made


def difference_of(a: tuple[float, np.ndarray], b: tuple[float, np.ndarray], units: int = 40) -> Contrast:
    """a - b, a family of one."""
    return difference_family([DrawnDifference(a[0] - b[0], a[1] - b[1], units)], least=6).one()


def test_the_paired_interval_covers_as_often_as_it_says_and_is_narrower():
    rng = np.random.default_rng(0)
    inside, narrower, cut = 0, [], LayerCut("layer", 0)
    for number in range(300):
        one, other = resample(simulated(rng, lift=0.05), samples=300, seed=number)
        first, second = one.at(cut), other.at(cut)
        found = difference_of(second, first)
        # Clipping at 1 hardly ever happens: the truth is the lift.
        inside += found.low <= 0.05 <= found.high
        apart = difference_of(second, (first[0], np.roll(first[1], 1)))
        narrower.append((found.high - found.low) / (apart.high - apart.low))
    assert 0.91 <= inside / 300 <= 0.98
    assert np.mean(narrower) < 0.9


def test_p_values_of_equal_models_are_uniform():
    rng = np.random.default_rng(1)
    p = []
    for number in range(300):
        one, other = (each.at(LayerCut("layer", 0)) for each in resample(simulated(rng), samples=300, seed=number))
        p.append(difference_of(one, other).p)
    for level in (0.05, 0.25, 0.5, 0.75):
        assert np.mean(np.array(p) <= level) == pytest.approx(level, abs=0.09)


def test_from_five_seeds_on_seeds_are_drawn_too():
    cut = LayerCut("layer", 0)
    wide = []
    for seeds in (4, 5):
        rng = np.random.default_rng(3)
        one, _ = simulated(rng, seeds=seeds)
        # Seeds that differ much: the last is right everywhere.
        certain = DecisionTally("f1", np.full((3, 1, 40), 10.0))
        one = replace(one, seeds=(*one.seeds[:-1], certain))
        (sampled,) = resample([one], samples=500, seed=0)
        wide.append(np.std(sampled.at(cut)[1]))
        assert sampled.shares.any() == (seeds >= 5)
        assert (sampled.over_seeds(np.arange(float(seeds))) is None) == (seeds < 5)
    assert wide[1] > 2 * wide[0]


def test_different_questions_are_not_resampled_together():
    one, other = simulated(np.random.default_rng(0))
    with pytest.raises(ValueError, match="asked different things"):
        resample([one, replace(other, targets="other")], samples=10, seed=0)


def test_draws_without_any_text_do_not_count():
    one, _ = simulated(np.random.default_rng(0), texts=2)
    (sampled,) = resample([one], samples=500, seed=0)
    assert 0.05 < np.isnan(sampled.draws).mean() < 0.25, "e to the power of -2"


def test_documents_are_resampled_not_their_texts() -> None:
    # Texts of a document are alike: 40 texts of 8 documents know as much as 8 texts.
    rng = np.random.default_rng(5)
    right = np.repeat(rng.binomial(10, 0.7, 8), 5)[None].astype(float)
    ten = np.full_like(right, 10)
    ids = tuple(f"t{at}" for at in range(40))
    documents = tuple(f"d{at // 5}" for at in range(40))
    one = ProbeAnswers(
        "pos",
        "",
        ids,
        documents,
        "same",
        (LayerCut("layer", 0),),
        (DecisionTally("f1", np.stack([right, ten, ten])),),
        (0,),
    )
    (by_document,), (by_text,) = (resample([each], samples=1000, seed=0) for each in (one, replace(one, documents=ids)))
    assert (by_document.count, by_document.kind) == (8, "document")
    assert (by_text.count, by_text.kind) == (40, "text")
    ratio = np.nanstd(by_document.draws) / np.nanstd(by_text.draws)
    assert ratio == pytest.approx(5**0.5 * widening(8) / widening(40), rel=0.15)
    # One of two results may be of a version that did not name the documents.
    older, newer = resample([replace(one, documents=ids), one], samples=10, seed=0)
    assert (older.kind, newer.kind) == ("document", "document")
    alone = replace(one, documents=("d",) * 40)
    assert alone.sampled.kind == "text"


def test_intervals_of_few_documents_are_as_wide_as_those_of_probe() -> None:
    # REVIEW: `compare` resampled without the small-sample widening that `probe` has.
    (one, _) = simulated(np.random.default_rng(0), texts=8)
    (sampled,) = resample([one], samples=2000, seed=0)
    weights = one.sampled.weights(samples=2000, seed=0)
    bare = one.seeds[0].value(weights.astype(float))[:, 0]
    kept = np.isfinite(sampled.draws[:, 0])
    assert (sampled.draws[kept, 0] - one.value()[0]).std() == pytest.approx(
        widening(8) * (bare[kept] - one.value()[0]).std(), rel=1e-6
    )


def test_the_file_names_the_documents(tmp_path: Path) -> None:
    rows = [
        {"text_id": f"t{at}", "doc": f"d{at // 2}", "gold": ["A"], "unseen": 0, "seed": 0, "probe": "layer",
         "layer": 0, "probabilities": [0.9, 0.1, 0.1, 0.1]}
        for at in range(6)
    ]  # fmt: skip
    answers = read_answers(write_predictions(tmp_path / "x.predictions.parquet", rows), "f1")
    assert answers.documents == ("d0", "d0", "d1", "d1", "d2", "d2")
    assert len(answers.sampled) == 3
