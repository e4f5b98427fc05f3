"""Shifted positions against the model called by hand."""

from __future__ import annotations

import pytest
import torch

from lamina.errors import ModelError
from lamina.models.language.language_model import WrittenPassage, language_model, score_passages
from lamina.models.running.variants import with_positions_shifted
from lamina.testing import TinyEncoder
from lamina.types import Text
from tests.language_models import tiny_language_model, tiny_masked

TEXTS = [Text("a", ("The", "dog", "barked", ".")), Text("b", ("Who", "?"))]


@pytest.mark.parametrize(("name", "first"), [("bert", 0), ("roberta", 2), ("mpnet", 2), ("gpt2", 0)])
def test_states_are_those_of_the_model_with_other_position_ids(name: str, first: int) -> None:
    encoder = tiny_language_model(name)
    shifted = with_positions_shifted(encoder, 7)
    assert shifted.limit == encoder.limit - 7
    assert shifted.fingerprint != encoder.fingerprint
    for made in shifted.encode(TEXTS):
        ids = torch.from_numpy(made.tokens.ids).long()[None]
        places = torch.arange(ids.shape[1])[None] + first + 7
        with torch.no_grad():
            own = encoder.model(input_ids=ids, position_ids=places).last_hidden_state[0]
        assert made.states is not None
        assert torch.allclose(made.states[:, -1], own, atol=1e-4)
    (unmoved,) = with_positions_shifted(encoder, 0).encode(TEXTS[:1])
    (plain,) = encoder.encode(TEXTS[:1])
    assert unmoved.states is not None
    assert plain.states is not None
    assert torch.allclose(unmoved.states, plain.states, atol=1e-5)


def test_rotary_positions_are_relative_and_absolute_ones_are_not() -> None:
    passages = [WrittenPassage.typed("1", "The quick dog barked ."), WrittenPassage.typed("2", "Who ?")]
    changes = {}
    for name in ("llama", "bert"):
        model = language_model(tiny_language_model(name))
        pairs = zip(score_passages(model, passages), score_passages(model.shifted(9), passages), strict=True)
        changes[name] = max(abs(one.total - two.total) for one, two in pairs)
    assert changes["llama"] < 1e-3
    assert changes["bert"] > 1e-2


def test_what_cannot_be_shifted_says_why() -> None:
    with pytest.raises(ModelError, match="has no positions to shift"):
        with_positions_shifted(TinyEncoder(), 1)
    with pytest.raises(ModelError, match="shifted by 30, fewer than 16 are left for a text"):
        with_positions_shifted(tiny_masked(), 30)
