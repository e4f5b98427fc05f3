"""Kills, two writers at once, full and read-only disks: the store is good afterwards and a rerun completes it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lamina.activations import ActivationStore, ThisMachine, extract
from lamina.corpora import corpus_from
from lamina.errors import DiskFullError, StoreError, WriteError
from lamina.testing import TinyEncoder
from lamina.types import Text, text_key

ENCODER = TinyEncoder()
SHARD_BYTES = 3000

# One process that forks writers, all imports and first calls behind it: kills hit the writing, not the start.
WRITERS = """
import json, os, random, signal, sys, tempfile, time
from pathlib import Path
import torch
from lamina.activations import ActivationStore, ThisMachine
from lamina.testing import TinyEncoder
from lamina.types import Text, text_key

texts = [Text(str(i), tuple(words)) for i, words in enumerate(json.load(sys.stdin))]
root, mode = sys.argv[1:]
torch.set_num_threads(1)
os.fsync = lambda file: None  # as in all tests: no power is cut
encoder = TinyEncoder()


def write(texts, root):
    ThisMachine(shard_bytes=3000).fill(encoder, texts, ActivationStore.of(encoder, root))


def start():
    child = os.fork()
    if child == 0:
        write(texts, root)
        os._exit(0)
    return child


def finished():
    return {str(path): path.stat().st_mtime_ns
            for index in Path(root).glob("*/*.arrow") for path in (index, index.with_suffix(".safetensors"))}


with tempfile.TemporaryDirectory() as elsewhere:
    write(texts[:1], elsewhere)
if mode == "two":
    print(json.dumps([os.waitpid(child, 0)[1] for child in [start(), start()]]))
else:
    draw, kills, kept = random.Random(7), 0, {}
    while kills < 12 or not kept:
        child = start()
        time.sleep(draw.uniform(0.0, 0.01 * (12 + kills)))  # a slow disk gets more time in the end
        os.kill(child, signal.SIGKILL)
        if os.waitpid(child, 0)[1] == 0:
            break
        kills += 1
        now = finished()
        assert kept.items() <= now.items(), "a finished shard was touched"
        kept = now
    print(json.dumps({"kills": kills, "kept": kept}))
