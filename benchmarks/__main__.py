"""Run every benchmark and print one line per bar."""

from __future__ import annotations

import sys

from benchmarks import (
    attention,
    behaviour,
    cause,
    claims,
    contextualizing,
    convergence,
    coverage,
    encoding,
    estimates,
    failure_null,
    gpu,
    linear_probes,
    memory,
    narrow_products,
    peers,
    planted,
    probing,
    questions,
    report_page,
    report_time,
    scaling,
    serving,
    starting,
    structure,
    studies,
    workers,
)
from benchmarks.bars import Bar

BENCHMARKS = {
    "starting": starting.bars,
    "encoding": encoding.bars,
    "workers": workers.bars,
    "estimates": estimates.bars,
    "memory": memory.bars,
    "scaling": scaling.bars,
    "probing": probing.bars,
    "narrow_products": narrow_products.bars,
    "gpu": gpu.bars,
    "linear_probes": linear_probes.bars,
    "convergence": convergence.bars,
    "coverage": coverage.bars,
    "failure_null": failure_null.bars,
    "attention": attention.bars,
    "contextualizing": contextualizing.bars,
    "questions": questions.bars,
    "behaviour": behaviour.bars,
    "cause": cause.bars,
    "claims": claims.bars,
    "structure": structure.bars,
    "planted": planted.bars,
    "report_page": report_page.bars,
    "report_time": report_time.bars,
    "serving": serving.bars,
    "studies": studies.bars,
    "peers": peers.bars,
}


def main() -> int:
    """All benchmarks, or those named; exit code 1 when a bar is missed."""
    chosen = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in chosen if name not in BENCHMARKS]
    if unknown:
        print(f"unknown benchmark: {', '.join(unknown)}; choose from {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    bars: list[Bar] = []
    for name in chosen:
        for bar in BENCHMARKS[name]():
            print(bar, flush=True)
            bars.append(bar)
    missed = sum(not bar.met for bar in bars)
    print(f"{len(bars) - missed} of {len(bars)} bars met")
    return 1 if missed else 0


raise SystemExit(main())
