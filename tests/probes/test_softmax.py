"""The softmax probe against scikit-learn, and what it does when it cannot be fitted."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from lamina.probes import linear as softmax
from lamina.probes.linear import LabelledVectors, fit_softmax


def planted(count: int, seed: int) -> LabelledVectors:
    """Three classes that depend on two of five features, with noise; the last feature never varies."""
    draw = np.random.default_rng(seed)
    vectors = draw.normal(size=(count, 5)) * (1, 10, 1, 1, 0)
    logits = np.stack([vectors[:, 0], vectors[:, 1] / 10, -vectors[:, 0]], 1)
    return LabelledVectors(vectors, (2 * logits + draw.gumbel(size=(count, 3))).argmax(1))


def test_it_is_scikit_learns_solution() -> None:
    learn, select, scored = planted(400, 0), planted(100, 1), planted(50, 2)
    probe = fit_softmax(learn, select, 3)
    assert probe.converged
    used = np.isfinite(probe.spread)
    assert used.tolist() == [True, True, True, True, False]
    centred = ((learn.vectors - probe.middle) / probe.spread)[:, used]
    model = LogisticRegression(C=1 / (probe.penalty * len(learn.gold)), tol=1e-8, max_iter=1000)
    expected = model.fit(centred, learn.gold).predict_proba(((scored.vectors - probe.middle) / probe.spread)[:, used])
    assert probe.probabilities(scored.vectors) == pytest.approx(expected, abs=1e-2)


def test_a_penalty_that_helps_others_is_chosen() -> None:
    draw = np.random.default_rng(0)
    # Labels that have nothing to do with the vectors: whatever is learned does harm.
    learn, select = (LabelledVectors(draw.normal(size=(size, 30)), draw.integers(0, 2, size)) for size in (60, 400))
    assert fit_softmax(learn, select, 2).penalty == softmax.PENALTIES[0]


def test_what_has_not_converged_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax, "_ROUNDS", 1)
    probe = fit_softmax(planted(400, 0), planted(100, 1), 3)
    assert not probe.converged
    assert np.isnan(probe.probabilities(planted(5, 3).vectors)).all()
