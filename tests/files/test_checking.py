"""Kept files carry checksums, and any change of a bit is noticed or harmless."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from lamina.errors import DamagedError
from lamina.files import checking
from lamina.files.checking import load_tensors, matches, read_json, save_tensors, sha256_of, write_json

CONTENT = {"layers": 7, "name": "tiny \u00e9", "values": [0.1, None, 1e-9], "nested": {"b": 1, "a": True}}


def test_json_is_read_back_and_can_be_read_by_others(tmp_path: Path) -> None:
    path = tmp_path / "store.json"
    write_json(path, CONTENT)

    assert read_json(path) == CONTENT
    assert json.loads(path.read_text())["layers"] == 7


def test_json_of_older_versions_has_no_checksum(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(json.dumps(CONTENT))

    assert read_json(tmp_path / "old.json") == CONTENT


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_of_json_is_noticed_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, place: int, bit: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "flipped.json"
    write_json(path, CONTENT)
    flip(path, place, bit)

    try:
        found = read_json(path)
    except DamagedError:
        return
    assert CONTENT.items() <= found.items()


@pytest.mark.parametrize("damage", [b"", b"[]", b"3", b"\0" * 50, b"[" * 100_000, b"9" * 5000, b'{"a": 1'])
def test_other_content_is_damage(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "x.json").write_bytes(damage)

    with pytest.raises(DamagedError, match=r"x.json is damaged"):
        read_json(tmp_path / "x.json")


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_of_tensors_is_noticed_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, place: int, bit: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "flipped.safetensors"
    tensors = {"a": torch.arange(12.0).reshape(3, 4), "b": torch.tensor([True, False])}
    save_tensors(path, tensors, {"step": 3, "cuts": [[0, 1]]})
    flip(path, place, bit)

    try:
        found, head = load_tensors(path)
    except DamagedError:
        return
    assert all(found[name].equal(tensor) for name, tensor in tensors.items())
    assert head == {"step": 3, "cuts": [[0, 1]]}


def test_tensors_of_every_kind_are_read_back(tmp_path: Path) -> None:
    kinds = (torch.float16, torch.bfloat16, torch.int64, torch.bool)
    tensors = {str(kind): torch.ones(2, 3).to(kind) for kind in kinds} | {
        "none": torch.zeros(0, 3),
        "one": torch.tensor(2),
        "without a stride": torch.ones(1).as_strided((1,), (0,)),
    }
    save_tensors(tmp_path / "x", tensors, {})

    found, head = load_tensors(tmp_path / "x")

    assert head == {}
    assert all(found[name].equal(tensor) for name, tensor in tensors.items())


def test_the_same_tensors_have_the_same_bytes_and_older_files_are_read(tmp_path: Path) -> None:
    tensors, head = {"a": torch.arange(4.0)}, {"step": 3, "name": "x y"}
    for number in range(8):
        save_tensors(tmp_path / str(number), tensors, head)

    assert len({(tmp_path / str(number)).read_bytes() for number in range(8)}) == 1
    for name, more in (("without", {}), ("with", {"checksum": checking.digest_tensors(tensors, json.dumps(head))})):
        save_file(tensors, tmp_path / name, {"lamina": json.dumps(head)} | more)
        assert load_tensors(tmp_path / name)[1] == head
    save_file(tensors, tmp_path / "other", {"lamina": json.dumps(head), "checksum": "0" * 32})
    with pytest.raises(DamagedError, match="its checksum does not match"):
        load_tensors(tmp_path / "other")


def test_a_hash_is_computed_again_only_if_size_or_time_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"x" * 100)
    os.utime(path, (1, 1))
    right = hashlib.sha256(b"x" * 100).hexdigest()
    assert matches(path, right)

    with monkeypatch.context() as patch:
        patch.setattr(checking, "hash_file", lambda _: pytest.fail("hashed again"))
        assert matches(path, right)
    path.write_bytes(b"y" * 100)
    os.utime(path, (2, 2))
    assert not matches(path, right)
    path.unlink()
    assert not matches(path, right)


def test_hashes_of_large_files_are_remembered_by_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "large"
    path.write_bytes(b"x" * (1 << 20))
    os.utime(path, (1, 1))
    found = sha256_of(path)
    monkeypatch.setattr(checking, "_HERE", {})

    with monkeypatch.context() as patch:
        patch.setattr(checking, "hash_file", lambda _: pytest.fail("hashed again"))
        assert sha256_of(path) == found
    # A memory that was damaged makes no sound file unsound.
    memory = tmp_path / "cache" / "hashes.json"
    memory.write_text(memory.read_text().replace(found, "0" * 64))
    monkeypatch.setattr(checking, "_HERE", {})
    assert matches(path, found)


def flip(path: Path, place: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= 1 << bit
    path.write_bytes(data)
