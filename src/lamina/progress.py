"""Progress bars for long steps: on standard error, silent where nobody watches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


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
