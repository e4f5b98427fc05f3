"""Writing straight from the memory that an encoder filled, as a GPU does it: room is asked for one batch ahead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from lamina.activations import ActivationStore
from lamina.activations.shards import HalfOverflowError
from lamina.errors import ModelError
from lamina.models.contract import Packed
from lamina.testing import TinyEncoder
from lamina.types import Text, text_key


def one_ahead(encoder: TinyEncoder, texts: list[Text], **how) -> Iterator[Packed]:
    """Each batch once room for the next one was taken and filled."""
    keyed = (Text(text_key(text).hex(), text.words, text.segments) for text in texts)
    before: list[Packed] = []
    for packed in encoder.packed(keyed, **how):
        yield from before
        before = [packed]
    yield from before


@pytest.mark.parametrize("shard_bytes", [1, 4000, 2**20])
def test_what_was_filled_ahead_is_stored_in_its_place(
    tmp_path: Path, assert_holds, keys_held, many_texts, shard_bytes: int
) -> None:
    encoder, texts = TinyEncoder(), many_texts[:40]
    store = ActivationStore.of(encoder, tmp_path)
    with store.writing(shard_bytes) as writer:
        for packed in one_ahead(encoder, texts, dtype=writer.dtype, room=writer.room, most=writer.most):
            writer.add_packed(packed)

    assert_holds(store, encoder, texts)
    assert len(keys_held(store)) == len(texts)
    assert store.damaged() == []
    assert (len(store.shards) == 1) == (shard_bytes == 2**20)


def test_memory_is_used_again(tmp_path: Path, many_texts) -> None:
    encoder = TinyEncoder()
    memory = set()
    with ActivationStore.of(encoder, tmp_path).writing(4000) as writer:
        for packed in one_ahead(encoder, many_texts[:60], dtype=writer.dtype, room=writer.room, most=writer.most):
            memory.add(packed.states.untyped_storage().data_ptr())
            writer.add_packed(packed)
    assert len(memory) <= 4


@pytest.mark.parametrize(("value", "error"), [(torch.inf, HalfOverflowError), (torch.nan, ModelError)], ids=str)
def test_a_batch_that_is_useless_is_not_stored(tmp_path: Path, value: float, error: type[Exception]) -> None:
    encoder, text = TinyEncoder(), Text("a", ("b",))
    store = ActivationStore.of(encoder, tmp_path)
    (activations,) = encoder.encode([text])
    assert activations.states is not None
    activations.states[0, 0, 0] = value
    with pytest.raises(error), store.writing() as writer:
        writer.add(text_key(text), activations)
    assert store.shards == []
