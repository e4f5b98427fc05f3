"""A paper, run: what is at hand is checked, then its requests are run, and a page of both numbers is written."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import altair as alt
import pandas as pd

from lamina import assets
from lamina.assets.origins import offline_by
from lamina.errors import AssetError, CorpusError, InputError, ModelError, TaskError
from lamina.figures import chart_script, colour_tokens, drawing_script, smaller_svg, spec_of
from lamina.figures.theme import COLOURS, GREY
from lamina.files.writing import write_text
from lamina.framework.registry import get_analysis
from lamina.framework.requests import data_of
from lamina.progress import say
from lamina.report.chapters import ReportedResult, ReportFigure, figure_of, part_of
from lamina.report.page import page_template, read_part, refuse_other_page, write_page_file
from lamina.reproduction.papers import (
    MISSING,
    ORIGINAL,
    STAND_IN,
    Paper,
    PaperData,
    PaperRun,
    PublishedTable,
    described,
    get_paper,
    refuse_other_edition,
)
from lamina.results import Result
from lamina.results.finding import strongest_first

if TYPE_CHECKING:
    from lamina.activations import Runtime
    from lamina.framework.declare import Query
    from lamina.framework.estimate import Cost
    from lamina.results import Result


SCALES = {"%": 100.0}
"""Unit of a published number -> what ours are multiplied by."""


class ComparedNumber(NamedTuple):
    """A published number and ours."""

    table: str
    row: str
    column: str
    unit: str
    published: float
    ours: float
    """NaN where this run has no such number."""
    low: float
    """Bounds of the 95 % interval of ours; NaN where there is none."""
    high: float
    difference: float
    """Ours minus the published one; of layers, of their shares of the models' depths."""
    diff_low: float
    """The published number is taken as it stands: the interval is that of ours."""
    diff_high: float
    verdict: str
    """agrees: the interval of the difference holds 0; above, below; no interval; not run."""
    run: str
    """The run that ours comes from."""


def compare_numbers(tables: Iterable[PublishedTable], results: Mapping[str, Result]) -> pd.DataFrame:
    """All published numbers of these tables, with what the runs' results have of them.

    Example:
        >>> compare_numbers([], {}).columns.tolist()[:3]
        ['table', 'row', 'column']
    """
    rows = [number for table in tables for number in _numbers(table, results)]
    return pd.DataFrame(rows, columns=list(ComparedNumber._fields))


def _numbers(table: PublishedTable, results: Mapping[str, Result]) -> Iterator[ComparedNumber]:
    runs = [(name, results[name]) for name in table.runs if name in results]
    rows: list[ComparedNumber] = []
    for row, published in table.rows.items():
        for index, (column, unit, value) in enumerate(zip(table.columns, table.units, published, strict=True)):
            selection = table.values[min(index, len(table.values) - 1)]
            rows.append(_compared(table, row, column, unit, value, selection, runs, results))
    yield from rows
    if table.mean:
        yield from _means(table, rows)


def _runs_of(
    table: PublishedTable, row: str, runs: Sequence[tuple[str, Result]], results: Mapping[str, Result]
) -> Sequence[tuple[str, Result]]:
    """The runs that may have a row: those of its table, or the one that the row itself names (`run:table`)."""
    named = str(table.selections.get(row, {}).get("from", "")).partition(":")[0]
    return runs if not named else [(named, results[named])] if named in results else []


def _compared(
    table: PublishedTable, row: str, column: str, unit: str, value: float, selection: Mapping[str, Any],
    runs: Sequence[tuple[str, Result]], results: Mapping[str, Result],
) -> ComparedNumber:  # fmt: skip
    of_row = _runs_of(table, row, runs, results)
    for name, result in of_row:
        ours = _ours(table, row, selection, result)
        if ours is None or not math.isfinite(ours[0]):
            continue
        scale = SCALES.get(unit, 1.0)
        mean, low, high = (number * scale for number in ours)
        of_theirs, of_ours = (table.layers or 1, last_layer(result)) if unit == "layer" else (1, 1)
        difference, below, above = (number / of_ours - value / of_theirs for number in (mean, low, high))
        return ComparedNumber(
            table.id, row, column, unit, value, mean, low, high, difference, below, above, _verdict(below, above), name
        )
    nan, state = math.nan, "not there" if of_row else "not run"
    return ComparedNumber(table.id, row, column, unit, value, nan, nan, nan, nan, nan, nan, state, "")


