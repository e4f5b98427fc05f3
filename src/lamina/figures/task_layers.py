"""What each layer alone tells of each task: models side by side, and the heat map of the phases paper's figure 6."""

from __future__ import annotations

import altair as alt

from lamina.figures.axes import layer_axis
from lamina.figures.probe_tables import Table, title_of
from lamina.figures.theme import FAINT, INK, series

PANEL_WIDTH = 330
_ROW = 28
"""Height of one task in a heat map."""
_SHADES = ("#ffffff", "#08458c")
"""One hue, from light to dark: the order holds in grey and for all eyes."""


def by_task(rows: Table, title: str) -> alt.ConcatChart:
    """A panel a task, a curve a model; `rows` have `model`, `task`, `layer`, `value`, `low` and `high`."""
    models = list(dict.fromkeys(rows["model"]))
    last = int(rows["layer"].max())
    panels = [_curves(task, group, models, last) for task, group in rows.groupby("task", sort=False)]
    return alt.concat(
        *panels,
        columns=2 if len(panels) > 1 else 1,
        spacing=24,
        title=alt.TitleParams(title, subtitle="shaded: 95 % bootstrap interval"),
        description=" ".join(_best_in_words(task, group) for task, group in rows.groupby("task", sort=False)),
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def heat_maps(rows: Table, title: str) -> alt.ConcatChart:
    """A map a model, tasks by layers; `rows` have `normalised` too: each task from its worst to its best layer."""
    tasks = list(dict.fromkeys(rows["task"]))
    panels = [_map(str(model), group, tasks) for model, group in rows.groupby("model", sort=False)]
    said = "each task from its worst layer (white) to its best (dark); numbers: F1"
    return alt.concat(
        *panels,
        columns=2,
        spacing=24,
        title=alt.TitleParams(title, subtitle=said, offset=12),
        description=" ".join(
            f"{model}: {_best_in_words(task, group)}"
            for (model, task), group in rows.groupby(["model", "task"], sort=False)
        ),
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def _curves(task: str, rows: Table, models: list[str], last: int) -> alt.LayerChart:
    look = series(models)
    base = alt.Chart(rows, width=PANEL_WIDTH, height=190).encode(x=layer_axis(last), color=look.colour)
    value = alt.Y("value:Q", title="F1", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5))
    numbers = (alt.Tooltip(f"{name}:Q", format=".3f") for name in ("value", "low", "high"))
    return alt.LayerChart(
        layer=[
            base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q", title="F1"), y2="high:Q"),
            base.mark_line(strokeWidth=2).encode(y=value, strokeDash=look.dash),
            base.mark_point(filled=True, size=50, opacity=1).encode(
                y=value, shape=look.shape, tooltip=["model:N", "layer:Q", *numbers]
            ),
        ],
        title=title_of(task),
    )


def _map(model: str, rows: Table, tasks: list[str]) -> alt.LayerChart:
    layers = rows["layer"].nunique()
    rows = rows.assign(title=rows["task"].map(title_of))
    base = alt.Chart(rows, width=PANEL_WIDTH, height=_ROW * len(tasks)).encode(
        x=alt.X("layer:O", title="layer (0 = embeddings)", axis=alt.Axis(labelAngle=0, ticks=False, domain=False)),
        y=alt.Y(
            "title:N",
            sort=[title_of(task) for task in tasks],
            title=None,
            axis=alt.Axis(ticks=False, domain=False, labelLimit=240),
        ),
        tooltip=["title:N", "layer:Q", *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("value", "normalised"))],
    )
    colour = alt.Color(
        "normalised:Q", scale=alt.Scale(domain=[0, 1], range=list(_SHADES), interpolate="lab"), legend=None
    )
    cells: list[alt.Chart] = [base.mark_rect(stroke=FAINT, strokeWidth=1).encode(color=colour)]
    if PANEL_WIDTH / layers >= 24:
        shade = alt.when(alt.datum.normalised > 0.55).then(alt.value("white")).otherwise(alt.value(INK))
        cells.append(base.mark_text(fontSize=10).encode(text=alt.Text("value:Q", format=".2f"), color=shade))
    return alt.LayerChart(layer=cells, title=model)


def _best_in_words(task: str, rows: Table) -> str:
    best = rows.loc[rows.groupby("model", sort=False)["value"].idxmax()]
    said = "; ".join(f"{row.model} {row.value:.2f} at layer {row.layer}" for row in best.itertuples())
    return f"{title_of(task)}, best F1 of one layer alone: {said}."
