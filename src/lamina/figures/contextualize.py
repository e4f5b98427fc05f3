"""Words in context: F1 by layer beside vectors without context, by context size, and after fine-tuning."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import pandas as pd

from lamina.analyses.words.contextualize.scores import CHOSEN, over_seeds, overall
from lamina.figures._marks import curve, interval_line, number_tips, spread_names
from lamina.figures.theme import COLOURS, GREY, INK, SHADES, Table, layer_axis, series, themed
from lamina.results import Result
from lamina.results.finding import rows_of as each_row

CAPTIONS = {
    "layers": (
        "Micro-F1 over words and classes that chose nothing, by layer; shaded: 95 % intervals over words (from 5 seeds "
        "on over words and seeds). “One vector per word” "
        "has vectors that are the same in every context, “One vector per context” those that are not. A layer uses "
        "context as far as it lies above the same layer's average over contexts (AVG); random vectors and permuted "
        "classes show what can be had without meaning. Whether two rows differ is tested word by word in `contrasts`, "
        "not by overlapping intervals; findings are about the layer that is best on other words."
    ),
    "words": (
        "Micro-F1 with each word counted once, scored on the classes a word has in any context: the grid of the "
        "paper's figure on vectors without context. The chart by layer scores every word and class apart instead, so "
        "that a vector that is the same in every context loses where a word has two classes."
    ),
    "context": (
        "Micro-F1 when the model sees a limited number of words on each side (0: the word alone), with its 95 % "
        "interval. Compare each size with the whole text, and the layers with the bag of input embeddings (P-); "
        "differences are tested word by word in `contrasts`."
    ),
    "contexts": "Number of word-class pairs by number of contexts, all splits together.",
    "finetuning": (
        "Micro-F1 by layer, shaded: 95 % intervals. (a) is the old probes on the fine-tuned model's vectors, (b) new "
        "probes; compare both with the pretrained model. Where (a) falls and (b) holds, the classes are still there "
        "but have to be read in another way. Of several seeds, lines are the mean and small marks single models. A "
        "model fine-tuned through an attention window is probed through it, and so is the pretrained model in its "
        "panel."
    ),
    "attention": (
        "Mean cosine of each head's attention before and after fine-tuning, one grid per fine-tuned model, one cell "
        "per head. Compare it with the other heads of the layer (the number in brackets): 1 is no change."
    ),
}
"""Chart -> how to read it."""

_WIDTH, _HEIGHT = 420, 260
_FULL = "whole text"


def context_chart(sizes: Table, whole: Table, title: str, chosen: int | None = None) -> alt.ConcatChart | None:
    """F1 by the words the model may see on each side, one line per layer, P- beside them."""
    if sizes.empty:
        return None
    names = set(sizes["representation"])
    full = whole[whole["representation"].isin(names)].assign(context=_FULL)
    table: Table = pd.concat([sizes, full])
    table = table.assign(
        row=[
            _row(name, layer)
            for name, layer in zip(table["representation"], table["layer"].astype(object).tolist(), strict=True)
        ]
    )
    order = [*dict.fromkeys(sorted(set(sizes["context"]), key=int)), _FULL]
    rows = list(dict.fromkeys(table["row"]))
    layers = [row for row in rows if row.startswith("layer")]
    others = len(rows) - len(layers)
    # Layers lie on each other: the one that findings are about stands out, the others are its surroundings.
    hues = [COLOURS[0] if row == f"layer {chosen}" or chosen is None else GREY for row in layers]
    colour = alt.Color(
        "row:N", sort=rows, scale=alt.Scale(domain=rows, range=[*hues, *[COLOURS[1]] * others]), legend=None
    )
    dashes = alt.Scale(domain=rows, range=[[1, 0]] * len(layers) + [[6, 3]] * others)
    dash = alt.StrokeDash("row:N", sort=rows, scale=dashes, legend=None)
    top = min(1.0, round(float(table["high"].max()) + 0.1, 1))
    base = alt.Chart(table, width=_WIDTH, height=_HEIGHT).encode(
        x=alt.X("context:N", sort=order, title="words on each side", axis=alt.Axis(labelAngle=0)),
        y=alt.Y(
            "value:Q",
            title="micro-F1",
            scale=alt.Scale(domain=[0, top]),
        ),
        color=colour,
    )
    tooltip = [
        alt.Tooltip("row:N"),
        alt.Tooltip("context:N"),
        *number_tips(),
    ]
    chart = alt.LayerChart(
        layer=[
            interval_line(base, alt.Y("low:Q", title="micro-F1"), opacity=0.35),
            base.mark_line(strokeWidth=2).encode(strokeDash=dash),
            base.mark_point(filled=True, size=45, opacity=1).encode(tooltip=tooltip),
            *_named_ends(full.assign(row=table["row"].to_numpy()[len(sizes) :]), chosen, top),
        ]
    )
    heading = alt.TitleParams(
        f"How much context: {title}", subtitle="each size has probes of its own; bars: 95 % intervals"
    )
    return alt.concat(
        chart, title=heading, description=_in_words(table, layers, order, chosen), usermeta={"panelWidth": _WIDTH}
    )


def _named_ends(full: Table, chosen: int | None, top: float) -> list[alt.Chart]:
    """Names at the ends of the lines: the chosen layer, what is no layer, and the others together."""
    apart = full["row"].eq(f"layer {chosen}") | ~full["row"].str.startswith("layer")
    rest = full[~apart]
    named = [(row.row, row.value) for row in each_row(full[apart])]
    if len(rest):
        named.append(("other layers" if apart.any() else "layers", float(rest["value"].mean())))
    ends = pd.DataFrame(named, columns=["row", "value"]).assign(layer=0)
    placed = spread_names(ends["value"].tolist(), _HEIGHT, (0.0, top))
    ends = ends.assign(at=placed)
    text = alt.Chart(ends).mark_text(align="left", dx=12, fontSize=12, color=INK)
    return [text.encode(x=alt.value("width"), y=alt.Y("at:Q"), text=alt.Text("row:N"), color=alt.value(INK))]


def _row(name: str, layer: int | None) -> str:
    return f"layer {layer}" if isinstance(layer, int) else name


def _in_words(table: Table, layers: list[str], order: list[str], chosen: int | None) -> str:
    """One layer, the one that findings are about where there is one."""
    row = f"layer {chosen}" if f"layer {chosen}" in layers else layers[-1] if layers else ""
    values = table[table["row"] == row].set_index("context")["value"]
    parts = [
        f"{values[size]:.2f} with {size}{'' if size == _FULL else ' words on each side'}"
        for size in order
        if size in values
    ]
    return f"Micro-F1 of {row}: {', '.join(parts)}." if parts else "Micro-F1 by context size."


def histogram_chart(contexts: Table, title: str) -> alt.ConcatChart:
    """How many (word, class) pairs have how many contexts."""
    total = contexts.groupby("contexts", as_index=False)["pairs"].sum()
    bars = (
        alt.Chart(total, width=_WIDTH, height=180)
        .mark_bar(color="#0072b2")
        .encode(
            x=alt.X("contexts:O", title="contexts of a word and class", axis=alt.Axis(labelAngle=0, labelOverlap=True)),
            y=alt.Y("pairs:Q", title="word-class pairs"),
            tooltip=[alt.Tooltip("contexts:O"), alt.Tooltip("pairs:Q", format=",")],
        )
    )
    words = "A bar counts the pairs of all splits that occur this often."
    heading = alt.TitleParams(f"Contexts per word and class: {title}", subtitle=words)
    return alt.concat(bars, title=heading, description=words, usermeta={"panelWidth": _WIDTH})


def finetuning_chart(table: Table, title: str) -> alt.ConcatChart:
    """One panel per task: before, (a) old probes on new vectors, (b) new probes."""
    names = {"pretrained": "pretrained", "a": "(a) old probes, new vectors", "b": "(b) new probes"}
    every = table.assign(model=table["setup"].map(names)).astype({"layer": float})
    means = over_seeds(every)
    look = series(list(names.values()))
    last = int(means["layer"].max())
    panels = []
    for task, task_rows in means.groupby("task", sort=False):
        base = alt.Chart(task_rows, width=300, height=200).encode(x=layer_axis(last), color=look.colour)
        value = alt.Y("value:Q", title="micro-F1", scale=alt.Scale(domain=[0, 1]))
        marks = [
            *curve(base, look, value, alt.Y("low:Q", title="micro-F1")),
        ]
        single = every[(every["task"] == task) & ~every.index.isin(task_rows.index)]
        if "seed" in single.columns and single["seed"].nunique() > 1:
            few = alt.Chart(single).encode(
                x=layer_axis(last), y=value, color=look.colour, tooltip=[alt.Tooltip("seed:N"), alt.Tooltip("value:Q")]
            )
            marks.append(few.mark_tick(orient="horizontal", size=9, opacity=0.6))
        panels.append(alt.LayerChart(layer=marks, title=alt.TitleParams(str(task), subtitle=_window(task_rows))))
    tops = means[means["layer"] == last]
    words = "; ".join(f"{row.task}, {row.model} {row.value:.2f}" for row in tops.itertuples())
    heading = alt.TitleParams(f"Semantic classes after fine-tuning: {title}")
    return alt.concat(
        *panels, columns=2, title=heading, description=f"At the last layer: {words}.", usermeta={"panelWidth": 300}
    )


def _window(rows: Table) -> str:
    """What the words of a model saw, for the title of its panel."""
    size = str(rows["window"].iloc[0]) if "window" in rows.columns else "all"
    return "" if size == "all" else f"both models through a window of {size} words on each side"


def similarity_chart(table: Table, title: str) -> alt.ConcatChart | None:
    """Heads by layer, one panel per task: paler heads changed more."""
    if table.empty:
        return None
    # The mean over the seeds of a task.
    table = table.groupby(["task", "layer", "head"], sort=False, as_index=False)[["value", "baseline"]].mean()
    panels = []
    shades = alt.Scale(domain=[0, 1], range=list(SHADES), interpolate="lab", clamp=True)
    for task, task_rows in table.groupby("task", sort=False):
        panels.append(
            alt.Chart(
                task_rows,
                width=26 * task_rows["head"].nunique(),
                height=26 * task_rows["layer"].nunique(),
                title=str(task),
            )
            .mark_rect()
            .encode(
                x=alt.X("head:O", axis=alt.Axis(labelAngle=0)),
                y=alt.Y("layer:O", sort="descending"),
                color=alt.Color("value:Q", title="cosine", scale=shades),
                tooltip=[
                    alt.Tooltip("layer:O"),
                    alt.Tooltip("head:O"),
                    *number_tips("value", "baseline"),
                ],
            )
        )
    means = table.groupby("task", sort=False)[["value", "baseline"]].mean()
    words = "; ".join(
        f"{task} {row['value']:.2f} (other heads {row['baseline']:.2f})" for task, row in means.iterrows()
    )
    heading = alt.TitleParams(f"Attention before and after fine-tuning: {title}", subtitle=f"mean cosine: {words}")
    return alt.concat(*panels, title=heading, description=f"Mean cosine of attention: {words}.")


PANEL_WIDTH = 430


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """`layers` (the paper's two F1 figures), `context`, `contexts` and, where asked, `finetuning` and `attention`."""
    tables, split = result.tables, "dev" if result.provenance.parameters.get("faithful") else "test"
    title = f"{result.provenance.model['name']} on {result.provenance.corpus['name']} ({split} words)"
    scores = overall(tables["sclass"], split)
    chosen = chosen_layer(tables)
    charts = {
        "layers": layers_chart(scores, result.provenance.model["name"], title, chosen),
        # Results of older versions do not have it.
        "words": words_chart(overall(tables["words"], split), title) if "words" in tables else None,
        "context": context_chart(overall(tables["context"], split), scores, title, chosen),
        "contexts": histogram_chart(tables["contexts"], title),
    }
    if "finetuning" in tables:
        charts["finetuning"] = finetuning_chart(tables["finetuning"], title)
        charts["attention"] = similarity_chart(tables["attention_similarity"], title)
    return {name: themed(chart) for name, chart in charts.items() if chart is not None}


def chosen_layer(tables: Mapping[str, Table]) -> int | None:
    """The layer that findings are about; None where none was chosen."""
    rows = tables["contrasts"] if "contrasts" in tables else pd.DataFrame(columns=["family", "layer"])
    layers = rows.loc[rows["family"] == CHOSEN, "layer"].dropna()
    return None if layers.empty else int(layers.iloc[0])


def layers_chart(scores: Table, model: str, title: str, chosen: int | None = None) -> alt.ConcatChart:
    """One panel per kind: a vector per word, a vector per context. Rows without layers are lines across."""
    contextual = scores["representation"].eq(model) | scores["representation"].str.startswith(("P-", "permuted"))
    last = int(scores["layer"].max())
    top = float(scores["high"].max())
    panels = [
        _panel(scores[~contextual], "One vector per word", "the same in every context", last, top),
        _panel(scores[contextual], "One vector per context", "P-: mean of all vectors of the text", last, top),
    ]
    heading = alt.TitleParams(
        f"Semantic classes by layer: {title}", subtitle="shaded: 95 % bootstrap interval over words"
    )
    return alt.concat(
        *panels,
        columns=2,
        spacing=30,
        title=heading,
        description=in_words(scores, chosen),
        usermeta={"panelWidth": PANEL_WIDTH},
    ).resolve_scale(color="independent", strokeDash="independent", shape="independent")


def words_chart(scores: Table, title: str) -> alt.ConcatChart | None:
    """Vectors without context on the paper's grid, word by word; None where there are none."""
    if scores.empty:
        return None
    last = int(scores["layer"].max()) if scores["layer"].notna().any() else 1
    panel = _panel(scores, "One vector per word", "each word counted once", last, float(scores["high"].max()))
    heading = alt.TitleParams(f"Semantic classes, word by word: {title}", subtitle="as in the paper's figure 3")
    return alt.concat(panel, title=heading, description=in_words(scores), usermeta={"panelWidth": PANEL_WIDTH})


def in_words(scores: Table, chosen: int | None = None) -> str:
    """Each representation, at the chosen layer where it has one.

    Example:
        >>> rows = [("minilm", 0, 0.5), ("minilm", 1, 0.625), ("random", None, 0.25)]
        >>> in_words(pd.DataFrame(rows, columns=["representation", "layer", "value"]), 1)
        'Micro-F1: minilm 0.62 at layer 1; random 0.25.'
    """
    parts = []
    for name, group in scores.dropna(subset="value").groupby("representation", sort=False):
        candidates = (
            group[group["layer"] == chosen] if chosen is not None and (group["layer"] == chosen).any() else group
        )
        row = candidates.iloc[-1]
        where = "" if pd.isna(row["layer"]) else f" at layer {int(row['layer'])}"
        parts.append(f"{name} {row['value']:.2f}{where}")
    return f"Micro-F1: {'; '.join(parts)}."


def _panel(rows: Table, title: str, reading: str, last: int, top: float) -> alt.LayerChart:
    flat = rows["layer"].isna() | rows["representation"].str.startswith("permuted")
    names = list(dict.fromkeys([*rows[~flat]["representation"], *rows[flat]["representation"]]))
    look = series(names)
    spread = [rows[flat].assign(layer=layer) for layer in (0, last)]
    table = pd.concat([rows[~flat], *spread]).rename(columns={"representation": "model"})
    table = table.assign(layer=table["layer"].astype(float))
    base = alt.Chart(table, width=PANEL_WIDTH, height=_HEIGHT).encode(x=layer_axis(last), color=look.colour)
    scale = alt.Scale(domain=[0, min(1.0, round(top + 0.1, 1))])
    value = alt.Y("value:Q", title="micro-F1", scale=scale, axis=alt.Axis(tickCount=6))
    return alt.LayerChart(
        layer=curve(base, look, value, alt.Y("low:Q", title="micro-F1")),
        title=alt.TitleParams(title, subtitle=reading, color=INK),
    )
