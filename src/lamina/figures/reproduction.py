"""Published numbers beside ours, as one chart per table."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lamina.figures.theme import COLOURS, GREY

_PANEL = 230
_ROW = 18


def published_and_ours(numbers: pd.DataFrame, title: str) -> alt.HConcatChart | None:
    """One panel per column of the paper's table: hollow marks are published, solid ones ours; None where ours lack.

    Example:
        >>> published_and_ours(pd.DataFrame({"ours": [float("nan")]}), "Table 1") is None
        True
    """
    if numbers["ours"].isna().all():
        return None
    rows = list(dict.fromkeys(numbers["row"].astype(str)))
    panels = []
    for column, part in numbers.groupby("column", sort=False):
        data = part.assign(row=part["row"].astype(str))[["row", "published", "ours", "low", "high", "unit"]]
        y = alt.Y("row:N", sort=rows, title=None, axis=alt.Axis(labelLimit=220))
        unit = str(data["unit"].iloc[0])
        base = alt.Chart(data)
        axis = alt.Scale(zero=False)
        published = base.mark_point(size=55, color=GREY, strokeWidth=2).encode(
            x=alt.X("published:Q", title=unit, scale=axis), y=y, tooltip=["row", "published"]
        )
        ours = base.mark_circle(size=55, color=COLOURS[0]).encode(
            x=alt.X("ours:Q", scale=axis), y=y, tooltip=["row", "published", "ours", "low", "high"]
        )
        bars = base.mark_rule(color=COLOURS[0]).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y)
        panels.append(
            alt.layer(bars, published, ours).properties(width=_PANEL, height=_ROW * len(rows), title=str(column))
        )
    count = int(numbers["ours"].notna().sum())
    return alt.hconcat(*panels).properties(
        title=alt.TitleParams(title, subtitle=["hollow: published; solid: ours, with its 95 % interval"]),
        description=f"{count} of {len(numbers)} published numbers have one of ours beside them.",
    )
