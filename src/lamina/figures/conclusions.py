"""The conclusion that a figure states in its title: the clearest tested finding about what it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

from lamina.results import Result
from lamina.results.finding import Finding, plainly, strongest_first

if TYPE_CHECKING:
    import altair


class FindingChoice(NamedTuple):
    """Findings whose numbers stand in a table, in rows with these values."""

    table: str
    where: Mapping[str, Any] = {}

    def has(self, finding: Finding) -> bool:
        """Whether the finding's first source is such a row."""
        first = finding.source[0] if finding.source else None
        return first is not None and first.table == self.table and self.where.items() <= first.where.items()


_CHARTS: Mapping[str, Mapping[str, Sequence[FindingChoice]]] = {
    "ablate": {
        "heads": [FindingChoice("contrasts"), FindingChoice("effects", {"component": "head"})],
        "blocks": [FindingChoice("effects", {"component": "block"})],
        "importance": [FindingChoice("agreement")],
    },
    "attention": {
        "atlas": [FindingChoice("surface")],
        "layers": [FindingChoice("layers")],
        "entropy": [FindingChoice("layers", {"measure": "entropy"})],
        "induction": [FindingChoice("induction")],
    },
    "cloze": {
        "diagnostics": [FindingChoice("parts"), FindingChoice("contrasts")],
        "relations": [FindingChoice("cloze")],
    },
    "compare": {"scores": [FindingChoice("differences")], "differences": [FindingChoice("differences")]},
    "contextualize": {
        "layers": [
            FindingChoice("contrasts", {"comparison": "vectors without context"}),
            FindingChoice("contrasts", {"comparison": "average"}),
        ],
        "context": [FindingChoice("contrasts", {"comparison": "less context"})],
        "finetuning": [FindingChoice("contrasts", {"comparison": "fine-tuning"})],
    },
    "corefheads": {"systems": [FindingChoice("best")]},
    "diff": {"layers": [FindingChoice("diff")], "heads": [FindingChoice("best")]},
    "dimensions": {"layers": [FindingChoice("layers")]},
    "erase": {"erase": [FindingChoice("erase")]},
    "finetune": {"learning": [FindingChoice("contrasts")]},
    "geometry": {"measure": [FindingChoice("contrasts")]},
    "headmap": {"map": [FindingChoice("likeness"), FindingChoice("divergences")]},
    "heads": {"arcs": [FindingChoice("best")], "relations": [FindingChoice("best")]},
    "lens": {
        "lens": [FindingChoice("contrasts"), FindingChoice("gain")],
        "reached": [FindingChoice("reached")],
        "pairs": [FindingChoice("pairs")],
        "cloze": [FindingChoice("cloze")],
    },
    "neighbours": {"neighbours": [FindingChoice("shared")], "senses": [FindingChoice("separation")]},
    "pairs": {"terms": [FindingChoice("terms"), FindingChoice("contrasts")], "paradigms": [FindingChoice("pairs")]},
    "parse": {"systems": [FindingChoice("contrasts")]},
    "phases": {
        "tasks": [FindingChoice("answering")],
        "roles": [FindingChoice("differences")],
        "answers": [FindingChoice("contrast")],
        "failure": [FindingChoice("failure_contrasts")],
    },
    "probe": {
        "pipeline": [FindingChoice("order"), FindingChoice("readings")],
        "curves": [FindingChoice("readings")],
        "control": [FindingChoice("control")],
        "order": [FindingChoice("order")],
    },
    "prune": {"prune": [FindingChoice("contrasts")]},
    "restore": {"restore": [FindingChoice("effects")], "single": [FindingChoice("best")]},
    "roles": {"roles": [FindingChoice("roles"), FindingChoice("groups")]},
    "senses": {"senses": [FindingChoice("best"), FindingChoice("differences")]},
    "surprisal": {"surprisal": [FindingChoice("differences")], "frequency": [FindingChoice("contrasts")]},
    "trace": {"revisions": [FindingChoice("revisions")], "revised_after": [FindingChoice("revised_after")]},
    "windows": {"windows": [FindingChoice("differences")]},
}
"""Analysis -> chart -> the findings that it shows, in the order in which they are looked for."""

_LETTER = 7.4
"""Pixels of a letter of a title."""


def conclusion(result: Result, chart: str) -> str:
    """What a chart of a result shows, as a sentence; empty where nothing was tested about it.

    Example:
        >>> from lamina.results import Provenance
        >>> from lamina.results.finding import Source
        >>> seen = Finding("Layer 3 is best", "lead", "clear", 0.4, 0.3, 0.5, 0.01, source=(Source("contrasts"),))
        >>> conclusion(Result("geometry", {}, Provenance({}, {}, {}), findings=(seen,)), "measure")
        'Layer 3 is best.'
    """
    # An analysis that is not listed has charts that are called like the tables they draw.
    charts = _CHARTS.get(result.analysis, {chart: [FindingChoice(chart)]})
    choices = charts.get(chart, ())
    tested = [
        next(iter(strongest_first(entry for entry in result.findings if choice.has(entry))), None) for choice in choices
    ]
    known = [entry for entry in tested if entry is not None and entry.status != "untested"]
    chosen = next((entry for entry in known if entry.status != "open"), known[0] if known else None)
    return "" if chosen is None else plainly(chosen)


def state(chart: altair.TopLevelMixin, sentence: str) -> altair.TopLevelMixin:
    """The chart with a sentence as its title; what was its title comes first below it."""
    import altair as alt

    if not sentence:
        return chart
    title = getattr(chart, "title", alt.Undefined)
    below: list[str] = []
    options: dict[str, Any] = {}
    if isinstance(title, str):
        below = [title]
    elif isinstance(title, alt.TitleParams):
        options = {name: value for name, value in title.to_dict().items() if name not in ("text", "subtitle")}
        for part in (title.text, title.subtitle):
            below += [part] if isinstance(part, str) else part if isinstance(part, list) else []
    width = max(40, int(_width(chart.to_dict()) / _LETTER))
    lines = wrap(sentence, width, break_on_hyphens=False)
    named = alt.TitleParams(lines if len(lines) > 1 else sentence, subtitle=below, **options)
    titled: Any = chart
    titled = titled.copy(deep=False)
    titled.title = named
    return titled


def _width(spec: Mapping[str, Any]) -> float:
    """How wide the first row of a chart's panels is."""
    panels = spec.get("concat", [spec])
    columns = min(spec.get("columns", len(panels)), len(panels))
    widths = [panel["width"] for panel in panels[:columns] if isinstance(panel.get("width"), int | float)]
    widths += [_width(panel) for panel in panels[:columns] if "concat" in panel]
    return max(sum(widths), 330.0)
