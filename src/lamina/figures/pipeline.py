"""The pipeline paper's figures: where tasks are resolved, what the full probe mixes, and which task comes first."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from textwrap import wrap
from typing import Any, NamedTuple

import altair as alt
import pandas as pd

from lamina.figures._marks import interval_line, number_tips
from lamina.figures.theme import (
    COLOURS,
    FAINT,
    FEW_SEEDS,
    GREY,
    INK,
    Table,
    Tables,
    in_order,
    last_layer,
    layer_axis,
    metric_of,
    pooled,
    reasons_of,
    rows_of,
    seed_count,
    seeds_name,
    title_of,
)
from lamina.results.finding import number
from lamina.results.finding import rows_of as each_row

_WIDTH, _HEIGHT = 200, 120
_LINE = 36
"""Characters of a line over a panel."""
_MIXING, _DIFFERENTIAL = "mixing weight", "differential score, normalised"
_NUMBERS = ["task", "layer", "value", "low", "high"]


def weights(tables: Tables, title: str) -> alt.ConcatChart | None:
    """Each task's mixing weights (solid) and normalised differential scores (outlined) by layer."""
    parts = [part for part in (mixing_rows(tables), differential_rows(tables)) if not part.empty]
    if not parts:
        return None
    rows = pd.concat(parts, ignore_index=True)
    last = last_layer(tables)
    domain = [min(0.0, math.floor(rows[["value", "low"]].min().min() * 10) / 10), _top(rows)]
    tasks = in_order(tables)
    divergences = _divergences_in_words(tables)
    panels: list[alt.LayerChart] = []
    for task in tasks:
        task_rows = rows[rows["task"] == task]
        panels.append(
            _panel(task_rows, task, [*divergences.get(task, ()), *_missing(tables, task, task_rows)], last, domain)
        )
    lines = "lines on solid bars: lowest to highest seed; " if seed_count(tables) > 1 else ""
    subtitle = f"{lines}lines on outlined bars: 95 % interval of what the layer adds, simultaneous"
    return alt.concat(
        *panels,
        *_norms(tables, last),
        columns=3,
        spacing=20,
        title=alt.TitleParams(f"What is mixed and what each layer adds: {title}", subtitle=subtitle),
        description=_in_words(rows, tasks),
        usermeta={"panelWidth": _WIDTH},
    )


def mixing_rows(tables: Tables) -> Table:
    """Weights of the probes that mix all layers: their mean over seeds, and the lowest and the highest.

    None for a task whose full probe has not converged.
    """
    mixing = rows_of(tables, "mixing")
    if mixing is None:
        return pd.DataFrame()
    full = mixing[mixing["upto"] == mixing["upto"].max()]
    full = full[~full["task"].isin(_unconverged_tasks(tables))]
    means = full.groupby(["task", "layer"], sort=False)["weight"].agg(["mean", "min", "max"]).reset_index()
    means.columns = _NUMBERS
    return means.assign(kind=_MIXING)


def _unconverged_tasks(tables: Tables) -> list[str]:
    """Tasks whose full probe has not converged: neither their centre of gravity nor their divergence is reported."""
    divergences = _divergences_in_words(tables)
    converged = {task for task, lines in divergences.items() if any(line.startswith("K(s)") for line in lines)}
    return [task for task in reasons_of(tables, "centre of gravity") if task not in converged]


def differential_rows(tables: Tables) -> Table:
    """D(l) / (best score - score of P(0)) with its interval; none for a task that has no expected layer."""
    scores, summary = pooled(tables), rows_of(tables, "summary")
    if scores is None or summary is None:
        return pd.DataFrame()
    tasks = set(summary.loc[summary["expected_layer"].notna(), "task"])
    cumulative = scores[(scores["probe"] == "cumulative") & (scores["of"] == "model") & scores["task"].isin(tasks)]
    parts = []
    for task, group in cumulative.groupby("task", sort=False):
        by_layer = group.set_index("layer")["value"].sort_index()
        gain = by_layer.max() - by_layer.iloc[0]
        if len(by_layer) > 1 and gain > 0:
            parts.append(_steps(tables, str(task), by_layer, gain))
    return pd.concat(parts, ignore_index=True).assign(kind=_DIFFERENTIAL) if parts else pd.DataFrame()


