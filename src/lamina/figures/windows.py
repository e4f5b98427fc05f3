"""Tagging through attention windows: the score by the number of words seen on each side."""

from __future__ import annotations

from math import floor

import altair as alt
import pandas as pd

from lamina.figures._marks import interval_line, number_tips
from lamina.figures.theme import COLOURS, INK, themed
from lamina.results import Result

CAPTIONS = {
    "windows": (
        "Score on the scored texts of a model fine-tuned through an attention window, by the words that a word may see "
        "on each side in every block; bars: 95 % intervals over documents (from 5 seeds on over documents and seeds), "
        "small marks: single seeds. Compare each window with the whole text, and 0 (the word alone) with labels looked "
        "up by word, the dashed line."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 420
_TITLES = {"accuracy": "Accuracy", "f1": "F1"}
_WHOLE = "whole text"


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The chart `windows`: one point per window, with its interval and the baselines."""
    scores = result.tables["scores"]
    metric = str(scores["metric"].iloc[0])
    metric_rows = scores[scores["metric"] == metric].replace({"window": {"all": _WHOLE}})
    means, single = metric_rows[metric_rows["seed"] == "all"], metric_rows[metric_rows["seed"] != "all"]
    order = list(dict.fromkeys(metric_rows["window"]))
    title, beside = _TITLES.get(metric, metric), _best_baseline(result, metric)
    least = float(min(metric_rows["low"].min(), beside["value"].max()))
    # Differences are small: the axis starts at the twentieth below the lowest number.
    scale = alt.Scale(domain=[max(0.0, floor(20 * least - 0.2) / 20), 1], zero=False)
    value, low = (alt.Y(f"{name}:Q", title=title, scale=scale) for name in ("value", "low"))
    x = alt.X("window:N", sort=order, title="words seen on each side", axis=alt.Axis(labelAngle=0, grid=False))
    tooltip = [alt.Tooltip("window:N"), *number_tips(form=".4f")]
    base = alt.Chart(means, width=PANEL_WIDTH, height=240).encode(x=x)
    layers: list[alt.Chart] = [
        alt.Chart(beside)
        .mark_rule(color=INK, strokeDash=[5, 4])
        .encode(y=value, tooltip=[alt.Tooltip("baseline:N"), tooltip[1]]),
        base.mark_line(color=COLOURS[0], strokeWidth=2).encode(y=value),
        interval_line(base, low, color=COLOURS[0], opacity=0.5),
        base.mark_point(color=COLOURS[0], filled=True, size=55, opacity=1).encode(y=value, tooltip=tooltip),
    ]
    if single["seed"].nunique() > 1:
        marks = alt.Chart(single).encode(x=x, y=value, tooltip=[alt.Tooltip("seed:N"), *tooltip])
        layers.append(marks.mark_tick(color=INK, orient="horizontal", size=14, opacity=0.7))
    about = result.provenance
    task, model, data = about.parameters["task"].upper(), about.model["name"], about.corpus["name"]
    heading = alt.TitleParams(
        f"{task} through attention windows: {model} on {data}",
        subtitle="bars: 95 % intervals; dashed: each word's most frequent label in training",
    )
    chart = alt.concat(
        alt.LayerChart(layer=layers), title=heading, description=describe(means), usermeta={"panelWidth": PANEL_WIDTH}
    )
    return {"windows": themed(chart)}


def describe(means: pd.DataFrame) -> str:
    """The chart in words.

    Example:
        >>> rows = [("0", "accuracy", 0.9), ("whole text", "accuracy", 0.96)]
        >>> describe(pd.DataFrame(rows, columns=["window", "metric", "value"]))
        'Accuracy by words seen on each side: 0 0.900, whole text 0.960.'
    """
    title = _TITLES.get(str(means["metric"].iloc[0]), str(means["metric"].iloc[0]))
    parts = [f"{name} {value:.3f}" for name, value in zip(means["window"], means["value"], strict=True)]
    return f"{title} by words seen on each side: {', '.join(parts)}."


def _best_baseline(result: Result, metric: str) -> pd.DataFrame:
    """Labels looked up by word, as a line across."""
    table = result.tables["baseline"]
    rows = table[table["metric"] == metric]
    return pd.DataFrame(rows[rows["value"] == rows["value"].max()])
