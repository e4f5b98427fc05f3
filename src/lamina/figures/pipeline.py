"""The order of tasks: where on the layer axis each is resolved, and which comes before which."""

from __future__ import annotations

from typing import NamedTuple

import altair as alt
import pandas as pd

from lamina.figures.axes import layer_axis
from lamina.figures.probe_tables import (
    FEW_SEEDS,
    Table,
    Tables,
    in_order,
    last_layer,
    pooled,
    rows_of,
    seed_count,
    title_of,
)
from lamina.figures.theme import COLOURS, FAINT, INK

ROW = 46
"""Height of one task."""


class Statistic(NamedTuple):
    """One of the two numbers that place a task, with its columns in the summary."""

    name: str
    value: str
    low: str
    high: str


GRAVITY = Statistic("centre of gravity", "center_of_gravity", "cog_low", "cog_high")
EXPECTED = Statistic("expected layer", "expected_layer", "el_low", "el_high")


def pipeline(tables: Tables, title: str) -> alt.ConcatChart | None:
    """Each task's F1 at the first and the full probe, and its two places on the layer axis (the paper's figure 1)."""
    summary = rows_of(tables, "summary")
    if summary is None or summary[[GRAVITY.value, EXPECTED.value]].isna().all(axis=None):
        return None
    tasks = in_order(tables)
    names = [title_of(task) for task in tasks]
    places = _places(summary)
    bars = _bars(places, names, last_layer(tables))
    said = alt.TitleParams(f"Where tasks are resolved: {title}", subtitle=_spread(seed_count(tables)))
    return alt.concat(
        _f1(summary, tables, names),
        bars,
        columns=2,
        spacing=12,
        title=said,
        description=_in_words(summary, tasks),
    )


def order(tables: Tables, title: str) -> alt.ConcatChart | None:
    """For each pair of tasks, how likely one comes before the other."""
    table = rows_of(tables, "order")
    if table is None or table["probability"].isna().all():
        return None
    names = [title_of(task) for task in in_order(tables)]
    turned = table.rename(columns={"task_a": "task_b", "task_b": "task_a"})
    turned["probability"] = 1 - turned["probability"]
    # Both directions of each pair, whichever the table has.
    both = pd.concat([table, turned]).drop_duplicates(["task_a", "task_b", "statistic"])
    rows = both.assign(
        first=both["task_a"].map(title_of),
        second=both["task_b"].map(title_of),
        said=[_number(value, ".2f") for value in both["probability"]],
    )
    panels = [_matrix(str(statistic), group, names) for statistic, group in rows.groupby("statistic")]
    subtitle = "probability that the row's task comes before the column's"
    said = alt.TitleParams(f"Which task comes first: {title}", subtitle=subtitle, offset=24)
    return alt.concat(*panels, columns=2, spacing=30, title=said, description=_order_in_words(rows))


def _places(summary: Table) -> Table:
    """One row a task and statistic; missing numbers stay, and are said."""
    parts = []
    for each in (GRAVITY, EXPECTED):
        part = pd.DataFrame(
            {
                "task": summary["task"].map(title_of),
                "statistic": each.name,
                "layer": summary[each.value],
                "low": summary[each.low],
                "high": summary[each.high],
            }
        )
        parts.append(part)
    places = pd.concat(parts, ignore_index=True)
    places["said"] = [_number(value, ".2f") for value in places["layer"]]
    places["end"] = places[["layer", "high"]].max(axis=1).fillna(0.0)
    places["zero"] = 0
    return places


def _bars(places: Table, names: list[str], last: int) -> alt.LayerChart:
    kinds = [GRAVITY.name, EXPECTED.name]
    lowest, highest = places[["layer", "low"]].min(axis=None), places[["layer", "high"]].max(axis=None)
    # The number at a bar's end needs room to its right.
    domain = (min(0.0, lowest), max(float(last), highest) * 1.08)
    x = layer_axis(last, padding=0, domain=domain)
    legend = alt.Legend(title=None, orient="top", symbolType="square", symbolSize=140, symbolStrokeWidth=2)
    fill = alt.Fill("statistic:N", scale=alt.Scale(domain=kinds, range=[COLOURS[0], "#ffffff"]), legend=legend)
    stroke = alt.Stroke("statistic:N", scale=alt.Scale(domain=kinds, range=list(COLOURS[:2])), legend=legend)
    tooltip = ["task:N", "statistic:N", *(alt.Tooltip(f"{name}:Q", format=".2f") for name in ("layer", "low", "high"))]
    base = alt.Chart(places, width=420, height=ROW * len(names)).encode(
        y=alt.Y("task:N", sort=names, axis=None), yOffset=alt.YOffset("statistic:N", sort=kinds)
    )
    spread = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
    return alt.LayerChart(
        layer=[
            base.mark_bar(strokeWidth=2).encode(x=x, x2="zero:Q", fill=fill, stroke=stroke, tooltip=tooltip),
            spread.mark_rule(color=INK, strokeWidth=1.5).encode(x=alt.X("low:Q"), x2="high:Q"),
            base.mark_text(align="left", dx=6, fontSize=12, color=INK).encode(x=alt.X("end:Q"), text="said:N"),
        ]
    )


