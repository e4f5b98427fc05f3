"""Dominant dimensions: the mean cosine of words by layer, and what the largest dimensions carry of it."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lamina.figures._marks import curve, number_tips
from lamina.figures.theme import layer_axis, series, themed
from lamina.results import Result

CAPTIONS = {
    "layers": (
        "The mean cosine of words from different documents by layer, and the part of it that the largest dimensions "
        "carry, with its 95 % interval over documents. Compare it with the untrained twin (without one: with as many "
        "average dimensions): where a few dimensions carry nearly all of it, cosines say little about the rest."
    ),
}
"""Chart -> how to read it."""


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The chart `layers`."""
    table = result.tables["layers"]
    top = int(table["top"].iloc[0])
    twin = table["against"].iloc[0] == "twin"
    names = {
        "anisotropy": "all dimensions",
        "carried": f"the largest {top}" if top > 1 else "the largest one",
        "baseline": "the same of the untrained twin" if twin else "as many average ones",
    }
    columns = [name for name in names if table[name].notna().any()]
    rows = pd.concat(
        [table[["layer"]].assign(model=names[column], value=table[column], low=None, high=None) for column in columns]
    )
    carried = (rows["model"] == names["carried"]).to_numpy()
    rows.loc[carried, ["low", "high"]] = table[["low", "high"]].to_numpy()
    look = series([names[column] for column in columns])
    base = alt.Chart(rows, width=420, height=240).encode(x=layer_axis(int(table["layer"].max())), color=look.colour)
    value = alt.Y("value:Q", title="mean cosine")
    numbers = number_tips()
    tooltip = [alt.Tooltip("model:N"), alt.Tooltip("layer:Q"), *numbers]
    marks = alt.LayerChart(layer=curve(base, look, value, alt.Y("low:Q", title="mean cosine"), tooltip))
    most = table.iloc[int(table["carried"].fillna(0).to_numpy(float).argmax())]
    description = (
        f"{names['carried'].capitalize()} carry {most['carried']:.2f} of the mean cosine of {most['anisotropy']:.2f} "
        f"at layer {most['layer']}."
    )
    corpus = result.provenance.corpus
    title = alt.TitleParams(f"Dominant dimensions of {result.provenance.model['name']} on {corpus['name']}")
    return {"layers": themed(alt.concat(marks, title=title, description=description))}
