"""One look for every chart: safe for colour-blind readers, made of system fonts, readable in print on white."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import altair as alt
import pandas as pd

from lamina.analyses.heads.behaviours import BEHAVIOURS
from lamina.results import Result
from lamina.tasks import title_of as title_of
from lamina.tasks.task import METRIC_NAMES

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""The palette of Okabe and Ito (2008), its darker colours first: they hold on white."""

DASHES = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3), (10, 4), (4, 4), (1, 2))
"""Dashes of lines, for readers who do not see colours; the first is solid."""

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
"""Shapes of points, for readers who do not see colours."""

INK = "#222222"
GREY = "#9a9a9a"
"""Of what is in no group."""
TONES = ("#8c6d1f", "#707070", "#b4b4b4", "#9467bd")
"""Of heads whose roles come after the hues."""
FAINT = "#dddddd"
SHADES = ("#ffffff", "#08458c")
"""Of heat maps. One hue, from light to dark: the order holds in grey and for all eyes."""
DARK = {
    "white": "#16181b",
    "#ffffff": "#16181b",
    INK: "#e8e8e8",
    GREY: "#949494",
    FAINT: "#3a3e44",
    SHADES[1]: "#7cc4f5",
    **dict(zip(COLOURS, ("#4aa3e0", "#ff9a57", "#35c99b", "#e6a3c6", "#f0b73d", "#9bd6ff", "#ffffff"), strict=True)),
    "black": "#e8e8e8",
    "#000": "#e8e8e8",
    "#f7f7f7": "#22252a",
    "#bbbbbb": "#5a5f66",
    **dict(zip(TONES, ("#c9a85c", "#a8a8a8", "#8a8a8a", "#b99ad8"), strict=True)),
}
"""Colour of a chart on white -> its colour on dark paper; the hues are those of tokens.css."""
# All three have nearly the same widths: text measured here fits on the reader's machine.
FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"


class BehaviourLook(NamedTuple):
    """How heads of one behaviour are drawn: in figures, in the report and in the app."""

    colour: str
    shape: str
    """An SVG path around 0, 0, from -1 to 1 in both directions: recognisable without colour."""
    short: str
    """Its name where there is little room."""


_STAR = "M0-1L.28-.32H1L.43.17L.63.9L0 .47L-.63.9L-.43.17L-1-.32H-.28Z"
_CROSS = "M-1-.33H-.33V-1H.33V-.33H1V.33H.33V1H-.33V.33H-1Z"
_CIRCLE = "M-.6 0A.6.6 0 1 0 .6 0A.6.6 0 1 0-.6 0Z"
_BEHAVIOUR_LOOKS = {
    "coreference": BehaviourLook("#d55e00", _STAR, "coref"),
    "syntactic": BehaviourLook("#0072b2", "M-.75-.75H.75V.75H-.75Z", "syn"),
    "induction": BehaviourLook(TONES[3], "M-.85-.85H.85L-.85.85H.85Z", "ind"),
    "previous": BehaviourLook("#009e73", "M.85-.85V.85L-.85 0Z", "prev"),
    "next": BehaviourLook("#56b4e9", "M-.85-.85V.85L.85 0Z", "next"),
    "separator": BehaviourLook("#cc79a7", _CROSS, "sep"),
    "first": BehaviourLook("#e69f00", "M0-1L.85.7H-.85Z", "first"),
    "punctuation": BehaviourLook(TONES[0], "M0 1L.85-.7H-.85Z", "punct"),
    "broad": BehaviourLook(TONES[1], "M0-1L1 0L0 1L-1 0Z", "broad"),
    "other": BehaviourLook(TONES[2], _CIRCLE, "\N{MIDDLE DOT}"),
}
BEHAVIOUR_LOOKS = {name: _BEHAVIOUR_LOOKS[name] for name in BEHAVIOURS}
"""Behaviour of a head -> how it is drawn, the most telling behaviour first."""


class Role(NamedTuple):
    """How tokens of one role are drawn: in figures, in the report and in the app."""

    name: str
    shape: str
    """An SVG path around 0, 0: recognisable without colour."""
    colour: str


_STAR = "M0,-1.6L0.37,-0.5L1.52,-0.5L0.58,0.19L0.94,1.3L0,0.64L-0.94,1.3L-0.58,0.19L-1.52,-0.5L-0.37,-0.5Z"
_CROSS = "M-0.3,-1.1H0.3V-0.3H1.1V0.3H0.3V1.1H-0.3V0.3H-1.1V-0.3H-0.3Z"
_CIRCLE = "M-0.9,0A0.9,0.9,0,1,0,0.9,0A0.9,0.9,0,1,0,-0.9,0Z"

