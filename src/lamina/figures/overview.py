"""A model at a glance: abilities by layer and heads by role, for the report's first screen and the app.

Both charts have the selection parameter `layer`: drawn together (`beside`), a layer pointed at lights up in both.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import altair as alt
import pandas as pd

from lamina.analyses.overview import Spine
from lamina.figures._marks import number_tips
from lamina.figures.theme import BEHAVIOUR_LOOKS, COLOURS, FAINT, GREY, INK, SHADES, Table, themed
from lamina.results.finding import layers_in_words, number, rows_of

HOVERED = "layer"
"""Name of the selection parameter that both charts share."""
PANEL_WIDTH = 300
_ABILITIES, _HEADS = "What each layer can do", "What each head does"
_LABELS = {_ABILITIES: 225, _HEADS: 60}
"""Pixels beside each panel: a narrow page puts one below the other, as wide as its labels leave."""
_ROW = 30
_HEAD_ROW = 17
_PALE = 0.3
"""Opacity of roles that were not tested."""
_WIDE_ENOUGH = 26
"""Pixels of a cell that has room for its score."""

CAPTIONS = {
    "spine": (
        "Layers are columns. A lane is an ability: the line is the score of each layer alone, from 0 to 1; the band, "
        "its best layers (95 % confidence set; none where no layer was shown to be better than another); the short "
        "grey ticks, the random-weights twin at that layer; the dashed line, the best answer without context. A filled "
        "point was shown to be above both (p < .05, corrected by max-T). Heads stand at their layer, by what a "
        "corrected test found; the clearest of each layer are named. The lanes of what is used are there where "
        "something was taken out of the model and the harm was measured: bars are the harm, filled where it was shown."
    ),
    "abilities": (
        "Score of each layer alone (numbers; hover for intervals). Shade: shown to be above both the random-weights "
        "twin at that layer and the best answer without context (p < .05, corrected by max-T; paired differences), the "
        "darker the farther above the larger of the two. No shade: not shown; italics: not tested. Frame: highest "
        "score; line below: layers that can be the best (95 % confidence set), where that was tested."
    ),
    "roles": (
        "One mark per head, by its most telling role; dots have none. A role requires a share of attention (or of "
        "right answers) by definition. Filled: p < .05, corrected by max-T over all heads, against uniform attention, "
        "for induction heads against the same tokens without a copy, for syntactic and coreference heads against the "
        "best simple rule. Hollow: tested and not shown. Pale: not tested, as broad attention."
    ),
}
"""Chart -> how to read it."""


def abilities(table: Table, width: int = PANEL_WIDTH) -> alt.LayerChart:
    """Abilities by layers, of `lamina.analyses.overview.ability_layers`; the earliest peak on top.

    Example:
        >>> from lamina.analyses.overview import ABILITIES
        >>> scores = ("Part of speech", "probe", "F1", 2, 0.9, 0.8, 1.0, 0.6, 0.2, 0.3)
        >>> row = (*scores, True, 2, 2, True, True, 99, "constant", "clear")
        >>> abilities(pd.DataFrame([row], columns=ABILITIES)).to_dict()["description"]
        'Part of speech: highest at layer 2, which is the best: F1 .90 [.80, 1.00], shown to be above twin .60 and \
constant .20.'
    """
    rows = table.assign(
        title=[f"{row.ability} ({row.metric})" for row in rows_of(table)],
        shade=table["above"].where(table["status"] == "clear", 0.0),
    )
    names = _by_peak(rows)
    layers = sorted(int(layer) for layer in rows["layer"].unique())
    ticks = layers[:: math.ceil(len(layers) / 13)]
    x = alt.X(
        "layer:O", title="layer (0 = embeddings)", axis=alt.Axis(values=ticks, labelAngle=0, ticks=False, domain=False)
    )
    axis = alt.Axis(ticks=False, domain=False, labelLimit=210, labelPadding=6)
    y = alt.Y("title:N", sort=names, title=None, axis=axis)
    tooltip = [
        alt.Tooltip("title:N", title="ability"),
        alt.Tooltip("layer:O"),
        *number_tips("score", "low", "high", "twin", "constant", "above"),
        alt.Tooltip("baseline:N", title="constant is"),
        alt.Tooltip("status:N", title="above both"),
        alt.Tooltip("count:Q", title="targets", format=","),
    ]
    most = max(float(rows["shade"].max()), 0.01)
    shade = alt.Color(
        "shade:Q",
        scale=alt.Scale(domain=[0, most], range=list(SHADES), interpolate="lab", clamp=True),
        legend=alt.Legend(title="above twin and constant", orient="top", gradientLength=150, format=".2f", tickCount=3),
    )
    base = alt.Chart(rows, width=width, height=_ROW * len(names)).encode(x=x, y=y, tooltip=tooltip)
    hover = _hover()
    lit = alt.when(hover).then(alt.value(1)).otherwise(alt.value(0.7))
    cells = base.mark_rect(stroke=FAINT, strokeWidth=1).encode(color=shade, opacity=lit).add_params(hover)
    marks: list[alt.Chart] = [cells]
    if width / len(layers) >= _WIDE_ENOUGH:
        ink = alt.when(alt.datum.shade > 0.55 * most).then(alt.value("white")).otherwise(alt.value(INK))
        for style, untested in (("normal", False), ("italic", True)):
            subset = base.transform_filter((alt.datum.status == "untested") == untested)
            text = subset.mark_text(fontSize=11, fontStyle=style)
            marks.append(text.encode(text=alt.Text("score:Q", format=".2f"), color=ink))
    peaks = pd.DataFrame(rows[rows["peak"].astype(bool)])
    if len(peaks):
        best = alt.Chart(peaks).encode(y=y, x=alt.X("layer:O"))
        marks.append(best.mark_rect(fillOpacity=0, stroke=INK, strokeWidth=2, tooltip=None))
    among = pd.DataFrame(rows[rows["among_best"].astype(bool)])
    if len(among):
        # One piece per layer: layers between may be clearly worse.
        marks.append(
            alt.Chart(among)
            .mark_rule(color=INK, strokeWidth=3, yOffset=_ROW / 2 - 3)
            .encode(y=y, x=alt.X("layer:O", bandPosition=0), x2=alt.X2("layer", bandPosition=1))
        )
    return alt.LayerChart(layer=marks, title=alt.TitleParams(_ABILITIES), description=describe_abilities(table))


def roles(table: Table, width: int = PANEL_WIDTH) -> alt.LayerChart:
    """Heads by layers, each with its most telling role, of `lamina.analyses.overview.head_roles`.

    Example:
        >>> from lamina.analyses.overview import ROLES
        >>> row = (1, 3, "previous", "", "share of attention", 0.9, 0.8, 1.0, 0.5, "clear", True)
        >>> roles(pd.DataFrame([row], columns=ROLES)).to_dict()["description"]
        '1 head in 1 layer. previous: 1 (1-3). Shown by a corrected test: 1; tested and not shown: 0; not tested: 0.'
    """
    heads = pd.DataFrame(table[table["named"].astype(bool)])
    there = [name for name in BEHAVIOUR_LOOKS if name in set(heads["role"])]
    looks = [BEHAVIOUR_LOOKS[name] for name in there]
    layers, most = sorted(int(layer) for layer in heads["layer"].unique()), int(heads["head"].max())
    ticks = layers[:: math.ceil(len(layers) / 13)]
    x = alt.X("layer:O", title="layer", axis=alt.Axis(values=ticks, labelAngle=0, ticks=False, domain=False))
    y = alt.Y(
        "head:O",
        title="head",
        axis=alt.Axis(ticks=False, domain=False, values=list(range(1, most + 1, math.ceil(most / 12)))),
    )
    tooltip = [
        alt.Tooltip("layer:O"),
        alt.Tooltip("head:O"),
        alt.Tooltip("role:N"),
        alt.Tooltip("what:N", title="best at"),
        alt.Tooltip("measure:N"),
        *number_tips("value", "low", "high", "over"),
        alt.Tooltip("status:N", title="beside its baseline"),
    ]
    legend = alt.Legend(title=None, orient="top", columns=4, symbolSize=80)
    colours = alt.Scale(domain=there, range=[look.colour for look in looks])
    shape = alt.Shape("role:N", scale=alt.Scale(domain=there, range=[look.shape for look in looks]), legend=legend)
    row = _HEAD_ROW if most <= 16 else max(8, 272 // most)
    hover = _hover()
    base = alt.Chart(heads, width=width, height=row * most).encode(x=x, y=y, tooltip=tooltip)
    # Cells catch the pointer between marks.
    cells = base.mark_rect(stroke=FAINT, strokeWidth=1, fill=SHADES[1]).encode(
        fillOpacity=alt.when(hover, empty=False).then(alt.value(0.14)).otherwise(alt.value(0))
    )
    marks = base.mark_point(size=min(row - 5, width / len(layers) - 1) ** 2, strokeWidth=1.5, opacity=1).encode(
        stroke=alt.Stroke("role:N", scale=colours, legend=legend),
        fill=alt.Fill("role:N", scale=colours, legend=legend),
        shape=shape,
        fillOpacity=(
            alt.when(alt.datum.status == "clear")
            .then(alt.value(1))
            .when(alt.datum.status == "untested")
            .then(alt.value(_PALE))
            .otherwise(alt.value(0))
        ),
    )
    return alt.LayerChart(
        layer=[cells.add_params(hover), marks],
        title=alt.TitleParams(_HEADS),
        description=describe_roles(heads),
    )


SPINE_WIDTH = 880
"""Of the layers' columns together, where there is room."""
_LANE, _WORDS, _PIN = 60, 20, 15
"""Heights: of a lane, of the words over it, of a head's name."""
_NAMED, _NAMED_IN_ALL = 3, 14
"""Most heads that are named per layer, and in all."""
_NARROW = 340
"""Pixels of the columns on a phone: names find room there too."""
_MENU = 12
"""Pixels above the lanes, where the page puts the menu of a chart."""
_LETTER = 6.0
"""Pixels of a letter in a name."""
_READING = [
    "line: score of each layer, 0 to 1; shaded: best layers; grey ticks: random-weights twin; dashed: best answer "
    "without context"
]
_BAND = COLOURS[0]
_USE = COLOURS[1]


