"""Retrieval across languages: how often a translation is the nearest neighbour, by layer and direction."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lamina.figures._marks import curve
from lamina.figures.theme import layer_axis, series, themed
from lamina.results import Result

CAPTIONS = {
    "retrieval": (
        "Share of sentences whose translation is the nearest of all, by layer, with 95 % intervals over pairs; one "
        "panel per direction. Compare the model with its untrained twin and with the letters that both sentences share "
        "(names, cognates); whether they differ is tested in `readings`."
    ),
}
"""Chart -> how to read it."""

_SYSTEMS = ("model", "untrained twin", "shared spelling")
_WIDTH = 320


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The chart `retrieval`."""
    table = result.tables["retrieval"]
    last = int(table["layer"].max())
    look = series([name for name in _SYSTEMS if (table["system"] == name).any()])
    value = alt.Y("accuracy:Q", title="translations found", scale=alt.Scale(domain=[0, 1]))
    tooltip = [alt.Tooltip("model:N"), alt.Tooltip("layer:Q"), alt.Tooltip("accuracy:Q", format=".3f")]
    panels, described = [], []
    for direction, rows in table.groupby("direction", sort=False):
        flat = rows[rows["layer"].isna()]
        ends = [flat.assign(layer=layer) for layer in sorted({0, last})]
        spread = pd.concat([rows[rows["layer"].notna()], *ends]).rename(columns={"system": "model"})
        base = alt.Chart(spread, width=_WIDTH, height=200)
        base = base.encode(x=layer_axis(last), color=look.colour)
        layers = [
            *curve(base, look, value, alt.Y("low:Q", title="translations found"), tooltip),
        ]
        panels.append(alt.LayerChart(layer=layers, title=str(direction)))
        model = rows[rows["system"] == "model"]
        best = model.iloc[int(model["accuracy"].to_numpy(float).argmax())]
        described.append(f"{direction}: {best['accuracy']:.2f} at layer {int(best['layer'])}")
    about = result.provenance
    chart = alt.concat(
        *panels,
        columns=2,
        spacing=24,
        title=alt.TitleParams(
            f"Translations as nearest neighbours: {about.model['name']} on {about.corpus['name']}",
            subtitle="shaded: 95 % interval over pairs",
        ),
        description=f"{'; '.join(described)}.",
        usermeta={"panelWidth": _WIDTH},
    )
    return {"retrieval": themed(chart)}
