"""Flipped bits and files cut short are found, named, and made good."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from lamina.activations import ActivationStore, StoredActivations, ThisMachine, extract, problems, reading, stores
from lamina.activations.store import FORMAT
from lamina.corpora import corpus_from
from lamina.errors import DamagedError, DamagedShardError, StoreError
from lamina.files import writing
from lamina.files.checking import json_text
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
def test_what_was_cut_short_is_missing_and_made_again_with_a_sentence(
    store: ActivationStore, many_texts, assert_holds, capsys: pytest.CaptureFixture[str], suffix: str, size: int
) -> None:
    path = store.shards[0].with_suffix(suffix)
    path.write_bytes(path.read_bytes()[:size])
    store.refresh()

    lost = list(store.missing(many_texts))
    assert 0 < len(lost) < len(many_texts) / 2
    said = capsys.readouterr().err
    assert said.count("its texts are encoded again") == 1
    assert str(path) in said
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


def test_a_read_that_gives_less_is_completed(store: ActivationStore, many_texts, assert_holds, monkeypatch) -> None:
    whole = os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, into, at: whole(file, [into[0][:1000]], at))

    assert_holds(store, ENCODER, many_texts)
    assert torch.equal(
        store.open(many_texts).layer(1), torch.cat([each.states[:, 1] for each in store.open(many_texts)])
    )


READERS: dict[str, Callable[[StoredActivations], object]] = {
    "load": lambda stored: [stored.load(number) for number in range(len(stored))],
    "iterate": list,
    "layer": lambda stored: stored.layer(1),
}


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def overwrite(path: Path) -> None:
    path.write_bytes(b"\1" * path.stat().st_size)


@pytest.mark.parametrize("damage", [cut, overwrite])
@pytest.mark.parametrize("reader", READERS)
def test_a_shard_damaged_after_it_was_verified_is_noticed(
    store: ActivationStore, many_texts, reader: str, damage: Callable[[Path], None]
) -> None:
    stored = store.open(many_texts)
    READERS[reader](stored)
    damage(store.shards[1])

    with pytest.raises(DamagedShardError, match=f"{store.shards[1]}.* --repair"):
        READERS[reader](stored)


def test_a_shard_touched_or_replaced_under_a_reader_reads_the_same(store: ActivationStore, many_texts) -> None:
    stored = store.open(many_texts)
    expected = stored.layer(0)
    touched, replaced, gone = store.shards[:3]
    os.utime(touched, (1, 1))
    shutil.copy(replaced, replaced.with_suffix(".new")).replace(replaced)
    gone.unlink()

    assert torch.equal(stored.layer(0), expected)


def test_a_shard_is_verified_once_until_it_changes(store: ActivationStore, many_texts, monkeypatch) -> None:
    hashed: list[int] = []
    digest = reading.digest_of
    monkeypatch.setattr(reading, "digest_of", lambda file: hashed.append(file) or digest(file))
    for shard in store.shards:
        os.utime(shard, (1, 1))
    for _ in range(2):
        list(store.open(many_texts))
    assert len(hashed) == len(store.shards)

    os.utime(store.shards[0], (2, 2))
    list(store.open(many_texts))
    assert len(hashed) == len(store.shards) + 1


def test_few_files_are_open_at_once(store: ActivationStore, many_texts, monkeypatch, assert_holds) -> None:
    monkeypatch.setattr(reading, "_OPEN_AT_ONCE", 2)
    open_now: set[int] = set()
    opened, closed = os.open, os.close
    monkeypatch.setattr(os, "open", lambda *args: (file := opened(*args), open_now.add(file))[0])
    monkeypatch.setattr(os, "close", lambda file: (open_now.discard(file), closed(file))[1])
    stored = store.open(many_texts)
    for number in range(len(stored)):
        stored.load(number)
        assert len(open_now) <= 3

    assert_holds(store, ENCODER, many_texts)


def flipped(text: bytes) -> bytes:
    at = text.index(b'"layers": ') + 10
    return text[:at] + bytes([text[at] ^ 4]) + text[at + 1 :]


HEADS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "list": lambda _: b"[]",
    "nothing in it": lambda _: b"{}",
    "zeros": lambda text: bytes(len(text)),
    "cut": lambda text: text[: len(text) // 2],
    "flipped": flipped,
    "flipped, of an older lamina": lambda text: flipped(text[: text.index(b',\n  "checksum"')] + b"}"),
    "no width": lambda _: json_text({"format": FORMAT, "encoder": "tiny"}).encode(),
}


@pytest.mark.parametrize("damage", HEADS)
def test_a_damaged_head_costs_nothing(store: ActivationStore, many_texts, assert_holds, capsys, damage: str) -> None:
    path = store.folder / "store.json"
    sound = path.read_bytes()
    path.write_bytes(HEADS[damage](sound))

    again = ActivationStore.of(ENCODER, store.folder.parent)

    assert "is written again" in capsys.readouterr().err
    assert path.read_bytes() == sound
    assert list(again.missing(many_texts)) == []
    assert_holds(again, ENCODER, many_texts)


@pytest.mark.parametrize("damage", [name for name in HEADS if "older" not in name])
def test_a_damaged_head_is_told_in_a_sentence(store: ActivationStore, damage: str) -> None:
    path = store.folder / "store.json"
    path.write_bytes(HEADS[damage](path.read_bytes()))

    with pytest.raises(DamagedError, match=r"store\.json is damaged"):
        _ = store.head
    assert [problem.path for problem in problems(store)] == [path]
    assert [each.folder for each in stores(store.folder.parent)] == [store.folder]


def test_the_shards_tell_the_precision_of_a_lost_head(tmp_path: Path, many_texts, assert_holds) -> None:
    huge = TinyEncoder(scale=1e6)
    store = ActivationStore.of(huge, tmp_path)
    ThisMachine(shard_bytes=4000).fill(huge, many_texts, store)
    (store.folder / "store.json").unlink()

    assert ActivationStore.of(huge, tmp_path).head["kept"] == "float32"
    assert_holds(store, huge, many_texts, torch.float32)


def test_a_head_is_not_made_up_for_shards_of_another_model(store: ActivationStore) -> None:
    other = TinyEncoder(blocks=1)
    store.folder.rename(store.folder.with_name(other.fingerprint[:32]))
    folder = store.folder.with_name(other.fingerprint[:32])
    (folder / "store.json").write_bytes(b"")

    with pytest.raises(StoreError, match=f"its shards are not all of .*; delete {folder}"):
        ActivationStore.of(other, folder.parent)


def test_all_that_is_wrong_is_named(store: ActivationStore) -> None:
    assert problems(store) == []
    shards = store.shards
    flip_bit(shards[0], 0.5)
    flip_bit(shards[1].with_suffix(".arrow"), 0.5)
    shards[2].unlink()
    left = [store.folder / ".half.safetensors.tmp", store.folder / "without_index.safetensors"]
    for path in left:
        path.write_bytes(b"1")

    found = problems(store)

    damaged = {problem.path: problem.what for problem in found if not problem.leftover}
    assert set(damaged) == {shards[0], shards[1].with_suffix(".arrow"), shards[2].with_suffix(".arrow")}
    assert all(str(path.stem) in what for path, what in damaged.items())
    assert [problem.path for problem in found if problem.leftover] == left
    store.drop(damaged)
    store.sweep()
    assert problems(store) == []


def test_what_a_killed_writer_left_is_swept_by_the_next(store: ActivationStore, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 2**22 + 1)
        left = writing.hidden_name(store.folder / "shard.safetensors")
    left.write_bytes(b"half a shard")
    mine = writing.hidden_name(store.folder / "other.safetensors")
    mine.write_bytes(b"of a process that lives")

    with store.writing():
        pass

    assert not left.exists()
    assert mine.exists()


def test_a_store_that_lost_its_head_is_still_found(store: ActivationStore) -> None:
    (store.folder / "store.json").unlink()

    (found,) = stores(store.folder.parent)

    assert [problem.path.name for problem in problems(found)] == ["store.json"]
