"""F1 by layer, beside everything it has to be compared with."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lamina.figures.axes import layer_axis
from lamina.figures.probe_tables import Table, Tables, in_order, last_layer, pooled, seed_count, title_of
from lamina.figures.theme import series

PANEL_WIDTH = 330
PROBES = {"layer": "layer l alone", "cumulative": "layers 0 to l, mixed"}
_OF = {"random": "random-weights twin", "control": "control labels"}
CONSTANT = "best constant answer"


def curves(tables: Tables, title: str) -> alt.ConcatChart | None:
    """F1 of single-layer and of cumulative probes by layer; twin, control and constant answer beside them."""
    scores = pooled(tables)
    if scores is None:
        return None
    last = last_layer(tables)
    rows = _rows(scores, last)
    names = list(dict.fromkeys(sorted(rows["model"], key=_rank)))
    panels = []
    for task in in_order(tables):
        own = rows[rows["task"] == task]
        for probe in PROBES:
            shown = own[own["probe"] == probe]
            if not shown.empty:
                panels.append(_panel(title_of(task), probe, shown, names, last))
    if not panels:
        return None
    both = len(set(scores["probe"]) & set(PROBES)) > 1
    seeds = seed_count(tables)
    over = f"sentences and {seeds} seeds together" if seeds > 1 else "sentences, for one seed"
    said = alt.TitleParams(f"F1 by layer: {title}", subtitle=f"shaded: 95 % bootstrap interval over {over}")
    return alt.concat(
        *panels,
        columns=2 if both or len(panels) > 1 else 1,
        spacing=24,
        title=said,
        description=_in_words(rows, names),
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def _rows(scores: Table, last: int) -> Table:
    """Scores under the names of their series; the constant answer, which has no layer, spans them all."""
    constant = scores[scores["probe"] == "constant"]
    spread = [
        constant.assign(probe=probe, layer=layer, model=CONSTANT)
        for probe in PROBES
        if probe in set(scores["probe"])
        for layer in sorted({0, last})
    ]
    probed = scores[scores["probe"].isin(list(PROBES))]
    named = [_OF.get(of, model) for of, model in zip(probed["of"], probed["model"], strict=True)]
    rows = pd.concat([probed.assign(model=named), *spread], ignore_index=True)
    return rows[["task", "probe", "model", "layer", "count", "value", "low", "high"]]


def _rank(name: str) -> int:
    """The model first, then what it is compared with."""
    beside = [*_OF.values(), CONSTANT]
    return beside.index(name) + 1 if name in beside else 0


def _panel(title: str, probe: str, rows: Table, names: list[str], last: int) -> alt.LayerChart:
    look = series(names)
    base = alt.Chart(rows, width=PANEL_WIDTH, height=190).encode(x=layer_axis(last), color=look.colour)
    value = alt.Y("value:Q", title="F1", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5))
    numbers = (alt.Tooltip(f"{number}:Q", format=".3f") for number in ("value", "low", "high"))
    tooltip = ["model:N", "layer:Q", *numbers, alt.Tooltip("count:Q", title="targets", format=",")]
    return alt.LayerChart(
        layer=[
            base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q", title="F1"), y2="high:Q"),
            base.mark_line(strokeWidth=2).encode(y=value, strokeDash=look.dash),
            base.mark_point(filled=True, size=50, opacity=1).encode(y=value, shape=look.shape, tooltip=tooltip),
        ],
        title=alt.TitleParams(title, subtitle=PROBES[probe]),
    )


def _in_words(rows: Table, names: list[str]) -> str:
    """The best layer of each series, task by task."""
    sentences = []
    for (task, probe), group in rows.dropna(subset="value").groupby(["task", "probe"], sort=False):
        parts = []
        for name in names:
            own = group[group["model"] == name]
            if len(own):
                top = own.loc[own["value"].idxmax()]
                where = "" if name == CONSTANT else f" at layer {top['layer']}"
                parts.append(f"{name} {top['value']:.2f}{where}")
        sentences.append(f"{title_of(task)}, {PROBES[probe]}, best F1: {'; '.join(parts)}.")
    return " ".join(sentences)
