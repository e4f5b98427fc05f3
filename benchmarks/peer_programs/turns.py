"""Programs take turns: each loads what it needs, then does its work on request, while the others wait."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from importlib.metadata import version


def take_turns(package: str, work: Callable[[], object], *, warm: bool = False, **about: object) -> None:
    """Say that the program is ready, then run `work` for every line that comes in; seconds and peak memory go out.

    Args:
        package: whose version is printed.
        work: what is measured; run once before, since first runs are slower.
        warm: whether that was done already.
        about: told once, as it is.
    """
    # Libraries print to the standard output as well: answers have a channel of their own.
    answers, sys.stdout = sys.stdout, sys.stderr
    if not warm:
        work()
    _tell(answers, {"version": version(package), **about})
    for _ in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        spent = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
        _tell(answers, {**spent, "peak_mb": _peak()})


def _peak() -> float:
    """Most memory so far: of the process, and of its share of a GPU."""
    import torch

    card = torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_available() else 0.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 + card


def _tell(answers, what: dict[str, object]) -> None:
    print(json.dumps(what), file=answers, flush=True)
