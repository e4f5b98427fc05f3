"""What heads look at: the atlas of all heads, the paper's figures 2 to 4 by layer, and the patterns of the maps."""

from __future__ import annotations

import math
from typing import NamedTuple

import altair as alt
import numpy as np
import pandas as pd

from lamina.figures.theme import COLOURS, FAINT, INK, Table, series, themed
from lamina.results import Result

CAPTIONS = {
    "atlas": (
        "One grid per measure, one cell per head: the mean over texts, to be compared with uniform attention in the "
        "grid's subtitle. A dark cell in a grid of shares is a head that does mostly this. The 95 % intervals are in "
        "the tooltips and the table."
    ),
    "layers": (
        "Share of attention by layer: one point per head, a line through the mean of a layer's heads, dotted lines for "
        "uniform attention. Attention far above uniform to a token that says little (first token, separator, full "
        "stop) is often a no-op. The 95 % intervals of heads are in the tooltips."
    ),
    "entropy": (
        "How broadly heads look, in nats: one point per head, a line through the mean of a layer's heads. 0 is a "
        "single token, the dotted line is all tokens alike. In a decoder the first token sees only itself, so its "
        "entropy is 0. The 95 % intervals of heads are in the tooltips."
    ),
    "patterns": (
        "Share of texts on which a head's map is of each type, as the mean over a layer's heads; without intervals. "
        "Block needs texts of two segments."
    ),
    "gradients": (
        "How much the model's own loss would change with attention to each kind of token, on a logarithmic scale: one "
        "point per head, a line through the mean of a layer's heads; without intervals. Compare with the shares of "
        "attention: much attention with little gradient is a no-op."
    ),
}
"""Chart -> how to read it."""

GRID_WIDTH = 330
"""Of one grid, about; cells are as wide as that allows."""

_WIDEST, _NARROWEST, _NUMBERED = 40, 8, 21
"""Of a cell, and from which width on a number fits into it."""

