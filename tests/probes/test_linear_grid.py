"""Linear probes of many folds and penalties at once give what scikit-learn gives one by one."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge

from lamina.probes import linear_grid
from lamina.probes.linear_grid import GRID_PENALTIES, GridMembers, Standardised, fit_grid

FOLDS, WIDTH = 3, 12
PENALTIES = (1e-1, 1e-2)


@pytest.fixture(scope="module")
def vectors() -> torch.Tensor:
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(400, WIDTH)) @ (rng.normal(size=(WIDTH, WIDTH)) * np.exp(-np.arange(WIDTH) / 4)[:, None])
    return Standardised.of(torch.from_numpy(mixed.astype(np.float32))).vectors


@pytest.fixture(scope="module")
def scores(vectors) -> np.ndarray:
    """[example, label] What labels are drawn by."""
    rng = np.random.default_rng(1)
    return vectors.numpy() @ rng.normal(size=(WIDTH, 4)) + rng.gumbel(size=(len(vectors), 4))


FOLD = np.random.default_rng(2).integers(0, FOLDS, 400)
MEMBERS = GridMembers.crossed(~np.eye(FOLDS, dtype=bool), PENALTIES)


def test_softmax_agrees_with_scikit_learn_on_the_same_folds(vectors, scores):
    gold = scores.argmax(1)
    fit = fit_grid(vectors, np.eye(4)[gold], FOLD, MEMBERS)
    assert fit.converged.all()
    for number in range(len(MEMBERS)):
        learn = MEMBERS.blocks[number][FOLD]
        theirs = LogisticRegression(C=1 / (MEMBERS.penalty[number] * learn.sum()), tol=1e-6, max_iter=1000)
        likely = theirs.fit(vectors.numpy()[learn], gold[learn]).predict_proba(vectors.numpy())
        ours = torch.softmax(fit.logits(vectors, [number])[0], 1).numpy()
        # Both searches end where the slope is small, not where it is 0.
        assert np.abs(ours - likely).max() < 5e-3


def test_several_labels_agree_with_one_logistic_regression_per_label(vectors, scores):
    gold = (scores > 0).astype(float)
    fit = fit_grid(vectors, gold, FOLD, MEMBERS, loss="logistic")
    learn = MEMBERS.blocks[1][FOLD]
    for label in range(4):
        theirs = LogisticRegression(C=1 / (PENALTIES[1] * learn.sum()), tol=1e-6, max_iter=1000)
        likely = theirs.fit(vectors.numpy()[learn], gold[learn, label]).predict_proba(vectors.numpy())[:, 1]
        ours = torch.sigmoid(fit.logits(vectors, [1])[0, :, label]).numpy()
        assert np.abs(ours - likely).max() < 5e-3


def test_decisions_that_were_not_rated_are_not_learned_from(vectors, scores):
    gold = (scores > 0).astype(float)
    rated = np.ones(gold.shape, bool)
    rated[::2, 0] = False
    changed = np.where(rated, gold, 1 - gold)
    one, other = (fit_grid(vectors, labels, FOLD, MEMBERS, loss="logistic", rated=rated) for labels in (gold, changed))
    assert torch.allclose(one.weights, other.weights, atol=1e-6)
    unmasked = fit_grid(vectors, changed, FOLD, MEMBERS, loss="logistic")
    assert not torch.allclose(one.weights, unmasked.weights, atol=1e-3)


def test_ridge_is_scikit_learns(vectors, scores):
    fit = fit_grid(vectors, scores[:, :1], FOLD, MEMBERS, loss="ridge")
    for number in range(len(MEMBERS)):
        learn = MEMBERS.blocks[number][FOLD]
        theirs = Ridge(alpha=MEMBERS.penalty[number] * learn.sum()).fit(vectors.numpy()[learn], scores[learn, 0])
        assert np.allclose(fit.logits(vectors, [number])[0, :, 0], theirs.predict(vectors.numpy()), atol=1e-3)


def test_labels_of_a_left_out_fold_change_nothing(vectors, scores):
    gold = scores.argmax(1)
    other = np.where(FOLD == 0, (gold + 1) % 4, gold)
    one, two = (fit_grid(vectors, np.eye(4)[labels], FOLD, MEMBERS) for labels in (gold, other))
    left_out = np.flatnonzero(~MEMBERS.blocks[:, 0])
    # The steps are the same up to the curvature of all members; both end at the same place.
    ours, theirs = (torch.softmax(fit.logits(vectors, left_out), 2) for fit in (one, two))
    assert float((ours - theirs).abs().max()) < 5e-3


def test_fewer_examples_than_dimensions_are_fitted_too():
    rng = np.random.default_rng(3)
    vectors = Standardised.of(torch.from_numpy(rng.normal(size=(30, 50)).astype(np.float32))).vectors
    gold = rng.integers(0, 2, 30)
    fit = fit_grid(vectors, np.eye(2)[gold], np.zeros(30, int), GridMembers.crossed([[True]], (1e-2,)))
    # Two classes have one weight vector there and two opposite ones here, so that the penalty counts half.
    theirs = LogisticRegression(C=1 / (0.5e-2 * 30), tol=1e-6).fit(vectors.numpy(), gold).predict_proba(vectors.numpy())
    assert fit.converged.all()
    assert np.abs(torch.softmax(fit.logits(vectors, [0])[0], 1).numpy() - theirs).max() < 5e-3


def test_a_feature_that_never_varies_counts_for_nothing():
    standard = Standardised.of(torch.tensor([[1.0, 7.0], [3.0, 7.0], [5.0, 7.0]]))
    assert standard.vectors[:, 1].tolist() == [0, 0, 0]
    assert torch.isinf(standard.spread[1])


def test_curvature_of_all_examples_changes_only_how_long_a_search_takes(vectors, scores, monkeypatch):
    gold = np.eye(4)[scores.argmax(1)]
    led = fit_grid(vectors, gold, FOLD, MEMBERS)
    monkeypatch.setattr("lamina.probes.linear_grid._SEVERAL", 1000)
    alone = fit_grid(vectors, gold, FOLD, MEMBERS)
    ours, theirs = (torch.softmax(fit.logits(vectors, range(len(MEMBERS))), 2) for fit in (led, alone))
    assert led.converged.all()
    assert alone.converged.all()
    assert float((ours - theirs).abs().max()) < 5e-3
    # What it is for.
    assert led.rounds.sum() < alone.rounds.sum()


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_curvature_of_whole_labels_changes_only_how_long_a_search_takes(vectors, scores, monkeypatch, loss):
    gold = np.eye(4)[scores.argmax(1)] if loss == "softmax" else (scores > 0).astype(float)
    whole = fit_grid(vectors, gold, FOLD, MEMBERS, loss=loss)
    # As where examples are few for their axes: the plain path.
    monkeypatch.setattr("lamina.probes.linear_grid._DETERMINED", 1e9)
    plain = fit_grid(vectors, gold, FOLD, MEMBERS, loss=loss)
    # The same number added to all logits changes no answer of softmax.
    likely = partial(torch.softmax, dim=2) if loss == "softmax" else torch.sigmoid
    ours, theirs = (likely(fit.logits(vectors, range(len(MEMBERS)))) for fit in (whole, plain))
    assert whole.converged.all()
    assert plain.converged.all()
    # Both end where the slope is small, not where it is 0.
    assert float((ours - theirs).abs().max()) < 5e-3
    if loss == "logistic":
        # With twelve features and four classes, softmax is as fast either way.
        assert whole.rounds.sum() < plain.rounds.sum()


def test_a_search_with_all_labels_leads_under_no_weak_penalty(monkeypatch: pytest.MonkeyPatch):
    """On real vectors, members that leave a fold out were right up to .009 more often there when led under 1e-4."""
    led, descend = [], linear_grid._Together.descend

    def lead(self: Any, problem: Any, penalty: float) -> Any:
        led.append(penalty)
        return descend(self, problem, penalty)

    monkeypatch.setattr(linear_grid._Together, "descend", lead)
    rng = np.random.default_rng(0)
    vectors = Standardised.of(torch.from_numpy(rng.normal(size=(200, 4)).astype(np.float32))).vectors
    members = GridMembers.crossed(~np.eye(5, dtype=bool), GRID_PENALTIES)
    fit_grid(vectors, np.eye(2)[rng.integers(0, 2, 200)], np.arange(200) % 5, members)
    assert led == [1e-1, 1e-2, 1e-3]


def test_random_labels_are_not_read_however_weak_the_penalty():
    """Left-out labels must not leak through what members share: more dimensions than examples, drawn labels."""
    right = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        drawn = Standardised.of(torch.from_numpy(rng.normal(size=(60, 80)).astype(np.float32))).vectors
        gold, fold = rng.integers(0, 2, 60), rng.integers(0, 5, 60)
        members = GridMembers.crossed(~np.eye(5, dtype=bool), (1e-1, 1e-3, 1e-5))
        fit = fit_grid(drawn, np.eye(2)[gold], fold, members)
        for one in range(5):
            rows = np.flatnonzero(fold == one)
            answers = fit.logits(drawn[torch.from_numpy(rows)], [3 * one + 2])[0].argmax(1).numpy()
            right += (answers == gold[rows]).tolist()
    # 1,200 drawn labels: 3 standard errors of .5 are .043. Below .5 is usual: a label that is left out is rarer in what
    # is learned from.
    assert np.mean(right) < 0.545