def whole_spine(spine: Spine, name: str, width: int = SPINE_WIDTH) -> alt.ConcatChart | None:
    """Abilities, named heads and what is used, by layer, in one figure; None where nothing of it is known.

    Example:
        >>> from lamina.analyses.overview import ABILITIES, ROLES, Spine
        >>> scores = ("Part of speech", "probe", "F1", 2, 0.9, 0.8, 1.0, 0.6, 0.2, 0.3)
        >>> row = (*scores, True, 2, 2, True, True, 99, "constant", "clear")
        >>> empty = pd.DataFrame(columns=["layer", "head", "role", "word", "lead", "status"])
        >>> drawn = whole_spine(Spine(pd.DataFrame([row], columns=ABILITIES), empty, pd.DataFrame(), 2), "minilm")
        >>> drawn.to_dict()["title"]["text"]
        'What minilm holds at which layer'
    """
    lanes = [_ability_lane(rows, spine.last) for _, rows in spine.abilities.groupby("ability", sort=False)]
    lanes.sort(key=lambda lane: lane.first)
    pins = _pins(spine.heads, spine.last)
    lanes += [pins] if pins is not None else []
    lanes += [_use_lane(rows) for _, rows in spine.uses.groupby("what", sort=False)] if len(spine.uses) else []
    if not lanes:
        return None
    heights = [lane.height for lane in lanes]
    total = _MENU + sum(heights)
    # Pixels from above: lanes of different kinds stand below each other in one chart.
    scale = alt.Scale(domain=[0, total], reverse=True, nice=False, zero=False)
    marks: list[alt.Chart] = []
    top = _MENU
    for lane in lanes:
        marks += lane.marks(top, scale)
        top += lane.height
    last = spine.last
    ticks = list(range(0, last + 1, math.ceil((last + 1) / 16)))
    axis = alt.Axis(values=ticks, format="d", grid=True, gridColor=FAINT, orient="bottom", domain=False, ticks=False)
    columns = (
        alt.Chart(pd.DataFrame({"layer": [0, last]}))
        .mark_point(opacity=0)
        .encode(
            x=alt.X(
                "layer:Q",
                title="layer (0 = embeddings)",
                axis=axis,
                scale=alt.Scale(domain=[-0.5, last + 0.5], nice=False),
            ),
            y=alt.value(0),
        )
    )
    description = " ".join([lane.words for lane in lanes])
    chart = alt.LayerChart(layer=[columns, *marks], width=width, height=total)
    title = alt.TitleParams(f"What {name} holds at which layer", subtitle=_READING if len(spine.abilities) else [])
    return themed(
        alt.concat(chart, title=title, description=description, usermeta={"panelWidth": width, "lanes": True})
    )