QUESTION = Role("question", _STAR, COLOURS[0])
PREDICTED = Role("predicted answer", "M0,-1.5L1.2,0L0,1.5L-1.2,0Z", COLOURS[1])
SUPPORT = Role("supporting fact", "M-1,-1H1V1H-1Z", COLOURS[2])
SOURCE = Role("sentence of the wrong answer", "M0,-1.3L1.2,0.9H-1.2Z", COLOURS[3])
OTHER = Role("other", _CIRCLE, GREY)
SPECIAL = Role("special token", _CROSS, COLOURS[6])
ROLES = (QUESTION, PREDICTED, SUPPORT, SOURCE, OTHER, SPECIAL)
"""In the order of the legend."""
RAREST_FIRST = (PREDICTED, QUESTION, SUPPORT, SOURCE, SPECIAL)
"""Where several roles hold of a token, it is drawn with the first."""


class Look(NamedTuple):
    """Colour, dash and shape of each series."""

    colour: alt.Color
    dash: alt.StrokeDash
    shape: alt.Shape

    def with_legend(self, legend: alt.Legend | None) -> Look:
        """The same under another legend; none where series are named at their ends."""
        return Look(self.colour.legend(legend), self.dash.legend(legend), self.shape.legend(legend))


def series(names: list[str]) -> Look:
    """Tell the named models apart by colour, dash and shape at once, under one legend of coloured shapes.

    Example:
        >>> series(["minilm", "minilm (random)"]).shape.to_dict()["scale"]["range"]
        ['circle', 'square']
    """

    def scale(values: tuple[Any, ...]) -> alt.Scale:
        return alt.Scale(domain=names, range=[values[i % len(values)] for i in range(len(names))])

    legend = alt.Legend(title=None, orient="top", symbolSize=100, symbolOpacity=1, symbolStrokeWidth=0, labelLimit=400)
    return Look(
        alt.Color("model:N", scale=scale(COLOURS), legend=legend),
        alt.StrokeDash("model:N", scale=scale(DASHES), legend=legend),
        alt.Shape("model:N", scale=scale(SHAPES), legend=legend),
    )


def themed(chart: alt.ConcatChart) -> alt.ConcatChart:
    """The chart with lamina's look, and nothing set for the user's other charts.

    Example:
        >>> dots = alt.Chart(alt.Data(values=[])).mark_point()
        >>> themed(alt.concat(dots)).to_dict()["config"]["background"]
        'white'
    """
    axis = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelColor": INK, "titleColor": INK}
    return chart.configure(
        background="white",
        font=FONT,
        padding=8,
        axis={**axis, "gridColor": FAINT, "domainColor": INK, "tickColor": INK},
        header={"labelColor": INK, "titleColor": INK},
        legend={"labelFontSize": 13, "labelColor": INK, "titleColor": INK, "columnPadding": 24},
        title={
            "fontSize": 14,
            "subtitleFontSize": 12,
            "color": INK,
            "subtitleColor": INK,
            "anchor": "start",
            "frame": "group",
        },
        view={"stroke": None},
    )


def attention_name(result: Result) -> str:
    """What the maps of a result hold; results of older versions have no choice of it.

    Example:
        >>> from lamina.results import Provenance, Result
        >>> attention_name(Result("look", {}, Provenance({}, {}, {"weights": "norm"})))
        'norm-weighted attention'
    """
    return "norm-weighted attention" if result.provenance.parameters.get("weights") == "norm" else "attention"


def layer_axis(last: int, *, padding: float = 8, domain: tuple[float, float] | None = None) -> alt.X:
    """Layers from 0 to `last`, whole ones only, thinned out where they would not fit.

    Example:
        >>> layer_axis(24).to_dict()["axis"]["values"]
        [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24]
    """
    ticks = list(range(0, last + 1, math.ceil((last + 1) / 13)))
    return alt.X(
        "layer:Q",
        title="layer (0 = embeddings)",
        scale=alt.Scale(domain=list(domain or (0, max(last, 1))), padding=padding, nice=False),
        axis=alt.Axis(values=ticks, format="d", grid=False),
    )


Table = pd.DataFrame
"""A result's table."""

Tables = Mapping[str, Table]

FEW_SEEDS = 5
"""With fewer, what lies between the lowest and the highest seed is called a range, not an interval."""


