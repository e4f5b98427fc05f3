"""Heads that find antecedents: the best one beside rules, and all of them by layer."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from lamina.figures._marks import interval_line, number_tips
from lamina.figures.heads import leads as lead_panel
from lamina.figures.heads import reach_of
from lamina.figures.theme import COLOURS, INK, SHADES, SHAPES, Table, attention_name, themed
from lamina.results import Result

CAPTIONS = {
    "systems": (
        "Share of mentions whose antecedent is found, one panel per type of mention, with 95 % intervals over "
        "documents, not corrected. All systems are scored on the same mentions. The best head is the best on these "
        "documents; cross-fitted, heads are chosen on other documents than those they are scored on. Compare both with "
        "the three simple systems below; the tests are in the chart of leads."
    ),
    "leads": (
        "Best head minus each simple system on the same documents, one panel per type of mention, with the "
        "simultaneous 95 % interval of the difference. A head is called a coreference head where it is clearly ahead "
        "of all three: p below .05, corrected by max-T over all heads, types and systems (documents' signs flipped)."
    ),
    "heads": (
        "Share of mentions whose antecedent each head finds on all documents, one grid per type of mention, one cell "
        "per head; its colour says how many (see the legend). The 95 % intervals are in the tooltips. The best "
        "of many heads is lucky here: compare with the cross-fitted score in the chart of systems."
    ),
}
"""Chart -> how to read it."""

SYSTEMS = ("best head", "best head, cross-fitted", "nearest", "head match", "rules")
KINDS = ("all", "pronoun", "proper", "nominal")
PANEL_WIDTH = 150
CELL = 26


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `systems` and `leads` (best head beside baselines, by type of mention) and `heads` (every head)."""
    table = result.tables["coref"]
    corpus = result.provenance.corpus
    split = f" ({corpus['split']})" if corpus.get("split") else ""
    title = f"{attention_name(result)} of {result.provenance.model['name']} on {corpus['name']}{split}"
    faithful = bool(result.provenance.parameters.get("faithful"))
    drawn = {"systems": systems(table, title, faithful)}
    # Results of older versions have no paired differences.
    if "best" in result.tables:
        drawn["leads"] = leads(result.tables["best"], title)
    drawn["heads"] = heads(table, title)
    return {name: themed(chart) for name, chart in drawn.items()}


def systems(table: Table, title: str, faithful: bool) -> alt.ConcatChart:
    """One panel per type of mention, one dot with its interval per system."""
    named = table[table["system"].isin(SYSTEMS)]
    best = named[(named["system"] == "best head") & (named["count"] > 0)]
    heads = ", ".join(f"{row.layer}-{row.head} ({row.mention_type})" for row in best.itertuples())
    chosen = (
        "one for all types, chosen on the documents it is scored on"
        if faithful
        else "cross-fitted: chosen by type on one half of the documents and scored on the other, both ways"
    )
    panels = [_panel(named[named["mention_type"] == kind], kind) for kind in KINDS if _has(named, kind)]
    return alt.concat(
        *panels,
        columns=4,
        spacing=24,
        title=alt.TitleParams(
            f"Antecedents found: {title}",
            subtitle=[
                f"best head: {heads}",
                f"{chosen}; lines: 95 % interval, documents resampled",
            ],
        ),
        description=describe(named),
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def leads(best: Table, title: str) -> alt.ConcatChart:
    """One panel per type of mention: the best head's lead over each simple system."""
    place, domain = alt.Y("baseline:N", sort=list(SYSTEMS[2:]), title=None), reach_of(best)
    panels = []
    for kind in KINDS:
        rows = best[best["mention_type"] == kind]
        if len(rows):
            head = f"head {rows['layer'].iloc[0]}-{rows['head'].iloc[0]}, {int(rows['count'].iloc[0]):,} mentions"
            panel = lead_panel(rows, place, height=90, domain=domain)
            panels.append(panel.properties(title=alt.TitleParams(kind, subtitle=head)))
    parts = [
        f"{row.mention_type}: {row.layer}-{row.head} minus {row.baseline} {row.difference:.2f}"
        for row in best.itertuples()
    ]
    return alt.concat(
        *panels,
        columns=2,
        spacing=30,
        title=alt.TitleParams(
            f"Best head against simple systems: {title}", subtitle="lines: simultaneous 95 % interval of the difference"
        ),
        description=f"{'; '.join(parts)}.",
    )


def _has(table: Table, kind: str) -> bool:
    return bool((table.loc[table["mention_type"] == kind, "count"] > 0).any())


def _looks(systems: list[str], looks: Sequence[str]) -> list[str]:
    """Colours or shapes: a head looks alike whether it is cross-fitted or not."""
    places = {system: max(0, index - 1) for index, system in enumerate(SYSTEMS)}
    return [looks[places[system]] for system in systems]


def _panel(rows: Table, kind: str) -> alt.LayerChart:
    order = [system for system in SYSTEMS if system in set(rows["system"])]
    base = alt.Chart(rows, width=PANEL_WIDTH, height=30 * len(order)).encode(
        y=alt.Y("system:N", sort=order, title=None),
        color=alt.Color("system:N", scale=alt.Scale(domain=order, range=_looks(order, COLOURS)), legend=None),
    )
    accuracy = alt.X("accuracy:Q", title="share found", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5))
    shape = alt.Shape("system:N", scale=alt.Scale(domain=order, range=_looks(order, SHAPES)), legend=None)
    tips = [
        alt.Tooltip("system:N"),
        alt.Tooltip("count:Q"),
        *number_tips("accuracy", "low", "high"),
    ]
    return alt.LayerChart(
        layer=[
            interval_line(base, alt.X("low:Q", title="share found")),
            base.mark_point(filled=True, size=70, opacity=1).encode(x=accuracy, shape=shape, tooltip=tips),
        ],
        title=alt.TitleParams(kind, subtitle=f"{int(rows['count'].iloc[0]):,} mentions"),
    )