class _Lane(NamedTuple):
    """One lane of the spine: how high it is, where it stands, what is drawn from its upper edge on."""

    height: int
    first: tuple[float, float]
    """For the order of lanes: the first of the best layers, and minus the lead."""
    marks: Callable[[int, alt.Scale], list[alt.Chart]]
    words: str


def _ability_lane(rows: Table, last: int) -> _Lane:
    """Score by layer with the best layers as a band, twin and constant as ticks."""
    rows = rows.assign(clear=rows["status"] == "clear")
    among = rows[rows["among_best"].astype(bool)]
    localised = 0 < len(among) < len(rows)
    best = next(rows_of(rows.nlargest(1, "score")))
    where = layers_in_words(int(layer) for layer in among["layer"]) if localised else "no layer shown to be best"
    ability, metric = str(best.ability), str(best.metric)
    first = (float(among["layer"].min()) if localised else float(last) + 1, -float(best.above))

    def marks(top: int, scale: alt.Scale) -> list[alt.Chart]:
        floor, ceiling = top + _LANE - 6, top + _WORDS + 2

        def height(name: str) -> str:
            # Scores below 0, of R2, stand on the floor.
            return f"{floor} - {floor - ceiling} * max(0, min(1, datum.{name}))"

        drawn = rows[["layer", "score", "low", "high", "twin", "constant", "clear", "count"]].assign(
            ability=ability, metric=metric
        )
        base = (
            alt.Chart(drawn)
            .transform_calculate(at=height("score"), twin_at=height("twin"), constant_at=height("constant"))
            .transform_calculate(one="datum.layer - 0.16", other="datum.layer + 0.16")
        )
        layers: list[alt.Chart] = []
        if localised:
            band = pd.DataFrame({"one": among["layer"] - 0.5, "other": among["layer"] + 0.5})
            layers.append(
                alt.Chart(band)
                .mark_rect(color=_BAND, opacity=0.16)
                .encode(x=alt.X("one:Q"), x2=alt.X2("other:Q"), y=alt.value(ceiling - 2), y2=alt.value(floor + 2))
            )
        tooltip = [
            alt.Tooltip("ability:N"),
            alt.Tooltip("layer:Q"),
            *number_tips("score", "low", "high", "twin", "constant"),
            alt.Tooltip("metric:N"),
            alt.Tooltip("count:Q", title="targets", format=","),
        ]
        across = alt.X("layer:Q")
        layers += [
            base.transform_filter("isValid(datum.constant)")
            .mark_line(color=GREY, strokeDash=[3, 3], strokeWidth=1)
            .encode(x=across, y=alt.Y("constant_at:Q", axis=None, scale=scale)),
            base.transform_filter("isValid(datum.twin)")
            .mark_rule(color=GREY, strokeWidth=3)
            .encode(x=alt.X("one:Q"), x2=alt.X2("other:Q"), y=alt.Y("twin_at:Q", axis=None, scale=scale)),
            base.mark_line(color=_BAND, strokeWidth=2).encode(x=across, y=alt.Y("at:Q", axis=None, scale=scale)),
            base.mark_point(filled=True, size=34, opacity=1).encode(
                x=across,
                y=alt.Y("at:Q", axis=None, scale=scale),
                color=alt.when(alt.datum.clear).then(alt.value(_BAND)).otherwise(alt.value("#ffffff")),
                stroke=alt.value(_BAND),
                tooltip=tooltip,
            ),
        ]
        score = f"{metric} {number(best.score)}, {where}"
        return [*layers, *_lane_words(top, ability, score)]

    return _Lane(_LANE, first, marks, describe_abilities(rows))