"""


def run_writers(root: Path, mode: str, texts: list[Text]):
    told = json.dumps([text.words for text in texts])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WRITERS, str(root), mode], input=told, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def store(tmp_path: Path) -> ActivationStore:
    return ActivationStore.of(ENCODER, tmp_path)


def files(store: ActivationStore) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in store.folder.iterdir()}


def test_killed_again_and_again_it_still_gets_done(tmp_path: Path, many_texts, keys_held, assert_holds) -> None:
    texts = many_texts * 2 + [Text(f"more{i}", (f"m{i}", "more", "words")) for i in range(700)]
    told = run_writers(tmp_path, "killed", texts)
    store = ActivationStore.of(ENCODER, tmp_path)
    assert told["kills"] > 0
    assert told["kept"]

    ThisMachine(shard_bytes=SHARD_BYTES).fill(ENCODER, texts, store)
    store.sweep()

    assert told["kept"].items() <= files(store).items(), "finished work was thrown away"
    assert_holds(store, ENCODER, texts)
    assert sorted(keys_held(store)) == sorted({text_key(text) for text in texts})
    named = {path.stem for path in store.shards}
    assert {path.stem for path in store.folder.iterdir()} == named | {"store", "lock"}
    assert store.damaged() == []


def test_two_writers_do_the_work_once(tmp_path: Path, many_texts, keys_held, assert_holds) -> None:
    assert run_writers(tmp_path, "two", many_texts) == [0, 0]

    store = ActivationStore.of(ENCODER, tmp_path)
    assert sorted(keys_held(store)) == sorted(text_key(text) for text in many_texts)
    assert_holds(store, ENCODER, many_texts)


def test_sweeping_takes_leftovers_only(store: ActivationStore, many_texts, assert_holds) -> None:
    ThisMachine(shard_bytes=SHARD_BYTES).fill(ENCODER, many_texts, store)
    (store.folder / ".half.safetensors.tmp").write_bytes(b"12345")
    (store.folder / "without_index.safetensors").write_bytes(b"123")

    assert store.sweep() == 8
    assert store.sweep() == 0
    assert_holds(store, ENCODER, many_texts)


class Interrupted(TinyEncoder):
    """Stopped by hand after so many texts."""

    after = 100

    def encode(self, texts, want=("states",), *, ordered=True):
        for number, activations in enumerate(super().encode(texts, want)):
            if number == self.after:
                raise KeyboardInterrupt
            yield activations


def test_stopped_by_hand_full_shards_are_kept(store: ActivationStore, many_texts, assert_holds) -> None:
    with pytest.raises(KeyboardInterrupt):
        ThisMachine(shard_bytes=SHARD_BYTES).fill(Interrupted(), many_texts, store)
    kept = {str(path): path.stat().st_mtime_ns for path in store.shards}

    assert 50 < len(store) <= 100
    rest = len(many_texts) - len(store)
    assert ThisMachine(shard_bytes=SHARD_BYTES).fill(ENCODER, many_texts, store) == rest
    assert kept.items() <= files(store).items()
    assert_holds(store, ENCODER, many_texts)


def test_a_full_disk_is_said_in_one_line(small_disk: Path, tmp_path: Path, many_texts, assert_holds) -> None:
    store = ActivationStore.of(ENCODER, small_disk)
    with pytest.raises(DiskFullError) as told:
        ThisMachine(shard_bytes=2**15).fill(ENCODER, many_texts, store)

    assert str(told.value).startswith(f"no space left on the disk for {store.folder}")
    assert "\n" not in str(told.value)
    lost = set(store.missing(many_texts))
    held = [text for text in many_texts if text not in lost]
    assert held
    assert_holds(ActivationStore.of(ENCODER, small_disk), ENCODER, held)
    assert list(store.folder.glob(".*.tmp")) == []


@pytest.mark.parametrize("room", [0, 100, 10_000, 40_000])
def test_after_a_full_disk_a_rerun_completes(
    store: ActivationStore, many_texts, keys_held, assert_holds, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    left, write = room, os.write

    def limited(file: int, data: memoryview) -> int:
        nonlocal left
        if left == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = write(file, data[:left])
        left -= done
        return done

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", limited)
        with pytest.raises(DiskFullError, match="run the same command again"):
            ThisMachine(shard_bytes=SHARD_BYTES).fill(ENCODER, many_texts, store)
    kept = {str(path): path.stat().st_mtime_ns for path in store.shards}
    assert list(store.folder.glob(".*.tmp")) == []

    ThisMachine(shard_bytes=SHARD_BYTES).fill(ENCODER, many_texts, store)

    assert kept.items() <= files(store).items()
    assert_holds(store, ENCODER, many_texts)
    assert len(keys_held(store)) == len(many_texts)


def test_a_read_only_store_can_be_read_and_says_it_cannot_be_written(tmp_path: Path, seal) -> None:
    known, new = corpus_from([["known"]]), corpus_from([["new"]])
    folder = tmp_path / "root"
    extract(ENCODER, known, root=folder)
    seal(ActivationStore.of(ENCODER, folder).folder)

    assert len(extract(ENCODER, known, root=folder)) == 1
    with pytest.raises(WriteError, match=r"cannot write .*; choose a folder that can be written"):
        extract(ENCODER, new, root=folder)


def test_a_root_that_cannot_be_written_is_told(tmp_path: Path, seal) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreError, match=r"cannot create a store in .*give another"):
        ActivationStore.of(ENCODER, tmp_path / "file")

    sealed = tmp_path / "sealed"
    sealed.mkdir()
    seal(sealed)
    with pytest.raises(StoreError, match=r"cannot create a store in .*give another"):
        ActivationStore.of(ENCODER, sealed)
