"""A report as the app shows it: a file that may come from anyone, and the tables and images that lie beside it."""

from __future__ import annotations

import re
from base64 import b64encode
from pathlib import Path

from lamina.errors import InputError
from lamina.files.reading import open_regular

LONGEST = 256 * 1024**2
"""Bytes of a report, and of its images together."""
TABLES = (".csv", ".parquet")
"""The only files beside a report that are served."""


def embedded_report(report: Path, way_back: str) -> str:
    """The report with `way_back` at its top, its images inside it, and its links to tables leading to the app's.

    In its sandbox the page can load nothing: images beside it come with it, tables by links of their own.
    """
    with open_regular(report) as file:
        content = file.read(LONGEST + 1)
    if len(content) > LONGEST:
        raise InputError(f"the report has more than {LONGEST:,} bytes; open its index.html itself")
    page = content.decode("utf-8", "replace")
    stills = _EmbeddedImages(report)
    whole = re.sub(r'src="figures/([\w.-]{1,200})"', lambda still: f'src="{stills.inside(still[1])}"', page)
    # By hand: a search for the whole tag takes quadratic time where many open and none closes.
    start = whole.find("<body")
    end = whole.find(">", start) + 1 if start >= 0 else 0
    whole = whole[:end] + way_back + whole[end:] if end else whole
    return whole.replace('href="results/', 'href="/report/results/')


def table_beside(report: Path, path: str) -> Path | None:
    """A table in the folder `results` beside the report; None for anything else.

    Example:
        >>> table_beside(Path("report/index.html"), "../../etc/passwd.csv") is None
        True
    """
    return _beside(report, f"results/{path}", *TABLES)


class _EmbeddedImages:
    """Images of a report as data addresses; missing or oversized images are left out."""

    def __init__(self, report: Path) -> None:
        self._report = report
        self._left = LONGEST

    def inside(self, name: str) -> str:
        """The image, as an address that holds it."""
        path = _beside(self._report, f"figures/{name}", ".svg")
        if path is None:
            return "data:,"
        with open_regular(path) as file:
            content = file.read(self._left + 1)
        if len(content) > self._left:
            return "data:,"
        self._left -= len(content)
        return f"data:image/svg+xml;base64,{b64encode(content).decode()}"


def _beside(report: Path, path: str, *suffixes: str) -> Path | None:
    """A file that lies where a report keeps such files; None for anything else, links out of there included."""
    try:
        root, found = report.parent.resolve() / path.partition("/")[0], (report.parent / path).resolve()
        return found if found.suffix in suffixes and found.is_relative_to(root) and found.is_file() else None
    except (OSError, RuntimeError, ValueError):
        # A name that no disk can have (too long, or with a NUL), or a link to itself.
        return None
