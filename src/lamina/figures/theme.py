"""One look for every chart: safe for colour-blind readers, made of system fonts, readable in print on white."""

from __future__ import annotations

from typing import Any, NamedTuple

import altair as alt

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""The palette of Okabe and Ito (2008), its darker colours first: they hold on white."""

DASHES = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3), (10, 4), (4, 4), (1, 2))
"""So that lines are told apart without colour; the first is solid."""

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
"""So that points are told apart without colour."""

INK = "#222222"
FAINT = "#dddddd"
# All three have nearly the same widths: text measured here fits on the reader's machine.
FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"


class Look(NamedTuple):
    """How series are told apart."""

    colour: alt.Color
    dash: alt.StrokeDash
    shape: alt.Shape


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
        legend={"labelFontSize": 13, "labelColor": INK, "columnPadding": 24},
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
