"""Readable or used: what a probe reads before and after a concept is erased, and what erasing it changes, by layer."""

from __future__ import annotations

import math

import altair as alt
import pandas as pd

from lamina.analyses.cause.erasure import CONCEPT, CONTROL, OPEN, RANDOM, UNKNOWN, UNUSED, USED
from lamina.figures._marks import number_tips
from lamina.figures.theme import COLOURS, GREY, INK, SHAPES, Table, themed, title_of
from lamina.results import Result
from lamina.targets.target import LOSS, phrase_at_start

CAPTIONS = {
    "erase": (
        "Readable: accuracy of a fresh linear probe on held-out documents, before and after the concept is erased at a "
        "layer; other documents: the probe learned from documents that the eraser was not fitted on, and finds what a "
        "sample leaves; dashed: always answering the most frequent class. The other panels: what erasing at that layer "
        "changes (dashed: nothing), of the concept, of random subspaces of the same rank (mean of the draws; the table "
        "says how much variance they take) and of a control task's subspace. Lines: 95 % intervals over documents "
        "(random subspaces: and draws), of effects simultaneous for all layers. Letters, from paired differences: U "
        "known and used (the concept harms, and more than both others), N known and not used, ? neither was shown, "
        "\N{MULTIPLICATION SIGN} not shown to be readable."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 330
_HEIGHT = 200
_ERASED = {CONCEPT: "concept", RANDOM: "random subspaces", CONTROL: "control task"}
_READ = {"before": "before", "after": "erased", "elsewhere": "erased, other documents"}
_LETTERS = {USED: "U", UNUSED: "N", OPEN: "?", UNKNOWN: "\N{MULTIPLICATION SIGN}"}


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The chart `erase`: a panel of what is readable per task, then one per target."""
    effects, readable = result.tables["erase"], result.tables["readable"]
    panels: list[alt.LayerChart] = []
    for task in dict.fromkeys(readable["task"]):
        panels.append(_readable(readable[readable["task"] == task], str(task)))
        task_effects = effects[effects["task"] == task]
        panels += [
            _effects(task_effects[task_effects["target"] == target], str(task), str(target))
            for target in dict.fromkeys(task_effects["target"])
        ]
    about = result.provenance
    title = alt.TitleParams(
        f"Readable or used: {about.model['name']} on {about.corpus['name']}",
        subtitle="U: known and used, N: known and not used, ?: neither was shown; lines: 95 % intervals",
        offset=12,
    )
    description = " ".join(describe(group) for _, group in effects.groupby(["task", "target"], sort=False))
    chart = alt.concat(
        *panels, columns=2, spacing=28, title=title, description=description, usermeta={"panelWidth": PANEL_WIDTH}
    ).resolve_scale(color="independent", shape="independent", x="independent", y="independent")
    return {"erase": themed(chart)}


def describe(rows: Table) -> str:
    """A panel in words.

    Example:
        >>> rows = [("pos", 3, "concept", "loss", 0.5, "known and used")]
        >>> describe(pd.DataFrame(rows, columns=["task", "layer", "what", "target", "effect", "verdict"]))
        'Part of speech erased, change of loss: layer 3 0.50 (known and used).'
    """
    concept_rows = rows[rows["what"] == CONCEPT]
    effects = zip(concept_rows["layer"], concept_rows["effect"], concept_rows["verdict"], strict=True)
    parts = [f"layer {layer} {effect:.2f} ({verdict})" for layer, effect, verdict in effects]
    task, target = concept_rows["task"].iloc[0], concept_rows["target"].iloc[0]
    return f"{title_of(task)} erased, change of {target}: {', '.join(parts)}."


def _readable(rows: Table, task: str) -> alt.LayerChart:
    parts = [
        rows[["layer"]].assign(value=rows[name], low=rows[f"{name}_low"], high=rows[f"{name}_high"], series=title)
        for name, title in _READ.items()
    ]
    scale = alt.Scale(domain=[0, 1])
    constant = rows["constant"].iloc[:1].to_frame("value")
    marks = _marks(pd.concat(parts, ignore_index=True), list(_READ.values()), "accuracy", scale)
    return alt.LayerChart(layer=[_dashed(constant, "accuracy", scale), *marks], title=f"{title_of(task)}: readable")


def _effects(rows: Table, task: str, target: str) -> alt.LayerChart:
    unit = "nats per token (above 0: worse)" if target == LOSS else "change (below 0: worse)"
    points = rows.assign(value=rows["effect"], series=rows["what"].map(_ERASED))
    low, high = (
        float(end)
        for end in (
            min(0.0, points["low"].min(), points["value"].min()),
            max(0.0, points["high"].max(), points["value"].max()),
        )
    )
    room = 0.14 * max(high - low, 0.02)
    scale = alt.Scale(domain=[low - room / 2, high + room], nice=False)
    zero = pd.DataFrame({"value": [0.0]})
    letters = points[points["what"] == CONCEPT].assign(
        letter=lambda some: some["verdict"].map(_LETTERS).fillna(_LETTERS[OPEN]), top=high + room / 2
    )
    marked = (
        alt.Chart(letters)
        .mark_text(fontSize=11, fontWeight="bold", color=INK)
        .encode(
            x=_layers(points, "layer"),
            y=alt.Y("top:Q", title=unit, scale=scale),
            text=alt.Text("letter:N"),
            tooltip=[alt.Tooltip("layer:Q"), alt.Tooltip("verdict:N")],
        )
    )
    marks = _marks(points, list(_ERASED.values()), unit, scale)
    phrase = phrase_at_start(target)
    title = f"{title_of(task)} erased: {phrase[:1].lower()}{phrase[1:]}"
    return alt.LayerChart(layer=[_dashed(zero, unit, scale), *marks, marked], title=title)


def _marks(rows: Table, names: list[str], unit: str, scale: alt.Scale) -> list[alt.Chart]:
    """Points with their intervals, series side by side."""
    legend = alt.Legend(title=None, orient="top", symbolSize=80, symbolOpacity=1, labelLimit=200)
    colour = alt.Color("series:N", scale=alt.Scale(domain=names, range=list(COLOURS[: len(names)])), legend=legend)
    shape = alt.Shape("series:N", scale=alt.Scale(domain=names, range=list(SHAPES[: len(names)])), legend=legend)
    offsets = {name: (index - (len(names) - 1) / 2) * 0.2 for index, name in enumerate(names)}
    rows = rows.assign(place=rows["layer"] + rows["series"].map(offsets).astype(float))
    x, y = _layers(rows, "place"), alt.Y("value:Q", title=unit, scale=scale, axis=alt.Axis(tickCount=5))
    numbers = number_tips()
    base = alt.Chart(rows, width=PANEL_WIDTH, height=_HEIGHT).encode(x=x, color=colour)
    ends = base.encode(y=alt.Y("low:Q", title=unit, scale=scale), y2=alt.Y2("high:Q"))
    tooltip = [alt.Tooltip("series:N"), alt.Tooltip("layer:Q"), *numbers]
    return [
        ends.mark_rule(strokeWidth=2, opacity=0.6),
        base.mark_point(filled=True, size=45, opacity=1).encode(y=y, shape=shape, tooltip=tooltip),
    ]


def _layers(rows: Table, field: str) -> alt.X:
    first, last = int(rows["layer"].min()), int(rows["layer"].max())
    ticks = list(range(first, last + 1, math.ceil((last + 1 - first) / 13)))
    scale = alt.Scale(domain=[first - 0.5, last + 0.5], nice=False)
    title = "layer that is erased at"
    return alt.X(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(values=ticks, format="d", grid=False))


def _dashed(rows: Table, unit: str, scale: alt.Scale) -> alt.Chart:
    return alt.Chart(rows).mark_rule(color=GREY, strokeDash=[5, 4]).encode(y=alt.Y("value:Q", title=unit, scale=scale))
