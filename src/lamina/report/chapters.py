"""Results as the page shows them: five chapters, each with a headline, one figure and how sure it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lamina.analyses.overview import cards, head_roles, spine, summary
from lamina.errors import InputError
from lamina.figures import captions_for, draw, spec_of, to_svg
from lamina.files.reading import read_regular
from lamina.framework.outline import CHAPTERS, ChapterCard, chapter_of
from lamina.framework.registry import get_analysis
from lamina.results import Provenance, Result
from lamina.results.finding import Finding, counts_in_words, number, p_in_words, plainly, statistics_of, strongest_first
from lamina.results.folder import is_as_saved
from lamina.results.index import sample_in_words

if TYPE_CHECKING:
    import pandas

SHOWN_ROWS = 10
"""Of a table on the page; the file beside it has all."""
SHORT = 360
"""Letters of a chart's description that is shown as it is; a longer one is folded."""
_SIZE = re.compile(r'<svg[^>]*? width="([\d.]+)" height="([\d.]+)"')


class ReportFigure(NamedTuple):
    """One chart: to play with, and as a still image for print and for readers without scripts."""

    id: str
    name: str
    """Of the file when a reader saves the chart."""
    title: str
    subtitle: list[str]
    spec: Mapping[str, Any]
    svg: str
    width: float
    """Of the still image, in pixels: how much room the chart takes beside its panels."""
    height: float
    summary: str
    """The chart in words."""
    caption: str
    """How to read it."""

    @property
    def is_wide(self) -> bool:
        """Whether it takes the whole width of a printed page."""
        return self.width > 1.8 * self.height

    @property
    def is_short(self) -> bool:
        """Whether its words are shown as they are."""
        return len(self.summary) <= SHORT


class TablePreview(NamedTuple):
    """One table: what the page shows of it."""

    name: str
    columns: list[str]
    rows: list[list[str]]
    total: int
    filename: str
    """Of the file with all rows, in the folder of the result."""
    table: pandas.DataFrame


@dataclass(frozen=True)
class ReportedResult:
    """One result, drawn and described."""

    id: str
    analysis: str
    title: str
    question: str
    method: str
    findings: tuple[Finding, ...]
    provenance: Provenance
    figures: list[ReportFigure]
    sheets: list[TablePreview]
    folder: Path | None
    """Where the result is saved."""
    result: Result

    @property
    def sample(self) -> str:
        """What it saw and how it was asked."""
        return f"Seen: {sample_in_words(self.provenance.corpus, self.provenance.parameters)}."

    @property
    def facts(self) -> list[tuple[str, str, str]]:
        """Its provenance as rows of a table: group, name, value."""
        about = self.provenance
        groups = {"model": about.model, "corpus": about.corpus, "setting": about.parameters, "version": about.versions}
        rows = [(group, *fact) for group, facts in groups.items() for fact in flattened(facts)]
        rows.append(("run", "seeds", ", ".join(map(str, about.seeds)) or "none"))
        rows.append(("run", "revision of lamina", about.revision or "an installed release"))
        return [*rows, ("run", "date", about.created), ("run", "command", about.command)]


class RankedFinding(NamedTuple):
    """A finding on the page, and where it comes from."""

    text: str
    status: str
    chapter: str
    title: str
    weight: int
    """How much its claim is worth."""
    plain: str = ""
    """The claim without its statistics."""

    @classmethod
    def of(cls, finding: Finding, chapter: str = "", title: str = "") -> RankedFinding:
        """A finding of a chapter; `title` is that of its analysis."""
        return cls(finding.text, finding.status, chapter, title, finding.weight, plainly(finding))


class ReportCard(NamedTuple):
    """One of the findings that stand out, below the first figure."""

    title: str
    plain: str
    status: str
    statistics: str


@dataclass(frozen=True)
class ReportChapter:
    """One screen: a headline, a figure and how sure it is; the rest is folded."""

    id: str
    title: str
    question: str
    headline: RankedFinding | None
    figure: ReportFigure | None
    sure: list[str]
    others: list[RankedFinding]
    """Its further findings."""
    parts: list[ReportedResult]
    command: str
    """Makes this chapter again."""


