"""How decisions come about: sentences with bars by layer (the pipeline paper's figure 3), and what is revised."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from statistics import fmean
from typing import NamedTuple

import altair as alt
import pandas as pd

from lamina.figures._marks import interval_band, number_tips
from lamina.figures.theme import COLOURS, GREY, Table, Tables, layer_axis, rows_of, themed, title_of
from lamina.results import Result
from lamina.stats.status import SURE

CAPTIONS = {
    "traces": (
        "Each sentence with some of its targets in brackets; below, from the embeddings to the last layer, "
        "the probability of a label under the probe that sees layers 0 to l, for the probes of one seed and without "
        "an interval. Compare the two labels of a target. Labels that sum to more than 1 are divided by their sum; the "
        "table has the probabilities as they are."
    ),
    "revisions": (
        "The share of decisions that P(l) changes against P(l-1), at each layer l; band: its 95 % interval over "
        "documents (from 5 seeds on over seeds too). Compare it with the dashed line: the share on which two seeds "
        "disagree at that layer, which is what training again changes by itself. A filled point is a layer that "
        "clearly revises more (difference paired by document, p < .05 by max-T over all layers and tasks)."
    ),
    "revised_after": (
        "Decisions of two tasks about the same words. Each panel names what is counted; lines are 95 % intervals over "
        "documents (from 5 seeds on over seeds too). Compare the observed share with the shuffled one: the second task "
        "taken from other texts, target by target with the same gold label; its line is the middle 95 % of the "
        "shuffles. A star marks a difference with p < .05, corrected by max-T over all pairs and measures."
    ),
}
"""Chart -> how to read it."""

SENTENCES, TARGETS = 4, 6
"""Drawn at most: a few sentences, and a few targets of each; the table has all."""
PANEL_WIDTH = 150
COLUMNS = 4
_LINE = 100
"""Characters of a sentence on one line."""
_KEYS = ["task", "span1", "span2"]
"""What tells a sentence's targets apart."""

RIGHT, WRONG = "gold label", "strongest wrong label"
FIRST, SECOND = "strongest label", "second strongest"


