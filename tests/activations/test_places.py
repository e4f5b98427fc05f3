"""The index of a store in columns."""

from __future__ import annotations

import numpy as np
import pytest

from lamina.activations.reading import ChosenPlaces, StoreIndex
from lamina.activations.shards import ShardEntry, write_shard


@pytest.fixture
def shards(tmp_path):
    """Two shards; both have the second text."""

    def shard(folder, *entries: ShardEntry):
        folder.mkdir()
        tokens = np.zeros(sum(entry.size for entry in entries), np.int32)
        return write_shard(folder, {"ids": tokens, "states": np.ones((len(tokens), 2, 3), np.float16)}, entries)

    one, two, three = (bytes([number]) * 16 for number in (9, 200, 3))
    first = shard(tmp_path / "a", ShardEntry(one, 0, 4, 1, 1), ShardEntry(two, 4, 6, 0, 2))
    return [first, shard(tmp_path / "b", ShardEntry(three, 0, 5, 0, 1), ShardEntry(two, 5, 6, 0, 2))]


def test_texts_are_found_where_their_entries_say(shards):
    places = StoreIndex(shards)
    row = places.find(b"\x03" * 16)
    assert row is not None
    assert places.place(row) == (shards[1], ShardEntry(b"\x03" * 16, 0, 5, 0, 1))
    assert bytes(16) not in places


def test_of_a_text_stored_twice_the_first_shard_counts(shards):
    places = StoreIndex(shards)
    row = places.find(b"\xc8" * 16)
    assert row is not None
    assert places.place(row).shard == shards[0]
    assert len(places) == 3


def test_a_damaged_index_has_no_texts(shards):
    index = shards[0].with_suffix(".arrow")
    index.write_bytes(index.read_bytes()[:-1] + b"?")
    assert len(StoreIndex(shards)) == 2
    index.unlink()
    shards[1].with_suffix(".arrow").unlink()
    assert len(StoreIndex(shards)) == 0


def test_chosen_places_are_a_sequence_in_their_own_order(shards):
    places = StoreIndex(shards)
    rows = [places.find(bytes([number]) * 16) for number in (200, 3, 200)]
    chosen = ChosenPlaces(places, [row for row in rows if row is not None])
    assert [place.entry.size for place in chosen] == [6, 5, 6]
    assert chosen[-1] == chosen[0]
    assert [place.entry.size for place in chosen[1:]] == [5, 6]
