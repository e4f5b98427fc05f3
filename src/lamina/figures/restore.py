"""Fine-tuning undone: the score of the tuned model's task by the layers that are restored, frozen or re-initialised."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor
from typing import Any

import altair as alt
import pandas as pd

from lamina.analyses.cause.restore import metric_of
from lamina.figures._marks import interval_line, number_tips
from lamina.figures.theme import COLOURS, DASHES, GREY, INK, SHAPES, Table, layer_axis, themed
from lamina.results import Result
from lamina.results.finding import number
from lamina.training.settings import LOWER_IS_BETTER

CAPTIONS = {
    "restore": (
        "Score of the fine-tuned model's own task on its scored texts. Layers 0 (the embeddings) to l, layers l to the "
        "top, and single layers: restored to the weights before fine-tuning, the head staying as it was tuned, beside "
        "random weights in the same layers; on request, models tuned again with layers 0 to l frozen, or with the "
        "blocks from l to the top re-initialised. Linear heads: fitted on one frozen layer of the model before "
        "fine-tuning, beside its twin with random weights. Upright lines: 95 % intervals over documents; models "
        "tuned again are single runs unless several seeds were requested, and from 5 seeds on intervals hold for other "
        "seeds too. Dashed: the model as it was tuned. Dotted: always the most frequent answer. Whether two scores "
        "differ is tested by the paired differences in the table of effects, not by whether intervals overlap."
    ),
    "line": (
        "Loss of the task on the scored texts with weights on the line through those before fine-tuning (0) and the "
        "tuned ones (1), the head staying as it was tuned, beside steps of the same length in a random direction from "
        "the tuned weights. Upright lines: 95 % intervals over documents."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 310
_HEIGHT = 210
_SERIES = {
    "restore": "restored",
    "random": "random weights",
    "freeze": "frozen while tuning",
    "reset": "re-initialised, then tuned",
    "transfer": "linear head",
    "transfer_twin": "linear head on the twin",
}
_LOOKS = {"restore": 0, "random": 1, "freeze": 2, "reset": 3, "transfer": 4, "transfer_twin": 1}
"""Series -> its place in the palette: the same in all panels; the twin looks like what is random."""
_PANELS = {
    "upwards": "Layers 0 to l",
    "downwards": "Layers l to the top",
    "single": "Layer l alone",
    "linear": "Linear head on frozen layer l",
}
_TITLES = {"f1": "F1", "accuracy": "accuracy", "loss": "loss (nats per masked token, lower is better)"}


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The chart `restore`: layers from the bottom, to the top and alone, and linear heads, one panel each."""
    metric = metric_of(result)
    rows, rules = _rows(result), _rules(result, metric)
    if rows.empty:
        return {}
    last = int(rows["layer"].max())
    y = alt.Y("value:Q", title=_TITLES.get(metric, metric), scale=alt.Scale(domain=_domain(rows, rules, metric)))
    parts = {title: rows[rows["panel"] == panel] for panel, title in _PANELS.items()}
    drawn = [_panel(panel_rows, rules, title, y, last) for title, panel_rows in parts.items() if len(panel_rows)]
    about = result.provenance
    marks = zip(("dashed", "dotted"), rules["what"], rules["value"], strict=True)
    whose, task = about.model["name"], about.model.get("task", "its task")
    title = alt.TitleParams(
        f"Fine-tuning undone: {whose}, {_from(about.model)}{task} on {about.corpus['name']}",
        subtitle="; ".join(f"{dash}: {what} ({number(value, digits=3)})" for dash, what, value in marks)
        + "; upright lines: 95 % intervals",
        offset=10,
    )
    chart = alt.concat(
        *drawn,
        columns=2,
        spacing=28,
        title=title,
        description=describe(result),
        usermeta={"panelWidth": PANEL_WIDTH},
    ).resolve_scale(color="independent", shape="independent", strokeDash="independent")
    return {"restore": themed(chart)} | ({"line": _line_chart(result)} if "line" in result.tables else {})


def _line_chart(result: Result) -> alt.TopLevelMixin:
    """The loss by position, in both directions."""
    table = result.tables["line"]
    names = {"value": "line between the weights", "random": "random direction"}
    rows = table.melt(["position", "low", "high"], list(names), "said", "loss")
    rows.loc[rows["said"] == "random", ["low", "high"]] = None
    rows["said"] = rows["said"].map(names)
    order = list(names.values())
    width = result.tables["widths"].set_index("direction")["value"]
    position = alt.X("position:Q", title="weights: 0 before fine-tuning, 1 tuned", scale=alt.Scale(domain=[0, 2]))
    base = alt.Chart(rows, width=2 * PANEL_WIDTH, height=_HEIGHT).encode(
        x=position,
        color=alt.Color("said:N", scale=alt.Scale(domain=order, range=COLOURS[:2]), legend=alt.Legend(title=None)),
    )
    dash = alt.StrokeDash("said:N", scale=alt.Scale(domain=order, range=DASHES[:2]), legend=None)
    loss = alt.Y("loss:Q", title="loss (nats)")
    numbers = number_tips("loss", "low", "high", form=".4f")
    tooltip = [alt.Tooltip("said:N", title="direction"), alt.Tooltip("position:Q"), *numbers]
    marks = [
        base.mark_line(strokeWidth=1.5, opacity=0.7).encode(y=loss, strokeDash=dash),
        interval_line(base, alt.Y("low:Q"), opacity=0.6),
        base.mark_point(filled=True, size=60, opacity=1).encode(y=loss, tooltip=tooltip),
    ]
    title = alt.TitleParams(
        f"The loss between the weights: {result.provenance.model['name']}",
        subtitle=f"below the mean of both ends for {number(width['line'])} of the way, "
        f"{number(width['random'])} in a random direction",
    )
    words = ", ".join(f"{row.position:g} {row.value:.3f} ({row.random:.3f})" for row in table.itertuples())
    about = f"Loss by position on the line (in a random direction): {words}."
    return themed(alt.concat(alt.LayerChart(layer=marks), title=title, description=about))


