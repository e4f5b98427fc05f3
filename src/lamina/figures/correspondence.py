"""Two models side by side: CKA of every pair of layers, and how well every head is matched."""

from __future__ import annotations

import altair as alt

from lamina.figures.attention import GRID_WIDTH, head_grid
from lamina.figures.theme import INK, SHADES, Table, themed
from lamina.results import Result

CAPTIONS = {
    "layers": (
        "Debiased linear CKA of the vectors of the same words, of every layer of one model with every layer of the "
        "other: 1 for spaces that differ by rotation and scale, about 0 for unrelated ones. Framed: the layers of the "
        "second model that can be the most alike (95 %). Compare with the untrained twin, in the table."
    ),
    "heads": (
        "How much each head of the first model attends to the same words as its match in the second (Bhattacharyya "
        "coefficient, 1 alike), on documents that did not choose the match. Compare with its mean overlap with all "
        "heads of the second model; the table has the differences with simultaneous 95 % intervals."
    ),
}
"""Chart -> how to read it."""

_CELL, _LEAST = 34, 18
_NUMBERED = 26
"""Pixels from which on a cell has its number."""


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `layers` (CKA) and `heads` (overlaps of matched heads)."""
    one, other = (result.provenance.model[side]["name"] for side in ("a", "b"))
    charts = {
        "layers": _layers(result.tables["layers"], one, other),
        "heads": _heads(result.tables.get("heads"), one, other),
    }
    return {name: themed(chart) for name, chart in charts.items() if chart is not None}


def _layers(table: Table, one: str, other: str) -> alt.LayerChart | None:
    rows = table.dropna(subset=["value"])
    if rows.empty:
        return None
    columns, lines = int(rows["other_layer"].max()) + 1, int(rows["layer"].max()) + 1
    wide = max(_LEAST, min(_CELL, 2 * GRID_WIDTH // columns))
    base = alt.Chart(rows, width=wide * columns, height=22 * lines).encode(
        x=alt.X("other_layer:O", title=f"layer of {other}", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("layer:O", title=f"layer of {one}"),
        tooltip=[
            alt.Tooltip("layer:Q", title=f"layer of {one}"),
            alt.Tooltip("other_layer:Q", title=f"layer of {other}"),
            *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("value", "low", "high")),
            alt.Tooltip("baseline:Q", title="with the untrained twin", format=".3f"),
        ],
    )
    scale = alt.Scale(domain=[0, 1], range=list(SHADES), interpolate="lab", clamp=True)
    legend = alt.Legend(title="CKA", orient="top", gradientLength=200, titleFontWeight="normal")
    layers = [
        base.mark_rect().encode(color=alt.Color("value:Q", scale=scale, legend=legend)),
        base.transform_filter("datum.among_best").mark_rect(filled=False, stroke=INK, strokeWidth=2),
    ]
    if wide >= _NUMBERED:
        shade = alt.when(alt.datum.value > 0.55).then(alt.value("white")).otherwise(alt.value(INK))
        layers.append(base.mark_text(fontSize=10).encode(text=alt.Text("value:Q", format=".2f"), color=shade))
    top = rows.iloc[rows["value"].argmax()]
    return alt.LayerChart(
        layer=layers,
        title=alt.TitleParams(f"How alike are the layers of {one} and {other}?"),
        description=(
            f"CKA of {lines} layers of {one} with {columns} layers of {other}; highest: layer {top['layer']} and layer "
            f"{top['other_layer']}, {top['value']:.2f}."
        ),
    )


def _heads(table: Table | None, one: str, other: str) -> alt.ConcatChart | None:
    if table is None or table.empty:
        return None
    means = table[["layer", "head"]].assign(value=table["baseline"])
    domain = (0.0, 1.0)
    sure = table[table["mutual"]]
    return alt.concat(
        head_grid(table, alt.TitleParams(f"With its match in {other}"), domain=domain, unit="overlap of attention"),
        head_grid(means, alt.TitleParams(f"With all heads of {other}"), domain=domain, unit="overlap of attention"),
        columns=2,
        spacing=24,
        title=alt.TitleParams(f"Heads of {one} that have a match in {other}"),
        description=(
            f"{len(sure)} of {len(table)} heads of {one} have a match in {other} whose own best match they are."
        ),
        usermeta={"panelWidth": GRID_WIDTH},
    )