def _steps(tables: Tables, task: str, by_layer: pd.Series, gain: float) -> Table:
    steps = rows_of(tables, "steps")
    if steps is None:
        # Results of older versions have no intervals of D(l).
        added = by_layer.diff().iloc[1:]
        rows = pd.DataFrame({"task": task, "layer": added.index, "value": added.to_numpy()})
        rows = rows.assign(low=float("nan"), high=float("nan"))
    else:
        task_steps = steps[(steps["task"] == task) & (steps["probe"] == "cumulative")]
        rows = task_steps.rename(columns={"difference": "value"})[_NUMBERS]
    return rows.assign(**{name: rows[name] / gain for name in ("value", "low", "high")})


def _top(rows: Table) -> float:
    return math.ceil(rows[["value", "high"]].max().max() * 10) / 10


def _panel(rows: Table, task: str, notes: list[str], last: int, domain: list[float]) -> alt.LayerChart:
    step = _WIDTH / (last + 2)
    kinds = [_MIXING, _DIFFERENTIAL]
    legend = alt.Legend(title=None, orient="top", symbolType="square", symbolSize=140, labelLimit=400)
    fill = alt.Fill("kind:N", scale=alt.Scale(domain=kinds, range=[COLOURS[0], "transparent"]), legend=legend)
    stroke = alt.Stroke("kind:N", scale=alt.Scale(domain=kinds, range=list(COLOURS[:2])), legend=legend)
    base = alt.Chart(rows, width=_WIDTH, height=_HEIGHT).encode(
        x=layer_axis(last, padding=step / 2 + 2),
        y=alt.Y("value:Q", title="share", scale=alt.Scale(domain=domain, nice=False), axis=alt.Axis(tickCount=5)),
        tooltip=[
            alt.Tooltip("layer:Q"),
            alt.Tooltip("kind:N"),
            *number_tips(),
        ],
    )
    # The solid bar is the narrower one: neither hides the other.
    solid = base.transform_filter(f"datum.kind == '{_MIXING}'")
    outlined = base.transform_filter(f"datum.kind == '{_DIFFERENTIAL}'")
    return alt.LayerChart(
        layer=[
            solid.mark_bar(size=step * 0.45, strokeWidth=0).encode(fill=fill, stroke=stroke),
            outlined.mark_bar(size=step * 0.8, strokeWidth=1.5).encode(fill=fill, stroke=stroke),
            interval_line(outlined, alt.Y("low:Q"), color=COLOURS[1]),
            interval_line(solid, alt.Y("low:Q"), color=INK),
            alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(color=INK).encode(y=alt.Y("zero:Q")),
        ],
        title=alt.TitleParams(title_of(task), subtitle=notes),
    )


def _divergences_in_words(tables: Tables) -> dict[str, list[str]]:
    """Task -> K(s) and K(D) with their intervals, as the paper prints them beside each task."""
    summary = rows_of(tables, "summary")
    names = {"K(s)": "kl_mixing", "K(D)": "kl_differential"}
    if summary is None or not set(names.values()) <= set(summary):
        return {}
    return {
        str(row["task"]): [
            _divergence(row, name, column) for name, column in names.items() if row[column] == row[column]
        ]
        for row in summary.to_dict("records")
    }


def _divergence(row: Mapping[Hashable, Any], name: str, column: str) -> str:
    interval = (row.get(f"{column}{end}", float("nan")) for end in ("", "_low", "_high"))
    return f"{name} {number(*interval)} bits"


def _missing(tables: Tables, task: str, rows: Table) -> list[str]:
    """What is not drawn, and why."""
    lines = []
    for kind, what, statistic in (
        (_MIXING, "mixing weights", "centre of gravity"),
        (_DIFFERENTIAL, "differential scores", "expected layer"),
    ):
        if kind not in set(rows["kind"]):
            reason = reasons_of(tables, statistic).get(task)
            lines += wrap(f"{what} n/a: {reason}" if reason else f"{what} not available", _LINE)
    return lines


