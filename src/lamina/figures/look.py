"""A sentence as some heads see it (figures 1 and 5 of the attention paper)."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Mapping
from typing import NamedTuple

import altair as alt

from lamina.figures.theme import COLOURS, FAINT, INK, SHADES, Table, attention_name, themed
from lamina.results import Result

CAPTIONS = {
    "lines": (
        "One panel per head, named layer-head. Lines go from the word that attends to the word attended to, wider and "
        "stronger with more attention; weaker ones than .02 are left out. One sentence has no interval: "
        "compare the heads with each other."
    ),
    "rollout": (
        "Attention rollout: how much of each input word (column) has been mixed into each word (row) after the layers "
        "named over the panel, all heads averaged and the residual connection counted as half. Rows sum to 1 with the "
        "special tokens. One sentence has no interval: compare the panels with each other."
    ),
}
"""Chart -> how to read it."""

LEAST = 0.02
"""Weaker lines are not drawn: they could not be seen, and a long sentence has thousands."""
ROW = 17
"""Height of a word."""
GAP = 100
"""Between the two columns of words."""
PAGE = 980
"""Panels are put side by side as far as they fit in this width."""
_BETWEEN = 30
_FONT_SIZE = 12
_SEEN, _PALER = 0.7, 0.5
"""Least weight by which a strong line is drawn, and share of theirs by which the others are."""
_WIDEST = 130
"""Of a word; the rest of a longer one is cut off with an ellipsis."""

GIVEN, RECEIVED = "from the word", "to the word"


class Panel(NamedTuple):
    """The heading of one head's lines."""

    title: str
    subtitle: str = ""


def lines(
    table: Table,
    panels: Mapping[tuple[int, int], Panel] | None = None,
    *,
    focus: int | None = None,
    least: float = LEAST,
    strong: str = "",
    title: str = "",
    description: str = "",
) -> alt.ConcatChart:
    """One small panel per head: words that attend in the first column, words attended to in the second.

    A line's weight is its opacity and its width. Give it lamina's look with `themed`.

    Args:
        table: `layer,head,from,from_word,to,to_word,weight`, one row per pair of words; `from` and `to` are positions.
            Where there is a column `kind`, lines are coloured by it.
        panels: which (layer, head) to draw, in which order and under which title; all by default.
        focus: draw only lines from this position and to it, in two colours.
        least: weaker lines are left out.
        strong: a kind whose lines are seen however weak they are; the others are paler then.
        title: over all panels.
        description: for screen readers.

    Example:
        >>> rows = [(1, 2, 0, "dogs", 0, "dogs", 0.25), (1, 2, 0, "dogs", 1, "bark", 0.75)]
        >>> names = ["layer", "head", "from", "from_word", "to", "to_word", "weight"]
        >>> import pandas as pd
        >>> chart = lines(pd.DataFrame(rows, columns=names))
        >>> chart.to_dict()["concat"][0]["title"]["text"]
        'Head 1-2'
    """
    if panels is None:
        heads = table[["layer", "head"]].drop_duplicates().itertuples(index=False)
        panels = {(int(layer), int(head)): Panel(f"Head {layer}-{head}") for layer, head in heads}
    if focus is not None:
        table = _of_one_word(table, focus)
    kinds = list(dict.fromkeys(table["kind"])) if "kind" in table else []
    words = [_words(table, "from"), _words(table, "to")]
    side = min(_WIDEST, max(text_width(word) for word in {*words[0]["word"], *words[1]["word"]})) + 8
    width = 2 * side + GAP
    drawn = [_panel(_drawn(table, *head, least), words, kinds, panel, side, strong) for head, panel in panels.items()]
    note = "first column: words that attend; second: words attended to; weak lines not drawn"
    return alt.concat(
        *drawn,
        columns=max(1, PAGE // (width + _BETWEEN)),
        spacing=_BETWEEN,
        title=alt.TitleParams(title, subtitle=note) if title else alt.Undefined,
        description=description,
        usermeta={"panelWidth": width, "fixed": True},
    )


def text_width(word: str) -> int:
    """About how many pixels a word takes: wide scripts and emoji take two letters' room, combining marks none.

    Example:
        >>> text_width("dog"), text_width("東京")
        (21, 28)
    """
    units = sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in word
    )
    return round(units * _FONT_SIZE * 0.58)


