"""A static site of studies: a page per model, task, measure and cell; cells can be run again from their bundles."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from lamina.errors import InputError, LaminaError, ResultError
from lamina.figures import chart_script, colour_tokens, drawing_script, smaller_svg
from lamina.figures.atlas import by_depth
from lamina.files.checking import read_json
from lamina.files.reading import read_regular
from lamina.files.writing import write_text
from lamina.framework.run import safe_name
from lamina.report.chapters import figure_of
from lamina.report.page import page_template, read_part
from lamina.results.folder import HEAD, read_head, refuse_unwritable
from lamina.studies.plan import CELLS, RECORD, RESULTS
from lamina.studies.sharing import SUFFIX, files_of, open_bundle, pack
from lamina.studies.table import counted, packed_script, read_cells, study_part

if TYPE_CHECKING:
    from lamina.activations import Runtime
    from lamina.report.chapters import ReportFigure

SITE = "atlas.json"
"""What a site holds; a folder without it is never replaced."""
_FORMAT = 1
_LARGEST = 4 * 2**20
"""Bytes of a file of a result that goes into its bundle: tables do, predictions and probes do not."""
_CLOSE = 1e-9
_MOST_ROWS = 4000
"""Rows of one page's chart."""


class AtlasCell(NamedTuple):
    """One cell of an atlas."""

    id: str
    """Of its page and its bundle: the first letters of its answer's key, so that addresses stay."""
    study: str
    model: str
    corpus: str
    analysis: str
    folder: Path
    """Of its result."""
    request: Mapping[str, Any]
    seconds: float

    @property
    def name(self) -> str:
        """In words."""
        return " · ".join(filter(None, (self.analysis, self.model, self.corpus)))


class AtlasPage(NamedTuple):
    """One page of an atlas in its search."""

    title: str
    kind: str
    address: str
    numbers: int


def build_atlas(studies: Sequence[Path], out: Path, *, title: str = "Atlas") -> Path:
    """Build the site of some studies into `out`; returns its first page.

    Example:
        >>> build_atlas([Path("studies/pipeline")], Path("site"))  # doctest: +SKIP
        PosixPath('site/index.html')
    """
    refuse_unwritable(out)
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / SITE).is_file())):
        raise ResultError(f"{out} holds something other than an atlas; name a new or empty folder with --out")
    cells = [cell for study in studies for cell in _cells_of(study)]
    if not cells:
        raise InputError(f"no cell of {', '.join(map(str, studies))} is answered; run `lamina study run` first")
    tables = [read_cells(study) for study in studies]
    table = pd.concat(tables, ignore_index=True)
    ids = {(cell.study, cell.analysis, cell.model, cell.corpus): cell.id for cell in cells}
    out.mkdir(parents=True, exist_ok=True)
    for old in ("model", "task", "measure", "cell"):
        shutil.rmtree(out / old, ignore_errors=True)
    writer = _Writer(out, title)
    keys = list(zip(table["study"], table["analysis"], table["model"], table["corpus"], strict=True))
    table = table.assign(cell=[ids.get(key, "") for key in keys])
    pages: list[AtlasPage] = []
    for kind in ("model", "task", "measure"):
        pages += writer.pages_of(kind, table, cells)
    for cell in cells:
        pages.append(writer.cell_page(cell, table[table["cell"] == cell.id]))
    writer.first_page(pages, studies, table, cells)
    head = {
        "format": _FORMAT, "title": title, "studies": [str(json.loads(_about(study))["name"]) for study in studies],
        "cells": [{"id": cell.id, "name": cell.name, "bundle": f"cell/{cell.id}{SUFFIX}"} for cell in cells],
    }  # fmt: skip
    write_text(out / SITE, json.dumps(head, indent=1))
    return out / "index.html"


def _about(study: Path) -> bytes:
    path = study / RECORD
    if not path.is_file():
        raise InputError(f"{study} is not the folder of a study: it has no {RECORD}")
    return read_regular(path)


def _cells_of(study: Path) -> Iterator[AtlasCell]:
    """The answered cells of a study, from what is recorded of them."""
    about = json.loads(_about(study))
    seen: set[str] = set()
    for path in sorted((study / CELLS).glob("*.json")):
        try:
            record = read_json(path)
        except (LaminaError, OSError, ValueError):
            continue
        if record.get("state") != "answered" or not re.fullmatch(r"[0-9a-f]{64}", str(record.get("key"))):
            continue
        label = path.name.removesuffix(".json")
        question, _, rest = label.partition("--")
        folder = study / RESULTS / question / rest
        id = str(record["key"])[:16]
        if not (folder / HEAD).is_file() or id in seen:
            continue
        seen.add(id)
        yield AtlasCell(
            id, str(about["name"]), str(record["model"]), str(record["corpus"]), str(record["question"]), folder,
            dict(record["request"]), float(record["seconds"]),
        )  # fmt: skip