def _norms(tables: Tables, last: int) -> list[alt.LayerChart]:
    """The layers' scales: where layers are not standardised, weights are confounded with them."""
    mixing = rows_of(tables, "mixing")
    if mixing is None or mixing["norm"].isna().all():
        return []
    # Each corpus of a suite has its own.
    by_layer = mixing.dropna(subset="norm").groupby("layer")["norm"]
    rows = by_layer.agg(["mean", "min", "max"]).reset_index().rename(columns={"mean": "norm"})
    step = _WIDTH / (last + 2)
    base = alt.Chart(rows, width=_WIDTH, height=_HEIGHT).encode(
        x=layer_axis(last, padding=step / 2 + 2),
        tooltip=[alt.Tooltip("layer:Q"), *number_tips("norm", "min", "max", form=".2f")],
    )
    bars = base.mark_bar(size=step * 0.8, color="#888888").encode(
        y=alt.Y("norm:Q", title="mean length", axis=alt.Axis(tickCount=5))
    )
    spread = base.mark_rule(color=INK).encode(y=alt.Y("min:Q"), y2=alt.Y2("max:Q"))
    subtitle = ["length of a vector", "lines: lowest to highest task"]
    return [alt.LayerChart(layer=[bars, spread], title=alt.TitleParams("Scale of the layers", subtitle=subtitle))]


def _in_words(rows: Table, tasks: list[str]) -> str:
    """Where each task's weights and gains are largest."""
    sentences = []
    for task in tasks:
        parts = []
        for kind in (_MIXING, _DIFFERENTIAL):
            kind_rows = rows[(rows["task"] == task) & (rows["kind"] == kind)]
            if len(kind_rows):
                top = kind_rows.iloc[kind_rows["value"].argmax()]
                parts.append(f"largest {kind} {top['value']:.2f} at layer {int(top['layer'])}")
        sentences.append(f"{title_of(task)}: {', '.join(parts) or 'not available'}.")
    return " ".join(sentences)


_ROW = 46
"""Height of one task."""
_SQUARE = {"keepShape": True, "fixed": True}
"""Of matrices: a cell is as large as its number needs."""
_BARS = 350
"""Width of the bars: with the columns of numbers, the figure fits on a page."""
_COLUMN = 50
"""Width of a column of numbers."""
_NARROW = {"room": 520, "panels": [0, 1], "field": "column", "values": ["P(L)"], "share": 1 / 3}
"""What is left on a narrow page: the bars, beside the score of the full probe."""


class PlaceStatistic(NamedTuple):
    """One of the two numbers that place a task, with its columns in the summary."""

    name: str
    value: str
    low: str
    high: str


_GRAVITY = PlaceStatistic("centre of gravity", "center_of_gravity", "cog_low", "cog_high")
_EXPECTED = PlaceStatistic("expected layer", "expected_layer", "el_low", "el_high")
_TWIN = "expected layer of the random-weights twin"
_MARKS = ("M0-1V1", "M0-1V1M-.35-1H.35M-.35 1H.35", "M0-1L1 0L0 1L-1 0Z")
"""SVG paths around 0, 0: a tick, a tick with feet, a diamond."""


_LINE_HEIGHT = 34
"""Of one task, where it has one bar."""
_ONE_WIDTH = 400
PUBLISHED = "published"
"""Name of the parameter that shows the paper's values."""


