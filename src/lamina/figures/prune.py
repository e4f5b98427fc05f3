"""The score of a model against what is left of it: one line per order in which its parts are removed."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lamina.analyses.cause.prune import HOW
from lamina.analyses.cause.removal_curve import POINT, RANDOM
from lamina.figures._marks import interval_line, number_tips
from lamina.figures.theme import COLOURS, DASHES, FAINT, GREY, INK, SHAPES, Table, themed
from lamina.results import Result

CAPTIONS = {
    "prune": (
        "Score: heads (or blocks) are removed from left to right, in the order that each line is named by; upright "
        "lines: 95 % interval over documents (pairs and questions: over items); band: that of the random orders, whose "
        "mean is shown, over these orders too. Points of one number of heads are drawn side by side. Dashed: 1 point "
        "below the whole model (a loss: 1 % above it); dotted: the twin with random weights, or guessing where that is "
        "better. The orders were chosen on other documents than are scored. Share that can go: the part of the model "
        "that is gone at the last point before a line crosses the dashed one, with its 95 % interval, which is paired: "
        "the whole model is scored on the same documents. Compare each order with the random one; "
        "whether they differ is tested in the table of contrasts, not by whether intervals overlap."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 400
_HEIGHT = 260
_BESIDE = 0.007
"""Of the whole width, between two orders at the same point."""
_UNITS = {"loss": "loss, nats per token (lower is better)", "qa": "F1 of the answers", "qa_em": "exact answers"}


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The chart `prune`: the curves, and the shares that can go."""
    table, shares = result.tables["curve"], result.tables["shares"]
    about = result.provenance
    parts, target = f"{about.parameters['component']}s", str(about.corpus["target"])
    there = [by for by in HOW if (table["by"] == by).any()]
    panels = [
        _curves(table, result.tables["controls"], shares, there, parts=parts, unit=_UNITS.get(target, "accuracy")),
        _shares(shares, there, parts=parts, within=str(shares["within"].iloc[0])),
    ]
    many = int(table["removed"].max())
    title = alt.TitleParams(
        f"{parts.capitalize()} removed: {about.model['name']}, {target} on {_read(result, target)}",
        subtitle=f"{many} {parts}; upright lines and band: 95 % intervals; dashed: {_limit(shares)} the whole model",
        offset=10,
    )
    chart = alt.concat(
        *panels,
        columns=2,
        spacing=30,
        title=title,
        description=describe(shares, parts),
        usermeta={"panelWidth": PANEL_WIDTH},
    ).resolve_scale(x="independent", y="independent")
    return {"prune": themed(chart)}


def describe(shares: Table, parts: str) -> str:
    """The shares in words.

    Example:
        >>> describe(pd.DataFrame({"by": ["top", "random"], "share": [0.25, 0.125], "within": "1 %"}), "heads")
        'Share of the heads that can go within 1 %: from the top layer down 25 %, at random 12 %.'
    """
    orders = [f"{HOW[by]} {100 * share:.0f} %" for by, share in zip(shares["by"], shares["share"], strict=True)]
    return f"Share of the {parts} that can go within {shares['within'].iloc[0]}: {', '.join(orders)}."


def _read(result: Result, target: str) -> str:
    """The data that is scored."""
    corpus = result.provenance.corpus
    part = {"pairs": "pairs", "qa": "questions", "qa_em": "questions"}.get(target)
    return str(corpus["name"] if part is None else corpus[part]["name"])


def _limit(shares: Table) -> str:
    return "1 % above" if shares["within"].iloc[0] == "1 %" else "1 point below"


