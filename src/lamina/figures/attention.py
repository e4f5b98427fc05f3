"""What heads look at: the atlas of all heads, the paper's figures 2 to 4 by layer, and the patterns of the maps."""

from __future__ import annotations

import math
from typing import NamedTuple

import altair as alt
import numpy as np
import pandas as pd

from lamina.analyses.heads.behaviours import FIRST
from lamina.analyses.heads.surface import constant_measures
from lamina.figures._marks import beside, by_layer, interval_band, layers_axis, number_tips
from lamina.figures.theme import COLOURS, FAINT, INK, SHADES, Table, attention_name, themed
from lamina.results import Result

CAPTIONS = {
    "atlas": (
        "One grid per measure, one cell per head: the mean over texts, to be compared with uniform attention in the "
        "grid's subtitle. A strongly shaded cell in a grid of shares is a head that does mostly this. "
        "The 95 % intervals are in the tooltips and the table."
    ),
    "layers": (
        "Share of attention by layer: one point per head, a line through the mean of a layer's heads, shaded for its "
        "95 % interval (documents resampled), dotted lines for uniform attention. Attention far above uniform to a "
        "token that says little (first token, separator, full stop) is often a no-op. Where no shading shows, the "
        "interval is narrower than the line; those of heads are in the tooltips."
    ),
    "entropy": (
        "How broadly heads look, in nats: one point per head, a line through the mean of a layer's heads, shaded "
        "for its 95 % interval. 0 is a single token, the dotted line is all tokens alike. The intervals "
        "of heads are in the tooltips."
    ),
    "patterns": (
        "Share of texts on which a head's map is of each type, as the mean over a layer's heads: stacked, and one line "
        "per type with its 95 % interval shaded (documents resampled). Types are assigned by a rule; it agreed with "
        "the eye on 67 % of 48 maps, which the interval does not cover. Block needs texts of two segments."
    ),
    "induction": (
        "Attention from repeated random tokens to the token after their earlier copy: one cell per head, and by layer "
        "beside the same tokens without a copy and the random-weights twin. Points are heads, lines the mean over a "
        "layer's heads; the 95 % intervals over sequences are in the tooltips and the table. A head far above both is "
        "an induction head: it finds what came next the last time."
    ),
    "gradients": (
        "How much the model's own loss would change with attention to each kind of token, on a logarithmic scale: one "
        "point per head, a line through the mean of a layer's heads, shaded for its 95 % interval. Compare with the "
        "shares of attention: much attention with little gradient is a no-op."
    ),
}
"""Chart -> how to read it."""

GRID_WIDTH = 330
"""Of one grid, about; cells are as wide as that allows."""

_WIDEST, _NARROWEST, _NUMBERED = 40, 8, 21
"""Of a cell, and from which width on a number fits into it."""

_HIGH = 20
"""A cell's height."""


def head_grid(
    rows: Table,
    title: alt.TitleParams,
    *,
    domain: tuple[float, float],
    unit: str,
    digits: int = 2,
) -> alt.LayerChart:
    """One grid; `rows` have `layer`, `head` and `value`. Grids of one `unit` and `domain` share a legend.

    Example:
        >>> import pandas as pd
        >>> rows = pd.DataFrame({"layer": [1, 1], "head": [1, 2], "value": [0.25, 0.75]})
        >>> grid = head_grid(rows, alt.TitleParams("to self"), domain=(0, 1), unit="share")
        >>> [layer["mark"]["type"] for layer in grid.to_dict()["layer"]]
        ['rect', 'text']
    """
    heads, layers = int(rows["head"].max()), int(rows["layer"].max())
    wide = cell_width(heads)
    legend = alt.Legend(title=unit, orient="top", gradientLength=200, titleFontWeight="normal", titleFontSize=13)
    scale = alt.Scale(domain=list(domain), range=list(SHADES), interpolate="lab", clamp=True)
    colour = alt.Color("value:Q", scale=scale, legend=legend)
    numbers = (alt.Tooltip(f"{name}:Q", format=".3f") for name in ("value", "low", "high") if name in rows)
    base = alt.Chart(rows, width=wide * heads, height=_HIGH * layers).encode(
        x=alt.X("head:O", title="head", axis=_axis(heads, wide)),
        y=alt.Y("layer:O", title="layer", axis=_axis(layers, _HIGH)),
        tooltip=[alt.Tooltip("layer:Q"), alt.Tooltip("head:Q"), *numbers],
    )
    cells: list[alt.Chart] = [base.mark_rect(stroke=FAINT, strokeWidth=1).encode(color=colour)]
    if wide >= _NUMBERED:
        # White on dark cells, ink on light ones.
        dark = alt.datum.value > domain[0] + 0.55 * (domain[1] - domain[0])
        shade = alt.when(dark).then(alt.value("white")).otherwise(alt.value(INK))
        text = alt.Text("value:Q", format=f".{digits}f")
        cells.append(base.mark_text(fontSize=9 if wide < 28 else 10).encode(text=text, color=shade))
    return alt.LayerChart(layer=cells, title=title)