def pipeline(tables: Tables, title: str) -> alt.ConcatChart | None:
    """One bar per task: where its score is gained as layers are added, with its interval; the earliest on top."""
    summary = rows_of(tables, "summary")
    if summary is None or summary["expected_layer"].isna().all():
        return None
    tasks = in_order(tables)
    labels = _labels(tables, tasks)
    places = _places(tables, summary, labels)
    places = places[places["statistic"] == _EXPECTED.name]
    scores = {labels[row.task]: row.f1_full for row in each_row(summary)}
    metrics = {labels[task]: name for task, name in metric_of(tables).items() if task in labels}
    places = places.assign(
        score=[f"{metrics.get(task, 'score')} {_number(scores[task])}" for task in places["task"]],
        known=places["low"].notna() & places["high"].notna(),
    )
    names, last = list(labels.values()), last_layer(tables)
    highest = places[["layer", "high"]].max().max()
    x = layer_axis(last, padding=0, domain=(min(0.0, places[["layer", "low"]].min().min()), max(float(last), highest)))
    y = alt.Y("task:N", sort=names, title=None, axis=alt.Axis(ticks=False, domain=False, labelLimit=240))
    tooltip = [alt.Tooltip("task:N"), *_numbers("layer", "low", "high"), alt.Tooltip("score:N")]
    base = alt.Chart(places, width=_ONE_WIDTH, height=_LINE_HEIGHT * len(names)).encode(y=y, tooltip=tooltip)
    layers: list[alt.Chart] = [
        base.transform_filter("datum.known")
        .mark_bar(size=12, color=COLOURS[0], opacity=0.35)
        .encode(x=alt.X("low:Q"), x2=alt.X2("high:Q")),
        base.transform_filter("datum.why == ''")
        .mark_point(filled=True, size=110, color=COLOURS[0], opacity=1)
        .encode(x=x),
        base.mark_text(align="left", dx=8, fontSize=12, color=INK).encode(
            x=alt.value("width"), text=alt.Text("score:N")
        ),
        base.transform_filter("datum.why != ''")
        .mark_text(align="left", dx=4, fontSize=11, color=INK, limit=_ONE_WIDTH)
        .encode(x=alt.value(0), text=alt.Text("why:N")),
    ]
    below = [*_spread(tables), "points: the expected layer, where the score is gained as layers are added"]
    twins = _twins(summary, labels)
    if not twins.empty:
        layers.append(
            alt.Chart(twins)
            .mark_tick(orient="vertical", color=GREY, thickness=3, size=20)
            .encode(x=alt.X("layer:Q"), y=y, tooltip=[alt.Tooltip("mark:N"), *_numbers("layer", "low", "high")])
        )
        below.append("grey ticks: the random-weights twin; beside each task: the score with all layers")
    chart = alt.LayerChart(layer=layers)
    published = _references(tables, labels, last)
    if not published.empty:
        published = published[published["statistic"] == _EXPECTED.name]
        switch = alt.param(
            name=PUBLISHED, value=False, bind=alt.binding_checkbox(name="what Tenney, Das and Pavlick (2019) report ")
        )
        ticks = (
            alt.Chart(published)
            .mark_tick(orient="vertical", color=COLOURS[1], thickness=3, size=20)
            .encode(
                x=alt.X("layer:Q"),
                y=y,
                opacity=alt.condition(PUBLISHED, alt.value(1), alt.value(0)),
                tooltip=[alt.Tooltip("mark:N"), *_numbers("layer", "published")],
            )
        )
        chart = alt.LayerChart(layer=[*layers, ticks]).add_params(switch)
    return alt.concat(
        chart,
        title=alt.TitleParams(f"Where tasks are resolved: {title}", subtitle=below),
        description=_pipeline_in_words(tables, summary, tasks),
        usermeta={"panelWidth": _ONE_WIDTH},
    )


def statistics(tables: Tables, title: str) -> alt.ConcatChart | None:
    """Each task's score at the first and the full probe, its two places on the layer axis, and K of both."""
    summary = rows_of(tables, "summary")
    if summary is None or summary["f1_full"].isna().all():
        return None
    tasks = in_order(tables)
    labels = _labels(tables, tasks)
    places = _places(tables, summary, labels)
    marks = pd.concat([_twins(summary, labels), _references(tables, labels, last_layer(tables))], ignore_index=True)
    if not marks.empty:
        # Beside a number only: where there is none, its reason is.
        available = places.dropna(subset="layer")[["task", "statistic"]]
        marks = marks.merge(available, on=["task", "statistic"])
    panels = [_scores(summary, tables, labels), _bars(places, marks, labels, tables)]
    if {"kl_mixing", "kl_differential"} <= set(summary):
        panels.append(_divergence_columns(summary, labels))
    return alt.concat(
        *panels,
        columns=3,
        spacing=10,
        title=alt.TitleParams(
            f"Where tasks are resolved: {title}", subtitle=[*_spread(tables), *_marked_values(places), *_said_of(marks)]
        ),
        description=_pipeline_in_words(tables, summary, tasks),
        usermeta={"oneRow": True, "narrow": _NARROW},
    )