def part_of(id: str, result: Result, folder: Path | None) -> ReportedResult:
    """A result with its charts as specifications and still images; those saved with it are not drawn again."""
    title, question, method = words_of(result.analysis)
    if _subject(result) != result.analysis:
        title = f"{title}: {words_of(_subject(result))[0].lower()}"
    captions = captions_for(result)
    figures = [
        figure_of(f"{id}-{name}", spec_of(chart), captions.get(name, ""), folder, name)
        for name, chart in draw(result).items()
    ]
    sheets = [_sheet(result, name, table) for name, table in result.tables.items()]
    words = (title, question, method, result.findings, result.provenance)
    return ReportedResult(id, result.analysis, *words, figures, sheets, folder, result)


def figure_of(id: str, spec: dict[str, Any], caption: str, folder: Path | None = None, name: str = "") -> ReportFigure:
    """A chart with its still image."""
    svg = (folder and saved_svg(spec, folder, name)) or to_svg(spec)
    size_match = _SIZE.search(svg)
    title, subtitle = _titles(spec.get("title"))
    size = (float(size_match[1]), float(size_match[2])) if size_match else (0.0, 0.0)
    return ReportFigure(id, id, title, subtitle, spec, svg, *size, str(spec.get("description", "")), caption)


def paragraph(results: Sequence[Result]) -> list[RankedFinding]:
    """The model in a paragraph, sentence by sentence."""
    return [RankedFinding.of(entry) for entry in summary(results)]


def report_cards(results: Sequence[Result]) -> list[ReportCard]:
    """The strongest finding, the most surprising one, and the most important one that was not shown."""
    return [
        ReportCard(card.title, plainly(card.finding), card.finding.status, statistics_of(card.finding))
        for card in cards(results)
    ]


def shared_facts(parts: Sequence[ReportedResult]) -> list[tuple[str, str, str]]:
    """What holds of all results of a page: it is listed once."""
    if len(parts) < 2:
        return []
    others = [set(part.facts) for part in parts[1:]]
    return [fact for fact in parts[0].facts if all(fact in facts for facts in others)]


