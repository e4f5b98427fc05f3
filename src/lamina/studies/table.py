"""The numbers of all cells in one table, `cells.parquet`; its models compared, what they agree on, and one page.

The table has one row per number that an analysis gives.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from lamina.errors import LaminaError
from lamina.figures import chart_script, colour_tokens, drawing_script, smaller_svg
from lamina.files.writing import fresh_path, write_text
from lamina.framework.declare import ComparedItems, ComparedLayers, ComparedTasks, ComparedValues
from lamina.framework.registry import get_analysis
from lamina.framework.run import safe_name
from lamina.report.chapters import part_of
from lamina.report.page import page_template, read_part, refuse_other_page, write_page_file
from lamina.results import Result
from lamina.results.finding import Finding, counts_in_words, rows_of, strongest_first
from lamina.results.folder import answer_key
from lamina.studies.plan import CELLS, CellRecord, StudyCell, read_record

if TYPE_CHECKING:
    from lamina.framework.declare import Analysis
    from lamina.results import Result
    from lamina.studies.declaration import Study


TABLE = "cells.parquet"
_TESTS = ("contrasts", "differences", "draws", "training", "baselines", "examples", "scores", "items")
"""Tables whose intervals belong to tests or single items, of analyses that declare no measures."""
_MOST_ROWS = 5000
"""Rows of a table of an analysis that declares no measures; larger ones hold single heads or items."""
_COUNTS = ("n", "count", "targets", "pairs", "words", "items", "units")
TWIN, CONTROL = ", untrained twin", ", control labels"
"""What measures of a model's baselines end with."""
_MEASURES = ("measure", "metric", "statistic", "score")


class CellRow(NamedTuple):
    """One row of `cells.parquet`."""

    study: str
    model: str
    revision: str
    """Of a hub model, or the step of a checkpoint."""
    corpus: str
    analysis: str
    """By its name in the study."""
    task: str
    """What is measured: a task, a relation, a group of items; empty where the measure says it all."""
    layer: int | None
    relative_depth: float
    """layer / L: layers of different models are compared by it."""
    measure: str
    value: float
    low: float
    """Of the 95 % interval; missing where the analysis gives none."""
    high: float
    n: float
    """What was scored: targets, items, texts."""
    version: int
    """Of the analysis."""
    fingerprint: str
    """The key of the answer: analysis, version, model, data and settings."""
    seconds: float
    """Wall time of the cell."""


_TYPES = {
    **dict.fromkeys(("study", "model", "revision", "corpus", "analysis", "task", "measure", "fingerprint"), "str"),
    **dict.fromkeys(("relative_depth", "value", "low", "high", "n", "seconds"), "float64"),
    "layer": "Int64",
    "version": "int64",
}


def rows_of_result(cell: StudyCell, result: Result, seconds: float) -> pd.DataFrame:
    """The rows of one cell."""
    analysis = get_analysis(result.analysis)
    declared = analysis.compares
    parts = list(_measured(result, declared))
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["task", "layer", "measure"])
    table = table.reindex(columns=["task", "layer", "measure", "value", "low", "high", "n"])
    table = table[table["value"].notna()]
    last = _last_layer(result)
    layers = pd.to_numeric(table["layer"], errors="coerce")
    texts = result.provenance.corpus.get("texts")
    counts = pd.to_numeric(table["n"], errors="coerce")
    about = {
        "study": cell.study, "model": cell.model, "revision": cell.revision, "corpus": cell.corpus,
        "analysis": cell.question, "version": result.version,
        "fingerprint": answer_key(result.question, result.version), "seconds": seconds,
    }  # fmt: skip
    whole = table.assign(
        **about,
        layer=layers,
        relative_depth=layers / last if last else np.nan,
        n=counts.fillna(float(texts)) if isinstance(texts, int) else counts,
    )
    ordered = whole[list(CellRow._fields)].reset_index(drop=True)
    return ordered.astype(_TYPES)


def _measured(result: Result, declared: object) -> Iterator[pd.DataFrame]:
    """What an analysis declares that models are compared by; of others, every table of numbers with intervals."""
    if isinstance(declared, ComparedTasks):
        yield from _of_tasks(result, declared)
    elif isinstance(declared, ComparedLayers):
        name = str(result.provenance.model.get("name", ""))
        table = result.tables[declared.table]
        for column, value in declared.rows.items():
            table = table[table[column].astype(str) == str(value).replace("{model}", name)]
        yield _as_rows(_with_twin(table, declared.column, name), "value", measure=declared.column)
    elif isinstance(declared, ComparedValues):
        table = result.tables[declared.table]
        for column, value in declared.rows.items():
            table = table[table[column].astype(str) == str(value)]
        yield _as_rows(table, declared.value[0], names=declared.names, fixed=declared.metric)
    else:
        tables = get_analysis(result.analysis).tables
        for name, about in tables.items():
            table = result.tables.get(name)
            if table is None or about.format != "csv" or name in _TESTS or not 0 < len(table) <= _MOST_ROWS:
                continue
            columns = list(about.columns)
            place = columns.index("low") if {"low", "high"} <= {*columns} else 0
            if place and pd.api.types.is_numeric_dtype(table[columns[place - 1]]) and "against" not in columns:
                fixed = "" if any(one in columns for one in _MEASURES) else columns[place - 1]
                prefix = "" if isinstance(declared, ComparedItems) and name == next(iter(tables)) else name
                yield _as_rows(table, columns[place - 1], fixed=fixed, prefix=prefix)


