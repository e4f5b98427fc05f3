"""The map of heads, coloured by layer and by behaviour (figure 6 of the attention paper)."""

from __future__ import annotations

import math

import altair as alt
import pandas as pd

from lamina.figures._marks import name_marks, placed_names
from lamina.figures.theme import BEHAVIOUR_LOOKS, FAINT, Table, attention_name, themed
from lamina.results import Result
from lamina.results.finding import rows_of
from lamina.tasks.catalogue import word_for

CAPTIONS = {
    "map": (
        "One point per head, shown twice: by role and by layer. Heads that find something are named, as far as there "
        "is room. Heads that are close attend alike, as far as the "
        "stress in the subtitle allows (0: every distance is exact); directions mean nothing. A head that does several "
        "things is named by the most telling one: coreference and syntactic heads clearly beat simple rules on the "
        "same documents (p < .05, corrected by max-T over all heads and relations), induction heads attend clearly "
        "more to the token after a copy than without one, the others exceed a fixed share of attention."
    ),
}
"""Chart -> how to read it."""

PANEL = 400
"""Width of a map; its height follows."""


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The chart `map`: every head twice, once by its layer and once by what it does."""
    points = result.tables["points"].assign(
        name=lambda rows: rows["layer"].astype(str) + "-" + rows["head"].astype(str)
    )
    stress = float(result.tables["fit"]["stress"].iloc[0])
    corpus = result.provenance.corpus
    split = f" ({corpus['split']})" if corpus.get("split") else ""
    title = alt.TitleParams(
        f"Map of heads by {attention_name(result)}: {result.provenance.model['name']} on {corpus['name']}{split}",
        subtitle=[
            "distance: Jensen-Shannon divergence of two heads, nats per token, as well as a plane can show it",
            f"stress {stress:.2f} (0: every distance is exact); directions mean nothing",
            *_width(result.tables.get("divergences")),
        ],
    )
    points = points.assign(label=_names(result.tables.get("behaviours"), points))
    panels = [_by_behaviour(points), _by_layer(points)]
    chart = alt.concat(*panels, columns=2, spacing=40, title=title, description=describe(points, stress))
    chart = chart.resolve_scale(color="independent", shape="independent")
    return {"map": themed(chart.properties(usermeta={"panelWidth": PANEL, "keepShape": True}))}


def _width(divergences: Table | None) -> list[str]:
    """How sure a divergence is; nothing for results of older versions."""
    if divergences is None or "low" not in divergences:
        return []
    half = float((divergences["high"] - divergences["low"]).median()) / 2
    return [f"95 % interval of a divergence, documents resampled: ±{half:.3f} nats for half of the pairs, or less"]


def describe(points: Table, stress: float) -> str:
    """How many heads do what, and where.

    Example:
        >>> import pandas as pd
        >>> rows = [(1, 1, "broad", "1-1"), (2, 1, "broad", "2-1")]
        >>> describe(pd.DataFrame(rows, columns=["layer", "head", "behaviour", "name"]), 0.2)
        'A map of 2 heads with stress 0.20. broad: 2 (1-1, 2-1).'
    """
    parts = []
    for behaviour in BEHAVIOUR_LOOKS:
        names = points.loc[points["behaviour"] == behaviour, "name"].tolist()
        if names:
            parts.append(f"{behaviour}: {len(names)}" + ("." if behaviour == "other" else f" ({', '.join(names)})."))
    return " ".join([f"A map of {len(points)} heads with stress {stress:.2f}.", *parts])


_NAMED = ("coreference", "syntactic", "induction", "previous", "next")
"""Behaviours by which heads are named on the map."""


def _names(table: Table | None, points: Table) -> list[str]:
    """What stands beside each head that finds something: its number and what it finds, in words."""
    relations: dict[tuple[int, int], str] = {}
    if table is not None:
        clearest = table.sort_values("difference", ascending=False, kind="stable", na_position="last")
        for row in rows_of(clearest):
            if row.behaviour == "syntactic":
                relations.setdefault((int(row.layer), int(row.head)), word_for(str(row.what).split(" (")[0]))
    return [
        f"{row.name} {relations.get((int(row.layer), int(row.head)), row.behaviour)}" if row.behaviour in _NAMED else ""
        for row in rows_of(points)
    ]


def _by_layer(points: Table) -> alt.LayerChart:
    last = int(points["layer"].max())
    ticks = list(range(1, last + 1, math.ceil(last / 13)))
    legend = alt.Legend(title="layer", orient="bottom", values=ticks, format="d", gradientLength=PANEL * 0.6)
    colour = alt.Color("layer:Q", scale=alt.Scale(scheme="viridis", domain=[1, max(last, 2)]), legend=legend)
    dots = _places(points).mark_point(filled=True, size=70, opacity=1).encode(color=colour)
    return alt.LayerChart(layer=[dots], title="By layer")


def _by_behaviour(points: Table) -> alt.LayerChart:
    there = [name for name in BEHAVIOUR_LOOKS if name in set(points["behaviour"])]
    looks = [BEHAVIOUR_LOOKS[name] for name in there]
    legend = alt.Legend(title=None, orient="bottom", columns=4, symbolSize=90)
    dots = (
        _places(points)
        .mark_point(filled=True, size=110, opacity=1, strokeWidth=1)
        .encode(
            color=alt.Color(
                "behaviour:N", scale=alt.Scale(domain=there, range=[look.colour for look in looks]), legend=legend
            ),
            shape=alt.Shape(
                "behaviour:N", scale=alt.Scale(domain=there, range=[look.shape for look in looks]), legend=legend
            ),
        )
    )
    (left, right), (bottom, top) = (_ends(points[axis]) for axis in ("x", "y"))
    height = round(PANEL / (right - left) * (top - bottom))
    # Names first: what has none is only in the way.
    ordered = points.sort_values("label", key=lambda labels: labels == "", kind="stable")
    placed = placed_names(ordered, (PANEL, height), (left, right, bottom, top))
    return alt.LayerChart(layer=[dots, *name_marks(placed, alt.X("x:Q"), alt.Y("y:Q"))], title="By role")


def _places(points: Table) -> alt.Chart:
    # A nat is as many pixels up as across: a distance is a distance in every direction.
    (left, right), (bottom, top) = (_ends(points[axis]) for axis in ("x", "y"))
    pixels = PANEL / (right - left)
    return alt.Chart(
        points, width=PANEL, height=round(pixels * (top - bottom)), view=alt.ViewBackground(stroke=FAINT)
    ).encode(
        x=alt.X("x:Q", axis=None, scale=alt.Scale(domain=[left, right], nice=False)),
        y=alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[bottom, top], nice=False)),
        tooltip=[alt.Tooltip("layer:Q"), alt.Tooltip("head:Q"), alt.Tooltip("behaviour:N")],
    )


def _ends(values: pd.Series) -> tuple[float, float]:
    """A little beyond the outermost heads; never so little that they fall together."""
    room = max(0.06 * float(values.max() - values.min()), 0.02)
    return float(values.min()) - room, float(values.max()) + room
