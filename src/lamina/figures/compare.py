"""Two probing results on relative depth (after the pipeline paper's figures A.2 and A.3)."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lamina.figures.probe import PROBES
from lamina.figures.theme import FAINT, INK, Look, Table, Tables, layer_axis, rows_of, series, themed, title_of
from lamina.results import Result

CAPTIONS = {
    "places": (
        "How far into its depth each model resolves each task, by the layers that its full probe draws on (centre of "
        "gravity) and by where the score is gained (expected layer); lines: 95 % interval, or the range over seeds "
        "where a panel says so. Compare the two models; the table has the differences."
    ),
    "depth": (
        "F1 of each model from its embeddings (0) to its last layer (1); shaded: 95 % bootstrap interval. Compare the "
        "two models at the same depth."
    ),
    "by_layer": "F1 of each layer alone, both models on one axis; shaded: 95 % bootstrap interval.",
    "heatmap": (
        "Each task from its worst layer (white) to its best (dark), without intervals. Compare rows by shade (where a "
        "task is read best) and models by the numbers (F1)."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 330
ROW = 40
"""Height of one task."""
PLACES = {"center_of_gravity": "centre of gravity", "expected_layer": "expected layer"}


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `places` (where each model resolves each task), `depth` (F1 by relative depth) and, of the probes of
    single layers, `by_layer` (models of one depth) and `heatmap` (every task from its worst to its best layer)."""
    title = f"{result.provenance.model['name']} on {result.provenance.corpus['name']}"
    made = {"places": places(result.tables, title), "depth": depth(result.tables, title)}
    single = rows_of(result.tables, "layers")
    if single is not None:
        if single.groupby("model")["layer"].max().nunique() == 1:
            made["by_layer"] = by_task(single, f"F1 by layer, each layer alone: {title}")
        made["heatmap"] = heat_maps(single, f"Where each task is read best: {title}")
    return {name: themed(chart) for name, chart in made.items() if chart is not None}


