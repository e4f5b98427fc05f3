"""Parsers out of attention: every system's score with its interval, and the weight each head got."""

from __future__ import annotations

import math

import altair as alt
import numpy as np
import pandas as pd

from lamina.figures._marks import interval_line, number_tips
from lamina.figures.theme import COLOURS, INK, Table, attention_name, themed
from lamina.results import Result

CAPTIONS = {
    "systems": (
        "UAS: share of words whose head is found; UUAS: share of links found, whichever way they point; lines: 95 % "
        "interval over documents (sentences where there is one), not corrected. Compare attention+words with "
        "distance+words, which sees no attention, and with the same probe over random blocks; compare attention-only "
        "with right-branching. The tests of these pairs are in the table of contrasts."
    ),
    "weights_attention_only": (
        "The weight of each head's map in the probe, without intervals: positive (blue) for a candidate, negative "
        "(orange) against it. Layers and heads count from 1; compare heads within a panel."
    ),
    "weights_attention_words": (
        "The weight of each head's map, which depends on the two words: the mean over scored words and their true "
        "heads, without intervals. Compare with the weights of attention-only."
    ),
}
"""Chart -> how to read it."""

ROW = 26
CELL = 26
PANEL_WIDTH = 420
MEASURES = {"uas": "UAS", "uuas": "UUAS, undirected"}
DIRECTIONS = {
    "dependent": "the dependent attends to its head",
    "head": "the head attends to its dependent",
    "first": "root: attention to the first token",
    "separator": "root: attention to separators",
}


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `systems` (UAS and UUAS of each system) and one grid of weights per probe that weights heads."""
    corpus = result.provenance.corpus
    split = f" ({corpus['split']})" if corpus.get("split") else ""
    title = f"{attention_name(result)} of {result.provenance.model['name']} on {corpus['name']}{split}"
    charts: dict[str, alt.TopLevelMixin] = {"systems": themed(_systems(result.tables["uas"], title))}
    for system, rows in result.tables["weights"].groupby("system", sort=False):
        if "random" not in str(system):
            charts[_chart(str(system))] = themed(_weights(str(system), pd.DataFrame(rows), title))
    return charts


def _chart(system: str) -> str:
    return f"weights_{system.replace('+', '_').replace('-', '_')}"


def not_drawn(result: Result) -> dict[str, str]:
    """Chart -> what it leaves out: for models without separators, a decoder's first token takes their place."""
    note = "Not drawn, since the model puts no separators into a text: the root's attention to separators."
    weights = result.tables["weights"]
    return {
        _chart(str(system)): note
        for system, rows in weights.groupby("system", sort=False)
        if "separator" not in _directions(pd.DataFrame(rows))
    }


def _directions(rows: Table) -> dict[str, str]:
    """The directions with weights of their own."""
    first, separator = (rows[rows["direction"] == name]["weight"].to_numpy() for name in ("first", "separator"))
    same = len(first) == len(separator) and np.allclose(first, separator, rtol=1e-5, atol=1e-7)
    return {name: title for name, title in DIRECTIONS.items() if name != "separator" or not same}


def describe(table: Table) -> str:
    """The scores in words, the best first.

    Example:
        >>> describe(pd.DataFrame([("right-branching", 0.3, 0.4, 0.29, 0.31)], columns=["system", *"abcd"][:5]))
        'right-branching: UAS 0.30, UUAS 0.40.'
    """
    return " ".join(
        f"{system}: " + ", ".join(f"{name} {value:.2f}" for name, value in scores if not math.isnan(value)) + "."
        for system, uas, uuas, *_ in table.itertuples(index=False)
        if (scores := (("UAS", uas), ("UUAS", uuas)))
    )


def _systems(table: Table, title: str) -> alt.ConcatChart:
    long = table.melt(["system", "low", "high"], list(MEASURES), "measure", "value").dropna(subset="value")
    # One interval per row: of UAS where there is one.
    other = (long["measure"] == "uuas") & long["system"].isin(table.loc[table["uas"].notna(), "system"])
    long.loc[other, ["low", "high"]] = float("nan")
    names = list(table["system"])
    kinds = list(MEASURES.values())
    long["kind"] = long["measure"].map(MEASURES)
    axis, scale = "share of words, or links, found", alt.Scale(domain=[0, 1])
    legend = alt.Legend(title=None, orient="top", symbolSize=110, symbolStrokeWidth=2)
    base = alt.Chart(long, width=PANEL_WIDTH, height=ROW * len(names)).encode(
        y=alt.Y("system:N", sort=names, title=None, axis=alt.Axis(labelLimit=280, grid=True)),
        tooltip=[
            alt.Tooltip("system:N"),
            alt.Tooltip("kind:N"),
            *number_tips(),
        ],
    )
    spread = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
    dots = base.mark_point(filled=True, size=90, opacity=1).encode(
        x=alt.X("value:Q", title=axis, scale=scale),
        color=alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=list(COLOURS[:2])), legend=legend),
        shape=alt.Shape("kind:N", scale=alt.Scale(domain=kinds, range=["circle", "diamond"]), legend=legend),
    )
    layers = [
        interval_line(spread, alt.X("low:Q", title=axis), color=INK),
        dots,
    ]
    heading = alt.TitleParams(
        f"Heads of words: {title}",
        subtitle=[
            "without punctuation; lines: 95 % interval over documents, narrower than the dot where none shows",
            "(of UAS; of UUAS where there is no UAS)",
        ],
    )
    return alt.concat(alt.LayerChart(layer=layers), title=heading, description=describe(table))


def _weights(system: str, rows: Table, title: str) -> alt.ConcatChart:
    most = float(rows["weight"].abs().max()) or 1.0
    heads, layers = int(rows["head"].max()), int(rows["layer"].max())
    colour = alt.Color(
        "weight:Q",
        title="weight",
        scale=alt.Scale(domain=[-most, 0, most], range=[COLOURS[1], "#f7f7f7", COLOURS[0]]),
        legend=alt.Legend(orient="right", gradientLength=120, format=".2f"),
    )
    tooltip = [alt.Tooltip("layer:O"), alt.Tooltip("head:O"), alt.Tooltip("weight:Q", format=".3f")]
    panels = []
    directions = _directions(rows)
    for direction, reading in directions.items():
        direction_rows = rows[rows["direction"] == direction]
        cells = alt.Chart(direction_rows, width=CELL * heads, height=CELL * layers).mark_rect(stroke="white")
        panels.append(
            cells.encode(
                x=alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0)),
                y=alt.Y("layer:O", title="layer", sort="descending"),
                color=colour,
                tooltip=tooltip,
            ).properties(title=reading)
        )
    over = "" if system == "attention-only" else ", means over scored words and their true heads"
    heading = alt.TitleParams(f"{system}: {title}", subtitle=f"the weight of each head's map{over}")
    description = f"{system}: " + "; ".join(
        f"{reading}, largest weight {top['weight']:.2f} of head {top['layer']:.0f}-{top['head']:.0f}"
        for direction, reading in directions.items()
        if (top := rows[rows["direction"] == direction].nlargest(1, "weight").iloc[0]) is not None
    )
    return alt.concat(*panels, columns=2, spacing=24, title=heading, description=description)
