"""Skip-gram trained on a corpus."""

from __future__ import annotations

import numpy as np
import torch

from lamina.models.static import train_skipgram
from lamina.types import Text


def texts() -> list[Text]:
    draw = np.random.default_rng(0)
    kinds = (("dog", "cat", "horse"), ("runs", "eats"), ("Iron", "steel", "gold"), ("melts", "shines"))
    made = []
    for number in range(400):
        first = 2 * (number % 2)
        words = [str(draw.choice(kinds[first + (at % 2)])) for at in range(6)]
        made.append(Text(f"t{number}", tuple(words)))
    return made


def vector(encoder, word: str) -> torch.Tensor:
    return next(encoder.encode([Text("w", (word,))])).states[0, 0]


def test_words_of_the_same_company_are_alike_and_case_does_not_matter():
    encoder = train_skipgram(texts(), width=16, epochs=60)
    cosine = torch.nn.functional.cosine_similarity
    dog, cat, iron = (vector(encoder, word) for word in ("dog", "cat", "iron"))
    assert cosine(dog, cat, dim=0) > cosine(dog, iron, dim=0) + 0.2
    assert torch.equal(vector(encoder, "IRON"), iron)


def test_the_same_seed_gives_the_same_vectors_and_every_word_has_one():
    one, same, other = (train_skipgram(texts(), width=8, epochs=1, seed=seed) for seed in (1, 1, 2))
    assert one.fingerprint == same.fingerprint != other.fingerprint
    assert one.tokenize(Text("all", ("dog", "melts", "gold"))).unknown == 0
    odd = train_skipgram([Text("odd", ("a b", "c\td", "e"))] * 3, width=4, epochs=1)
    assert odd.tokenize(Text("odd", ("a b", "c\td", "e"))).unknown == 0