def _lane_words(top: int, name: str, note: str) -> list[alt.Chart]:
    """What a lane is, over it: its name from the first column on, a note up to the last."""
    rows = alt.Data(values=[{"name": name, "note": note}])
    y = alt.value(top + _WORDS / 2 + 1)
    return [
        alt.Chart(rows)
        .mark_text(align="left", fontSize=12, fontWeight="bold", color=INK)
        .encode(x=alt.value(2), y=y, text=alt.Text("name:N")),
        alt.Chart(rows)
        .mark_text(align="right", fontSize=12, color=INK, dx=-2)
        .encode(x=alt.value("width"), y=y, text=alt.Text("note:N")),
    ]


def _pins(heads: Table, last: int) -> _Lane | None:
    """Heads with a known role at their layer: the first of each layer by name, the others counted."""
    if heads.empty:
        return None
    step = _NARROW / (last + 1)
    taken: list[list[tuple[float, float]]] = []
    rows = []
    named = heads.groupby("layer").head(_NAMED).head(_NAMED_IN_ALL)
    for row in rows_of(named.sort_values("layer", kind="stable")):
        text = f"{row.layer}-{row.head} {row.word}"
        room = len(text) * _LETTER + 24
        # A name goes towards the middle from its column, whose glyph stays where it is.
        late = row.layer > last / 2
        start = (row.layer + 0.9) * step - room if late else (row.layer + 0.1) * step
        slot = next((place for place, line in enumerate(taken) if _is_free(line, start, start + room)), len(taken))
        taken += [[]] if slot == len(taken) else []
        taken[slot].append((start, start + room))
        rows.append((row.layer + (0.4 if late else -0.4), slot, row.role, text, late))
    table = pd.DataFrame(rows, columns=["left", "slot", "role", "text", "late"])
    counted = len(heads) - len(table)
    looks = BEHAVIOUR_LOOKS
    height = _WORDS + _PIN * len(taken) + 8
    there = [role for role in looks if role in set(table["role"])]

    def marks(top: int, scale: alt.Scale) -> list[alt.Chart]:
        placed = table.assign(at=top + _WORDS + _PIN * (table["slot"] + 0.5))
        y = alt.Y("at:Q", axis=None, scale=scale)
        shape = alt.Scale(domain=there, range=[looks[role].shape for role in there])
        colour = alt.Scale(domain=there, range=[looks[role].colour for role in there])
        base = alt.Chart(placed).encode(x=alt.X("left:Q"), y=y, tooltip=[alt.Tooltip("text:N"), alt.Tooltip("role:N")])
        note = f"and {counted} more" if counted else ""
        return [
            base.transform_filter("!datum.late")
            .mark_text(align="left", fontSize=11, color=INK, dx=8)
            .encode(text=alt.Text("text:N")),
            base.transform_filter("datum.late")
            .mark_text(align="right", fontSize=11, color=INK, dx=-8)
            .encode(text=alt.Text("text:N")),
            base.mark_point(filled=True, size=60, opacity=1).encode(
                shape=alt.Shape("role:N", scale=shape, legend=None),
                color=alt.Color("role:N", scale=colour, legend=None),
            ),
            *_lane_words(top, "Heads that find something", note),
        ]

    listed = ", ".join(row[3] for row in rows)
    return _Lane(height, (99.0, 0.0), marks, f"Named heads: {listed}.")


