"""Trees in layers: scores by layer and by rank, trees from attention, and trees drawn beside the annotated ones."""

from __future__ import annotations

import math

import altair as alt
import numpy as np
import pandas as pd

from lamina.analyses.layers.structure.attention_trees import HEAD, LAYER, PROBE
from lamina.figures._marks import interval_line, number_tips
from lamina.figures.theme import COLOURS, GREY, INK, SHADES, SHAPES, Table, layer_axis, themed
from lamina.results import Result

CAPTIONS = {
    "layers": (
        "Probes of the largest rank by layer. UUAS: share of links found by minimum spanning trees over predicted "
        "distances; root: share of sentences whose root is the least deep word; DSpr and NSpr: Spearman correlation of "
        "distances and depths, averaged over sentence lengths 5 to 50. Lines: 95 % intervals over documents. Dashed: "
        "words in a row. A layer without a point has a probe that did not converge. Which layers can be best, and what "
        "the model is ahead of, is tested in pairs (`best`, `contrasts`), not by whether intervals overlap."
    ),
    "ranks": (
        "UUAS and root accuracy by the rank of the map, one line per layer, on a scale of powers of two. Lines: 95 % "
        "intervals over documents. Compare with random projections of the same rank (grey: best layer)."
    ),
    "trees": (
        "Trees on the same sentences, punctuation left out. UAS: share of words whose head is found; UUAS: share of "
        "links, whichever way they point. Lines: 95 % intervals over documents. Heads, layers and combinations are "
        "chosen on training sentences, the layer of the structural probe by its loss on stopping sentences. With the "
        "gold root given, the root is not counted as found. Compare with the "
        "next word as head (right branching) and the words in a row (chain)."
    ),
    "heads": (
        "UAS of each head's maximum spanning arborescence, its root free, without intervals; the direction of reading "
        "is chosen on training sentences. Compare with right branching in the table of trees."
    ),
    "examples": (
        "Scored sentences drawn by hash. Above the words: the annotated tree; below: the minimum spanning tree of the "
        "distances at the layer with the highest UUAS, which need not be the best one. Solid blue links are "
        "annotated, dashed orange ones are not. "
        "Filled dots: annotated root above, least deep word below. Punctuation is left out."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 330
_HEIGHT = 200
_MEASURES = {"uuas": "UUAS", "root": "root accuracy", "dspr": "DSpr (distances)", "nspr": "NSpr (depths)"}
_OF = {
    "model": "model",
    "twin": "random weights",
    "projection": "random projection",
    "decay": "averaged neighbours",
    "control": "shuffled trees",
}
_SOURCES = {
    "structural_probe": "structural probe, layer of lowest loss",
    "attention_best_head": "attention: best head",
    "attention_layer": "attention: layer best in training",
    "attention_combined": "attention: best combination",
    "attention_parser": "parser: attention",
    "attention_words_parser": "parser: attention and words",
    "distance_words_parser": "parser: distance and words",
    "chain": "chain",
    "right_branching": "right branching",
    "offset": "best fixed offset",
}


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `layers`, `ranks` (with several ranks), `trees` and `heads` (with attention) and `examples`."""
    table = result.tables["structure"]
    about = result.provenance
    split = f" ({about.corpus['split']})" if about.corpus.get("split") else ""
    name = f"{about.model['name']} on {about.corpus['name']}{split}"
    charts: dict[str, alt.TopLevelMixin] = {"layers": themed(_layers(table, name))}
    if table.loc[table["of"] == "model", "rank"].nunique() > 1:
        charts["ranks"] = themed(_ranks(table, name))
    if "trees" in result.tables and len(result.tables["trees"]):
        charts["trees"] = themed(
            _trees(result.tables["trees"], result.tables["training"], result.tables["chosen"], name)
        )
        charts["heads"] = themed(_heads(result.tables["trees"], name))
    if len(result.tables["examples"]):
        charts["examples"] = themed(_examples(result.tables["examples"], name))
    return charts


def describe(table: Table, measure: str = "uuas") -> str:
    """A measure by layer, in words.

    Example:
        >>> rows = [(3, 8, "model", 0, "uuas", 0.5, 0.4, 0.6)]
        >>> columns = ["layer", "rank", "of", "seed", "measure", "value", "low", "high"]
        >>> describe(pd.DataFrame(rows, columns=columns))
        'UUAS, model: layer 3 0.50.'
    """
    scores = table[(table["of"] == "model") & (table["measure"] == measure)].dropna(subset=["value"])
    scores = scores[scores["rank"] == scores["rank"].max()]
    parts = [f"layer {layer} {value:.2f}" for layer, value in zip(scores["layer"], scores["value"], strict=True)]
    return f"{_MEASURES[measure]}, model: {', '.join(parts)}."


def _layers(table: Table, name: str) -> alt.ConcatChart:
    largest = table["rank"].max()
    scores = table[(table["rank"] == largest) & table["of"].isin(list(_OF))].dropna(subset=["value"])
    scores = scores[scores["seed"] == scores["seed"].min()].assign(series=lambda rows: rows["of"].map(_OF))
    chain = table[table["of"] == "chain"]
    names = [label for of, label in _OF.items() if of in set(scores["of"])]
    panels = [
        _by_layer(scores[scores["measure"] == measure], chain[chain["measure"] == measure], measure, names)
        for measure in _MEASURES
    ]
    title = alt.TitleParams(f"Trees in layers: {name}", subtitle=f"rank {largest}; lines: 95 % intervals", offset=12)
    return alt.concat(
        *panels, columns=2, spacing=28, title=title, description=describe(table), usermeta={"panelWidth": PANEL_WIDTH}
    ).resolve_scale(y="independent")


def _by_layer(rows: Table, chain: Table, measure: str, names: list[str]) -> alt.LayerChart:
    legend = alt.Legend(title=None, orient="top", symbolSize=80, symbolOpacity=1, labelLimit=220)
    colour = alt.Color("series:N", scale=alt.Scale(domain=names, range=list(COLOURS[: len(names)])), legend=legend)
    shape = alt.Shape("series:N", scale=alt.Scale(domain=names, range=list(SHAPES[: len(names)])), legend=legend)
    last = int(rows["layer"].max()) if len(rows) else 1
    offsets = {name: (index - (len(names) - 1) / 2) * 0.12 for index, name in enumerate(names)}
    place = rows["layer"].astype(float) + rows["series"].map(offsets).astype(float)
    data = pd.DataFrame(rows.assign(place=place)[["place", "layer", "series", "value", "low", "high"]])
    data["layer"] = data["layer"].astype(int)
    x = layer_axis(last, domain=(-0.5, last + 0.5))
    x.shorthand = "place:Q"
    unit = _MEASURES[measure]
    lowest = min(0.0, float(data["low"].min()) if len(data) else 0.0)
    scale = alt.Scale(domain=[min(lowest, 0), 1], nice=False)
    base = alt.Chart(data, width=PANEL_WIDTH, height=_HEIGHT).encode(x=x, color=colour)
    y = alt.Y("value:Q", title=unit, scale=scale, axis=alt.Axis(tickCount=5))
    numbers = number_tips()
    marks = [
        base.mark_line(strokeWidth=1, opacity=0.5).encode(y=y),
        interval_line(base, alt.Y("low:Q", title=unit, scale=scale), opacity=0.6),
        base.mark_point(filled=True, size=42, opacity=1).encode(
            y=y, shape=shape, tooltip=[alt.Tooltip("series:N"), alt.Tooltip("layer:Q"), *numbers]
        ),
    ]
    beside = pd.DataFrame({"value": chain["value"].to_numpy()[:1]})
    row = alt.Chart(beside).mark_rule(color=INK, strokeDash=[5, 4]).encode(y=y)
    return alt.LayerChart(layer=[row, *marks], title=f"{unit} (dashed: words in a row)")


def _ranks(table: Table, name: str) -> alt.ConcatChart:
    panels = [_by_rank(table[table["measure"] == measure], measure) for measure in ("uuas", "root")]
    title = alt.TitleParams(f"Trees by rank: {name}", subtitle="colour: layer; grey: random projections", offset=12)
    return alt.concat(
        *panels, columns=2, spacing=28, title=title, description=describe(table), usermeta={"panelWidth": PANEL_WIDTH}
    )


def _by_rank(rows: Table, measure: str) -> alt.LayerChart:
    def some(of: str) -> Table:
        scores = rows[rows["of"] == of].dropna(subset=["value"])
        scores = scores[scores["seed"] == scores["seed"].min()]
        return scores.astype({"layer": int, "rank": int})[["layer", "rank", "value", "low", "high"]]

    model_rows, random = some("model"), some("projection")
    random = random.sort_values("value").groupby("rank", as_index=False).last()
    unit = _MEASURES[measure]
    ticks = sorted(set(model_rows["rank"]))
    scale = alt.Scale(type="log", base=2, nice=False)
    x = alt.X("rank:Q", title="rank of the map", scale=scale, axis=alt.Axis(values=ticks, grid=False))
    y = alt.Y("value:Q", title=unit, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5))
    colour = alt.Color(
        "layer:O",
        scale=alt.Scale(scheme="viridis"),
        legend=alt.Legend(title="layer", columns=1 + model_rows["layer"].nunique() // 14),
    )
    numbers = number_tips()
    base = alt.Chart(model_rows, width=PANEL_WIDTH, height=_HEIGHT).encode(x=x)
    grey = alt.Chart(random).encode(x=x)
    return alt.LayerChart(
        layer=[
            grey.mark_line(color=GREY, strokeDash=[5, 4]).encode(y=y),
            base.mark_line(strokeWidth=1.5).encode(y=y, color=colour, detail=alt.Detail("layer:N")),
            interval_line(base, alt.Y("low:Q", title=unit), width=1, opacity=0.6).encode(color=colour),
            base.mark_point(filled=True, size=36, opacity=1).encode(
                y=y, color=colour, tooltip=[alt.Tooltip("layer:Q"), alt.Tooltip("rank:Q"), *numbers]
            ),
        ],
        title=unit,
    )


def _shown(trees: Table, training: Table, chosen: Table) -> Table:
    """One row per source, direction and measure: the layers are those that training sentences chose."""
    parts = []
    for source, source_rows in trees.groupby("source", sort=False):
        if source == HEAD:
            continue
        if source == PROBE:
            probes = training[(training["of"] == "model") & (training["kind"] == "distance")]
            probes = probes[probes["rank"] == probes["rank"].max()]
            source_rows = source_rows[source_rows["layer"] == int(probes.sort_values("loss")["layer"].iloc[0])]
        if source == LAYER:
            maps = chosen[chosen["source"] == LAYER]
            source_rows = source_rows[source_rows["layer"] == maps.sort_values("train_uas")["layer"].iloc[-1]]
        parts.append(source_rows)
    return pd.concat(parts, ignore_index=True).dropna(subset=["value"])


def _trees(trees: Table, training: Table, chosen: Table, name: str) -> alt.ConcatChart:
    rows = _shown(trees, training, chosen).assign(said=lambda some: some["source"].map(_SOURCES))
    kinds = ["gold root", "free root", "no"]
    names = [label for source, label in _SOURCES.items() if source in set(rows["source"])]
    legend = alt.Legend(title="directed", orient="top")
    look = alt.Color("directed:N", scale=alt.Scale(domain=kinds, range=list(COLOURS[:3])), legend=legend)
    shape = alt.Shape("directed:N", scale=alt.Scale(domain=kinds, range=list(SHAPES[:3])), legend=legend)
    panels = []
    for measure, title in (("uas", "UAS: heads found"), ("uuas", "UUAS: links found")):
        measure_rows = rows[rows["measure"] == measure][["said", "directed", "value", "low", "high"]]
        base = alt.Chart(measure_rows, width=PANEL_WIDTH, height=30 * len(names)).encode(
            y=alt.Y("said:N", sort=names, title=None, scale=alt.Scale(domain=names), axis=alt.Axis(labelLimit=260)),
            yOffset=alt.YOffset("directed:N", scale=alt.Scale(domain=kinds)),
            color=look,
        )
        x = alt.X("value:Q", title=title.partition(":")[0], scale=alt.Scale(domain=[0, 1]))
        numbers = number_tips()
        panels.append(
            alt.LayerChart(
                layer=[
                    interval_line(base, alt.X("low:Q", title=title.partition(":")[0]), opacity=0.6),
                    base.mark_point(filled=True, size=48, opacity=1).encode(
                        x=x, shape=shape, tooltip=[alt.Tooltip("said:N"), alt.Tooltip("directed:N"), *numbers]
                    ),
                ],
                title=title,
            )
        )
    description = " ".join(
        f"{row.said}, {row.directed}: {str(row.measure).upper()} {row.value:.2f}."
        for row in rows.itertuples(index=False)
    )
    title = alt.TitleParams(
        f"Trees from attention and from layers: {name}", subtitle="lines: 95 % intervals", offset=12
    )
    return alt.concat(
        *panels, columns=2, spacing=28, title=title, description=description, usermeta={"panelWidth": PANEL_WIDTH}
    )


def _heads(trees: Table, name: str) -> alt.ConcatChart:
    head_rows = trees[(trees["source"] == HEAD) & (trees["measure"] == "uas") & (trees["directed"] == "free root")]
    head_rows = head_rows.astype({"layer": int, "head": int})[["layer", "head", "value", "low", "high"]]
    cell = 26
    grid = (
        alt.Chart(head_rows, width=cell * head_rows["head"].nunique(), height=cell * head_rows["layer"].nunique())
        .mark_rect()
        .encode(
            x=alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("layer:O", title="layer", sort="descending"),
            color=alt.Color("value:Q", title="UAS", scale=alt.Scale(range=list(SHADES), domainMin=0)),
            tooltip=[
                alt.Tooltip("layer:O"),
                alt.Tooltip("head:O"),
                *number_tips(),
            ],
        )
    )
    description = f"UAS of single heads, from {head_rows['value'].min():.2f} to {head_rows['value'].max():.2f}."
    title = alt.TitleParams(f"Trees of single heads: {name}", subtitle="UAS, root free")
    return alt.concat(grid, title=title, description=description, usermeta={"panelWidth": PANEL_WIDTH})


_WORD = 9.0
"""Width of a letter in a drawn sentence, and room between words."""


def _examples(rows: Table, name: str) -> alt.ConcatChart:
    panels = [_sentence(sentence) for _, sentence in rows.groupby("sentence", sort=False)]
    layer = int(rows["layer"].iloc[0])
    description = " ".join(" ".join(map(str, sentence["word"])) for _, sentence in rows.groupby("sentence", sort=False))
    title = alt.TitleParams(
        f"Trees beside gold: {name}",
        subtitle=f"above: annotated; below: distances at layer {layer}; solid blue: in both, dashed orange: in one",
        offset=12,
    )
    return alt.concat(
        *panels, columns=1, spacing=18, title=title, description=description, usermeta={"panelWidth": 2 * PANEL_WIDTH}
    )


def _sentence(rows: Table) -> alt.LayerChart:
    word_rows = rows[~rows["punctuation"].astype(bool)].reset_index(drop=True)
    widths = word_rows["word"].astype(str).str.len().clip(lower=2) * _WORD * 0.8 + _WORD
    middle = (widths.cumsum() - widths / 2).to_numpy()
    place = {int(position): float(x) for position, x in zip(word_rows["position"], middle, strict=True)}
    gold, predicted = ({(int(p), int(h)) for p, h in zip(word_rows["position"], word_rows[side], strict=True)
                    if int(h) in place} for side in ("head", "linked"))  # fmt: skip
    both = {frozenset(pair) for pair in gold} & {frozenset(pair) for pair in predicted}
    points, number = [], 0
    for links, sign in ((gold, 1), (predicted, -1)):
        for one, other in links:
            number += 1
            shared = "in both" if frozenset((one, other)) in both else "only here"
            points += [(number, x, sign * y, shared) for x, y in _arc(place[one], place[other])]
    arcs = pd.DataFrame(points, columns=["link", "x", "y", "shared"])
    words = pd.DataFrame({"x": middle, "y": 0.0, "word": word_rows["word"].astype(str)})
    roots = pd.DataFrame(
        [(place[int(p)], 14.0) for p, h in zip(word_rows["position"], word_rows["head"], strict=True) if int(h) == 0]
        + [
            (place[int(p)], -14.0)
            for p, h in zip(word_rows["position"], word_rows["linked"], strict=True)
            if int(h) == 0
        ],
        columns=["x", "y"],
    )
    total = float(widths.sum())
    tall = max(40.0, float(arcs["y"].abs().max()) + 6) if len(arcs) else 40.0
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, total], nice=False))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[-tall, tall], nice=False))
    kinds = ["in both", "only here"]
    lines = (
        alt.Chart(arcs, width=min(900, math.ceil(total)), height=math.ceil(1.6 * tall))
        .mark_line(strokeWidth=1.6)
        .encode(
            x=x,
            y=y,
            detail=alt.Detail("link:N"),
            order=alt.Order("x:Q"),
            color=alt.Color("shared:N", scale=alt.Scale(domain=kinds, range=list(COLOURS[:2])), legend=None),
            strokeDash=alt.StrokeDash("shared:N", scale=alt.Scale(domain=kinds, range=[[1, 0], [5, 3]]), legend=None),
        )
    )
    text = alt.Chart(words).mark_text(fontSize=12, color=INK).encode(x=x, y=y, text=alt.Text("word:N"))
    dots = alt.Chart(roots).mark_point(filled=True, size=30, color=INK, opacity=1).encode(x=x, y=y)
    return alt.LayerChart(layer=[lines, text, dots])


def _arc(one: float, other: float) -> list[tuple[float, float]]:
    """A half ellipse between two words, above them."""
    turn = np.linspace(0, math.pi, 25)
    middle, half = (one + other) / 2, abs(one - other) / 2
    tall = 12 + 9 * math.sqrt(2 * half / _WORD)
    return [(middle - half * math.cos(angle), 12 + tall * math.sin(angle)) for angle in turn]
