"""Numbers: how well each layer tells value, maximum and sum, inside the learned range and outside it."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lamina.figures._marks import curve
from lamina.figures.theme import Look, Table, layer_axis, series, themed
from lamina.results import Result

CAPTIONS = {
    "scores": (
        "Score by layer of linear probes on the states of numbers, with 95 % intervals over items: R2 of decoding and "
        "addition (values below -0.5 are cut), accuracy of the maximum of five (chance is .2). Panels named inside: "
        "numbers of the learned range that no training text has; outside: larger ones. Compare the model with the same "
        "probes on its untrained twin, on the numbers' characters and on the number of tokens they take."
    ),
}
"""Chart -> how to read it."""

_SYSTEMS = ("model", "untrained twin", "characters", "number of tokens")
_LOWEST = -0.5
_WIDTH = 300


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The chart `scores`: one panel per task, form and range."""
    table = result.tables["scores"]
    last = int(table["layer"].max())
    look = series([name for name in _SYSTEMS if (table["system"] == name).any()])
    panels = []
    for (task, form, where), rows in table.groupby(["task", "form", "range"], sort=False):
        panels.append(
            _panel(_spread(rows, last), look, last).properties(title=f"{task}, {form}, {where} the learned range")
        )
    title = f"Numbers in the hidden states of {result.provenance.model['name']}"
    chart = alt.concat(
        *panels,
        columns=2,
        spacing=24,
        title=alt.TitleParams(title, subtitle="shaded: 95 % interval over items"),
        description=describe(table),
        usermeta={"panelWidth": _WIDTH, "together": 2},
    )
    return {"scores": themed(chart)}


def describe(table: Table) -> str:
    """The best layer of every panel, in words.

    Example:
        >>> rows = [("addition", "words", "inside", "model", 2, "r2", 0.91)]
        >>> describe(pd.DataFrame(rows, columns=["task", "form", "range", "system", "layer", "measure", "value"]))
        'addition, words, inside: 0.91 at layer 2.'
    """
    models = table[table["system"] == "model"]
    parts = []
    for (task, form, where), rows in models.groupby(["task", "form", "range"], sort=False):
        best = rows.iloc[int(rows["value"].to_numpy(float).argmax())]
        parts.append(f"{task}, {form}, {where}: {best['value']:.2f} at layer {int(best['layer'])}")
    return f"{'; '.join(parts)}."


def _spread(rows: Table, last: int) -> Table:
    """Baselines without a layer span them all; values far below 0 are cut."""
    flat = rows[rows["layer"].isna()]
    both = pd.concat([rows[rows["layer"].notna()], *(flat.assign(layer=layer) for layer in sorted({0, last}))])
    return both.assign(**{name: both[name].clip(lower=_LOWEST) for name in ("value", "low", "high")})


def _panel(rows: Table, look: Look, last: int) -> alt.LayerChart:
    title = "R2" if (rows["measure"] == "r2").all() else "accuracy"
    named = rows.rename(columns={"system": "model"})
    base = alt.Chart(named, width=_WIDTH, height=170).encode(x=layer_axis(last), color=look.colour)
    value = alt.Y("value:Q", title=title)
    return alt.LayerChart(layer=curve(base, look, value, alt.Y("low:Q", title=title)))