def _is_free(line: list[tuple[float, float]], start: float, end: float) -> bool:
    """Whether nothing on a line lies between two places."""
    return all(end <= one or other <= start for one, other in line)


def _use_lane(rows: Table) -> _Lane:
    """What taking something out of a layer does: bars from 0, filled where harm was shown."""
    what, measure = str(rows["what"].iloc[0]), str(rows["measure"].iloc[0])
    most = max(float(rows[["effect", "high"]].abs().max().max()), 1e-9)

    def marks(top: int, scale: alt.Scale) -> list[alt.Chart]:
        floor, ceiling = top + _LANE - 6, top + _WORDS + 2
        base = alt.Chart(rows.assign(clear=rows["status"] == "clear")).transform_calculate(
            at=f"{floor} - {floor - ceiling} * max(0, abs(datum.effect) / {most})",
            foot=str(floor),
            one="datum.layer - 0.3",
            other="datum.layer + 0.3",
        )
        tooltip = [alt.Tooltip("what:N"), alt.Tooltip("layer:Q"), alt.Tooltip("status:N")]
        tooltip += number_tips("effect", "low", "high")
        bars = base.mark_rect(stroke=_USE, strokeWidth=1.5).encode(
            x=alt.X("one:Q"),
            x2=alt.X2("other:Q"),
            y=alt.Y("at:Q", axis=None, scale=scale),
            y2=alt.Y2("foot:Q"),
            fill=alt.when(alt.datum.clear).then(alt.value(_USE)).otherwise(alt.value("#ffffff")),
            tooltip=tooltip,
        )
        return [bars, *_lane_words(top, f"Used: {what}", f"change in {measure}, up to {number(most)}")]

    clear = rows[rows["status"] == "clear"]["layer"].astype(int).tolist()
    harm = f"harm at {layers_in_words(clear)}" if clear else "not harm at any layer"
    return _Lane(_LANE, (100.0, 0.0), marks, f"Used, {what}: {harm}.")