def cell_width(heads: int) -> int:
    """As wide as the grid allows, within reason.

    Example:
        >>> cell_width(12), cell_width(2), cell_width(64)
        (27, 40, 8)
    """
    return max(_NARROWEST, min(_WIDEST, GRID_WIDTH // heads))


def _axis(count: int, step: int) -> alt.Axis:
    every = -(-18 // step)
    ticks = list(range(1, count + 1, every))
    return alt.Axis(values=ticks, labelAngle=0, ticks=False, domain=False)


SHARES = {
    "to_self": "To oneself",
    "to_previous": "To the previous token",
    "to_next": "To the next token",
    "to_first": "To the first token",
    "to_separator": "To separators",
    "to_punctuation": "To full stops and commas",
    "separator_to_separator": "From separators to separators",
    "other_to_separator": "From other tokens to separators",
}
ENTROPIES = {"entropy": "Entropy, all tokens", "entropy_first": "Entropy, first token"}
PATTERN_COLOURS = {
    "vertical": COLOURS[0],
    "diagonal": COLOURS[1],
    "vertical+diagonal": COLOURS[3],
    "block": COLOURS[2],
    "heterogeneous": "#bbbbbb",
}
TARGETS = {FIRST: "first token", "separator": "separators", "punctuation": ". and ,", "other": "other tokens"}
"""A decoder without separators has `FIRST` in their place."""


class Panel(NamedTuple):
    """Some measures in one panel, by layer."""

    title: str
    measures: dict[str, str]
    """Measure -> its name within the panel."""


_SPECIAL = "To special tokens"
PANELS = (
    Panel(_SPECIAL, {"to_first": "first token", "to_separator": "separators", "to_punctuation": ". and ,"}),
    Panel("To separators", {"separator_to_separator": "from separators", "other_to_separator": "from other tokens"}),
    Panel("To neighbours", {"to_self": "oneself", "to_previous": "previous token", "to_next": "next token"}),
)


def not_drawn(result: Result) -> dict[str, str]:
    """Chart -> what it leaves out, since no head could be any other way: a decoder's first token sees only itself."""
    drawn_measures = {"atlas": SHARES | ENTROPIES, "layers": SHARES, "entropy": ENTROPIES}
    constant = constant_measures(result.tables["surface"])
    notes = {}
    for chart, names in drawn_measures.items():
        left_out = [names[name][0].lower() + names[name][1:] for name in constant if name in names]
        if left_out:
            notes[chart] = f"Not drawn, since it is the same for every head by construction: {', '.join(left_out)}."
    return notes


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `atlas`, `layers`, `entropy`, `patterns` and, where there are any, `induction` and `gradients`.

    What is the same for every head by construction is not drawn; see `not_drawn`.
    """
    surface = result.tables["surface"]
    surface = surface[~surface["measure"].isin(constant_measures(surface))]
    corpus = result.provenance.corpus
    split = f" ({corpus['split']})" if corpus.get("split") else ""
    about = f"{result.provenance.model['name']} on {corpus['name']}{split}"
    layers, unit = result.tables.get("layers"), f"share of {attention_name(result)}"
    charts = {
        "atlas": _atlas(surface, about, unit),
        "layers": _layers(surface, layers, about, unit),
        "entropy": _entropy(surface, layers, about),
        "patterns": _patterns(result.tables["patterns"], layers, about),
    }
    if "induction" in result.tables:
        charts["induction"] = _induction(result.tables["induction"], about, unit)
    if "gradients" in result.tables:
        charts["gradients"] = _gradients(result.tables["gradients"], layers, about)
    return {name: themed(chart) for name, chart in charts.items()}


_INDUCTION = {"value": "with a copy", "unrepeated": "without a copy", "twin": "random-weights twin"}
"""Column -> what it is of."""


def _induction(table: Table, about: str, unit: str) -> alt.ConcatChart:
    uniform = f"uniform attention: {table['baseline'].iloc[0]:.2f}"
    grid = head_grid(
        table[["layer", "head", "value", "low", "high"]],
        alt.TitleParams("To the token after the copy", subtitle=uniform),
        domain=(0, 1),
        unit=unit,
    )
    names = {column: name for column, name in _INDUCTION.items() if table[column].notna().any()}
    spread = {"value": ("low", "high"), "twin": ("twin_low", "twin_high")}
    rows = pd.concat(
        table[["layer", "head", "baseline"]].assign(
            model=name,
            value=table[column],
            low=table[spread[column][0]] if column in spread else np.nan,
            high=table[spread[column][1]] if column in spread else np.nan,
        )
        for column, name in names.items()
    )
    lines = by_layer(rows, list(names.values()), "Beside the same without a copy", unit, (0, 1))
    top = table.iloc[int(table["value"].to_numpy().argmax())]
    description = (
        f"Most attention to the token after an earlier copy: layer {top['layer']:.0f}, head {top['head']:.0f}, "
        f"{top['value']:.2f}; without a copy {top['unrepeated']:.2f}, random-weights twin {top['twin']:.2f}."
    )
    title = alt.TitleParams(
        f"Induction: {about}", subtitle="points: heads; lines: mean over heads; dotted: uniform attention", offset=12
    )
    chart = alt.concat(grid, lines, columns=2, spacing=24, title=title, description=description)
    return chart.resolve_scale(color="independent", shape="independent").properties(usermeta={"panelWidth": GRID_WIDTH})


def _atlas(surface: Table, about: str, share: str) -> alt.ConcatChart:
    broadest = float(np.nanmax(surface.loc[surface["measure"].isin(list(ENTROPIES)), ["value", "baseline"]]))
    grids, shares = [], 0
    for measure, title in (SHARES | ENTROPIES).items():
        rows = _of(surface, measure)
        if rows.empty:
            continue
        nats = measure in ENTROPIES
        shares += not nats
        heading = alt.TitleParams(title, subtitle=f"uniform attention: {rows['baseline'].iloc[0]:.2f}")
        top, unit = (math.ceil(broadest), "nats") if nats else (1, share)
        grids.append(head_grid(rows, heading, domain=(0, top), unit=unit, digits=1 if nats else 2))
    # Shares and nats have a legend each.
    kinds = [grids[:shares], grids[shares:]]
    return alt.concat(
        *(alt.concat(*group, columns=2, spacing=20) for group in kinds if group),
        columns=1,
        title=f"Where every head of {about} looks",
        description=_strongest(surface),
        usermeta={"panelWidth": GRID_WIDTH},
    ).resolve_scale(color="independent")


def _layers(surface: Table, layers: Table | None, about: str, unit: str) -> alt.ConcatChart:
    panels = []
    for title, measures in PANELS:
        rows = _named(surface, "measure", measures)
        names = [name for name in measures.values() if name in set(rows["model"])]
        if names:
            means = _means_of(layers, "surface", measures)
            # A decoder's first token is one of the text.
            panel_title = (
                "To the first token and punctuation" if title == _SPECIAL and "separators" not in names else title
            )
            panels.append(by_layer(rows, names, panel_title, unit, (0, 1), means=means))
    whole = "Attention to special tokens and neighbours" if len(panels) > 2 else "Where attention goes"
    return beside(panels, f"{whole}: {about}", _means(surface, SHARES))


def _entropy(surface: Table, layers: Table | None, about: str) -> alt.ConcatChart:
    rows = surface[surface["measure"].isin(list(ENTROPIES))]
    top = math.ceil(np.nanmax(rows[["value", "baseline"]]))
    panels = [
        by_layer(
            _named(rows, "measure", {name: title}),
            [title],
            title,
            "nats",
            (0, top),
            means=_means_of(layers, "surface", {name: title}),
            legend=False,
        )
        for name, title in ENTROPIES.items()
        if (rows["measure"] == name).any()
    ]
    return beside(panels, f"How broadly heads look: {about}", _means(surface, ENTROPIES))


def _gradients(gradients: Table, layers: Table | None, about: str) -> alt.ConcatChart:
    # A head that nothing reads after it has gradients of 0, which a log scale cannot show.
    rows = _named(gradients[gradients["value"] > 0], "target", TARGETS)
    names = [name for name in TARGETS.values() if name in set(rows["model"])]
    band = _means_of(layers, "gradients", TARGETS)
    band = None if band is None else band[band["low"] > 0]
    panel = by_layer(rows, names, "By what attention goes to", "mean magnitude of the gradient", None, means=band)
    means = rows.groupby(["model", "layer"])["value"].mean()
    ends = "; ".join(f"{name} {_ends(means[name])}" for name in names)
    description = f"Mean magnitude of the gradient over heads, by what attention goes to: {ends}."
    return beside([panel], f"Gradient of the loss with respect to attention: {about}", description, uniform=False)


def _patterns(patterns: Table, layers: Table | None, about: str) -> alt.ConcatChart:
    rows = patterns.groupby(["layer", "pattern"], as_index=False)["share"].mean()
    # A block is within one of two segments: where texts have one, no map can be of that type.
    never = {"block"} if not (rows.loc[rows["pattern"] == "block", "share"] > 0).any() else set[str]()
    rows = rows[~rows["pattern"].isin(never)].copy()
    order = [name for name in PATTERN_COLOURS if name not in never]
    rows["rank"] = [order.index(name) for name in rows["pattern"]]
    last = int(rows["layer"].max())
    legend = alt.Legend(title=None, orient="top", symbolType="square", symbolSize=140, columns=3)
    colour = alt.Color(
        "pattern:N", scale=alt.Scale(domain=order, range=[PATTERN_COLOURS[name] for name in order]), legend=legend
    )
    width = max(260, 24 * last)
    bars = (
        alt.Chart(rows, width=width, height=220)
        .mark_bar(stroke="white", strokeWidth=1)
        .encode(
            x=alt.X("layer:O", title="layer", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("share:Q", title="share of maps", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5)),
            color=colour,
            order=alt.Order("rank:Q"),
            tooltip=[alt.Tooltip("layer:Q"), alt.Tooltip("pattern:N"), alt.Tooltip("share:Q", format=".3f")],
        )
        .properties(title="All types, stacked")
    )
    means = _means_of(layers, "patterns", {name: name for name in order})
    panels: list[alt.Chart | alt.LayerChart] = [bars]
    if means is not None and not means.empty:
        panels.append(_by_type(means, colour, width, last))
    overall = patterns.groupby("pattern")["share"].mean()
    shares_in_words = ", ".join(f"{name} {overall[name]:.2f}" for name in order if name in overall.index)
    title = alt.TitleParams(f"Types of attention map: {about}", subtitle="mean over the heads of a layer")
    described = f"Share of maps over all heads and texts: {shares_in_words}."
    return alt.concat(*panels, columns=2, spacing=24, title=title, description=described)


def _by_type(means: Table, colour: alt.Color, width: int, last: int) -> alt.LayerChart:
    """One line per type that occurs, with its interval."""
    there = means[means.groupby("model")["value"].transform("max") > 0].rename(columns={"model": "pattern"})
    unit, scale, x = "share of maps", alt.Scale(domain=[0, 1]), layers_axis(last)
    numbers = number_tips()
    base = alt.Chart(there, width=width, height=220).encode(x=x, color=colour)
    y = alt.Y("value:Q", title=unit, scale=scale, axis=alt.Axis(tickCount=5))
    return alt.LayerChart(
        layer=[
            interval_band(alt.Chart(there), alt.Y("low:Q", title=unit, scale=scale)).encode(x=x, color=colour),
            base.mark_line(strokeWidth=2).encode(y=y),
            base.mark_point(filled=True, size=40, opacity=1).encode(
                y=y, tooltip=[alt.Tooltip("layer:Q"), alt.Tooltip("pattern:N"), *numbers]
            ),
        ],
        title="Each type with its 95 % interval",
    )


def _means_of(layers: Table | None, of: str, names: dict[str, str]) -> Table | None:
    """The layers' means of these kinds, under the names they are shown by; None for results of older versions."""
    if layers is None:
        return None
    rows = layers[(layers["of"] == of) & layers["kind"].isin(list(names))].dropna(subset=["value", "low", "high"])
    return rows.assign(model=rows["kind"].map(names))


def _of(surface: Table, measure: str) -> Table:
    return surface[surface["measure"] == measure].dropna(subset="value")


def _named(table: Table, column: str, names: dict[str, str]) -> Table:
    """The rows of these kinds, under the names they are shown by."""
    rows = table[table[column].isin(list(names))].dropna(subset="value")
    return rows.assign(model=rows[column].map(names))


def _strongest(surface: Table) -> str:
    """Which head has most of each measure."""
    sentences = []
    for measure, title in (SHARES | ENTROPIES).items():
        rows = _of(surface, measure)
        if len(rows):
            top = rows.iloc[rows["value"].argmax()]
            place = f"layer {top['layer']}, head {top['head']}"
            sentences.append(f"{title}: most in {place}, {top['value']:.2f} (uniform {top['baseline']:.2f}).")
    return " ".join(sentences)


def _means(surface: Table, names: dict[str, str]) -> str:
    """Each measure's mean over heads, at the first and the last layer."""
    means = surface.dropna(subset="value").groupby(["measure", "layer"])["value"].mean()
    measures = [name for name in names if name in means.index.get_level_values(0)]
    return " ".join(f"{names[name]}, mean over heads: {_ends(means[name])}." for name in measures)


def _ends(means: pd.Series) -> str:
    ordered = means.sort_index()
    return ", ".join(f"{ordered[layer]:.2g} at layer {layer}" for layer in dict.fromkeys(ordered.index[[0, -1]]))