_SHADES = ("#ffffff", "#08458c")
"""One hue, from light to dark: the order holds in grey and for all eyes."""

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
    scale = alt.Scale(domain=list(domain), range=list(_SHADES), interpolate="lab", clamp=True)
    colour = alt.Color("value:Q", scale=scale, legend=legend)
    numbers = (alt.Tooltip(f"{name}:Q", format=".3f") for name in ("value", "low", "high") if name in rows)
    base = alt.Chart(rows, width=wide * heads, height=_HIGH * layers).encode(
        x=alt.X("head:O", title="head", axis=_axis(heads, wide)),
        y=alt.Y("layer:O", title="layer", axis=_axis(layers, _HIGH)),
        tooltip=["layer:Q", "head:Q", *numbers],
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
    shown = list(range(1, count + 1, every))
    return alt.Axis(values=shown, labelAngle=0, ticks=False, domain=False)


PANEL_WIDTH = 330


def by_layer(
    rows: Table,
    names: list[str],
    title: str,
    unit: str,
    domain: tuple[float, float] | None,
    *,
    legend: bool = True,
) -> alt.LayerChart:
    """Heads as points, a line through their means, dotted for uniform attention; a log scale without a `domain`."""
    look = series(names)
    colour, shape = (look.colour, look.shape) if legend else (look.colour.legend(None), look.shape.legend(None))
    last = int(rows["layer"].max())
    # Side by side: series would hide each other.
    offsets = {name: (at - (len(names) - 1) / 2) * 0.14 for at, name in enumerate(names)}
    rows = rows.assign(place=rows["layer"] + rows["model"].map(offsets).astype(float))
    base = alt.Chart(rows, width=PANEL_WIDTH, height=200).encode(color=colour)
    ticks = list(range(1, last + 1, math.ceil(last / 13)))
    scale = alt.Scale(domain=[0.6, last + 0.4], nice=False)
    axis = alt.Axis(values=ticks, format="d", grid=False)
    fixed = alt.Scale(domain=list(domain)) if domain else alt.Scale(type="log")
    value = alt.Y("value:Q", title=unit, scale=fixed, axis=alt.Axis(tickCount=5))
    numbers = [alt.Tooltip(f"{name}:Q", format=".3g") for name in ("value", "low", "high") if name in rows]
    tooltip = [alt.Tooltip("model:N", title="attention"), "layer:Q", "head:Q", *numbers]
    marks = [
        base.mark_point(filled=True, size=28, opacity=0.45).encode(
            x=alt.X("place:Q", title="layer", scale=scale, axis=axis), y=value, shape=shape, tooltip=tooltip
        ),
        base.mark_line(strokeWidth=2).encode(
            x=alt.X("layer:Q", title="layer", scale=scale, axis=axis),
            y=alt.Y("mean(value):Q", title=unit, scale=fixed),
        ),
    ]
    if "baseline" in rows:
        marks.append(base.mark_rule(strokeDash=[2, 3]).encode(y=alt.Y("max(baseline):Q", title=unit, scale=fixed)))
    return alt.LayerChart(layer=marks, title=title)


def beside(panels: list[alt.LayerChart], title: str, description: str, *, uniform: bool = True) -> alt.ConcatChart:
    """Panels under one title that says how to read them."""
    dotted = "; dotted: uniform attention" if uniform else ""
    said = alt.TitleParams(title, subtitle=f"points: heads; lines: mean over heads{dotted}", offset=12)
    chart = alt.concat(*panels, columns=2, spacing=24, title=said, description=description)
    return chart.resolve_scale(color="independent", shape="independent").properties(
        usermeta={"panelWidth": PANEL_WIDTH}
    )


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
TARGETS = {"separator": "separators", "punctuation": ". and ,", "other": "other tokens"}


_OF_SEPARATORS = {"to_separator", "separator_to_separator"}


class Panel(NamedTuple):
    """Some measures in one panel, by layer."""

    title: str
    measures: dict[str, str]
    """Measure -> its name within the panel."""


PANELS = (
    Panel("To special tokens", {"to_first": "first token", "to_separator": "separators", "to_punctuation": ". and ,"}),
    Panel("To separators", {"separator_to_separator": "from separators", "other_to_separator": "from other tokens"}),
    Panel("To neighbours", {"to_self": "oneself", "to_previous": "previous token", "to_next": "next token"}),
)


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `atlas`, `layers`, `entropy`, `patterns` and, where there are any, `gradients`."""
    surface = result.tables["surface"]
    corpus = result.provenance.corpus
    split = f" ({corpus['split']})" if corpus.get("split") else ""
    about = f"{result.provenance.model['name']} on {corpus['name']}{split}"
    charts = {
        "atlas": _atlas(surface, about),
        "layers": _layers(surface, about),
        "entropy": _entropy(surface, about),
        "patterns": _patterns(result.tables["patterns"], about),
    }
    if "gradients" in result.tables:
        charts["gradients"] = _gradients(result.tables["gradients"], about, stands_in=_stands_in(surface))
    return {name: themed(chart) for name, chart in charts.items()}


def _atlas(surface: Table, about: str) -> alt.ConcatChart:
    broadest = float(np.nanmax(surface.loc[surface["measure"].isin(list(ENTROPIES)), ["value", "baseline"]]))
    grids = []
    for measure, title in (SHARES | ENTROPIES).items():
        rows = _of(surface, measure)
        if rows.empty:
            continue
        nats = measure in ENTROPIES
        said = alt.TitleParams(title, subtitle=f"uniform attention: {rows['baseline'].iloc[0]:.2f}")
        top, unit = (math.ceil(broadest), "nats") if nats else (1, "share of attention")
        grids.append(head_grid(rows, said, domain=(0, top), unit=unit, digits=1 if nats else 2))
    shares = alt.concat(*grids[:-2], columns=2, spacing=20) if len(grids) > 2 else alt.concat()
    return alt.concat(
        shares,
        alt.concat(*grids[-2:], columns=2, spacing=20),
        columns=1,
        title=f"Where every head of {about} looks",
        description=_strongest(surface),
        usermeta={"panelWidth": GRID_WIDTH},
    ).resolve_scale(color="independent")


def _layers(surface: Table, about: str) -> alt.ConcatChart:
    same = _stands_in(surface)
    panels = []
    for title, measures in PANELS:
        # Where the first token stands in for separators, one line would be drawn twice and one is 1 by construction.
        names = {name: shown for name, shown in measures.items() if not (same and name in _OF_SEPARATORS)}
        rows = _named(surface, "measure", names)
        if not rows.empty:
            said = title.replace("separators", "the first token, in separators' place") if same else title
            panels.append(by_layer(rows, [*names.values()], said, "share of attention", (0, 1)))
    return beside(panels, f"Attention to special tokens and neighbours: {about}", _means(surface, SHARES))


def _entropy(surface: Table, about: str) -> alt.ConcatChart:
    rows = surface[surface["measure"].isin(list(ENTROPIES))]
    top = math.ceil(np.nanmax(rows[["value", "baseline"]]))
    panels = [
        by_layer(_named(rows, "measure", {name: title}), [title], title, "nats", (0, top), legend=False)
        for name, title in ENTROPIES.items()
    ]
    return beside(panels, f"How broadly heads look: {about}", _means(surface, ENTROPIES))


def _gradients(gradients: Table, about: str, *, stands_in: bool) -> alt.ConcatChart:
    names = TARGETS | ({"separator": "first token"} if stands_in else {})
    # A head that nothing reads after it has gradients of 0, which a log scale cannot show.
    rows = _named(gradients[gradients["value"] > 0], "target", names)
    shown = [name for name in names.values() if name in set(rows["model"])]
    panel = by_layer(rows, shown, "By what attention goes to", "mean magnitude of the gradient", None)
    means = rows.groupby(["model", "layer"])["value"].mean()
    said = "; ".join(f"{name} {_ends(means[name])}" for name in shown)
    description = f"Mean magnitude of the gradient over heads, by what attention goes to: {said}."
    return beside([panel], f"How much the loss hangs on attention: {about}", description, uniform=False)


def _patterns(patterns: Table, about: str) -> alt.ConcatChart:
    rows = patterns.groupby(["layer", "pattern"], as_index=False)["share"].mean()
    order = [*PATTERN_COLOURS]
    rows["rank"] = [order.index(name) for name in rows["pattern"]]
    last = int(rows["layer"].max())
    legend = alt.Legend(title=None, orient="top", symbolType="square", symbolSize=140, columns=3)
    colour = alt.Color("pattern:N", scale=alt.Scale(domain=order, range=[*PATTERN_COLOURS.values()]), legend=legend)
    bars = (
        alt.Chart(rows, width=max(260, 24 * last), height=220)
        .mark_bar(stroke="white", strokeWidth=1)
        .encode(
            x=alt.X("layer:O", title="layer", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("share:Q", title="share of maps", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5)),
            color=colour,
            order=alt.Order("rank:Q"),
            tooltip=["layer:Q", "pattern:N", alt.Tooltip("share:Q", format=".3f")],
        )
    )
    overall = patterns.groupby("pattern")["share"].mean()
    said = ", ".join(f"{name} {overall[name]:.2f}" for name in order if name in overall.index)
    title = alt.TitleParams(f"Types of attention map: {about}", subtitle="mean over the heads of a layer")
    return alt.concat(bars, title=title, description=f"Share of maps over all heads and texts: {said}.")


def _of(surface: Table, measure: str) -> Table:
    return surface[surface["measure"] == measure].dropna(subset="value")


def _named(table: Table, column: str, names: dict[str, str]) -> Table:
    """The rows of these kinds, under the names they are shown by."""
    rows = table[table[column].isin(list(names))].dropna(subset="value")
    return rows.assign(model=rows[column].map(names))


def _stands_in(surface: Table) -> bool:
    """Whether the first token was taken for the separator, as in decoders."""
    first, separator = (_of(surface, name)["value"].to_numpy() for name in ("to_first", "to_separator"))
    return len(first) == len(separator) and bool(np.allclose(first, separator))


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
    kept = [name for name in names if name in means.index.get_level_values(0)]
    return " ".join(f"{names[name]}, mean over heads: {_ends(means[name])}." for name in kept)


def _ends(means: pd.Series) -> str:
    ordered = means.sort_index()
    return ", ".join(f"{ordered[layer]:.2g} at layer {layer}" for layer in dict.fromkeys(ordered.index[[0, -1]]))
