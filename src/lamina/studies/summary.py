"""What a study says: its models compared, what they agree on, and one page."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from lamina.errors import LaminaError
from lamina.figures import chart_script, colour_tokens, drawing_script, smaller_svg
from lamina.files.writing import write_text
from lamina.framework.registry import get_analysis
from lamina.framework.run import safe_name
from lamina.report.chapters import part_of
from lamina.report.page import page_template, read_part, refuse_other_page, write_page_file
from lamina.results import Result
from lamina.results.finding import Finding, counts_in_words, strongest_first
from lamina.studies.plan import CellRecord, StudyCell, read_record
from lamina.studies.table import read_cells, write_table

if TYPE_CHECKING:
    from lamina.framework.declare import Analysis
    from lamina.studies.declaration import Study

COMPARED = "compared"
"""The folder of comparisons, in that of the study."""
_FINDINGS = 15
"""At the top of the page."""
_WORDS = {"answered": "answered", "refused": "cannot be asked", "failed": "failed", "open": "to run"}


class CellLink(NamedTuple):
    """One field of the grid of cells."""

    words: str
    state: str
    link: str


class GridRow(NamedTuple):
    """The cells of one model."""

    model: str
    cells: list[CellLink]


class MissingCell(NamedTuple):
    """A cell without an answer."""

    name: str
    why: str


def write_study(study: Study, cells: Sequence[StudyCell], out: Path) -> tuple[Path, int]:
    """Write the table, the comparisons and the page of a study with what there is.

    Returns:
        The page, and the number of rows of the table.
    """
    count = write_table(out, cells)
    write_text(out / "cells.js", packed_script(read_cells(out)))
    records = {cell.name: read_record(out, cell) for cell in cells}
    compared, left_out = compare_cells(study, cells, records, out)
    return write_page(study, cells, records, compared, left_out, out), count


def compare_cells(
    study: Study, cells: Sequence[StudyCell], records: Mapping[str, CellRecord], out: Path
) -> tuple[dict[str, Result], list[str]]:
    """Models beside each other, for every analysis, corpus and seed that several of them answered; why some are not.

    The same comparisons as `lamina compare` and `lamina agreement` make, found again where they lie.
    """
    groups: dict[str, list[StudyCell]] = {}
    for cell in cells:
        if records[cell.name].state == "answered":
            parts = [cell.question, cell.corpus, "" if cell.seed is None else f"seed{cell.seed}"]
            groups.setdefault("-".join(safe_name(part) for part in parts if part), []).append(cell)
    results: dict[str, Result] = {}
    left_out = []
    for name, group in groups.items():
        analysis = get_analysis(str(group[0].table["analysis"]))
        if len(group) < 2 or analysis.compares is None:
            continue
        questions: list[tuple[str, Analysis, dict[str, Any]]] = [(name, get_analysis("compare"), {})]
        if analysis.name == "probe":
            tasks = {"tasks": list(study.order)} if study.order else {}
            questions.insert(0, (f"{name}-order", get_analysis("agreement"), tasks))
        for title, question, settings in questions:
            try:
                results[title] = _compared(question, group, out, title, settings)
            except LaminaError as error:
                left_out.append(f"{title} ({question.name}): {error}")
    return results, left_out


def _compared(analysis: Analysis, group: Sequence[StudyCell], out: Path, name: str, settings: dict[str, Any]) -> Result:
    from lamina.framework.run import ask

    folders = [out / cell.folder for cell in group]
    return ask(analysis.ask(folders, **settings), out / COMPARED / name, replace=True)


def study_findings(compared: Mapping[str, Result]) -> list[Finding]:
    """The findings about the study: of what models agree on first, then of how they differ.

    Example:
        >>> study_findings({})
        []
    """
    agreed = [one for result in compared.values() if result.analysis == "agreement" for one in result.findings]
    others = [one for result in compared.values() if result.analysis != "agreement" for one in result.findings]
    return [*strongest_first(agreed), *strongest_first(others)][:_FINDINGS]


def write_page(
    study: Study,
    cells: Sequence[StudyCell],
    records: Mapping[str, CellRecord],
    compared: Mapping[str, Result],
    left_out: Sequence[str],
    out: Path,
) -> Path:
    """Write `index.html`; a page of somebody else's is never replaced."""
    page = out / "index.html"
    refuse_other_page(page)
    parts = [part_of(f"part-{safe_name(name)}", result, out / COMPARED / name) for name, result in compared.items()]
    titles = {f"part-{safe_name(name)}": _title(name, result) for name, result in compared.items()}
    findings = study_findings(compared)
    missing = [
        MissingCell(cell.name, records[cell.name].why or "not run yet")
        for cell in cells
        if records[cell.name].state != "answered"
    ]
    missing += [MissingCell(*reason.split(": ", 1)) for reason in left_out]
    missing += [MissingCell(model, why) for model, why in study.absent.items()]
    answered = len(cells) - sum(record.state != "answered" for record in records.values())
    figures = [figure for part in parts for figure in part.figures[:3]]
    models, corpora = ({getattr(cell, name) for cell in cells} - {""} for name in ("model", "corpus"))
    html = page_template("lamina.studies", "study.html").render(
        title=study.title,
        about=f"{counted(len(models), 'model')}, {counted(len(corpora), 'corpus', 'corpora')}, "
        f"{counted(len(study.questions), 'analysis', 'analyses')}: {answered} of {len(cells)} cells are answered.",
        findings=findings,
        counted=counts_in_words(findings),
        silent="Nothing is compared yet: that needs two models with an answer to the same question.",
        parts=parts,
        titles=titles,
        links={f"part-{safe_name(name)}": f"{COMPARED}/{name}/" for name in compared},
        columns=_columns(cells),
        grid=_grid(cells, records),
        missing=missing,
        stills={figure.id: _still(figure.id, figure.svg, out) for figure in figures},
        css=colour_tokens() + read_part("report.css") + study_part("study.css"),
        script=drawing_script() + read_part("report.js") if figures else "",
        table=study_part("table.js"),
        dark=_dark(),
        bundle=chart_script() if figures else "",
    )
    return write_page_file(page, html)


