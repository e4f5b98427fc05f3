"""Peak memory while encoding: it should not grow with the corpus."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bars import Bar

_ENCODE = """
import resource, sys
import lamina
from lamina.corpora import load_corpus
corpus = load_corpus("ewt", split="train", limit=int(sys.argv[1]))
lamina.extract(lamina.load_encoder("minilm", device="cpu"), corpus, root=sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""

_OPEN = """
import resource, sys, time
from lamina.activations import stores
start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = len(stores(sys.argv[1])[0])
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, count)
"""


def bars() -> Iterator[Bar]:
    """Memory for ten times the text, and the time to open the store."""
    with tempfile.TemporaryDirectory() as root:
        some = float(_run(_ENCODE, "1200", f"{root}/some"))
        more = float(_run(_ENCODE, "12000", f"{root}/more"))
        note = f"[{some / 1024:,.0f} MB for 1,200 texts, {more / 1024:,.0f} MB for 12,000]"
        yield Bar("peak memory of 10x the text", more / some, 1.1, at_least=False, note=note)
        seconds, grown, count = _run(_OPEN, f"{root}/more").split()
        size = sum(path.stat().st_size for path in Path(root, "more").rglob("*.safetensors")) / 1e9
        note = f"[{size:.1f} GB, {int(count):,} texts, {int(grown) / 1024:.0f} MB of memory]"
        yield Bar("opening a store", float(seconds), 0.5, at_least=False, unit=" s", note=note)


def _run(program: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()
