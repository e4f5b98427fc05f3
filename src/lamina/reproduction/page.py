"""The page of a reproduced paper: its tables with both numbers, its figures, and what stands in for what."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from lamina.figures import chart_script, colour_tokens, drawing_script, smaller_svg, spec_of
from lamina.figures.reproduction import published_and_ours
from lamina.report.chapters import ReportedResult, ReportFigure, figure_of, part_of
from lamina.report.page import page_template, read_part, refuse_other_page, write_page_file
from lamina.reproduction.papers import ORIGINAL, PublishedTable, described
from lamina.results.finding import strongest_first

if TYPE_CHECKING:
    from lamina.reproduction.running import PaperPlan, PlannedRun
    from lamina.results import Result

FINDINGS = 6
"""Findings per run on the page; the result has all."""


class PaperCell(NamedTuple):
    """One number of a paper's table, in words."""

    published: str
    ours: str
    difference: str


class PaperRow(NamedTuple):
    """One row of a paper's table."""

    name: str
    cells: list[PaperCell]


class PaperTable(NamedTuple):
    """A paper's table with both numbers."""

    id: str
    title: str
    model: str
    source: str
    note: str
    columns: tuple[str, ...]
    rows: list[PaperRow]
    summary: str
    figure: ReportFigure | None


def write_page(plan: PaperPlan, numbers: pd.DataFrame, out: Path) -> Path:
    """Write `out/index.html`; a page of somebody else's is never replaced."""
    page = out / "index.html"
    refuse_other_page(page)
    parts = [_part(planned, planned.result) for planned in plan.runs if planned.result is not None]
    tables = [paper_table(table, numbers[numbers["table"] == table.id]) for table in plan.paper.tables]
    names = {f"{p.run.name}-{chart}": figure for p in plan.runs for chart, figure in p.run.figures.items()}
    figures = [figure for part in parts for figure in part.figures] + [t.figure for t in tables if t.figure]
    html = page_template("lamina.reproduction", "page.html").render(
        title=plan.paper.title,
        cite=plan.paper.cite,
        model=plan.model,
        model_is=plan.model_is,
        model_note="" if plan.model_is == ORIGINAL else f"the paper's: {described(plan.paper.models)}, with --model",
        small=plan.small,
        note=plan.paper.note,
        runs=[_run_in_words(planned) for planned in plan.runs],
        tables=tables,
        parts=parts,
        names={figure.id: names.get(figure.id, "") for figure in figures},
        commands={part.id: part.provenance.command for part in parts},
        stills={figure.id: _still(figure, out) for figure in figures},
        css=colour_tokens() + read_part("report.css"),
        script=drawing_script() + read_part("report.js"),
        dark=_dark(),
        bundle=chart_script() if figures else "",
    )
    return write_page_file(page, html)


def paper_table(table: PublishedTable, numbers: pd.DataFrame) -> PaperTable:
    """A table as the paper has it, ours and the difference beside every number.

    Example:
        >>> import lamina.reproduction as reproduction
        >>> from lamina.reproduction.comparison import compare_numbers
        >>> table = reproduction.get_paper("structural").tables[0]
        >>> paper_table(table, compare_numbers([table], {})).rows[0].cells
        [PaperCell(published='80', ours='not run', difference='')]
    """
    rows = [
        PaperRow(str(name).replace("_", " "), [_cell(number) for number in group.itertuples()])
        for name, group in numbers.groupby("row", sort=False)
    ]
    verdicts = numbers["verdict"].value_counts()
    with_interval = int(sum(verdicts.get(name, 0) for name in ("agrees", "above", "below")))
    summary = (
        f"{verdicts.get('agrees', 0)} of {with_interval} numbers with an interval agree; {verdicts.get('above', 0)} of "
        f"ours are above, {verdicts.get('below', 0)} below the published ones."
        if with_interval
        else "None of ours has an interval here."
    )
    chart = published_and_ours(numbers, table.title)
    figure = None if chart is None else figure_of(f"{table.id}-published", spec_of(chart), _CAPTION)
    return PaperTable(
        table.id, table.title, table.model, table.source, table.note, table.columns, rows, summary, figure
    )


_CAPTION = (
    "Hollow: published. Solid: ours, with its 95 % interval. Where model or data stand in for the paper's, the two "
    "need not agree."
)


def _cell(number: Any) -> PaperCell:
    published = f"{number.published:g}"
    if not math.isfinite(number.ours):
        return PaperCell(published, number.verdict, "")
    places = 1 if number.unit == "%" else 3 if number.unit == "share" else 2
    ours = f"{number.ours:.{places}f}{_interval(number.low, number.high, places)}"
    if number.unit == "layer":
        difference = f"{number.difference:+.0%} of the depth{_interval(number.diff_low, number.diff_high, 2)}"
    else:
        difference = f"{number.difference:+.{places}f}{_interval(number.diff_low, number.diff_high, places)}"
    return PaperCell(published, ours, f"{difference}, {number.verdict}")


def _interval(low: float, high: float, places: int) -> str:
    return f" [{low:.{places}f}, {high:.{places}f}]" if math.isfinite(low) and math.isfinite(high) else ""


def _part(planned: PlannedRun, result: Result) -> ReportedResult:
    from dataclasses import replace

    part = part_of(planned.run.name, result, planned.folder)
    figures = [figure for figure in part.figures if _chart(figure, planned) in planned.run.figures] or part.figures[:2]
    order = {chart: place for place, chart in enumerate(planned.run.figures)}
    figures.sort(key=lambda figure: order.get(_chart(figure, planned), len(order)))
    return replace(part, figures=figures, findings=strongest_first(part.findings)[:FINDINGS])


def _chart(figure: ReportFigure, planned: PlannedRun) -> str:
    return figure.id.removeprefix(f"{planned.run.name}-")


def _run_in_words(planned: PlannedRun) -> dict[str, str]:
    state = f"not run: {planned.refusal}" if planned.refusal else "run" if planned.result is not None else "to come"
    analysis = planned.run.analysis.replace("_", "-")
    to_get = f"To get: {planned.to_get}" if planned.to_get else ""
    state += "".join(f". {remark}" for remark in (planned.remark, planned.run.note, to_get) if remark)
    return {
        "name": planned.run.name.replace("_", " "), "analysis": analysis, "data": planned.data,
        "data_is": planned.data_is, "state": state,
    }  # fmt: skip


def _still(figure: ReportFigure, out: Path) -> str:
    name = f"figures/{figure.id}.svg"
    write_page_file(out / name, smaller_svg(figure.svg))
    return name


def _dark() -> Any:
    from lamina.figures.theme import DARK

    return DARK
