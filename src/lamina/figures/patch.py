"""Patched states: answers that turn by layer and role, and the difference of minimal pairs by layer and position."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lamina.analyses.cause.exchanged_states import EVERYWHERE, RANDOM, ROLES
from lamina.figures._marks import curve, number_tips
from lamina.figures.theme import GREY, INK, Table, layer_axis, series, themed
from lamina.results import Result

CAPTIONS = {
    "patch": (
        "Share of answers that turn into those to another context when states of one layer are taken from there, by "
        "layer and by what tokens are to the question; shaded: 95 % intervals over documents; dotted grey: as many "
        "random tokens as each role has. One panel per kind of context: what the question names and another string of "
        "its class have changed places, or the answer and another string (states of these go to where the same string "
        "is, so that answers can turn). Support: sentences that hold or support the answers, without these; special: "
        "tokens that are no text. Intervals of shares are no comparison: the findings test paired differences."
    ),
    "patch_pairs": (
        "Change of the difference of log-probabilities (good minus bad sentence, on the tokens that both have) when "
        "states of the good sentence are put into the bad one, by layer and place; shaded: 95 % intervals over pairs, "
        "simultaneous for all layers and places. "
        "Dashed: all tokens of all pairs, which takes the whole difference away. Compare the model with as many random "
        "tokens of the same sentences and with the twin, whose weights are random. Below 0, the bad sentence becomes "
        "likelier."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 290
_TITLES = {"asked": "What the question names is exchanged", "patch": "The answer is exchanged"}
_SWAPPED = {"asked": "asked", "patch": "answer"}
_PLACES = {
    "before": "Words before those that differ",
    "word": "The words that differ",
    "after": "Words after them",
    "last": "The last word",
    "special": "Special tokens",
}
_NAMED = {"model": "model", "twin": "twin (random weights)", RANDOM: RANDOM}
_TURNED, _CHANGE = "share of answers that turn", "change in nats per pair"


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `patch` (questions) and `patch_pairs`."""
    about = result.provenance
    charts: dict[str, alt.TopLevelMixin] = {}
    names = [name for name in _TITLES if name in result.tables]
    if names:
        panels = [_roles(result, name) for name in names]
        read = about.corpus["questions"]["name"]
        title = f"Patched answers: {about.model['name']} on {read}"
        description = " ".join(describe(result.tables[name]) for name in names)
        charts["patch"] = _beside(panels, title, description, "; dotted grey: as many random tokens as each role has")
    if "pairs" in result.tables:
        title = f"Patched minimal pairs: {about.model['name']} on {about.corpus['pairs']['name']}"
        charts["patch_pairs"] = _beside(_positions(result), title, describe_pairs(result.tables["pairs"]))
    return charts


def describe(table: Table) -> str:
    """A panel in words.

    Example:
        >>> rows = [(0, "answer", 0.1), (1, "answer", 0.9), (0, "question", 0.0), (1, "question", 0.2)]
        >>> describe(pd.DataFrame(rows, columns=["layer", "role", "turned"]))
        'Answers that turn: answer 0.10 at layer 0, 0.90 at layer 1; question 0.00 at layer 0, 0.20 at layer 1.'
    """
    return f"Answers that turn: {_ends(table, 'role', 'turned')}."


def describe_pairs(table: Table) -> str:
    """The chart of minimal pairs in words."""
    return f"Change of the difference: {_ends(table, 'position', 'effect')}."


def _ends(table: Table, by: str, value: str) -> str:
    parts = []
    for name, group in table.groupby(by, sort=False):
        ends = group.sort_values("layer").iloc[[0, -1]]
        points = zip(ends["layer"], ends[value], strict=True)
        parts.append(f"{name} " + ", ".join(f"{number:.2f} at layer {layer}" for layer, number in points))
    return "; ".join(parts)


def _roles(result: Result, name: str) -> alt.LayerChart:
    """One line per role, and grey ones for as many random tokens."""
    table, controls = result.tables[name], result.tables["controls"]
    beside = controls[(controls["swapped"] == _SWAPPED[name]) & (controls["control"] == RANDOM)]
    rows, random = (points.rename(columns={"role": "model", "turned": "value"}) for points in (table, beside))
    there = [role for role in ROLES if role in set(rows["model"])]
    scale = alt.Scale(domain=[0, 1])
    title = alt.TitleParams(_TITLES[name], subtitle=f"{int(table['n'].max()):,} questions")
    grey = (
        alt.Chart(pd.DataFrame(random))
        .mark_line(color=GREY, strokeWidth=1.2, strokeDash=[2, 2])
        .encode(x=layer_axis(_last(rows)), y=alt.Y("value:Q", scale=scale, title=_TURNED), detail=alt.Detail("model:N"))
    )
    return alt.LayerChart(layer=[grey, *_lines(rows, there, _TURNED, scale, legend=True)], title=title)


def _positions(result: Result) -> list[alt.LayerChart]:
    """One panel per position: the model, its twin and random tokens, under the line of all tokens."""
    table, beside = (result.tables[name].rename(columns={"effect": "value"}) for name in ("pairs", "beside"))
    whole, scale = pd.DataFrame(table[table["position"] == EVERYWHERE]), alt.Scale(zero=True)
    panels = []
    for position, called in _PLACES.items():
        position_rows = table[table["position"] == position].assign(model=_NAMED["model"])
        if position_rows.empty:
            continue
        mine = beside[beside["position"] == position]
        rows = pd.concat([position_rows, mine.assign(model=mine["model"].map(_NAMED))], ignore_index=True)
        names = [name for name in _NAMED.values() if name in set(rows["model"])]
        dashed = (
            alt.Chart(whole)
            .mark_line(color=INK, strokeWidth=1.5, strokeDash=[5, 4])
            .encode(x=layer_axis(_last(table)), y=alt.Y("value:Q", scale=scale, title=_CHANGE))
        )
        title = alt.TitleParams(called, subtitle=f"{int(position_rows['n'].max()):,} pairs")
        lines = _lines(rows, names, _CHANGE, scale, legend=not panels)
        panels.append(alt.LayerChart(layer=[dashed, *lines], title=title))
    return panels


def _lines(rows: Table, names: list[str], unit: str, scale: alt.Scale, *, legend: bool) -> list[alt.Chart]:
    """Lines with points, and their intervals shaded."""
    look = series(names) if legend else series(names).with_legend(None)
    value, low = (alt.Y(f"{name}:Q", title=unit, scale=scale) for name in ("value", "low"))
    numbers = number_tips()
    tooltip = [alt.Tooltip("model:N", title="line"), alt.Tooltip("layer:Q"), *numbers, alt.Tooltip("n:Q")]
    base = alt.Chart(rows, width=PANEL_WIDTH, height=210).encode(x=layer_axis(_last(rows)), color=look.colour)
    return curve(base, look, value, low, tooltip)


def _beside(panels: list[alt.LayerChart], title: str, description: str, also: str = "") -> alt.ConcatChart:
    heading = alt.TitleParams(title, subtitle=f"shaded: 95 % intervals{also}", offset=12)
    chart = alt.concat(*panels, columns=min(3, len(panels)), spacing=28, title=heading, description=description)
    return themed(chart.resolve_scale(y="shared").properties(usermeta={"panelWidth": PANEL_WIDTH}))


def _last(rows: Table) -> int:
    return int(rows["layer"].max())
