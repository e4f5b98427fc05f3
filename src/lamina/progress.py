"""Progress of long steps, on standard error: bars for people, lines of JSON for programs that ask for them."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

LINES = "LAMINA_PROGRESS"
"""The environment variable that, set to `json`, asks for lines: `{"what": ..., "done": ..., "total": ...}`."""

_PAUSE = 0.2
"""Seconds between two lines at least."""


class Advance(Protocol):
    """Call it to say that `by` more units are done; a `note` stands beside the bar until the next one."""

    def __call__(self, by: float = 1, note: str | None = None) -> None: ...


@contextmanager
def progress(what: str, total: float | None = None) -> Iterator[Advance]:
    """A bar named `what` up to `total` (unknown: a pulse), for the time of a `with` block.

    Example:
        >>> with progress("counting", total=3) as advance:
        ...     for _ in range(3):
        ...         advance()
    """
    if os.environ.get(LINES) == "json":
        yield _line_by_line(what, total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=False) as bars:
        task = bars.add_task(what, total=total)

        def advance(by: float = 1, note: str | None = None) -> None:
            bars.update(task, advance=by, description=None if note is None else f"{what} ({note})")

        yield advance


def _line_by_line(what: str, total: float | None) -> Advance:
    done, told = 0.0, 0.0

    def advance(by: float = 1, note: str | None = None) -> None:
        nonlocal done, told
        done += by
        now = time.monotonic()
        if now - told >= _PAUSE or done == total:
            told = now
            said = what if note is None else f"{what} ({note})"
            print(json.dumps({"what": said, "done": done, "total": total}), file=sys.stderr, flush=True)

    advance(0)
    return advance
