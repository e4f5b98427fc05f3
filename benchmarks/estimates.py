"""The estimates of `--dry-run` against measurements, for every analysis: seconds, memory and disk.

Each analysis is estimated in one process and run in another, so that neither warms the other up. The inputs are
real and small enough for two laptop cores. `python -m benchmarks estimates` runs all of them;
`python -m benchmarks.estimates heads` shows one. `python -m benchmarks.estimates record` writes the rates that this
machine has measured into `framework/reference.json`, which stands in where nothing was measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.bars import Bar
from lamina.framework import estimate as estimate_module
from lamina.framework.estimate import machine_factor, profiles
from lamina.framework.registry import get_analysis, names
from lamina.progress import Stopwatch

FACTOR = 2.0
REFERENCE = Path(estimate_module.__file__).with_name("reference.json")
STORIES = {"model": "minilm", "data": "stories"}
CALLS: dict[str, dict[str, Any]] = {
    "geometry": {"model": "minilm", "data": "ewt", "samples": 1000},
    "probe": {"model": "minilm", "data": "ewt", "tasks": ["pos", "dep"], "samples": 200, "limit": 1500},
    "attention": {"model": "minilm", "data": "ewt"},
    "heads": {"model": "minilm", "data": "ewt"},
    "headmap": {"model": "minilm", "data": "ewt", "limit": 800},
    "corefheads": {"model": "minilm", "data": "gum_open"},
    "parse": {"model": "minilm", "data": "ewt", "limit": 500, "vectors": "model"},
    "look": {"model": "minilm", "sentence": "The dog that chased the cats barked."},
    "contextualize": {"model": "minilm", "data": "ewt", "limit": 4000, "context_sizes": [0], "vectors": []},
    "neighbours": {"model": "minilm", "data": "ewt", "limit": 4000, "word": "place", "vectors": None},
    "finetune": STORIES | {"task": "babi", "babi_tasks": [1], "max_steps": 120, "batch": 16, "lr": 2e-4},
    "token_map": STORIES | {"question": "Who barks?", "context": "Dogs bark. Cats mew. The dog sees a cat."},
    "phases": STORIES | {"limit": 300},
    "diff": {"model": "minilm", "other": "minilm", "data": "ewt", "limit": 800},
    "correspondence": {"model": "minilm", "other": "minilm", "data": "ewt"},
}
"""Analysis -> inputs and settings. `trace` and `compare` read saved results and take a moment."""


def bars() -> Iterator[Bar]:
    """Estimated and measured CPU seconds should differ by at most a factor of two; one bar per analysis."""
    for name in names():
        if name in CALLS:
            yield from measure(name)


def measure(name: str) -> Iterator[Bar]:
    """One analysis."""
    foreseen, taken = _in_process("estimate", name), _in_process("answer", name)
    ratio = foreseen["cpu"] / taken["cpu"]
    note = f"[{foreseen['cpu']:.1f} CPU seconds estimated, {taken['cpu']:.1f} taken; ratio {ratio:.2f}; "
    note += f"memory {foreseen['memory'] / 1e9:.2f} and {taken['memory'] / 1e9:.2f} GB; "
    note += f"disk {foreseen['disk'] / 1e6:.0f} and {taken['disk'] / 1e6:.0f} MB]"
    # Analyses that take a second or two need no precise estimate.
    off = max(ratio, 1 / ratio) if max(foreseen["cpu"], taken["cpu"]) > 3 else 1.0
    yield Bar(f"{name}: factor between estimated and measured CPU seconds", off, FACTOR, at_least=False, note=note)


def _in_process(what: str, name: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.estimates", what, name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def _estimate(name: str, store: Path) -> dict[str, float]:
    cost = get_analysis(name).estimate(**CALLS[name], store=store, device="cpu")
    return {"cpu": cost.cpu, "memory": cost.memory, "disk": cost.disk}


def _answer(name: str, store: Path) -> dict[str, float]:
    from lamina.framework.estimate import memory_now
    from lamina.framework.run import run

    asked = get_analysis(name).ask(**CALLS[name], store=store, device="cpu")
    work = store / "work"
    work.mkdir(parents=True)
    watch = Stopwatch()
    run(asked, work)
    cpu = watch.cpu
    kept = sum(path.stat().st_size for path in store.rglob("*.safetensors") if work not in path.parents)
    return {"cpu": cpu, "memory": memory_now(), "disk": kept}


def record() -> None:
    """Write the rates of this machine, of the smallest model where there are several, as the reference."""
    rates: dict[str, float] = dict(json.loads(REFERENCE.read_text(encoding="utf-8"))["seconds"])
    for profile in sorted(profiles(), key=lambda profile: profile.model, reverse=True):
        rates |= {name: round(rate.seconds, 5) for name, rate in profile.rates.items()}
    product = round(machine_factor() * float(json.loads(REFERENCE.read_text(encoding="utf-8"))["product"]), 5)
    content = {"product": product, "seconds": dict(sorted(rates.items()))}
    REFERENCE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    chosen = sys.argv[1:]
    if chosen == ["record"]:
        record()
    elif chosen[0] in ("estimate", "answer"):
        with tempfile.TemporaryDirectory() as folder:
            made = _estimate if chosen[0] == "estimate" else _answer
            print(json.dumps(made(chosen[1], Path(folder))))
    else:
        for each in chosen:
            print(*measure(each), sep="\n")