def _verdict(low: float, high: float) -> str:
    if not (math.isfinite(low) and math.isfinite(high)):
        return "no interval"
    return "agrees" if low <= 0 <= high else "above" if low > 0 else "below"


def _ours(
    table: PublishedTable, row: str, selection: Mapping[str, Any], result: Result
) -> tuple[float, float, float] | None:
    """Our number for a row with its bounds; None where the result has no such row."""
    of_row = dict(table.selections.get(row, {selection.get("key", table.key): row}))
    apart = str(of_row.pop("from", "")).partition(":")[2]
    source = result.tables.get(apart or selection.get("from", table.table))
    if source is None or source.empty or of_row.pop("absent", False):
        return None
    best, value = of_row.pop("best", None), of_row.pop("value", selection["value"])
    selected = of_row if apart else {**table.where, **selection.get("where", {}), **of_row}
    rows = source
    for name, wanted in selected.items():
        if name not in rows:
            return None
        rows = rows[_fits(rows[name], wanted, table, result)]
    if rows.empty:
        return None
    chosen = rows.loc[rows[best].astype(float).idxmax()] if best else rows.iloc[0]
    numbers = (value, selection.get("low"), selection.get("high"))
    ours = [math.nan if name is None else float(chosen[name]) for name in numbers]
    mean, low, high = map(f1_of_recall, ours) if selection.get("of_recall") else ours
    return mean, low, high


def f1_of_recall(recall: float) -> float:
    """The F1 of decisions that should all be yes: nothing is a false alarm, so precision is 1.

    Example:
        >>> round(f1_of_recall(0.46), 2)
        0.63
    """
    return 2 * recall / (1 + recall)


def _fits(column: pd.Series, wanted: Any, table: PublishedTable, result: Result) -> pd.Series:
    """Which rows have the value wanted: `last` is the last layer, {model} the model's name, a list any of its entries.

    The layer of a model of another depth is the one at the same share of its depth.
    """
    if column.name == "layer":
        last = last_layer(result)
        number = last if wanted == "last" else round(int(wanted) * last / (table.layers or last))
        return pd.to_numeric(column, errors="coerce") == number
    name = str(result.provenance.model.get("name", ""))
    several = wanted if isinstance(wanted, list) else [wanted]
    texts = {("" if one is None else str(one)).replace("{model}", name) for one in several}
    return column.fillna("").astype(str).isin(texts)


def last_layer(result: Result) -> int:
    """The number of the last layer, or block, in a result's tables; 1 where none has layers."""
    layers = [
        pd.to_numeric(table["layer"], errors="coerce").max() for table in result.tables.values() if "layer" in table
    ]
    numbers = [int(layer) for layer in layers if pd.notna(layer)]
    return max([layer for layer in numbers if layer], default=1)


def _means(table: PublishedTable, rows: Sequence[ComparedNumber]) -> Iterator[ComparedNumber]:
    """Means over the rows that both have: like with like. They have no interval: rows are not resampled here."""
    for column, unit in zip(table.columns, table.units, strict=True):
        both = [row for row in rows if row.column == column and math.isfinite(row.ours)]
        if both:
            theirs, ours = (sum(values) / len(both) for values in ([r.published for r in both], [r.ours for r in both]))
            name = f"{table.mean} ({len(both)})"
            nan = math.nan
            yield ComparedNumber(
                table.id, name, column, unit, theirs, ours, nan, nan, ours - theirs, nan, nan, "no interval",
                both[0].run,
            )  # fmt: skip


_REFUSED = (AssetError, CorpusError, ModelError, TaskError, InputError)
"""What the model or the data cannot do is reported before anything runs; the rest is run."""


@dataclass
class PlannedRun:
    """One request, with its inputs loaded, or why it cannot be run."""

    run: PaperRun
    data: str
    """What is read, in words."""
    data_is: str
    query: Query | None = None
    ask: Callable[..., Query] | None = None
    """Asks the same with other inputs or settings: of a model that an earlier run fine-tuned."""
    to_get: str = ""
    """What the paper's own data are and how to come by them, where they are not what is read."""
    refusal: str = ""
    model_lacks: bool = False
    """Whether it is refused for what the model cannot do: another one may be able to."""
    remark: str = ""
    """How much of the paper's data was scored, where not all."""
    vectors: str = ""
    """Which word vectors stand in for the paper's."""
    result: Result | None = None
    folder: Path | None = None


