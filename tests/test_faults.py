"""The short form of the fault campaign: `make faults` runs the long one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from faults.__main__ import PARTS

# In two processes: each loads torch once and forks its cases.
HALVES = (("kills", "saving", "disk"), ("inputs", "fuzzing", "web", "supply", "determinism"))


@pytest.mark.skipif(os.name != "posix", reason="cases are forks")
@pytest.mark.parametrize("parts", HALVES, ids="-".join)
def test_no_part_of_the_campaign_finds_a_fault(parts: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "faults", *parts, "--folder", str(tmp_path)]
    root = Path(__file__).parents[1]

    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=300)

    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines() if ": 0 faults;" in line] == list(parts)
    assert "went well: nothing" not in done.stdout


def test_every_part_is_run() -> None:
    assert sorted(part for half in HALVES for part in half) == sorted(PARTS)
