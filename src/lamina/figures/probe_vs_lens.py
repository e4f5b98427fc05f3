"""Known and said: how much of a hidden word's class a probe reads, and how much the lens says, by layer."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lamina.analyses.behaviour.probe_vs_lens.tasks import TITLES
from lamina.figures.theme import INK, layer_axis, series, themed
from lamina.results import Result

_READING = (
    "shaded: 95 % intervals over documents (for facts, over patterns); rings: first layer with 95 % of the best gain; "
    "dotted: {baseline}. From the same state, a linear probe reads the class of the hidden word (known), and the "
    "model's own head gives probabilities that are summed over words of each class (said). Where known is above said, "
    "a layer holds what it would not say yet. Compare both with the twin, whose weights are random, and known with the "
    "probe that reads the word itself (seen), which nothing is hidden from; a line has a gap where the probe has not "
    "converged. "
)
CAPTIONS = {
    "said": "Probability of the right class by layer, mean over hidden words, one panel per task; "
    + _READING.format(baseline="share of the right class in training")
    + "Classes and numbers of classes differ: compare within a panel.",
    "accuracy": "The same words by accuracy: share of hidden words whose right class has most; "
    + _READING.format(baseline="most frequent class in training")
    + "Accuracy does not depend on how sharp the probabilities are.",
}
"""Chart -> how to read it."""

PANEL_WIDTH = 250
_MEASURES = {"said": ("probability", "probability of the right class"), "accuracy": ("accuracy", "accuracy")}
_NAMES = {
    ("known", "model"): "known (probe)",
    ("said", "model"): "said (lens)",
    ("seen", "model"): "seen (probe on the word itself)",
    ("known", "twin"): "twin: known",
    ("said", "twin"): "twin: said",
}
"""Way and whose -> the name of the line."""


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `said` and `accuracy`: one panel per task."""
    table = result.tables["said"]
    named = pd.Series(list(zip(table["of"], table["model"], strict=True)), index=table.index).map(_NAMES)
    rows = pd.DataFrame(table.assign(model=named)[named.notna()])
    about = result.provenance
    title = f"Known and said of hidden words: {about.model['name']} on {about.corpus['name']}"
    return {name: _chart(rows, result, title, *about) for name, about in _MEASURES.items()}


def _chart(rows: pd.DataFrame, result: Result, title: str, measure: str, axis: str) -> alt.ConcatChart:
    own = pd.DataFrame(rows[rows["measure"] == measure])
    names = [name for name in _NAMES.values() if name in set(own["model"])]
    firsts = result.tables["layers"]
    firsts = firsts[(firsts["measure"] == measure) & firsts["layer"].notna() & (firsts["of"] != "later")]
    panels = []
    for task in dict.fromkeys(own["task"]):
        mine = pd.DataFrame(own[own["task"] == task])
        places = [(_NAMES[row.of, "model"], row.layer) for row in firsts[firsts["task"] == task].itertuples()]
        rings = mine[[place in places for place in zip(mine["model"], mine["layer"], strict=True)]]
        panels.append(_panel(task, mine, pd.DataFrame(rings), names, axis))
    said = alt.TitleParams(
        title, subtitle="shaded: 95 % intervals; rings: first layer that reaches it; dotted: baseline"
    )
    chart = alt.concat(*panels, columns=3, spacing=24, title=said, description=describe(own))
    return themed(chart.properties(usermeta={"panelWidth": PANEL_WIDTH}))


def describe(rows: pd.DataFrame) -> str:
    """The chart in words.

    Example:
        >>> rows = [("pos", "said (lens)", 0, 0.1), ("pos", "said (lens)", 6, 0.5)]
        >>> describe(pd.DataFrame(rows, columns=["task", "model", "layer", "value"]))
        'Part of speech: said (lens) 0.10 at layer 0, 0.50 at layer 6.'
    """
    sentences = []
    for task, own in rows.groupby("task", sort=False):
        parts = []
        for name, line in own.groupby("model", sort=False):
            ends = line.sort_values("layer").iloc[[0, -1]]
            told = zip(ends["layer"], ends["value"], strict=True)
            parts.append(f"{name} " + ", ".join(f"{value:.2f} at layer {layer}" for layer, value in told))
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
        *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("value", "low", "high")),
    ]
    base = alt.Chart(rows, width=PANEL_WIDTH, height=190).encode(x=x, color=look.colour)
    ringed = alt.Chart(rings).encode(x=x, y=value, color=look.colour)
    count = int(rows["n"].iloc[0])
    return alt.LayerChart(
        layer=[
            base.mark_area(opacity=0.18).encode(y=low, y2=alt.Y2("high:Q")),
            alt.Chart(rows.head(1)).mark_rule(color=INK, strokeDash=[2, 3]).encode(y=least),
            base.mark_line(strokeWidth=2).encode(y=value, strokeDash=look.dash),
            base.mark_point(filled=True, size=36, opacity=1).encode(y=value, shape=look.shape, tooltip=tooltip),
            ringed.mark_point(size=190, strokeWidth=2, filled=False, shape="circle"),
        ],
        title=alt.TitleParams(TITLES[task], subtitle=f"{count:,} hidden words"),
    )
