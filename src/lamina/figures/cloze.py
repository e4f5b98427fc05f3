"""Cloze suites: accuracy and sensitivity in the diagnostics, precision and consistency by relation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import altair as alt
import pandas as pd

from lamina.figures._marks import interval_line, number_tips
from lamina.figures.theme import INK, series, themed
from lamina.results import Result
from lamina.results.finding import rows_of

CAPTIONS = {
    "diagnostics": (
        "An expected word is among the first 5: share of contexts (of negated sentences: the true word). The good word "
        "is the likelier one: share of items in which it is likelier than the bad ones. Lines: 95 % intervals "
        "over items. The tick is chance; compare the model with its twin with random weights. A model "
        "that heeds negation has as high a share in negative contexts as in affirmative ones. Surprisal of the false "
        "word minus that of the true one: in bits; below 0 the false word is the easier one. People's N400 in bare "
        "sentences (SIMP) is below 0 in negative contexts too, where negation is licensed (NAT) it is not."
    ),
    "relations": (
        "The right object comes first: share of facts whose object is the likeliest of all objects of the relation, "
        "over all patterns, one row per relation, the best first. Paraphrases get the same object: share of pairs of "
        "patterns. Lines: 95 % intervals over facts (by subject). The tick is what always saying the most "
        "frequent object of the other facts gives, or chance. A model that says the same object to everything is "
        "consistent and knows nothing: compare both panels, and the twin with random weights."
    ),
    "items": (
        "Share of items whose answer is the likeliest word, is among the 5 likeliest, or is the likeliest of its "
        "candidates, by part; lines: 95 % intervals over items. The tick is what the most frequent answer of the "
        "other items gives, for the choice among candidates chance. Compare the model with its twin with random "
        "weights."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 380
MOST = 80
"""Parts that are drawn; more cannot be read."""
_LABELS = 250
"""Pixels for names, the same in every panel so that axes are aligned."""
_SHARE = (0.0, 1.0)


class _Row(NamedTuple):
    """One row of a panel: what it shows of the table, and which baseline is its tick."""

    name: str
    part: str
    measure: str
    tick: str


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The chart `diagnostics`, `relations` or `items`, by the kind of suite."""
    measures = set(result.tables["cloze"]["measure"])
    if "precision_at_1_objects" in measures:
        return {"relations": themed(_relations(result))}
    if "sensitivity" in measures:
        return {"diagnostics": themed(_diagnostics(result))}
    return {"items": themed(_items(result))}


def not_drawn(result: Result) -> dict[str, str]:
    """Chart -> what it leaves out."""
    table = result.tables["cloze"]
    count = len(result.tables["parts"])
    chart = "relations" if "consistency" in set(table["measure"]) else "items"
    return {chart: f"{count - MOST:,} of {count:,} parts are not drawn; see cloze.csv."} if count > MOST else {}


def _diagnostics(result: Result) -> alt.ConcatChart:
    table = result.tables["cloze"]
    there = set(zip(table["part"], table["measure"], strict=True))
    every = list(dict.fromkeys(table["part"]))
    accuracy, sensitivity, effects = [], [], []
    for part in sorted(every):
        name = part.replace("/", ", ")
        if "/" not in part:
            negated = (part, "accuracy_at_5_negative") in there
            accuracy.append(_Row(f"{name}{', affirmative' * negated}", part, "accuracy_at_5", "chance"))
            if negated:
                accuracy.append(_Row(f"{name}, negative", part, "accuracy_at_5_negative", "chance"))
        if (part, "sensitivity_negative") in there:
            for polarity in ("affirmative", "negative"):
                sensitivity.append(_Row(f"{name}, {polarity}", part, f"sensitivity_{polarity}", "chance"))
                effects.append(_Row(f"{name}, {polarity}", part, f"surprisal_effect_{polarity}", "chance"))
        elif (part, "sensitivity") in there:
            sensitivity.append(_Row(name, part, "sensitivity", "chance"))
    panels = [_panel(result, accuracy, "An expected word is among the first 5", "share of contexts", _SHARE)]
    panels.append(
        _panel(result, sensitivity, "The good word is the likelier one", "share of items", _SHARE, legend=False)
    )
    if effects:
        title, axis = "Surprisal of the false word minus that of the true one", "difference in bits"
        panels.append(_panel(result, effects, title, axis, None, legend=False))
    return _stacked(result, panels, "Diagnostics", "tick: chance", [*accuracy, *sensitivity, *effects])


def _relations(result: Result) -> alt.ConcatChart:
    table, names = result.tables["cloze"], dict(result.tables["parts"][["part", "name"]].itertuples(index=False))
    main = table[table["measure"] == "precision_at_1_objects"]
    order = main[main["part"] != "all"].sort_values("value", ascending=False, kind="stable")["part"]
    whole = ["all"] if "all" in set(main["part"]) else []
    labels = {"all": "all relations"} | {
        part: part if names[part] == part else f"{names[part]} ({part})" for part in order
    }
    parts = [*whole, *order][:MOST]
    right = [_Row(labels[part], part, "precision_at_1_objects", "most_frequent") for part in parts]
    there = set(table[table["measure"] == "consistency"]["part"])
    same = [_Row(labels[part], part, "consistency", "chance") for part in parts if part in there]
    panels = [_panel(result, right, "The right object comes first", "share of facts, over all patterns", _SHARE)]
    if same:
        title, axis = "Paraphrases get the same object", "share of pairs of patterns"
        panels.append(_panel(result, same, title, axis, _SHARE, legend=False))
    ticks = "tick: the most frequent object (where the object comes first), chance (of paraphrases)"
    return _stacked(result, panels, "Facts by relation", ticks, right)


