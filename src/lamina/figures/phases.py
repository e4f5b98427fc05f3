"""The phases of question answering over a data set: roles, clusters and answers from layer to layer."""

from __future__ import annotations

import math
from typing import NamedTuple

import altair as alt
import pandas as pd

from lamina.figures.theme import INK, Table, layer_axis, series, themed
from lamina.results import Result

CAPTIONS = {
    "roles": (
        "Means over questions, by layer, of how alike words of the same or of different roles are (cosine minus the "
        "layer's anisotropy), how far the answer lies from all other words, and how well clusters agree with "
        "sentences, roles and entity types; bands are 95 % intervals over documents. Only what differs from "
        "shuffled roles and from the random-weights twin can have been learned."
    ),
    "answers": (
        "The same measures for right answers, confident wrong ones, and wrong ones of low confidence, by layer; "
        "bands are 95 % intervals over documents, wide where a group has few questions."
    ),
    "failure": (
        "How well one layer's vectors predict that the final answer is wrong (AUC, 0.5 is chance), by layer; the "
        "band is the 95 % interval over documents. It is an early sign only where it beats the random-weights twin, "
        "the model's own confidence and the question's length."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 220
_ADJUSTED = "_adjusted"


class Panel(NamedTuple):
    """How one measure is shown."""

    measure: str
    title: str
    reading: str
    axis: str


_COSINE, _GAP = "cosine", "difference of cosines"
PANELS = (
    Panel("within_question", "Within the question", "its words with each other", _COSINE),
    Panel("within_support", "Within the support", "its words with each other", _COSINE),
    Panel("within_other", "Within the rest", "words of other sentences", _COSINE),
    Panel("between_question_support", "Question and support", "words of one with the other's", _COSINE),
    Panel("between_question_other", "Question and the rest", "words of one with the other's", _COSINE),
    Panel("question_nearer_support", "Question nearer its support", "than the rest, by so much", "nearer by (cosine)"),
    Panel("answer_apart", "Gold answer apart", "farther from others than they are", _GAP),
    Panel("predicted_apart", "Predicted answer apart", "farther from others than they are", _GAP),
    Panel("answer_silhouette", "Silhouette of the answer", "answers of 2 or more tokens", "silhouette"),
    Panel("ami_sentences", "Clusters and sentences", "agreement beyond chance", "adj. mutual information"),
    Panel("ami_roles", "Clusters and roles", "agreement beyond chance", "adj. mutual information"),
    Panel("ami_entities", "Clusters and entity types", "agreement beyond chance", "adj. mutual information"),
)
ANSWERS = ("right", "confident wrong", "low confidence")
"""Groups of answers that are drawn apart; low confidence: wrong, too."""
_BY_ANSWER = ("between_question_support", "question_nearer_support", "answer_apart", "predicted_apart", "ami_roles")
_FEATURES = {"confidence": "output confidence", "length": "question length"}


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `roles`, and for a model that answers `answers` and `failure`."""
    table = result.tables["phases"]
    charts = {"roles": _roles(result, table)}
    told = [group for group in ANSWERS if group in set(table["group"])]
    if told:
        charts["answers"] = _answers(result, table, told)
    failure = result.tables.get("failure")
    if failure is not None and len(failure):
        charts["failure"] = _failure(result, failure)
    return {name: themed(chart) for name, chart in charts.items()}


def _roles(result: Result, table: Table) -> alt.ConcatChart:
    rows = _shown(table[table["group"] == "all"])
    count = int(rows["count"].max())
    name = result.provenance.model["name"]
    return _page(
        rows.assign(series=rows["model"]),
        PANELS,
        f"How {name} reads {count:,} questions of {result.provenance.corpus['name']}",
        [_adjusting(table), "shaded: 95 % bootstrap interval over documents"],
    )


def _answers(result: Result, table: Table, told: list[str]) -> alt.ConcatChart:
    name = result.provenance.model["name"]
    own = _shown(table[(table["model"] == name) & table["group"].isin(told)])
    counts = own.groupby("group")["count"].max()
    labels = {group: f"{group} ({counts[group]:,})" for group in told}
    rows = own.assign(series=[labels[group] for group in own["group"]])
    bar = result.provenance.parameters["confident"]
    return _page(
        rows,
        [panel for panel in PANELS if panel.measure in _BY_ANSWER],
        f"{name}: right and wrong answers apart",
        [f"confident: probability of at least {bar:g}; low confidence: wrong with less", _adjusting(table)],
        list(labels.values()),
    )


def _failure(result: Result, table: Table) -> alt.ConcatChart:
    """AUC of predicting a wrong answer; what has no layer is a flat line, without its interval."""
    last = int(table["layer"].dropna().max())
    vectors = table[table["feature"] == "vectors"].assign(series=lambda rows: rows["model"] + ", vectors")
    flat = [
        table[table["feature"] == feature].assign(series=said, layer=layer, low=None, high=None)
        for feature, said in _FEATURES.items()
        for layer in sorted({0, last})
    ]
    rows = pd.concat([vectors, *flat], ignore_index=True).assign(layer=lambda rows: rows["layer"].astype(int))
    rows = rows.rename(columns={"auc": "value"})
    count = max(int(number) for number in rows["count"])
    names = list(dict.fromkeys(rows["series"]))
    panel = Panel("", "Can a wrong answer be predicted?", f"{count:,} questions; 0.5 is chance", "AUC")
    drawn = _panel(rows, panel, names, last, [0.0, 1.0], line=0.5, width=460)
    title = alt.TitleParams(
        f"{result.provenance.model['name']} on {result.provenance.corpus['name']}",
        subtitle="logistic regression, trained and scored on different documents; shaded: 95 % interval of vectors",
    )
    return alt.concat(drawn, title=title, description=_in_words(rows, names, [panel]))


def _shown(rows: Table) -> Table:
    """Similarities minus the layer's anisotropy, where that is known."""
    adjusted = rows["measure"].str.endswith(_ADJUSTED)
    replaced = set(rows.loc[adjusted, "measure"].str.removesuffix(_ADJUSTED))
    kept = rows[~rows["measure"].isin(replaced)]
    return kept.assign(measure=kept["measure"].str.removesuffix(_ADJUSTED))


def _adjusting(table: Table) -> str:
    if table["measure"].str.endswith(_ADJUSTED).any():
        return "cosines are minus the layer's anisotropy: 0 is the similarity of words of different documents"
    return "cosines are not adjusted: there is only one document, so anisotropy is not known"


def _page(
    rows: Table,
    panels: list[Panel] | tuple[Panel, ...],
    title: str,
    notes: list[str],
    names: list[str] | None = None,
) -> alt.ConcatChart:
    names = names or list(dict.fromkeys(rows["series"]))
    last = int(rows["layer"].max())
    there = [panel for panel in panels if panel.measure in set(rows["measure"])]
    drawn = []
    for panel in there:
        own = rows[rows["measure"] == panel.measure]
        drawn.append(_panel(own, panel, names, last, _domain(rows, there, panel.axis), line=0.0))
    return alt.concat(
        *drawn,
        columns=3,
        spacing=24,
        title=alt.TitleParams(title, subtitle=notes),
        description=_in_words(rows, names, there),
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def _domain(rows: Table, panels: list[Panel], axis: str) -> list[float]:
    """One scale for all panels with this axis, with 0 on it."""
    own = rows[rows["measure"].isin([panel.measure for panel in panels if panel.axis == axis])]
    values = own[["value", "low", "high"]]
    lowest, highest = float(values.min().min()), float(values.max().max())
    return [min(0.0, math.floor(lowest * 10) / 10), max(0.2, math.ceil(highest * 10) / 10)]


def _panel(
    rows: Table,
    panel: Panel,
    names: list[str],
    last: int,
    domain: list[float],
    *,
    line: float,
    width: int = PANEL_WIDTH,
) -> alt.LayerChart:
    look = series(names)
    own = rows[["series", "layer", "count", "value", "low", "high"]].rename(columns={"series": "model"})
    base = alt.Chart(own, width=width, height=170).encode(x=layer_axis(last), color=look.colour)
    value = alt.Y("value:Q", title=panel.axis, scale=alt.Scale(domain=domain, nice=False), axis=alt.Axis(tickCount=5))
    numbers = (alt.Tooltip(f"{number}:Q", format=".3f") for number in ("value", "low", "high"))
    tooltip = ["model:N", "layer:Q", *numbers, alt.Tooltip("count:Q", title="questions", format=",")]
    return alt.LayerChart(
        layer=[
            base.mark_area(opacity=0.2, clip=True).encode(y=alt.Y("low:Q", title=panel.axis), y2="high:Q"),
            alt.Chart(alt.Data(values=[{"at": line}])).mark_rule(color=INK).encode(y="at:Q"),
            base.mark_line(strokeWidth=2).encode(y=value, strokeDash=look.dash),
            base.mark_point(filled=True, size=50, opacity=1).encode(y=value, shape=look.shape, tooltip=tooltip),
        ],
        title=alt.TitleParams(panel.title, subtitle=panel.reading),
    )


def _in_words(rows: Table, names: list[str], panels: list[Panel]) -> str:
    """Each measure at the first and the last layer of each series."""
    sentences = []
    for panel in panels:
        own = rows[rows["measure"] == panel.measure] if panel.measure else rows
        parts = []
        for name in names:
            points = sorted(zip(own["layer"], own["value"], own["series"], strict=True))
            ends = [(layer, value) for layer, value, of in points if of == name]
            if ends:
                said = dict([ends[0], ends[-1]]).items()
                parts.append(f"{name} " + ", ".join(f"{value:.2f} at layer {layer}" for layer, value in said))
        sentences.append(f"{panel.title}: {'; '.join(parts)}.")
    return " ".join(sentences)
