"""What the full probe mixes and what each layer adds, task by task (the pipeline paper's figure 2)."""

from __future__ import annotations

import math

import altair as alt
import pandas as pd

from lamina.figures.axes import layer_axis
from lamina.figures.probe_tables import Table, Tables, in_order, last_layer, pooled, rows_of, seed_count, title_of
from lamina.figures.theme import COLOURS, INK

PANEL_WIDTH = 220
MIXING, DIFFERENTIAL = "mixing weight", "differential score, normalised"


def weights(tables: Tables, title: str) -> alt.ConcatChart | None:
    """Each task's mixing weights (solid) and normalised differential scores (outlined) by layer."""
    parts = [part for part in (mixing_rows(tables), differential_rows(tables)) if not part.empty]
    if not parts:
        return None
    rows = pd.concat(parts, ignore_index=True)
    last = last_layer(tables)
    domain = [min(0.0, math.floor(rows[["value", "low"]].min(axis=None) * 10) / 10), _top(rows)]
    tasks = [task for task in in_order(tables) if task in set(rows["task"])]
    panels: list[alt.LayerChart] = [_panel(rows[rows["task"] == task], last, domain) for task in tasks]
    norms = _norms(tables, last)
    subtitle = ["lines on solid bars: lowest to highest seed"] if seed_count(tables) > 1 else []
    return alt.concat(
        *panels,
        *norms,
        columns=3,
        spacing=24,
        title=alt.TitleParams(f"What is mixed and what each layer adds: {title}", subtitle=subtitle),
        description=_in_words(rows, tasks),
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def mixing_rows(tables: Tables) -> Table:
    """Weights of the probes that mix all layers: their mean over seeds, and the lowest and the highest."""
    mixing = rows_of(tables, "mixing")
    if mixing is None:
        return pd.DataFrame()
    full = mixing[mixing["upto"] == mixing["upto"].max()]
    found = full.groupby(["task", "layer"], sort=False)["weight"].agg(["mean", "min", "max"]).reset_index()
    found.columns = ["task", "layer", "value", "low", "high"]
    return found.assign(kind=MIXING)


def differential_rows(tables: Tables) -> Table:
    """D(l) / (best score - F1(P(0))); none for a task whose gain cannot be told from 0."""
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
            steps = (by_layer.diff() / gain).iloc[1:]
            parts.append(pd.DataFrame({"task": task, "layer": steps.index, "value": steps.to_numpy()}))
    if not parts:
        return pd.DataFrame()
    return pd.concat(parts, ignore_index=True).assign(low=float("nan"), high=float("nan"), kind=DIFFERENTIAL)


def _top(rows: Table) -> float:
    return math.ceil(rows[["value", "high"]].max(axis=None) * 10) / 10


def _panel(rows: Table, last: int, domain: list[float]) -> alt.LayerChart:
    step = PANEL_WIDTH / (last + 2)
    kinds = [MIXING, DIFFERENTIAL]
    legend = alt.Legend(title=None, orient="top", symbolType="square", symbolSize=140, labelLimit=400)
    fill = alt.Fill("kind:N", scale=alt.Scale(domain=kinds, range=[COLOURS[0], "transparent"]), legend=legend)
    stroke = alt.Stroke("kind:N", scale=alt.Scale(domain=kinds, range=list(COLOURS[:2])), legend=legend)
    base = alt.Chart(rows, width=PANEL_WIDTH, height=150).encode(
        x=layer_axis(last, padding=step / 2 + 2),
        y=alt.Y("value:Q", title="share", scale=alt.Scale(domain=domain, nice=False), axis=alt.Axis(tickCount=5)),
        tooltip=["layer:Q", "kind:N", *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("value", "low", "high"))],
    )
    # The solid bar is the narrower one: neither hides the other.
    solid = base.transform_filter(f"datum.kind == '{MIXING}'")
    outlined = base.transform_filter(f"datum.kind == '{DIFFERENTIAL}'")
    return alt.LayerChart(
        layer=[
            solid.mark_bar(size=step * 0.45, strokeWidth=0).encode(fill=fill, stroke=stroke),
            outlined.mark_bar(size=step * 0.8, strokeWidth=1.5).encode(fill=fill, stroke=stroke),
            solid.mark_rule(color=INK).encode(y="low:Q", y2="high:Q"),
            alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(color=INK).encode(y="zero:Q"),
        ],
        title=alt.TitleParams(title_of(str(rows["task"].iloc[0])), subtitle=_missing(rows)),
    )


def _missing(rows: Table) -> str:
    if DIFFERENTIAL not in set(rows["kind"]):
        return "differential scores not available"
    return "" if MIXING in set(rows["kind"]) else "mixing weights not available"


def _norms(tables: Tables, last: int) -> list[alt.LayerChart]:
    """Weights are confounded with the layers' scales, so the scales stand beside them."""
    mixing = rows_of(tables, "mixing")
    if mixing is None or mixing["norm"].isna().all():
        return []
    rows = mixing.dropna(subset="norm").drop_duplicates("layer")[["layer", "norm"]]
    step = PANEL_WIDTH / (last + 2)
    bars = (
        alt.Chart(rows, width=PANEL_WIDTH, height=150)
        .mark_bar(size=step * 0.8, color="#888888")
        .encode(
            x=layer_axis(last, padding=step / 2 + 2),
            y=alt.Y("norm:Q", title="mean length", axis=alt.Axis(tickCount=5)),
            tooltip=["layer:Q", alt.Tooltip("norm:Q", format=".2f")],
        )
    )
    return [alt.LayerChart(layer=[bars], title=alt.TitleParams("Scale of the layers", subtitle="length of a vector"))]


def _in_words(rows: Table, tasks: list[str]) -> str:
    """Where each task's weights and gains are largest."""
    sentences = []
    for task in tasks:
        parts = []
        for kind in (MIXING, DIFFERENTIAL):
            own = rows[(rows["task"] == task) & (rows["kind"] == kind)]
            if len(own):
                top = own.loc[own["value"].idxmax()]
                parts.append(f"largest {kind} {top['value']:.2f} at layer {int(top['layer'])}")
        sentences.append(f"{title_of(task)}: {', '.join(parts)}.")
    return " ".join(sentences)
