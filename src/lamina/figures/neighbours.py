"""What lies near a word, as a table of words; and its contexts as a map, layer by layer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from lamina.analyses.words.occurrences import AND
from lamina.figures.theme import COLOURS, FAINT, INK, SHAPES, Table, themed
from lamina.results import Result
from lamina.stats.status import SURE

CAPTIONS = {
    "neighbours": (
        "One table per context: the nearest words by cosine, 1 the nearest, first without context, then by layer. Grey "
        "words are near without any context too; blue ones come with the context. Where classes were shown to lie "
        "apart, contexts are those that lie with their own class most clearly. There are no intervals: these are "
        "neighbours of single vectors."
    ),
    "senses": (
        "One panel per layer, one point per context; colour and shape are its class. Axes have no meaning across "
        "layers: read what lies near what. The silhouette is measured in the whole space over classes with at least 5 "
        "contexts (1: far apart, 0: mixed); shuffled classes have about 0, and `separation.csv` tests the difference."
    ),
}
"""Chart -> how to read it."""

MOST_LAYERS, MOST_CONTEXTS, MOST_RANKS, MOST_CLASSES = 8, 4, 8, 6
"""What fits: the rest is in the tables."""

_COLUMN, _ROW, _MAP = 92, 19, 175
_NARROW = 70
"""The least that a column of words needs: pages leave some out where they have no room for all."""
_AROUND = 48
"""Characters each side of the word in a panel's title."""

_BOTH, _NEW = "near without context too", "near with context only"
_OTHER, _NO_CLASS = "other classes", "no class"
_GREY = "#767676"


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """`neighbours`: rank x layer, one panel per context. `senses`: contexts in two dimensions, one panel per layer."""
    tables, about = result.tables, result.provenance
    word = about.corpus["word"]
    split = f" ({about.corpus['split']})" if about.corpus.get("split") else ""
    title = f"“{word}” in {about.model['name']} on {about.corpus['name']}{split}"
    names = {"static": Path(about.parameters["vectors"] or "static").stem, "input": "input"}
    charts = {"senses": senses_chart(tables["senses"], tables["separation"], tables["contexts"], title)}
    # A corpus of a single word has no neighbours.
    if not tables["neighbours"].empty:
        grid = neighbours_chart(tables["neighbours"], established_contexts(tables), word, names, title)
        charts = {"neighbours": grid} | charts
    return {name: themed(chart) for name, chart in charts.items()}


def established_contexts(tables: Mapping[str, Table]) -> Table:
    """The contexts, with silhouettes only where a layer was shown to keep their classes apart."""
    apart = tables["separation"]
    clear = "p_adjusted" in apart and bool(((apart["p_adjusted"] < SURE) & (apart["difference"] > 0)).any())
    return tables["contexts"] if clear else tables["contexts"].assign(silhouette=np.nan)


def spread(last: int, most: int) -> list[int]:
    """At most `most` layers, evenly spread; the first and the last are always among them.

    Example:
        >>> spread(6, 8), spread(24, 4)
        ([0, 1, 2, 3, 4, 5, 6], [0, 8, 16, 24])
    """
    return sorted({round(layer) for layer in np.linspace(0, last, min(most, last + 1)).tolist()})


def neighbours_chart(near: Table, contexts: Table, word: str, names: dict[str, str], title: str) -> alt.ConcatChart:
    """The nearest words: first those without context, then layer by layer."""
    layers = spread(int(near["layer"].max()), MOST_LAYERS)
    known = {word, *near[near["space"] != "layer"]["neighbour"]}
    near = near[near["rank"] <= MOST_RANKS]
    alone = near[near["space"] != "layer"]
    alone = alone.assign(column=alone["space"].map(names), kind=_BOTH)
    by_layer = near[near["layer"].isin(layers)]
    kinds = [_BOTH if neighbour in known else _NEW for neighbour in by_layer["neighbour"]]
    by_layer = by_layer.assign(column=[f"layer {layer}" for layer in by_layer["layer"]], kind=kinds)
    columns = [*dict.fromkeys(alone["column"]), *(f"layer {layer}" for layer in layers)]
    chosen = varied(contexts, MOST_CONTEXTS)
    colour = alt.value(INK) if alone.empty else _kind_colour()
    panels = [
        _grid(pd.concat([alone, by_layer[by_layer["context"] == row["context"]]]), columns, colour, _title(row, word))
        for row in chosen
    ]
    some = "" if len(chosen) == len(contexts) else f", {len(chosen)} of {len(contexts)} contexts"
    heading = alt.TitleParams(f"Nearest words: {title}{some}", subtitle="from the nearest (1) on, by cosine")
    meta = {"panelWidth": _COLUMN * len(columns), "columns": {"field": "column", "width": _NARROW}}
    words = _nearest_in_words(by_layer, chosen, word, layers[-1])
    return alt.concat(*panels, columns=1, spacing=26, title=heading, description=words, usermeta=meta)


