"""The geometry of a model's layers: one panel per measure, the model beside its random twin."""

from __future__ import annotations

import math
from typing import NamedTuple

import altair as alt
import numpy as np
import pandas as pd

from lamina.figures._marks import curve, end_labels
from lamina.figures.theme import INK, layer_axis, series, themed
from lamina.results import Result
from lamina.results.finding import strongest_first

CAPTIONS = {
    "measure": (
        "One measure from the embeddings (layer 0) to the last layer; shaded: its 95 % interval over documents or "
        "types, narrower than the line where none shows. Compare the model with its random-weights twin: whether they "
        "differ at a layer is tested in pairs, in `contrasts`, not by overlapping intervals."
    ),
    "layers": (
        "Each panel shows one measure from the embeddings (layer 0) to the last layer, all on the same scale; "
        "shaded: 95 % intervals over documents (anisotropy, intra-sentence) or types, narrower than the line where "
        "none shows. Low self-similarity means that a word's vector depends much on its context; compare the adjusted "
        "panels, because in an anisotropic layer all vectors look alike, and one vector explains much of any words: "
        "the raw and the adjusted measure can be lowest at different layers. Whether a layer differs from the random "
        "twin's is tested pair by pair in `contrasts`, not by overlapping intervals."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 190
"""Of one panel, without its axis; pages narrower than four of them wrap."""


class Panel(NamedTuple):
    """How one measure is shown."""

    measure: str
    title: str
    reading: str
    """What the number is, under the title."""
    axis: str


# Four columns: each adjusted measure is below its unadjusted one, the two baselines come first.
PANELS = (
    Panel("anisotropy", "Anisotropy", "words of different texts", "mean cosine"),
    Panel("self_similarity", "Self-similarity", "one word across its contexts", "mean cosine"),
    Panel("intra_similarity", "Intra-sentence similarity", "words with their text's mean", "mean cosine"),
    Panel("max_explainable_variance", "Max. explainable variance", "by one static vector per word", "proportion"),
    Panel("max_explainable_variance_baseline", "Variance, random words", "as many as the word has", "proportion"),
    Panel("self_similarity_adjusted", "Self-similarity, adjusted", "minus anisotropy", "difference of cosines"),
    Panel("intra_similarity_adjusted", "Intra-sentence, adjusted", "minus anisotropy", "difference of cosines"),
    Panel("max_explainable_variance_adjusted", "Variance, adjusted", "minus random words", "difference"),
)


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The chart `layers`: every measure by layer, with its interval, on one common scale."""
    table = result.tables["layers"]
    models = list(dict.fromkeys(table["model"]))
    domain = _domain(table)
    last = int(max(table["layer"]))
    panels = [_panel(panel, models, last, domain) for panel in PANELS if panel.measure in set(table["measure"])]
    corpus = result.provenance.corpus
    split = f" ({corpus['split']})" if corpus.get("split") else ""
    about = f"{models[0]} on {corpus['name']}{split}"
    title = alt.TitleParams(about, subtitle="shaded: 95 % bootstrap interval")
    chart = alt.concat(*panels, data=table, columns=4, spacing=24, title=title, description=describe(table))
    charts: dict[str, alt.TopLevelMixin] = {}
    if (named := _named_measure(result)) in set(table["measure"]):
        charts["measure"] = themed(_alone(named, table, models, last, about))
    return charts | {"layers": themed(chart.properties(usermeta={"panelWidth": PANEL_WIDTH}))}


def _named_measure(result: Result) -> str:
    """The measure of the clearest finding."""
    sources = [source for finding in strongest_first(result.findings) for source in finding.source]
    drawn = {panel.measure for panel in PANELS}
    return next((str(measure) for source in sources if (measure := source.where.get("measure")) in drawn), "")


_WIDTH, _HEIGHT = 560, 240


def _alone(measure: str, table: pd.DataFrame, models: list[str], last: int, about: str) -> alt.ConcatChart:
    """One measure in one panel, each model named at its line."""
    panel = next(panel for panel in PANELS if panel.measure == measure)
    rows = pd.DataFrame(table[table["measure"] == measure])
    low, high = _domain(rows)
    one = _panel(panel, models, last, [low, high], named=rows)
    chart = alt.LayerChart(layer=one.layer, width=_WIDTH)
    reading = f"{panel.reading}; {about}; shaded: 95 % bootstrap interval"
    title = alt.TitleParams(panel.title, subtitle=reading)
    return alt.concat(chart, data=rows, title=title, description=describe(rows), usermeta={"panelWidth": _WIDTH})


def describe(table: pd.DataFrame) -> str:
    """The table in words: each measure at the first and the last layer of each model.

    Example:
        >>> rows = [("minilm", 0, "anisotropy", 0.1), ("minilm", 6, "anisotropy", 0.25)]
        >>> describe(pd.DataFrame(rows, columns=["model", "layer", "measure", "value"]))
        'Anisotropy: minilm 0.10 at layer 0, 0.25 at layer 6.'
    """
    sentences = []
    for panel in PANELS:
        rows = pd.DataFrame(table[table["measure"] == panel.measure])
        parts = [f"{model} {_ends(pd.DataFrame(group))}" for model, group in rows.groupby("model", sort=False)]
        if parts:
            sentences.append(f"{panel.title}: {'; '.join(parts)}.")
    return " ".join(sentences)


def _ends(rows: pd.DataFrame) -> str:
    ordered = rows.sort_values("layer").iloc[[0, -1]].drop_duplicates("layer")
    pairs = zip(ordered["layer"], ordered["value"], strict=True)
    return ", ".join(f"{value:.2f} at layer {layer}" for layer, value in pairs)


def _domain(table: pd.DataFrame) -> list[float]:
    """One scale for all panels, so that their heights compare: 0 to 1, or lower where values are negative."""
    lowest = float(np.fmin.reduce(table[["value", "low"]].to_numpy(float).ravel(), initial=np.nan))
    return [0.0 if math.isnan(lowest) else min(0.0, math.floor(lowest * 10) / 10), 1.0]


def _panel(
    panel: Panel, models: list[str], last: int, domain: list[float], named: pd.DataFrame | None = None
) -> alt.LayerChart:
    """One measure, taken from the table that all panels share; `named` names its series at their ends."""
    look = series(models) if named is None else series(models).with_legend(None)
    height = 170 if named is None else _HEIGHT
    base = (
        alt.Chart(width=PANEL_WIDTH if named is None else _WIDTH, height=height)
        .transform_filter(alt.FieldEqualPredicate(field="measure", equal=panel.measure))
        .encode(x=layer_axis(last), color=look.colour)
    )
    value = alt.Y("value:Q", title=panel.axis, scale=alt.Scale(domain=domain), axis=alt.Axis(tickCount=5))
    return alt.LayerChart(
        layer=[
            alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(color=INK).encode(y=alt.Y("zero:Q")),
            *curve(base, look, value, alt.Y("low:Q", title=panel.axis)),
            *([] if named is None else [end_labels(named, height, (domain[0], domain[1]))]),
        ],
        title=alt.TitleParams(panel.title, subtitle=panel.reading) if named is None else alt.Undefined,
    )