def _labels(tables: Tables, tasks: list[str]) -> dict[str, str]:
    """Task -> how its line is called; with its metric where tasks are scored by different ones."""
    metric = metric_of(tables)
    several = len({metric.get(task) for task in tasks}) > 1
    return {task: f"{title_of(task)} ({metric[task]})" if several else title_of(task) for task in tasks}


def _places(tables: Tables, summary: Table, labels: dict[str, str]) -> Table:
    """One row per task and statistic; missing numbers stay, and are shown as n/a with the reason."""
    parts = []
    for statistic in (_GRAVITY, _EXPECTED):
        reasons = reasons_of(tables, statistic.name)
        part = pd.DataFrame(
            {
                "task": summary["task"].map(labels),
                "statistic": statistic.name,
                "layer": summary[statistic.value],
                "low": summary[statistic.low],
                "high": summary[statistic.high],
                "reason": [reasons.get(task, "") for task in summary["task"]],
            }
        )
        parts.append(part)
    places = pd.concat(parts, ignore_index=True)
    # A number with a reason is one that --faithful prints where cumulative scores do not gain.
    places["said"] = [
        _number(layer) + "*" * bool(reason and layer == layer)
        for layer, reason in zip(places["layer"], places["reason"], strict=True)
    ]
    places["why"] = [
        f"n/a: {reason}" if reason and layer != layer else ""
        for layer, reason in zip(places["layer"], places["reason"], strict=True)
    ]
    places["zero"] = 0
    return places


def _twins(summary: Table, labels: dict[str, str]) -> Table:
    """The expected layers of the random-weights twin, where there are any."""
    columns = {"twin_expected_layer": "layer", "twin_el_low": "low", "twin_el_high": "high"}
    if not columns.keys() <= set(summary):
        return pd.DataFrame()
    rows = summary.rename(columns=columns)[["task", "layer", "low", "high"]].dropna(subset="layer")
    return rows.assign(task=rows["task"].map(labels), statistic=_EXPECTED.name, mark=_TWIN, published=float("nan"))


def _references(tables: Tables, labels: dict[str, str], last: int) -> Table:
    """The paper's values at the same share of the depth: at the value itself where the model has as many layers."""
    table = rows_of(tables, "reference")
    if table is None:
        return pd.DataFrame()
    names = {statistic.value: statistic.name for statistic in (_GRAVITY, _EXPECTED)}
    rows = pd.DataFrame(
        {
            "task": table["task"].map(labels),
            "statistic": table["statistic"].map(names),
            "mark": [f"{row.model}, {row.layers} layers" for row in each_row(table)],
            "layer": table["depth"] * last,
            "published": table["value"],
            "low": float("nan"),
            "high": float("nan"),
        }
    )
    return rows.dropna(subset="task")


def _marked_values(places: Table) -> list[str]:
    """What an asterisk means, where there is one."""
    some = places["said"].str.endswith("*").any()
    return (
        ["* the cumulative scores do not gain; printed as --faithful does, and compared with no other"] if some else []
    )


def _said_of(marks: Table) -> list[str]:
    """What the marks are, where a reader cannot guess it."""
    if marks.empty or marks["published"].isna().all():
        return []
    return ["ticks: what Tenney, Das and Pavlick (2019) report, moved to the same share of this model's depth"]


