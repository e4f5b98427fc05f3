"""Roles and use: what each head finds against what breaks without it, one panel per role and target."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lamina.analyses.cause.effects import harm_of
from lamina.analyses.cause.roles import SURFACE, target_in_words
from lamina.figures._marks import number_tips
from lamina.figures.theme import COLOURS, GREY, INK, SHAPES, Table, themed
from lamina.results import Result
from lamina.results.finding import number, rows_of
from lamina.targets.probes import ALL_LINKS
from lamina.targets.target import LINK, LOSS

CAPTIONS = {
    "roles": (
        "What each head finds (its share of the dependents whose head word it attends to most, of mentions whose "
        "antecedent it finds, or of attention that goes to the neighbour or the sink) against what breaks without it: "
        "how much worse what needs the role is scored when that head alone is ablated (above 0: worse). Points: "
        "heads, named where they "
        "have the role (of many, the 5 farthest from 0); lines: 95 % intervals over documents (pairs: over "
        "pairs), simultaneous over heads. Orange squares: surely worse than without the other heads of the layer "
        "(paired, adjusted p < .05 over all heads with a role). rho: Spearman's rank correlation over all heads within "
        "layers, with its simultaneous interval. If heads were used for what they find, points to the right would be "
        "high."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 250
MOST_PANELS = 12
MOST_NAMED = 5
_HEIGHT = 190
_SERIES = ("without the role", "with the role", "with the role, matters more than its layer's others")


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The chart `roles`: one panel per role and target, those with the most heads first."""
    heads, table, groups = (result.tables[name] for name in ("heads", "roles", "groups"))
    rows = _rows(heads, table)
    drawn_groups = _shown(groups)
    panels = [_panel(rows, row, first=not index) for index, row in enumerate(rows_of(drawn_groups))]
    left_out = len(groups) - len(drawn_groups)
    about = result.provenance
    title = alt.TitleParams(
        f"What heads find and what breaks without them: {about.model['name']} on {about.corpus['name']}",
        subtitle="lines: 95 % intervals over documents" + (f"; {left_out} more roles in the table" if left_out else ""),
        offset=10,
    )
    chart = alt.concat(
        *panels,
        columns=3,
        spacing=24,
        title=title,
        description=" ".join(describe(rows, row.role, row.target) for row in rows_of(drawn_groups)),
        usermeta={"panelWidth": PANEL_WIDTH},
    ).resolve_scale(x="independent", y="independent")
    return {"roles": themed(chart)}


def describe(rows: Table, role: str, target: str) -> str:
    """A panel in words.

    Example:
        >>> rows = pd.DataFrame([("3-1", "obj", "link:obj@6", 0.6, 0.1, "with the role"),
        ...                      ("3-2", "obj", "link:obj@6", 0.2, 0.0, "without the role")],
        ...                     columns=["name", "role", "target", "finds", "harm", "series"])
        >>> describe(rows, "obj", "link:obj@6")
        'obj, the share of obj attached (link:obj@6): 3-1 finds 0.60, harm 0.100; other heads at most 0.000.'
    """
    panel_rows = rows[(rows["role"] == role) & (rows["target"] == target)]
    named = panel_rows[panel_rows["series"] != _SERIES[0]]
    finders = ", ".join(
        f"{name} finds {finds:.2f}, harm {harm:.3f}"
        for name, finds, harm in zip(named["name"], named["finds"], named["harm"], strict=True)
    )
    others = panel_rows.loc[panel_rows["series"] == _SERIES[0], "harm"]
    return f"{role}, {target_in_words(target)}: {finders}; other heads at most {others.max():.3f}."


def _shown(groups: Table) -> Table:
    """Relations and coreference first, by their heads; then neighbours and sinks."""
    surface = groups["role"].isin(SURFACE)
    ordered = groups.assign(surface=surface).sort_values(["surface", "heads"], ascending=[True, False], kind="stable")
    surface_roles = ordered[ordered["surface"]].head(4)
    return pd.concat([ordered[~ordered["surface"]].head(MOST_PANELS - len(surface_roles)), surface_roles])


