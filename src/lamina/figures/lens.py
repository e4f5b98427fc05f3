"""Layers through the model's own head: how close each is to the final answer, and a grid of tokens by layers."""

from __future__ import annotations

from typing import Literal, NamedTuple

import altair as alt
import pandas as pd

from lamina.figures._marks import curve, interval_line, number_tips
from lamina.figures.theme import COLOURS, FAINT, INK, SHADES, Table, layer_axis, rows_of, series, themed
from lamina.results import Result

CAPTIONS = {
    "lens": (
        "Each panel shows one measure of what the head makes of a layer's states, from the embeddings (layer 0) to "
        "the last layer, which is the model's own answer: there, KL is 0 and agreement 1. Shaded: 95 % intervals over "
        "documents. The plain lens puts states through the head as they are; the tuned lens translates them first, by "
        "an affine map per layer that was trained on other documents. Dashed: frequencies of tokens in the training "
        "texts, which know no context. KL is drawn on a scale of square roots. The twin with random weights is "
        "compared with its own last layer: its layers hardly differ, so that low KL and high agreement mean nothing "
        "by themselves; its accuracy is that of guessing."
    ),
    "reached": (
        "Share of positions whose most likely token is the final one from a layer on, and not before; shares of a "
        "lens sum to 1. Bars: 95 % intervals over documents. What is reached at the last layer only is decided by the "
        "last block. Compare the model with its twin with random weights."
    ),
    "tokens": (
        "One column per token of the text, one row per layer, the last layer on top. A cell shows the most likely "
        "token at its place, predicted from the tokens before it (causal model) or with the token masked (masked "
        "model); stronger shade: more probable. A dot marks cells whose most likely token is the token itself."
    ),
    "pairs": (
        "Share of minimal pairs whose good sentence is more likely by the layer's own predictions, mean over "
        "paradigms; shaded: 95 % intervals over pairs. Compare with chance, the dashed line, and with the last layer, "
        "which is the model's own preference."
    ),
    "cloze": (
        "Answers of a cloze suite by layer, mean over its parts: their probability, and how often they are the most "
        "likely token or among the ten most likely ones; shaded: 95 % intervals over items. Only answers of one "
        "token."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 300
_CELL = (56, 22)
"""Width and height of a cell of the grid."""
_MOST_TOKENS = 40
"""Columns of the grid; further tokens are in the table alone."""
_LABEL_LENGTH = 9
"""Characters of a token that fit into a cell."""
_NAMES = {"plain": "plain lens", "tuned": "tuned lens", "twin": "random twin, plain lens"}


class Panel(NamedTuple):
    """How one measure is shown."""

    measure: str
    title: str
    axis: str
    scale: Literal["linear", "sqrt"] = "linear"
    """Square roots where a first layer can be many times further away than all others."""


PANELS = (
    Panel("kl", "Distance from the final distribution", "KL divergence (nats)", "sqrt"),
    Panel("agreement", "Agreement with the final answer", "share of positions"),
    Panel("accuracy", "Most likely token is the one there", "share of positions"),
    Panel("probability", "Probability of the token there", "mean probability"),
)
_CLOZE = (
    Panel("probability", "Probability of the answer", "mean probability"),
    Panel("precision_at_1", "Answer is the most likely token", "share of items"),
    Panel("precision_at_10", "Answer is among ten tokens", "share of items"),
)


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `lens` and `reached`; `tokens`, `pairs` and `cloze` where a text or a suite was given."""
    charts: dict[str, alt.TopLevelMixin] = {"lens": _by_layer(result), "reached": _reached(result)}
    for name, chart in (("tokens", _grid), ("pairs", _pairs), ("cloze", _cloze)):
        table = rows_of(result.tables, name)
        if table is not None:
            charts[name] = chart(result, table)
    return charts


def describe(table: Table) -> str:
    """KL and agreement of each lens at the first and the last inner layer, in words.

    Example:
        >>> rows = [(0, "plain", "kl", 3.0), (1, "plain", "kl", 0.5), (2, "plain", "kl", 0.0)]
        >>> describe(pd.DataFrame(rows, columns=["layer", "lens", "measure", "value"]))
        'KL divergence (nats): plain lens 3.00 at layer 0, 0.50 at layer 1.'
    """
    last = table["layer"].max()
    sentences = []
    for panel in PANELS[:2]:
        inner = table[(table["measure"] == panel.measure) & (table["layer"] < last)]
        for lens, group in inner.groupby("lens", sort=False):
            ends = group.sort_values("layer").iloc[[0, -1]].drop_duplicates("layer")
            pairs = zip(ends["layer"], ends["value"], strict=True)
            parts = ", ".join(f"{value:.2f} at layer {layer}" for layer, value in pairs)
            sentences.append(f"{panel.axis}: {_NAMES[str(lens)]} {parts}.")
    return " ".join(sentences)


def _by_layer(result: Result) -> alt.ConcatChart:
    table = _with_twin(result)
    baseline = result.tables["baseline"]
    panels = [
        _panel(table[table["measure"] == panel.measure], panel, baseline[baseline["measure"] == panel.measure])
        for panel in PANELS
    ]
    subtitle = "shaded: 95 % intervals over documents; dashed: frequencies of tokens, without context"
    return _beside(
        panels, _title(result, "Layers through the model's own head"), subtitle, describe(result.tables["lens"])
    )


def _with_twin(result: Result) -> Table:
    tables = [result.tables["lens"]]
    twin = rows_of(result.tables, "twin")
    if twin is not None:
        tables.append(twin.assign(lens="twin"))
    table = pd.concat(tables, ignore_index=True)
    return table.assign(model=table["lens"].map(_NAMES))


def _panel(
    rows: Table, panel: Panel, baseline: Table | None = None, rule: float | None = None, columns: str = "value"
) -> alt.LayerChart:
    """One measure by layer, one line per lens."""
    names = [name for name in _NAMES.values() if name in set(rows["model"])]
    look = series(names)
    rows = rows.rename(columns={columns: "value"})
    scale = alt.Scale(type=panel.scale, zero=True, nice=True)
    base = alt.Chart(rows, width=PANEL_WIDTH, height=190).encode(
        x=layer_axis(int(rows["layer"].max())), color=look.colour
    )
    value = alt.Y("value:Q", title=panel.axis, scale=scale, axis=alt.Axis(tickCount=5))
    tooltip = [
        alt.Tooltip("model:N", title="lens"),
        alt.Tooltip("layer:Q"),
        *number_tips(),
    ]
    marks: list[alt.Chart] = [
        *curve(base, look, value, alt.Y("low:Q", title=panel.axis, scale=scale), tooltip),
    ]
    lines = pd.DataFrame({"value": [rule] if rule is not None else [], "name": ["chance"] if rule is not None else []})
    if baseline is not None and len(baseline):
        lines = baseline.assign(name="frequencies of tokens")
    if len(lines):
        rules = alt.Chart(lines).mark_rule(color=INK, strokeDash=[5, 4])
        marks.append(rules.encode(y=value, tooltip=[alt.Tooltip("name:N"), alt.Tooltip("value:Q", format=".3f")]))
    return alt.LayerChart(layer=marks, title=panel.title)


def _reached(result: Result) -> alt.ConcatChart:
    table = result.tables["reached"]
    lenses = table["lens"].where(table["model"] == "model", "twin")
    table = table.assign(model=lenses.map(_NAMES))
    names = [name for name in _NAMES.values() if name in set(table["model"])]
    look = series(names)
    last = int(table["layer"].max())
    x = alt.X("layer:O", title="layer (0 = embeddings)", axis=alt.Axis(labelAngle=0, grid=False, labelOverlap=True))
    value = alt.Y("share:Q", title="share of positions", axis=alt.Axis(tickCount=5))
    base = alt.Chart(table, width=max(360, 24 * (last + 1)), height=200).encode(
        x=x, xOffset=alt.XOffset("model:N", sort=names), color=look.colour
    )
    tooltip = [
        alt.Tooltip("model:N", title="lens"),
        alt.Tooltip("layer:O"),
        *number_tips("share", "low", "high"),
    ]
    marks: list[alt.Chart] = [
        base.mark_bar(opacity=0.75).encode(y=value, tooltip=tooltip),
        interval_line(base, alt.Y("low:Q"), color=INK, opacity=0.7).encode(color=alt.value(INK)),
    ]
    depth = result.tables["depth"]
    means = {row.lens if row.model == "model" else "twin": row for row in depth.itertuples()}
    mean_layers = "; ".join(
        f"{_NAMES[str(lens)]}: mean layer {row.mean_layer:.2f} [{row.low:.2f}, {row.high:.2f}]"
        for lens, row in means.items()
    )
    chart = alt.LayerChart(layer=marks)
    return _beside(
        [chart], _title(result, "Layer at which the final answer is reached"), mean_layers, f"{mean_layers}."
    )


def _grid(result: Result, table: Table) -> alt.ConcatChart:
    """One grid per lens: tokens by layers, the most likely token in each cell."""
    tokens = table[["index", "token"]].drop_duplicates("index")
    cells = table[(table["rank"] == 1) & (table["index"] < _MOST_TOKENS)]
    names = _columns(tokens)
    cells = cells.assign(
        column=cells["index"].map(names),
        shown=cells["piece"].map(_shortened),
        right=cells["piece"].astype(str).str.strip() == cells["token"].astype(str).str.strip(),
    )
    order = [names[index] for index in sorted(names) if index < _MOST_TOKENS]
    lenses = list(dict.fromkeys(cells["lens"]))
    panels = [_cells(cells[cells["lens"] == lens], _NAMES[lens], order) for lens in lenses]
    left = len(names) - len(order)
    more = f"; {left} further tokens are in the table" if left > 0 else ""
    subtitle = f"cell: most likely token; colour: its probability; dot: it is the token itself{more}"
    last = cells[cells["layer"] == cells["layer"].max()].drop_duplicates("index")
    answers = ", ".join(f"{row.column}: {row.piece}" for row in last.itertuples())
    title = alt.TitleParams(f"{result.provenance.model['name']}: tokens by layers", subtitle=subtitle, offset=12)
    chart = alt.vconcat(
        *panels, spacing=24, title=title, description=f"Most likely tokens at the last layer: {answers}."
    )
    return themed(alt.concat(chart, usermeta={"panelWidth": _CELL[0] * len(order)}))


def _columns(tokens: Table) -> dict[int, str]:
    """Number of a token -> its column's name; what comes after the text has no token."""
    names = {}
    for index, token in zip(tokens["index"].tolist(), tokens["token"].tolist(), strict=True):
        # An empty cell of a file is read back as NaN.
        there = isinstance(token, str) and token.strip()
        names[int(index)] = f"{int(index) + 1} {_shortened(token) if there else '(next)'}"
    return names


def _shortened(piece: object) -> str:
    text = str(piece).strip() or str(piece)
    return text if len(text) <= _LABEL_LENGTH else f"{text[: _LABEL_LENGTH - 1]}\N{HORIZONTAL ELLIPSIS}"


def _cells(rows: Table, title: str, order: list[str]) -> alt.LayerChart:
    layers = sorted(rows["layer"].unique().tolist(), reverse=True)
    base = alt.Chart(rows, width=_CELL[0] * len(order), height=_CELL[1] * len(layers)).encode(
        x=alt.X(
            "column:N", sort=order, title=None, axis=alt.Axis(orient="top", labelAngle=-30, ticks=False, domain=False)
        ),
        y=alt.Y("layer:O", sort=layers, title="layer (0 = embeddings)", axis=alt.Axis(ticks=False, domain=False)),
        tooltip=[
            alt.Tooltip("column:N", title="token"),
            alt.Tooltip("layer:O"),
            alt.Tooltip("piece:N"),
            *number_tips("probability", "probability_of_actual", "kl"),
        ],
    )
    legend = alt.Legend(title="probability", orient="right", gradientLength=110)
    scale = alt.Scale(domain=[0, 1], range=list(SHADES), interpolate="lab")
    ink = alt.when(alt.datum.probability > 0.55).then(alt.value("white")).otherwise(alt.value(INK))
    dot = base.transform_filter(alt.datum.right).mark_point(
        filled=True, size=22, color=COLOURS[1], opacity=1, xOffset=-_CELL[0] // 2 + 6, yOffset=-_CELL[1] // 2 + 6
    )
    return alt.LayerChart(
        layer=[
            base.mark_rect(stroke=FAINT, strokeWidth=1).encode(
                color=alt.Color("probability:Q", scale=scale, legend=legend)
            ),
            base.mark_text(fontSize=10).encode(text=alt.Text("shown:N"), color=ink),
            dot,
        ],
        title=title,
    )


def _pairs(result: Result, table: Table) -> alt.ConcatChart:
    rows = table[table["paradigm"] == "all"]
    rows = rows.assign(model=rows["lens"].map(_NAMES))
    paradigms = table["paradigm"].nunique() - 1
    panel = Panel("accuracy", f"Mean over {paradigms} paradigm{'s' * (paradigms != 1)}", "share of pairs")
    chart = _panel(rows, panel, rule=0.5, columns="accuracy")
    name = result.provenance.corpus.get("suite", {}).get("name", "pairs")
    last = rows[rows["layer"] == rows["layer"].max()].iloc[0]
    described = f"At the last layer the good sentence is preferred in {last['accuracy']:.3f} of pairs."
    subtitle = "shaded: 95 % intervals over pairs; dashed: chance"
    return _beside([chart], f"{result.provenance.model['name']}: pairs of {name} by layer", subtitle, described)


def _cloze(result: Result, table: Table) -> alt.ConcatChart:
    rows = table[table["part"] == "all"]
    rows = rows.assign(model=rows["lens"].map(_NAMES))
    panels = [_panel(rows[rows["measure"] == panel.measure], panel) for panel in _CLOZE]
    name = result.provenance.corpus.get("suite", {}).get("name", "clozes")
    last = rows[(rows["layer"] == rows["layer"].max()) & (rows["measure"] == "precision_at_1")].iloc[0]
    described = f"At the last layer the answer is the most likely token in {last['value']:.3f} of items."
    subtitle = "shaded: 95 % intervals over items; mean over the parts of the suite"
    return _beside(panels, f"{result.provenance.model['name']}: answers of {name} by layer", subtitle, described)


def _title(result: Result, what: str) -> str:
    about = result.provenance
    return f"{what}: {about.model['name']} on {about.corpus['name']}"


def _beside(panels: list[alt.LayerChart], title: str, subtitle: str, description: str) -> alt.ConcatChart:
    heading = alt.TitleParams(title, subtitle=subtitle, offset=12)
    chart = alt.concat(*panels, columns=2, spacing=24, title=heading, description=description)
    return themed(chart.properties(usermeta={"panelWidth": PANEL_WIDTH}))
