"""Which layers and heads of two models correspond, whatever their depth."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lamina.comparison.similarity import (
    CkaSums,
    ReadTexts,
    layer_matrix,
    match_heads,
    read_texts,
    some_texts,
    word_vectors,
)
from lamina.testing import TinyEncoder
from lamina.types import Text

TEXTS = [Text(str(at), ("the", f"dog{at}", "saw", "a", f"cat{at}", "now")) for at in range(6)]


def test_the_matrix_is_debiased_cka_of_every_pair_of_layers():
    one, other = TinyEncoder(blocks=2), TinyEncoder(blocks=3, seed=1)
    matrix = layer_matrix(read_texts(one, TEXTS), read_texts(other, TEXTS))
    assert matrix.shape == (3, 4)
    # The same from streamed moments, which never see a matrix of words by words.
    vectors = [[word_vectors(list(model.encode(TEXTS, ("states",))), layer)[0] for layer in range(model.layers)]
               for model in (one, other)]  # fmt: skip
    expected = [[CkaSums.of(left, right).cka() for right in vectors[1]] for left in vectors[0]]
    # Kernels are in float32.
    assert matrix == pytest.approx(np.array(expected), abs=1e-4)


def reading(maps: list[torch.Tensor], *, causal: bool = False) -> ReadTexts:
    return ReadTexts(torch.zeros(1, 4, 4), tuple(maps), (), 1, len(maps[0]), causal)


def planted(order: list[int], seed: int) -> list[torch.Tensor]:
    """Four texts of five words; heads attend in one way each, with a little noise, in this order."""
    steps = torch.tensor([1, 2, 3])
    draws = torch.Generator().manual_seed(seed)
    maps = []
    for _ in range(4):
        weights = 0.05 * torch.rand(3, 5, 5, generator=draws)
        for head, step in enumerate(steps.tolist()):
            for word in range(5):
                weights[head, word, (word + step) % 5] += 1
        maps.append(weights[order])
    return maps


def test_heads_that_attend_alike_match_whatever_their_place():
    matches = match_heads(reading(planted([0, 1, 2], 0)), reading(planted([2, 0, 1], 1)))
    assert [(match.head, match.match) for match in matches] == [("1-1", "1-2"), ("1-2", "1-3"), ("1-3", "1-1")]
    assert all(match.mutual and match.agrees for match in matches)
    assert all(match.overlap > 0.9 > 0.7 > match.others for match in matches)


def test_a_model_that_looks_back_only_is_compared_on_earlier_words():
    whole = reading(planted([0, 1, 2], 0))
    back = reading([maps.tril(-1) for maps in planted([0, 1, 2], 0)], causal=True)
    assert [match.match for match in match_heads(back, whole)] == ["1-1", "1-2", "1-3"]
    assert all(match.overlap == pytest.approx(1, abs=1e-5) for match in match_heads(back, whole))


def test_texts_are_short_and_few():
    texts = [Text("long", ("word",) * 60), *(Text(str(at), ("word",) * 20) for at in range(60))]
    chosen = some_texts(texts)
    assert chosen[0].id == "0"
    assert len(chosen) == 25
