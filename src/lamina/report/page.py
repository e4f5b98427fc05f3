"""Results gathered into one page, of one model or of several, readable without a network; its figures for papers."""

from __future__ import annotations

import base64
import copy
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from lamina.errors import CorpusError, InputError, LaminaError, ResultError
from lamina.figures import chart_script, colour_tokens, draw, drawing_script, smaller_svg, spec_of, to_svg
from lamina.files.reading import read_regular
from lamina.files.writing import make_folder, write_bytes, write_error, write_text
from lamina.framework.outline import outline
from lamina.framework.passports import passport_notes
from lamina.framework.registry import get_analysis, names
from lamina.report.chapters import (
    ReportedResult,
    ReportFigure,
    TablePreview,
    about_the_run,
    at_a_glance,
    chapters_of,
    paired,
    paragraph,
    part_of,
    report_cards,
    shared_facts,
    strongest,
)
from lamina.results import Result
from lamina.results.finding import counts_in_words
from lamina.results.folder import HEAD

if TYPE_CHECKING:
    from lamina.models import Encoder
    from lamina.report.report import ReportRun


FIGURES, TABLES = "figures", "tables"
"""Folders beside the page: still images, and tables of results that are not saved beside it."""

_MARK = '<meta name="generator" content="lamina">'


class PendingAnalysis(NamedTuple):
    """An analysis that is still to come."""

    title: str
    seconds: float | None = None
    """How long it will take, where that is known."""

    @property
    def in_words(self) -> str:
        """With the time, as people say it.

        Example:
            >>> PendingAnalysis("Edge probing", 100).in_words, PendingAnalysis("Map of heads").in_words
            ('Edge probing (about 2 min)', 'Map of heads')
        """
        if self.seconds is None:
            return self.title
        minutes = round(self.seconds / 60)
        return f"{self.title} ({f'about {minutes} min' if self.seconds >= 60 else 'under a minute'})"


class ReportPage:
    """One page that is written again as results come in; what was drawn once is kept."""

    def __init__(self, out: str | os.PathLike[str], title: str, *, single_file: bool = False) -> None:
        self.out, self.title, self._single = Path(out), title, single_file
        self._parts: dict[str, ReportedResult] = {}

    def write(
        self,
        results: Sequence[Result],
        *,
        notes: Sequence[str] = (),
        folders: Sequence[Path] = (),
        coming: Sequence[PendingAnalysis] = (),
        stopped: bool = False,
    ) -> Path:
        """Write the page; see `write_report`. `coming` is what is still being made, or was not when a run `stopped`."""
        if not results:
            raise ResultError("a report needs at least one result; name an analysis")
        page = self.out / "index.html"
        refuse_other_page(page)
        times: Counter[str] = Counter()
        parts = []
        for result, folder in paired(results, folders):
            times[result.analysis] += 1
            parts.append(self._part(result, folder, times[result.analysis]))
        chapters, glance = chapters_of(parts), at_a_glance(results)
        figures = [*glance, *(figure for part in parts for figure in part.figures)]
        of_models = dict.fromkeys(note for result in results for note in passport_notes(result.provenance.model))
        findings = strongest(chapters)
        html = page_template().render(
            title=self.title,
            about=about_the_run(results),
            notes=[*of_models, *notes],
            coming=[analysis.in_words for analysis in coming],
            left=sum(analysis.seconds or 0 for analysis in coming),
            stopped=stopped,
            glance=glance,
            summary=paragraph(results),
            cards=report_cards(results),
            findings=findings,
            counted=counts_in_words(findings),
            shared=shared_facts(parts),
            chapters=chapters,
            stills={figure.id: self._still(figure) for figure in figures},
            links={(part.id, sheet.name): self._link(part, sheet) for part in parts for sheet in part.sheets},
            css=colour_tokens() + read_part("report.css"),
            script=drawing_script() + read_part("report.js"),
            dark=_dark(),
            bundle=chart_script() if figures else "",
        )
        return write_page_file(page, html)

    def _part(self, result: Result, folder: Path | None, time: int) -> ReportedResult:
        """The result, drawn; the second of the same analysis has a name of its own."""
        name = result.analysis if time == 1 else f"{result.analysis}-{time}"
        known = self._parts.get(name)
        if known is None or known.result is not result:
            self._parts[name] = part_of(name, result, folder)
        return self._parts[name]

    def _still(self, figure: ReportFigure) -> str:
        """The address of a figure's still image, which is written beside the page."""
        svg = smaller_svg(figure.svg)
        if self._single:
            return _data_uri("image/svg+xml", svg)
        name = f"{FIGURES}/{figure.id}.svg"
        _write_beside(self.out / name, svg)
        return name

    def _link(self, part: ReportedResult, sheet: TablePreview) -> str:
        """The address of a table with all of its rows; none where one row per item would be too much for the page."""
        if self._single:
            large = sheet.filename.endswith(".parquet")
            return "" if large else _data_uri("text/csv;charset=utf-8", sheet.table.to_csv(index=False))
        root = self.out.resolve()
        if part.folder is not None and part.folder.resolve().is_relative_to(root):
            saved = part.folder.resolve() / sheet.filename
            if saved.is_file():
                return saved.relative_to(root).as_posix()
        if sheet.filename.endswith(".parquet"):
            return ""
        name = f"{TABLES}/{part.id}-{sheet.name}.csv"
        _write_beside(self.out / name, sheet.table.to_csv(index=False))
        return name


