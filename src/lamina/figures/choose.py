"""Which layer to use: scores by layer and pooling, score beside cost, and score by number of labels."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from lamina.figures._marks import curve, interval_band, number_tips
from lamina.figures.theme import layer_axis, series, themed
from lamina.results import Result
from lamina.results.finding import rows_of

CAPTIONS = {
    "layers": (
        "Cross-validated score by layer and pooling, with 95 % intervals over documents; one panel per model. Compare "
        "with the dashed line: words and characters alone, scored on the same folds."
    ),
    "cost": (
        "Score beside the time that a thousand texts take on this machine, one point per layer and pooling. The line "
        "joins those that none is both better and faster than."
    ),
    "curve": (
        "Score of the chosen layer by the number of labels that its probe learned from, with 95 % intervals over "
        "documents. Compare with the last point: all labels of four folds in five."
    ),
}
"""Chart -> how to read it."""
_NAMES = {"accuracy": "accuracy", "macro_f1": "macro-F1", "f1": "F1", "r2": "R2"}


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `layers`, `cost` and `curve`."""
    table = result.tables["choose"]
    score = _NAMES[str(table["metric"].iloc[0])]
    charts = {"layers": _layers(result, score), "cost": _cost(result, score)}
    if len(result.tables["curve"]) > 1:
        charts["curve"] = _curve(result, score)
    return charts


def _layers(result: Result, score: str) -> alt.TopLevelMixin:
    table = result.tables["choose"]
    surface = table[table["layer"].isna()]
    cells = table[table["layer"].notna()].astype({"layer": int})
    look = series(list(dict.fromkeys(cells["pooling"])))
    panels = []
    for model in dict.fromkeys(cells["model"]):
        rows = cells[cells["model"] == model].rename(columns={"model": "of"}).rename(columns={"pooling": "model"})
        base = alt.Chart(rows, width=320, height=220).encode(x=layer_axis(int(rows["layer"].max())), color=look.colour)
        y = alt.Y("value:Q", title=score, scale=alt.Scale(zero=False))
        tooltip = [alt.Tooltip("model:N", title="pooling"), alt.Tooltip("layer:Q")]
        tooltip += number_tips("value", "low", "high", "regret")
        marks = [
            *curve(base, look, y, alt.Y("low:Q", title=score), tooltip),
            alt.Chart(surface).mark_rule(strokeDash=[6, 4], color="#6b7280").encode(y=alt.Y("value:Q")),
        ]
        panels.append(alt.LayerChart(layer=marks, title=str(model)))
    answer = result.tables["answer"].iloc[0]
    title = f"Layer {int(answer['layer'])} of {answer['model']} reads {_task(result)} best"
    words = float(surface["value"].iloc[0])
    description = f"{score} {answer['value']:.2f} with choosing; {words:.2f} of words and characters alone."
    return themed(alt.concat(*panels, columns=2, title=title, description=description))


def _task(result: Result) -> str:
    return str(result.provenance.corpus.get("task", "the labels"))


def _cost(result: Result, score: str) -> alt.TopLevelMixin:
    table = result.tables["choose"]
    rows = table.assign(place=[_place(row) for row in rows_of(table)])
    front = result.tables["front"]
    x = alt.X("seconds_per_1000_texts:Q", title="seconds per thousand texts")
    y = alt.Y("value:Q", title=score, scale=alt.Scale(zero=False))
    look = series(list(dict.fromkeys(table["model"])))
    points = alt.Chart(rows, width=420, height=240).mark_point(filled=True, size=50, opacity=0.8)
    tooltip = [
        alt.Tooltip("place:N"),
        alt.Tooltip("value:Q", format=".3f"),
        alt.Tooltip("seconds_per_1000_texts:Q", format=".2f"),
    ]
    marks = [
        alt.Chart(front).mark_line(color="#9ca3af").encode(x=x, y=y),
        points.encode(x=x, y=y, color=look.colour, shape=look.shape, tooltip=tooltip),
    ]
    best = front.iloc[-1]
    title = "The line joins the layers that are worth their time"
    description = f"The slowest of them takes {best['seconds_per_1000_texts']:.2f} s per thousand texts."
    return themed(alt.concat(alt.LayerChart(layer=marks), title=title, description=description))


def _place(row: Any) -> str:
    return str(row.model) if pd.isna(row.layer) else f"{row.model}, layer {int(row.layer)}, {row.pooling}"


def _curve(result: Result, score: str) -> alt.TopLevelMixin:
    table = result.tables["curve"]
    base = alt.Chart(table, width=420, height=240).encode(
        x=alt.X("labels:Q", title="labels", scale=alt.Scale(type="log"))
    )
    y = alt.Y("value:Q", title=score, scale=alt.Scale(zero=False))
    marks = [
        interval_band(base, alt.Y("low:Q", title=score)),
        base.mark_line(strokeWidth=2, point=True).encode(
            y=y, tooltip=[alt.Tooltip("labels:Q"), alt.Tooltip("value:Q", format=".3f")]
        ),
    ]
    enough = table[table["enough"]].iloc[0]
    title = f"{enough['labels']:,} labels come within a point of all"
    description = f"{score} {enough['value']:.2f} with {enough['labels']:,} labels."
    return themed(alt.concat(alt.LayerChart(layer=marks), title=title, description=description))
