"""What the full probe mixes and what each layer adds, task by task: the pipeline paper's figure 2."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from textwrap import wrap
from typing import Any

import altair as alt
import pandas as pd

from lamina.figures.theme import (
    COLOURS,
    INK,
    Table,
    Tables,
    in_order,
    last_layer,
    layer_axis,
    pooled,
    reasons_of,
    rows_of,
    seed_count,
    title_of,
)
from lamina.findings import number

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
    divergences = _divergences(tables)
    panels: list[alt.LayerChart] = []
    for task in tasks:
        own = rows[rows["task"] == task]
        panels.append(_panel(own, task, [*divergences.get(task, ()), *_missing(tables, task, own)], last, domain))
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
    full = full[~full["task"].isin(_untold(tables))]
    found = full.groupby(["task", "layer"], sort=False)["weight"].agg(["mean", "min", "max"]).reset_index()
    found.columns = _NUMBERS
    return found.assign(kind=_MIXING)


def _untold(tables: Tables) -> list[str]:
    """Tasks whose full probe has not converged: neither their weights' centre nor their divergence is told."""
    divergences = _divergences(tables)
    told = {task for task, said in divergences.items() if any(each.startswith("K(s)") for each in said)}
    return [task for task in reasons_of(tables, "centre of gravity") if task not in told]


def differential_rows(tables: Tables) -> Table:
    """D(l) / (best score - score of P(0)) with its interval; none for a task that has no expected layer."""
    scores, summary = pooled(tables), rows_of(tables, "summary")
    if scores is None or summary is None:
        return pd.DataFrame()
    told = set(summary.loc[summary["expected_layer"].notna(), "task"])
    own = scores[(scores["probe"] == "cumulative") & (scores["of"] == "model") & scores["task"].isin(told)]
    parts = []
    for task, group in own.groupby("task", sort=False):
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
        own = steps[(steps["task"] == task) & (steps["probe"] == "cumulative")]
        rows = own.rename(columns={"difference": "value"})[_NUMBERS]
    return rows.assign(**{name: rows[name] / gain for name in ("value", "low", "high")})


def _top(rows: Table) -> float:
    return math.ceil(rows[["value", "high"]].max().max() * 10) / 10


def _panel(rows: Table, task: str, told: list[str], last: int, domain: list[float]) -> alt.LayerChart:
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
            *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("value", "low", "high")),
        ],
    )
    # The solid bar is the narrower one: neither hides the other.
    solid = base.transform_filter(f"datum.kind == '{_MIXING}'")
    outlined = base.transform_filter(f"datum.kind == '{_DIFFERENTIAL}'")
    return alt.LayerChart(
        layer=[
            solid.mark_bar(size=step * 0.45, strokeWidth=0).encode(fill=fill, stroke=stroke),
            outlined.mark_bar(size=step * 0.8, strokeWidth=1.5).encode(fill=fill, stroke=stroke),
            outlined.mark_rule(color=COLOURS[1]).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q")),
            solid.mark_rule(color=INK).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q")),
            alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(color=INK).encode(y=alt.Y("zero:Q")),
        ],
        title=alt.TitleParams(title_of(task), subtitle=told),
    )


def _divergences(tables: Tables) -> dict[str, list[str]]:
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
        tooltip=[alt.Tooltip("layer:Q"), *(alt.Tooltip(f"{name}:Q", format=".2f") for name in ("norm", "min", "max"))],
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
            own = rows[(rows["task"] == task) & (rows["kind"] == kind)]
            if len(own):
                top = own.iloc[own["value"].argmax()]
                parts.append(f"largest {kind} {top['value']:.2f} at layer {int(top['layer'])}")
        sentences.append(f"{title_of(task)}: {', '.join(parts) or 'not available'}.")
    return " ".join(sentences)
