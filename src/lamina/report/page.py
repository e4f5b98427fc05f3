"""Results gathered into one HTML page that needs nothing beside itself: no network, no other file."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lamina.analyses import get_analysis
from lamina.analyses.passport_notes import passport_notes
from lamina.errors import InputError, ResultError
from lamina.figures import captions_for, chart_script, colour_tokens, draw, spec_of, to_svg
from lamina.files.reading import read_regular
from lamina.files.writing import write_error, write_text
from lamina.result_folder import is_as_saved
from lamina.results import Finding, Provenance, Result, strongest_first

if TYPE_CHECKING:
    import pandas

SHOWN_ROWS = 500
"""Of a table on the page; the file beside it always has all."""

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
    """Empty where the result keeps the table as Parquet: a row per item is too much for the page."""
    filename: str


class Chapter(NamedTuple):
    """One result as the page shows it."""

    id: str
    title: str
    question: str
    method: str
    findings: tuple[Finding, ...]
    provenance: Provenance
    figures: list[Figure]
    sheets: list[Sheet]


def write_report(
    results: Sequence[Result],
    out: str | os.PathLike[str],
    *,
    title: str,
    notes: Sequence[str] = (),
    folders: Sequence[Path] = (),
) -> Path:
    """Write `out/index.html` with every result's charts, tables, method and provenance; return its path.

    `notes` stand below the title: what a reader should know that no result says. `folders` say where the results
    are saved, in their order: still images that lie there are not drawn again.

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
    chapters = [
        _chapter(f"r{number}-{result.analysis}", result, folder)
        for number, (result, folder) in enumerate(zip_longest(results, folders), start=1)
    ]
    of_models = dict.fromkeys(note for each in results for note in passport_notes(each.provenance.model))
    html = _template().render(
        title=title,
        notes=[*of_models, *notes],
        chapters=chapters,
        findings=strongest_first(found for chapter in chapters for found in _linked(chapter)),
        css=colour_tokens() + _part("report.css"),
        script=_part("report.js"),
        bundle=chart_script() if any(chapter.figures for chapter in chapters) else "",
    )
    return _write_whole(Path(out) / "index.html", html)


def _chapter(id: str, result: Result, folder: Path | None) -> Chapter:
    title, question, method = words_of(result.analysis)
    captions = captions_for(result)
    figures = []
    for name, chart in draw(result).items():
        spec = spec_of(chart)
        still = _data_uri("image/svg+xml", (folder and saved_svg(spec, folder, name)) or to_svg(spec))
        caption, summary = captions.get(name, ""), str(spec.get("description", ""))
        figures.append(Figure(f"{id}-{name}", f"{result.analysis}-{name}", spec, still, summary, caption))
    sheets = [_sheet(result, name, table) for name, table in result.tables.items()]
    return Chapter(id, title, question, method, result.findings, result.provenance, figures, sheets)


def words_of(analysis: str) -> tuple[str, str, str]:
    """Title, question and method of an analysis; the bare name where nobody declares it.

    Example:
        >>> words_of("geometry")[0], words_of("head_roles")[0]
        ('Geometry of the layers', 'Head roles')
    """
    try:
        declared = get_analysis(analysis)
    except InputError:
        return analysis.replace("_", " ").capitalize(), "", ""
    return declared.title, declared.question, declared.method


class _Linked(NamedTuple):
    """A finding on top of the page, and the chapter it comes from."""

    text: str
    status: str
    chapter: str
    title: str


def _linked(chapter: Chapter) -> list[_Linked]:
    return [_Linked(each.text, each.status, chapter.id, chapter.title) for each in chapter.findings]


def saved_svg(spec: Mapping[str, Any], folder: Path, name: str) -> str | None:
    """The still image saved with a result, where the chart saved beside it is this very chart."""
    try:
        same = json.loads(read_regular(folder / f"{name}.vl.json")) == spec and is_as_saved(folder, f"{name}.svg")
        return read_regular(folder / f"{name}.svg").decode("utf-8") if same else None
    except (OSError, ValueError, RecursionError, InputError):
        return None


def _sheet(result: Result, name: str, table: pandas.DataFrame) -> Sheet:
    columns = [str(column) for column in table.columns]
    rows = [[_cell(value) for value in row] for row in table.head(SHOWN_ROWS).itertuples(index=False)]
    if name in result.parquet:
        return Sheet(name, columns, rows, len(table), "", f"{name}.parquet")
    csv = _data_uri("text/csv;charset=utf-8", table.to_csv(index=False))
    return Sheet(name, columns, rows, len(table), csv, f"{result.analysis}-{name}.csv")


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


def _write_whole(path: Path, text: str) -> Path:
    """All of it or nothing: a kill never leaves half a page, and a page of somebody else's is never replaced."""
    if path.exists() and _MARK not in read_regular(path).decode("utf-8", errors="replace"):
        raise ResultError(f"{path} is not a report of lamina; name another folder with --out")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ResultError(f"{path.parent} is not a folder; name another with --out") from None
    except OSError as error:
        raise write_error(path, error.errno) from error
    write_text(path, text)
    return path