def _of_one_word(table: Table, focus: int) -> Table:
    """Lines of all other words get no weight, so that only their words are drawn."""
    given, received = table["from"] == focus, table["to"] == focus
    kind = given.map({True: GIVEN, False: RECEIVED})
    return table.assign(weight=table["weight"].where(given | received, 0), kind=kind).sort_values("kind")


def _words(table: Table, side: str) -> Table:
    """Position and word of one column's words."""
    words = table[[side, f"{side}_word"]].drop_duplicates(side).set_axis(["position", "word"], axis=1)
    return words.sort_values("position")


def _drawn(table: Table, layer: int, head: int, least: float) -> Table:
    head_rows = table[(table["layer"] == layer) & (table["head"] == head) & (table["weight"] >= least)]
    # Strong lines on top of weak ones.
    return head_rows.sort_values("weight").drop(columns=["layer", "head"])


def _panel(rows: Table, words: list[Table], kinds: list[str], panel: Panel, side: int, strong: str) -> alt.LayerChart:
    width = 2 * side + GAP
    places = [*words[0]["position"], *words[1]["position"]]
    first, last = int(min(places)), int(max(places))
    # In pixels, so that lines end where words begin.
    across = alt.Scale(domain=[0, width], range=[0, width], nice=False)
    down = alt.Scale(domain=[first - 0.5, last + 0.5], reverse=True, nice=False)
    style = {"baseline": "middle", "fontSize": _FONT_SIZE, "color": INK, "limit": _WIDEST}
    columns = [
        alt.Chart(some)
        .mark_text(align=align, **style)
        .encode(
            x=alt.XDatum(place, scale=across),
            y=alt.Y("position:Q", scale=down, axis=None),
            text=alt.Text("word:N"),
            tooltip=alt.Tooltip("word:N"),
        )
        for some, align, place in zip(words, ("right", "left"), (side - 4, side + GAP + 4), strict=True)
    ]
    title = alt.TitleParams(panel.title, subtitle=panel.subtitle or alt.Undefined, fontSize=13)
    height = ROW * (last - first + 1)
    return alt.LayerChart(
        layer=[_links(rows, kinds, side, across, down, strong), *columns], width=width, height=height, title=title
    )


def _links(rows: Table, kinds: list[str], side: int, across: alt.Scale, down: alt.Scale, strong: str) -> alt.Chart:
    chart = (
        alt.Chart(rows)
        .transform_calculate(left=str(side), right=str(side + GAP))
        .mark_rule(strokeCap="round", color=COLOURS[0])
        .encode(
            x=alt.X("left:Q", scale=across, axis=None),
            x2=alt.X2("right:Q"),
            y=alt.Y("from:Q", scale=down, axis=None),
            y2=alt.Y2("to:Q"),
            opacity=alt.Opacity("weight:Q", scale=alt.Scale(domain=[0, 1], range=[0.08, 1]), legend=None),
            strokeWidth=alt.StrokeWidth("weight:Q", scale=alt.Scale(domain=[0, 1], range=[0.4, 3.5]), legend=None),
            tooltip=[alt.Tooltip("from_word:N"), alt.Tooltip("to_word:N"), alt.Tooltip("weight:Q", format=".3f")],
        )
    )
    if not kinds:
        return chart
    legend = alt.Legend(title=None, orient="top", symbolStrokeWidth=3)
    if strong:
        opacity = f"datum.kind == '{strong}' ? max(datum.weight, {_SEEN}) : {_PALER} * datum.weight"
        scale = alt.Scale(domain=[0, 1], range=[0.08, 1])
        chart = chart.transform_calculate(opacity=opacity)
        chart = chart.encode(opacity=alt.Opacity("opacity:Q", scale=scale, legend=None))
    return chart.encode(color=alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=list(COLOURS)), legend=legend))