def _curves(table: Table, controls: Table, shares: Table, there: list[str], *, parts: str, unit: str) -> alt.LayerChart:
    # Side by side: lines of one point would hide each other.
    beside = {by: (index - (len(there) - 1) / 2) * _BESIDE for index, by in enumerate(there)}
    rows = table.assign(order=table["by"].map(HOW), place=table["share_left"] - table["by"].map(beside).astype(float))
    whole = float(rows["value"].iloc[0])
    lower = shares["within"].iloc[0] == "1 %"
    limit = pd.DataFrame({"value": [whole * (1 + POINT) if lower else whole - POINT]})
    edge = _BESIDE * len(there)
    x = alt.X(
        "place:Q",
        title=f"share of the {parts} that is left",
        scale=alt.Scale(domain=[1 + edge, -edge], nice=False),
        axis=alt.Axis(format=".0%", values=[0, 0.2, 0.4, 0.6, 0.8, 1], grid=False),
    )
    y = alt.Y("value:Q", title=unit, scale=alt.Scale(zero=False, nice=True), axis=alt.Axis(tickCount=6))
    ends = {"y": alt.Y("low:Q", title=unit), "y2": alt.Y2("high:Q")}
    colour, dash, shape = _looks(there)
    base = alt.Chart(rows, width=PANEL_WIDTH, height=_HEIGHT).encode(x=x, color=colour)
    numbers = number_tips()
    tooltip = [alt.Tooltip("order:N"), alt.Tooltip("removed:Q"), alt.Tooltip("left:Q"), *numbers]
    at_random = alt.datum.by == RANDOM
    layers: list[alt.Chart] = [
        base.transform_filter(at_random).mark_area(opacity=0.15).encode(**ends),
        base.transform_filter(~at_random).mark_rule(strokeWidth=1.5, opacity=0.35).encode(**ends),
        alt.Chart(limit).mark_rule(color=INK, strokeDash=[5, 4]).encode(y=y),
        base.mark_line(strokeWidth=2).encode(y=y, strokeDash=dash),
        base.mark_point(filled=True, size=45, opacity=1).encode(y=y, shape=shape, tooltip=tooltip),
    ]
    if len(controls):
        best = controls.loc[[controls["value"].idxmin() if lower else controls["value"].idxmax()]]
        dotted = alt.Chart(best).mark_rule(color=GREY, strokeDash=[1, 3], strokeWidth=2)
        layers.insert(0, dotted.encode(y=y, tooltip=[alt.Tooltip("control:N"), numbers[0]]))
    return alt.LayerChart(layer=layers, title="Score")


def _shares(shares: Table, there: list[str], *, parts: str, within: str) -> alt.LayerChart:
    rows = shares.assign(order=shares["by"].map(HOW))
    names = [HOW[by] for by in there]
    title = f"share of the {parts} that can go within {'1 % of the loss' if within == '1 %' else within}"
    x = alt.X(
        "share:Q",
        title=title,
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format=".0%", tickCount=5),
    )
    # Room for points at 0.
    axis = alt.Axis(title=None, labelLimit=320, labelPadding=12, ticks=False, domain=False, gridColor=FAINT)
    y = alt.Y("order:N", sort=names, scale=alt.Scale(domain=names), axis=axis)
    colour, _, shape = _looks(there, legend=False)
    base = alt.Chart(rows, width=230, height=32 * len(names)).encode(y=y, color=colour)
    numbers = number_tips("share", "low", "high", form=".1%")
    lines = interval_line(base, alt.X("low:Q", title=title), opacity=0.6)
    points = base.mark_point(filled=True, size=80, opacity=1).encode(
        x=x, shape=shape, tooltip=[alt.Tooltip("order:N"), alt.Tooltip("removed:Q"), *numbers]
    )
    return alt.LayerChart(layer=[lines, points], title="Share that can go")


def _looks(there: list[str], *, legend: bool = True) -> tuple[alt.Color, alt.StrokeDash, alt.Shape]:
    """Colour, dash and shape of each order; they stay the same where some orders are left out."""
    every, names = list(HOW), [HOW[by] for by in there]

    def scale(values: tuple) -> alt.Scale:
        return alt.Scale(domain=names, range=[values[every.index(by)] for by in there])

    key = (
        alt.Legend(
            title=None, orient="top", columns=2, symbolSize=90, symbolOpacity=1, symbolStrokeWidth=0, labelLimit=320
        )
        if legend
        else None
    )
    return (
        alt.Color("order:N", scale=scale(COLOURS), legend=key),
        alt.StrokeDash("order:N", scale=scale(DASHES), legend=key),
        alt.Shape("order:N", scale=scale(SHAPES), legend=key),
    )