@dataclass
class PaperPlan:
    """What will be run of a paper, on what."""

    paper: Paper
    model: str
    model_is: str
    runs: list[PlannedRun]
    small: bool

    def __str__(self) -> str:
        lines = [f"{self.paper.title} ({self.paper.cite})", f"model  {self.model}: {self.model_is}"]
        for planned in self.runs:
            state = planned.refusal and f"not run: {planned.refusal}"
            read = f"{planned.data}: {planned.data_is}"
            read += "".join(f"; {more}" for more in (_taken(planned.run), planned.vectors) if more)
            lines.append(f"{planned.run.name:<18} {planned.run.analysis:<14} {state or read}")
        lines += dict.fromkeys(f"to get: {planned.to_get}" for planned in self.runs if planned.to_get)
        return "\n".join(lines)


def plan_paper(
    name: str,
    model: str | None = None,
    data: str | os.PathLike[str] | None = None,
    *,
    small: bool = False,
    only: Sequence[str] | None = None,
    any_edition: bool = False,
    runtime: Runtime | None = None,
) -> PaperPlan:
    """Load what a paper's requests read, and say what is its own, what stands in and what cannot be run.

    `only` names the runs wanted; the others are not looked at.

    Example:
        >>> plan_paper("blimpp")
        Traceback (most recent call last):
        ...
        lamina.errors.InputError: there is no paper 'blimpp'; did you mean blimp? There are: ...
    """
    paper = get_paper(name)
    root = None if data is None else Path(data)
    if root is not None and not root.is_dir():
        raise InputError(f"--data {root} is not a folder; it holds the papers' data, as in {root}/ontonotes")
    chosen = model or model_for(paper)
    model_is = ORIGINAL if paper.is_own(chosen) else STAND_IN
    if unknown := set(only or ()) - {run.name for run in paper.runs}:
        known = ", ".join(run.name for run in paper.runs)
        raise InputError(f"{paper.name} has no run {', '.join(sorted(unknown))}; it has {known}")
    runs = []
    for run in paper.runs:
        if only and run.name not in only:
            continue
        if run.unless and paper.data[run.unless].folder(root):
            continue
        if run.beside and paper.data[run.beside].folder(root) is None:
            continue
        runs.append(_planned(paper, run, chosen, root, small=small, any_edition=any_edition, runtime=runtime))
    if not runs:
        lacking = [paper.data[run.beside].to_get_it() for run in paper.runs if run.beside and run.name in (only or ())]
        raise CorpusError(f"{', '.join(only or ())} of {paper.name} cannot be run: {'; '.join(dict.fromkeys(lacking))}")
    _refuse_without_models(runs)
    if all(planned.refusal for planned in runs):
        reasons = "; ".join(dict.fromkeys(planned.refusal for planned in runs))
        if not any(planned.model_lacks for planned in runs):
            raise CorpusError(f"nothing of {paper.name} can be run: {reasons}")
        instead = f"try --model {paper.stand_ins[0]}" if chosen != paper.stand_ins[0] else "nothing stands in"
        raise ModelError(f"nothing of {paper.name} can be run with {chosen}: {reasons}; {instead}")
    return PaperPlan(paper, chosen, model_is, runs, small)


def _refuse_without_models(runs: Sequence[PlannedRun]) -> None:
    """A run that asks a fine-tuned model cannot be run where that model is not trained."""
    for planned in runs:
        name = planned.run.model_of
        trained = next((other for other in runs if other.run.name == name), None)
        if name and not planned.refusal and (trained is None or trained.refusal):
            why = f": {trained.refusal}" if trained else f"; add {name} to --only"
            planned.query, planned.refusal = (
                None,
                f"it asks the model that the run {name} trains, which is not run{why}",
            )


def _taken(run: PaperRun) -> str:
    """Which fine-tuned models a run takes, in words; empty for none."""
    if run.model_of:
        return f"the model is the one that {run.model_of} trains"
    return f"with the models that {described(run.after)} train" if run.after else ""


