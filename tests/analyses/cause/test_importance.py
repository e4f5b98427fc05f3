"""Importance of heads by gradient, against finite differences of weights, and its agreement with effects."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from lamina.analyses.cause.importance import GateGradients, agreement_of, corrected, gate_gradients, importance_rows
from lamina.models.interventions.interventions import Interventions
from lamina.models.language.language_model import language_model
from lamina.targets.loss import LossTarget
from lamina.targets.target import TargetScores
from lamina.types import Text
from tests.language_models import tiny_causal

TEXTS = [Text("a", ("the", "dog", "sees", "a", "cat"), doc="x"), Text("b", ("cats", "run"), doc="y")]
STEP = 1e-3


def mean_loss(weights: tuple[int, int, float], text: Text) -> float:
    """Of a text, by a model one of whose heads has its output weights scaled; in double precision."""
    encoder = tiny_causal()
    start = language_model(encoder).start
    model: Any = encoder.whole.double()  # type: ignore[union-attr]
    block, head, scale = weights
    size = encoder.width // encoder.heads
    ids = torch.tensor([start, *encoder.tokenizer(" ".join(text.words))["input_ids"]])
    with torch.no_grad():
        model.transformer.h[block].attn.c_proj.weight[head * size : (head + 1) * size] *= scale
        logs = model(ids[None]).logits[0, :-1].log_softmax(-1)
    return -float(logs.gather(1, ids[1:, None]).mean())


def test_gate_gradients_are_finite_differences_of_output_weights() -> None:
    encoder = tiny_causal()
    found = gate_gradients(Interventions(encoder), LossTarget(language_model(encoder), TEXTS))
    assert found.units == ("x", "y")
    for at, (block, head) in list(enumerate(found.heads))[::5]:
        for text, mine in zip(TEXTS, found.sums[:, at], strict=True):
            up, down = (mean_loss((block, head, 1 + step), text) for step in (STEP, -STEP))
            assert mine == pytest.approx(abs(up - down) / (2 * STEP), rel=1e-3, abs=1e-5)


def test_importance_is_normalised_by_layer_with_intervals_over_units() -> None:
    rng = np.random.default_rng(0)
    heads = tuple((block, head) for block in (1, 3) for head in range(3))
    sums = rng.gamma(2.0, size=(40, 6))
    rows = importance_rows(GateGradients(tuple(f"u{at}" for at in range(40)), sums, heads), samples=200, seed=0)
    value = np.array([row[2] for row in rows])
    assert [row[:2] for row in rows[::3]] == [(2, 1), (4, 1)]
    assert np.square(value).reshape(2, 3).sum(1) == pytest.approx([1, 1])
    assert value[0] == pytest.approx(sums[:, 0].sum() / np.linalg.norm(sums.sum(0)[:3]))
    assert all(low < own < high for *_, own, low, high in rows)


def scored(
    effects: np.ndarray, noise: float, units: int, seed: int
) -> tuple[TargetScores, list[TargetScores], list[str]]:
    """Scores of items that are effects and noise."""
    rng, one = np.random.default_rng(seed), np.ones(units)
    after = [TargetScores(each + noise * rng.normal(size=units), one) for each in effects]
    return TargetScores(np.zeros(units), one), after, [f"u{at:03}" for at in range(units)]


def test_agreement_is_spearmans_of_sizes_and_its_interval_holds_what_other_documents_show() -> None:
    true = np.array([0.3, -0.25, 0.2, 0.1, 0.05, -0.02, 0.01, 0.0])
    cheap = np.array([5.0, 6.0, 3.0, 4.0, 1.0, 2.0, 0.5, 0.7])
    heads = tuple((0, head) for head in range(8))
    made, tested, again = [], [], []
    for seed in range(30):
        before, after, units = scored(true, 0.3, 60, seed)
        sums = cheap + 2 * np.random.default_rng(100 + seed).normal(size=(60, 8))
        gradients = GateGradients(tuple(units), sums, heads)
        made.append(agreement_of(gradients, before, after, units, normalised=False, samples=200, seed=seed))
        tested.append(corrected([made[-1]])[0])
        sizes = [abs(each.value) for each in after]
        assert made[-1].rho == pytest.approx(spearmanr(sums.sum(0), sizes)[0])
        again.append(sizes)
    expected = np.mean([each.rho for each in made])
    assert sum(low <= expected <= high for _, low, high, *_ in tested) >= 26
    # Two samples of as many documents each: that is what `again` stands for.
    pairs = [float(np.asarray(spearmanr(*both))[0]) for both in pairwise(again)]
    assert np.mean([each.again for each in made]) == pytest.approx(np.mean(pairs), abs=0.08)


def test_equal_orders_agree_wholly_and_ties_cannot_be_told() -> None:
    heads = tuple((0, head) for head in range(4))
    before, after, units = scored(np.array([0.4, 0.3, 0.2, 0.1]), 0.0, 10, 0)
    same = GateGradients(tuple(units), np.tile([4.0, 3.0, 2.0, 1.0], (10, 1)), heads)
    settings: dict[str, Any] = {"normalised": True, "samples": 50, "seed": 0}
    equal, tied = (agreement_of(same, before, own, units, **settings) for own in (after, [after[0]] * 4))
    assert equal.rho == pytest.approx(1)
    assert np.isnan(tied.rho)
    # Four heads have 24 orders, of which two are as far out as any: nothing could be clear.
    assert np.isnan([row[3] for row in corrected([equal, tied])]).all()


def test_a_correlation_has_to_hold_over_documents_and_over_heads() -> None:
    heads = tuple((0, head) for head in range(12))
    size = np.linspace(0.5, 0.05, 12)
    drawn: dict[str, Any] = {"normalised": False, "samples": 300, "seed": 0}

    def p_of(cheap: np.ndarray, noise: float) -> float:
        before, after, units = scored(size, noise, 40, 1)
        sums = cheap + 0.1 * np.random.default_rng(2).normal(size=(40, 12))
        found = agreement_of(GateGradients(tuple(units), sums, heads), before, after, units, **drawn)
        return corrected([found])[0][3]

    assert p_of(size, 0.1) < 0.01
    assert p_of(size, 20.0) > 0.05, "the documents leave the order of effects open"
    # Certain over documents, but one order of a few heads in twenty lies as far out.
    assert p_of(np.random.default_rng(5).permutation(size), 0.01) > 0.05