def write_report(
    results: Sequence[Result],
    out: str | os.PathLike[str],
    *,
    title: str,
    notes: Sequence[str] = (),
    folders: Sequence[Path] = (),
    single_file: bool = False,
) -> Path:
    """Write `out/index.html` with every result's findings, charts, tables, method and provenance; return its path.

    Still images are written to `out/figures`, tables to `out/tables` unless the results are saved below `out`; with
    `single_file` all of it is put into the page.

    `notes` stand below the title: what a reader should know that no result says. `folders` say where the results
    are saved, in their order: still images that lie there are not drawn again.

    Example:
        >>> import pandas as pd, tempfile
        >>> from lamina.results import Provenance
        >>> provenance = Provenance({"name": "m", "fingerprint": "f"}, {"name": "c", "fingerprint": "g"}, {})
        >>> result = Result("demo", {"scores": pd.DataFrame({"layer": [0, 1]})}, provenance)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_report([result], folder, title="A demonstration").name
        'index.html'
    """
    return ReportPage(out, title, single_file=single_file).write(results, notes=notes, folders=folders)


def _data_uri(kind: str, text: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(text.encode()).decode()}"


def _dark() -> Mapping[str, str]:
    from lamina.figures.theme import DARK

    return DARK


def page_template(package: str = "lamina.report", name: str = "report.html") -> Any:
    """The template of a page; it may import the report's own parts, as `figure.html`."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    # Names of models and corpora are the user's: everything is escaped except our own style and script.
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(*package.rsplit(".", 1)), PackageLoader("lamina", "report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def read_part(name: str) -> str:
    """A style sheet or script of the report's page."""
    return files("lamina.report").joinpath(name).read_text(encoding="utf-8")


def refuse_other_page(path: Path) -> None:
    """A page that lamina did not write is never replaced."""
    if path.exists() and _MARK not in read_regular(path).decode("utf-8", errors="replace"):
        raise ResultError(f"{path} is not a report of lamina; name another folder with --out")


def _write_beside(path: Path, text: str) -> None:
    """What is there already is not written again."""
    try:
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            return
    except (OSError, ValueError):
        pass
    write_page_file(path, text)


def write_page_file(path: Path, text: str) -> Path:
    """Write all of it or nothing: a kill never leaves half a page."""
    try:
        make_folder(path.parent)
    except (FileExistsError, NotADirectoryError):
        raise ResultError(f"{path.parent} is not a folder; name another with --out") from None
    except OSError as error:
        raise write_error(path, error.errno) from error
    write_text(path, text)
    return path


# The page while it is made: there after the first analysis, written again after each, left where a run stops.

_REUSED = 1.0
"""Seconds below which an answer was not computed but reused, and says nothing of the pace."""


