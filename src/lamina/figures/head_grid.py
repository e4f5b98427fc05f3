"""A grid of layers x heads, one coloured and numbered cell a head: how any number of every head is shown."""

from __future__ import annotations

import altair as alt

from lamina.figures.probe_tables import Table
from lamina.figures.theme import FAINT, INK

GRID_WIDTH = 330
"""Of one grid, about; cells are as wide as that allows."""

_WIDEST, _NARROWEST, _NUMBERED = 40, 8, 21
"""Of a cell, and from which width on a number fits into it."""

_SHADES = ("#ffffff", "#08458c")
"""One hue, from light to dark: the order holds in grey and for all eyes."""

_HIGH = 20
"""A cell's height."""


def head_grid(
    rows: Table,
    title: alt.TitleParams,
    *,
    domain: tuple[float, float],
    unit: str,
    digits: int = 2,
) -> alt.LayerChart:
    """One grid; `rows` have `layer`, `head` and `value`. Grids of one `unit` and `domain` share a legend.

    Example:
        >>> import pandas as pd
        >>> rows = pd.DataFrame({"layer": [1, 1], "head": [1, 2], "value": [0.25, 0.75]})
        >>> grid = head_grid(rows, alt.TitleParams("to self"), domain=(0, 1), unit="share")
        >>> [layer["mark"]["type"] for layer in grid.to_dict()["layer"]]
        ['rect', 'text']
    """
    heads, layers = int(rows["head"].max()), int(rows["layer"].max())
    wide = cell_width(heads)
    legend = alt.Legend(title=unit, orient="top", gradientLength=200, titleFontWeight="normal", titleFontSize=13)
    scale = alt.Scale(domain=list(domain), range=list(_SHADES), interpolate="lab", clamp=True)
    colour = alt.Color("value:Q", scale=scale, legend=legend)
    numbers = (alt.Tooltip(f"{name}:Q", format=".3f") for name in ("value", "low", "high") if name in rows)
    base = alt.Chart(rows, width=wide * heads, height=_HIGH * layers).encode(
        x=alt.X("head:O", title="head", axis=_axis(heads, wide)),
        y=alt.Y("layer:O", title="layer", axis=_axis(layers, _HIGH)),
        tooltip=["layer:Q", "head:Q", *numbers],
    )
    cells: list[alt.Chart] = [base.mark_rect(stroke=FAINT, strokeWidth=1).encode(color=colour)]
    if wide >= _NUMBERED:
        # White on dark cells, ink on light ones.
        dark = alt.datum.value > domain[0] + 0.55 * (domain[1] - domain[0])
        shade = alt.when(dark).then(alt.value("white")).otherwise(alt.value(INK))
        text = alt.Text("value:Q", format=f".{digits}f")
        cells.append(base.mark_text(fontSize=9 if wide < 28 else 10).encode(text=text, color=shade))
    return alt.LayerChart(layer=cells, title=title)


def cell_width(heads: int) -> int:
    """As wide as the grid allows, within reason.

    Example:
        >>> cell_width(12), cell_width(2), cell_width(64)
        (27, 40, 8)
    """
    return max(_NARROWEST, min(_WIDEST, GRID_WIDTH // heads))


def _axis(count: int, step: int) -> alt.Axis:
    every = -(-18 // step)
    shown = list(range(1, count + 1, every))
    return alt.Axis(values=shown, labelAngle=0, ticks=False, domain=False)
