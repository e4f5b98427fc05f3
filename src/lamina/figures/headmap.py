"""The map of heads, coloured by layer and by behaviour (figure 6 of the attention paper)."""

from __future__ import annotations

import math

import altair as alt
import pandas as pd

from lamina.figures.theme import BEHAVIOUR_LOOKS, Table, attention_name, themed
from lamina.results import Result

CAPTIONS = {
    "map": (
        "One point per head, shown twice: by layer and by behaviour. Heads that are close attend alike, as far as the "
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
    panels = [_by_layer(points), _by_behaviour(points)]
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
    return alt.LayerChart(layer=[dots, _head_names(points)], title="By behaviour")


_NAMED = ("syntactic", "coreference", "induction")
"""Behaviours whose heads are named on the map: those that were tested, not only above a threshold."""


def _head_names(points: Table) -> alt.Chart:
    tested = points[points["behaviour"].isin(_NAMED)]
    return _places(points, tested).mark_text(dx=9, align="left", fontSize=10).encode(text="name:N")


def _places(points: Table, drawn: Table | None = None) -> alt.Chart:
    # A nat is as many pixels up as across: a distance is a distance in every direction.
    (left, right), (bottom, top) = (_ends(points[axis]) for axis in ("x", "y"))
    pixels = PANEL / (right - left)
    return alt.Chart(points if drawn is None else drawn, width=PANEL, height=round(pixels * (top - bottom))).encode(
        x=alt.X("x:Q", title="nats per token", scale=alt.Scale(domain=[left, right], nice=False)),
        y=alt.Y("y:Q", title="nats per token", scale=alt.Scale(domain=[bottom, top], nice=False)),
        tooltip=[alt.Tooltip("layer:Q"), alt.Tooltip("head:Q"), alt.Tooltip("behaviour:N")],
    )


def _ends(values: pd.Series) -> tuple[float, float]:
    """A little beyond the outermost heads; never so little that they fall together."""
    room = max(0.06 * float(values.max() - values.min()), 0.02)
    return float(values.min()) - room, float(values.max()) + room
