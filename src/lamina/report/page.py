"""Results gathered into one HTML page that needs nothing beside itself: no network, no other file."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lamina.errors import ResultError
from lamina.figures import draw, to_svg
from lamina.report.sections import Section, section_of
from lamina.results import Provenance, Result

if TYPE_CHECKING:
    import altair
    import pandas

SHOWN_ROWS = 500
"""Of a table on the page; the CSV beside it always has all."""

_MARK = '<meta name="generator" content="lamina">'


class Figure(NamedTuple):
    """One chart: to play with, and as a still image for print and for readers without scripts."""

    id: str
    name: str
    """Of the file when a reader saves the chart."""
    spec: Mapping[str, Any]
    still: str
    summary: str
    """The chart in words."""
    caption: str
    """How to read it."""


class Sheet(NamedTuple):
    """One table: what the page shows of it, and all of it to download."""

    name: str
    columns: list[str]
    rows: list[list[str]]
    total: int
    csv: str
    filename: str


class Chapter(NamedTuple):
    """One result as the page shows it."""

    id: str
    section: Section
    provenance: Provenance
    figures: list[Figure]
    sheets: list[Sheet]


def write_report(
    results: Sequence[Result], out: str | os.PathLike[str], *, title: str, notes: Sequence[str] = ()
) -> Path:
    """Write `out/index.html` with every result's charts, tables, method and provenance; return its path.

    `notes` stand below the title: what a reader should know that no result says.

    Example:
        >>> import pandas as pd, tempfile
        >>> provenance = Provenance({"name": "m", "fingerprint": "f"}, {"name": "c", "fingerprint": "g"}, {})
        >>> result = Result("demo", {"scores": pd.DataFrame({"layer": [0, 1]})}, provenance)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_report([result], folder, title="A demonstration").name
        'index.html'
    """
    if not results:
        raise ResultError("a report needs at least one result; name an analysis")
    chapters = [_chapter(f"r{number}-{result.analysis}", result) for number, result in enumerate(results, start=1)]
    html = _template().render(
        title=title,
        notes=notes,
        chapters=chapters,
        css=_part("report.css"),
        script=_part("report.js"),
        bundle=_bundle() if any(chapter.figures for chapter in chapters) else "",
    )
    return _write_whole(Path(out) / "index.html", html)


def _chapter(id: str, result: Result) -> Chapter:
    section = section_of(result.analysis)
    figures = [
        _figure(f"{id}-{name}", f"{result.analysis}-{name}", chart, section.captions.get(name, ""))
        for name, chart in draw(result).items()
    ]
    sheets = [_sheet(result.analysis, name, table) for name, table in result.tables.items()]
    return Chapter(id, section, result.provenance, figures, sheets)


def _figure(id: str, name: str, chart: altair.TopLevelMixin, caption: str) -> Figure:
    spec = chart.to_dict()
    still = _data_uri("image/svg+xml", to_svg(spec))
    return Figure(id, name, spec, still, str(spec.get("description", "")), caption)


def _sheet(analysis: str, name: str, table: pandas.DataFrame) -> Sheet:
    rows = [[_cell(value) for value in row] for row in table.head(SHOWN_ROWS).itertuples(index=False)]
    csv = _data_uri("text/csv;charset=utf-8", table.to_csv(index=False))
    return Sheet(name, [str(column) for column in table.columns], rows, len(table), csv, f"{analysis}-{name}.csv")


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    if value != value:
        return ""
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e4 else f"{value:.4g}"


def _data_uri(kind: str, text: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(text.encode()).decode()}"


def _template():
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Names of models and corpora are the user's: everything is escaped except our own style and script.
    environment = Environment(
        loader=PackageLoader("lamina", "report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("report.html")


def _part(name: str) -> str:
    return files("lamina.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that sets `window.vegaEmbed`."""
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def _write_whole(path: Path, text: str) -> Path:
    """All of it or nothing: a kill never leaves half a page, and a page of somebody else's is never replaced."""
    if path.exists() and _MARK not in path.read_text(encoding="utf-8", errors="replace"):
        raise ResultError(f"{path} is not a report of lamina; name another folder with --out")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ResultError(f"{path.parent} is not a folder; name another with --out") from None
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as holder:
        fresh = Path(holder) / path.name
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    return path