def places(tables: Tables, title: str) -> alt.ConcatChart | None:
    """Centre of gravity and expected layer of both models as shares of their depth."""
    compared, depths = rows_of(tables, "compare"), rows_of(tables, "depth")
    if compared is None or depths is None:
        return None
    models = list(dict.fromkeys(depths["model"]))
    rows = pd.concat([_side(compared, side, model) for side, model in zip("ab", models, strict=False)])
    shown = [statistic for statistic in PLACES if rows.loc[rows["statistic"] == statistic, "value"].notna().any()]
    if not shown:
        return None
    tasks = list(dict.fromkeys(rows["task"]))
    panels = [_places(statistic, rows[rows["statistic"] == statistic], models, tasks) for statistic in shown]
    return alt.concat(
        *panels,
        columns=2,
        spacing=24,
        title=alt.TitleParams(f"Where tasks are resolved: {title}", subtitle="0: embeddings, 1: last layer"),
        description=_places_in_words(rows, models),
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def depth(tables: Tables, title: str) -> alt.ConcatChart | None:
    """F1 of both models by relative depth, task by task."""
    rows = rows_of(tables, "depth")
    if rows is None:
        return None
    models = list(dict.fromkeys(rows["model"]))
    panels = [
        _curves(title_of(task), probe, shown, models)
        for task in dict.fromkeys(rows["task"])
        for probe in PROBES
        if not (shown := rows[(rows["task"] == task) & (rows["probe"] == probe)]).empty
    ]
    return alt.concat(
        *panels,
        columns=2,
        spacing=24,
        title=alt.TitleParams(f"F1 by depth: {title}", subtitle="shaded: 95 % bootstrap interval"),
        description=_depth_in_words(rows, models),
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def _side(compared: Table, side: str, model: str) -> Table:
    rows = compared[["task", "statistic", "spread", side, f"{side}_low", f"{side}_high"]].copy()
    rows.columns = ["task", "statistic", "spread", "value", "low", "high"]
    return rows.assign(model=model, title=rows["task"].map(title_of))


def _places(statistic: str, rows: Table, models: list[str], tasks: list[str]) -> alt.LayerChart:
    look = series(models)
    top = max(1.0, rows[["value", "high"]].max().max())
    x = alt.Scale(domain=[min(0.0, rows[["value", "low"]].min().min()), top], nice=False, padding=8)
    base = alt.Chart(rows, width=PANEL_WIDTH, height=ROW * len(tasks)).encode(
        y=alt.Y("title:N", sort=[title_of(task) for task in tasks], title=None, axis=alt.Axis(labelLimit=240)),
        yOffset=alt.YOffset("model:N", sort=models),
        color=look.colour,
        tooltip=["model:N", "title:N", *(alt.Tooltip(f"{name}:Q", format=".2f") for name in ("value", "low", "high"))],
    )
    low = alt.X("low:Q", scale=x, title="share of the depth", axis=alt.Axis(tickCount=5))
    spread = "lines: range over seeds, no interval" if "range" in set(rows["spread"]) else "lines: 95 % interval"
    missing = rows[rows["value"].isna()]
    absent = alt.Chart(missing.assign(said="n/a", zero=0)).mark_text(align="left", fontSize=11, color=INK)
    return alt.LayerChart(
        layer=[
            base.mark_rule(strokeWidth=2).encode(x=low, x2="high:Q"),
            base.mark_point(filled=True, size=80, opacity=1).encode(x=alt.X("value:Q", scale=x), shape=look.shape),
            absent.encode(x="zero:Q", y=base.encoding.y, yOffset=base.encoding.yOffset, text="said:N"),
        ],
        title=alt.TitleParams(PLACES[statistic].capitalize(), subtitle=spread),
    )


def _curves(title: str, probe: str, rows: Table, models: list[str]) -> alt.LayerChart:
    look = series(models)
    x = alt.X(
        "relative_depth:Q",
        title="share of the depth",
        scale=alt.Scale(domain=[0, 1], padding=8, nice=False),
        axis=alt.Axis(tickCount=5, grid=False),
    )
    base = alt.Chart(rows, width=PANEL_WIDTH, height=190).encode(x=x, color=look.colour)
    return alt.LayerChart(
        layer=_f1_with_interval(base, look),
        title=alt.TitleParams(title, subtitle=PROBES[probe]),
    )


def _places_in_words(rows: Table, models: list[str]) -> str:
    sentences = []
    for (task, statistic), group in rows[rows["statistic"].isin(list(PLACES))].groupby(
        ["task", "statistic"], sort=False
    ):
        values = group.set_index("model")["value"]
        said = [f"{model} {'n/a' if values[model] != values[model] else f'{values[model]:.2f}'}" for model in models]
        sentences.append(f"{title_of(str(task))}, {PLACES[str(statistic)]} as a share of the depth: {', '.join(said)}.")
    return " ".join(sentences)


def _depth_in_words(rows: Table, models: list[str]) -> str:
    sentences = []
    for (task, probe), group in rows.groupby(["task", "probe"], sort=False):
        tops = [group[group["model"] == model].nlargest(1, "value") for model in models]
        said = [
            f"{top['model'].iloc[0]} {top['value'].iloc[0]:.2f} at {top['relative_depth'].iloc[0]:.2f} of its depth"
            for top in tops
            if len(top)
        ]
        sentences.append(f"{title_of(str(task))}, {PROBES[str(probe)]}, best F1: {'; '.join(said)}.")
    return " ".join(sentences)


_ROW = 28
"""Height of one task in a heat map."""
_SHADES = ("#ffffff", "#08458c")
"""One hue, from light to dark: the order holds in grey and for all eyes."""


def by_task(rows: Table, title: str) -> alt.ConcatChart:
    """One panel per task, one curve per model; `rows` have `model`, `task`, `layer`, `value`, `low` and `high`."""
    models = list(dict.fromkeys(rows["model"]))
    last = int(rows["layer"].max())
    panels = [_task_curves(str(task), group, models, last) for task, group in rows.groupby("task", sort=False)]
    return alt.concat(
        *panels,
        columns=2 if len(panels) > 1 else 1,
        spacing=24,
        title=alt.TitleParams(title, subtitle="shaded: 95 % bootstrap interval"),
        description=" ".join(_best_in_words(str(task), group) for task, group in rows.groupby("task", sort=False)),
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def heat_maps(rows: Table, title: str) -> alt.ConcatChart:
    """One map per model, tasks by layers; `rows` have `normalised` too: each task from its worst to its best layer."""
    tasks = list(dict.fromkeys(rows["task"]))
    panels = [_map(str(model), group, tasks) for model, group in rows.groupby("model", sort=False)]
    said = "each task from its worst layer (white) to its best (dark); numbers: F1"
    return alt.concat(
        *panels,
        columns=2,
        spacing=24,
        title=alt.TitleParams(title, subtitle=said, offset=12),
        description=" ".join(
            f"{model}: {_best_in_words(str(task), group)}"
            for (model, task), group in rows.groupby(["model", "task"], sort=False)
        ),
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def _f1_with_interval(base: alt.Chart, look: Look) -> list[alt.Chart]:
    """The interval as a band, the score as a line with a mark per layer."""
    value = alt.Y("value:Q", title="F1", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5))
    numbers = (alt.Tooltip(f"{name}:Q", format=".3f") for name in ("value", "low", "high"))
    return [
        base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q", title="F1"), y2="high:Q"),
        base.mark_line(strokeWidth=2).encode(y=value, strokeDash=look.dash),
        base.mark_point(filled=True, size=50, opacity=1).encode(
            y=value, shape=look.shape, tooltip=["model:N", "layer:Q", *numbers]
        ),
    ]


def _task_curves(task: str, rows: Table, models: list[str], last: int) -> alt.LayerChart:
    look = series(models)
    base = alt.Chart(rows, width=PANEL_WIDTH, height=190).encode(x=layer_axis(last), color=look.colour)
    return alt.LayerChart(
        layer=_f1_with_interval(base, look),
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
