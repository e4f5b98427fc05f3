"""Heads that find dependencies: the best of each relation beside the best fixed offset, and what they look like."""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from lamina.analyses.heads.behaviours import DIFFERENCE, arcs, is_ahead
from lamina.figures._marks import interval_line, number_tips
from lamina.figures.look import Panel, lines, text_width
from lamina.figures.theme import COLOURS, GREY, INK, SHAPES, Table, attention_name, themed
from lamina.results import Result
from lamina.results.finding import rows_of
from lamina.tasks.catalogue import in_words

CAPTIONS = {
    "relations": (
        "The panel of shares: how many of a relation's dependencies its best head finds (dot, with its 95 % interval "
        "over documents, not corrected) and the best fixed offset (square). The panel of leads: head minus offset on "
        "the same documents, with the lower end of its simultaneous one-sided interval. A head earns the name of a "
        "relation where that test is below .05, corrected by max-T over all heads, relations and directions."
    ),
    "arcs": (
        "Four sentences, one arc in each: from the word that is asked about to the word that the head gives most "
        "attention, special tokens apart. Solid: the annotated word; dashed with a cross: another one, beside the "
        "annotated one as a thin line. The heads are those that lead the best fixed offset by most; their sentences "
        "are the first short ones of the corpus that have the relation, and one of the failures among them. How often "
        "they find the annotated word is in the chart of all relations."
    ),
    "examples": (
        "Attention of the heads that are most clearly ahead of the best fixed offset: lines go from the attending word "
        "to the attended one and are wider with more attention; the annotated link has its own colour and is drawn in "
        "full. Sentences are the first that fit, not the best."
    ),
}
"""Chart -> how to read it."""

