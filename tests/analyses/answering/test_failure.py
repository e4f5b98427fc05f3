"""Predicting failures: planted truth, nested models, and a null in which questions share documents."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import binom
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from benchmarks.failure_null import World, p_values
from lamina.analyses.answering.failure import (
    ADDED,
    CHANCE,
    FAILURE,
    FAILURE_CONTRASTS,
    OVER_CONFIDENCE,
    OVER_TWIN,
    AnswerCases,
    FailurePredictor,
    failure_table,
    logistic_weights,
    mixed_tasks,
    ordered_pairs,
    principal_axes,
)


def planted(*, told: bool, count: int = 120, knows: float = 0.0) -> AnswerCases:
    """Layer 1 tells of failures where `told`; the confidence where `knows` is above 0."""
    draw = np.random.default_rng(0)
    wrong = draw.random(count) < 0.4
    vectors = draw.normal(size=(count, 2, 6)).astype(np.float32)
    if told:
        vectors[:, 1, 2] += 3 * wrong
    confidence = expit(draw.normal(size=count) - knows * wrong)
    return AnswerCases(vectors, wrong, np.arange(count) // 10, confidence, draw.integers(5, 15, count).astype(float))


def rows_of(*cases: AnswerCases, twin: AnswerCases | None = None, samples: int = 200) -> pd.DataFrame:
    return tables_of(*cases, twin=twin, samples=samples)[0]


def tables_of(
    *cases: AnswerCases, twin: AnswerCases | None = None, samples: int = 200
) -> tuple[pd.DataFrame, pd.DataFrame]:
    models = {"m": list(cases)} | ({} if twin is None else {"m (random)": [twin] * len(cases)})
    found = failure_table(models, samples=samples, seed=0)
    return found.failure, found.contrasts.set_index(["contrast", "layer"])


def test_failure_is_predicted_where_a_layer_tells_it_and_nowhere_else() -> None:
    table, contrasts = tables_of(planted(told=True), twin=planted(told=False))
    assert tuple(table.columns) == FAILURE
    assert tuple(contrasts.reset_index().columns) == FAILURE_CONTRASTS
    vectors = table[(table["feature"] == "vectors") & (table["model"] == "m")].set_index("layer")
    assert vectors.loc[1, "auc"] > 0.9
    assert vectors.loc[1, "low"] > 0.8
    assert vectors.loc[0, "low"] < 0.55
    assert (vectors["documents"] == 12).all()
    assert vectors.loc[1, "gain_auc_low"] > 0
    assert vectors.loc[1, "gain_log_loss_low"] > 0
    for name in (CHANCE, OVER_TWIN, OVER_CONFIDENCE, ADDED):
        assert contrasts.loc[(name, 1), "p_adjusted"] < 0.02, name
        # Layer 0 of the twin is the same: nothing that could vary.
        assert not contrasts.loc[(name, 0), "p_adjusted"] < 0.05, name
    assert contrasts.loc[(OVER_TWIN, 1), "low"] > 0
    assert contrasts.loc[(CHANCE, 1), "estimate"] == pytest.approx(vectors.loc[1, "auc"] - 0.5)
    confidence = float(table.loc[table["feature"] == "confidence", "auc"].iloc[0])
    assert contrasts.loc[(OVER_CONFIDENCE, 1), "other"] == pytest.approx(confidence)
    twin = table[table["model"] == "m (random)"]
    assert set(twin["feature"]) == {"vectors"}


def test_few_documents_are_untested_and_the_number_needed_is_told() -> None:
    few = planted(told=True)._replace(documents=np.arange(120) % 5)
    _, contrasts = tables_of(few, twin=planted(told=False)._replace(documents=few.documents))
    assert contrasts["p_adjusted"].isna().all()
    assert set(contrasts["needed"]) == {6}


def test_features_that_lose_are_not_called_a_gain() -> None:
    _, contrasts = tables_of(planted(told=False))
    lost = contrasts[contrasts["estimate"] < 0].loc[ADDED]
    assert (lost["p_adjusted"] == 1).all()


def test_the_task_of_a_question_predicts_nothing_within_it() -> None:
    """Vectors that tell the task, and a task that decides the answer: an AUC near 1 between tasks, chance within."""
    draw = np.random.default_rng(0)
    tasks = np.repeat(["qa1", "qa15"], 100)
    wrong = draw.random(200) < np.where(tasks == "qa1", 0.1, 0.9)
    vectors = draw.normal(size=(200, 1, 4)).astype(np.float32)
    vectors[:, 0, 0] += 5 * (tasks == "qa15")
    cases = AnswerCases(vectors, wrong, np.arange(200) // 4 % 25, draw.random(200), np.ones(200), tasks)
    both = [tables_of(each) for each in (cases._replace(tasks=None), cases)]
    between, within = (table.query("feature == 'vectors'").iloc[0] for table, _ in both)
    tested = [contrasts.loc[(CHANCE, 0), "p_adjusted"] for _, contrasts in both]
    assert between["auc"] > 0.85
    assert tested[0] < 0.02
    assert within["low"] < 0.5 < within["high"]
    assert tested[1] > 0.05
    assert (between["tasks"], within["tasks"]) == (1, 2)
    one_sided = mixed_tasks(np.where(tasks == "qa15", True, wrong), tasks)
    assert one_sided.tolist() == (tasks == "qa1").tolist()


def test_the_auc_is_that_of_pairs_within_tasks() -> None:
    cases = planted(told=False, count=60)._replace(tasks=np.arange(60) % 3)
    length = cases.length + 10 * cases.tasks
    table = rows_of(cases._replace(length=length, documents=np.arange(60) // 30), samples=20)
    wins, pairs = 0.0, 0
    for document, task in np.ndindex(2, 3):
        own = (np.arange(60) // 30 == document) & (cases.tasks == task)
        count = int(cases.wrong[own].sum()) * int((~cases.wrong[own]).sum())
        # Learned from the other document: length may count either way.
        auc = roc_auc_score(cases.wrong[own], length[own])
        other = ~(np.arange(60) // 30 == document)
        slope = LogisticRegression(fit_intercept=False).fit(
            np.column_stack([length[other], np.eye(3)[cases.tasks[other]]]), cases.wrong[other]
        )
        wins, pairs = wins + count * (auc if slope.coef_[0][0] > 0 else 1 - auc), pairs + count
    assert float(table.loc[table["feature"] == "length", "auc"].iloc[0]) == pytest.approx(wins / pairs)


def test_the_lead_over_the_twin_is_tested_in_pairs() -> None:
    _, own = tables_of(planted(told=True), twin=planted(told=True))
    # The same vectors: no lead, and nothing that varies.
    assert own.loc[OVER_TWIN, "estimate"].tolist() == [0.0, 0.0]
    assert own.loc[OVER_TWIN, "p_adjusted"].isna().all()
    _, ahead = tables_of(planted(told=True), twin=planted(told=False))
    assert ahead.loc[(OVER_TWIN, 1), "p_adjusted"] < 0.01
    assert not ahead.loc[(OVER_TWIN, 0), "p_adjusted"] < 0.05


def test_what_the_confidence_knows_already_is_no_gain() -> None:
    draw = np.random.default_rng(1)
    cases = planted(told=False, count=400)
    sure = draw.normal(size=400)
    wrong = draw.random(400) < expit(-2 * sure)
    vectors = cases.vectors.copy()
    vectors[:, 1, 2] = sure + 0.3 * draw.normal(size=400)
    table, contrasts = tables_of(cases._replace(vectors=vectors, wrong=wrong, confidence=expit(sure)))
    own = table[table["feature"] == "vectors"].set_index("layer").loc[1]
    assert contrasts.loc[(CHANCE, 1), "p_adjusted"] < 0.02
    assert own["auc"] > 0.75
    assert contrasts.loc[(ADDED, 1), "p_adjusted"] > 0.01
    assert own["gain_auc_high"] < 0.05


def test_the_auc_compares_only_questions_scored_together() -> None:
    cases = planted(told=False, count=60)
    documents = np.arange(60) % 2
    # Length tells in either document, though questions of the second are longer throughout.
    length = 2.0 * documents + cases.wrong + np.random.default_rng(1).normal(size=60) * 0.5
    table = rows_of(cases._replace(documents=documents, length=length), samples=20)
    wins, pairs = 0.0, 0
    for document in (0, 1):
        own = documents == document
        count = int(cases.wrong[own].sum()) * int((~cases.wrong[own]).sum())
        wins, pairs = wins + count * roc_auc_score(cases.wrong[own], length[own]), pairs + count
    assert float(table.loc[table["feature"] == "length", "auc"].iloc[0]) == pytest.approx(wins / pairs)
    assert table["count"].eq(60).all()


def test_weighted_pairs_are_those_of_repeated_questions() -> None:
    draw = np.random.default_rng(0)
    said, wrong = draw.integers(0, 5, 30).astype(float), draw.random(30) < 0.5
    weights = draw.integers(0, 3, (4, 30))
    won, pairs = ordered_pairs(said, wrong, weights.astype(float))
    for sample, times in enumerate(weights):
        repeated = np.repeat(np.arange(30), times)
        assert won[sample] / pairs[sample] == pytest.approx(roc_auc_score(wrong[repeated], said[repeated]))


def test_the_regression_and_its_axes_are_scikit_learns() -> None:
    draw = np.random.default_rng(0)
    points = draw.normal(size=(50, 8)) @ draw.normal(size=(8, 8))
    for wide in (points, points[:6]):
        axes = principal_axes(wide, points, 4)
        expected = PCA(4, whiten=True).fit(wide).transform(points) * np.sqrt(len(wide) / (len(wide) - 1))
        # Axes come in the other order; their signs are arbitrary.
        np.testing.assert_allclose(np.abs(axes[:, ::-1]), np.abs(expected), rtol=1e-5, atol=1e-6)
    wrong = draw.random(50) < expit(points[:, 0])
    found = logistic_weights(points, wrong.astype(float), np.full(8, 2.0))
    model = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(points, wrong)
    np.testing.assert_allclose(found, model.coef_[0], atol=1e-4)


def test_seeds_are_averaged_and_turned_around_alike() -> None:
    told, nothing = planted(told=True), planted(told=False)
    one, other, both = rows_of(told), rows_of(nothing), rows_of(told, nothing)
    own = [table[table["feature"] == "vectors"].set_index("layer") for table in (one, other, both)]
    assert own[2].loc[1, "auc"] == pytest.approx((own[0].loc[1, "auc"] + own[1].loc[1, "auc"]) / 2)
    assert (own[2]["seeds"] == 2).all()
    assert tables_of(told, nothing)[1].loc[(CHANCE, 1), "p_adjusted"] < 0.02


def test_a_seed_whose_answers_are_all_right_is_left_out() -> None:
    mixed = planted(told=True)
    right = mixed._replace(wrong=np.zeros_like(mixed.wrong))
    found, alone = rows_of(right, mixed, twin=mixed), rows_of(mixed, twin=mixed)
    assert set(found["seeds"]) == {1}
    pd.testing.assert_frame_equal(found, alone)


def test_nothing_is_predicted_where_all_answers_are_alike_or_of_one_document() -> None:
    cases = planted(told=False)
    assert rows_of(cases._replace(wrong=np.ones(120, bool)), samples=10).empty
    assert rows_of(cases._replace(documents=np.zeros(120, int)), samples=10).empty
    nothing = AnswerCases(*(part[:0] for part in cases[:-1]))
    assert rows_of(nothing, samples=10).empty


def test_a_failure_that_confidence_tells_entirely_is_no_error() -> None:
    cases = planted(told=False)
    table = rows_of(cases._replace(confidence=np.where(cases.wrong, 0.0, 1.0)), samples=20)
    sure = table[table["feature"] == "confidence"].iloc[0]
    assert sure["auc"] == pytest.approx(1)
    assert np.isfinite(table.loc[table["feature"] == "vectors", "gain_log_loss"]).all()


def test_tests_keep_their_level_where_questions_share_documents() -> None:
    """The short form of `benchmarks/failure_null.py`, which does 1,000 data sets."""
    found = p_values(World(documents=10, questions=5, features=5), 60, samples=39)
    for column in found.T:
        # At two levels: what a binomial distribution with exactly this rate leaves in 998 of 1,000 cases.
        for level in (0.05, 0.5):
            lowest, highest = binom.ppf([0.001, 0.999], len(found), level)
            assert lowest <= (column <= level).sum() <= highest


def test_questions_turned_around_one_by_one_would_not_keep_the_level() -> None:
    """What is turned around matters: by question, the same statistic finds something far too often."""
    from benchmarks.failure_null import p_of, simulate

    world = World(documents=10, questions=15, features=3, failing=2.0, alike=3.0, confident=False)
    early = 0
    for seed in range(20):
        cases = simulate(world, seed)
        predictor = FailurePredictor(cases, samples=39, seed=seed)
        predictor._turned = np.random.default_rng(seed).choice([-1.0, 1.0], (len(cases.wrong), 39))
        early += p_of(predictor.judge(cases.vectors[:, 0]).alone) <= 0.05
    # At the level of the test, 4 of 20 would happen once in 60 times.
    assert early >= 4