def _from(model: Mapping[str, Any]) -> str:
    before = model.get("before", {}).get("name")
    return f"tuned from {before}: " if before else ""


def describe(result: Result) -> str:
    """The chart in words."""
    rows, metric = _rows(result), metric_of(result)
    sentences = []
    for panel, title in _PANELS.items():
        for name, label in _SERIES.items():
            points = rows[(rows["panel"] == panel) & (rows["series"] == name)].sort_values("layer")
            if len(points):
                values = zip(points["layer"], points["value"], strict=True)
                listed = ", ".join(f"{layer} {value:.3f}" for layer, value in values)
                sentences.append(f"{title}, {label}, {metric} by l: {listed}.")
    return " ".join(sentences)


def _rows(result: Result) -> Table:
    """One row per point: its panel, its series, and the layer it is drawn at."""
    tables = result.tables
    changed = [tables["restore"]]
    if "random" in tables:
        changed.append(tables["random"].assign(how="random"))
    every = pd.concat(changed, ignore_index=True).rename(columns={"how": "series"})
    last = every["last"].max()
    upwards = every[(every["first"] == 0) & (every["series"] != "reset")]
    # What varies in layers that reach to the top is where they begin.
    downwards = every[(every["last"] == last) & (every["first"] > 0)]
    single = every[(every["first"] == every["last"]) & every["series"].isin(["restore", "random"])]
    parts = [
        upwards.assign(layer=upwards["last"], panel="upwards"),
        downwards.assign(layer=downwards["first"], panel="downwards"),
        single.assign(layer=single["first"], panel="single"),
        *(tables[name].assign(panel="linear", series=name) for name in ("transfer", "transfer_twin") if name in tables),
    ]
    return pd.concat(parts, ignore_index=True)[["panel", "series", "layer", "value", "low", "high"]]


def _rules(result: Result, metric: str) -> Table:
    """The tuned model and the most frequent answer, in this order."""
    references = result.tables["references"]
    metric_rows = references[(references["metric"] == metric) & (references["what"] != "tuned again")]
    return metric_rows[["what", "value"]].reset_index(drop=True)


def _domain(rows: Table, rules: Table, metric: str) -> list[float]:
    least = min(float(rows["low"].fillna(rows["value"]).min()), float(rules["value"].min()))
    most = max(float(rows["high"].fillna(rows["value"]).max()), float(rules["value"].max()))
    top = ceil(most) if metric in LOWER_IS_BETTER else min(1.0, ceil(20 * most) / 20)
    return [max(0.0, floor(20 * least) / 20), top]


def _panel(rows: Table, rules: Table, title: str, y: alt.Y, last: int) -> alt.LayerChart:
    there = [name for name in _SERIES if (rows["series"] == name).any()]
    shift = {name: (index - (len(there) - 1) / 2) * 0.12 for index, name in enumerate(there)}
    rows = rows.assign(said=rows["series"].map(_SERIES), place=rows["layer"] + rows["series"].map(shift).astype(float))
    labels, looks = [_SERIES[name] for name in there], [_LOOKS[name] for name in there]
    legend = alt.Legend(
        title=None, orient="top", symbolSize=90, symbolOpacity=1, symbolStrokeWidth=0, labelLimit=PANEL_WIDTH
    )
    colour = alt.Color(
        "said:N", scale=alt.Scale(domain=labels, range=[COLOURS[index] for index in looks]), legend=legend
    )
    shape = alt.Shape("said:N", scale=alt.Scale(domain=labels, range=[SHAPES[index] for index in looks]), legend=legend)
    dash = alt.StrokeDash(
        "said:N", scale=alt.Scale(domain=labels, range=[DASHES[index] for index in looks]), legend=None
    )
    base = alt.Chart(rows, width=PANEL_WIDTH, height=_HEIGHT).encode(color=colour)
    x = layer_axis(last, domain=(-0.3, last + 0.3), padding=2)
    placed = x.copy()
    placed.shorthand = "place:Q"
    tooltip = [
        alt.Tooltip("said:N", title="what"),
        alt.Tooltip("layer:Q", title="l"),
        *number_tips(form=".4f"),
    ]
    lines = [
        alt.Chart(alt.Data(values=[{"value": value}]))
        .mark_rule(color=colour_, strokeDash=dashes, strokeWidth=1.5)
        .encode(y=y)
        for value, colour_, dashes in zip(rules["value"], (INK, GREY), ([6, 4], [2, 3]), strict=True)
    ]
    low = y.copy()
    low.shorthand = "low:Q"
    marks = [
        base.mark_line(strokeWidth=1.5, opacity=0.7).encode(x=placed, y=y, strokeDash=dash),
        interval_line(base, low, opacity=0.6).encode(x=placed),
        base.mark_point(filled=True, size=60, opacity=1).encode(x=placed, y=y, shape=shape, tooltip=tooltip),
    ]
    return alt.LayerChart(layer=[*lines, *marks], title=title)
