"""A model at a glance: abilities by layer and heads by role, for the report's first screen and the app.

Both charts have the selection parameter `layer`: drawn together (`beside`), a layer pointed at lights up in both.
"""

from __future__ import annotations

import math
import warnings

import altair as alt
import pandas as pd

from lamina.figures.theme import BEHAVIOUR_LOOKS, FAINT, INK, SHADES, Table, themed
from lamina.results.finding import layers_in_words, number, rows_of

HOVERED = "layer"
"""Name of the selection parameter that both charts share."""
PANEL_WIDTH = 300
_ABILITIES, _HEADS = "What each layer can do", "What each head does"
_LABELS = {_ABILITIES: 225, _HEADS: 60}
"""Pixels beside each panel: a narrow page puts one below the other, as wide as its labels leave."""
_ROW = 30
_HEAD_ROW = 17
_PALE = 0.3
"""Opacity of roles that were not tested."""
_WIDE_ENOUGH = 26
"""Pixels of a cell that has room for its score."""

CAPTIONS = {
    "abilities": (
        "Score of each layer alone (numbers; hover for intervals). Shade: shown to be above both the random-weights "
        "twin at that layer and the best answer without context (p < .05, corrected by max-T; paired differences), the "
        "darker the farther above the larger of the two. No shade: not shown; italics: not tested. Frame: highest "
        "score; line below: layers that can be the best (95 % confidence set), where that was tested."
    ),
    "roles": (
        "One mark per head, by its most telling role; dots have none. A role requires a share of attention (or of "
        "right answers) by definition. Filled: p < .05, corrected by max-T over all heads, against uniform attention, "
        "for induction heads against the same tokens without a copy, for syntactic and coreference heads against the "
        "best simple rule. Hollow: tested and not shown. Pale: not tested, as broad attention."
    ),
}
"""Chart -> how to read it."""


def abilities(table: Table, width: int = PANEL_WIDTH) -> alt.LayerChart:
    """Abilities by layers, of `lamina.analyses.overview.ability_layers`; the earliest peak on top.

    Example:
        >>> from lamina.analyses.overview import ABILITIES
        >>> scores = ("Part of speech", "probe", "F1", 2, 0.9, 0.8, 1.0, 0.6, 0.2, 0.3)
        >>> row = (*scores, True, 2, 2, True, True, 99, "constant", "clear")
        >>> abilities(pd.DataFrame([row], columns=ABILITIES)).to_dict()["description"]
        'Part of speech: highest at layer 2, which is the best: F1 .90 [.80, 1.00], shown to be above twin .60 and \
constant .20.'
    """
    rows = table.assign(
        title=[f"{row.ability} ({row.metric})" for row in rows_of(table)],
        shade=table["above"].where(table["status"] == "clear", 0.0),
    )
    names = _by_peak(rows)
    layers = sorted(int(layer) for layer in rows["layer"].unique())
    ticks = layers[:: math.ceil(len(layers) / 13)]
    x = alt.X(
        "layer:O", title="layer (0 = embeddings)", axis=alt.Axis(values=ticks, labelAngle=0, ticks=False, domain=False)
    )
    axis = alt.Axis(ticks=False, domain=False, labelLimit=210, labelPadding=6)
    y = alt.Y("title:N", sort=names, title=None, axis=axis)
    tooltip = [
        alt.Tooltip("title:N", title="ability"),
        alt.Tooltip("layer:O"),
        *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("score", "low", "high", "twin", "constant", "above")),
        alt.Tooltip("baseline:N", title="constant is"),
        alt.Tooltip("status:N", title="above both"),
        alt.Tooltip("count:Q", title="targets", format=","),
    ]
    most = max(float(rows["shade"].max()), 0.01)
    shade = alt.Color(
        "shade:Q",
        scale=alt.Scale(domain=[0, most], range=list(SHADES), interpolate="lab", clamp=True),
        legend=alt.Legend(title="above twin and constant", orient="top", gradientLength=150, format=".2f", tickCount=3),
    )
    base = alt.Chart(rows, width=width, height=_ROW * len(names)).encode(x=x, y=y, tooltip=tooltip)
    hover = _hover()
    lit = alt.when(hover).then(alt.value(1)).otherwise(alt.value(0.7))
    cells = base.mark_rect(stroke=FAINT, strokeWidth=1).encode(color=shade, opacity=lit).add_params(hover)
    marks: list[alt.Chart] = [cells]
    if width / len(layers) >= _WIDE_ENOUGH:
        ink = alt.when(alt.datum.shade > 0.55 * most).then(alt.value("white")).otherwise(alt.value(INK))
        for style, untested in (("normal", False), ("italic", True)):
            subset = base.transform_filter((alt.datum.status == "untested") == untested)
            text = subset.mark_text(fontSize=11, fontStyle=style)
            marks.append(text.encode(text=alt.Text("score:Q", format=".2f"), color=ink))
    peaks = pd.DataFrame(rows[rows["peak"].astype(bool)])
    if len(peaks):
        best = alt.Chart(peaks).encode(y=y, x=alt.X("layer:O"))
        marks.append(best.mark_rect(fillOpacity=0, stroke=INK, strokeWidth=2, tooltip=None))
    among = pd.DataFrame(rows[rows["among_best"].astype(bool)])
    if len(among):
        # One piece per layer: layers between may be clearly worse.
        marks.append(
            alt.Chart(among)
            .mark_rule(color=INK, strokeWidth=3, yOffset=_ROW / 2 - 3)
            .encode(y=y, x=alt.X("layer:O", bandPosition=0), x2=alt.X2("layer", bandPosition=1))
        )
    return alt.LayerChart(layer=marks, title=alt.TitleParams(_ABILITIES), description=describe_abilities(table))