def varied(contexts: Table, most: int) -> list[dict]:
    """Some contexts of different classes: the first of each, frequent classes before rare ones, then the second ...

    With silhouettes only contexts that lie with their own class, the clearest of each first. Otherwise those with
    several classes at once come after those with one, those without a class last. A sentence is shown once.

    Example:
        >>> table = pd.DataFrame({"context": [0, 1, 2, 3, 4], "class": ["", "food", "food", "act+food", "act"]})
        >>> [row["context"] for row in varied(table, 2)]
        [1, 4]
    """
    if "sentence" in contexts:
        contexts = contexts.drop_duplicates("sentence")
    if "silhouette" in contexts and contexts["silhouette"].notna().any():
        contexts = contexts[contexts["silhouette"] > 0].sort_values("silhouette", ascending=False, kind="stable")
    by_class = contexts.groupby("class", sort=False)["context"]
    vague = [2 if not name else int(AND in name) for name in contexts["class"]]
    keys = {"vague": vague, "turn": by_class.cumcount(), "rare": -by_class.transform("size")}
    ordered = contexts.assign(**keys).sort_values([*keys, "context"])
    return ordered.head(most).sort_values("context").to_dict("records")


def _kind_colour() -> alt.Color:
    scale = alt.Scale(domain=[_BOTH, _NEW], range=[_GREY, COLOURS[0]])
    legend = alt.Legend(title=None, orient="top", symbolType="square", labelLimit=400)
    return alt.Color("kind:N", scale=scale, legend=legend)


def _title(context: dict, word: str) -> alt.TitleParams:
    named = f"class: {context['class']}" if context["class"] else "no class"
    return alt.TitleParams(around(context["sentence"], word), subtitle=f"context {context['context']}, {named}")


def _grid(rows: Table, columns: list[str], colour: Any, title: alt.TitleParams) -> alt.LayerChart:
    ranks = list(range(1, int(rows["rank"].max()) + 1))
    x_axis = alt.Axis(orient="top", labelAngle=0, title=None, domain=False, ticks=False, labelFontWeight="bold")
    base = alt.Chart(rows, width=_COLUMN * len(columns), height=_ROW * len(ranks)).encode(
        x=alt.X("column:N", scale=alt.Scale(domain=columns), axis=x_axis),
        y=alt.Y("rank:O", scale=alt.Scale(domain=ranks), axis=alt.Axis(title=None, domain=False, ticks=False)),
        tooltip=[
            alt.Tooltip("column:N"),
            alt.Tooltip("rank:Q"),
            alt.Tooltip("neighbour:N"),
            alt.Tooltip("similarity:Q", format=".3f"),
            alt.Tooltip("neighbour_text:N"),
        ],
    )
    words = base.mark_text(fontSize=12, limit=_COLUMN - 8).encode(text=alt.Text("neighbour:N"), color=colour)
    return alt.LayerChart(layer=[base.mark_rect(fill="white", stroke=FAINT), words], title=title)


def around(sentence: str, word: str, most: int = _AROUND) -> str:
    """As much of a sentence as fits, the word in brackets in its middle.

    Example:
        >>> around("one two three [Four] five six", "four", 6)
        '… three [Four] five …'
    """
    # Not just any bracket: texts have their own.
    match = re.search(re.escape(f"[{word}]"), sentence, re.IGNORECASE)
    begin, end = match.span() if match else (0, 0)
    start, stop = max(0, begin - most), min(len(sentence), end + most)
    # Words are not cut in two.
    start = start if start == 0 else sentence.find(" ", start - 1, begin) + 1 or begin
    stop = stop if stop == len(sentence) else max(sentence.rfind(" ", end, stop + 1), end)
    return ("… " if start > 0 else "") + sentence[start:stop] + (" …" if stop < len(sentence) else "")


