"""Weights in 8 bits: each row in steps of its own, the same body with and without its head, close to the original."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import lamina
from lamina.models.language.language_model import language_model
from lamina.models.weights.quantised import rounded
from lamina.types import Text
from tests.language_models import save, tiny_causal, tiny_masked

TEXT = Text("t", ("the", "lazy", "dog", "runs"))


def test_every_row_has_255_steps_of_its_own() -> None:
    weight = torch.randn(7, 33, generator=torch.Generator().manual_seed(0))
    exact = weight.double().numpy()
    steps = np.abs(exact).max(1, keepdims=True) / 127
    by_hand = np.rint(exact / steps) * steps
    # Float32 has about seven digits.
    assert np.allclose(rounded(weight).numpy(), by_hand, atol=1e-6)
    assert np.abs(rounded(weight).numpy() - exact).max() <= steps.max() / 2 + 1e-6


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_a_rounded_model_is_another_one_close_to_it(model_folder, kind: str) -> None:
    folder = str(model_folder(kind))
    original, small = (lamina.load_encoder(folder, device="cpu", dtype=dtype) for dtype in ("float32", "int8"))
    assert small.name == f"{original.name} (int8)"
    assert small.fingerprint != original.fingerprint
    one, other = (next(iter(encoder.encode([TEXT]))).states for encoder in (original, small))
    assert one is not None
    assert other is not None
    assert torch.equal(one[:, 0], other[:, 0]), "embeddings stay"
    apart = (one[:, -1] - other[:, -1]).norm() / one[:, -1].norm()
    assert 1e-5 < float(apart) < 0.1


@pytest.mark.parametrize("make", [tiny_masked, tiny_causal])
def test_the_head_goes_with_the_rounded_body(make, tmp_path: Path) -> None:
    folder = str(save(make(), tmp_path))
    small, original = (language_model(lamina.load_encoder(folder, device="cpu", dtype=d)) for d in ("int8", "float32"))
    assert small.fingerprint != original.fingerprint