def _items(result: Result) -> alt.ConcatChart:
    table = result.tables["cloze"]
    panels, every = [], []
    for measure, title, tick in (
        ("accuracy_at_1", "The answer is the likeliest word", "most_frequent"),
        ("accuracy_at_5", "The answer is among the first 5", "most_frequent"),
        ("choice", "The answer is the likeliest candidate", "chance"),
    ):
        parts = list(table[table["measure"] == measure]["part"])[:MOST]
        rows = [_Row("all parts" if part == "all" else part, part, measure, tick) for part in parts]
        if rows:
            panels.append(_panel(result, rows, title, "share of items", _SHARE, legend=not panels))
            every += rows
    ticks = "tick: the most frequent answer of the other items, or chance"
    return _stacked(result, panels, "Clozes", ticks, every)


def _stacked(
    result: Result, panels: Sequence[alt.LayerChart], what: str, ticks: str, rows: Sequence[_Row]
) -> alt.ConcatChart:
    about = result.provenance
    title = alt.TitleParams(
        f"{what}: {about.model['name']} on {result.tables['cloze']['suite'].iloc[0]}",
        subtitle=f"lines: 95 % intervals; {ticks}",
        offset=10,
    )
    description = describe(_drawn(result, rows))
    chart = alt.concat(*panels, columns=1, spacing=24, title=title, description=description)
    return chart.resolve_scale(y="independent", yOffset="independent", x="independent").properties(
        usermeta={"panelWidth": PANEL_WIDTH}
    )


def describe(rows: pd.DataFrame) -> str:
    """The chart in words.

    Example:
        >>> rows = [("ROLE-88", "sensitivity", "m", 0.86), ("ROLE-88", "sensitivity", "twin", 0.5)]
        >>> describe(pd.DataFrame(rows, columns=["name", "measure", "model", "value"]))
        'ROLE-88, sensitivity: m 0.86, twin 0.50.'
    """
    parts = []
    for (name, measure), group in rows.groupby(["name", "measure"], sort=False):
        scores = ", ".join(f"{row.model} {row.value:.2f}" for row in group.itertuples())
        parts.append(f"{name}, {str(measure).replace('_', ' ')}: {scores}")
    return f"{'; '.join(parts)}."


def _drawn(result: Result, rows: Sequence[_Row]) -> pd.DataFrame:
    """The model and its twin in these rows, each with the baseline that is drawn as a tick."""
    return pd.DataFrame(
        list(_points(result, rows)), columns=["name", "measure", "model", "value", "low", "high", "n", "tick"]
    )


def _points(result: Result, rows: Sequence[_Row]) -> Iterator[tuple[object, ...]]:
    model_scores = {(row.part, row.measure): row for row in rows_of(result.tables["cloze"])}
    beside = {(row.part, row.measure, row.baseline): row for row in rows_of(result.tables["baselines"])}
    for row in rows:
        ticked = beside.get((row.part, row.measure, row.tick))
        by_model = {
            str(result.provenance.model["name"]): model_scores[row.part, row.measure],
            "twin with random weights": beside.get((row.part, row.measure, "twin")),
        }
        for name, score in by_model.items():
            if score is not None:
                numbers = (score.value, score.low, score.high, score.n)
                yield row.name, row.measure, name, *numbers, None if ticked is None else ticked.value


def _panel(
    result: Result,
    rows: Sequence[_Row],
    title: str,
    axis: str,
    domain: tuple[float, float] | None,
    *,
    legend: bool = True,
) -> alt.LayerChart:
    """One row per part, one point with its interval per model, a tick for the baseline."""
    drawn = _drawn(result, rows)
    names = list(dict.fromkeys(drawn["model"]))
    look, order = series(names), [row.name for row in rows]
    colour, shape = look.colour, look.shape
    if not legend:
        colour, shape = colour.legend(None), shape.legend(None)
    labels = alt.Axis(
        labelLimit=_LABELS, minExtent=_LABELS, maxExtent=_LABELS, ticks=False, domain=False, labelPadding=8
    )
    y = alt.Y("name:N", sort=order, title=None, axis=labels)
    aside = alt.YOffset("model:N", sort=names, scale=alt.Scale(domain=names, paddingOuter=0.4))
    scale = alt.Scale(domain=list(domain)) if domain else alt.Scale(zero=True)
    x, low, tick = (
        alt.X(f"{column}:Q", title=axis, scale=scale, axis=alt.Axis(tickCount=5)) for column in ("value", "low", "tick")
    )
    tooltip = [
        alt.Tooltip("name:N"), alt.Tooltip("model:N"), alt.Tooltip("n:Q", title="items", format=","),
        *number_tips(),
        alt.Tooltip("tick:Q", title=rows[0].tick.replace("_", " "), format=".3f"),
    ]  # fmt: skip
    step = 18 if len(order) > 20 else 26
    base = alt.Chart(drawn, width=PANEL_WIDTH, height=step * len(order)).encode(y=y)
    placed = base.encode(yOffset=aside, color=colour)
    return alt.LayerChart(
        layer=[
            base.mark_tick(color=INK, thickness=1.5, size=step - 4).encode(x=tick),
            interval_line(placed, low, opacity=0.55),
            placed.mark_point(filled=True, size=45, opacity=1).encode(x=x, shape=shape, tooltip=tooltip),
        ],
        title=alt.TitleParams(title, anchor="start", fontSize=12),
    )