def vectors_of(run: PaperRun, root: Path | None) -> tuple[dict[str, Any], str]:
    """The word vectors of a run as settings, and in words where they stand in for the paper's.

    Nobody has to download any: vectors that are not here are left out.

    Example:
        >>> vectors_of(get_paper("blimp").runs[0], None)
        ({}, '')
    """
    if not run.vectors:
        return {}, ""
    several = isinstance(get_analysis(run.analysis).settings["vectors"].default, tuple)
    paths = [path for path in (_own_vectors(name, root) for name in run.vectors["own"]) if path]
    instead = next((name for name in run.vectors["instead"] if _here(name)), None)
    if paths:
        return {"vectors": paths if several else paths[0]}, ""
    lacking = f"word vectors: {instead or 'none'} (the paper's, {described(run.vectors['own'])}, are not here)"
    return {"vectors": ([instead] if instead else []) if several else instead}, lacking


def _own_vectors(name: str, root: Path | None) -> str:
    """The file of word vectors that users bring, in the papers' folder or LAMINA_DATA; empty where it is in neither."""
    try:
        return str(assets.own_vectors(name, root) or "")
    except AssetError:
        return ""


def _here(vectors: str) -> bool:
    """Whether word vectors of this name are on this machine, or can be fetched."""
    return assets.local_folder(vectors) is not None or (bool(assets.find(vectors).sources) and offline_by() is None)


def model_for(paper: Paper) -> str:
    """The paper's model where it is on this machine, otherwise the first stand-in that is; else the first stand-in.

    Example:
        >>> model_for(get_paper("blimp")) in ("gpt2-large", "gpt2", "smollm2")
        True
    """
    from lamina.models.weights.hub import snapshot_folder

    for name in paper.models:
        if snapshot_folder(name, None) is not None:
            return name
    at_hand = [name for name in paper.stand_ins if name in assets.cards() and assets.is_cached(name)]
    return (at_hand or list(paper.stand_ins))[0]


def _planned(
    paper: Paper, run: PaperRun, model: str, root: Path | None, *, small: bool, any_edition: bool,
    runtime: Runtime | None,
) -> PlannedRun:  # fmt: skip
    source, words, data_is = _data_for(paper, run, root)
    original = paper.data.get(run.original or "")
    planned = PlannedRun(
        run, words, data_is, to_get="" if original is None or data_is == ORIGINAL else original.to_get_it()
    )
    settings, options = run.asked(small=small, stands_in=data_is != ORIGINAL)
    vectors, planned.vectors = vectors_of(run, root)
    settings |= vectors
    analysis = get_analysis(run.analysis)
    where: dict[str, Any] = {} if runtime is None else {"runtime": runtime}
    inputs: dict[str, Any] = {"model": model, **run.inputs}
    given = data_of(analysis)
    if original is not None and data_is == MISSING:
        planned.refusal = f"{original.title} is not here, and nothing stands in for it"
        return planned
    try:
        if source is not None and given is not None:
            inputs.setdefault(given, source)
        if original is not None and original.format and data_is == ORIGINAL:
            options["format"] = original.format
            if not any_edition:
                refuse_other_edition(original, counted(original, Path(str(source))))
        planned.ask = partial(analysis.ask, **{**inputs, **options, **settings, **where})
        query = planned.ask()
        _refuse_unable(run, query, int(settings.get("length") or run.tokens))
        planned.query = query
    except _REFUSED as error:
        planned.refusal, planned.model_lacks = str(error), isinstance(error, ModelError)
    return planned


def _refuse_unable(run: PaperRun, query: Query, tokens: int) -> None:
    """Raise a ModelError where the model takes fewer tokens than the run shows it, or lacks the head that it needs."""
    from lamina.models import Encoder
    from lamina.models.language.language_model import language_model
    from lamina.models.running.huggingface import HuggingFaceEncoder

    for argument in query.loaded.arguments:
        for encoder in argument if isinstance(argument, list | tuple) else (argument,):
            if isinstance(encoder, Encoder) and encoder.limit < tokens:
                raise ModelError(
                    f"{encoder.name} takes at most {encoder.limit:,} tokens, and the paper shows it {tokens:,}; run "
                    f"`lamina {run.analysis.replace('_', '-')}` by itself for shorter input, or take another --model"
                )
            if isinstance(encoder, Encoder) and run.needs == "predict":
                language_model(encoder)
            elif isinstance(encoder, Encoder) and run.needs == "train" and not isinstance(encoder, HuggingFaceEncoder):
                raise ModelError(f"{encoder.name} cannot be fine-tuned: it is no transformers model")


