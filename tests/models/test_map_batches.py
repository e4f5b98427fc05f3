"""Batches of maps: those of `encode`, padded with zeros, never of windows, never larger than there is room for."""

from __future__ import annotations

import pytest
import torch

from lamina.errors import ModelError
from lamina.models.running import attention_maps as module
from lamina.models.running.attention_maps import without_padding
from lamina.testing import SAMPLE_TEXTS, TinyEncoder
from lamina.types import Text


@pytest.mark.parametrize("name", ["bert", "llama", "deberta-v2"])
def test_batches_hold_the_maps_and_norms_of_encode_and_zeros_around_them(tiny_encoder, name: str):
    encoder = tiny_encoder(name)
    alone = {made.text: made for made in encoder.encode(SAMPLE_TEXTS, ("maps", "norms"))}
    seen = []
    for made in encoder.map_batches(SAMPLE_TEXTS, norms=True):
        for at, (text, tokens) in enumerate(zip(made.texts, made.tokens, strict=True)):
            size, expected = len(tokens.ids), alone[text]
            seen.append(text)
            if not made.maps:
                assert expected.windows > 1
                continue
            maps = torch.stack([block[at] for block in made.maps])
            torch.testing.assert_close(maps[..., :size, :size], expected.maps, atol=1e-5, rtol=0)
            norms = torch.stack([block[at, :, :size] for block in made.norms])
            torch.testing.assert_close(norms, expected.norms, atol=1e-4, rtol=1e-4)
            assert not maps[..., size:, :].any()
            assert not maps[..., size:].any()
    assert sorted(seen) == sorted(alone)


def test_encoders_that_go_text_by_text_give_batches_too():
    texts = [*SAMPLE_TEXTS, *(Text(f"more {at}", ("dogs", "bark")) for at in range(12))]
    made = list(TinyEncoder().map_batches(texts))
    assert [name for batch in made for name in batch.texts] == [text.id for text in texts]
    assert {len(batch.texts) for batch in made} == {8, 3}
    assert all(not batch.norms for batch in made)


def test_a_text_of_several_windows_comes_without_maps(tiny_encoder):
    encoder = tiny_encoder("bert")
    long = Text("long", ("dog",) * 2 * encoder.limit)
    made = {name: batch for batch in encoder.map_batches([SAMPLE_TEXTS[0], long]) for name in batch.texts}
    assert made["long"].maps == ()
    assert made["plain"].maps


def test_maps_too_large_for_the_room_come_in_several_batches(tiny_encoder, monkeypatch: pytest.MonkeyPatch):
    encoder = tiny_encoder("bert")
    whole = [name for made in encoder.map_batches(SAMPLE_TEXTS) for name in made.texts]
    monkeypatch.setitem(module._CELLS, "cpu", 1)
    one_by_one = list(encoder.map_batches(SAMPLE_TEXTS))
    assert all(len(made.texts) == 1 for made in one_by_one)
    # Some meters learn from texts in the order they come in.
    assert [made.texts[0] for made in one_by_one] == whole


def test_padding_is_cleared_whatever_a_model_left_there():
    maps = torch.full((2, 1, 3, 3), float("nan"))
    maps[0], maps[1, :, :2, :2] = 1, 1
    (cleared,) = without_padding([maps], [3, 2])
    assert cleared.sum((-1, -2)).flatten().tolist() == [9, 4]


def test_an_encoder_without_heads_is_refused(tiny_encoder, monkeypatch: pytest.MonkeyPatch):
    encoder = tiny_encoder("bert")
    monkeypatch.setattr(encoder, "heads", 0)
    with pytest.raises(ModelError, match="no attention maps"):
        next(iter(encoder.map_batches(SAMPLE_TEXTS)))