def rows_of(tables: Tables, name: str) -> Table | None:
    """A table, unless it is missing or empty."""
    table = tables.get(name)
    return None if table is None or table.empty else table


def pooled(tables: Tables, metrics: Mapping[str, str] | None = None) -> Table | None:
    """The scores of all seeds together, with the constant answer's; numbers of a single seed are left out.

    Each task by its own metric, which comes first in the table, or by the one that `metrics` names.
    """
    scores = rows_of(tables, "scores")
    if scores is None:
        return None
    totals = scores[(scores["seed"].astype(str) == "all") | (scores["probe"] == "constant")]
    if metrics is None:
        metric = totals.groupby("task", sort=False)["metric"].transform("first")
    else:
        metric = totals["task"].map(dict(metrics))
    return totals[totals["metric"] == metric].drop_duplicates(["task", "probe", "of", "layer"])


def metric_of(tables: Tables) -> dict[str, str]:
    """Task -> what it is scored by, in words.

    Example:
        >>> metric_of({"scores": pd.DataFrame({"task": ["pos", "pos"], "metric": ["f1", "accuracy"]})})
        {'pos': 'F1'}
    """
    scores = rows_of(tables, "scores")
    first = {} if scores is None else scores.groupby("task", sort=False)["metric"].first()
    return {str(task): metric_name(str(metric)) for task, metric in first.items()}


def metric_name(metric: str) -> str:
    """A metric in words; results of older versions have prose in their tables.

    Example:
        >>> metric_name("macro_f1"), metric_name("r2"), metric_name("micro-F1 over all labels")
        ('macro-F1', 'R2', 'F1')
    """
    return METRIC_NAMES.get(metric, "macro-F1" if metric.startswith("macro") else "F1")


def unconverged(tables: Tables) -> set[tuple[str, str, str, int]]:
    """Task, whose, kind and layer of the probes that had not converged, with any seed."""
    training = rows_of(tables, "training")
    if training is None:
        return set()
    cut_off = training[~training["converged"].astype(bool)]
    return set(cut_off[["task", "of", "probe", "layer"]].itertuples(index=False, name=None))


def reasons_of(tables: Tables, statistic: str) -> dict[str, str]:
    """Task -> why a statistic is not available, by its name in the summary's `reason`.

    Example:
        >>> told = "expected layer: no gain; selectivity: too few words"
        >>> reasons_of({"summary": pd.DataFrame({"task": ["pos"], "reason": [told]})}, "selectivity")
        {'pos': 'too few words'}
    """
    summary = rows_of(tables, "summary")
    if summary is None or "reason" not in summary:
        return {}
    start = f"{statistic}: "
    # A column without any reason is read back as one of NaN.
    return {
        str(task): part.removeprefix(start)
        for task, reasons in zip(summary["task"], summary["reason"], strict=True)
        for part in str(reasons).split("; ")
        if part.startswith(start)
    }


def seed_count(tables: Tables) -> int:
    """How many fine-tuning seeds were probed, where there are several models; else how many seeds the probes had."""
    scores = rows_of(tables, "scores")
    if scores is None:
        return 0
    model_scores = scores[scores["of"] == "model"]
    return _numbers(model_scores, "tuning_seed") or _numbers(model_scores, "seed")


def seeds_name(tables: Tables) -> str:
    """What those seeds are."""
    scores = rows_of(tables, "scores")
    return "fine-tuning seed" if scores is not None and _numbers(scores, "tuning_seed") else "seed"


def _numbers(scores: Table, column: str) -> int:
    """How many different numbers a column has; a column of them is read back as text, with or without `.0`."""
    numbers = scores[column].astype(str).str.removesuffix(".0") if column in scores else pd.Series(dtype=str)
    return numbers[numbers.str.isdigit()].nunique()


def last_layer(tables: Tables) -> int:
    """The highest layer that any probe saw."""
    highest = [table["layer"].max() for name in ("scores", "mixing") if (table := rows_of(tables, name)) is not None]
    return max((int(layer) for layer in highest if pd.notna(layer)), default=0)


def in_order(tables: Tables) -> list[str]:
    """The tasks by expected layer, then (where that is not available) by centre of gravity, then as they were given."""
    summary = rows_of(tables, "summary")
    if summary is not None:
        by = ["expected_layer", "center_of_gravity"]
        return summary.sort_values(by, kind="stable", na_position="last")["task"].tolist()
    scores = rows_of(tables, "scores")
    return [] if scores is None else list(dict.fromkeys(scores["task"]))
