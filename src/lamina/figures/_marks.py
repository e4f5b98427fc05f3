"""Marks that several figures share: heads by layer, heat maps."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import altair as alt

from lamina.figures.theme import FAINT, INK, SHADES, Look, Table, series, title_of

PANEL_WIDTH = 330


def by_layer(
    rows: Table,
    names: list[str],
    title: str,
    unit: str,
    domain: tuple[float, float] | None,
    *,
    means: Table | None = None,
    legend: bool = True,
) -> alt.LayerChart:
    """Heads as points, a line through their means, dotted for uniform attention; a log scale without a `domain`.

    `means` are the layers' with their intervals; results of older versions have none.
    """
    look = series(names)
    colour, shape = (look.colour, look.shape) if legend else (look.colour.legend(None), look.shape.legend(None))
    last = int(rows["layer"].max())
    # Side by side: series would hide each other.
    offsets = {name: (position - (len(names) - 1) / 2) * 0.14 for position, name in enumerate(names)}
    rows = rows.assign(place=rows["layer"] + rows["model"].map(offsets).astype(float))
    base = alt.Chart(rows, width=PANEL_WIDTH, height=200).encode(color=colour)
    x, fixed = layers_axis(last), alt.Scale(domain=list(domain)) if domain else alt.Scale(type="log")
    value = alt.Y("value:Q", title=unit, scale=fixed, axis=alt.Axis(tickCount=5))
    numbers = [alt.Tooltip(f"{name}:Q", format=".3g") for name in ("value", "low", "high") if name in rows]
    tooltip = [alt.Tooltip("model:N", title="attention"), alt.Tooltip("layer:Q"), alt.Tooltip("head:Q"), *numbers]
    marks: list[alt.Chart] = [
        base.mark_point(filled=True, size=28, opacity=0.45).encode(
            x=layers_axis(last, "place"), y=value, shape=shape, tooltip=tooltip
        ),
        base.mark_line(strokeWidth=2).encode(x=x, y=alt.Y("mean(value):Q", title=unit, scale=fixed)),
    ]
    if means is not None and not means.empty:
        marks.insert(
            0, interval_band(alt.Chart(means), alt.Y("low:Q", title=unit, scale=fixed)).encode(x=x, color=colour)
        )
    if "baseline" in rows:
        marks.append(base.mark_rule(strokeDash=[2, 3]).encode(y=alt.Y("max(baseline):Q", title=unit, scale=fixed)))
    return alt.LayerChart(layer=marks, title=title)


def layers_axis(last: int, field: str = "layer") -> alt.X:
    ticks = list(range(1, last + 1, math.ceil(last / 13)))
    scale = alt.Scale(domain=[0.6, last + 0.4], nice=False)
    return alt.X(f"{field}:Q", title="layer", scale=scale, axis=alt.Axis(values=ticks, format="d", grid=False))


def interval_band(base: alt.Chart, low: alt.Y, *, opacity: float = 0.2, **mark: Any) -> alt.Chart:
    """The 95 % intervals of a line, shaded from the column of `low` to `high`."""
    return base.mark_area(opacity=opacity, **mark).encode(y=low, y2=alt.Y2("high:Q"))


def interval_line(base: alt.Chart, low: alt.X | alt.Y, *, width: float = 2, **mark: Any) -> alt.Chart:
    """The 95 % interval of each point, a line from `low` to `high`: across where `low` is an x, else upright."""
    lines = base.mark_rule(strokeWidth=width, **mark)
    across = isinstance(low, alt.X)
    return lines.encode(**{"x": low, "x2": alt.X2("high:Q")} if across else {"y": low, "y2": alt.Y2("high:Q")})


def curve(
    base: alt.Chart, look: Look, value: alt.Y, low: alt.Y, tooltip: list[alt.Tooltip] | None = None, *, size: int = 45
) -> list[alt.Chart]:
    """Lines with points, and their 95 % intervals shaded; series differ by colour, dash and shape."""
    tooltip = tooltip or [alt.Tooltip("model:N"), alt.Tooltip("layer:Q"), *number_tips()]
    return [
        interval_band(base, low),
        base.mark_line(strokeWidth=2).encode(y=value, strokeDash=look.dash),
        base.mark_point(filled=True, size=size, opacity=1).encode(y=value, shape=look.shape, tooltip=tooltip),
    ]


def number_tips(*names: str, form: str = ".3f") -> list[alt.Tooltip]:
    """Numbers in a tooltip: a value and its interval, or the columns that are named."""
    return [alt.Tooltip(f"{name}:Q", format=form) for name in names or ("value", "low", "high")]


def beside(panels: list[alt.LayerChart], title: str, description: str, *, uniform: bool = True) -> alt.ConcatChart:
    """Panels under one title that says how to read them."""
    dotted = "; dotted: uniform attention" if uniform else ""
    heading = alt.TitleParams(
        title, subtitle=f"points: heads; lines: mean over heads; shaded: its 95 % interval{dotted}", offset=12
    )
    chart = alt.concat(*panels, columns=2, spacing=24, title=heading, description=description)
    return chart.resolve_scale(color="independent", shape="independent").properties(
        usermeta={"panelWidth": PANEL_WIDTH}
    )


LABEL_WIDTH = 150
"""Pixels beside a panel for the names of its series."""
_LINE = 15


def end_labels(rows: Table, height: int, domain: tuple[float, float], *, name: str = "model") -> alt.Chart:
    """The name of each series at its last point, in its colour; names that would lie on each other are moved apart.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"model": ["a", "b"], "layer": [6, 6], "value": [0.5, 0.51]})
        >>> [round(row["at"], 2) for row in end_labels(table, 150, (0.0, 1.0)).data.to_dict("records")]
        [0.46, 0.55]
    """
    ends = rows.dropna(subset=["value"]).sort_values("layer").groupby(name, sort=False).tail(1)
    ends = ends.assign(at=spread_names(ends["value"].tolist(), height, domain))[[name, "layer", "at"]]
    ends = ends.sort_values("at")
    return (
        alt.Chart(ends)
        .mark_text(align="left", dx=9, fontSize=12, limit=LABEL_WIDTH)
        .encode(x=alt.X("layer:Q"), y=alt.Y("at:Q"), text=alt.Text(f"{name}:N"), color=alt.Color(f"{name}:N"))
    )


def spread_names(values: list[float], height: int, domain: tuple[float, float]) -> list[float]:
    """Where names stand that belong to these values: at them, or apart by a line where they would lie on each other.

    Example:
        >>> [round(place, 2) for place in spread_names([0.5, 0.9, 0.5], 150, (0.0, 1.0))]
        [0.5, 0.9, 0.6]
    """
    step = _LINE * (domain[1] - domain[0]) / height
    order = sorted(range(len(values)), key=lambda place: values[place])
    places = list(values)
    for before, place in pairwise(order):
        places[place] = max(values[place], places[before] + step)
    # Moved up only, the highest would leave the panel: half of the way goes down.
    excess = (places[order[-1]] - values[order[-1]]) / 2 if order else 0.0
    return [place - excess for place in places]


_SIDES = ((1, 0), (-1, 0), (1, -1), (-1, -1), (1, 1), (-1, 1))
"""Where a name may stand beside its point: right or left, level with it, above, below."""


def placed_names(rows: Table, size: tuple[float, float], ends: tuple[float, float, float, float]) -> Table:
    """The rows whose `label` has room beside its point, with its `side` (1: right) and `shift` in pixels.

    Earlier rows choose first; a name never lies on another name or point.

    Args:
        rows: with x, y and label.
        size: width and height of the panel in pixels.
        ends: of the axes: left, right, bottom, top.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"x": [0.5, 0.5], "y": [0.5, 0.5], "label": ["one", "two"]})
        >>> placed_names(table, (100, 100), (0, 1, 0, 1))["side"].tolist()
        [1, -1]
    """
    (width, height), (left, right, bottom, top) = size, ends
    across = (rows["x"] - left) / (right - left) * width
    down = (top - rows["y"]) / (top - bottom) * height
    boxes = [(x - 4, y - 4, x + 4, y + 4) for x, y in zip(across, down, strict=True)]
    chosen = []
    for place, (label, x, y) in enumerate(zip(rows["label"], across, down, strict=True)):
        if not label:
            continue
        letters = len(str(label)) * 5.6 + 2
        for side, level in _SIDES:
            start = x + 7 if side > 0 else x - 7 - letters
            box = (start, y + 9 * level - 6, start + letters, y + 9 * level + 6)
            inside = box[0] >= 0 and box[2] <= width and box[1] >= 0 and box[3] <= height
            if inside and not any(_overlap(box, other) for other in boxes):
                boxes.append(box)
                chosen.append((place, side, 9 * level))
                break
    table = rows.iloc[[place for place, _, _ in chosen]]
    return table.assign(side=[side for _, side, _ in chosen], shift=[shift for _, _, shift in chosen])


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def name_marks(rows: Table, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """The names that `placed_names` found room for."""
    marks = []
    places = sorted({(int(side), int(shift)) for side, shift in zip(rows["side"], rows["shift"], strict=True)})
    for side, shift in places:
        group = rows[(rows["side"] == side) & (rows["shift"] == shift)]
        mark = alt.Chart(group).mark_text(
            align="left" if side > 0 else "right", dx=7 * side, dy=shift, fontSize=10, color=INK
        )
        marks.append(mark.encode(x=x, y=y, text=alt.Text("label:N")))
    return marks


def outline_of(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners of the smallest convex outline around points, closed; fewer than three have none.

    Example:
        >>> outline_of([(0, 0), (2, 0), (1, 1), (2, 2), (0, 2)])
        [(0, 0), (2, 0), (2, 2), (0, 2), (0, 0)]
        >>> outline_of([(0, 0), (1, 1)])
        []
    """
    ordered = sorted(set(points))
    if len(ordered) < 3:
        return []

    def half(places: list[tuple[float, float]]) -> list[tuple[float, float]]:
        corners: list[tuple[float, float]] = []
        for x, y in places:
            while len(corners) > 1:
                (x0, y0), (x1, y1) = corners[-2:]
                if (x1 - x0) * (y - y0) - (y1 - y0) * (x - x0) > 0:
                    break
                corners.pop()
            corners.append((x, y))
        return corners

    lower, upper = half(ordered), half(ordered[::-1])
    return [*lower, *upper[1:]]