class Pace:
    """How fast analyses are on this machine with this model, against what they take in the default report.

    The remaining time is estimated from that, scaled by the times of the finished ones; others have none.

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
        known = sum(_usual_seconds(name) or 0 for name in names)
        if known and seconds >= _REUSED:
            self._seconds += seconds
            self._measured += known

    def left(self, name: str) -> float | None:
        """Seconds that an analysis will take; None where nothing tells."""
        takes = _usual_seconds(name)
        return takes * self._seconds / self._measured if takes and self._measured else None


def _usual_seconds(name: str) -> float | None:
    return outline(name).takes if name in names() else None


class GrowingPage:
    """Writes the page as results come in. Use as a context: an error that ends the run is shown on the page."""

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

    def _coming(self) -> list[PendingAnalysis]:
        left = [name for name in self._titles if name not in self._done]
        return [PendingAnalysis(self._titles[name], self._pace.left(name)) for name in left]


COMPARED = ("geometry", "probe", "attention", "heads", "contextualize", "surprisal", "pairs", "cloze", "lens")
"""The analyses whose results `compare` puts side by side, in the order of the page."""
BY_NAME = ("structure", "order", "senses", "corefheads", "finetune", "phases")
"""Compared only where they are asked for by name, or where results of two models lie there: no report on one model has
the first four, and for the last two every model is fine-tuned."""


def names_compared(names: Sequence[str], only: Sequence[str] | None) -> list[str]:
    """Those of the analyses that can be compared; one that is asked for by name and cannot is an error.

    Example:
        >>> names_compared(["geometry", "neighbours", "probe"], None)
        ['geometry', 'probe']
    """
    compared = (*COMPARED, *(BY_NAME if only else ()))
    other = [name for name in names if name not in compared]
    if only and other:
        raise InputError(
            f"{', '.join(other)}: not compared between models; a report on several has {', '.join(compared)}"
        )
    return [name for name in compared if name in names]


def folder_names(models: Sequence[Any]) -> list[str]:
    """Where each model's results go, below `results`: its name, or the last part of its path.

    Example:
        >>> folder_names(["minilm", "data/growing_bert"])
        ['minilm', 'growing_bert']
    """
    from lamina.framework.run import safe_name

    named = [safe_name(Path(str(model if isinstance(model, str | Path) else model.name)).name) for model in models]
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice:
        raise InputError(f"several models are called {', '.join(twice)}; give models with different names")
    return named


def write_several(
    reports: Mapping[str, Callable[[Path], ReportRun]],
    names: Sequence[str],
    out: Path,
    *,
    replace: bool,
    single_file: bool = False,
) -> tuple[Path, list[Path], list[str]]:
    """Ask every model, compare, and write `out/index.html`.

    `reports` give, by the name of a model's folder, its report in the making; each is loaded when its turn comes, and
    let go after it. Returns the page, the folders of all results, and what was left out.
    """
    from lamina.comparison.tables import in_words

    answers: dict[str, dict[str, Result]] = {}
    folders, notes, left_out, title = [], [], [], ""
    for name, load in reports.items():
        report = load(out / "results" / name)
        # What one of the models cannot answer may be compared between the others.
        answers[name] = report.answer(names, asked_for=False)
        beside = _saved_beside(out / "results" / name, report.encoder, answers[name])
        answers[name] |= beside
        folders += [*report.folders, *(out / "results" / name / analysis for analysis in beside)]
        notes += [f"{report.encoder.name}: {note}" for note in report.notes]
        left_out += report.left_out
        title = f"{report.texts.name} ({report.texts.split})"
        # The next model needs its memory.
        del report
    compared = {}
    for name in [*names, *(name for name in BY_NAME if name not in names)]:
        results = [by_analysis[name] for by_analysis in answers.values() if name in by_analysis]
        if len(results) < 2:
            continue
        try:
            compared[name] = _compare(results, out / "results" / f"compare-{name}", replace=replace)
        except InputError as error:
            if name in names:
                raise
            notes.append(f"{outline(name).title} is left out: {error}.")
    if not compared:
        raise CorpusError("; ".join(notes) or "none of the models was asked the same")
    alone = [name for name in names if sum(name in by_analysis for by_analysis in answers.values()) == 1]
    notes += [f"{outline(name).title} is left out: only one of the models has it." for name in alone]
    where = [out / "results" / f"compare-{name}" for name in compared]
    called = [
        next(iter(by_analysis.values())).provenance.model["name"] for by_analysis in answers.values() if by_analysis
    ]
    page = write_report(
        list(compared.values()),
        out,
        title=f"{in_words(called)} on {title}",
        notes=notes,
        folders=where,
        single_file=single_file,
    )
    return page, [*folders, *where], left_out


def _saved_beside(folder: Path, encoder: Encoder, answers: Mapping[str, Result]) -> dict[str, Result]:
    """Results of the model for further analyses that the folder has already: they are compared too."""
    saved = {}
    for name in BY_NAME:
        if name not in answers and (folder / name / HEAD).is_file():
            with suppress(LaminaError):
                result = Result.load(folder / name)
                if result.provenance.model.get("fingerprint") == encoder.fingerprint:
                    saved[name] = result
    return saved


def _compare(results: Sequence[Result], folder: Path, *, replace: bool) -> Result:
    from lamina.framework.run import ask

    return ask(get_analysis("compare").ask(list(results)), folder, replace=replace)


COLUMN = 8.6
"""Centimetres of a column in most two-column papers."""
FOLDER = "paper"
"""Beside the page."""
_PIXELS = 96 / 2.54
"""Per centimetre."""
_SCALE = 0.85
"""Of text: 12 pixels become 7.7 points."""
_TRIES = 4
_NARROWEST = 60
_MANY = 3
"""Panels that stand below each other."""
_BOTH = re.compile(r'<svg[^>]*? width="([\d.]+)" height="([\d.]+)"')
_SIZE = re.compile(r'<svg[^>]*? width="([\d.]+)"')


def export_figures(out: Path, names: Sequence[str]) -> list[Path]:
    """Write figures of the report in `out`, named as on its page, to `out/paper`; return their paths.

    A name is an analysis, a dash and a chart (`heads-arcs`), or `overview` for the first figure. Panels stand below
    each other; titles are left to the paper's caption.
    """
    specs = dict(_figures(out))
    unknown = [name for name in names if name not in specs]
    if unknown:
        raise InputError(f"the report has no figure {', '.join(map(repr, unknown))}; it has: {', '.join(specs)}")
    paths = []
    for name in names:
        spec = at_column_width(specs[name])
        svg, pdf = out / FOLDER / f"{name}.svg", out / FOLDER / f"{name}.pdf"
        svg.parent.mkdir(parents=True, exist_ok=True)
        image = to_svg(spec)
        write_text(svg, _sized(image, "cm", 1))
        # Without a unit the converter takes points, of which an inch has 72.
        write_bytes(pdf, _pdf(_sized(image, "", 72 / 2.54)))
        paths += [svg, pdf]
    return paths


def at_column_width(spec: Mapping[str, Any], width: float = COLUMN) -> dict[str, Any]:
    """The chart laid out for a column of `width` centimetres: as many pixels as that is, at the size of its text."""
    layout: dict[str, Any] = copy.deepcopy({name: value for name, value in spec.items() if name != "title"})
    room = width * _PIXELS / _SCALE
    narrow = (layout.get("usermeta") or {}).get("narrow")
    if narrow and room < narrow["room"]:
        layout["concat"] = [layout["concat"][place] for place in narrow["panels"]]
    panels = layout.get("concat", [layout])
    if (layout.get("usermeta") or {}).get("oneRow"):
        layout["columns"] = len(panels)
    elif "concat" in layout:
        # Many panels in one column would be longer than a page.
        layout["columns"] = 1 if len(panels) <= _MANY else 2
    across = layout.get("columns", 1)
    for _ in range(_TRIES):
        excess = _width(layout) - room
        if excess <= 1:
            break
        widest = max(_panel_width(panel) for panel in panels)
        ratio = max((widest - excess / across) / widest, _NARROWEST / widest) if widest else 1.0
        for panel in panels:
            _narrow(panel, ratio, shape=bool((layout.get("usermeta") or {}).get("keepShape")))
    return layout


def _figures(out: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    folders = sorted(path.parent for path in (out / "results").rglob(HEAD))
    results = [Result.load(folder) for folder in folders]
    for figure in at_a_glance(results):
        yield "overview", dict(figure.spec)
    for result, folder in zip(results, folders, strict=True):
        for name, chart in draw(result).items():
            yield f"{folder.name}-{name}", spec_of(chart)


def _views(view: Mapping[str, Any]) -> list[dict[str, Any]]:
    return next((view[kind] for kind in ("layer", "concat", "hconcat", "vconcat") if kind in view), [])


def _panel_width(view: Mapping[str, Any]) -> float:
    width = view.get("width")
    return width if isinstance(width, int | float) else max([0.0, *map(_panel_width, _views(view))])


def _narrow(view: dict[str, Any], ratio: float, *, shape: bool) -> None:
    """Make a view and all inside it narrower, in place."""
    for name in ("width", "height") if shape else ("width",):
        if isinstance(view.get(name), int | float):
            view[name] = max(1, round(view[name] * ratio))
    for inner in _views(view):
        _narrow(inner, ratio, shape=shape)


def _width(spec: dict[str, Any]) -> float:
    match = _SIZE.search(to_svg(spec))
    return float(match[1]) if match else 0.0


def _sized(svg: str, unit: str, per_centimetre: float) -> str:
    """The image as wide as a column; what cannot be laid out as narrow, as a sentence, is made smaller as a whole."""
    size = _BOTH.search(svg)
    if size is None:
        return svg
    across, down = float(size[1]), float(size[2])
    scale = min(_SCALE, COLUMN * _PIXELS / across) / _PIXELS * per_centimetre
    named = f'width="{across * scale:.2f}{unit}" height="{down * scale:.2f}{unit}"'
    return svg.replace(f'width="{size[1]}" height="{size[2]}"', named, 1)


def _pdf(svg: str) -> bytes:
    import vl_convert

    return vl_convert.svg_to_pdf(svg)