def _data_for(paper: Paper, run: PaperRun, root: Path | None) -> tuple[str | None, str, str]:
    """What a run reads: a name or path, in words, and what it is to the paper."""
    original = paper.data.get(run.original or "")
    if original is None:
        return run.data, run.stand_in or run.data or "", STAND_IN if run.stand_in else ORIGINAL
    folder = original.folder(root)
    if folder is not None and (original.asset is None or folder.name != original.asset):
        return str(folder), original.title, ORIGINAL
    if original.asset is not None:
        return original.asset, original.title, ORIGINAL
    if run.data is None:
        return None, original.title, MISSING
    return run.data, run.stand_in or run.data, STAND_IN


def counted(data: PaperData, folder: Path) -> dict[str, dict[str, int]]:
    """What the splits of these files hold, of what the paper's edition is known by; splits that are not there lack."""
    from lamina.corpora.loading import known_splits, load_corpus

    counts: dict[str, dict[str, int]] = {}
    if any("listed" in expected for expected in data.counts.values()):
        lists = {split: folder / f"{split}.tsv" for split in data.counts}
        return {split: {"listed": _lines(path)} for split, path in lists.items() if path.is_file()}
    if any("questions" in expected for expected in data.counts.values()):
        named = {split: [*folder.glob(f"*_{split}_*.json")] for split in data.counts}
        return {split: {"questions": sum(map(_records, paths))} for split, paths in named.items() if paths}
    for split in set(data.counts) & set(known_splits(folder, data.format)):
        texts, documents = 0, set()
        for text in load_corpus(folder, split, format=data.format):
            texts += 1
            # Parts of a document (`bc/cctv/00/cctv_0000:000`) are one document of the shared task.
            documents.add(str(text.doc).rpartition(":")[0] or str(text.doc))
        counts[split] = {"texts": texts, "documents": len(documents)}
    return counts


def _records(path: Path) -> int:
    """Records of a JSON list, those that are left out later among them."""
    from lamina.files.reading import parse_json, read_regular

    records = parse_json(read_regular(path).decode("utf-8-sig"))
    return len(records) if isinstance(records, list) else 0


def _lines(path: Path) -> int:
    from lamina.files.reading import read_regular

    return sum(bool(line.strip()) for line in read_regular(path).decode("utf-8").splitlines())


def share_of_suite(data: PaperData, result: Result) -> str:
    """How much of a test suite was scored, in words; empty where all of it was, or where it has no counts.

    Example:
        >>> import pandas as pd
        >>> from lamina.results import Provenance, Result
        >>> items = pd.DataFrame({"item": ["1", "2"], "group": ["a", "a"]})
        >>> result = Result("pairs", {"items": items}, Provenance({}, {}, {}))
        >>> share_of_suite(PaperData("blimp", "BLiMP", counts={"suite": {"pairs": 67_000}}), result)
        '2 of the 67,000 pairs'
    """
    items = result.tables.get("items")
    if items is None:
        return ""
    counts = {"pairs": len(items), "suites": items["group"].nunique(), "relations": items["group"].nunique()}
    expected = data.counts.get("suite", {})
    lacking = [f"{counts[what]:,} of the {count:,} {what}" for what, count in expected.items() if counts[what] != count]
    return ", ".join(lacking)


def estimate_paper(plan: PaperPlan) -> Iterator[tuple[str, Cost | str]]:
    """What every run takes on this machine, or why it is not run."""
    from lamina.framework.estimate import estimate

    for planned in plan.runs:
        try:
            yield planned.run.name, f"not run: {planned.refusal}" if planned.query is None else estimate(planned.query)
        except _REFUSED as error:
            yield planned.run.name, f"cannot be run: {error}"


