"""Heads that find dependencies: the best of each relation beside the best fixed offset, and what they look like."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lamina.figures.look import Panel, lines
from lamina.figures.theme import COLOURS, INK, SHAPES, Table, themed
from lamina.results import Result

CAPTIONS = {
    "relations": (
        "Share of a relation's dependencies that its best head finds (dot, with its 95 % interval over texts) and that "
        "the best fixed offset finds (square). A head is better than an offset where its whole interval lies above "
        "the offset's share."
    ),
    "examples": (
        "Attention of some best heads: lines go from the attending word to the attended one and are wider with more "
        "attention; the annotated link has its own colour. Sentences are the first that fit, not the best."
    ),
}
"""Chart -> how to read it."""

HEAD, OFFSET = "best head", "best fixed offset"
SHOWN = 20
"""Dependencies that a relation must have been scored on to be drawn; the table has all."""
PANEL_WIDTH = 420
FOUND = "share of dependencies found"
GOLD, OTHER = "the annotated link", "other words"
ATTENDS = {"dependent": "dependents attend to their heads", "head": "heads attend to their dependents"}


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `relations` (every relation's best head and offset) and `examples` (what some of them attend to)."""
    corpus = result.provenance.corpus
    split = f" ({corpus['split']})" if corpus.get("split") else ""
    title = f"{result.provenance.model['name']} on {corpus['name']}{split}"
    drawn = {"relations": relations(result.tables["best"], title, bool(result.provenance.parameters.get("faithful")))}
    if len(result.tables["examples"]):
        drawn["examples"] = examples(result.tables["examples"], title)
    return {name: themed(chart) for name, chart in drawn.items()}


def relations(best: Table, title: str, faithful: bool) -> alt.ConcatChart:
    """One row per relation, the most accurate head on top: the head's dot with its interval, the offset's square."""
    often = best[best["count"] >= SHOWN]
    shown = (often if len(often) else best).sort_values("accuracy", ascending=False, kind="stable")
    named = shown.assign(
        relation=[f"{row.relation} ({row.count:,})" for row in shown.itertuples()],
        who=[f"{row.layer}-{row.head}, {row.direction}'s row" for row in shown.itertuples()],
        where=[f"offset {row.offset:+d}" for row in shown.itertuples()],
    )
    order = named["relation"].tolist()
    rows = pd.concat(
        [
            named[["relation", "who", "accuracy", "low", "high"]].assign(system=HEAD),
            named[["relation", "where", "offset_accuracy"]]
            .set_axis(["relation", "who", "accuracy"], axis=1)
            .assign(system=OFFSET),
        ],
        ignore_index=True,
    )
    chosen = "on the texts it is scored on" if faithful else "on one half of the texts, scored on the other"
    left = len(best) - len(shown)
    notes = [f"head, direction and offset chosen {chosen}; lines: 95 % bootstrap interval; in brackets: scored words"]
    notes += [f"not drawn: relations of fewer than {SHOWN} scored words ({left})"] if left else []
    return alt.concat(
        _dots(rows, order),
        title=alt.TitleParams(f"Dependencies found by single heads: {title}", subtitle=notes),
        description=describe(shown),
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def _dots(rows: Table, order: list[str]) -> alt.LayerChart:
    systems = [HEAD, OFFSET]
    legend = alt.Legend(title=None, orient="top", symbolSize=100, symbolOpacity=1)
    base = alt.Chart(rows, width=PANEL_WIDTH, height=alt.Step(17)).encode(
        y=alt.Y("relation:N", sort=order, title=None, axis=alt.Axis(labelLimit=260, grid=True)),
        color=alt.Color("system:N", scale=alt.Scale(domain=systems, range=list(COLOURS[:2])), legend=legend),
    )
    accuracy = alt.X("accuracy:Q", title=FOUND, scale=alt.Scale(domain=[0, 1]))
    shape = alt.Shape("system:N", scale=alt.Scale(domain=systems, range=list(SHAPES[:2])), legend=legend)
    tips = [
        "relation:N",
        "system:N",
        "who:N",
        *(alt.Tooltip(f"{n}:Q", format=".3f") for n in ("accuracy", "low", "high")),
    ]
    intervals = base.transform_filter(f"datum.system == '{HEAD}'")
    return alt.LayerChart(
        layer=[
            intervals.mark_rule(strokeWidth=2).encode(
                x=alt.X("low:Q", title="share of dependencies found"), x2="high:Q"
            ),
            base.mark_point(filled=True, size=55, opacity=1).encode(x=accuracy, shape=shape, tooltip=tips),
            intervals.mark_text(align="left", dx=6, fontSize=10, color=INK).encode(
                x=alt.XDatum(1), text="who:N", color=alt.ColorValue(INK)
            ),
        ]
    )


def describe(best: Table) -> str:
    """The best heads in words.

    Example:
        >>> row = ("obj", "dependent", 4, 7, 600, 0.62, 0.6, 0.64, -2, 0.31)
        >>> names = "relation direction layer head count accuracy low high offset offset_accuracy".split()
        >>> describe(pd.DataFrame([row], columns=names))
        'obj: head 4-7 finds 0.62, offset -2 finds 0.31.'
    """
    return " ".join(
        f"{row.relation}: head {row.layer}-{row.head} finds {row.accuracy:.2f}, "
        f"offset {row.offset:+d} finds {row.offset_accuracy:.2f}."
        for row in best.itertuples()
    )


def examples(table: Table, title: str) -> alt.ConcatChart:
    """Sentences with the lines of a relation's best head; the annotated links in their own colour."""
    keys = ["relation", "direction", "layer", "head", "text_id"]
    panels = []
    for (relation, direction, *_), rows in table.groupby(keys, sort=False):
        layer, head = int(rows["layer"].iloc[0]), int(rows["head"].iloc[0])
        named = rows.rename(columns={"word_from": "from_word", "word_to": "to_word"})
        kinds = named.assign(kind=[GOLD if str(gold) == "True" else OTHER for gold in named["gold"]])
        # Other words come first: they take the first colour, and lie below.
        ordered = kinds.sort_values("kind", kind="stable").drop(columns=["relation", "direction", "text_id", "gold"])
        panel = Panel(f"{relation}: head {layer}-{head}", ATTENDS[str(direction)])
        # A chart of its own each, since sentences differ; only its panel is taken.
        panels += lines(ordered, {(layer, head): panel}).concat
    texts = table.drop_duplicates(["relation", "text_id"])
    said = f"Attention of the best heads for {', '.join(dict.fromkeys(texts['relation']))}, on {len(texts)} sentences."
    note = "the first short sentences that have the relation, whether the head is right or not"
    return alt.concat(
        *panels,
        columns=3,
        spacing=24,
        title=alt.TitleParams(f"Heads at work: {title}", subtitle=note),
        description=said,
    )