def _nearest_in_words(neighbours: Table, chosen: list[dict], word: str, last: int) -> str:
    sentences = []
    for row in chosen:
        nearest = neighbours[(neighbours["context"] == row["context"]) & (neighbours["layer"] == last)].sort_values(
            "rank"
        )
        sentences.append(
            f"{around(row['sentence'], word)}: at layer {last} near {', '.join(nearest['neighbour'].head(3))}."
        )
    return " ".join(sentences)


def senses_chart(senses: Table, separation: Table, contexts: Table, title: str) -> alt.ConcatChart:
    """One panel per layer, on its own scale: only what lies near what can be read."""
    layers = spread(int(senses["layer"].max()), MOST_LAYERS)
    named = _few_classes(senses)
    table = senses.assign(**{"class": [named[name] for name in senses["class"]]})
    order = [*dict.fromkeys(named.values())]
    last = [name for name in (_OTHER, _NO_CLASS) if name in order]
    order = [*(name for name in order if name not in last), *last]
    grey, pointing = {_OTHER: _GREY, _NO_CLASS: "#b5b5b5"}, {_OTHER: "triangle-right", _NO_CLASS: "triangle-left"}
    colours = [grey.get(name, COLOURS[index % len(COLOURS)]) for index, name in enumerate(order)]
    shapes = [pointing.get(name, SHAPES[index % len(SHAPES)]) for index, name in enumerate(order)]
    legend = alt.Legend(title=None, orient="top", symbolSize=90, symbolOpacity=1, labelLimit=300, columns=4)
    colour = alt.Color("class:N", scale=alt.Scale(domain=order, range=colours), legend=legend)
    shape = alt.Shape("class:N", scale=alt.Scale(domain=order, range=shapes), legend=legend)
    scores = separation.set_index("layer").to_dict("index")
    said_there = alt.LookupData(contexts, key="context", fields=["sentence"])
    panels = [
        _map(table[table["layer"] == layer], layer, scores[layer], colour, shape).transform_lookup(
            "context", said_there
        )
        for layer in layers
    ]
    heading = alt.TitleParams(
        f"Sense map: {title}", subtitle="one point per context, by the first two principal components of each layer"
    )
    words = _separated_in_words(separation, len(set(senses["context"])))
    meta = {"panelWidth": _MAP, "keepShape": True}
    return alt.concat(*panels, columns=4, spacing=22, title=heading, description=words, usermeta=meta)


def _few_classes(senses: Table) -> dict[str, str]:
    """Class -> what the legend calls it: the most frequent by name, the others together."""
    counts = senses.loc[senses["layer"] == senses["layer"].min(), "class"].value_counts()
    frequent = [name for name in counts.index if name][:MOST_CLASSES]
    called = {name: name for name in frequent}
    return called | {name: _OTHER if name else _NO_CLASS for name in counts.index if name not in called}


def _map(rows: Table, layer: int, score: dict, colour: alt.Color, shape: alt.Shape) -> alt.Chart:
    hidden = alt.Axis(labels=False, ticks=False, title=None, grid=False, domainColor=FAINT)
    scale = alt.Scale(zero=False, padding=10)
    variance = "" if pd.isna(score["explained"]) else f"{score['explained']:.0%} of the variance"
    apart = "" if pd.isna(score["silhouette"]) else f"silhouette {score['silhouette']:.2f}"
    # Contexts without a class are many and say least: they lie below the others.
    rows = rows.sort_values("class", key=lambda names: names != _NO_CLASS, kind="stable")
    return (
        alt.Chart(rows, width=_MAP, height=_MAP)
        .mark_point(filled=True, size=55, opacity=0.8)
        .encode(
            x=alt.X("x:Q", axis=hidden, scale=scale),
            y=alt.Y("y:Q", axis=hidden, scale=scale),
            color=colour,
            shape=shape,
            tooltip=[alt.Tooltip("context:Q"), alt.Tooltip("class:N"), alt.Tooltip("sentence:N")],
        )
        .properties(
            title=alt.TitleParams(f"layer {layer}", subtitle=[line for line in (apart, variance) if line], color=INK),
            view=alt.ViewConfig(stroke=FAINT),
        )
    )


def _separated_in_words(separation: Table, contexts: int) -> str:
    count = f"{contexts} contexts."
    measured = separation.dropna(subset="silhouette")
    if measured.empty:
        return f"{count} Fewer than two classes have enough contexts to be compared."
    best = measured.iloc[measured["silhouette"].argmax()]
    there = f"Largest silhouette at layer {int(best['layer'])}: {best['silhouette']:.2f}"
    return f"{count} {there}; with shuffled classes {best['baseline']:.2f} on average."
