"""What fine-tuning changed: layers by their similarity, heads in a grid, probes before and after."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lamina.figures._marks import curve
from lamina.figures.attention import GRID_WIDTH, head_grid
from lamina.figures.compare import by_task, differences
from lamina.figures.theme import Table, layer_axis, series, themed
from lamina.results import Result

CAPTIONS = {
    "layers": (
        "How alike words are before and after, by layer; 1 is unchanged, shaded: 95 % interval over documents. Compare "
        "CKA with that of the random-weights twin and the cosine with that of words of different texts. CKA ignores a "
        "common rotation, the cosine does not: high CKA with a low cosine is a layer that was rotated, not rebuilt."
    ),
    "heads": (
        "Mean cosine of attention maps: of the same head before and after, and of a head after with the other heads of "
        "its layer before. A head that is surely more like the others than like itself has changed its role: the table "
        "has the difference of each head with its simultaneous 95 % interval over documents."
    ),
    "probes": (
        "F1 of probes that read one layer alone, for both models on the same texts; shaded: 95 % interval over "
        "documents. Compare the model after with the model before; whether they differ at a layer is tested in the "
        "table, in pairs."
    ),
    "behaviour": (
        "What the model after says better or worse than the model before: the difference of their means over the items "
        "of each group of a suite; lines: 95 % interval, paired by item. Compare with 0, no change; the table has "
        "p-values, adjusted for all groups of a suite."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 330
_PANELS = {
    "cka": ("Similarity of layers (CKA)", "debiased linear CKA of word vectors", "with the random-weights twin"),
    "cosine": ("The same word before and after", "mean cosine", "words of different texts"),
}
_VALUE = "before and after"


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `layers` (CKA and cosine), `heads` (attention), `probes` (F1 of both models) and `behaviour`."""
    table: Table = result.tables["diff"]
    about = f"{result.provenance.model['name']} on {result.provenance.corpus['name']}"
    names = [result.provenance.model[side]["name"] for side in ("a", "b")]
    if names[0] == names[1]:
        names = [f"{name} ({side})" for name, side in zip(names, "ab", strict=True)]
    charts = {
        "layers": _layers(table, about),
        "heads": _heads(table, about),
        "probes": _probes(table, names, about),
        "behaviour": _behaviour(result.tables.get("behaviour"), names, result.provenance.model["name"]),
    }
    return {name: themed(chart) for name, chart in charts.items() if chart is not None}


def _layers(table: Table, about: str) -> alt.ConcatChart | None:
    measures = [measure for measure in _PANELS if (table["measure"] == measure).any()]
    if not measures:
        return None
    last = int(table["layer"].max())
    return alt.concat(
        *(_panel(measure, table[table["measure"] == measure], last) for measure in measures),
        columns=2,
        spacing=24,
        title=alt.TitleParams(f"What changed by layer: {about}", subtitle="shaded: 95 % interval", offset=12),
        description=" ".join(_in_words(measure, table[table["measure"] == measure]) for measure in measures),
        usermeta={"panelWidth": PANEL_WIDTH},
    ).resolve_scale(color="independent", strokeDash="independent", shape="independent")


def _panel(measure: str, rows: Table, last: int) -> alt.LayerChart:
    title, unit, beside = _PANELS[measure]
    similarity = rows[["layer", "value", "low", "high"]].assign(model=_VALUE)
    baseline = rows[["layer"]].assign(value=rows["baseline"], model=beside).dropna()
    both = pd.concat([similarity, baseline])
    look = series([_VALUE, beside] if len(baseline) else [_VALUE])
    lowest = min(0.0, float(both[["value", "low"]].min().min()))
    base = alt.Chart(both, width=PANEL_WIDTH, height=200).encode(x=layer_axis(last), color=look.colour)
    y = alt.Y("value:Q", title=unit, scale=alt.Scale(domain=[lowest, 1]), axis=alt.Axis(tickCount=5))
    return alt.LayerChart(layer=curve(base, look, y, alt.Y("low:Q", title=unit)), title=title)


def _heads(table: Table, about: str) -> alt.ConcatChart | None:
    rows = table[table["measure"] == "attention_similarity"].dropna(subset=["value"])
    if rows.empty:
        return None
    rows = rows.astype({"head": int})
    lowest = float(rows[["value", "baseline"]].min().min())
    domain = (min(0.99, float(int(lowest * 10) / 10)), 1.0)
    grids = [
        head_grid(rows, alt.TitleParams("The same head, before and after"), domain=domain, unit="mean cosine of maps")
    ]
    if rows["baseline"].notna().any():
        others = rows[["layer", "head"]].assign(value=rows["baseline"])
        title = alt.TitleParams("With the other heads of its layer before")
        grids.append(head_grid(others, title, domain=domain, unit="mean cosine of maps"))
    least = rows.nsmallest(3, "value")
    cosines = ", ".join(f"{row.value:.2f} of head {row.layer}-{row.head}" for row in least.itertuples())
    return alt.concat(
        *grids,
        columns=2,
        spacing=24,
        title=alt.TitleParams(f"Attention before and after: {about}"),
        description=f"Cosine of each head's attention maps before and after, mean over texts; lowest: {cosines}.",
        usermeta={"panelWidth": GRID_WIDTH},
    )


def _probes(table: Table, names: list[str], about: str) -> alt.ConcatChart | None:
    parts = table["measure"].str.extract(r"^probe_(?P<side>[ab]):(?P<task>.+)$")
    rows = table.join(parts)[parts["task"].notna()]
    if rows.empty:
        return None
    model = rows["side"].map(dict(zip("ab", names, strict=True)))
    return by_task(rows.assign(model=model), f"F1 by layer, each layer alone: {about}")


def _behaviour(table: Table | None, names: list[str], models: str) -> alt.ConcatChart | None:
    if table is None or table.empty:
        return None
    suites = list(dict.fromkeys(table["suite"]))
    groups = table["suite"] + ": " + table["group"] if len(suites) > 1 else table["group"]
    rows = table[["metric", "difference", "low", "high"]].assign(task=groups, statistic="items", a=names[1], b=names[0])
    title = f"{models} on {' and '.join(suites)}"
    return differences({"compare": pd.DataFrame({"model": names}), "differences": rows}, title)


def _in_words(measure: str, rows: Table) -> str:
    least = rows.iloc[rows["value"].argmin()] if rows["value"].notna().any() else None
    if least is None:
        return f"{_PANELS[measure][0]}: not available."
    return f"{_PANELS[measure][0]}: lowest at layer {least['layer']}, {least['value']:.3f}."
