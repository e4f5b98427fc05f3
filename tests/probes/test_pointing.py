"""Probes that point at a token: the same answer as a plain search for the lowest loss."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from lamina.probes.linear import PointingTexts, fit_pointing


def drawn(seed: int, texts: int, along: np.ndarray, noise: float = 1.0) -> PointingTexts:
    """Texts whose token to find lies farthest along a direction, up to some noise."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(3, 9, texts)
    # A mean that is far from 0 must not matter.
    vectors = draw.normal(size=(sizes.sum(), len(along))) + 5
    parts = np.split(vectors, np.cumsum(sizes)[:-1])
    gold = [int((own @ along + noise * draw.gumbel(size=len(own))).argmax()) for own in parts]
    return PointingTexts(vectors, sizes, np.array(gold))


def mean_loss(weights: np.ndarray, texts: PointingTexts) -> float:
    parts = np.split(texts.vectors @ weights, np.cumsum(texts.sizes)[:-1])
    return float(np.mean([logsumexp(own) - own[at] for own, at in zip(parts, texts.gold, strict=True)]))


def test_it_finds_the_lowest_loss_and_the_planted_direction() -> None:
    along = np.array([2.0, -1.0, 0.0, 0.5])
    learn, select = drawn(0, 150, along), drawn(1, 80, along)
    probe = fit_pointing(learn, select)
    spread = learn.vectors.std(0)

    def penalised(weights: np.ndarray) -> float:
        return mean_loss(weights / spread, learn) + probe.penalty / 2 * float(np.square(weights).sum())

    found = minimize(penalised, np.zeros(4), method="BFGS")
    assert probe.converged
    assert probe.weights == pytest.approx(found.x / spread, abs=5e-3)
    cosine = probe.weights @ along / np.linalg.norm(probe.weights) / np.linalg.norm(along)
    assert cosine > 0.95


def test_noise_alone_is_as_good_as_guessing() -> None:
    learn, select, scored = (drawn(seed, 300, np.zeros(3)) for seed in (0, 1, 2))
    guessing = np.log(scored.sizes).mean()
    assert mean_loss(fit_pointing(learn, select).weights, scored) == pytest.approx(guessing, abs=0.05)
