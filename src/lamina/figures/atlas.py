"""Numbers of many cells by relative depth: for the pages of an atlas."""

from __future__ import annotations

from typing import Any, cast

import altair as alt
import pandas as pd

from lamina.figures import spec_of
from lamina.figures._marks import PANEL_WIDTH, interval_line
from lamina.figures.theme import series, themed

_MOST_SERIES = 8
_MOST_PANELS = 6
_HEIGHT = 180
_NUMBERS = ("value", "low", "high")
_OTHERS = {"model": ("task", "measure"), "task": ("model", "measure"), "measure": ("model", "task")}
"""What a page is about -> what its lines and its panels are."""


def by_depth(rows: pd.DataFrame, kind: str, *, most: int) -> Any | None:
    """The chart of one page: a line per model (of a model's page, per task), a panel per measure (or task).

    Args:
        rows: of `cells.parquet`.
        kind: what the page is about: model, task or measure.
        most: rows that are drawn.
    """
    line, panel = _OTHERS[kind]
    known = rows.dropna(subset=["relative_depth", "value"])
    known = known[~known["measure"].str.contains("untrained twin|control labels", regex=True)]
    if known.empty:
        return None
    panels = list(known[panel].value_counts().head(_MOST_PANELS).index)
    lines = list(known[line].value_counts().head(_MOST_SERIES).index)
    known = known[known[panel].isin(panels) & known[line].isin(lines)].head(most)
    known = known.assign(series=known[line].replace("", "all"))
    names = sorted(set(known["series"]))
    scale = cast(Any, series(names).colour.to_dict()).get("scale", alt.Undefined)
    charts = []
    for name in panels:
        part = known[known[panel] == name][["series", "relative_depth", "value", "low", "high", "corpus"]]
        if part.empty:
            continue
        base = alt.Chart(part, width=PANEL_WIDTH, height=_HEIGHT).encode(
            x=alt.X("relative_depth:Q", title="share of the depth", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color("series:N", title=line, scale=scale),
            tooltip=[
                alt.Tooltip("series:N"),
                alt.Tooltip("corpus:N"),
                *(alt.Tooltip(f"{one}:Q", format=".3f") for one in _NUMBERS),
            ],
        )
        y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=False))
        charts.append(
            alt.LayerChart(
                layer=[
                    interval_line(base, alt.Y("low:Q"), width=1.5, opacity=0.6),
                    base.mark_line(strokeWidth=1.5).encode(y=y, detail=alt.Detail("corpus:N")),
                    base.mark_point(filled=True, size=35).encode(y=y),
                ],
                title=str(name) or "all",
            )
        )
    left = known[panel].nunique() - len(charts)
    low, high = known["value"].min(), known["value"].max()
    words = f"Panels: {len(charts)}; lines: {len(names)}; from {low:.2f} to {high:.2f}."
    chart = alt.concat(*charts, columns=2, spacing=24, description=words, usermeta={"panelWidth": PANEL_WIDTH})
    chart = chart.properties(title=f"By layer{f'; {left} more panels are in the table' if left > 0 else ''}")
    return spec_of(themed(chart))
