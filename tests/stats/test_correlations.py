"""Correlations of words against scipy, and their intervals against truth that was planted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from lamina.stats.correlations import Correlations
from lamina.stats.units import weights_of

DRAW = np.random.default_rng(3)
LENGTH = DRAW.integers(1, 9, 400).astype(float)
FREQUENCY = -LENGTH + DRAW.normal(size=400)
BITS = 2 - FREQUENCY + DRAW.normal(size=400)
VARIABLES = {"length": LENGTH, "frequency": FREQUENCY, "bits": BITS, "same": np.full(400, 0.1)}
DOCUMENTS = [f"d{at % 23}" for at in range(400)]


def test_scipy_agrees() -> None:
    found = Correlations(VARIABLES, DOCUMENTS, samples=1, seed=0)
    assert found.of("bits", "length", "pearson").value == pytest.approx(pearsonr(BITS, LENGTH)[0])
    assert found.of("bits", "length", "spearman").value == pytest.approx(spearmanr(BITS, LENGTH)[0])
    left = [each - np.polyval(np.polyfit(FREQUENCY, each, 1), FREQUENCY) for each in (BITS, LENGTH)]
    partial = found.of("bits", "length", "pearson", given="frequency").value
    assert partial == pytest.approx(pearsonr(*left)[0])
    for kind in ("pearson", "spearman"):
        assert all(map(math.isnan, found.of("bits", "same", kind))), "what does not vary has no correlation"
        assert math.isnan(found.of("bits", "length", kind, given="length").value)


def test_every_draw_ranks_its_own_words() -> None:
    found = Correlations(VARIABLES, DOCUMENTS, samples=40, seed=1).of("bits", "length", "spearman")
    spread = []
    for sample in range(40):
        times = [int(weights_of(name, samples=40, seed=1)[sample]) for name in DOCUMENTS]
        spread.append(spearmanr(np.repeat(BITS, times), np.repeat(LENGTH, times))[0])
    assert found[1:] == pytest.approx(np.quantile(spread, [0.025, 0.975]))
    backwards = {name: each[::-1] for name, each in VARIABLES.items()}
    again = Correlations(backwards, DOCUMENTS[::-1], samples=40, seed=1).of("bits", "length", "spearman")
    assert again == pytest.approx(found), "order changes nothing"