HEAT_MAP_WIDTH = 330
_ROW = 28
"""Height of one task in a heat map."""


_SHADES = "each task from its worst layer (no shade) to its best (full shade); numbers: scores"


def heat_maps(rows: Table, models: list[str], title: str, subtitle: str = _SHADES) -> alt.ConcatChart:
    """One map per model, tasks by layers; `rows` have `normalised` too: each task from its worst to its best layer.

    What rows say in `beside`, if they do, is written at the end of a task's line.
    """
    tasks = list(dict.fromkeys(rows["task"]))
    model_rows = [(model, rows[rows["model"] == model]) for model in models]
    return alt.concat(
        *(_map(model, group, tasks) for model, group in model_rows if len(group)),
        columns=2,
        spacing=24,
        title=alt.TitleParams(title, subtitle=subtitle, offset=12),
        description=" ".join(
            f"{model}: {best_in_words(str(task), group, [model])}"
            for model, whole in model_rows
            for task, group in whole.groupby("task", sort=False)
        ),
        usermeta={"panelWidth": HEAT_MAP_WIDTH},
    )


def _map(model: str, rows: Table, tasks: list[str]) -> alt.LayerChart:
    layers = rows["layer"].nunique()
    ticks = sorted(rows["layer"].unique().tolist())[:: math.ceil(layers / 13)]
    rows = rows.assign(title=rows["task"].map(title_of))
    base = alt.Chart(rows, width=HEAT_MAP_WIDTH, height=_ROW * len(tasks)).encode(
        x=alt.X(
            "layer:O",
            title="layer (0 = embeddings)",
            # Thinned out where the numbers would not fit.
            axis=alt.Axis(values=ticks, labelAngle=0, ticks=False, domain=False),
        ),
        y=alt.Y(
            "title:N",
            sort=[title_of(task) for task in tasks],
            title=None,
            axis=alt.Axis(ticks=False, domain=False, labelLimit=240),
        ),
        tooltip=[
            alt.Tooltip("title:N"),
            alt.Tooltip("layer:Q"),
            *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("value", "normalised")),
        ],
    )
    colour = alt.Color(
        "normalised:Q", scale=alt.Scale(domain=[0, 1], range=list(SHADES), interpolate="lab"), legend=None
    )
    cells: list[alt.Chart] = [base.mark_rect(stroke=FAINT, strokeWidth=1).encode(color=colour)]
    if HEAT_MAP_WIDTH / layers >= 24:
        shade = alt.when(alt.datum.normalised > 0.55).then(alt.value("white")).otherwise(alt.value(INK))
        cells.append(base.mark_text(fontSize=10).encode(text=alt.Text("value:Q", format=".2f"), color=shade))
    if "beside" in rows:
        ends = alt.Chart(rows.drop_duplicates("task")).mark_text(align="left", dx=8, fontSize=11, color=INK)
        cells.append(ends.encode(x=alt.value("width"), y=base.encoding.y, text=alt.Text("beside:N")))
    return alt.LayerChart(layer=cells, title=model)


def best_in_words(task: str, rows: Table, models: list[str]) -> str:
    """The best single layer of each model at one task."""
    tops = [rows[rows["model"] == model].nlargest(1, "value") for model in models]
    best_layers = "; ".join(
        f"{row.model} {row.value:.2f} at layer {row.layer}" for top in tops for row in top.itertuples()
    )
    return f"{title_of(task)}, best score of one layer alone: {best_layers}."