def _f1(summary: Table, tables: Tables, names: list[str]) -> alt.Chart:
    """The scores as columns of numbers, each task on the line of its bars."""
    rows = [
        {"task": title_of(task), "probe": probe, "said": _number(value, ".3f")}
        for task, first, full in zip(summary["task"], summary["f1_first"], summary["f1_full"], strict=True)
        for probe, value in (("constant", _constant(tables, task)), ("P(0)", first), ("P(L)", full))
    ]
    return (
        alt.Chart(pd.DataFrame(rows), width=160, height=ROW * len(names), title="F1")
        .mark_text(fontSize=12, color=INK)
        .encode(
            x=alt.X(
                "probe:N",
                sort=["constant", "P(0)", "P(L)"],
                title=None,
                axis=alt.Axis(orient="top", labelAngle=0, ticks=False, domain=False),
            ),
            y=alt.Y("task:N", sort=names, title=None, axis=alt.Axis(ticks=False, domain=False, labelLimit=240)),
            text="said:N",
        )
    )


def _constant(tables: Tables, task: str) -> float:
    scores = pooled(tables)
    if scores is None:
        return float("nan")
    found = scores.loc[(scores["task"] == task) & (scores["probe"] == "constant"), "value"]
    return float(found.iloc[0]) if len(found) else float("nan")


def _matrix(statistic: str, rows: Table, names: list[str]) -> alt.LayerChart:
    size = 56 * len(names)
    base = alt.Chart(rows, width=size, height=size).encode(
        x=alt.X("second:N", sort=names, title="... before this task", axis=alt.Axis(labelAngle=-35, labelLimit=240)),
        y=alt.Y("first:N", sort=names, title="this task ...", axis=alt.Axis(labelLimit=240)),
    )
    told = base.transform_filter("isValid(datum.probability)")
    # From orange (later) over white (no telling) to blue (earlier); the number says the same.
    scale = alt.Scale(domain=[0, 0.5, 1], range=[COLOURS[1], "#ffffff", COLOURS[0]], interpolate="rgb")
    colour = alt.Color("probability:Q", scale=scale, legend=None)
    ink = alt.when("datum.probability > 0.85").then(alt.value("#ffffff")).otherwise(alt.value(INK))
    tooltip = ["first:N", "second:N", alt.Tooltip("probability:Q", format=".3f")]
    return alt.LayerChart(
        layer=[
            told.mark_rect(stroke=FAINT).encode(color=colour, tooltip=tooltip),
            base.mark_text(fontSize=12).encode(text="said:N", color=ink),
        ],
        title=alt.TitleParams(statistic.replace("_", " ").replace("center", "centre"), dy=-8),
    )


def _spread(seeds: int) -> list[str]:
    """What the lines are: resampling sentences cannot move the centre of gravity, so few seeds make no interval."""
    if seeds >= FEW_SEEDS:
        return [f"lines: 95 % interval, over {seeds} seeds and, for the expected layer, sentences too"]
    ranged = f"lowest to highest of {seeds} seeds, which is no interval" if seeds > 1 else "none, there is one seed"
    return [
        f"lines, centre of gravity: {ranged}",
        f"lines, expected layer: 95 % bootstrap interval over sentences and {seeds} seed{'s' * (seeds > 1)}",
    ]


def _number(value: float, form: str) -> str:
    return "n/a" if value != value else format(value, form)


def _in_words(summary: Table, tasks: list[str]) -> str:
    """The figure for those who cannot see it."""
    by_task = summary.set_index("task")
    sentences = []
    for task in tasks:
        row = by_task.loc[task]
        sentences.append(
            f"{title_of(task)}: F1 {_number(row['f1_first'], '.2f')} at the first layer and "
            f"{_number(row['f1_full'], '.2f')} with all, expected layer {_number(row['expected_layer'], '.2f')}, "
            f"centre of gravity {_number(row['center_of_gravity'], '.2f')}."
        )
    return " ".join(sentences)


def _order_in_words(rows: Table) -> str:
    likely = rows[rows["probability"] > 0.5]
    parts = [
        f"{first} before {second} by {statistic.replace('_', ' ')}: {said}"
        for first, second, statistic, said in likely[["first", "second", "statistic", "said"]].itertuples(index=False)
    ]
    return "Probabilities of order. " + "; ".join(parts) + "."
