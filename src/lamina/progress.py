"""Progress of long steps, on standard error: bars in a terminal, lines in a pipe or a log, JSON for programs."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, Protocol

VARIABLE = "LAMINA_PROGRESS"
"""Environment variable: `none`, `lines` or `json`; if unset, bars in a terminal and lines elsewhere."""

Kind = Literal["bars", "none", "lines", "json"]

_JSON_PAUSE = 0.2
"""Minimum seconds between two lines of JSON."""
_LINE_PAUSE = 30.0
"""Minimum seconds between two text lines, apart from the first and the last of a step."""


class Advance(Protocol):
    """Call it to report `by` more units; a `note` is shown next to the bar until the next one."""

    def __call__(self, by: float = 1, note: str | None = None) -> None: ...


@contextmanager
def progress(what: str, total: float | None = None) -> Iterator[Advance]:
    """Show the progress of a step `what` with `total` units (None: unknown) during a `with` block.

    Example:
        >>> with progress("counting", total=3) as advance:
        ...     for _ in range(3):
        ...         advance()
    """
    kind = _kind()
    if kind == "bars":
        with _bar(what, total) as advance:
            yield advance
        return
    lines = _LongStep if _IN_ONE_LINE.get() else _LineProgress
    step = {"json": _JsonProgress, "lines": lines, "none": _SilentProgress}[kind](what, total)
    yield step.advance
    step.end()


_IN_ONE_LINE: ContextVar[bool] = ContextVar("in_one_line", default=False)


@contextmanager
def in_one_line(what: str) -> Iterator[None]:
    """In a pipe or a log, one line at the end for all steps of a `with` block, and one now and then for long ones.

    Example:
        >>> with in_one_line("geometry"), progress("counting", total=3) as advance:
        ...     advance(3)
    """
    if _kind() != "lines" or _IN_ONE_LINE.get():
        yield
        return
    token, start = _IN_ONE_LINE.set(True), time.monotonic()
    try:
        yield
    finally:
        _IN_ONE_LINE.reset(token)
    print(f"{what}: done in {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)


def say(text: str) -> None:
    """Print a one-line message to standard error, unless progress is switched off."""
    if _kind() != "none":
        print(f"lamina: {text}", file=sys.stderr, flush=True)


def _kind() -> Kind:
    chosen = os.environ.get(VARIABLE, "")
    if chosen in ("none", "lines", "json"):
        return chosen
    return "bars" if sys.stderr is not None and sys.stderr.isatty() else "lines"


@contextmanager
def _bar(what: str, total: float | None) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=False) as bars:
        task = bars.add_task(what, total=total)

        def advance(by: float = 1, note: str | None = None) -> None:
            bars.update(task, advance=by, description=None if note is None else f"{what} ({note})")

        yield advance


class _SilentProgress:
    """Counts but prints nothing."""

    def __init__(self, what: str, total: float | None) -> None:
        self.what, self.total = what, total
        self.done, self.note = 0.0, None
        self.start = self.last_printed = time.monotonic()

    def advance(self, by: float = 1, note: str | None = None) -> None:
        """See `Advance`."""
        self.done += by
        self.note = note or self.note

    def end(self) -> None:
        """The step is done."""


class _LineProgress(_SilentProgress):
    """A line when a step starts and ends, and regular lines in between."""

    def __init__(self, what: str, total: float | None) -> None:
        super().__init__(what, total)
        self._print("...")

    def advance(self, by: float = 1, note: str | None = None) -> None:
        """See `Advance`."""
        super().advance(by, note)
        now = time.monotonic()
        if now - self.last_printed >= _LINE_PAUSE:
            self.last_printed = now
            of = "" if self.total is None else f" of {self.total:,.0f}"
            self._print(f"{self.done:,.0f}{of}{'' if self.note is None else f' ({self.note})'}")

    def end(self) -> None:
        """See `_Silence.end`."""
        self._print(f"done in {time.monotonic() - self.start:.1f} s")

    def _print(self, text: str) -> None:
        print(f"{self.what}: {text}", file=sys.stderr, flush=True)


class _LongStep(_LineProgress):
    """Regular lines only: a step that is over soon prints none."""

    def _print(self, text: str) -> None:
        if self.done and self.last_printed > self.start:
            super()._print(text)

    def end(self) -> None:
        """See `_SilentProgress.end`: the block that it is part of says so."""


class _JsonProgress(_SilentProgress):
    """One JSON object per line: `{"what": ..., "done": ..., "total": ...}`."""

    def __init__(self, what: str, total: float | None) -> None:
        super().__init__(what, total)
        self._print()

    def advance(self, by: float = 1, note: str | None = None) -> None:
        """See `Advance`."""
        super().advance(by, note)
        now = time.monotonic()
        if now - self.last_printed >= _JSON_PAUSE or self.done == self.total:
            self.last_printed = now
            self._print()

    def _print(self) -> None:
        what = self.what if self.note is None else f"{self.what} ({self.note})"
        print(json.dumps({"what": what, "done": self.done, "total": self.total}), file=sys.stderr, flush=True)


def cpu_seconds() -> float:
    """CPU time of this process and of the processes it has waited for.

    Example:
        >>> cpu_seconds() > 0
        True
    """
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def memory_now() -> int:
    """Peak memory of this process so far, in bytes.

    Example:
        >>> memory_now() > 10**6
        True
    """
    import resource

    # Linux counts in KB, macOS in bytes.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if os.uname().sysname == "Darwin" else 1024)


class Stopwatch:
    """CPU and wall time since it was made.

    Example:
        >>> Stopwatch().wall < 60
        True
    """

    def __init__(self) -> None:
        self._cpu, self._wall = cpu_seconds(), time.perf_counter()

    @property
    def cpu(self) -> float:
        """CPU seconds."""
        return cpu_seconds() - self._cpu

    @property
    def wall(self) -> float:
        """Seconds."""
        return time.perf_counter() - self._wall