HEAD, OFFSET = "best head", "best fixed offset"
FEWEST = 20
"""Dependencies that a relation must have been scored on to be drawn; the table has all."""
PANEL_WIDTH = 420
LEAD_WIDTH = 220
SURE, UNSURE = "clearly ahead", "not clearly ahead"
SHARE = "share of dependencies found"
AHEAD = "share found, head minus rule"
GOLD, OTHER = "the annotated link", "other words"
ATTENDS = {"dependent": "dependents attend to their heads", "head": "heads attend to their dependents"}


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `relations` (every relation's best head and offset) and `examples` (what some of them attend to)."""
    corpus = result.provenance.corpus
    split = f" ({corpus['split']})" if corpus.get("split") else ""
    title = f"{attention_name(result)} of {result.provenance.model['name']} on {corpus['name']}{split}"
    drawn = {"relations": relations(result.tables["best"], title, bool(result.provenance.parameters.get("faithful")))}
    if len(result.tables["examples"]):
        if (four := sentences(result.tables["examples"], result)) is not None:
            drawn = {"arcs": four, **drawn}
        drawn["examples"] = examples(result.tables["examples"], title)
    return {name: themed(chart) for name, chart in drawn.items()}


def relations(best: Table, title: str, faithful: bool) -> alt.ConcatChart:
    """One row per relation, the most accurate head on top: shares of head and offset, and the head's lead."""
    often = best[best["count"] >= FEWEST]
    ranking = (often if len(often) else best).sort_values("accuracy", ascending=False, kind="stable")
    named = ranking.assign(
        relation=[f"{in_words(str(row.relation))}: {row.count:,}" for row in ranking.itertuples()],
        who=[f"{row.layer}-{row.head}, {row.direction}'s row" for row in ranking.itertuples()],
        where=[f"offset {row.offset:+d}" for row in ranking.itertuples()],
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
    left = len(best) - len(ranking)
    notes = [
        "the best head and offset on these documents"
        + ("" if faithful else "; the table has scores of heads that other documents chose"),
        "lines: 95 % interval (of leads: its lower end, simultaneous); after the name: scored words",
    ]
    notes += [f"not drawn: relations of fewer than {FEWEST} scored words ({left})"] if left else []
    panels: list[alt.LayerChart] = [_dots(rows, order)]
    # Results of older versions have no paired differences.
    if set(DIFFERENCE) <= set(named):
        place = alt.Y("relation:N", sort=order, title=None, axis=alt.Axis(labels=False, ticks=False, grid=True))
        panels.append(leads(named, place, height=alt.Step(17)))
    return alt.concat(
        *panels,
        columns=2,
        spacing=90,
        title=alt.TitleParams(f"Dependencies found by single heads: {title}", subtitle=notes, offset=12),
        description=describe(ranking),
        # A narrow page has no room for the second panel; the table has its numbers.
        usermeta={"panelWidth": PANEL_WIDTH, "oneRow": True, "narrow": {"room": 520, "panels": [0]}},
    ).resolve_scale(color="independent", shape="independent")


def leads(
    rows: Table, place: alt.Y, height: int | alt.Step, domain: tuple[float, float] | None = None
) -> alt.LayerChart:
    """How far heads are ahead of simple rules on the same documents, with intervals; the clear ones in colour.

    Of a one-sided interval, which has no upper end, the line ends at the estimate.
    """
    points = _with_lines(rows).assign(lead=[SURE if sure else UNSURE for sure in is_ahead(rows)])
    scale = alt.Scale(domain=list(domain or reach_of(rows)))
    legend = alt.Legend(title=None, orient="top", symbolSize=100, symbolOpacity=1)
    base = alt.Chart(points, width=LEAD_WIDTH, height=height).encode(
        y=place,
        color=alt.Color("lead:N", scale=alt.Scale(domain=[SURE, UNSURE], range=[COLOURS[0], GREY]), legend=legend),
    )
    tips = [alt.Tooltip(f"{name}:Q", format=".3f") for name in DIFFERENCE]
    return alt.LayerChart(
        layer=[
            alt.Chart(alt.Data(values=[{}])).mark_rule(color=INK).encode(x=alt.datum(0, title=AHEAD)),
            base.mark_rule(strokeWidth=2).encode(
                x=alt.X("line_low:Q", title=AHEAD, scale=scale), x2=alt.X2("line_high:Q")
            ),
            base.mark_point(filled=True, size=55, opacity=1).encode(
                x=alt.X("difference:Q", title=AHEAD, scale=scale), tooltip=tips
            ),
        ],
        title="Lead",
    )


def reach_of(rows: Table) -> tuple[float, float]:
    """Where an axis of leads begins and ends: tenths that hold all intervals and 0.

    Example:
        >>> reach_of(pd.DataFrame([(0.2, 0.13, 0.27)], columns=["difference", "diff_low", "diff_high"]))
        (0.0, 0.3)
    """
    numbers = _with_lines(rows)[["difference", "line_low", "line_high"]].to_numpy(float)
    ends = np.array([0.0, *numbers[np.isfinite(numbers)]])
    # Rounded first: a tenth should not become the next one by the last bit.
    tenths = np.round(ends * 10, 6)
    low, high = float(np.floor(tenths.min())) / 10, float(np.ceil(tenths.max())) / 10
    return low, max(high, low + 0.1)


def _with_lines(rows: Table) -> Table:
    """With the ends of the lines that show intervals: the estimate where an interval has no end of its own."""
    low, high = rows["diff_low"], rows["diff_high"]
    return rows.assign(
        line_low=low.where(low > -1, rows["difference"]), line_high=high.where(high < 1, rows["difference"])
    )


def _dots(rows: Table, order: list[str]) -> alt.LayerChart:
    systems = [HEAD, OFFSET]
    legend = alt.Legend(title=None, orient="top", symbolSize=100, symbolOpacity=1)
    base = alt.Chart(rows, width=PANEL_WIDTH, height=alt.Step(17)).encode(
        y=alt.Y("relation:N", sort=order, title=None, axis=alt.Axis(labelLimit=260, grid=True)),
        color=alt.Color("system:N", scale=alt.Scale(domain=systems, range=list(COLOURS[:2])), legend=legend),
    )
    accuracy = alt.X("accuracy:Q", title=SHARE, scale=alt.Scale(domain=[0, 1]))
    shape = alt.Shape("system:N", scale=alt.Scale(domain=systems, range=list(SHAPES[:2])), legend=legend)
    tips = [
        alt.Tooltip("relation:N"),
        alt.Tooltip("system:N"),
        alt.Tooltip("who:N"),
        *number_tips("accuracy", "low", "high"),
    ]
    intervals = base.transform_filter(f"datum.system == '{HEAD}'")
    return alt.LayerChart(
        layer=[
            interval_line(intervals, alt.X("low:Q", title=SHARE)),
            base.mark_point(filled=True, size=55, opacity=1).encode(x=accuracy, shape=shape, tooltip=tips),
            intervals.mark_text(align="left", dx=6, fontSize=10, color=INK).encode(
                x=alt.XDatum(1), text=alt.Text("who:N"), color=alt.ColorValue(INK)
            ),
        ],
        title="Shares",
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


_SENTENCES = 4
"""Sentences that the chapter opens with."""
_RIGHT, _WRONG = COLOURS[2], COLOURS[1]
_SPACE, _LEVEL = 5, 20
"""Pixels between words, and of an arc's height per doubling of its length."""
_ARC_HEIGHT = 84


def sentences(table: Table, result: Result) -> alt.ConcatChart | None:
    """Sentences with one arc each: what their heads answer; of four, one is a failure where there is one."""
    answers = arcs(table)
    if answers.empty:
        return None
    first = answers.drop_duplicates(["relation", "text_id"])
    right = first[first["right"]].drop_duplicates("relation")
    wrong = first[~first["right"]].drop_duplicates("relation")
    failures = wrong.head(max(1, _SENTENCES - len(right)))
    chosen = pd.concat([right.head(_SENTENCES - len(failures)), failures])
    panels = [_arc_panel(row, table) for row in rows_of(chosen)]
    name, corpus = result.provenance.model["name"], result.provenance.corpus
    failed = f"{len(failures)} of {len(chosen)} shown answers {'is' if len(failures) == 1 else 'are'} wrong"
    about = f"{attention_name(result)} of {name} on {corpus['name']}; {failed}"
    return alt.concat(
        *panels,
        columns=2,
        spacing=28,
        title=alt.TitleParams("What single heads answer", subtitle=about, offset=12),
        description=" ".join(_arc_in_words(row, _words_of(row, table)) for row in rows_of(chosen)),
        usermeta={"fixed": True},
    )


def _words_of(row: Any, table: Table) -> list[str]:
    """The words of an example's sentence, in order."""
    rows = table[(table["text_id"] == row.text_id) & (table["relation"] == row.relation)]
    return rows.drop_duplicates("from").sort_values("from")["word_from"].astype(str).tolist()


def _arc_in_words(row: Any, words: list[str]) -> str:
    verdict = "right" if row.right else f"wrong, annotated is “{words[row.gold]}”"
    link = f"links “{words[row.word]}” to “{words[row.answer]}”"
    return f"{in_words(str(row.relation))}: head {row.layer}-{row.head} {link} ({verdict})."


def _arc_panel(row: Any, table: Table) -> alt.LayerChart:
    """A sentence in a line, with the arc of the head's answer over it, and of the annotated one where it is another."""
    words = _words_of(row, table)
    widths = [text_width(word) for word in words]
    starts = [sum(widths[:place]) + _SPACE * place for place in range(len(words))]
    middles = [start + width / 2 for start, width in zip(starts, widths, strict=True)]
    bold = {row.word, row.answer}
    rows = pd.DataFrame({"word": words, "x": middles, "strong": [place in bold for place in range(len(words))]})
    across = alt.Scale(domain=[0, starts[-1] + widths[-1]], range=[0, starts[-1] + widths[-1]], nice=False)
    up = alt.Scale(domain=[0, _ARC_HEIGHT], range=[_ARC_HEIGHT, 0], nice=False)
    text = alt.Chart(rows).encode(x=alt.X("x:Q", scale=across, axis=None), y=alt.value(_ARC_HEIGHT + 12))
    layers: list[alt.Chart] = [
        text.transform_filter("!datum.strong").mark_text(fontSize=12, color=INK).encode(text=alt.Text("word:N")),
        text.transform_filter("datum.strong")
        .mark_text(fontSize=12, fontWeight="bold", color=INK)
        .encode(text=alt.Text("word:N")),
    ]
    if not row.right:
        layers += _arc(middles[row.word], middles[row.gold], across, up, GREY, dash=[1, 0], width=1.2)
    colour = _RIGHT if row.right else _WRONG
    dash = [1, 0] if row.right else [5, 3]
    layers += _arc(middles[row.word], middles[row.answer], across, up, colour, dash=dash, width=2.5)
    ends = alt.Chart(pd.DataFrame({"x": [middles[row.answer]]})).encode(
        x=alt.X("x:Q", scale=across, axis=None), y=alt.value(_ARC_HEIGHT - 2)
    )
    layers.append(
        ends.mark_point(shape="circle" if row.right else "cross", filled=True, size=70, color=colour, opacity=1)
    )
    verdict = "right" if row.right else f"wrong: annotated is “{words[row.gold]}”"
    title = alt.TitleParams(
        f"{in_words(str(row.relation))}, head {row.layer}-{row.head}: {verdict}",
        subtitle=f"“{words[row.word]}” belongs to “{words[row.answer]}”, the head says",
        fontSize=13,
    )
    return alt.LayerChart(layer=layers, width=starts[-1] + widths[-1], height=_ARC_HEIGHT + 22, title=title)


def _arc(
    one: float, other: float, across: alt.Scale, up: alt.Scale, colour: str, *, dash: list[int], width: float
) -> list[alt.Chart]:
    """A curve over the words between two places, higher the farther they are apart."""
    top = min(_ARC_HEIGHT - 4, _LEVEL * (1 + math.log2(1 + abs(other - one) / 40)))
    # A curve of this kind stays below its inner points.
    points = pd.DataFrame({"x": [one, one, other, other], "y": [2, top * 1.25, top * 1.25, 2], "place": range(4)})
    return [
        alt.Chart(points)
        .mark_line(interpolate="basis", color=colour, strokeDash=dash, strokeWidth=width, clip=False)
        .encode(
            x=alt.X("x:Q", scale=across, axis=None),
            y=alt.Y("y:Q", scale=up, axis=None),
            order=alt.Order("place:Q"),
        )
    ]


def examples(table: Table, title: str) -> alt.ConcatChart:
    """Sentences with the lines of a relation's best head; the annotated links in their own colour."""
    keys = ["relation", "direction", "layer", "head", "text_id"]
    panels = []
    # Most of a head's attention goes to special tokens: beside it, links between words could not be seen.
    table = pd.DataFrame(table[table["to"] >= 0])
    for (relation, direction, *_), rows in table.groupby(keys, sort=False):
        layer, head = int(rows["layer"].iloc[0]), int(rows["head"].iloc[0])
        named = rows.rename(columns={"word_from": "from_word", "word_to": "to_word"})
        kinds = named.assign(kind=[GOLD if str(gold) == "True" else OTHER for gold in named["gold"]])
        # Other words come first: they take the first colour, and lie below.
        ordered = kinds.sort_values("kind", kind="stable").drop(columns=["relation", "direction", "text_id", "gold"])
        panel = Panel(f"{in_words(str(relation))}: head {layer}-{head}", ATTENDS[str(direction)])
        # A chart of its own each, since sentences differ; only its panel is taken.
        panels += lines(ordered, {(layer, head): panel}, strong=GOLD).concat
    texts = table.drop_duplicates(["relation", "text_id"])
    description = (
        f"Attention of the best heads for {', '.join(dict.fromkeys(texts['relation']))}, on {len(texts)} sentences."
    )
    note = (
        "the first short sentences that have the relation, whether the head is right or not; attention to special "
        "tokens is not drawn"
    )
    return alt.concat(
        *panels,
        columns=3,
        spacing=24,
        title=alt.TitleParams(f"Heads at work: {title}", subtitle=note),
        description=description,
        # Places are in pixels: lines end where words begin.
        usermeta={"fixed": True},
    )
