"""Tables that a page was given: kept in the first result folder, so that jobs can read them, with their columns."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from lamina.corpora.tables.columns import number_in
from lamina.corpora.tables.files import delimited_rows, layout_of
from lamina.errors import CorpusError, InputError
from lamina.files.writing import write_text
from lamina.web.api.jobs import JobRequest
from lamina.web.api.schema import ERRORS
from lamina.web.jobs import CostEstimate
from lamina.web.requests import TABLES, job_request, tables_of
from lamina.web.state import State

router = APIRouter(prefix="/tables", tags=["tables"], responses={code: ERRORS[code] for code in (400, 401, 403, 413)})
_MOST_TABLES = 50
"""Tables that are kept; for more, somebody has to remove some."""
_MOST_CLASSES = 50
"""Different values up to which a column looks like labels."""
_WORDS_OF_TEXT = 3
"""Words per cell, on average, from which on a column looks like running text."""


class GivenTable(BaseModel):
    """A table as text."""

    name: str = Field(max_length=200)
    """Of its file; the kept one is called like it."""
    text: str
    """CSV or TSV, with or without names of columns in the first line."""


class TableColumn(BaseModel):
    """One column of a table."""

    name: str
    looks_like: Literal["text", "labels", "values", "ids", "other"]
    values: int
    """How many different ones it has."""
    examples: list[str]


class KeptTable(BaseModel):
    """A table that jobs can read."""

    name: str
    """As jobs name it (`data`)."""
    rows: int
    columns: list[TableColumn]


@router.post("", status_code=201)
def keep(app: State, given: GivenTable) -> KeptTable:
    """Keep a table, and say what its columns look like."""
    if not app.settings.folders:
        raise InputError("there is no folder to write to; start the server with one: lamina serve results")
    tables = tables_of(app)
    stem = re.sub(r"[^\w-]+", "-", Path(given.name).stem)[:40].strip("-") or "table"
    suffix = ".tsv" if given.name.lower().endswith(".tsv") else ".csv"
    name = f"{stem}-{hashlib.sha256(given.text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}{suffix}"
    if name not in tables and len(tables) >= _MOST_TABLES:
        raise InputError(f"{_MOST_TABLES} tables are kept; remove some from {app.settings.folders[0] / TABLES}")
    path = app.settings.folders[0] / TABLES / name
    if name not in tables:
        path.parent.mkdir(exist_ok=True)
        write_text(path, given.text)
    try:
        return _described(name, path)
    except InputError:
        path.unlink()
        raise


def _described(name: str, path: Path) -> KeptTable:
    layout = layout_of(path)
    if layout is None:
        raise CorpusError(f"{name} is not a table: save it as CSV or TSV, with names of columns in the first line")
    faults: list[str] = []
    rows = [row.values for row in delimited_rows(path, layout, lambda fault: faults.append(str(fault)))]
    if faults:
        raise CorpusError(faults[0].replace(str(path), name))
    if not rows:
        raise CorpusError(f"{name} has no rows")
    return KeptTable(name=name, rows=len(rows), columns=[_column(column, rows) for column in layout.columns])


def _column(name: str, rows: list[dict[str, str]]) -> TableColumn:
    cells = [str(row[name]).strip() for row in rows]
    filled = [cell for cell in cells if cell]
    counts = Counter(filled)
    words = sum(len(cell.split()) for cell in filled) / max(1, len(filled))
    kind: Literal["text", "labels", "values", "ids", "other"] = "other"
    if words >= _WORDS_OF_TEXT:
        kind = "text"
    elif _is_scale(filled):
        kind = "values"
    elif 1 < len(counts) <= min(_MOST_CLASSES, max(2, len(filled) // 2)):
        kind = "labels"
    elif len(counts) == len(filled):
        kind = "ids"
    return TableColumn(
        name=name, looks_like=kind, values=len(counts), examples=[cell[:80] for cell in list(counts)[:3]]
    )


def _is_scale(cells: list[str]) -> bool:
    """Whether all cells are numbers, some of them fractions."""
    numbers = [number_in(cell) for cell in cells]
    return None not in numbers and any(number is not None and number % 1 for number in numbers)


class JobEstimate(BaseModel):
    """What a computation would take on this machine."""

    state: Literal["waiting", "trying", "known", "failed", "off"]
    seconds: float | None
    memory: int | None
    why: str


@router.post("/estimate", responses={code: ERRORS[code] for code in (404, 422)})
def estimate(app: State, wanted: JobRequest) -> JobEstimate:
    """What a computation would take; it is tried once, so ask again until it is known."""
    cost: CostEstimate = app.estimates.get(job_request(app, wanted.model_dump(exclude_unset=True)).table())
    return JobEstimate(state=cost.state, seconds=cost.seconds, memory=cost.memory, why=cost.why)
