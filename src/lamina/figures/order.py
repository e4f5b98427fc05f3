"""Order and subjects by layer: linear order beside hierarchy, and every task with its twin and constant answer."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lamina.figures._marks import curve, interval_band, number_tips
from lamina.figures.theme import COLOURS, GREY, Table, layer_axis, series, themed, unconverged
from lamina.results import Result
from lamina.tasks.order_rules import BY_NAME

CAPTIONS = {
    "order": (
        "Accuracy of a probe of each layer alone, as a share of the way from the best constant answer (0) to no error "
        "(1); shaded: 95 % intervals over documents (from 5 seeds on, over seeds too). One panel per kind of task. The "
        "primer's picture is that lines of the first panel fall where those of the structure panel rise; whether a "
        "line moves is tested in `changes`, with paired intervals, not by whether bands overlap. Tasks differ in "
        "classes and in training targets: compare the course of lines, not their heights. A point is missing where a "
        "probe has not converged."
    ),
    "tasks": (
        "Accuracy by layer, one panel per task: the model, its twin with random weights, and the best constant answer "
        "(dotted); shaded: 95 % intervals over documents. What the twin reads needs no training: words, and "
        "positions, if a model adds them. Only what is above the twin was learned."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 300
_SMALL = 200
_KINDS = {
    ("linear", "surface"): "Linear order and surface",
    ("structure",): "Structure",
    ("inflection",): "Number and tense",
    ("meaning",): "What goes together",
}
"""Kinds of tasks that share a panel -> its title."""
_OF = {"model": "model", "random": "twin (random weights)"}


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `order` and `tasks`; none where no probe of the model has converged."""
    rows = _rows(result)
    if not (rows["of"] == "model").any():
        return {}
    about = result.provenance
    name = f"{about.model['name']} on {about.corpus['name']}"
    return {"order": _order(rows, name), "tasks": _tasks(rows, name)}


def _rows(result: Result) -> Table:
    """Accuracy of all seeds together by layer, with the constant answer in a column; converged probes only."""
    scores = result.tables["order"]
    accuracy = scores[(scores["metric"] == "accuracy") & (scores["seed"].astype(str) == "all")]
    constant = accuracy[(accuracy["probe"] == "constant") & (accuracy["of"] == "model")].set_index("task")["value"]
    rows = accuracy[(accuracy["probe"] == "layer") & accuracy["of"].isin(list(_OF))].copy()
    rows["layer"] = rows["layer"].astype(int)
    late = unconverged(result.tables)
    done = [(row.task, row.of, "layer", row.layer) not in late for row in rows.itertuples()]
    rows = rows[done].assign(constant=lambda table: table["task"].map(constant))
    rows["title"] = [BY_NAME[task].title for task in rows["task"]]
    rows["kind"] = [BY_NAME[task].kind for task in rows["task"]]
    return pd.DataFrame(rows)


def _order(rows: Table, name: str) -> alt.ConcatChart:
    model = rows[rows["of"] == "model"]
    spread = 1 - model["constant"]
    shares = {column: (model[column] - model["constant"]) / spread for column in ("value", "low", "high")}
    model = pd.DataFrame(model.assign(**shares, model=model["title"]))
    least = min(0.0, float(model["low"].min()))
    panels = [
        _panel(pd.DataFrame(kind_rows), title, least)
        for kinds, title in _KINDS.items()
        if not (kind_rows := model[model["kind"].isin(kinds)]).empty
    ]
    heading = alt.TitleParams(
        f"Order and subjects by layer: {name}",
        subtitle="shaded: 95 % intervals; 0: best constant answer, 1: no error",
        offset=12,
    )
    chart = alt.concat(*panels, columns=3, spacing=24, title=heading, description=describe(model))
    chart = chart.resolve_scale(color="independent", shape="independent", strokeDash="independent")
    return themed(chart.properties(usermeta={"panelWidth": PANEL_WIDTH}))


def _panel(rows: Table, title: str, least: float) -> alt.LayerChart:
    names = list(dict.fromkeys(rows["model"]))
    legend = alt.Legend(
        title=None, orient="bottom", columns=1, labelLimit=280, symbolSize=90, symbolOpacity=1, symbolStrokeWidth=0
    )
    look = series(names).with_legend(legend)
    scale = alt.Scale(domain=[least, 1])
    value, low = (
        alt.Y(f"{column}:Q", title="share of the way to no error", scale=scale) for column in ("value", "low")
    )
    x = layer_axis(int(rows["layer"].max()))
    base = alt.Chart(rows, width=PANEL_WIDTH, height=260).encode(x=x, color=look.colour)
    numbers = number_tips()
    tooltip = [alt.Tooltip("model:N", title="task"), alt.Tooltip("layer:Q"), *numbers]
    return alt.LayerChart(
        layer=curve(base, look, value, low, tooltip),
        title=title,
    )


def _tasks(rows: Table, name: str) -> alt.ConcatChart:
    rows = pd.DataFrame(rows.assign(model=rows["of"].map(_OF)))
    panels = [_task(pd.DataFrame(rows[rows["task"] == task])) for task in dict.fromkeys(rows["task"])]
    heading = alt.TitleParams(
        f"Each task beside its baselines: {name}",
        subtitle="shaded: 95 % intervals; dotted: best constant answer",
        offset=12,
    )
    chart = alt.concat(*panels, columns=4, spacing=24, title=heading, description=describe(rows))
    return themed(chart.properties(usermeta={"panelWidth": _SMALL}))


def _task(rows: Table) -> alt.LayerChart:
    names = list(_OF.values())
    colours = alt.Scale(domain=names, range=[COLOURS[0], GREY])
    legend = alt.Legend(title=None, orient="top", symbolSize=90, symbolOpacity=1, symbolStrokeWidth=0, labelLimit=300)
    colour = alt.Color("model:N", scale=colours, legend=legend)
    scale = alt.Scale(domain=[0, 1])
    value, low, least = (alt.Y(f"{column}:Q", title="accuracy", scale=scale) for column in ("value", "low", "constant"))
    base = alt.Chart(rows, width=_SMALL, height=150).encode(x=layer_axis(int(rows["layer"].max())), color=colour)
    numbers = number_tips()
    return alt.LayerChart(
        layer=[
            interval_band(base, low),
            alt.Chart(rows.head(1)).mark_rule(color=GREY, strokeDash=[2, 3]).encode(y=least),
            base.mark_line(strokeWidth=2).encode(y=value),
            base.mark_point(filled=True, size=24, opacity=1).encode(
                y=value, tooltip=[alt.Tooltip("model:N", title="whose"), alt.Tooltip("layer:Q"), *numbers]
            ),
        ],
        title=alt.TitleParams(str(rows["title"].iloc[0]), subtitle=f"{int(rows['count'].iloc[0]):,} scored targets"),
    )


def describe(rows: Table) -> str:
    """The chart in words.

    Example:
        >>> table = pd.DataFrame({"title": ["Subject"] * 2, "model": ["Subject"] * 2, "layer": [0, 6],
        ...                       "value": [0.1, 0.7]})
        >>> describe(table)
        'Subject: 0.10 at layer 0, 0.70 at layer 6.'
    """
    sentences = []
    for (title, model), line in rows.groupby(["title", "model"], sort=False):
        ends = line.sort_values("layer").iloc[[0, -1]]
        values = ", ".join(
            f"{value:.2f} at layer {layer}" for layer, value in zip(ends["layer"], ends["value"], strict=True)
        )
        sentences.append(f"{title}{'' if model == title else f', {model}'}: {values}.")
    return " ".join(sentences)
