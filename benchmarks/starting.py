"""Start-up time."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median

from benchmarks.bars import Bar

RUNS = 9


def bars() -> Iterator[Bar]:
    """Time of import and help beyond that of a bare interpreter; runs alternate."""
    yield _above_bare("import lamina", ["-c", "import lamina"], 0.3)
    yield _above_bare("lamina --help", ["-m", "lamina", "--help"], 0.5)


def _above_bare(what: str, arguments: list[str], bar: float) -> Bar:
    pairs = [(_seconds(["-c", "pass"]), _seconds(arguments)) for _ in range(RUNS)]
    return Bar(f"{what} above a bare interpreter", median(b - a for a, b in pairs), bar, at_least=False, unit=" s")


def _seconds(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - start
