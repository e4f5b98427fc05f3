"""Heads by layer: points, the mean of a layer's heads, and its interval."""

from __future__ import annotations

import math

import altair as alt

from lamina.figures.theme import Table, series

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
    offsets = {name: (at - (len(names) - 1) / 2) * 0.14 for at, name in enumerate(names)}
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
        marks.insert(0, interval_band(means, unit, fixed).encode(x=x, color=colour))
    if "baseline" in rows:
        marks.append(base.mark_rule(strokeDash=[2, 3]).encode(y=alt.Y("max(baseline):Q", title=unit, scale=fixed)))
    return alt.LayerChart(layer=marks, title=title)


def layers_axis(last: int, field: str = "layer") -> alt.X:
    ticks = list(range(1, last + 1, math.ceil(last / 13)))
    scale = alt.Scale(domain=[0.6, last + 0.4], nice=False)
    return alt.X(f"{field}:Q", title="layer", scale=scale, axis=alt.Axis(values=ticks, format="d", grid=False))


def interval_band(means: Table, unit: str, scale: alt.Scale) -> alt.Chart:
    """The 95 % interval of layers' means."""
    return (
        alt.Chart(means).mark_area(opacity=0.25).encode(y=alt.Y("low:Q", title=unit, scale=scale), y2=alt.Y2("high:Q"))
    )


def beside(panels: list[alt.LayerChart], title: str, description: str, *, uniform: bool = True) -> alt.ConcatChart:
    """Panels under one title that says how to read them."""
    dotted = "; dotted: uniform attention" if uniform else ""
    said = alt.TitleParams(
        title, subtitle=f"points: heads; lines: mean over heads; shaded: its 95 % interval{dotted}", offset=12
    )
    chart = alt.concat(*panels, columns=2, spacing=24, title=said, description=description)
    return chart.resolve_scale(color="independent", shape="independent").properties(
        usermeta={"panelWidth": PANEL_WIDTH}
    )
