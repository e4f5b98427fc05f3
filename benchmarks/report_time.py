"""The default report, first with nothing kept and then again: how long both take, and which analysis takes how much."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from benchmarks.bars import Bar
from lamina.assets import locate
from lamina.files.checking import cache_dir

MODEL, CORPUS = "minilm", "ewt"
FIRST, AGAIN = 420.0, 10.0
"""Seconds."""


def bars() -> Iterator[Bar]:
    """Both runs are processes of their own, with a cache and a store that hold nothing but the assets."""
    for name in (MODEL, CORPUS, "glove"):
        locate(name)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "cache").mkdir()
        (folder / "cache" / "assets").symlink_to(cache_dir() / "assets")
        started, first = time.time(), _report(folder)
        yield Bar(
            "first report", first, FIRST, at_least=False, unit=" s", note=f"[{_parts(folder / 'report', started)}]"
        )
        page = (folder / "report" / "index.html").read_bytes()
        again = _report(folder)
        same = "the same page" if (folder / "report" / "index.html").read_bytes() == page else "another page"
        yield Bar("the same report again", again, AGAIN, at_least=False, unit=" s", note=f"[{same}]")


def _report(folder: Path) -> float:
    places = {"LAMINA_CACHE": folder / "cache", "LAMINA_STORE": folder / "store"}
    environment = os.environ | {name: str(path) for name, path in places.items()}
    command = [Path(sys.executable).with_name("lamina"), "report", MODEL, "--corpus", CORPUS]
    start = time.perf_counter()
    done = subprocess.run(
        [*command, "--out", folder / "report"], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"lamina report failed: {done.stderr}")
    return time.perf_counter() - start


def _parts(report: Path, started: float) -> str:
    """Seconds of each analysis, by when its result was made; those that share a pass count as one."""
    heads = [json.loads(path.read_text(encoding="utf-8")) for path in report.glob("results/*/result.json")]
    ends: dict[float, list[str]] = {}
    for head in heads:
        ends.setdefault(_made(head), []).append(head["analysis"])
    said = []
    for end in sorted(ends):
        said.append(f"{' and '.join(ends[end])} {end - started:.0f}")
        started = end
    return "; ".join(said)


def _made(head: Mapping[str, Mapping[str, str]]) -> float:
    return datetime.fromisoformat(head["provenance"]["created"]).timestamp()
