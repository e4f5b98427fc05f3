"""F1 by layer, beside everything it has to be compared with."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lamina.figures.axes import layer_axis
from lamina.figures.probe_tables import Tables, in_order, last_layer, pooled, title_of
from lamina.figures.theme import series, themed

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
            shown = pd.DataFrame(own[own["probe"] == probe])
            if not shown.empty:
                panels.append(_panel(title_of(task), probe, shown, names, last))
    if not panels:
        return None
    both = len(set(scores["probe"]) & set(PROBES)) > 1
    said = alt.TitleParams(
        f"F1 by layer: {title}", subtitle="shaded: 95 % bootstrap interval over seeds and sentences together"
    )
    return alt.concat(
        *panels,
        columns=2 if both or len(panels) > 1 else 1,
        spacing=24,
        title=said,
        description=_in_words(rows, names),
        usermeta={"panelWidth": PANEL_WIDTH},
    )
