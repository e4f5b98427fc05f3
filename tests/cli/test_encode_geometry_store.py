"""`lamina encode`, `geometry` and `store`, from the command line to the files."""

from __future__ import annotations

import errno
import os
import re
import time
from pathlib import Path

import pandas as pd
import pytest
from filelock import FileLock
from typer.testing import CliRunner, Result

from lamina.activations import problems, stores
from lamina.cli import main
from lamina.errors import DamagedShardError, WriteError


def run(*args: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(main.app, [str(arg) for arg in args])


def output(*args: object) -> str:
    result = run(*args)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def shards(store: Path) -> list[Path]:
    return [shard for each in stores(store) for shard in each.shards]


def test_encoding_twice_encodes_once(bert: Path, treebank: Path, store: Path) -> None:
    first = output("encode", bert, "--corpus", treebank, "--store", store)
    made = {shard: shard.stat().st_mtime_ns for shard in shards(store)}
    again = output("encode", bert, "--corpus", treebank, "--store", store)

    assert re.match(r"6 texts, \d+ tokens, 3 layers of 16\n", first)
    assert again == first
    assert Path(first.splitlines()[-1]) == stores(store)[0].folder
    assert len(made) == 1
    assert {shard: shard.stat().st_mtime_ns for shard in shards(store)} == made


def test_limits_leave_their_trace(bert: Path, treebank: Path, store: Path) -> None:
    told = output("encode", bert, "--corpus", treebank, "--store", store, "--limit", 2, "--max-tokens", 8)

    assert told.startswith("2 texts")
    assert "were longer than" in told


def test_a_dry_run_counts_and_stores_nothing(bert: Path, treebank: Path, store: Path) -> None:
    for command in ("encode", "geometry"):
        told = output(command, bert, "--corpus", treebank, "--store", store, "--dry-run")
        assert "texts    6\n" in told
        assert re.search(r"tokens   \d+\n", told)
        assert re.search(r"time     about \d+ s", told)
        assert re.search(r"disk     about \d+ MB", told)
    assert shards(store) == []


def test_geometry_writes_its_table_charts_and_provenance(
    bert: Path, treebank: Path, store: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out" / "geometry"
    asked = ("geometry", bert, "--corpus", treebank, "--out", out, "--store", store, "--samples", 20, "--min-count", 2)

    told = output(*asked)
    made = (out / "result.json").stat().st_mtime_ns
    output(*asked)

    assert told.splitlines()[-1] == str(out)
    assert "word types with fewer than 2 occurrences" in told
    assert (out / "layers.csv").read_text().startswith("model,layer,measure,value,low,high\n")
    table = pd.read_csv(out / "layers.csv")
    assert set(table["model"]) == {"tinybert", "tinybert (random)"}
    assert sorted(table["layer"].unique()) == [0, 1, 2]
    assert table["value"].notna().all()
    assert {path.suffix for path in out.iterdir()} == {".json", ".csv", ".parquet", ".svg"}
    assert (out / "result.json").stat().st_mtime_ns == made


def test_results_of_two_questions_do_not_share_a_folder(
    bert: Path, treebank: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = output("geometry", bert, "--corpus", treebank, "--store", store, "--samples", 2, "--no-twin")

    folder = Path(told.splitlines()[-1])
    assert re.fullmatch(r"results/geometry-tinybert-own-dev-dev-[0-9a-f]{8}", str(folder))
    assert (tmp_path / folder / "layers.csv").exists()


def test_stores_are_listed(bert: Path, treebank: Path, store: Path) -> None:
    assert "no activations stored" in output("store", "ls", "--store", store)
    output("encode", bert, "--corpus", treebank, "--store", store)

    listed = output("store", "ls", "--store", store)

    assert "tinybert" in listed
    assert "float16" in listed
    assert str(stores(store)[0].folder) in listed


def test_damage_is_named_and_repaired(bert: Path, treebank: Path, store: Path) -> None:
    encode = ("encode", bert, "--corpus", treebank, "--store", store)
    output(*encode)
    (shard,) = shards(store)
    shard.write_bytes(shard.read_bytes()[:-1] + b"\x55")

    told = run("geometry", bert, "--corpus", treebank, "--store", store, "--samples", 2)
    assert isinstance(told.exception, DamagedShardError)
    assert "`lamina verify --drop`" in str(told.exception)
    output(*encode, "--repair")
    assert problems(stores(store)[0]) == []


def test_a_store_with_a_damaged_head_is_named_passed_over_and_used_again(
    bert: Path, treebank: Path, store: Path
) -> None:
    encode = ("encode", bert, "--corpus", treebank, "--store", store)
    first = output(*encode)
    head = stores(store)[0].folder / "store.json"
    made = {shard: shard.stat().st_mtime_ns for shard in shards(store)}
    head.write_text("")

    for command in ("ls", "gc"):
        assert f"passed over: {head} is damaged" in output("store", command, "--store", store)
    assert output(*encode) == first
    assert {shard: shard.stat().st_mtime_ns for shard in shards(store)} == made


def test_a_complete_store_need_not_be_writable(bert: Path, treebank: Path, store: Path, monkeypatch) -> None:
    encode = ("encode", bert, "--corpus", treebank, "--store", store)
    first = output(*encode)
    (store / "probes" / "run").mkdir(parents=True)
    (store / "probes" / "run" / "pos.run").write_bytes(b"0")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(FileLock, "acquire", refuse)
    assert output(*encode) == first
    assert "tinybert" in output("store", "ls", "--store", store)
    assert "freed 0.0 MB" in output("store", "gc", "--store", store)
    told = run(*encode, "--max-tokens", 8)
    assert isinstance(told.exception, WriteError)
    assert "Read-only file system" in str(told.exception)


def test_collecting_garbage(bert: Path, treebank: Path, store: Path) -> None:
    output("encode", bert, "--corpus", treebank, "--store", store)
    folder = stores(store)[0].folder
    (folder / ".left.safetensors.tmp").write_bytes(b"0" * 2_000_000)

    assert "freed 2.0 MB" in output("store", "gc", "--store", store)
    assert "freed 0.0 MB" in output("store", "gc", "--store", store, "--older-than", 1)
    assert len(shards(store)) == 1

    for path in folder.iterdir():
        os.utime(path, times=(time.time() - 3 * 86400,) * 2)
    assert f"deleted {folder}" in output("store", "gc", "--store", store, "--older-than", 1)
    assert stores(store) == []


def test_kept_probing_runs_are_collected_too(store: Path) -> None:
    old, new, empty, busy = (store / "probes" / name for name in ("old", "new", "empty", "busy"))
    for folder in (old, new, empty, busy):
        folder.mkdir(parents=True)
        (folder / "lock").touch()
    for folder in (old, new, busy):
        (folder / "pos.run").write_bytes(b"0" * 2_000_000)
        (folder / "pos.tmp").write_bytes(b"0" * 1_000_000)
    for folder in (old, busy):
        for path in folder.iterdir():
            os.utime(path, times=(time.time() - 3 * 86400,) * 2)

    with FileLock(busy / "lock"):
        assert "freed 2.0 MB" in output("store", "gc", "--store", store), "what was half-written"
        assert not empty.exists()
        told = output("store", "gc", "--store", store, "--older-than", 1)

    assert f"deleted {old}\nfreed 2.0 MB" in told
    assert not old.exists()
    assert {path.name for path in new.iterdir()} == {"lock", "pos.run"}
    assert {path.name for path in busy.iterdir()} == {"lock", "pos.run", "pos.tmp"}, "a run in progress is left alone"