def roles(table: Table, width: int = PANEL_WIDTH) -> alt.LayerChart:
    """Heads by layers, each with its most telling role, of `lamina.analyses.overview.head_roles`.

    Example:
        >>> from lamina.analyses.overview import ROLES
        >>> row = (1, 3, "previous", "", "share of attention", 0.9, 0.8, 1.0, 0.5, "clear", True)
        >>> roles(pd.DataFrame([row], columns=ROLES)).to_dict()["description"]
        '1 head in 1 layer. previous: 1 (1-3). Shown by a corrected test: 1; tested and not shown: 0; not tested: 0.'
    """
    heads = pd.DataFrame(table[table["named"].astype(bool)])
    there = [name for name in BEHAVIOUR_LOOKS if name in set(heads["role"])]
    looks = [BEHAVIOUR_LOOKS[name] for name in there]
    layers, most = sorted(int(layer) for layer in heads["layer"].unique()), int(heads["head"].max())
    ticks = layers[:: math.ceil(len(layers) / 13)]
    x = alt.X("layer:O", title="layer", axis=alt.Axis(values=ticks, labelAngle=0, ticks=False, domain=False))
    y = alt.Y(
        "head:O",
        title="head",
        axis=alt.Axis(ticks=False, domain=False, values=list(range(1, most + 1, math.ceil(most / 12)))),
    )
    tooltip = [
        alt.Tooltip("layer:O"),
        alt.Tooltip("head:O"),
        alt.Tooltip("role:N"),
        alt.Tooltip("what:N", title="best at"),
        alt.Tooltip("measure:N"),
        *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("value", "low", "high", "over")),
        alt.Tooltip("status:N", title="beside its baseline"),
    ]
    legend = alt.Legend(title=None, orient="top", columns=4, symbolSize=80)
    colours = alt.Scale(domain=there, range=[look.colour for look in looks])
    shape = alt.Shape("role:N", scale=alt.Scale(domain=there, range=[look.shape for look in looks]), legend=legend)
    row = _HEAD_ROW if most <= 16 else max(8, 272 // most)
    hover = _hover()
    base = alt.Chart(heads, width=width, height=row * most).encode(x=x, y=y, tooltip=tooltip)
    # Cells catch the pointer between marks.
    cells = base.mark_rect(stroke=FAINT, strokeWidth=1, fill=SHADES[1]).encode(
        fillOpacity=alt.when(hover, empty=False).then(alt.value(0.14)).otherwise(alt.value(0))
    )
    marks = base.mark_point(size=min(row - 5, width / len(layers) - 1) ** 2, strokeWidth=1.5, opacity=1).encode(
        stroke=alt.Stroke("role:N", scale=colours, legend=legend),
        fill=alt.Fill("role:N", scale=colours, legend=legend),
        shape=shape,
        fillOpacity=(
            alt.when(alt.datum.status == "clear")
            .then(alt.value(1))
            .when(alt.datum.status == "untested")
            .then(alt.value(_PALE))
            .otherwise(alt.value(0))
        ),
    )
    return alt.LayerChart(
        layer=[cells.add_params(hover), marks],
        title=alt.TitleParams(_HEADS),
        description=describe_roles(heads),
    )


def beside(*panels: alt.LayerChart) -> alt.ConcatChart:
    """The charts together, linked by the layer that is pointed at."""
    with warnings.catch_warnings():
        # The parameter is the same on purpose: that is the link.
        warnings.filterwarnings("ignore", message="Automatically deduplicated selection parameter")
        beside = [_LABELS.get(str(panel.title["text"]), 0) for panel in panels]
        meta = {"panelWidth": PANEL_WIDTH, "cells": beside}
        chart = alt.concat(*panels, columns=len(panels), spacing=36, usermeta=meta)
        chart = alt.ConcatChart.from_dict(chart.to_dict())
    independent = "independent"
    return themed(
        chart.resolve_scale(color=independent, fill=independent, stroke=independent, shape=independent, x=independent)
    )


def describe_abilities(table: Table) -> str:
    """Each ability's peak, its interval and what it is compared with."""
    sentences = []
    for name, ability_rows in table.groupby("ability", sort=False):
        best = next(rows_of(ability_rows.nlargest(1, "score")))
        peak = f"highest at layer {best.layer} (probes had not converged: no peak):"
        if best.converged:
            among = [int(row.layer) for row in rows_of(ability_rows) if row.among_best]
            peak = f"highest at layer {best.layer}{_can_be_best(among, int(best.layer), len(ability_rows))}"
        beside = [
            f"{of} {number(value)}"
            for of, value in (("twin", best.twin), (best.baseline, best.constant))
            if value == value
        ]
        against = f"{_AGAINST[best.status]} {' and '.join(beside)}" if beside else ""
        sentences.append(f"{name}: {peak} {best.metric} {number(best.score, best.low, best.high)}{against}.")
    return " ".join(sentences)


_AGAINST = {
    "clear": ", shown to be above",
    "open": ", not shown to be above",
    "untested": "; not tested against",
}
"""Status of the highest score beside its baselines -> in words."""


def _can_be_best(among: list[int], highest: int, layers: int) -> str:
    """What is known of the best layer."""
    if not among:
        return ","
    if among == [highest]:
        return ", which is the best:"
    if len(among) == layers:
        return " (no layer was shown to be better than another):"
    return f" ({layers_in_words(among)} can be the best):"


def describe_roles(heads: Table) -> str:
    """How many heads have which role, and which they are."""
    layers = heads["layer"].nunique()
    sentences = [f"{len(heads)} head{'s' * (len(heads) > 1)} in {layers} layer{'s' * (layers > 1)}."]
    for role in BEHAVIOUR_LOOKS:
        names = [f"{row.layer}-{row.head}" for row in rows_of(heads[heads["role"] == role])]
        if names:
            sentences.append(f"{role}: {len(names)}" + ("." if role == "other" else f" ({', '.join(names)})."))
    clear, shown_not, untested = ((heads["status"] == status).sum() for status in ("clear", "open", "untested"))
    if clear + shown_not + untested:
        sentences.append(
            f"Shown by a corrected test: {clear}; tested and not shown: {shown_not}; not tested: {untested}."
        )
    return " ".join(sentences)


def _by_peak(rows: Table) -> list[str]:
    """Abilities by their best layer, the earliest on top; among equals the one that gains most."""
    best = rows.loc[rows.groupby("title", sort=False)["score"].idxmax()]
    return best.sort_values(["layer", "above"], ascending=[True, False], kind="stable")["title"].tolist()


def _hover() -> alt.Parameter:
    return alt.selection_point(name=HOVERED, fields=["layer"], on="pointerover", clear="pointerout")