class _Writer:
    """Writes the pages of one site."""

    def __init__(self, out: Path, title: str) -> None:
        self._out, self._title = out, title
        self._page, self._cell = (page_template("lamina.studies", name) for name in ("atlas.html", "cell.html"))
        from lamina.figures.theme import DARK

        self._dark = DARK
        css = colour_tokens() + read_part("report.css") + study_part("study.css")
        # Shared by all pages: a reader's browser keeps them.
        for name, text in (
            ("style.css", css),
            ("charts.js", chart_script()),
            ("page.js", _classic(drawing_script() + read_part("report.js"))),
            ("table.js", study_part("table.js")),
            ("search.js", study_part("search.js")),
        ):
            write_text(out / name, text)

    def pages_of(self, kind: str, table: pd.DataFrame, cells: Sequence[AtlasCell]) -> Iterator[AtlasPage]:
        """A page for every model, task or measure."""
        names: set[str] = set()
        by_id = {cell.id: cell for cell in cells}
        for name, rows in table.groupby(kind, sort=True):
            title = str(name) or "no task"
            if kind == "task" and not str(name):
                continue
            slug = safe_name(title)[:80]
            while slug.lower() in names:
                slug += "-"
            names.add(slug.lower())
            address = f"{kind}/{slug}.html"
            figure = self._figure(rows, kind, f"{kind}-{slug}")
            linked = [by_id[id] for id in dict.fromkeys(rows["cell"]) if id in by_id]
            printed = rows.drop(columns=["cell", "study"])
            write_text_beside(self._out / f"{kind}/{slug}.js", packed_script(printed))
            self._write(address, kind, title, figure, linked[:500], f"{slug}.js", len(rows))
            yield AtlasPage(title, kind, address, len(rows))

    def _figure(self, rows: pd.DataFrame, kind: str, id: str) -> ReportFigure | None:
        chart = by_depth(rows, kind, most=_MOST_ROWS)
        return None if chart is None else figure_of(safe_name(id), chart, _CAPTION)

    def _write(
        self, address: str, kind: str, title: str, figure: ReportFigure | None, linked: Sequence[AtlasCell], data: str,
        count: int,
    ) -> None:  # fmt: skip
        stills = {}
        if figure is not None:
            write_text_beside(self._out / f"{kind}/{figure.id}.svg", smaller_svg(figure.svg))
            stills = {figure.id: f"{figure.id}.svg"}
        html = self._page.render(
            site=self._title, kind=kind, title=title, figure=figure, stills=stills, cells=linked, data=data, up="../",
            count=count, dark=self._dark,
        )  # fmt: skip
        write_text_beside(self._out / address, html)

    def cell_page(self, cell: AtlasCell, rows: pd.DataFrame) -> AtlasPage:
        """The page of a cell, and its bundle: request, tables, provenance, hashes."""
        head = read_head(cell.folder)
        files = {
            name: path for name, path in files_of(cell.folder).items()
            if path.stat().st_size <= _LARGEST and not name.endswith((".safetensors", ".vl.json", ".svg"))
        }  # fmt: skip
        home = self._out / "cell"
        home.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            request = Path(folder) / "request.json"
            request.write_text(json.dumps(dict(cell.request), indent=1), encoding="utf-8")
            packed = {f"result/{name}": path for name, path in files.items()} | {"request.json": request}
            about = {"cell": cell.name, "key": head["key"], "study": cell.study}
            pack(packed, home / f"{cell.id}{SUFFIX}", about)
        html = self._cell.render(
            site=self._title,
            cell=cell,
            findings=head.get("findings", []),
            about=head.get("provenance", {}),
            head=head,
            request=json.dumps(dict(cell.request), indent=1),
            hashes={name: head["hashes"][name]["sha256"] for name in files if name in head.get("hashes", {})},
            left_out=sorted(set(head.get("hashes", {})) - set(files)),
            rows=[_in_words(row) for row in rows.head(60).itertuples()],
            count=len(rows),
            bundle=f"{cell.id}{SUFFIX}",
            up="../",
        )
        address = f"cell/{cell.id}.html"
        write_text_beside(self._out / address, html)
        return AtlasPage(cell.name, "cell", address, len(rows))

    def first_page(
        self, pages: Sequence[AtlasPage], studies: Sequence[Path], table: pd.DataFrame, cells: Sequence[AtlasCell]
    ) -> None:
        """The page with the search."""
        listed = json.dumps([[page.title, page.kind, page.address, page.numbers] for page in pages])
        write_text(self._out / "pages.js", f"globalThis.atlasPages={listed};\n")
        findings: list[tuple[str, str]] = []
        for study in studies:
            for head in sorted((study / "compared").glob("*/result.json")):
                findings += [(str(one["status"]), str(one["text"])) for one in read_head(head.parent)["findings"]]
        order = {"clear": 0, "null": 1, "open": 2, "untested": 3}
        findings.sort(key=lambda finding: order.get(finding[0], 4))
        html = page_template("lamina.studies", "atlas_index.html").render(
            title=self._title,
            about=", ".join(
                (
                    counted(table["model"].nunique(), "model"),
                    counted(table["corpus"].nunique(), "corpus", "corpora"),
                    counted(len(cells), "cell"),
                    counted(len(table), "number"),
                )
            ),
            findings=findings[:12],
            kinds=[(kind, [page for page in pages if page.kind == kind]) for kind in ("model", "task", "measure")],
            up="",
        )
        write_text(self._out / "index.html", html)


