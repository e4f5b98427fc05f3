"""What heads look at: the atlas of all heads, the paper's figures 2 to 4 by layer, and the patterns of the maps."""

from __future__ import annotations

import math
from typing import NamedTuple

import altair as alt
import numpy as np

from lamina.figures.head_grid import GRID_WIDTH, head_grid
from lamina.figures.head_layers import beside, by_layer
from lamina.figures.probe_tables import Table
from lamina.figures.theme import COLOURS, themed
from lamina.results import Result

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
    # A head that nothing reads after it has gradients of 0, which have no place on a scale of powers.
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
            top = rows.loc[rows["value"].idxmax()]
            place = f"layer {top['layer']}, head {top['head']}"
            sentences.append(f"{title}: most in {place}, {top['value']:.2f} (uniform {top['baseline']:.2f}).")
    return " ".join(sentences)


def _means(surface: Table, names: dict[str, str]) -> str:
    """Each measure's mean over heads, at the first and the last layer."""
    means = surface.dropna(subset="value").groupby(["measure", "layer"])["value"].mean()
    kept = [name for name in names if name in means.index.get_level_values(0)]
    return " ".join(f"{names[name]}, mean over heads: {_ends(means[name])}." for name in kept)


def _ends(means: Table) -> str:
    ordered = means.sort_index()
    return ", ".join(f"{ordered[layer]:.2g} at layer {layer}" for layer in dict.fromkeys(ordered.index[[0, -1]]))
