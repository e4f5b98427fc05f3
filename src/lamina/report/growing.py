"""The page while it is made: there after the first analysis, written again after each, left where a run stops."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from lamina.errors import LaminaError
from lamina.framework.registry import get_analysis, names
from lamina.report.page import Coming, ReportPage
from lamina.results import Result

_REUSED = 1.0
"""Seconds below which an answer was not computed but reused, and says nothing of the pace."""


class Pace:
    """How fast analyses are on this machine with this model, against what they take in the default report.

    What is left is told from that, scaled by how long the finished ones took here; others have no time.

    Example:
        >>> pace = Pace()
        >>> pace.left("probe") is None
        True
        >>> pace.took(["geometry"], 13)
        >>> pace.left("probe"), pace.left("my_own") is None
        (88.5, True)
    """

    def __init__(self) -> None:
        self._seconds, self._measured = 0.0, 0.0

    def took(self, names: Sequence[str], seconds: float) -> None:
        """Note how long analyses took together."""
        known = sum(_takes(name) or 0 for name in names)
        if known and seconds >= _REUSED:
            self._seconds += seconds
            self._measured += known

    def left(self, name: str) -> float | None:
        """Seconds that an analysis will take; None where nothing tells."""
        takes = _takes(name)
        return takes * self._seconds / self._measured if takes and self._measured else None


def _takes(name: str) -> float | None:
    return get_analysis(name).takes if name in names() else None


class GrowingPage:
    """Writes the page as results come in. Use as a context: what stops a run is said on the page."""

    def __init__(self, page: ReportPage, titles: Mapping[str, str]) -> None:
        """`titles`: analysis -> title, of all that the page will have, in their order."""
        self._page, self._titles, self._pace = page, titles, Pace()
        self._done: set[str] = set()
        self._since = time.monotonic()
        self._state: tuple[Sequence[Result], Sequence[Path], Sequence[str]] = ((), (), ())

    def __enter__(self) -> GrowingPage:
        """Start the clock."""
        self._since = time.monotonic()
        return self

    def grow(
        self, results: Sequence[Result], folders: Sequence[Path], notes: Sequence[str], done: Sequence[str]
    ) -> None:
        """Write the page with these results, unless they were only reused or are the last ones."""
        seconds = time.monotonic() - self._since
        self._pace.took([name for name in done if name not in self._done], seconds)
        self._done.update(done)
        self._state = (results, folders, notes)
        coming = self._coming()
        if results and coming and seconds >= _REUSED:
            self._page.write(results, folders=folders, notes=notes, coming=coming)
        self._since = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Where a run was stopped or failed, leave a page that says what is missing."""
        results, folders, notes = self._state
        if error is None or not results:
            return
        with suppress(LaminaError, OSError):
            self._page.write(results, folders=folders, notes=notes, coming=self._coming(), stopped=True)

    def _coming(self) -> list[Coming]:
        left = [name for name in self._titles if name not in self._done]
        return [Coming(self._titles[name], self._pace.left(name)) for name in left]
