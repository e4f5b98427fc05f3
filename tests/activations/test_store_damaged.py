"""Flipped bits and files cut short are found, named, and made good."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lamina.activations import ActivationStore, ThisMachine, extract
from lamina.corpora import corpus_from
from lamina.errors import DamagedShardError, StoreError
from lamina.testing import TinyEncoder

ENCODER = TinyEncoder()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, many_texts) -> Path:
    root = tmp_path_factory.mktemp("sound")
    store = ActivationStore.of(ENCODER, root)
    ThisMachine(shard_bytes=20_000).fill(ENCODER, many_texts, store)
    assert len(store.shards) > 3
    return root


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> ActivationStore:
    shutil.copytree(sound, tmp_path / "store")
    return ActivationStore.of(ENCODER, tmp_path / "store")


def flip_bit(path: Path, at: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(at * (len(data) - 1))] ^= 8
    path.write_bytes(data)


@pytest.mark.parametrize("at", [0.0, 0.001, 0.5, 1.0])
def test_a_flipped_bit_is_found_and_named(store: ActivationStore, many_texts, at: float) -> None:
    bad = store.shards[1]
    flip_bit(bad, at)

    with pytest.raises(DamagedShardError, match=f"{bad}.* --repair"):
        list(store.open(many_texts))
    assert store.damaged() == [bad]


def test_sound_shards_can_still_be_read(store: ActivationStore, many_texts) -> None:
    flip_bit(store.shards[1], 0.5)
    stored = store.open(many_texts)

    read = 0
    for index in range(len(stored)):
        try:
            read += stored[index].states is not None
        except DamagedShardError:
            continue
    assert len(many_texts) * 0.5 < read < len(many_texts)


def test_repair_encodes_just_the_damaged_texts(store: ActivationStore, many_texts, assert_holds) -> None:
    bad = store.shards[2]
    others = {path: path.stat().st_mtime_ns for path in store.shards if path != bad}
    flip_bit(bad, 0.3)
    heard: list[str] = []

    class Counting(TinyEncoder):
        def encode(self, texts, want=("states",), *, ordered=True):
            for activations in super().encode(texts, want):
                heard.append(activations.text)
                yield activations

    extract(Counting(), corpus_from(many_texts), root=store.folder.parent, repair=True)

    store.refresh()
    assert 0 < len(heard) < len(many_texts) / 2
    assert store.damaged() == []
    assert {path: path.stat().st_mtime_ns for path in others} == others
    assert_holds(store, ENCODER, many_texts)


def test_unverified_a_broken_header_is_still_told(store: ActivationStore, many_texts) -> None:
    for shard in store.shards:
        flip_bit(shard, 0.0)
        data = shard.read_bytes()
        shard.write_bytes(b"\xff" * 8 + data[8:])

    with pytest.raises(StoreError, match="cannot be opened"):
        next(iter(store.open(many_texts, verify=False)))


@pytest.mark.parametrize("suffix", [".safetensors", ".arrow"])
@pytest.mark.parametrize("size", [0, 100, -1])
def test_what_was_cut_short_is_missing_and_made_again(
    store: ActivationStore, many_texts, assert_holds, suffix: str, size: int
) -> None:
    path = store.shards[0].with_suffix(suffix)
    path.write_bytes(path.read_bytes()[:size])
    store.refresh()

    lost = list(store.missing(many_texts))
    assert 0 < len(lost) < len(many_texts) / 2
    assert ThisMachine().fill(ENCODER, many_texts, store) == len(lost)
    assert_holds(store, ENCODER, many_texts)
    store.sweep()
    assert store.damaged() == []


@pytest.mark.parametrize("suffix", [".safetensors", ".arrow"])
def test_half_a_shard_is_none(store: ActivationStore, many_texts, assert_holds, suffix: str) -> None:
    store.shards[0].with_suffix(suffix).unlink()

    assert 0 < ThisMachine().fill(ENCODER, many_texts, store) < len(many_texts) / 2
    store.sweep()
    assert_holds(store, ENCODER, many_texts)
    assert store.damaged() == []


def test_no_flipped_bit_of_an_index_hands_out_other_words(store: ActivationStore, many_texts) -> None:
    path = store.shards[0].with_suffix(".arrow")
    good = path.read_bytes()
    for at in range(0, len(good), 7):
        path.write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
        store.refresh()
        assert 0 < len(list(store.missing(many_texts))) < len(many_texts)
