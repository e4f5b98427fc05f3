"""Divergences between heads: against scipy, worked by hand, with intervals that cover."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from lamina.analyses.heads import headmap as module
from lamina.analyses.heads.headmap import DIVERGENCES, SMOOTHING, DivergenceMeter, closeness, divergences, most_alike
from lamina.framework.watch import WatchedBatch, WatchedText, watch
from lamina.models import Tokens
from lamina.stats.units import BY_DOCUMENT, BY_TEXT
from lamina.testing import SAMPLE_TEXTS, TinyEncoder
from lamina.types import Text


def drawn(heads: int, size: int, sharp: float, seed: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    return (torch.randn(heads, size, size, generator=draw) * sharp).softmax(-1)


def by_scipy(maps: torch.Tensor) -> np.ndarray:
    exact = maps.double().numpy()
    smooth = exact / exact.sum(-1, keepdims=True) * (1 - SMOOTHING) + SMOOTHING / maps.shape[-1]
    pairs = [[np.square(jensenshannon(one, other, axis=-1)).sum() for other in smooth] for one in smooth]
    return np.array(pairs)


@pytest.mark.parametrize("size", [1, 5, 40, 140])
@pytest.mark.parametrize("sharp", [0.3, 3.0, 20.0])
@pytest.mark.parametrize("threads", [1, 2])
def test_divergences_are_scipys_squared(size: int, sharp: float, threads: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    maps = drawn(5, size, sharp, seed=size)
    found, exact = divergences(maps[None], torch.tensor([size]))[0], by_scipy(maps)
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-6 * size)


@given(st.integers(2, 6), st.integers(1, 20), st.floats(0.01, 30), st.integers(0, 999))
def test_divergences_are_symmetric_zero_for_oneself_and_at_most_log_2(heads: int, size: int, sharp: float, seed: int):
    found = divergences(drawn(heads, size, sharp, seed)[None], torch.tensor([size]))[0]
    assert (found == found.mT).all()
    assert (found.diagonal() == 0).all()
    assert (found >= 0).all()
    assert (found <= size * np.log(2)).all()


def test_a_gpu_takes_the_same_entropies_in_pieces(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_CELLS_IN_A_SUM", 50)
    monkeypatch.setattr(module, "_IN_ONE_KERNEL", 600)
    halves = torch.stack([drawn(4, 12, 3.0, seed) for seed in range(5)]).flatten(2) / 2
    by_numpy = module._mixed_entropies_by_numpy(halves)
    np.testing.assert_allclose(module._mixed_entropies(halves), by_numpy, rtol=1e-5)


def test_a_meter_sums_over_texts_and_counts_tokens():
    encoder = TinyEncoder()
    meter = DivergenceMeter(encoder, samples=20)
    watch(encoder, SAMPLE_TEXTS, [meter])
    made = list(encoder.encode(SAMPLE_TEXTS, ("maps",)))
    exact = sum(by_scipy(each.maps.flatten(0, 1)) for each in made)
    assert meter.tokens == sum(len(each.tokens.ids) for each in made)
    np.testing.assert_allclose(meter.summed, exact, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(meter.apart().mean, meter.summed / meter.tokens)


def seen(text: Text, *heads: list[list[float]]) -> WatchedBatch:
    """Of a model of one block."""
    maps = torch.tensor([heads])
    tokens = Tokens(np.arange(maps.shape[-1]), np.arange(maps.shape[-1]))
    return WatchedBatch.of([WatchedText(text, tokens, maps)])


ME, OTHER = [[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]
"""Each of two tokens looks at itself, or at the other."""


def test_a_divergence_worked_by_hand_and_its_interval():
    meter = DivergenceMeter(TinyEncoder(blocks=1, heads=2), samples=400)
    meter.update(seen(Text("a", ("x", "y")), ME, OTHER))
    meter.update(seen(Text("b", ("x", "y")), ME, ME))
    # Smoothed to 0.9995 and 0.0005: log 2 less the entropy of one of them, on both tokens of the first text.
    high, low = 1 - SMOOTHING / 2, SMOOTHING / 2
    own = math.log(2) + high * math.log(high) + low * math.log(low)
    assert meter.tokens == 4
    (row,) = meter.table().to_dict("records")
    assert (row["layer_a"], row["head_a"], row["layer_b"], row["head_b"]) == (1, 1, 1, 2)
    assert row["value"] == pytest.approx(2 * own, rel=1e-5)
    assert row["mean"] == pytest.approx(own / 2, rel=1e-5)
    # A sample may hold only one of the two texts.
    assert row["low"] == pytest.approx(0, abs=1e-6)
    assert row["high"] == pytest.approx(own, rel=1e-5)


def test_texts_of_one_document_are_drawn_together():
    def width(unit) -> float:
        meter = DivergenceMeter(TinyEncoder(blocks=1, heads=2), samples=400, unit=unit)
        for at in range(24):
            # Documents of four texts that are all alike: there are 6 observations, not 24.
            meter.update(seen(Text(str(at), ("x", "y"), doc=f"d{at // 4}"), ME, OTHER if at // 4 % 2 else ME))
        (row,) = meter.table().to_dict("records")
        return row["high"] - row["low"]

    assert width(BY_DOCUMENT) > 1.5 * width(BY_TEXT)


def test_the_interval_covers_the_mean_that_texts_are_drawn_from():
    own = float(divergences(torch.tensor([[ME, OTHER]]), torch.tensor([2]))[0, 0, 1]) / 2
    draw = np.random.default_rng(0)
    covered = 0
    for run in range(50):
        meter = DivergenceMeter(TinyEncoder(blocks=1, heads=2), samples=200, seed=run)
        for at, differs in enumerate(draw.random(30) < 0.5):
            meter.update(seen(Text(f"{run}-{at}", ("x", "y")), ME, OTHER if differs else ME))
        (row,) = meter.table().to_dict("records")
        covered += row["low"] <= own / 2 <= row["high"]
    assert covered >= 43


def test_very_many_heads_get_fewer_samples(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_RESAMPLED", 600)
    meter = DivergenceMeter(TinyEncoder(blocks=1, heads=2), samples=1000)
    assert meter.samples == 300
    monkeypatch.setattr(module, "_RESAMPLED", 6)
    assert DivergenceMeter(TinyEncoder(blocks=1, heads=2), samples=1000).samples == 100
    assert DivergenceMeter(TinyEncoder(blocks=1, heads=2), samples=20).samples == 20


def test_wrong_12_the_closest_pair_is_told_with_enough_digits():
    rows = [
        (1, 1, 1, 2, 3.0, 0.003, 0.0023, 0.004, 0.1, 0.09, 0.11, 0.002, 20, 0, True),
        (1, 1, 2, 1, 40.0, 0.4, 0.3, 0.5, -0.1, -0.2, 0.0, 0.06, 20, 0, False),
    ]
    table = pd.DataFrame(rows, columns=list(DIVERGENCES))
    (told,) = most_alike(table)
    assert told.text == (
        "Heads 1-1 and 1-2 attend alike: their divergence is .0030 nats per token, less than that of two heads on "
        "average (difference .100 [.090, .110])."
    )
    assert told.status == "clear"
    assert not list(most_alike(table.drop(columns=["closest"])))


def test_closeness_is_tested_for_all_pairs_at_once():
    draw = np.random.default_rng(0)
    tokens = draw.integers(20, 40, 12)
    sums = tokens[:, None] * (np.array([0.1, 0.3, 0.3, 0.3, 0.3, 0.3]) + draw.normal(0, 0.02, (12, 6)))
    columns = np.column_stack([sums, tokens])
    tests = closeness(columns)
    assert (tests.p < 0.05).tolist() == [True, *[True] * 5], "one is closer, so the others are farther than the mean"
    assert (np.sign(tests.estimate) == [1, -1, -1, -1, -1, -1]).all()
    assert (closeness(columns[:5]).needed == 6).all()