def _rows(heads: Table, table: Table) -> Table:
    """One row per point; effects are turned so that above 0 is worse."""
    keys = ["layer", "head", "role", "target"]
    worse = table[table["worse"].astype(bool)]
    sure = set(worse[keys].itertuples(index=False, name=None))
    series = [
        _SERIES[2] if (layer, head, role, target) in sure else _SERIES[1] if has else _SERIES[0]
        for layer, head, role, target, has in heads[[*keys, "has_role"]].itertuples(index=False)
    ]
    ends = [harm_of(heads, name) for name in ("low", "high")]
    return heads.assign(
        name=heads["layer"].astype(str) + "-" + heads["head"].astype(str),
        harm=harm_of(heads),
        low=pd.concat(ends, axis=1).min(axis=1),
        high=pd.concat(ends, axis=1).max(axis=1),
        series=series,
    )


def _panel(rows: Table, group: object, *, first: bool) -> alt.LayerChart:
    role, target = str(getattr(group, "role", "")), str(getattr(group, "target", ""))
    panel_rows = rows[(rows["role"] == role) & (rows["target"] == target)]
    unit = "share of attention" if role in SURFACE else "share found"
    x = alt.X("finds:Q", title=unit, scale=alt.Scale(zero=True, nice=True, padding=6), axis=alt.Axis(tickCount=5))
    worse = "nats per token" if target == LOSS else "score lost"
    y = alt.Y("harm:Q", title=f"{worse} without it", scale=alt.Scale(nice=True), axis=alt.Axis(tickCount=5))
    legend = alt.Legend(title=None, orient="top", symbolSize=80, labelLimit=400) if first else None
    domain = list(_SERIES)
    colour = alt.Color("series:N", scale=alt.Scale(domain=domain, range=[GREY, COLOURS[0], COLOURS[1]]), legend=legend)
    shape = alt.Shape(
        "series:N", scale=alt.Scale(domain=domain, range=list(SHAPES[:1] * 2 + SHAPES[1:2])), legend=legend
    )
    numbers = number_tips("finds", "harm", "low", "high")
    base = alt.Chart(panel_rows, width=PANEL_WIDTH, height=_HEIGHT).encode(x=x, color=colour)
    named = panel_rows[panel_rows["series"] != _SERIES[0]]
    zero = alt.Chart(pd.DataFrame({"harm": [0.0]})).mark_rule(color=INK, strokeDash=[3, 3], opacity=0.5).encode(y=y)
    layers: list[alt.Chart] = [zero]
    lines = alt.Chart(named).mark_rule(strokeWidth=1.5, opacity=0.5)
    layers.append(lines.encode(x=x, color=colour, y=alt.Y("low:Q", title=f"{worse} without it"), y2=alt.Y2("high:Q")))
    points = base.mark_point(filled=True, size=45, opacity=0.9)
    layers.append(points.encode(y=y, shape=shape, tooltip=[alt.Tooltip("name:N", title="head"), *numbers]))
    # Labels above and below in turn, so that names of nearby heads do not overlap.
    ordered = named.loc[named["harm"].abs().nlargest(MOST_NAMED).index].sort_values("harm", ascending=False)
    for some, up in ((ordered.iloc[::2], -6), (ordered.iloc[1::2], 9)):
        if len(some):
            labels = alt.Chart(some).mark_text(align="left", dx=6, dy=up, fontSize=10, color=INK)
            layers.append(labels.encode(x=x, y=y, text=alt.Text("name:N")))
    return alt.LayerChart(layer=layers, title=alt.TitleParams(_title(role, target), subtitle=_rho(group), fontSize=12))


def _title(role: str, target: str) -> str:
    needs = target.removeprefix(LINK).rpartition("@")[0] if target.startswith(LINK) else target
    phrase = "all attachments" if needs == ALL_LINKS else "its attachment" if needs == role else needs
    return f"{role}: {phrase}"


def _rho(group: object) -> str:
    rho, low, high = (float(getattr(group, name)) for name in ("rho", "rho_low", "rho_high"))
    return f"rho {number(rho, low, high)}"