def flattened(facts: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Nested facts as names with values, for a table.

    Example:
        >>> list(flattened({"name": "ewt", "files": {"dev": "0ab1"}, "seeds": [0, 1]}))
        [('name', 'ewt'), ('files: dev', '0ab1'), ('seeds', '0, 1')]
    """
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{before}{name}: ")
        elif isinstance(value, list | tuple):
            yield f"{before}{name}", ", ".join(map(str, value)) or "none"
        else:
            yield f"{before}{name}", str(value)


def at_a_glance(results: Sequence[Result]) -> list[ReportFigure]:
    """The spine: abilities, named heads and what is used, by layer."""
    from lamina.figures import overview

    name = str(results[0].provenance.model.get("name", "the model")) if results else ""
    chart = overview.whole_spine(spine(results), name)
    return [figure_of("overview-figure", spec_of(chart), overview.CAPTIONS["spine"])] if chart is not None else []


def chapters_of(parts: Sequence[ReportedResult]) -> list[ReportChapter]:
    """The chapters that have a result, in their order."""
    placed = {
        card.name: [part for part in parts if chapter_of(_subject(part.result)) == card.name] for card in CHAPTERS
    }
    return [_chapter(card, placed[card.name]) for card in CHAPTERS if placed[card.name]]


def _chapter(card: ChapterCard, parts: list[ReportedResult]) -> ReportChapter:
    lead, figure = _lead(card, parts)
    ordered = [lead, *(part for part in parts if part is not lead)]
    by_finding = {id(finding): part for part in ordered for finding in part.findings}
    findings = strongest_first(finding for part in ordered for finding in part.findings)
    ranked = [RankedFinding.of(finding, card.name, by_finding[id(finding)].title) for finding in findings]
    # One claim, one figure: the headline is the claim of what the chapter opens with.
    best = next(iter(strongest_first(lead.findings)), None) or next(iter(findings), None)
    headline = next((entry for entry, of in zip(ranked, findings, strict=True) if of is best), None)
    return ReportChapter(
        card.name,
        card.title,
        card.question,
        headline,
        figure,
        how_sure(best, findings, [part.provenance for part in ordered], lead.provenance),
        [entry for entry in ranked if entry is not headline],
        ordered,
        own_command([part.provenance.command for part in ordered], [part.analysis for part in ordered]),
    )


def _lead(card: ChapterCard, parts: list[ReportedResult]) -> tuple[ReportedResult, ReportFigure | None]:
    """What the chapter opens with."""
    named = {figure.id: (part, figure) for part in parts for figure in part.figures}
    wanted = [f"{analysis}-{chart}" for analysis, chart in card.leads]
    leading = {analysis for analysis, _ in card.leads}
    drawn = [(part, part.figures[0]) for part in parts if part.figures]
    drawn.sort(key=lambda opening: opening[0].analysis not in leading)
    return next(
        (named[figure_id] for figure_id in wanted if figure_id in named), drawn[0] if drawn else (parts[0], None)
    )


def strongest(chapters: Sequence[ReportChapter]) -> list[RankedFinding]:
    """All findings, clear and important ones first; among equals the headline of each chapter first."""
    turns = [
        (turn, place, finding)
        for place, chapter in enumerate(chapters)
        for turn, finding in enumerate(filter(None, [chapter.headline, *chapter.others]))
    ]
    return list(strongest_first(finding for _, _, finding in sorted(turns, key=lambda entry: entry[:2])))


def how_sure(
    best: Finding | None, findings: Sequence[Finding], about: Sequence[Provenance], lead: Provenance | None = None
) -> list[str]:
    """How far a chapter can be trusted, in sentences: interval, further findings, sample and settings, warnings.

    Example:
        >>> finding = Finding("Layer 3 reads it", "lead", "clear", 0.4, 0.3, 0.5, 0.01, n=9, unit="document")
        >>> corpus = {"name": "ewt", "texts": 50, "scored": {"pos": 1200}}
        >>> plain = Provenance({}, corpus, {"samples": 500}, warnings=("Small sample.",))
        >>> " ".join(how_sure(finding, [finding], [plain], plain))
        'The headline was tested by its lead: .40 [.30, .50], p = .010 after correction for all tests of its family \
over 9 documents. The figure shows 50 texts of ewt, no limit; samples 500. Scored: 1,200 (pos). Small sample.'
    """
    sentences = [_tested(best)] if best is not None else []
    if len(findings) > 1:
        sentences.append(counts_in_words(findings))
    if lead is not None:
        sentences.append(f"The figure shows {sample_in_words(lead.corpus, lead.parameters)}.")
    scored = {what: count for provenance in about for what, count in provenance.corpus.get("scored", {}).items()}
    if scored:
        sentences.append(f"Scored: {', '.join(f'{count:,} ({what})' for what, count in scored.items())}.")
    # The settings of the figure say it of its own result; a comparison may use the samples of its results, or none.
    samples = sorted(
        {count for entry in about if (lead is None or "bootstrap" in entry.corpus) and (count := _drawn(entry))}
    )
    if samples:
        sentences.append(
            f"Bootstrap samples: {' to '.join(f'{count:,}' for count in dict.fromkeys([samples[0], samples[-1]]))}."
        )
    seeds = {len(set(provenance.seeds)) for provenance in about if len(set(provenance.seeds)) > 1}
    sentences += [f"Seeds: {max(seeds)}."] if seeds else []
    return [*sentences, *dict.fromkeys(warning for provenance in about for warning in provenance.warnings)]


def _drawn(about: Provenance) -> int:
    """Bootstrap samples behind a result's intervals."""
    return int(about.corpus.get("bootstrap", about.parameters.get("samples")) or 0)


def _tested(best: Finding) -> str:
    """What the headline's badge belongs to."""
    if best.status == "untested" or best.estimate is None or not best.contrast:
        return "The headline was not tested."
    estimate = number(best.estimate, best.low, best.high, best.digits)
    p = "" if best.p is None else f", {p_in_words(best.p)} after correction for all tests of its family"
    units = f" over {best.n:,} {best.unit}{'' if best.n == 1 else 's'}" if best.n else ""
    return f"The headline was tested by its {best.contrast}: {estimate}{p}{units}."


def own_command(commands: Sequence[str], analyses: Sequence[str]) -> str:
    """The command that makes a chapter alone; of results that were made one by one, their commands.

    Example:
        >>> own_command(["lamina report minilm --out here"] * 2, ["heads", "headmap"])
        'lamina report minilm --out here --only heads,headmap'
    """
    known = list(dict.fromkeys(filter(None, commands)))
    if len(known) == 1 and re.match(r"\S*lamina report ", known[0]) and " --only" not in known[0]:
        return f"{known[0]} --only {','.join(analyses)}"
    return "\n".join(known)


def _subject(result: Result) -> str:
    """The analysis whose chapter a result belongs to: of a comparison of models, what is compared."""
    return str(result.provenance.corpus.get("compared") or result.analysis)


def words_of(analysis: str) -> tuple[str, str, str]:
    """Title, question and method of an analysis; the bare name of an unknown one.

    Example:
        >>> words_of("geometry")[0], words_of("head_roles")[0]
        ('Geometry of the layers', 'Head roles')
    """
    try:
        declared = get_analysis(analysis)
    except InputError:
        return analysis.replace("_", " ").capitalize(), "", ""
    return declared.title, declared.question, declared.method


def about_the_run(results: Sequence[Result]) -> str:
    """Model and corpus in a line."""
    first = next((result.provenance for result in results if result.analysis == "geometry"), results[0].provenance)
    heads = head_roles(results)
    details = []
    if not heads.empty:
        details.append(f"{heads['layer'].max()} layers of {heads['head'].max()} heads")
    corpus = first.corpus
    details += [f"one text per {corpus['unit']}"] if corpus.get("unit") else []
    details += [str(corpus["scheme"])] if corpus.get("scheme") else []
    details.append(f"lamina {first.versions.get('lamina', '')}, {first.created[:10]}")
    return "; ".join(details)


def saved_svg(spec: Mapping[str, Any], folder: Path, name: str) -> str | None:
    """The still image saved with a result, where the chart saved beside it is this very chart."""
    try:
        same = json.loads(read_regular(folder / f"{name}.vl.json")) == spec and is_as_saved(folder, f"{name}.svg")
        return read_regular(folder / f"{name}.svg").decode("utf-8") if same else None
    except (OSError, ValueError, RecursionError, InputError):
        return None


def _titles(title: Any) -> tuple[str, list[str]]:
    """Title and lines below it, of a chart's specification."""
    heading = title if isinstance(title, Mapping) else {"text": title or ""}
    return " ".join(_lines(heading.get("text"))), _lines(heading.get("subtitle"))


def _lines(text: Any) -> list[str]:
    return [str(line) for line in text] if isinstance(text, list) else [str(text)] if text else []


def _sheet(result: Result, name: str, table: pandas.DataFrame) -> TablePreview:
    columns = [str(column) for column in table.columns]
    rows = [[_cell(value) for value in row] for row in table.head(SHOWN_ROWS).itertuples(index=False)]
    suffix = "parquet" if name in result.parquet else "csv"
    return TablePreview(name, columns, rows, len(table), f"{name}.{suffix}", table)


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    if value != value:
        return ""
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e4 else f"{value:.4g}"


def paired(results: Iterable[Result], folders: Iterable[Path]) -> Iterable[tuple[Result, Path | None]]:
    """Results with the folders that they are saved in, as far as these are known."""
    return zip_longest(results, folders)