def beside(*panels: alt.LayerChart) -> alt.ConcatChart:
    """The charts together, linked by the layer that is pointed at."""
    with warnings.catch_warnings():
        # The parameter is the same on purpose: that is the link.
        warnings.filterwarnings("ignore", message="Automatically deduplicated selection parameter")
        beside = [_LABELS.get(str(panel.title["text"]), 0) for panel in panels]
        meta = {"panelWidth": PANEL_WIDTH, "cells": beside}
        chart = alt.concat(*panels, columns=len(panels), spacing=36, usermeta=meta)
        chart = alt.ConcatChart.from_dict(chart.to_dict())
    independent = "independent"
    return themed(
        chart.resolve_scale(color=independent, fill=independent, stroke=independent, shape=independent, x=independent)
    )


def describe_abilities(table: Table) -> str:
    """Each ability's peak, its interval and what it is compared with."""
    sentences = []
    for name, ability_rows in table.groupby("ability", sort=False):
        best = next(rows_of(ability_rows.nlargest(1, "score")))
        peak = f"highest at layer {best.layer} (probes had not converged: no peak):"
        if best.converged:
            among = [int(row.layer) for row in rows_of(ability_rows) if row.among_best]
            peak = f"highest at layer {best.layer}{_can_be_best(among, int(best.layer), len(ability_rows))}"
        beside = [
            f"{of} {number(value)}"
            for of, value in (("twin", best.twin), (best.baseline, best.constant))
            if value == value
        ]
        against = f"{_AGAINST[best.status]} {' and '.join(beside)}" if beside else ""
        sentences.append(f"{name}: {peak} {best.metric} {number(best.score, best.low, best.high)}{against}.")
    return " ".join(sentences)


_AGAINST = {
    "clear": ", shown to be above",
    "open": ", not shown to be above",
    "untested": "; not tested against",
}
"""Status of the highest score beside its baselines -> in words."""


def _can_be_best(among: list[int], highest: int, layers: int) -> str:
    """What is known of the best layer."""
    if not among:
        return ","
    if among == [highest]:
        return ", which is the best:"
    if len(among) == layers:
        return " (no layer was shown to be better than another):"
    return f" ({layers_in_words(among)} can be the best):"


def describe_roles(heads: Table) -> str:
    """How many heads have which role, and which they are."""
    layers = heads["layer"].nunique()
    sentences = [f"{len(heads)} head{'s' * (len(heads) > 1)} in {layers} layer{'s' * (layers > 1)}."]
    for role in BEHAVIOUR_LOOKS:
        names = [f"{row.layer}-{row.head}" for row in rows_of(heads[heads["role"] == role])]
        if names:
            sentences.append(f"{role}: {len(names)}" + ("." if role == "other" else f" ({', '.join(names)})."))
    clear, shown_not, untested = ((heads["status"] == status).sum() for status in ("clear", "open", "untested"))
    if clear + shown_not + untested:
        sentences.append(
            f"Shown by a corrected test: {clear}; tested and not shown: {shown_not}; not tested: {untested}."
        )
    return " ".join(sentences)


def _by_peak(rows: Table) -> list[str]:
    """Abilities by their best layer, the earliest on top; among equals the one that gains most."""
    best = rows.loc[rows.groupby("title", sort=False)["score"].idxmax()]
    return best.sort_values(["layer", "above"], ascending=[True, False], kind="stable")["title"].tolist()


def _hover() -> alt.Parameter:
    return alt.selection_point(name=HOVERED, fields=["layer"], on="pointerover", clear="pointerout")
