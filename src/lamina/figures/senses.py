"""Word senses and position by layer: neighbours, clusters, and what places explain."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import pandas as pd

from lamina.analyses.words.senses.predictions import MOST_FREQUENT, SCORED_MAJORITY, SENSES
from lamina.analyses.words.senses.targets import bag_of
from lamina.figures._marks import curve, number_tips
from lamina.figures.theme import COLOURS, DASHES, INK, SHAPES, Look, Table, layer_axis, themed
from lamina.results import Result

CAPTIONS = {
    "senses": (
        "Accuracy of k nearest neighbours among training occurrences of the same word, for words with several senses "
        "in training, by layer (0: embeddings); shaded: 95 % intervals over scored documents. Level lines: each word's "
        "most frequent sense in training and in other scored documents, and the same neighbours over averaged static "
        "vectors of the words around the word (the best window) and of the whole text (the best). Clusters: adjusted "
        "mutual information of a word's clusters with its senses (1: the same groups, 0: chance), intervals over "
        "words. Whether a layer beats a line is tested by the paired differences in the table, not by their overlap."
    ),
    "position": (
        "Variance within words: share of the variance of a word's vectors around its mean that places in the sentence "
        "explain in documents that were not used to fit it; places also come with different contexts, so that this "
        "is an upper bound for position itself; dotted: places shuffled among the occurrences of each word. The same "
        "sentence moved: squared distance a word's vector moves if the sentence is encoded at shifted positions or "
        "after another sentence, relative to that between two occurrences of a word; nothing else changes, so "
        "that shifted positions are position alone. Shaded: 95 % intervals over documents. Compare with the twin."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 330
_HEIGHT = 220
_MODEL, _TWIN = "model", "random-weights twin"
_SHARES = {
    "position.both": "places, all words",
    "position.inner": "places, inner words only",
    "position.boundary": "being first or last",
    "twin.position.both": f"places, {_TWIN}",
}
_MOVES = {
    "moved.shifted": "positions shifted",
    "moved.sentence": "after another sentence",
    "moved.one_segment": "the same, as one segment",
}


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """`senses`: neighbours and clusters by layer. `position`: what places explain, and sentences that are moved."""
    table, about = result.tables["senses"], result.provenance
    main = f"knn{about.parameters['k'][0]}.ambiguous"
    subject = f"{about.model['name']} on {about.corpus['name']} ({', '.join(about.corpus.get('annotations', ()))})"
    charts: dict[str, alt.TopLevelMixin] = {}
    first = [_panel(_series(table, {main: _MODEL, f"twin.{main}": _TWIN}), "Ambiguous words", "accuracy",
                    lines=_lines(table, main))]  # fmt: skip
    across = f"across{about.parameters['k'][0]}.all"
    for measures, title, unit, beside in (
        ({across: _MODEL, f"twin.{across}": _TWIN}, "All words, by other words only", "accuracy",
         "most frequent class"),
        ({"ami": _MODEL, "twin.ami": _TWIN, "ami.silhouette": "number by silhouette"},
         "Clusters and senses", "adjusted mutual information", ""),
    ):  # fmt: skip
        rows = _series(table, measures)
        if len(rows):
            level = float(table.loc[table["measure"] == next(iter(measures)), "baseline"].iloc[0])
            lines = pd.DataFrame([(beside, level)], columns=["line", "value"]) if beside else None
            first.append(_panel(rows, title, unit, lines=lines))
    charts["senses"] = _beside(first, f"Senses by nearest neighbours: {subject}", _in_words(table, [main, "ami"]))
    places, moves = _series(table, _SHARES), _series(table, _MOVES)
    second = [_panel(places, "Variance within words", "share explained by places", null=True)] if len(places) else []
    if len(moves):
        second.append(_panel(moves, "The same sentence moved", "distance relative to contexts"))
    if second:
        charts["position"] = _beside(
            second, f"How much is position: {subject}", _in_words(table, ["position.both", "moved.shifted"])
        )
    return charts


def _series(table: Table, measures: Mapping[str, str]) -> Table:
    rows = table[table["measure"].isin(list(measures)) & table["layer"].notna() & table["value"].notna()]
    labels, order = (
        rows["measure"].map(dict(measures)),
        rows["measure"].map({name: index for index, name in enumerate(measures)}),
    )
    named = rows.assign(model=labels, layer=rows["layer"].astype(int), order=order)
    return named.sort_values(["order", "layer"])[[*SENSES, "model"]]


def _lines(table: Table, main: str) -> Table:
    """Level lines: constant answers, and of static vectors the best bag of a window and the best of the whole text."""
    constants = {f"{name}.ambiguous": name for name in (MOST_FREQUENT, SCORED_MAJORITY)}
    flat = table[table["layer"].isna()]
    always = flat[flat["measure"].isin(list(constants))]
    bags = flat[flat["measure"].str.endswith(f".{main}")]
    windowed = bags["measure"].str.contains(r"\.w\d+\.")
    level_rows = pd.concat([always, *(bags[kind].nlargest(1, "value") for kind in (windowed, ~windowed))])
    names = [constants.get(str(measure), str(measure).removesuffix(f".{main}")) for measure in level_rows["measure"]]
    lines = [(_short(name), float(value)) for name, value in zip(names, level_rows["value"], strict=True)]
    return pd.DataFrame(lines, columns=["line", "value"])


def _short(name: str) -> str:
    """A level line in the legend.

    Example:
        >>> _short("skip-gram.w2"), _short("skip-gram"), _short(MOST_FREQUENT)
        ('skip-gram, 2 words around', 'skip-gram, whole text', 'majority in training')
    """
    constant = {MOST_FREQUENT: "majority in training", SCORED_MAJORITY: "majority, other scored texts"}.get(name)
    vectors, window = bag_of(name)
    return constant or f"{vectors}, {'whole text' if window is None else f'{window} words around'}"


def _panel(rows: Table, title: str, unit: str, *, lines: Table | None = None, null: bool = False) -> alt.LayerChart:
    names = list(dict.fromkeys(rows["model"]))
    levels = [] if lines is None else lines["line"].tolist()
    domain = [*names, *levels]
    looks = [index % len(COLOURS) for index in range(len(names))] + [6 - index for index in range(len(levels))]
    # Strokes: level lines have no points, and every line its own dash.
    legend = alt.Legend(
        title=None,
        orient="top",
        columns=2,
        symbolType="stroke",
        symbolSize=260,
        symbolStrokeWidth=2,
        symbolOpacity=1,
        labelLimit=PANEL_WIDTH // 2,
    )

    def scale(values: tuple) -> alt.Scale:
        return alt.Scale(domain=domain, range=[values[index % len(values)] for index in looks])

    colour = alt.Color("model:N", scale=scale(COLOURS), legend=legend)
    # One name more than colours have: equal scales would share a legend, which would show points.
    shape = alt.Shape(
        "model:N", scale=alt.Scale(domain=[*names, ""], range=list(SHAPES[: len(names) + 1])), legend=None
    )
    dash = alt.StrokeDash("model:N", scale=scale(DASHES), legend=legend)
    base = alt.Chart(rows, width=PANEL_WIDTH, height=_HEIGHT).encode(
        x=layer_axis(int(rows["layer"].max())), color=colour
    )
    least = [rows["low"].min(), rows["value"].min(), *([] if lines is None else lines["value"])]
    scaled = alt.Scale(zero=bool(min(least) < 0.3), nice=True)
    value, low = (alt.Y(f"{name}:Q", title=unit, scale=scaled) for name in ("value", "low"))
    tooltip = [alt.Tooltip("model:N", title="of"), alt.Tooltip("layer:Q"),
               *number_tips("value", "low", "high", "baseline")]  # fmt: skip
    marks: list[alt.Chart] = [
        *curve(base, Look(colour, dash, shape), value, low, tooltip),
    ]
    if null:
        level = alt.Y("baseline:Q", title=unit, scale=scaled)
        marks.append(base.mark_line(strokeWidth=1.2, strokeDash=[2, 3]).encode(y=level))
    if lines is not None:
        level_rows = lines.rename(columns={"line": "model"})
        marks.append(
            alt.Chart(level_rows)
            .mark_rule(strokeWidth=1.5, color=INK)
            .encode(y=value, color=colour, strokeDash=dash, tooltip=[alt.Tooltip("model:N"), tooltip[2]])
        )
    return alt.LayerChart(layer=marks, title=title)


def _beside(panels: list[alt.LayerChart], title: str, description: str) -> alt.TopLevelMixin:
    heading = alt.TitleParams(title, subtitle="shaded: 95 % intervals", offset=12)
    chart = alt.concat(
        *panels, columns=2, spacing=28, title=heading, description=description, usermeta={"panelWidth": PANEL_WIDTH}
    )
    return themed(chart.resolve_scale(color="independent", shape="independent", strokeDash="independent"))


def _in_words(table: Table, measures: list[str]) -> str:
    """The first measures, layer by layer."""
    parts = []
    for measure in measures:
        measure_rows = table[(table["measure"] == measure) & table["layer"].notna() & table["value"].notna()]
        if len(measure_rows):
            values = zip(measure_rows["layer"], measure_rows["value"], strict=True)
            parts.append(f"{measure} by layer: " + ", ".join(f"{layer} {value:.3f}" for layer, value in values) + ".")
    return " ".join(parts)