def describe(table: Table) -> str:
    """The systems in words.

    Example:
        >>> row = ("rules", None, None, "all", 100, 0.69, 0.6, 0.75)
        >>> names = "system layer head mention_type count accuracy low high".split()
        >>> import pandas as pd
        >>> describe(pd.DataFrame([row], columns=names))
        'all: rules 0.69.'
    """
    sentences = []
    for kind, rows in table[table["count"] > 0].groupby("mention_type", sort=False):
        parts = [f"{row.system} {row.accuracy:.2f}" for row in rows.itertuples()]
        sentences.append(f"{kind}: {', '.join(parts)}.")
    return " ".join(sentences)


def heads(table: Table, title: str) -> alt.ConcatChart:
    """One grid per type of mention: layers down, heads across, by the share of antecedents found."""
    head_rows = table[table["system"] == "head"]
    top = float(head_rows["accuracy"].max())
    panels = [_grid(head_rows[head_rows["mention_type"] == kind], kind, top) for kind in KINDS if _has(head_rows, kind)]
    first = head_rows[head_rows["mention_type"] == "all"].sort_values("accuracy", ascending=False).iloc[0]
    return alt.concat(
        *panels,
        columns=2,
        spacing=30,
        title=alt.TitleParams(f"Antecedents found by each head: {title}", subtitle="on all documents"),
        description=f"Most antecedents are found by head {first['layer']}-{first['head']}: {first['accuracy']:.2f}.",
    )


def _grid(rows: Table, kind: str, top: float) -> alt.LayerChart:
    across, down = int(rows["head"].max()), int(rows["layer"].max())
    base = alt.Chart(rows, width=CELL * across, height=CELL * down).encode(
        x=alt.X("head:O", axis=alt.Axis(labelAngle=0)), y=alt.Y("layer:O", title="layer (block)")
    )
    scale = alt.Scale(domain=[0, top], range=list(SHADES), interpolate="lab", clamp=True)
    fill = alt.Color("accuracy:Q", scale=scale, legend=alt.Legend(title="share found", format=".0%"))
    tips = [
        alt.Tooltip("layer:O"),
        alt.Tooltip("head:O"),
        *number_tips("accuracy", "low", "high"),
    ]
    return alt.LayerChart(
        layer=[
            base.mark_rect().encode(color=fill, tooltip=tips),
            base.mark_text(fontSize=9).encode(
                text=alt.Text("percent:Q", format="d"),
                color=alt.condition(f"datum.accuracy > {top * 0.55}", alt.value("white"), alt.value(INK)),
            ),
        ],
        title=alt.TitleParams(kind, subtitle=f"{int(rows['count'].iloc[0]):,} mentions; numbers: percent"),
    ).transform_calculate(percent="round(100 * datum.accuracy)")