def _with_twin(table: pd.DataFrame, measure: str, model: str) -> pd.DataFrame:
    """Rows of other models than the one that was asked are those of its untrained twin, and are named so."""
    if "model" not in table:
        return table
    twin = table["model"].astype(str) != model
    return table.assign(**{measure: table[measure].astype(str).where(~twin, table[measure].astype(str) + TWIN)})


def _of_tasks(result: Result, declared: ComparedTasks) -> Iterator[pd.DataFrame]:
    """Scores of the probes, all seeds together, and where in the depth tasks are."""
    scores = result.tables[declared.scores]
    scores = scores[scores["seed"].astype(str) == "all"]
    if "tuning_seed" in scores:
        scores = scores[scores["tuning_seed"].astype(str).isin(["", "all", "nan"])]
    of = scores["of"].map({"model": "", "random": TWIN, "control": CONTROL}).fillna("")
    kind = scores["probe"].map({"cumulative": "cumulative probe", "layer": "single layer", "mix": "all layers mixed"})
    measure = scores["metric"].astype(str) + ", " + kind.fillna(scores["probe"].astype(str)) + of
    yield _as_rows(scores.assign(measure=measure, metric=measure), "value", names=("task",), measure="measure")
    summary = result.tables["summary"]
    ends = {"expected_layer": ("el_low", "el_high"), "center_of_gravity": ("cog_low", "cog_high")}
    for place in declared.places:
        if place in summary:
            low, high = ends.get(place, ("", ""))
            part = summary[["task", place]].rename(columns={place: "value"})
            part = part.assign(low=summary.get(low, np.nan), high=summary.get(high, np.nan), layer=np.nan, n=np.nan)
            yield part.assign(measure=place.replace("_", " "))


def _as_rows(
    table: pd.DataFrame,
    value: str,
    *,
    names: Sequence[str] = (),
    measure: str = "",
    fixed: str = "",
    prefix: str = "",
) -> pd.DataFrame:
    """A long-form table in the columns of `cells.parquet`, as far as it has them."""
    if "seed" in table and (table["seed"].astype(str) == "all").any():
        table = table[table["seed"].astype(str) == "all"]
    column = measure or next((one for one in _MEASURES if one in table and one != value), "")
    named = list(names) or [
        str(one) for one in table.columns
        if not pd.api.types.is_numeric_dtype(table[one]) and one not in ("model", "reason", "unit", "seed", column)
        and not pd.api.types.is_bool_dtype(table[one])
    ]  # fmt: skip
    if not names and "head" in table and "head" not in named:
        named.append("head")
    task = pd.Series("", index=table.index)
    for one in named:
        text = table[one].map(lambda cell: "" if pd.isna(cell) else str(cell))
        text = "head " + text if one == "head" else text
        task = task.where(text == "", task.where(task == "", task + " · ") + text)
    measured = table[column].astype(str) if column and not fixed else pd.Series(fixed or value, index=table.index)
    measured = prefix + ": " + measured if prefix else measured
    count = next((one for one in _COUNTS if one in table), "")
    return pd.DataFrame(
        {
            "task": task,
            "layer": table.get("layer", np.nan),
            "measure": measured,
            "value": table[value],
            "low": table.get("low", np.nan),
            "high": table.get("high", np.nan),
            "n": table[count] if count else np.nan,
        }
    )


def _last_layer(result: Result) -> int:
    """L, by the deepest layer that any table of the result has."""
    deepest = 0
    for table in result.tables.values():
        if "layer" in table:
            layers = pd.to_numeric(table["layer"], errors="coerce").dropna()
            deepest = max(deepest, int(layers.max()) if len(layers) else 0)
    return deepest


def rows_path(out: Path, cell: StudyCell) -> Path:
    """Where the rows of a cell lie until the table is made."""
    return out / CELLS / f"{cell.label}.parquet"


def write_rows(out: Path, cell: StudyCell, result: Result, seconds: float) -> None:
    """Write the rows of one cell: the table is put together from them, and no result is read again for that."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = rows_path(out, cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = rows_of_result(cell, result, seconds)
    with fresh_path(path) as fresh:
        pq.write_table(pa.Table.from_pandas(rows, schema=schema(), preserve_index=False), fresh)


def schema() -> Any:
    """The columns of `cells.parquet` and their types."""
    import pyarrow as pa

    types = {"str": pa.string(), "float64": pa.float64(), "Int64": pa.int64(), "int64": pa.int64()}
    return pa.schema([(name, types[_TYPES[name]]) for name in CellRow._fields])


def write_table(out: Path, cells: Iterable[StudyCell]) -> int:
    """Put the rows of all cells into one table, one cell in memory at a time; returns their number."""
    import pyarrow.parquet as pq

    count = 0
    with fresh_path(out / TABLE) as fresh, pq.ParquetWriter(fresh, schema()) as writer:
        for cell in cells:
            path = rows_path(out, cell)
            if path.is_file():
                table = pq.read_table(path, schema=schema())
                writer.write_table(table)
                count += table.num_rows
    return count


def read_cells(path: Path) -> pd.DataFrame:
    """The table of a study, by its folder or its file.

    Example:
        >>> read_cells(Path("studies/pipeline"))["model"].unique()  # doctest: +SKIP
        ['minilm' 'mpnet']
    """
    import pyarrow.parquet as pq

    file = path / TABLE if path.is_dir() else path
    return pq.read_table(file).to_pandas(ignore_metadata=True).astype(_TYPES)


def rows(table: pd.DataFrame) -> Iterator[Any]:
    """The rows of the table, with attributes."""
    return rows_of(table)


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
    """Write `index.html`; a page that lamina did not write is never replaced."""
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
