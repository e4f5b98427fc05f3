"""Heat maps: tasks by layers, each task from its worst layer to its best (after figure 6 of van Aken et al. 2019)."""

from __future__ import annotations

import math

import altair as alt

from lamina.figures.theme import FAINT, INK, SHADES, Table, title_of

PANEL_WIDTH = 330
_ROW = 28
"""Height of one task in a heat map."""


_SHADES = "each task from its worst layer (no shade) to its best (full shade); numbers: scores"


def heat_maps(rows: Table, models: list[str], title: str, said: str = _SHADES) -> alt.ConcatChart:
    """One map per model, tasks by layers; `rows` have `normalised` too: each task from its worst to its best layer.

    What rows say in `beside`, if they do, is written at the end of a task's line.
    """
    tasks = list(dict.fromkeys(rows["task"]))
    own = [(model, rows[rows["model"] == model]) for model in models]
    return alt.concat(
        *(_map(model, group, tasks) for model, group in own if len(group)),
        columns=2,
        spacing=24,
        title=alt.TitleParams(title, subtitle=said, offset=12),
        description=" ".join(
            f"{model}: {best_in_words(str(task), group, [model])}"
            for model, whole in own
            for task, group in whole.groupby("task", sort=False)
        ),
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def _map(model: str, rows: Table, tasks: list[str]) -> alt.LayerChart:
    layers = rows["layer"].nunique()
    shown = sorted(rows["layer"].unique().tolist())[:: math.ceil(layers / 13)]
    rows = rows.assign(title=rows["task"].map(title_of))
    base = alt.Chart(rows, width=PANEL_WIDTH, height=_ROW * len(tasks)).encode(
        x=alt.X(
            "layer:O",
            title="layer (0 = embeddings)",
            # Thinned out where the numbers would not fit.
            axis=alt.Axis(values=shown, labelAngle=0, ticks=False, domain=False),
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
    if PANEL_WIDTH / layers >= 24:
        shade = alt.when(alt.datum.normalised > 0.55).then(alt.value("white")).otherwise(alt.value(INK))
        cells.append(base.mark_text(fontSize=10).encode(text=alt.Text("value:Q", format=".2f"), color=shade))
    if "beside" in rows:
        ends = alt.Chart(rows.drop_duplicates("task")).mark_text(align="left", dx=8, fontSize=11, color=INK)
        cells.append(ends.encode(x=alt.value("width"), y=base.encoding.y, text=alt.Text("beside:N")))
    return alt.LayerChart(layer=cells, title=model)


def best_in_words(task: str, rows: Table, models: list[str]) -> str:
    """The best single layer of each model at one task."""
    tops = [rows[rows["model"] == model].nlargest(1, "value") for model in models]
    said = "; ".join(f"{row.model} {row.value:.2f} at layer {row.layer}" for top in tops for row in top.itertuples())
    return f"{title_of(task)}, best score of one layer alone: {said}."