def _bars(places: Table, marks: Table, labels: dict[str, str], tables: Tables) -> alt.LayerChart:
    kinds, names, last = [_GRAVITY.name, _EXPECTED.name], list(labels.values()), last_layer(tables)
    lowest, highest = places[["layer", "low"]].min().min(), places[["layer", "high"]].max().max()
    domain = (min(0.0, lowest), max(float(last), highest))
    legend = alt.Legend(title=None, orient="top", symbolType="square", symbolSize=140, symbolStrokeWidth=2)
    fill = alt.Fill("statistic:N", scale=alt.Scale(domain=kinds, range=[COLOURS[0], "#ffffff"]), legend=legend)
    stroke = alt.Stroke("statistic:N", scale=alt.Scale(domain=kinds, range=list(COLOURS[:2])), legend=legend)
    x = layer_axis(last, padding=0, domain=domain)
    tooltip = [
        alt.Tooltip("task:N"),
        alt.Tooltip("statistic:N"),
        *_numbers("layer", "low", "high"),
        alt.Tooltip("reason:N"),
    ]
    base = alt.Chart(places, width=_BARS, height=_ROW * len(names)).encode(
        y=alt.Y("task:N", sort=names, axis=None), yOffset=alt.YOffset("statistic:N", sort=kinds)
    )
    spread = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
    available, missing = (base.transform_filter(f"datum.why {sign} ''") for sign in ("==", "!="))
    layers: list[alt.Chart] = [
        base.mark_bar(strokeWidth=2).encode(x=x, x2=alt.X2("zero:Q"), fill=fill, stroke=stroke, tooltip=tooltip),
        interval_line(spread, alt.X("low:Q"), color=INK, width=1.5),
        available.mark_text(align="left", dx=8, fontSize=12, color=INK).encode(
            x=alt.value("width"), text=alt.Text("said:N")
        ),
        missing.mark_text(align="left", dx=4, fontSize=11, color=INK, limit=_BARS + _COLUMN).encode(
            x=alt.value(0), text=alt.Text("why:N"), tooltip=tooltip
        ),
    ]
    if not marks.empty:
        layers.append(_marked(marks, names, kinds))
    return alt.LayerChart(layer=layers)


def _marked(marks: Table, names: list[str], kinds: list[str]) -> alt.Chart:
    """The twin's expected layer as a diamond, the paper's values as ticks."""
    ticks = sorted(set(marks["mark"]) - {_TWIN})
    mark_names = [*ticks, *([_TWIN] if _TWIN in set(marks["mark"]) else [])]
    looks = {name: (path, COLOURS[colour]) for name, path, colour in zip(ticks, _MARKS, (2, 3), strict=False)}
    looks[_TWIN] = (_MARKS[-1], GREY)
    legend = alt.Legend(title=None, orient="bottom", symbolSize=140, symbolStrokeWidth=2.5, columns=1, labelLimit=400)
    shapes, colours = ([looks[name][part] for name in mark_names] for part in (0, 1))
    return (
        alt.Chart(marks)
        .mark_point(size=200, strokeWidth=2.5, opacity=1)
        .encode(
            x=alt.X("layer:Q"),
            y=alt.Y("task:N", sort=names, axis=None),
            yOffset=alt.YOffset("statistic:N", sort=kinds),
            shape=alt.Shape("mark:N", scale=alt.Scale(domain=mark_names, range=shapes), legend=legend),
            color=alt.Color("mark:N", scale=alt.Scale(domain=mark_names, range=colours), legend=legend),
            tooltip=[
                alt.Tooltip("mark:N"),
                alt.Tooltip("task:N"),
                alt.Tooltip("statistic:N"),
                *_numbers("layer", "low", "high", "published"),
            ],
        )
    )


def _scores(summary: Table, tables: Tables, labels: dict[str, str]) -> alt.Chart:
    """The scores as columns of numbers, each task on the line of its bars."""
    constants = _constants(tables)
    rows = [
        {"task": labels[row.task], "column": column, "said": _number(value, ".3f")}
        for row in each_row(summary)
        for column, value in (("constant", constants.get(row.task)), ("P(0)", row.f1_first), ("P(L)", row.f1_full))
    ]
    metrics = {metric_of(tables).get(task, "score") for task in labels}
    title = metrics.pop() if len(metrics) == 1 else "score"
    return _columns(rows, ["constant", "P(0)", "P(L)"], title, labels, named=True)


