"""A model with its dropout left on."""

from __future__ import annotations

import pytest
import torch

from lamina.errors import ModelError
from lamina.models.running.variants import DropoutEncoder, LexicalFirst
from lamina.testing import SAMPLE_TEXTS, check_encoder

TEXTS = SAMPLE_TEXTS[:3]


def states(encoder, texts=TEXTS) -> list[torch.Tensor]:
    return [made.states for made in encoder.encode(texts)]


def test_what_is_dropped_depends_on_seed_and_text_alone(tiny_encoder):
    encoder = tiny_encoder("bert")
    plain = states(encoder)
    one, again, other = (states(DropoutEncoder(encoder, seed)) for seed in (1, 1, 2))

    for mine, theirs, odd, eval_mode in zip(one, again, other, plain, strict=True):
        assert torch.equal(mine, theirs)
        assert not torch.isclose(mine, odd).all()
        assert not torch.isclose(mine, eval_mode).all()
    (alone,) = states(DropoutEncoder(encoder, 1), TEXTS[2:])
    assert torch.equal(alone, one[2]), "whatever else is encoded"
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(states(encoder), plain, strict=True))
    assert not encoder.model.training


def test_it_is_an_encoder_of_its_own(tiny_encoder):
    encoder = tiny_encoder("bert")
    dropped = DropoutEncoder(encoder, 1)
    twin = dropped.random_twin(3)

    check_encoder(dropped)
    prints = {encoder.fingerprint, dropped.fingerprint, DropoutEncoder(encoder, 2).fingerprint, twin.fingerprint}
    assert len(prints) == 4
    assert isinstance(twin, DropoutEncoder)
    assert twin.name == "bert (random)"
    assert LexicalFirst(dropped).fingerprint != LexicalFirst(encoder).fingerprint


def test_maps_are_refused(tiny_encoder):
    with pytest.raises(ModelError, match="no attention maps: its dropout is on"):
        list(DropoutEncoder(tiny_encoder("bert")).encode(TEXTS, want=("maps",)))


def test_the_random_state_is_left_alone(tiny_encoder):
    dropped = DropoutEncoder(tiny_encoder("bert"))
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    states(dropped)
    assert torch.equal(torch.rand(3), expected)
