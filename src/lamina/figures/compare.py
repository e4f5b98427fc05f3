"""Several probing results on relative depth (after the pipeline paper's figures A.2 and A.3)."""

from __future__ import annotations

import math

import altair as alt
import pandas as pd

from lamina.comparison.measures import MEAN, MEASURED, VALUE
from lamina.figures._marks import PANEL_WIDTH, best_in_words, heat_maps, interval_line, number_tips
from lamina.figures.probe import PROBES
from lamina.figures.theme import INK, Table, Tables, layer_axis, rows_of, series, themed, title_of
from lamina.results import Result

CAPTIONS = {
    "scores": (
        "The score of each model at each task: of the probe that mixes all layers, and of the single layer with the "
        "least loss on the texts that decide when to stop; where results have items (pairs, clozes), the mean over the "
        "items of each group, and over all groups. Lines: 95 % interval of each model alone. Intervals of two models "
        "may overlap although they differ: compare them in the figure of differences."
    ),
    "differences": (
        "Difference of the full probes' scores, of the means over items or of the means over layers, model by model. "
        "Lines: 95 % interval, paired by document (text, item) and simultaneous over all these differences; none where "
        "there are too few for a test. Compare with 0, no difference; the table has p-values, corrected by max-T over "
        "the same family, and says what is not paired."
    ),
    "places": (
        "How far into its depth each model resolves each task, by the layers that its full probe draws on (centre of "
        "gravity) and by where the score is gained (expected layer). Lines: 95 % interval of each model alone, or the "
        "range over seeds where a panel says so. The table has the differences, which are tested from 5 seeds on."
    ),
    "depth": (
        "Score (or measure) of each model from its embeddings (0) to its last layer (1), all models on one scale, each "
        "task on a scale of its own. Bars: 95 % interval of each model alone. Compare models at the same depth."
    ),
    "by_layer": "Score of each layer alone, all models on one axis; bars: 95 % interval of each model alone.",
    "heatmap": (
        "Score of each layer alone, each task from its lowest score (no shade) to its highest (full shade), without "
        "intervals. Compare rows by shade and models by the numbers (scores); best_layers.csv says which layers can be "
        "the best."
    ),
}
"""Chart -> how to read it."""

ROW = 20
"""Height of one model at one task ..."""
_MANY, _SMALL_ROW = 30, 9
"""... and where there are many tasks, as there are paradigms of a test suite."""
PLACES = {"center_of_gravity": "centre of gravity", "expected_layer": "expected layer"}
SCORES = {
    "score_full": "all layers mixed",
    "score_best_layer": "best single layer",
    "items": "mean over items",
    VALUE: "each number",
}
_METRICS = {
    "f1": "F1",
    "macro_f1": "macro-F1",
    "accuracy": "accuracy",
    "r2": "R2",
    "correlation": "correlation",
    "value": "value",
}
_ALL_PAIRS = 4
"""With more models there are too many pairs to draw: only those with the first model are."""


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """Of measures by layer: `depth` and `differences`. Of other results: `scores`, `differences` (of the full probes),
    `places` (where each model resolves each task), `depth` (scores by relative depth) and, of the probes of single
    layers, `by_layer` (models of one depth) and `heatmap`."""
    title = f"{result.provenance.model['name']} on {result.provenance.corpus['name']}"
    tables = result.tables
    if MEASURED in set(tables.get("depth", pd.DataFrame({"probe": []}))["probe"]):
        layered = {"depth": depth(tables, title), "differences": layer_differences(tables, title)}
        return {name: themed(chart) for name, chart in layered.items() if chart is not None}
    charts = {
        "scores": scores(tables, title),
        "differences": differences(tables, title),
        "places": places(tables, title),
        "depth": depth(tables, title),
    }
    single = rows_of(tables, "best_layers")
    if single is not None:
        models = _models(tables)
        if single.groupby("model")["layer"].max().nunique() == 1:
            charts["by_layer"] = by_task(single, f"Score by layer, each layer alone: {title}", models)
        charts["heatmap"] = heat_maps(single, models, f"Scores of single layers: {title}")
    return {name: themed(chart) for name, chart in charts.items() if chart is not None}


