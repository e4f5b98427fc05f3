"""The order of tasks across models: who resolves what first, and how often a whole order holds."""

from __future__ import annotations

from typing import Any

import altair as alt

from lamina.figures._marks import PANEL_WIDTH, interval_line
from lamina.figures.theme import Table, rows_of, series, themed
from lamina.results import Result
from lamina.tasks import title_of

CAPTIONS = {
    "order": (
        "How much later the second task of each pair is resolved than the first, as a share of each model's depth. "
        "Lines: 95 % interval, simultaneous over all pairs of tasks in all models. Compare with 0: right of it the "
        "first task comes first; what has no interval was not tested."
    ),
    "probability": (
        "Share of the draws of documents and seeds in which all tasks stand in the order asked about. Compare with "
        "the share of a random order: one over the number of orders."
    ),
}
"""Chart -> how to read it."""
_ROW = 18
_ENDS = ("difference", "low", "high")


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """`order`, pair by pair in every model; `probability` of the whole order."""
    charts: dict[str, Any] = {}
    rows = rows_of(result.tables, "order")
    if rows is not None and rows["difference"].notna().any():
        charts["order"] = _order(rows)
    chances = rows_of(result.tables, "models")
    if chances is not None and chances["probability"].notna().any():
        charts["probability"] = _probability(chances)
    return {name: themed(chart) for name, chart in charts.items()}


def _order(rows: Table) -> alt.LayerChart:
    known = rows.dropna(subset=["difference"])
    pairs = [f"{title_of(str(row.task_a))} before {title_of(str(row.task_b))}" for row in known.itertuples()]
    known = known.assign(pair=pairs)
    models, listed = list(dict.fromkeys(known["model"])), list(dict.fromkeys(pairs))
    look = series(models)
    base = alt.Chart(known, width=PANEL_WIDTH, height=_ROW * len(models) * len(listed)).encode(
        y=alt.Y("pair:N", sort=listed, title=None, axis=alt.Axis(labelLimit=320)),
        yOffset=alt.YOffset("model:N", sort=models),
        color=look.colour,
        tooltip=[
            alt.Tooltip("model:N"),
            alt.Tooltip("pair:N"),
            *(alt.Tooltip(f"{one}:Q", format=".3f") for one in _ENDS),
        ],
    )
    axis = alt.X("low:Q", title="share of the depth", axis=alt.Axis(tickCount=5))
    zero = alt.Chart(known.head(1).assign(zero=0.0)).mark_rule(strokeDash=[4, 3]).encode(x=alt.X("zero:Q"))
    layers = [
        zero,
        interval_line(base, axis),
        base.mark_point(filled=True, size=60, opacity=1).encode(x=alt.X("difference:Q"), shape=look.shape),
    ]
    first = known.iloc[0]
    return alt.LayerChart(
        layer=layers,
        title="Which of two tasks is resolved first",
        description=f"{len(listed)} pairs of tasks in {len(models)} models; {first.model}: {first.pair} by "
        f"{first.difference:.2f} of its depth.",
    )


def _probability(rows: Table) -> alt.Chart:
    known = rows.dropna(subset=["probability"])
    models = list(known["model"])
    return (
        alt.Chart(known, width=PANEL_WIDTH, height=_ROW * max(2, len(models)))
        .mark_bar()
        .encode(
            y=alt.Y("model:N", sort=models, title=None),
            x=alt.X("probability:Q", title="P(order)", scale=alt.Scale(domain=[0, 1])),
            tooltip=[alt.Tooltip("model:N"), alt.Tooltip("order:N"), alt.Tooltip("probability:Q", format=".2f")],
        )
        .properties(
            title=f"How often the order {known['hypothesis'].iloc[0]} holds",
            description="; ".join(f"{row.model}: {row.probability:.2f}" for row in known.itertuples()),
        )
    )