class Target(NamedTuple):
    """What one small panel shows: two labels over the layers."""

    task: str
    span1: tuple[int, int]
    span2: tuple[int, int] | None
    rows: Table
    """Columns `label`, `role`, `layer`, `height`, `probability`."""


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `traces`, with every target of the result, and `revisions` and `revised_after` where it has them."""
    corpus = result.provenance.corpus
    split = f" ({corpus['split']})" if corpus.get("split") else ""
    title = f"{result.provenance.model['name']} on {corpus['name']}{split}"
    charts = {
        "traces": traces(result.tables, title, everything=True),
        "revisions": revisions(result.tables, title),
        "revised_after": revised_after(result.tables, title),
    }
    return {name: themed(chart) for name, chart in charts.items() if chart is not None}


def traces(tables: Tables, title: str, *, everything: bool = False) -> alt.ConcatChart | None:
    """Some sentences, or all of them, with the labels of their targets from layer to layer."""
    table = rows_of(tables, "traces")
    if table is None:
        return None
    seed = table["seed"].min()
    seed_rows = table[table["seed"] == seed]
    seed_rows = seed_rows.assign(span2=seed_rows["span2"].fillna(""))
    ids = _first_of_each_task(seed_rows)[: None if everything else SENTENCES]
    sentences = [
        _targets(seed_rows[seed_rows["text_id"] == text_id], None if everything else TARGETS) for text_id in ids
    ]
    words = [_words(tables, text_id) for text_id in ids]
    last = int(seed_rows["layer"].max())
    blocks = [_sentence(sentence, targets, last) for sentence, targets in zip(words, sentences, strict=True)]
    drawn, total = sum(map(len, sentences)), len(seed_rows.drop_duplicates(["text_id", *_KEYS]))
    of = f"{drawn} of {total} targets drawn; " if drawn < total else ""
    heading = alt.TitleParams(
        f"From layer to layer: {title}", subtitle=f"{of}height: probability under P(l), 0 to 1; probes of seed {seed}"
    )
    return alt.concat(
        *blocks,
        columns=1,
        spacing=28,
        title=heading,
        description=" ".join(map(_in_words, words, sentences)),
    )


def _first_of_each_task(rows: Table) -> list[str]:
    """The sentences, so that the first few of them show many tasks."""
    pairs = rows[["task", "text_id"]].drop_duplicates()
    turn = pairs.groupby("task", sort=False).cumcount()
    return list(dict.fromkeys(pairs.loc[turn.sort_values(kind="stable").index, "text_id"].astype(str)))


def _targets(rows: Table, most: int | None) -> list[Target]:
    """The targets of a sentence, all or `most` of them: then each task in turn gives one."""
    groups = list(rows.groupby(_KEYS, sort=False))
    if most is not None:
        tasks = pd.Series([key[0] for key, _ in groups])
        turns = tasks.groupby(tasks).cumcount()
        groups = [groups[index] for index in sorted(turns.sort_values(kind="stable").index[:most])]
    return [
        Target(str(task), _span(str(span1)), _span(str(span2)) if span2 else None, _two_labels(group))
        for (task, span1, span2), group in groups
    ]


def _two_labels(rows: Table) -> Table:
    """The strongest gold label and the strongest wrong one; the two strongest where the gold labels are not known."""
    # Plain lists: there are hundreds of targets of a few rows, where each step of pandas costs more than all of this.
    points = list(zip(rows["label"].astype(str), rows["layer"].tolist(), rows["probability"].tolist(), strict=True))
    every: dict[tuple[str, str], list[float]] = {}
    for (label, _, probability), gold in zip(points, rows["gold"], strict=True):
        every.setdefault((label, str(gold)), []).append(probability)
    strongest = sorted(every, key=lambda pair: -fmean(every[pair]))
    right, wrong = ([label for label, gold in strongest if gold == known] for known in ("True", "False"))
    if right or wrong:
        roles = dict.fromkeys(right[:1], RIGHT) | dict.fromkeys(wrong[:1], WRONG)
    else:
        roles = dict(zip((label for label, _ in strongest), (FIRST, SECOND), strict=False))
    drawn_points = [
        point for label in roles for point in sorted(points, key=lambda point: point[1]) if point[0] == label
    ]
    sums: defaultdict[int, float] = defaultdict(float)
    for _, layer, probability in drawn_points:
        sums[layer] += probability
    # Labels are scored one by one, so two rivals may sum to more than 1; several true labels are no rivals.
    heights = [share / max(1, sums[layer]) if len(right) < 2 else share for _, layer, share in drawn_points]
    return pd.DataFrame(
        [
            (label, roles[label], layer, high, share)
            for (label, layer, share), high in zip(drawn_points, heights, strict=True)
        ],
        columns=["label", "role", "layer", "height", "probability"],
    )


def _span(text: str) -> tuple[int, int]:
    start, end = text.split(":")
    return int(start), int(end)


def _words(tables: Tables, text_id: str) -> list[str]:
    """The sentence; nothing where the result does not hold it."""
    table = rows_of(tables, "words")
    if table is None:
        return []
    return table.loc[table["text_id"] == text_id].sort_values("position")["word"].astype(str).tolist()


def _sentence(words: list[str], targets: list[Target], last: int) -> alt.ConcatChart:
    title = textwrap.wrap(marked(words, targets), _LINE) if words else ["(the words of this sentence are not kept)"]
    panels = [_panel(words, target, last) for target in targets]
    return alt.concat(*panels, columns=COLUMNS, spacing=18, title=alt.TitleParams(title, fontWeight="normal"))


def marked(words: list[str], targets: list[Target]) -> str:
    """The sentence with the spans of its targets in brackets, unless every word is one.

    Example:
        >>> marked(["he", "smoked", "toronto"], [Target("ner", (2, 3), None, pd.DataFrame())])
        'he smoked [toronto]'
    """
    spans = {span for target in targets for span in (target.span1, target.span2) if span is not None}
    if len({position for span in spans for position in range(*span)}) == len(words):
        return " ".join(words)
    parts = []
    for position, word in enumerate(words):
        opened = sum(start == position for start, _ in spans)
        closed = sum(end == position + 1 for _, end in spans)
        parts.append("[" * opened + word + "]" * closed)
    return " ".join(parts)


def _panel(words: list[str], target: Target, last: int) -> alt.Chart:
    labels = list(dict.fromkeys(target.rows["label"]))
    step = PANEL_WIDTH / (last + 2)
    names = [RIGHT, WRONG] if {RIGHT, WRONG} & set(target.rows["role"]) else [FIRST, SECOND]
    legend = alt.Legend(title=None, orient="top", symbolType="square", symbolSize=140)
    height = alt.Axis(values=[0, 1], labels=False, ticks=False)
    header = alt.Header(labelOrient="top", labelAnchor="start", labelFontSize=11, labelPadding=2)
    title = alt.TitleParams(_named(words, target), subtitle=title_of(target.task), fontSize=12, subtitleFontSize=11)
    rows = target.rows[["label", "role", "layer", "height", "probability"]]
    return (
        alt.Chart(rows, width=PANEL_WIDTH, height=34, title=title)
        .mark_bar(size=step * 0.8)
        .encode(
            x=layer_axis(last, padding=step / 2 + 2).title("layer"),
            y=alt.Y(
                "height:Q",
                title=None,
                scale=alt.Scale(domain=[0, 1]),
                axis=height,
            ),
            color=alt.Color("role:N", scale=alt.Scale(domain=names, range=list(COLOURS[:2])), legend=legend),
            row=alt.Row("label:N", sort=labels, title=None, spacing=6, header=header),
            tooltip=[
                alt.Tooltip("label:N"),
                alt.Tooltip("role:N"),
                alt.Tooltip("layer:Q"),
                alt.Tooltip("probability:Q", format=".3f"),
            ],
        )
    )


def _named(words: list[str], target: Target) -> str:
    """The target's own words, cut short; for a pair the first span, then the second."""
    spans = [span for span in (target.span1, target.span2) if span is not None]
    phrases = [" ".join(words[start:end]) if words else f"words {start}:{end}" for start, end in spans]
    return " + ".join(textwrap.shorten(phrase, 44 // len(phrases), placeholder=" ...") for phrase in phrases)


def _in_words(words: list[str], targets: list[Target]) -> str:
    """Where each target begins and ends."""
    sentences = [f"Sentence: {' '.join(words)}." if words else "A sentence."]
    for target in targets:
        ends = target.rows.sort_values("layer").groupby("label", sort=False)["probability"].agg(["first", "last"])
        parts = [f"{label} from {first:.2f} to {last:.2f}" for label, first, last in ends.itertuples()]
        sentences.append(f"{title_of(target.task)} of {_named(words, target)}: {', '.join(parts)}.")
    return " ".join(sentences)


_REVISED, _SEEDS = "decisions revised", "two seeds disagree"


def revisions(tables: Tables, title: str) -> alt.ConcatChart | None:
    """One panel per task: the share of decisions revised at each layer, beside how far two seeds disagree."""
    table = rows_of(tables, "revisions")
    if table is None:
        return None
    steps = table[table["layer"].notna()].astype({"layer": int})
    top = float(steps[["high", "seeds_differ"]].max().max())
    tasks = list(dict.fromkeys(steps["task"]))
    panels = [_revised(steps[steps["task"] == task], title_of(task), top) for task in tasks]
    heading = alt.TitleParams(f"Decisions revised from layer to layer: {title}")
    whole = table[table["layer"].isna()]
    shares = zip(whole["task"], whole["revised"], strict=True)
    described = [f"{title_of(task)}: {share:.2f} revised at least once." for task, share in shares]
    return alt.concat(*panels, columns=COLUMNS, spacing=24, title=heading, description=" ".join(described))


def _revised(rows: Table, title: str, top: float) -> alt.LayerChart:
    last = int(rows["layer"].max())
    both = [rows.assign(what=_REVISED, share=rows["revised"]), rows.assign(what=_SEEDS, share=rows["seeds_differ"])]
    long = pd.concat(both).dropna(subset=["share"])[["layer", "what", "share", "low", "high"]]
    names, legend = [_REVISED, _SEEDS], alt.Legend(title=None, orient="top", symbolType="stroke", symbolStrokeWidth=2)
    look = {
        "color": alt.Color("what:N", scale=alt.Scale(domain=names, range=[COLOURS[0], GREY]), legend=legend),
        "strokeDash": alt.StrokeDash("what:N", scale=alt.Scale(domain=names, range=[[1, 0], [4, 3]]), legend=legend),
    }
    x = layer_axis(last, domain=(0, last)).title("layer")
    y = alt.Y("share:Q", title="share of targets", scale=alt.Scale(domain=[0, top * 1.05], nice=False))
    base = alt.Chart(long, width=PANEL_WIDTH * 1.2, height=130)
    revised = base.transform_filter(alt.datum.what == _REVISED)
    band = interval_band(revised, alt.Y("low:Q"), color=COLOURS[0]).encode(x=x)
    tooltip = [alt.Tooltip("what:N"), alt.Tooltip("layer:Q"), alt.Tooltip("share:Q", format=".3f")]
    line = base.mark_line(strokeWidth=2).encode(x=x, y=y, **look)
    more = rows[(rows["p_adjusted"] < SURE) & (rows["difference"] > 0)]["layer"].tolist()
    fill = alt.when(alt.FieldOneOfPredicate(field="layer", oneOf=more)).then(alt.value(COLOURS[0]))
    points = revised.mark_point(filled=False, size=30, color=COLOURS[0], opacity=1).encode(
        x=x, y=y, tooltip=tooltip, fill=fill.otherwise(alt.value("white"))
    )
    return alt.LayerChart(layer=[band, line, points], title=alt.TitleParams(title, fontSize=12))


_MEASURES = {
    "after_revised": "The first is last revised after the second, where both are revised",
    "same_layer": "Both have their last revision at the same layer, where both are revised",
    "after_settled": "The first is revised after the second has settled, revised or not",
}
"""Measure -> its panel's title, the one that tells most first."""
_OBSERVED, _SHUFFLED = "same words", "second task from other texts"


def revised_after(tables: Tables, title: str) -> alt.ConcatChart | None:
    """One panel per measure, one row per pair of tasks: the observed share above the shuffled one."""
    table = rows_of(tables, "revised_after")
    if table is None or table["observed"].isna().all():
        return None
    panels, described = [], []
    for measure, name in _MEASURES.items():
        rows = table[(table["measure"] == measure) & table["observed"].notna()]
        if rows.empty:
            continue
        between = " and " if measure == "same_layer" else " after "
        rows = rows.assign(
            pair=[
                title_of(a) + between + title_of(b).lower() for a, b in zip(rows["task_a"], rows["task_b"], strict=True)
            ]
        )
        panels.append(_pairs(rows, name))
        described += [f"{row.pair}: {row.observed:.2f}, shuffled {row.shuffled:.2f}." for row in rows.itertuples()]
    heading = alt.TitleParams(f"Revised after another task: {title}", subtitle="* p < .05 by max-T")
    return alt.concat(*panels, columns=1, spacing=28, title=heading, description=" ".join(described))


def _pairs(rows: Table, title: str) -> alt.LayerChart:
    order = [pair + " *" * bool(p < SURE) for pair, p in zip(rows["pair"], rows["p_adjusted"], strict=True)]
    rows = rows.assign(pair=order)
    ends = {"value": "shuffled", "from": "shuffled_low", "to": "shuffled_high"}
    observed = rows.assign(what=_OBSERVED, value=rows["observed"], **{"from": rows["low"], "to": rows["high"]})
    shuffled = rows.assign(what=_SHUFFLED, **{name: rows[column] for name, column in ends.items()})
    long = pd.concat([observed, shuffled])[["pair", "what", "value", "from", "to", "pairs", "difference", "p_adjusted"]]
    names, legend = [_OBSERVED, _SHUFFLED], alt.Legend(title=None, orient="top", labelLimit=300)
    base = alt.Chart(long, width=420, height=alt.Step(13)).encode(
        y=alt.Y("pair:N", sort=order, title=None, axis=alt.Axis(labelLimit=400)),
        yOffset=alt.YOffset("what:N", sort=names),
        color=alt.Color("what:N", scale=alt.Scale(domain=names, range=list(COLOURS[:2])), legend=legend),
        tooltip=[
            alt.Tooltip("pair:N"),
            alt.Tooltip("what:N"),
            *number_tips("value", "difference", "p_adjusted"),
        ],
    )
    x = alt.X("value:Q", title="share of pairs of targets", scale=alt.Scale(domain=[0, 1]))
    shape = alt.Shape("what:N", scale=alt.Scale(domain=names, range=["circle", "diamond"]), legend=legend)
    spread = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("from:Q", title="share of pairs of targets"), x2=alt.X2("to:Q")
    )
    points = base.mark_point(filled=True, size=60, opacity=1).encode(x=x, shape=shape)
    return alt.LayerChart(layer=[spread, points], title=alt.TitleParams(title, fontSize=12))