def _models(tables: Tables) -> list[str]:
    """In the order given."""
    compared = rows_of(tables, "compare")
    return [] if compared is None else list(dict.fromkeys(compared["model"]))


def scores(tables: Tables, title: str) -> alt.ConcatChart | None:
    """The score of each model's full probe and of its best single layer, task by task."""
    return _statistics(tables, SCORES, f"Scores: {title}", "score", subtitle="lines: 95 % interval")


def places(tables: Tables, title: str) -> alt.ConcatChart | None:
    """Centre of gravity and expected layer of each model as shares of its depth."""
    subtitle = "0: embeddings, 1: last layer"
    return _statistics(tables, PLACES, f"Where tasks are resolved: {title}", "share of the depth", subtitle=subtitle)


def _statistics(
    tables: Tables, named: dict[str, str], title: str, axis: str, *, subtitle: str
) -> alt.ConcatChart | None:
    """One panel per statistic, one row per task, one point per model."""
    rows = rows_of(tables, "compare")
    if rows is None:
        return None
    models = _models(tables)
    statistics = [name for name in named if rows.loc[rows["statistic"] == name, "value"].notna().any()]
    if not statistics:
        return None
    panels = [
        _points(named[name], statistic_rows, models, _unit_of(statistic_rows, axis))
        for name in statistics
        for statistic_rows in (rows[rows["statistic"] == name],)
    ]
    return alt.concat(
        *panels,
        columns=2,
        spacing=24,
        title=alt.TitleParams(title, subtitle=subtitle),
        description=_statistics_in_words(rows, named, models, axis),
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def _points(name: str, rows: Table, models: list[str], axis: str) -> alt.LayerChart:
    tasks = list(dict.fromkeys(rows["task"]))
    rows = rows.assign(title=_titles(rows))
    low, high = (0.0, 1.0) if axis == "share of the depth" else _domain(rows)
    x = alt.Scale(domain=[min(low, rows[["value", "low"]].min().min()), max(high, rows[["value", "high"]].max().max())],
                  nice=False, padding=8)  # fmt: skip
    spread = "lines: range over seeds, no interval" if "range" in set(rows["spread"]) else "lines: 95 % interval"
    return alt.LayerChart(
        layer=_with_interval(rows, tasks, models, x, axis),
        title=alt.TitleParams(name[0].upper() + name[1:], subtitle=spread),
    )


def _with_interval(rows: Table, tasks: list[str], models: list[str], x: alt.Scale, axis: str) -> list[alt.Chart]:
    """Points with their intervals, one row per task and, within it, per model; `n/a` where there is none."""
    look = series(models)
    titles = list(dict.fromkeys(rows["title"]))
    height = (ROW if len(tasks) <= _MANY else _SMALL_ROW) * max(2, len(models)) * len(tasks)
    base = alt.Chart(rows, width=PANEL_WIDTH, height=height).encode(
        y=alt.Y("title:N", sort=titles, title=None, axis=alt.Axis(labelLimit=320)),
        yOffset=alt.YOffset("model:N", sort=models),
        color=look.colour,
        tooltip=[
            alt.Tooltip("model:N"),
            alt.Tooltip("title:N"),
            *number_tips(),
        ],
    )
    low = alt.X("low:Q", scale=x, title=axis, axis=alt.Axis(tickCount=5))
    missing = rows[rows["value"].isna()].assign(said="n/a", edge=float(x.to_dict()["domain"][0]))
    absent = alt.Chart(missing).mark_text(align="left", fontSize=11, color=INK)
    return [
        interval_line(base, low),
        base.mark_point(filled=True, size=70, opacity=1).encode(x=alt.X("value:Q", scale=x), shape=look.shape),
        absent.encode(x=alt.X("edge:Q"), y=base.encoding.y, yOffset=base.encoding.yOffset, text=alt.Text("said:N")),
    ]


def differences(tables: Tables, title: str) -> alt.ConcatChart | None:
    """Paired differences of the full probes' scores, or of the best single layers where there are no full probes."""
    rows, models = rows_of(tables, "differences"), _models(tables)
    if rows is None:
        return None
    known = rows.dropna(subset=["difference"])
    statistic = next((name for name in SCORES if (known["statistic"] == name).any()), None)
    if statistic is None:
        return None
    pair_rows = known[known["statistic"] == statistic]
    if statistic == VALUE:
        # Those that are put side by side stand in the figure of values.
        pair_rows = pair_rows[pair_rows["reason"].fillna("") == ""]
    unit = "item" if statistic == "items" else " and ".join(dict.fromkeys(filter(None, pair_rows["unit"])))
    subtitle = f"{SCORES[statistic]}; lines: 95 % interval, simultaneous, paired by {unit}; 0: no difference"
    if len(models) > _ALL_PAIRS:
        pair_rows = pair_rows[pair_rows["a"] == models[0]]
        subtitle = f"{subtitle}; only pairs with {models[0]}"
    if pair_rows.empty:
        return None
    pairs = [f"{row.a} \N{MINUS SIGN} {row.b}" for row in pair_rows.itertuples()]
    pair_rows = pair_rows.assign(model=pairs, value=pair_rows["difference"])
    pair_rows = pair_rows.assign(title=_titles(pair_rows))
    pair_rows, far = _bounded(pair_rows)
    x = alt.Scale(domain=[-far, far], nice=False, padding=8)
    tasks = list(dict.fromkeys(pair_rows["task"]))
    none = alt.Chart(pd.DataFrame({"zero": [0.0]})).mark_rule(color=INK, strokeDash=[2, 2]).encode(x=alt.X("zero:Q"))
    layers = [none, *_with_interval(pair_rows, tasks, list(dict.fromkeys(pairs)), x, _difference_of(pair_rows))]
    return alt.concat(
        alt.LayerChart(layer=layers),
        title=alt.TitleParams(f"Differences: {title}", subtitle=subtitle),
        description=" ".join(
            f"{row.title}, {row.model}: {row.difference:.3f} [{row.low:.3f}, {row.high:.3f}]."
            for row in pair_rows.itertuples()
        ),
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def layer_differences(tables: Tables, title: str) -> alt.ConcatChart | None:
    """Paired differences of measures' means over layers: one panel per unit, whose sizes can be compared."""
    rows, models = rows_of(tables, "differences"), _models(tables)
    if rows is None:
        return None
    pair_rows = rows[rows["statistic"] == MEAN].dropna(subset=["difference"])
    subtitle = "means over layers; lines: 95 % interval, simultaneous, paired; 0: no difference"
    if len(models) > _ALL_PAIRS:
        pair_rows, subtitle = pair_rows[pair_rows["a"] == models[0]], f"{subtitle}; only pairs with {models[0]}"
    if pair_rows.empty:
        return None
    pairs = [f"{row.a} \N{MINUS SIGN} {row.b}" for row in pair_rows.itertuples()]
    pair_rows = pair_rows.assign(
        model=pairs, value=pair_rows["difference"], title=[title_of(task) for task in pair_rows["task"]]
    )
    panels = []
    for unit, unit_rows in pair_rows.groupby("metric", sort=False):
        unit_rows, far = _bounded(unit_rows)
        x = alt.Scale(domain=[-far, far], nice=False, padding=8)
        none = (
            alt.Chart(pd.DataFrame({"zero": [0.0]})).mark_rule(color=INK, strokeDash=[2, 2]).encode(x=alt.X("zero:Q"))
        )
        tasks, named = list(dict.fromkeys(unit_rows["task"])), list(dict.fromkeys(pairs))
        panels.append(alt.LayerChart(layer=[none, *_with_interval(unit_rows, tasks, named, x, f"difference ({unit})")]))
    return alt.concat(
        *panels,
        columns=2 if len(panels) > 1 else 1,
        spacing=24,
        title=alt.TitleParams(f"Differences: {title}", subtitle=subtitle),
        description=" ".join(
            f"{row.title}, {row.model}: {row.difference:.3f} [{row.low:.3f}, {row.high:.3f}]."
            for row in pair_rows.itertuples()
        ),
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def depth(tables: Tables, title: str) -> alt.ConcatChart | None:
    """Scores of all models by relative depth, task by task."""
    rows = rows_of(tables, "depth")
    if rows is None:
        return None
    models = _models(tables)
    panels = [
        _curves(_panel_title(task, probe), panel_rows, models, _relative())
        for task in dict.fromkeys(rows["task"])
        for probe in [*PROBES, MEASURED]
        if not (panel_rows := rows[(rows["task"] == task) & (rows["probe"] == probe)]).empty
    ]
    return alt.concat(
        *panels,
        columns=2 if len(panels) > 1 else 1,
        spacing=24,
        title=alt.TitleParams(
            f"{'Measures' if set(rows['probe']) == {MEASURED} else 'Scores'} by depth: {title}",
            subtitle="bars: 95 % bootstrap interval",
        ),
        description=_depth_in_words(rows, models),
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def _panel_title(task: str, probe: str) -> alt.TitleParams:
    title = alt.TitleParams(title_of(task))
    return title if probe == MEASURED else alt.TitleParams(title_of(task), subtitle=PROBES[probe])


def _relative() -> alt.X:
    return alt.X(
        "relative_depth:Q",
        title="share of the depth",
        scale=alt.Scale(domain=[0, 1], padding=8, nice=False),
        axis=alt.Axis(tickCount=5, grid=False),
    )


def _curves(title: str | alt.TitleParams, rows: Table, models: list[str], x: alt.X) -> alt.LayerChart:
    """A line per model with a mark per layer and its interval as a bar: bands of six models would hide each other."""
    look = series(models)
    base = alt.Chart(rows, width=PANEL_WIDTH, height=190).encode(x=x, color=look.colour)
    metric = _metric_of(rows)
    scale = alt.Scale(domain=list(_domain(rows)), nice=False)
    y = alt.Y("value:Q", title=metric, scale=scale, axis=alt.Axis(tickCount=5))
    numbers = number_tips()
    return alt.LayerChart(
        layer=[
            interval_line(base, alt.Y("low:Q", title=metric, scale=scale), width=1.5, opacity=0.6),
            base.mark_line(strokeWidth=2).encode(y=y, strokeDash=look.dash),
            base.mark_point(filled=True, size=50, opacity=1).encode(
                y=y, shape=look.shape, tooltip=[alt.Tooltip("model:N"), alt.Tooltip("layer:Q"), *numbers]
            ),
        ],
        title=title,
    )


def _metric_of(rows: Table) -> str:
    """What the values are; measures by layer say their unit themselves."""
    if "metric" not in rows:
        return "score"
    metric = str(rows["metric"].iloc[0])
    return metric if "probe" in rows and set(rows["probe"]) == {MEASURED} else _METRICS.get(metric, "score")


def _domain(rows: Table) -> tuple[float, float]:
    """Tenths around all intervals: curves of good models lie close together near 1."""
    low, high = rows[["value", "low"]].min().min(), rows[["value", "high"]].max().max()
    if not (math.isfinite(low) and math.isfinite(high)):
        return 0.0, 1.0
    return math.floor(low * 10) / 10, max(math.ceil(high * 10) / 10, math.floor(low * 10) / 10 + 0.1)


def _unit_of(rows: Table, axis: str) -> str:
    """What an axis is called: items of one suite are scored in one way, tasks of probes in several."""
    if set(rows["statistic"]) == {VALUE} and rows["metric"].nunique() == 1:
        return str(rows["metric"].iloc[0])
    if set(rows["statistic"]) != {"items"}:
        return axis
    return "accuracy" if set(rows["metric"]) == {"accuracy"} else "mean value"


def _difference_of(rows: Table) -> str:
    unit = _unit_of(rows, "scores")
    return f"difference of {unit}" if unit == "scores" else f"difference in {unit}"


def _bounded(rows: Table) -> tuple[Table, float]:
    """The rows without intervals that have no end, and how far from 0 the others reach."""
    ends = rows[["low", "high"]].astype(float)
    ends = ends.where(ends.abs() < math.inf)
    far = pd.concat([ends, rows["difference"].astype(float)], axis="columns").abs().max().max()
    return rows.assign(low=ends["low"], high=ends["high"]), max(float(far), 0.01)


def _titles(rows: Table) -> list[str]:
    """Of the rows' tasks; groups of items are called as their suite calls them."""
    items = set(rows["statistic"]) == {"items"}
    named = zip(rows["task"], rows["metric"], strict=True)
    return [_group_title(str(task)) if items else _task_title(str(task), str(metric)) for task, metric in named]


def _group_title(group: str) -> str:
    return "mean over groups" if group == "all" else group.replace("_", " ")


def _task_title(task: str, metric: str) -> str:
    """With the metric where it is not F1."""
    return title_of(task) if metric == "f1" else f"{title_of(task)}, {_METRICS.get(metric, metric)}"


def _statistics_in_words(rows: Table, named: dict[str, str], models: list[str], axis: str) -> str:
    sentences = []
    statistic_rows = rows[rows["statistic"].isin(list(named))]
    for (task, statistic), group in statistic_rows.groupby(["task", "statistic"], sort=False):
        values = group.set_index("model")["value"].to_dict()
        parts = [
            f"{model} {'n/a' if pd.isna(values[model]) else f'{values[model]:.2f}'}"
            for model in models
            if model in values
        ]
        sentences.append(f"{title_of(str(task))}, {named[str(statistic)]}, {axis}: {', '.join(parts)}.")
    return " ".join(sentences)


def _depth_in_words(rows: Table, models: list[str]) -> str:
    sentences = []
    for (task, probe), group in rows.groupby(["task", "probe"], sort=False):
        tops = [group[group["model"] == model].nlargest(1, "value") for model in models]
        parts = [
            f"{top['model'].iloc[0]} {top['value'].iloc[0]:.2f} at {top['relative_depth'].iloc[0]:.2f} of its depth"
            for top in tops
            if len(top)
        ]
        what = f"{PROBES[str(probe)]}, best score" if probe != MEASURED else "highest"
        sentences.append(f"{title_of(str(task))}, {what}: {'; '.join(parts)}.")
    return " ".join(sentences)


def by_task(rows: Table, title: str, models: list[str] | None = None) -> alt.ConcatChart:
    """One panel per task, one curve per model; `rows` have `model`, `task`, `layer`, `value`, `low` and `high`.

    By layer, or where they have a `relative_depth` and models of different depth, by share of the depth.
    """
    models = models or list(dict.fromkeys(rows["model"]))
    unlike = "relative_depth" in rows and rows.groupby("model")["layer"].max().nunique() > 1
    x = _relative() if unlike else layer_axis(int(rows["layer"].max()))
    panels = [_curves(title_of(str(task)), group, models, x) for task, group in rows.groupby("task", sort=False)]
    return alt.concat(
        *panels,
        columns=2 if len(panels) > 1 else 1,
        spacing=24,
        title=alt.TitleParams(title, subtitle="bars: 95 % bootstrap interval"),
        description=" ".join(
            best_in_words(str(task), group, models) for task, group in rows.groupby("task", sort=False)
        ),
        usermeta={"panelWidth": PANEL_WIDTH},
    )
