"""A number of every head by layer: a point a head, and a line through the means."""

from __future__ import annotations

import math

import altair as alt

from lamina.figures.probe_tables import Table
from lamina.figures.theme import series

PANEL_WIDTH = 330


def by_layer(
    rows: Table,
    names: list[str],
    title: str,
    unit: str,
    domain: tuple[float, float] | None,
    *,
    legend: bool = True,
) -> alt.LayerChart:
    """A point a head, a line through their means, a dotted one for uniform attention; without a `domain`, by powers."""
    look = series(names)
    colour, shape = (look.colour, look.shape) if legend else (look.colour.legend(None), look.shape.legend(None))
    last = int(rows["layer"].max())
    # Side by side: series would hide each other.
    offsets = {name: (at - (len(names) - 1) / 2) * 0.14 for at, name in enumerate(names)}
    rows = rows.assign(place=rows["layer"] + rows["model"].map(offsets).astype(float))
    base = alt.Chart(rows, width=PANEL_WIDTH, height=200).encode(color=colour)
    ticks = list(range(1, last + 1, math.ceil(last / 13)))
    scale = alt.Scale(domain=[0.6, last + 0.4], nice=False)
    axis = alt.Axis(values=ticks, format="d", grid=False)
    fixed = alt.Scale(domain=list(domain)) if domain else alt.Scale(type="log")
    value = alt.Y("value:Q", title=unit, scale=fixed, axis=alt.Axis(tickCount=5))
    numbers = [alt.Tooltip(f"{name}:Q", format=".3g") for name in ("value", "low", "high") if name in rows]
    tooltip = [alt.Tooltip("model:N", title="attention"), "layer:Q", "head:Q", *numbers]
    marks = [
        base.mark_point(filled=True, size=28, opacity=0.45).encode(
            x=alt.X("place:Q", title="layer", scale=scale, axis=axis), y=value, shape=shape, tooltip=tooltip
        ),
        base.mark_line(strokeWidth=2).encode(
            x=alt.X("layer:Q", title="layer", scale=scale, axis=axis),
            y=alt.Y("mean(value):Q", title=unit, scale=fixed),
        ),
    ]
    if "baseline" in rows:
        marks.append(base.mark_rule(strokeDash=[2, 3]).encode(y=alt.Y("max(baseline):Q", title=unit, scale=fixed)))
    return alt.LayerChart(layer=marks, title=title)


def beside(panels: list[alt.LayerChart], title: str, description: str, *, uniform: bool = True) -> alt.ConcatChart:
    """Panels under one title that says how they are read."""
    dotted = "; dotted: uniform attention" if uniform else ""
    said = alt.TitleParams(title, subtitle=f"a point a head, lines: mean over heads{dotted}", offset=12)
    chart = alt.concat(*panels, columns=2, spacing=24, title=said, description=description)
    return chart.resolve_scale(color="independent", shape="independent").properties(
        usermeta={"panelWidth": PANEL_WIDTH}
    )
