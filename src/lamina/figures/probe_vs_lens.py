"""How much of a masked word's class a probe reads and the lens predicts, by layer."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lamina.analyses.behaviour.masked_words import TITLES
from lamina.figures._marks import curve, number_tips
from lamina.figures.theme import INK, layer_axis, series, themed
from lamina.results import Result

_READING = (
    "shaded: 95 % intervals over documents (for facts, over patterns); rings: first layer with 95 % of the best gain; "
    "dotted: {baseline}. From the same hidden state, a linear probe reads the class of the masked word (probe), and "
    "the model's own head gives probabilities that are summed over words of each class (lens). Where the probe is "
    "above the lens, a layer holds what it would not predict yet. Compare both with the untrained twin, and the probe "
    "with the one that reads the visible word; a line has a gap where the probe has not converged. "
)
CAPTIONS = {
    "probability": "Probability of the right class by layer, mean over masked words, one panel per task; "
    + _READING.format(baseline="share of the right class in training")
    + "Classes and numbers of classes differ: compare within a panel.",
    "accuracy": "The same words by accuracy: share of masked words whose right class is the most probable one; "
    + _READING.format(baseline="most frequent class in training")
    + "Accuracy does not depend on how sharp the probabilities are.",
}
"""Chart -> how to read it."""

PANEL_WIDTH = 250
_MEASURES = {"probability": ("probability", "probability of the right class"), "accuracy": ("accuracy", "accuracy")}
_NAMES = {
    ("probe", "model"): "probe",
    ("lens", "model"): "lens",
    ("seen", "model"): "probe on the visible word",
    ("probe", "twin"): "twin: probe",
    ("lens", "twin"): "twin: lens",
}
"""Way and model -> the name of the line."""


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `probability` and `accuracy`: one panel per task."""
    table = result.tables["scores"]
    named = pd.Series(list(zip(table["of"], table["model"], strict=True)), index=table.index).map(_NAMES)
    rows = pd.DataFrame(table.assign(model=named)[named.notna()])
    about = result.provenance
    title = f"Probe and lens on masked words: {about.model['name']} on {about.corpus['name']}"
    return {name: _chart(rows, result, title, *measure) for name, measure in _MEASURES.items()}


def _chart(rows: pd.DataFrame, result: Result, title: str, measure: str, axis: str) -> alt.ConcatChart:
    measured = pd.DataFrame(rows[rows["measure"] == measure])
    names = [name for name in _NAMES.values() if name in set(measured["model"])]
    firsts = result.tables["layers"]
    firsts = firsts[(firsts["measure"] == measure) & firsts["layer"].notna() & (firsts["of"] != "later")]
    panels = []
    for task in dict.fromkeys(measured["task"]):
        mine = pd.DataFrame(measured[measured["task"] == task])
        places = [(_NAMES[row.of, "model"], row.layer) for row in firsts[firsts["task"] == task].itertuples()]
        rings = mine[[place in places for place in zip(mine["model"], mine["layer"], strict=True)]]
        panels.append(_panel(task, mine, pd.DataFrame(rings), names, axis))
    heading = alt.TitleParams(
        title, subtitle="shaded: 95 % intervals; rings: first layer that reaches it; dotted: baseline"
    )
    chart = alt.concat(*panels, columns=3, spacing=24, title=heading, description=describe(measured))
    return themed(chart.properties(usermeta={"panelWidth": PANEL_WIDTH}))


def describe(rows: pd.DataFrame) -> str:
    """The chart in words.

    Example:
        >>> rows = [("pos", "lens", 0, 0.1), ("pos", "lens", 6, 0.5)]
        >>> describe(pd.DataFrame(rows, columns=["task", "model", "layer", "value"]))
        'Part of speech: lens 0.10 at layer 0, 0.50 at layer 6.'
    """
    sentences = []
    for task, of_task in rows.groupby("task", sort=False):
        parts = []
        for name, line in of_task.groupby("model", sort=False):
            ends = line.sort_values("layer").iloc[[0, -1]]
            points = zip(ends["layer"], ends["value"], strict=True)
            parts.append(f"{name} " + ", ".join(f"{value:.2f} at layer {layer}" for layer, value in points))
        sentences.append(f"{TITLES[str(task)]}: {'; '.join(parts)}.")
    return " ".join(sentences)


def _panel(task: str, rows: pd.DataFrame, rings: pd.DataFrame, names: list[str], axis: str) -> alt.LayerChart:
    look = series(names)
    x = layer_axis(int(rows["layer"].max()))
    scale = alt.Scale(domain=[0, 1])
    value, low, least = (alt.Y(f"{name}:Q", title=axis, scale=scale) for name in ("value", "low", "baseline"))
    tooltip = [
        alt.Tooltip("model:N", title="line"),
        alt.Tooltip("layer:Q"),
        *number_tips(),
    ]
    base = alt.Chart(rows, width=PANEL_WIDTH, height=190).encode(x=x, color=look.colour)
    ringed = alt.Chart(rings).encode(x=x, y=value, color=look.colour)
    count = int(rows["n"].iloc[0])
    return alt.LayerChart(
        layer=[
            alt.Chart(rows.head(1)).mark_rule(color=INK, strokeDash=[2, 3]).encode(y=least),
            *curve(base, look, value, low, tooltip),
            ringed.mark_point(size=190, strokeWidth=2, filled=False, shape="circle"),
        ],
        title=alt.TitleParams(TITLES[task], subtitle=f"{count:,} masked words"),
    )
