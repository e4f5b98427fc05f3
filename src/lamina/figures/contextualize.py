"""Words in context: F1 by layer beside vectors without context, by context size, and after fine-tuning."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from lamina.figures.axes import layer_axis
from lamina.figures.context_tables import context_chart, finetuning_chart, histogram_chart, similarity_chart
from lamina.figures.probe_tables import Table
from lamina.figures.theme import INK, series, themed
from lamina.results import Result

PANEL_WIDTH = 430
_HEIGHT = 260


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """`layers` (the paper's two F1 figures), `context`, `contexts` and, where asked, `finetuning` and `attention`."""
    tables, split = result.tables, "dev" if result.provenance.parameters.get("faithful") else "test"
    title = f"{result.provenance.model['name']} on {result.provenance.corpus['name']}"
    scores = overall(tables["sclass"], split)
    charts = {
        "layers": layers_chart(scores, result.provenance.model["name"], title),
        "context": context_chart(overall(tables["context"], split), scores, title),
        "contexts": histogram_chart(tables["contexts"], title),
    }
    if "finetuning" in tables:
        charts["finetuning"] = finetuning_chart(tables["finetuning"], title)
        charts["attention"] = similarity_chart(tables["attention_similarity"], title)
    return {name: themed(chart) for name, chart in charts.items() if chart is not None}


def overall(table: Table, split: str) -> Table:
    """All classes and seeds together."""
    return table[(table["class"] == "all") & (table["seed"] == "all") & (table["split"] == split)]


def layers_chart(scores: Table, model: str, title: str) -> alt.ConcatChart:
    """Left: one vector a word. Right: one vector a context. Rows without layers are lines across."""
    contextual: Table = scores["representation"].eq(model) | scores["representation"].str.startswith(("P-", "permuted"))
    last = int(scores["layer"].max())
    top = float(scores["high"].max())
    panels = [
        _panel(scores[~contextual], "One vector a word", "the same in every context", last, top),
        _panel(scores[contextual], "One vector a context", "P-: mean of all vectors of the text", last, top),
    ]
    said = alt.TitleParams(f"Semantic classes by layer: {title}", subtitle="shaded: 95 % bootstrap interval over words")
    return alt.concat(
        *panels,
        columns=2,
        spacing=30,
        title=said,
        description=in_words(scores),
        usermeta={"panelWidth": PANEL_WIDTH},
    ).resolve_scale(color="independent", strokeDash="independent", shape="independent")


def in_words(scores: Table) -> str:
    """The best of each representation.

    Example:
        >>> rows = [("minilm", 0, 0.5), ("minilm", 1, 0.625), ("random", None, 0.25)]
        >>> in_words(pd.DataFrame(rows, columns=["representation", "layer", "value"]))
        'Best micro-F1: minilm 0.62 at layer 1; random 0.25.'
    """
    parts = []
    for name, own in scores.dropna(subset="value").groupby("representation", sort=False):
        best = own.loc[own["value"].idxmax()]
        where = "" if pd.isna(best["layer"]) else f" at layer {int(best['layer'])}"
        parts.append(f"{name} {best['value']:.2f}{where}")
    return f"Best micro-F1: {'; '.join(parts)}."


def _panel(rows: Table, title: str, reading: str, last: int, top: float) -> alt.LayerChart:
    flat: Table = rows["layer"].isna() | rows["representation"].str.startswith("permuted")
    names = list(dict.fromkeys([*rows[~flat]["representation"], *rows[flat]["representation"]]))
    look = series(names)
    spread = [rows[flat].assign(layer=layer) for layer in (0, last)]
    table = pd.concat([rows[~flat], *spread]).rename(columns={"representation": "model"})
    table = table.assign(layer=table["layer"].astype(float))
    base = alt.Chart(table, width=PANEL_WIDTH, height=_HEIGHT).encode(x=layer_axis(last), color=look.colour)
    scale = alt.Scale(domain=[0, min(1.0, round(top + 0.1, 1))])
    value = alt.Y("value:Q", title="micro-F1", scale=scale, axis=alt.Axis(tickCount=6))
    tooltip: list[Any] = [
        "model:N",
        "layer:Q",
        *(alt.Tooltip(f"{n}:Q", format=".3f") for n in ("value", "low", "high")),
    ]
    return alt.LayerChart(
        layer=[
            base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", title="micro-F1"), y2="high:Q"),
            base.mark_line(strokeWidth=2).encode(y=value, strokeDash=look.dash),
            base.mark_point(filled=True, size=45, opacity=1).encode(y=value, shape=look.shape, tooltip=tooltip),
        ],
        title=alt.TitleParams(title, subtitle=reading, color=INK),
    )