def _title(name: str, result: Result) -> str:
    question = name.removesuffix("-order")
    return f"The order of tasks: {question}" if result.analysis == "agreement" else f"Models beside each other: {name}"


def counted(count: int, one: str, many: str = "") -> str:
    """A number of things in words.

    Example:
        >>> counted(1, "corpus", "corpora"), counted(1200, "cell")
        ('1 corpus', '1,200 cells')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _columns(cells: Sequence[StudyCell]) -> list[str]:
    return list(dict.fromkeys(_column(cell) for cell in cells))


def _column(cell: StudyCell) -> str:
    seed = "" if cell.seed is None else f"seed {cell.seed}"
    return ", ".join(filter(None, (cell.question, cell.corpus, seed)))


def _grid(cells: Sequence[StudyCell], records: Mapping[str, CellRecord]) -> list[GridRow]:
    columns = _columns(cells)
    by_model: dict[str, dict[str, CellLink]] = {}
    for cell in cells:
        record = records[cell.name]
        answered = record.state == "answered"
        words = f"{record.seconds:,.0f} s" if answered and record.seconds else _WORDS[record.state]
        link = f"{cell.folder.as_posix()}/" if answered else ""
        by_model.setdefault(cell.model, {})[_column(cell)] = CellLink(words, record.state, link)
    none = CellLink("", "none", "")
    return [GridRow(model, [row.get(column, none) for column in columns]) for model, row in by_model.items()]


def _still(name: str, svg: str, out: Path) -> str:
    write_page_file(out / f"figures/{name}.svg", smaller_svg(svg))
    return f"figures/{name}.svg"


def _dark() -> Any:
    from lamina.figures.theme import DARK

    return DARK


def study_part(name: str) -> str:
    """A style sheet or script of the pages of studies and atlases."""
    return files("lamina.studies").joinpath(name).read_text(encoding="utf-8")


# The table as a script: columns packed, so that a million rows open at once.


def packed_script(table: pd.DataFrame) -> str:
    """A script that sets `laminaCells`: every column as gzip in base64, words by number.

    Example:
        >>> packed_script(pd.DataFrame({"task": ["pos"], "value": [0.5]}))[:40]
        'globalThis.laminaCells={"count": 1, "col'
    """
    columns = [_packed(str(name), table[name]) for name in table.columns]
    return f"globalThis.laminaCells={json.dumps({'count': len(table), 'columns': columns})};\n"


def _packed(name: str, column: pd.Series) -> dict[str, Any]:
    if pd.api.types.is_numeric_dtype(column):
        values = pd.to_numeric(column).to_numpy("float32", na_value=np.nan)
        return {"name": name, "kind": "f4", "data": _base64(values)}
    codes, words = pd.factorize(column.fillna("").astype(str))
    kind = "u1" if len(words) < 2**8 else "u2" if len(words) < 2**16 else "u4"
    numbers = codes.astype({"u1": "uint8", "u2": "uint16", "u4": "uint32"}[kind])
    return {"name": name, "kind": kind, "words": list(map(str, words)), "data": _base64(numbers)}


def _base64(values: np.ndarray) -> str:
    little = values.astype(values.dtype.newbyteorder("<"))
    return base64.b64encode(gzip.compress(little.tobytes(), 1, mtime=0)).decode()