def reproduce(
    paper: str,
    model: str | None = None,
    data: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    *,
    small: bool = False,
    only: list[str] | None = None,
    any_edition: bool = False,
    replace: bool = False,
    runtime: Runtime | None = None,
) -> Path:
    """Run a paper's requests and write one page with its figures and tables, published numbers beside ours.

    Args:
        paper: its name, see `paper_names`.
        model: by default the paper's where it is on this machine, otherwise a stand-in.
        data: a folder with the papers' own data, as `data.toml` says.
        out: the folder to write; by default reproductions/PAPER-MODEL.
        small: the smaller settings of the request file.
        only: the runs wanted, by name; all by default.
        any_edition: run on data whose counts are not the paper's.
        replace: overwrite other results in `out`.
        runtime: where models run and states are kept.

    Example:
        >>> reproduce("blimp", "smollm2")  # doctest: +SKIP
        PosixPath('reproductions/blimp-smollm2/index.html')
    """
    from lamina.framework.run import ask, safe_name

    plan = plan_paper(paper, model, data, small=small, only=only, any_edition=any_edition, runtime=runtime)
    folder = Path(out) if out is not None else Path("reproductions") / f"{paper}-{safe_name(Path(plan.model).name)}"
    say(str(plan))
    for planned in plan.runs:
        if planned.query is None:
            continue
        planned.folder = folder / "results" / planned.run.name
        try:
            planned.result = ask(_asked_again(planned, plan), planned.folder, replace=replace)
        except _REFUSED as error:
            planned.refusal = str(error)
        else:
            original = plan.paper.data.get(planned.run.original or "")
            planned.remark = "" if original is None else share_of_suite(original, planned.result)
        # The next run needs its memory.
        planned.query = planned.ask = None
        write_comparison(plan, folder)
    return write_comparison(plan, folder)


def _asked_again(planned: PlannedRun, plan: PaperPlan) -> Query:
    """The query of a run, of the models that earlier runs fine-tuned where it takes any."""
    if planned.ask is None or planned.query is None:
        raise InputError(f"{planned.run.name} was refused: {planned.refusal}")
    run = planned.run
    folders = {other.run.name: str(other.folder) for other in plan.runs if other.result is not None}
    if run.model_of and run.model_of not in folders:
        raise InputError(f"it asks the model that the run {run.model_of} trains, which was not trained")
    tuned = {setting: [folders[name] for name in names if name in folders] for setting, names in run.models_of.items()}
    model = {"model": folders[run.model_of]} if run.model_of else {}
    return planned.ask(**model, **tuned) if model or any(tuned.values()) else planned.query


def write_comparison(plan: PaperPlan, folder: Path) -> Path:
    """Write comparison.csv and the page with what there is so far; a stopped run leaves them."""
    results: Mapping[str, Result] = {run.run.name: run.result for run in plan.runs if run.result is not None}
    numbers = compare_numbers(plan.paper.tables, results)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "comparison.csv", numbers.to_csv(index=False))
    return write_page(plan, numbers, folder)


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
    """Write `out/index.html`; a page that lamina did not write is never replaced."""
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
        >>> from lamina.reproduction.running import compare_numbers
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
    remarks = (planned.remark, _taken(planned.run), planned.vectors, planned.run.note, to_get)
    state += "".join(f". {remark[0].upper()}{remark[1:]}" for remark in remarks if remark)
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


_PANEL = 230
_ROW = 18


def published_and_ours(numbers: pd.DataFrame, title: str) -> alt.HConcatChart | None:
    """One panel per column of the paper's table: hollow marks are published, solid ones ours; None where ours lack.

    Example:
        >>> published_and_ours(pd.DataFrame({"ours": [float("nan")]}), "Table 1") is None
        True
    """
    if numbers["ours"].isna().all():
        return None
    rows = list(dict.fromkeys(numbers["row"].astype(str)))
    panels = []
    for column, part in numbers.groupby("column", sort=False):
        data = part.assign(row=part["row"].astype(str))[["row", "published", "ours", "low", "high", "unit"]]
        y = alt.Y("row:N", sort=rows, title=None, axis=alt.Axis(labelLimit=220))
        unit = str(data["unit"].iloc[0])
        base = alt.Chart(data)
        axis = alt.Scale(zero=False)
        published = base.mark_point(size=55, color=GREY, strokeWidth=2).encode(
            x=alt.X("published:Q", title=unit, scale=axis), y=y, tooltip=["row", "published"]
        )
        ours = base.mark_circle(size=55, color=COLOURS[0]).encode(
            x=alt.X("ours:Q", scale=axis), y=y, tooltip=["row", "published", "ours", "low", "high"]
        )
        bars = base.mark_rule(color=COLOURS[0]).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y)
        panels.append(
            alt.layer(bars, published, ours).properties(width=_PANEL, height=_ROW * len(rows), title=str(column))
        )
    count = int(numbers["ours"].notna().sum())
    return alt.hconcat(*panels).properties(
        title=alt.TitleParams(title, subtitle=["hollow: published; solid: ours, with its 95 % interval"]),
        description=f"{count} of {len(numbers)} published numbers have one of ours beside them.",
    )