_CAPTION = (
    "Each number at its layer, as a share of the model's depth: 0 is the embeddings, 1 the last layer. Bars: 95 % "
    "interval of that cell alone. Compare curves at the same depth; whether two models differ is tested in their study."
)


def _classic(module: str) -> str:
    """A module as a plain script: browsers load no modules from pages that lie on a disk.

    Example:
        >>> _classic("export const one = 1;\\n")
        '(async () => {\\nconst one = 1;\\n})();\\n'
    """
    return f"(async () => {{\n{re.sub(r'(?m)^export ', '', module)}}})();\n"


def write_text_beside(path: Path, text: str) -> None:
    """Write a file, and its folder where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)


def _in_words(row: Any) -> tuple[str, ...]:
    numbers = ("" if value != value else f"{value:.3g}" for value in (row.value, row.low, row.high))
    layer = "" if pd.isna(row.layer) else str(int(row.layer))
    return (row.task, row.measure, layer, *numbers)


# Running cells of an atlas again.


@dataclass(frozen=True)
class CellCheck:
    """One cell that was run again."""

    name: str
    numbers: int = 0
    """With an interval, or the same number of decimals where there is none."""
    inside: int = 0
    """Of these, how many new numbers lie inside the old intervals."""
    equal: int = 0
    fault: str = ""
    """Why it could not be run."""

    def __str__(self) -> str:
        if self.fault:
            return f"{self.name}: could not be run again: {self.fault}"
        return f"{self.name}: {self.inside:,} of {self.numbers:,} inside their intervals, {self.equal:,} equal"


def verify_atlas(site: Path, cells: int = 20, *, seed: int = 0, runtime: Runtime | None = None) -> list[CellCheck]:
    """Run a random sample of an atlas's cells again, each from its own bundle.

    Example:
        >>> verify_atlas(Path("site"), 2)  # doctest: +SKIP
        [CellCheck(name='geometry · minilm · ewt', numbers=21, inside=21, equal=21, fault='')]
    """
    path = site / SITE
    if not path.is_file():
        raise InputError(f"{site} is not an atlas: it has no {SITE}")
    head = json.loads(read_regular(path))
    if head.get("format", 0) > _FORMAT:
        raise InputError(f"{site} was built by a newer lamina; update lamina")
    listed = head["cells"]
    chosen = np.random.default_rng(seed).permutation(len(listed))[:cells]
    return [_checked(site, listed[int(place)], runtime) for place in chosen]


def _checked(site: Path, cell: Mapping[str, Any], runtime: Runtime | None) -> CellCheck:
    from lamina.framework.requests import read_request
    from lamina.framework.run import run

    bundle = (site / str(cell["bundle"])).resolve()
    name = str(cell["name"])
    if not bundle.is_relative_to(site.resolve()):
        return CellCheck(name, fault="its bundle lies outside the site")
    with tempfile.TemporaryDirectory() as folder:
        try:
            opened = open_bundle(bundle, Path(folder) / "cell")
            request = read_request(json.loads(read_regular(opened / "request.json")))
            old = _tables(opened / "result")
            where = {} if runtime is None else {"runtime": runtime}
            query = request.analysis.ask(**request.inputs, **request.options, **request.settings, **where)
            new = run(query, Path(folder)).tables
        except (LaminaError, OSError, ValueError) as error:
            return CellCheck(name, fault=str(error))
    numbers = inside = equal = 0
    for table, before in old.items():
        after = new.get(table)
        if after is None or len(after) != len(before) or list(after.columns) != list(before.columns):
            return CellCheck(name, fault=f"its table {table} has other rows now")
        columns = list(before.columns)
        for place, low in enumerate(columns):
            if not low.endswith("low") or place == 0 or low.replace("low", "high") not in columns:
                continue
            value, high = columns[place - 1], low.replace("low", "high")
            if not all(pd.api.types.is_numeric_dtype(before[one]) for one in (value, low, high)):
                continue
            was, now = before[value].to_numpy(float), after[value].to_numpy(float)
            ends = before[low].to_numpy(float) - _CLOSE, before[high].to_numpy(float) + _CLOSE
            same = np.isclose(was, now, rtol=1e-6, atol=1e-9, equal_nan=True)
            known = np.isfinite(was)
            numbers += int(known.sum())
            inside += int((known & (same | ((now >= ends[0]) & (now <= ends[1])))).sum())
            equal += int((known & same).sum())
    return CellCheck(name, numbers, inside, equal)


def _tables(folder: Path) -> dict[str, pd.DataFrame]:
    """The tables of a bundle: only those small enough to have travelled."""
    from lamina.results.folder import read_table, table_file

    head = read_head(folder)
    there = [name for name in head["tables"] if (folder / table_file(name, head)).is_file()]
    return {name: read_table(folder, name, head) for name in there}
