"""Segment id 0 for every token: another encoder where the model has segment ids, the same where it has none."""

from __future__ import annotations

import pytest
import torch
import transformers

from lamina.models.running.variants import DropoutEncoder, LexicalFirst
from lamina.testing import TinyEncoder, check_encoder
from lamina.training.heads import WindowedEncoder
from lamina.types import Span, Text

PAIR = Text("t", ("Who", "barked", "?", "The", "dogs", "did", "."), (Span(0, 3), Span(3, 7)))
ONE = Text("one", ("The", "dogs", "barked", "."))


def states(encoder, text: Text) -> torch.Tensor:
    return next(encoder.encode([text])).states


def test_every_token_has_segment_id_0_and_the_rest_stays(tiny_encoder, model_folder):
    encoder = tiny_encoder("bert")
    single = encoder.with_one_segment()
    assert single.tokenize(PAIR).ids.tolist() == encoder.tokenize(PAIR).ids.tolist()
    direct = transformers.AutoModel.from_pretrained(model_folder("bert")).eval()
    ids = torch.from_numpy(encoder.tokenize(PAIR).ids).long()[None]
    with torch.no_grad():
        zeros = direct(ids, token_type_ids=torch.zeros_like(ids)).last_hidden_state[0]
    torch.testing.assert_close(states(single, PAIR)[:, -1], zeros, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(states(encoder, PAIR), states(single, PAIR), atol=1e-3)
    # A text of one segment has id 0 everywhere already.
    torch.testing.assert_close(states(encoder, ONE), states(single, ONE))


def test_its_numbers_are_kept_under_another_name(tiny_encoder):
    encoder = tiny_encoder("bert")
    single = encoder.with_one_segment()
    assert single.model is encoder.model
    assert single.name == encoder.name
    assert single.fingerprint != encoder.fingerprint
    assert single.with_one_segment() is single
    twins = encoder.random_twin(3), single.random_twin(3)
    assert twins[0].fingerprint != twins[1].fingerprint == twins[0].with_one_segment().fingerprint
    check_encoder(single)


@pytest.mark.parametrize("name", ["roberta", "distilbert", "mpnet", "gpt2", "llama"])
def test_models_without_segment_ids_stay_as_they_are(name, tiny_encoder):
    encoder = tiny_encoder(name)
    assert encoder.with_one_segment() is encoder
    assert TinyEncoder().with_one_segment().fingerprint == TinyEncoder().fingerprint


def test_variants_of_an_encoder_keep_what_they_are(tiny_encoder):
    base = tiny_encoder("bert")
    for variant in (WindowedEncoder(base, 1), DropoutEncoder(base, 2), LexicalFirst(base)):
        single = variant.with_one_segment()
        assert type(single) is type(variant)
        assert single.fingerprint not in (variant.fingerprint, base.with_one_segment().fingerprint)
        assert not torch.allclose(states(single, PAIR), states(variant, PAIR), atol=1e-3)
