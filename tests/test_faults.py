"""The short form of the fault campaign: `make faults` runs the long one."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from faults.__main__ import PARTS
from faults.layer import Call, Disk

# In two processes: each loads torch once and forks its cases.
HALVES = (
    ("kills", "saving", "disk", "writes", "power"),
    ("analyses", "inputs", "fuzzing", "web", "planted", "supply", "determinism"),
)


@pytest.mark.skipif(os.name != "posix", reason="cases are forks")
@pytest.mark.parametrize("parts", HALVES, ids="-".join)
def test_no_part_of_the_campaign_finds_a_fault(parts: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "faults", *parts, "--folder", str(tmp_path)]
    root = Path(__file__).parents[1]

    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=1200)

    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines() if ": 0 faults;" in line] == list(parts)
    assert "went well: nothing" not in done.stdout


def test_every_part_is_run() -> None:
    assert sorted(part for half in HALVES for part in half) == sorted(PARTS)


def test_a_loss_of_power_drops_what_was_not_synced(tmp_path: Path) -> None:
    before, watched, snapshot = tmp_path / "before", tmp_path / "watched", tmp_path / "snapshot"
    before.mkdir()
    (before / "old").write_text("old")
    snapshot.write_text("new")
    base = str(watched)
    unsynced = [Call("create", f"{base}/a", ""), Call("write", f"{base}/a", "")]
    replaced = [
        Call("create", f"{base}/b", ""),
        Call("sync", f"{base}/b", str(snapshot)),
        Call("rename", f"{base}/b", f"{base}/old"),
    ]
    synced = [*replaced, Call("sync-folder", base, "")]
    # Renamed by a call that the layer does not see, and then synced.
    unseen = [Call("create", f"{base}/.tmpX", ""), Call("sync", f"{base}/c", str(snapshot))]
    runs = {"unsynced": unsynced, "replaced": replaced, "synced": synced}
    runs["unseen"] = [*unseen, Call("sync-folder", base, "")]
    found: dict[str, set[str]] = {name: set() for name in runs}
    for name, calls in runs.items():
        for seed in range(12):
            into = tmp_path / f"{name}-{seed}"
            Disk(before, watched).after(calls, into, random.Random(seed))
            files = {path.name: path.read_bytes().strip(b"\0").decode() for path in into.iterdir()}
            found[name].add(" ".join(f"{name}={text}" for name, text in sorted(files.items())))
    # An unsynced file is missing, or there without its content; a name that was not synced may be the old one or not.
    assert found["unsynced"] == {"old=old", "a= old=old"}
    assert {"old=old", "old=new"} <= found["replaced"]
    assert found["synced"] == {"old=new"}
    assert found["unseen"] == {"c=new old=old"}