def _divergence_columns(summary: Table, labels: dict[str, str]) -> alt.Chart:
    """K(s) and K(D): how far the mixing weights and the differential scores are from uniform."""
    rows = [
        {"task": labels[row.task], "column": column, "said": _number(value)}
        for row in each_row(summary)
        for column, value in (("K(s)", row.kl_mixing), ("K(D)", row.kl_differential))
    ]
    return _columns(rows, ["K(s)", "K(D)"], "bits", labels, named=False)


def _columns(rows: list[dict], columns: list[str], title: str, labels: dict[str, str], *, named: bool) -> alt.Chart:
    names = list(labels.values())
    axis = alt.Axis(ticks=False, domain=False, labelLimit=240) if named else None
    # Each column is as wide as its longest head.
    return (
        alt.Chart(pd.DataFrame(rows), width=_COLUMN * len(columns), height=_ROW * len(names), title=title)
        .mark_text(fontSize=12, color=INK)
        .encode(
            x=alt.X(
                "column:N",
                sort=columns,
                title=None,
                axis=alt.Axis(orient="top", labelAngle=0, ticks=False, domain=False),
            ),
            y=alt.Y("task:N", sort=names, title=None, axis=axis),
            text=alt.Text("said:N"),
        )
    )


def _constants(tables: Tables) -> dict[str, float]:
    """Task -> the best constant answer's score."""
    scores = pooled(tables)
    if scores is None:
        return {}
    constants = scores[(scores["probe"] == "constant") & (scores["of"] == "model")]
    return dict(zip(constants["task"], constants["value"], strict=True))


def _spread(tables: Tables) -> list[str]:
    """What the lines are: few seeds make no interval."""
    seeds, name = seed_count(tables), seeds_name(tables)
    if seeds >= FEW_SEEDS:
        return [f"lines: 95 % interval, over {seeds} {name}s and, for the expected layer, documents too"]
    if seeds > 1:
        return [f"lines: lowest to highest of {seeds} {name}s, not an interval; an order needs {FEW_SEEDS} seeds"]
    return [f"no lines, there is one seed; an order needs {FEW_SEEDS} seeds"]


def _numbers(*names: str) -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{name}:Q", format=".2f") for name in names]


def _number(value: float | None, form: str = ".2f") -> str:
    return "n/a" if value is None or value != value else format(value, form)


def _pipeline_in_words(tables: Tables, summary: Table, tasks: list[str]) -> str:
    """The figure for those who cannot see it."""
    by_task, metric = {row.task: row for row in each_row(summary)}, metric_of(tables)
    why = {statistic.name: reasons_of(tables, statistic.name) for statistic in (_GRAVITY, _EXPECTED)}
    sentences = []
    for task in tasks:
        row = by_task[task]
        places = []
        for statistic in (_EXPECTED, _GRAVITY):
            reason = why[statistic.name].get(task)
            places.append(
                f"{statistic.name} {_number(getattr(row, statistic.value))}{f' ({reason})' if reason else ''}"
            )
        sentences.append(
            f"{title_of(task)}: {metric.get(task, 'score')} {_number(row.f1_first)} at the first layer and "
            f"{_number(row.f1_full)} with all, {', '.join(places)}."
        )
    return " ".join(sentences)


_WIDE_CELL, _NARROW_CELL = 56, 42
_MANY_TASKS = 5
"""From this number of tasks on, cells are narrow and one matrix is below the other."""
_REASONS = 4
"""Most reasons that a figure names."""