_HIDDEN = "attention to special tokens not shown"


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `lines`, one panel per head, and `rollout`, one panel per depth."""
    heads, settings = result.tables["heads"], result.provenance.parameters
    # Results of format 1 have the position among the parameters, later ones what was typed.
    focus = result.provenance.corpus.get("focus", settings["focus"])
    panels = {
        (int(layer), int(head)): Panel(f"Head {layer}-{head}", _reason(why, value))
        for layer, head, why, value in heads.itertuples(index=False)
    }
    attention, hidden = attention_name(result), "" if settings["special"] else f"; {_HIDDEN}"
    about = f"{result.provenance.model['name']}, by {settings['level']}{hidden}"
    chart = lines(
        result.tables["attention"],
        panels,
        focus=focus,
        title=f"{attention.capitalize()} of {about}",
        description=describe(result.tables["attention"], list(panels)),
    )
    charts: dict[str, alt.TopLevelMixin] = {"lines": themed(chart)}
    # Results of version 1 have no rollout.
    if "rollout" in result.tables:
        charts["rollout"] = themed(rollout(result.tables["rollout"], title=f"Rollout of {attention}: {about}"))
    return charts


def rollout(table: Table, *, title: str = "") -> alt.ConcatChart:
    """One heat map per depth: words in rows, the input words that were mixed into them in columns.

    Example:
        >>> import pandas as pd
        >>> names = ["layer", "from", "from_word", "to", "to_word", "weight"]
        >>> chart = rollout(pd.DataFrame([(1, 0, "Yes", 0, "Yes", 1.0)], columns=names))
        >>> chart.to_dict()["concat"][0]["title"]
        'Layer 1'
    """
    most = float(table["weight"].max())
    words = _words(table, "to")
    size = ROW * len(words)
    # A label per position: words repeat.
    labels = {
        "labelExpr": f"{json.dumps(words['word'].tolist())}[datum.value]", "labelFontSize": _FONT_SIZE,
        "labelLimit": _WIDEST, "ticks": False, "domain": False, "title": None,
    }  # fmt: skip
    legend = alt.Legend(title="share mixed in", orient="top", gradientLength=200, titleFontWeight="normal")
    colour = alt.Color(
        "weight:Q", scale=alt.Scale(domain=[0, most], range=list(SHADES), interpolate="lab"), legend=legend
    )
    panels = [
        alt.Chart(
            table[table["layer"] == layer].drop(columns="layer"),
            width=size,
            height=size,
            title="Layer 1" if layer == 1 else f"Layers 1 to {layer}",
        )
        .mark_rect(stroke=FAINT, strokeWidth=0.5)
        .encode(
            x=alt.X("to:O", axis=alt.Axis(labelAngle=-90, **labels)),
            y=alt.Y("from:O", axis=alt.Axis(**labels)),
            color=colour,
            tooltip=[alt.Tooltip("from_word:N"), alt.Tooltip("to_word:N"), alt.Tooltip("weight:Q", format=".3f")],
        )
        for layer in depths(int(table["layer"].max()))
    ]
    width = size + min(_WIDEST, max(map(text_width, words["word"])))
    return alt.concat(
        *panels,
        columns=max(1, PAGE // (width + _BETWEEN)),
        spacing=_BETWEEN,
        title=alt.TitleParams(title, subtitle="rows: words; columns: the input words mixed into them")
        if title
        else alt.Undefined,
        description=describe_rollout(table),
        usermeta={"panelWidth": width},
    )


def depths(last: int) -> list[int]:
    """A third and two thirds of the way, and the last layer.

    Example:
        >>> depths(6), depths(2), depths(1)
        ([2, 4, 6], [1, 2], [1])
    """
    return sorted({math.ceil(last * part / 3) for part in (1, 2, 3)})


def describe_rollout(table: Table) -> str:
    """The input words that reach the other words most, in words."""
    deepest = table[(table["layer"] == table["layer"].max())]
    others = deepest[deepest["from"] != deepest["to"]]
    received = others.groupby(["to", "to_word"])["weight"].mean().nlargest(3)
    parts = [f"{word} {weight:.2f}" for (_, word), weight in received.items()]  # pyright: ignore[reportGeneralTypeIssues]
    return f"Rollout to the input. Mixed most into other words, on average: {', '.join(parts) or 'nothing'}."


def describe(table: Table, heads: list[tuple[int, int]]) -> str:
    """Each head's strongest lines in words."""
    sentences = []
    for layer, head in heads:
        strongest = table[(table["layer"] == layer) & (table["head"] == head)].nlargest(3, "weight")
        parts = [
            f"{one} to {other} {weight:.2f}"
            for one, other, weight in strongest[["from_word", "to_word", "weight"]].itertuples(index=False)
        ]
        sentences.append(f"Head {layer}-{head}: strongest {', '.join(parts)}.")
    return " ".join(sentences)


def _reason(why: str, value: float) -> str:
    return "" if math.isnan(value) else f"most: {why}, {value:.2f}"
