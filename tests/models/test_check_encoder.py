"""The contract as a check: what keeps it passes, and every way of breaking it is found."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from lamina.models import Tokens
from lamina.testing import SAMPLE_TEXTS, TinyEncoder, check_encoder
from lamina.types import Text


class Broken(TinyEncoder):
    """Keeps the contract but for what `spoil` does to each result."""

    def __init__(self, spoil):
        super().__init__()
        self.spoil = spoil
        self.asked = 0

    def encode(self, texts, want=("states",), *, ordered=True):
        """As TinyEncoder, spoilt."""
        texts = list(texts)
        self.asked = len(texts)
        for made in super().encode(texts, want, ordered=ordered):
            yield dataclasses.replace(made, **self.spoil(self, made))


def scattered(states):
    return torch.cat([states, torch.zeros_like(states)], dim=2)[..., : states.shape[-1]]


BREACHES = {
    "states were requested": lambda e, m: {"states": None},
    "not (7, 3, 16)": lambda e, m: {"states": None if m.states is None else m.states[:, :2].clone()},
    "batching changes states": lambda e, m: {"states": None if m.states is None else m.states + 0.01 * e.asked},
    "not in one piece of memory": lambda e, m: {"states": None if m.states is None else scattered(m.states)},
    "disagree on tokens": lambda e, m: {"tokens": m.tokens._replace(ids=m.tokens.ids + 1)},
    "not in the order of the texts": lambda e, m: {"text": "x"},
    "maps were requested": lambda e, m: {"maps": None},
    "rows of attention sum to 1.10": lambda e, m: {"maps": None if m.maps is None else m.maps * 1.1},
    "maps are not": lambda e, m: {"maps": None if m.maps is None else m.maps[:1]},
    # With its maps: the type of activations ties their shapes together.
    "norms are": lambda e, m: {} if m.norms is None else {"norms": m.norms[:1], "maps": m.maps[:1]},
    "not positive numbers": lambda e, m: {"norms": None if m.norms is None else m.norms - 100},
    "batching changes norms": lambda e, m: {"norms": None if m.norms is None else m.norms + e.asked},
}


@pytest.mark.parametrize("said", BREACHES)
def test_a_breach_is_named(said):
    text = Text("t", ("Hello", "lovely", "you"))
    with pytest.raises(AssertionError) as caught:
        check_encoder(Broken(BREACHES[said]), [text, *SAMPLE_TEXTS])
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: Tokens(t.ids, np.where(t.words == 1, 0, t.words)), "a word has no token"),
        (lambda t: Tokens(t.ids, t.words[::-1].copy()), "not in the order of their words"),
    ],
)
def test_words_out_of_place_are_found(change, said, monkeypatch):
    encoder = TinyEncoder()
    honest = encoder.tokenize
    monkeypatch.setattr(encoder, "tokenize", lambda text: change(honest(text)))
    with pytest.raises(AssertionError, match=said):
        check_encoder(encoder)


def test_glued_words_are_found():
    class Glued(TinyEncoder):
        def joined_ids(self, words):
            return [0]

    with pytest.raises(AssertionError, match="ids differ from those of the joined text"):
        check_encoder(Glued())


@pytest.mark.parametrize("sizes", [{}, {"blocks": 0}, {"blocks": 4, "heads": 4, "width": 32, "seed": 3, "scale": 1e5}])
def test_the_tiny_encoder_keeps_the_contract(sizes):
    encoder = TinyEncoder(**sizes)
    check_encoder(encoder)
    check_encoder(encoder.random_twin())


def test_the_tiny_encoder_gives_even_an_empty_word_a_token():
    check_encoder(TinyEncoder(), [Text("t", ("a", "", "b"))])


def test_tiny_fingerprints_follow_the_numbers():
    encoder = TinyEncoder()
    others = [TinyEncoder(seed=1), TinyEncoder(scale=2), encoder.random_twin(1)]
    others += [encoder.random_twin(1, keep_embeddings=True), TinyEncoder(blocks=1), TinyEncoder(heads=1)]
    assert len({each.fingerprint for each in [encoder, *others]}) == 7
    assert TinyEncoder().fingerprint == encoder.fingerprint


def test_the_tiny_twin_keeps_embeddings_when_asked():
    encoder = TinyEncoder(scale=2)
    (mine,), (kept,), (drawn,) = (
        each.encode(SAMPLE_TEXTS[:1])
        for each in (encoder, encoder.random_twin(keep_embeddings=True), encoder.random_twin())
    )
    assert torch.equal(mine.states[:, 0], kept.states[:, 0])
    assert not torch.allclose(mine.states[:, 1], kept.states[:, 1])
    assert not torch.allclose(mine.states[:, 0], drawn.states[:, 0])