def order(tables: Tables, title: str) -> alt.ConcatChart | None:
    """For each pair of tasks, how many layers apart they are, and which of them comes first for certain."""
    table = rows_of(tables, "order")
    if table is None or "difference" not in table or table["p_adjusted"].isna().all():
        return None
    names = [title_of(task) for task in in_order(tables)]
    turned = table.rename(columns={"task_a": "task_b", "task_b": "task_a"})
    turned["difference"] = -turned["difference"]
    turned["low"], turned["high"] = -table["high"], -table["low"]
    both = pd.concat([table, turned], ignore_index=True)
    clear = both["clear"].astype(bool)
    rows = both.assign(
        first=both["task_a"].map(title_of),
        second=both["task_b"].map(title_of),
        statistic=both["statistic"].map({statistic.value: statistic.name for statistic in (_GRAVITY, _EXPECTED)}),
        said=[
            _number(value) if p == p else "n/a" for value, p in zip(both["difference"], both["p_adjusted"], strict=True)
        ],
        sign=[(1 if value > 0 else -1) if sure else 0 for value, sure in zip(both["difference"], clear, strict=True)],
    )
    statistics = [(str(name), group) for name, group in rows.groupby("statistic") if group["p_adjusted"].notna().any()]
    subtitle = [
        "layers by which the column's task comes later than the row's",
        "shaded: order shown, p < .05 by max-T over all pairs of tasks; blue: the row's task comes first",
        *_untested_pairs(rows),
    ]
    heading = alt.TitleParams(f"Which task comes first: {title}", subtitle=subtitle, offset=24)
    panels = [_matrix(name, group, names) for name, group in statistics]
    columns = 2 if len(names) < _MANY_TASKS else 1
    words = _order_in_words(rows)
    return alt.concat(*panels, columns=columns, spacing=30, title=heading, description=words, usermeta=_SQUARE)


def _untested_pairs(rows: Table) -> list[str]:
    """Why pairs were not tested."""
    lines = []
    for statistic, group in rows[rows["p_adjusted"].isna()].groupby("statistic"):
        reasons = list(
            dict.fromkeys(part for reason in group["reason"].dropna() for part in str(reason).split("; ") if part)
        )
        more = [f"... and {len(reasons) - _REASONS} more reasons, in the table"] if len(reasons) > _REASONS else []
        lines += [f"n/a by {statistic}: {reason}" for reason in reasons[:_REASONS]] + more
    return lines


def _matrix(statistic: str, rows: Table, names: list[str]) -> alt.LayerChart:
    size = (_WIDE_CELL if len(names) < _MANY_TASKS else _NARROW_CELL) * len(names)
    base = alt.Chart(rows, width=size, height=size).encode(
        x=alt.X("second:N", sort=names, title="... before this task", axis=alt.Axis(labelAngle=-35, labelLimit=240)),
        y=alt.Y("first:N", sort=names, title="this task ...", axis=alt.Axis(labelLimit=240)),
    )
    tested = base.transform_filter("isValid(datum.p_adjusted)")
    # Blue (earlier), orange (later), white (order not shown); the number says the same.
    scale = alt.Scale(domain=[-1, 0, 1], range=[COLOURS[1], "#ffffff", COLOURS[0]], interpolate="rgb")
    colour = alt.Color("sign:Q", scale=scale, legend=None)
    ink = alt.when("datum.sign > 0").then(alt.value("#ffffff")).otherwise(alt.value(INK))
    tooltip = [
        alt.Tooltip("first:N"),
        alt.Tooltip("second:N"),
        *number_tips("difference", "low", "high", "p_adjusted"),
    ]
    return alt.LayerChart(
        layer=[
            tested.mark_rect(stroke=FAINT).encode(color=colour, tooltip=tooltip),
            base.mark_text(fontSize=12).encode(
                text=alt.Text("said:N"), color=ink, tooltip=[*tooltip, alt.Tooltip("reason:N")]
            ),
        ],
        title=alt.TitleParams(statistic, dy=-8),
    )


def _order_in_words(rows: Table) -> str:
    clear = rows[rows["sign"] > 0]
    parts = [
        f"{first} before {second} by {statistic}, {difference} layers"
        for first, second, statistic, difference in clear[["first", "second", "statistic", "said"]].itertuples(
            index=False
        )
    ]
    orders = "; ".join(parts) + "." if parts else "No task was shown to come before another."
    return " ".join(["Order of tasks.", orders, *(f"{line}." for line in _untested_pairs(rows))])
