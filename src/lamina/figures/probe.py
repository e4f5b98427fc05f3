"""Edge probing drawn: the figures of the pipeline paper, and the curves with all that a score is compared with."""

from __future__ import annotations

import math
from typing import NamedTuple

import altair as alt
import pandas as pd

from lamina.analyses.findings import rows_of as each_row
from lamina.figures.theme import (
    COLOURS,
    FAINT,
    FEW_SEEDS,
    INK,
    Table,
    Tables,
    in_order,
    last_layer,
    layer_axis,
    pooled,
    rows_of,
    seed_count,
    series,
    themed,
    title_of,
)
from lamina.figures.trace import traces
from lamina.results import Result

CAPTIONS = {
    "pipeline": (
        "Tasks by expected layer, the earliest on top. P(0) sees the embeddings alone, P(L) all layers; compare both "
        "with the constant answer. The expected layer says where the score is gained as layers are added, the centre "
        "of gravity which layers the full probe draws on; they need not agree. Lines are intervals or ranges over "
        "seeds, as the subtitle says. n/a: the gain over P(0) cannot be told from 0, or its probes were not run."
    ),
    "weights": (
        "Solid: the weights with which the full probe mixes the layers; they sum to 1. Outlined: what layer l adds to "
        "the score of P(l-1), as a share of the whole gain over P(0); below 0 where the score falls. Lines: lowest to "
        "highest seed. Compare the weights with “Scale of the layers”: they depend on how long a layer's vectors are."
    ),
    "curves": (
        "F1 by layer with 95 % intervals, one panel per task for probes that see one layer and one for probes that mix "
        "all layers up to it. Only what lies above the random-weights twin and the constant answer is due to training; "
        "a probe that does as well on control labels memorises. Where no shading shows, the interval is narrower than "
        "the line."
    ),
    "order": (
        "Probability that the task of the row comes before the task of the column, over resampled seeds and texts: "
        "near 1 or 0 the order is clear, near 0.5 it is open. Few seeds make the centre of gravity look surer than it "
        "is."
    ),
    "traces": (
        "Each sentence with some of its targets in brackets; below, from the embeddings to the last layer, the "
        "probability of a label under the probe that sees layers 0 to l. Two rival labels that sum to more than 1 are "
        "divided by their sum; the table has the probabilities as they are. The sentences are those with more than one "
        "target that the probes are unsure of: the mean probability of the best label over layers is at most 0.7."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 330
PROBES = {"layer": "layer l alone", "cumulative": "layers 0 to l, mixed"}
_OF = {"random": "random-weights twin", "control": "control labels"}
CONSTANT = "best constant answer"


def curves(tables: Tables, title: str) -> alt.ConcatChart | None:
    """F1 of single-layer and of cumulative probes by layer; twin, control and constant answer beside them."""
    scores = pooled(tables)
    if scores is None:
        return None
    last = last_layer(tables)
    rows = _rows(scores, last)
    names = list(dict.fromkeys(sorted(rows["model"], key=_rank)))
    panels = []
    for task in in_order(tables):
        own = rows[rows["task"] == task]
        for probe in PROBES:
            shown = own[own["probe"] == probe]
            if not shown.empty:
                panels.append(_curve_panel(title_of(task), probe, shown, names, last))
    if not panels:
        return None
    both = len(set(scores["probe"]) & set(PROBES)) > 1
    seeds = seed_count(tables)
    over = f"sentences and {seeds} seeds together" if seeds > 1 else "sentences, for one seed"
    said = alt.TitleParams(f"F1 by layer: {title}", subtitle=f"shaded: 95 % bootstrap interval over {over}")
    return alt.concat(
        *panels,
        columns=2 if both or len(panels) > 1 else 1,
        spacing=24,
        title=said,
        description=_curves_in_words(rows, names),
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def _rows(scores: Table, last: int) -> Table:
    """Scores under the names of their series; the constant answer, which has no layer, spans them all."""
    constant = scores[scores["probe"] == "constant"]
    spread = [
        constant.assign(probe=probe, layer=layer, model=CONSTANT)
        for probe in PROBES
        if probe in set(scores["probe"])
        for layer in sorted({0, last})
    ]
    probed = scores[scores["probe"].isin(list(PROBES))]
    named = [_OF.get(of, model) for of, model in zip(probed["of"], probed["model"], strict=True)]
    rows = pd.concat([probed.assign(model=pd.Series(named, index=probed.index)), *spread], ignore_index=True)
    return rows[["task", "probe", "model", "layer", "count", "value", "low", "high"]]


def _rank(name: str) -> int:
    """The model first, then what it is compared with."""
    beside = [*_OF.values(), CONSTANT]
    return beside.index(name) + 1 if name in beside else 0


def _curve_panel(title: str, probe: str, rows: Table, names: list[str], last: int) -> alt.LayerChart:
    look = series(names)
    base = alt.Chart(rows, width=PANEL_WIDTH, height=190).encode(x=layer_axis(last), color=look.colour)
    value = alt.Y("value:Q", title="F1", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5))
    numbers = (alt.Tooltip(f"{number}:Q", format=".3f") for number in ("value", "low", "high"))
    tooltip = ["model:N", "layer:Q", *numbers, alt.Tooltip("count:Q", title="targets", format=",")]
    return alt.LayerChart(
        layer=[
            base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q", title="F1"), y2="high:Q"),
            base.mark_line(strokeWidth=2).encode(y=value, strokeDash=look.dash),
            base.mark_point(filled=True, size=50, opacity=1).encode(y=value, shape=look.shape, tooltip=tooltip),
        ],
        title=alt.TitleParams(title, subtitle=PROBES[probe]),
    )


def _curves_in_words(rows: Table, names: list[str]) -> str:
    """The best layer of each series, task by task."""
    sentences = []
    for (task, probe), group in rows.dropna(subset="value").groupby(["task", "probe"], sort=False):
        parts = []
        for name in names:
            own = group[group["model"] == name]
            if len(own):
                top = own.iloc[own["value"].argmax()]
                where = "" if name == CONSTANT else f" at layer {top['layer']}"
                parts.append(f"{name} {top['value']:.2f}{where}")
        sentences.append(f"{title_of(str(task))}, {PROBES[str(probe)]}, best F1: {'; '.join(parts)}.")
    return " ".join(sentences)


WEIGHT_WIDTH = 220
MIXING, DIFFERENTIAL = "mixing weight", "differential score, normalised"


def weights(tables: Tables, title: str) -> alt.ConcatChart | None:
    """Each task's mixing weights (solid) and normalised differential scores (outlined) by layer."""
    parts = [part for part in (mixing_rows(tables), differential_rows(tables)) if not part.empty]
    if not parts:
        return None
    rows = pd.concat(parts, ignore_index=True)
    last = last_layer(tables)
    domain = [min(0.0, math.floor(rows[["value", "low"]].min().min() * 10) / 10), _top(rows)]
    tasks = [task for task in in_order(tables) if task in set(rows["task"])]
    panels: list[alt.LayerChart] = [_weight_panel(rows[rows["task"] == task], last, domain) for task in tasks]
    norms = _norms(tables, last)
    subtitle = ["lines on solid bars: lowest to highest seed"] if seed_count(tables) > 1 else []
    return alt.concat(
        *panels,
        *norms,
        columns=3,
        spacing=24,
        title=alt.TitleParams(f"What is mixed and what each layer adds: {title}", subtitle=subtitle),
        description=_weights_in_words(rows, tasks),
        usermeta={"panelWidth": WEIGHT_WIDTH},
    )


def mixing_rows(tables: Tables) -> Table:
    """Weights of the probes that mix all layers: their mean over seeds, and the lowest and the highest."""
    mixing = rows_of(tables, "mixing")
    if mixing is None:
        return pd.DataFrame()
    full = mixing[mixing["upto"] == mixing["upto"].max()]
    found = full.groupby(["task", "layer"], sort=False)["weight"].agg(["mean", "min", "max"]).reset_index()
    found.columns = ["task", "layer", "value", "low", "high"]
    return found.assign(kind=MIXING)


def differential_rows(tables: Tables) -> Table:
    """D(l) / (best score - F1(P(0))); none for a task whose gain cannot be told from 0."""
    scores, summary = pooled(tables), rows_of(tables, "summary")
    if scores is None or summary is None:
        return pd.DataFrame()
    told = set(summary.loc[summary["expected_layer"].notna(), "task"])
    own = scores[(scores["probe"] == "cumulative") & (scores["of"] == "model") & scores["task"].isin(told)]
    parts = []
    for task, group in own.groupby("task", sort=False):
        by_layer = group.set_index("layer")["value"].sort_index()
        gain = by_layer.max() - by_layer.iloc[0]
        if len(by_layer) > 1 and gain > 0:
            steps = (by_layer.diff() / gain).iloc[1:]
            parts.append(pd.DataFrame({"task": task, "layer": steps.index, "value": steps.to_numpy()}))
    if not parts:
        return pd.DataFrame()
    return pd.concat(parts, ignore_index=True).assign(low=float("nan"), high=float("nan"), kind=DIFFERENTIAL)


def _top(rows: Table) -> float:
    return math.ceil(rows[["value", "high"]].max().max() * 10) / 10


def _weight_panel(rows: Table, last: int, domain: list[float]) -> alt.LayerChart:
    step = WEIGHT_WIDTH / (last + 2)
    kinds = [MIXING, DIFFERENTIAL]
    legend = alt.Legend(title=None, orient="top", symbolType="square", symbolSize=140, labelLimit=400)
    fill = alt.Fill("kind:N", scale=alt.Scale(domain=kinds, range=[COLOURS[0], "transparent"]), legend=legend)
    stroke = alt.Stroke("kind:N", scale=alt.Scale(domain=kinds, range=list(COLOURS[:2])), legend=legend)
    base = alt.Chart(rows, width=WEIGHT_WIDTH, height=150).encode(
        x=layer_axis(last, padding=step / 2 + 2),
        y=alt.Y("value:Q", title="share", scale=alt.Scale(domain=domain, nice=False), axis=alt.Axis(tickCount=5)),
        tooltip=["layer:Q", "kind:N", *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("value", "low", "high"))],
    )
    # The solid bar is the narrower one: neither hides the other.
    solid = base.transform_filter(f"datum.kind == '{MIXING}'")
    outlined = base.transform_filter(f"datum.kind == '{DIFFERENTIAL}'")
    return alt.LayerChart(
        layer=[
            solid.mark_bar(size=step * 0.45, strokeWidth=0).encode(fill=fill, stroke=stroke),
            outlined.mark_bar(size=step * 0.8, strokeWidth=1.5).encode(fill=fill, stroke=stroke),
            solid.mark_rule(color=INK).encode(y="low:Q", y2="high:Q"),
            alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(color=INK).encode(y="zero:Q"),
        ],
        title=alt.TitleParams(title_of(str(rows["task"].iloc[0])), subtitle=_missing(rows)),
    )


def _missing(rows: Table) -> str:
    if DIFFERENTIAL not in set(rows["kind"]):
        return "differential scores not available"
    return "" if MIXING in set(rows["kind"]) else "mixing weights not available"


def _norms(tables: Tables, last: int) -> list[alt.LayerChart]:
    """Weights are confounded with the layers' scales, so the scales are shown with them."""
    mixing = rows_of(tables, "mixing")
    if mixing is None or mixing["norm"].isna().all():
        return []
    rows = mixing.dropna(subset="norm").drop_duplicates("layer")[["layer", "norm"]]
    step = WEIGHT_WIDTH / (last + 2)
    bars = (
        alt.Chart(rows, width=WEIGHT_WIDTH, height=150)
        .mark_bar(size=step * 0.8, color="#888888")
        .encode(
            x=layer_axis(last, padding=step / 2 + 2),
            y=alt.Y("norm:Q", title="mean length", axis=alt.Axis(tickCount=5)),
            tooltip=["layer:Q", alt.Tooltip("norm:Q", format=".2f")],
        )
    )
    return [alt.LayerChart(layer=[bars], title=alt.TitleParams("Scale of the layers", subtitle="length of a vector"))]


def _weights_in_words(rows: Table, tasks: list[str]) -> str:
    """Where each task's weights and gains are largest."""
    sentences = []
    for task in tasks:
        parts = []
        for kind in (MIXING, DIFFERENTIAL):
            own = rows[(rows["task"] == task) & (rows["kind"] == kind)]
            if len(own):
                top = own.iloc[own["value"].argmax()]
                parts.append(f"largest {kind} {top['value']:.2f} at layer {int(top['layer'])}")
        sentences.append(f"{title_of(task)}: {', '.join(parts)}.")
    return " ".join(sentences)


ROW = 46
"""Height of one task."""


class Statistic(NamedTuple):
    """One of the two numbers that place a task, with its columns in the summary."""

    name: str
    value: str
    low: str
    high: str


GRAVITY = Statistic("centre of gravity", "center_of_gravity", "cog_low", "cog_high")
EXPECTED = Statistic("expected layer", "expected_layer", "el_low", "el_high")


def pipeline(tables: Tables, title: str) -> alt.ConcatChart | None:
    """Each task's F1 at the first and the full probe, and its two places on the layer axis (the paper's figure 1)."""
    summary = rows_of(tables, "summary")
    if summary is None or summary[[GRAVITY.value, EXPECTED.value]].isna().all(axis=None):
        return None
    tasks = in_order(tables)
    names = [title_of(task) for task in tasks]
    places = _places(summary)
    bars = _bars(places, names, last_layer(tables))
    said = alt.TitleParams(f"Where tasks are resolved: {title}", subtitle=_spread(seed_count(tables)))
    return alt.concat(
        _f1(summary, tables, names),
        bars,
        columns=2,
        spacing=12,
        title=said,
        description=_pipeline_in_words(summary, tasks),
    )


def order(tables: Tables, title: str) -> alt.ConcatChart | None:
    """For each pair of tasks, how likely one comes before the other."""
    table = rows_of(tables, "order")
    if table is None or table["probability"].isna().all():
        return None
    names = [title_of(task) for task in in_order(tables)]
    turned = table.rename(columns={"task_a": "task_b", "task_b": "task_a"})
    turned["probability"] = 1 - turned["probability"]
    # Both directions of each pair, whichever the table has.
    both = pd.concat([table, turned]).drop_duplicates(["task_a", "task_b", "statistic"])
    rows = both.assign(
        first=both["task_a"].map(title_of),
        second=both["task_b"].map(title_of),
        said=[_number(value, ".2f") for value in both["probability"]],
    )
    panels = [_matrix(str(statistic), group, names) for statistic, group in rows.groupby("statistic")]
    subtitle = "probability that the row's task comes before the column's"
    said = alt.TitleParams(f"Which task comes first: {title}", subtitle=subtitle, offset=24)
    return alt.concat(*panels, columns=2, spacing=30, title=said, description=_order_in_words(rows))


def _places(summary: Table) -> Table:
    """One row per task and statistic; missing numbers stay, and are shown as n/a."""
    parts = []
    for each in (GRAVITY, EXPECTED):
        part = pd.DataFrame(
            {
                "task": summary["task"].map(title_of),
                "statistic": each.name,
                "layer": summary[each.value],
                "low": summary[each.low],
                "high": summary[each.high],
            }
        )
        parts.append(part)
    places = pd.concat(parts, ignore_index=True)
    places["said"] = [_number(value, ".2f") for value in places["layer"]]
    places["end"] = places[["layer", "high"]].max(axis=1).fillna(0.0)
    places["zero"] = 0
    return places


def _bars(places: Table, names: list[str], last: int) -> alt.LayerChart:
    kinds = [GRAVITY.name, EXPECTED.name]
    lowest, highest = places[["layer", "low"]].min().min(), places[["layer", "high"]].max().max()
    # The number at a bar's end needs room to its right.
    domain = (min(0.0, lowest), max(float(last), highest) * 1.08)
    x = layer_axis(last, padding=0, domain=domain)
    legend = alt.Legend(title=None, orient="top", symbolType="square", symbolSize=140, symbolStrokeWidth=2)
    fill = alt.Fill("statistic:N", scale=alt.Scale(domain=kinds, range=[COLOURS[0], "#ffffff"]), legend=legend)
    stroke = alt.Stroke("statistic:N", scale=alt.Scale(domain=kinds, range=list(COLOURS[:2])), legend=legend)
    tooltip = ["task:N", "statistic:N", *(alt.Tooltip(f"{name}:Q", format=".2f") for name in ("layer", "low", "high"))]
    base = alt.Chart(places, width=420, height=ROW * len(names)).encode(
        y=alt.Y("task:N", sort=names, axis=None), yOffset=alt.YOffset("statistic:N", sort=kinds)
    )
    spread = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
    return alt.LayerChart(
        layer=[
            base.mark_bar(strokeWidth=2).encode(x=x, x2="zero:Q", fill=fill, stroke=stroke, tooltip=tooltip),
            spread.mark_rule(color=INK, strokeWidth=1.5).encode(x=alt.X("low:Q"), x2="high:Q"),
            base.mark_text(align="left", dx=6, fontSize=12, color=INK).encode(x=alt.X("end:Q"), text="said:N"),
        ]
    )


def _f1(summary: Table, tables: Tables, names: list[str]) -> alt.Chart:
    """The scores as columns of numbers, each task on the line of its bars."""
    rows = [
        {"task": title_of(task), "probe": probe, "said": _number(value, ".3f")}
        for task, first, full in zip(summary["task"], summary["f1_first"], summary["f1_full"], strict=True)
        for probe, value in (("constant", _constant(tables, task)), ("P(0)", first), ("P(L)", full))
    ]
    return (
        alt.Chart(pd.DataFrame(rows), width=160, height=ROW * len(names), title="F1")
        .mark_text(fontSize=12, color=INK)
        .encode(
            x=alt.X(
                "probe:N",
                sort=["constant", "P(0)", "P(L)"],
                title=None,
                axis=alt.Axis(orient="top", labelAngle=0, ticks=False, domain=False),
            ),
            y=alt.Y("task:N", sort=names, title=None, axis=alt.Axis(ticks=False, domain=False, labelLimit=240)),
            text="said:N",
        )
    )


def _constant(tables: Tables, task: str) -> float:
    scores = pooled(tables)
    if scores is None:
        return float("nan")
    found = scores.loc[(scores["task"] == task) & (scores["probe"] == "constant"), "value"]
    return float(found.iloc[0]) if len(found) else float("nan")


def _matrix(statistic: str, rows: Table, names: list[str]) -> alt.LayerChart:
    size = 56 * len(names)
    base = alt.Chart(rows, width=size, height=size).encode(
        x=alt.X("second:N", sort=names, title="... before this task", axis=alt.Axis(labelAngle=-35, labelLimit=240)),
        y=alt.Y("first:N", sort=names, title="this task ...", axis=alt.Axis(labelLimit=240)),
    )
    told = base.transform_filter("isValid(datum.probability)")
    # From orange (later) over white (no telling) to blue (earlier); the number says the same.
    scale = alt.Scale(domain=[0, 0.5, 1], range=[COLOURS[1], "#ffffff", COLOURS[0]], interpolate="rgb")
    colour = alt.Color("probability:Q", scale=scale, legend=None)
    ink = alt.when("datum.probability > 0.85").then(alt.value("#ffffff")).otherwise(alt.value(INK))
    tooltip = ["first:N", "second:N", alt.Tooltip("probability:Q", format=".3f")]
    return alt.LayerChart(
        layer=[
            told.mark_rect(stroke=FAINT).encode(color=colour, tooltip=tooltip),
            base.mark_text(fontSize=12).encode(text="said:N", color=ink),
        ],
        title=alt.TitleParams(statistic.replace("_", " ").replace("center", "centre"), dy=-8),
    )


def _spread(seeds: int) -> list[str]:
    """What the lines are: resampling sentences cannot move the centre of gravity, so few seeds make no interval."""
    if seeds >= FEW_SEEDS:
        return [f"lines: 95 % interval, over {seeds} seeds and, for the expected layer, sentences too"]
    ranged = f"lowest to highest of {seeds} seeds, which is no interval" if seeds > 1 else "none, there is one seed"
    return [
        f"lines, centre of gravity: {ranged}",
        f"lines, expected layer: 95 % bootstrap interval over sentences and {seeds} seed{'s' * (seeds > 1)}",
    ]


def _number(value: float, form: str) -> str:
    return "n/a" if value != value else format(value, form)


def _pipeline_in_words(summary: Table, tasks: list[str]) -> str:
    """The figure for those who cannot see it."""
    by_task = {row.task: row for row in each_row(summary)}
    sentences = []
    for task in tasks:
        row = by_task[task]
        sentences.append(
            f"{title_of(task)}: F1 {_number(row.f1_first, '.2f')} at the first layer and "
            f"{_number(row.f1_full, '.2f')} with all, expected layer {_number(row.expected_layer, '.2f')}, "
            f"centre of gravity {_number(row.center_of_gravity, '.2f')}."
        )
    return " ".join(sentences)


def _order_in_words(rows: Table) -> str:
    likely = rows[rows["probability"] > 0.5]
    parts = [
        f"{first} before {second} by {statistic.replace('_', ' ')}: {said}"
        for first, second, statistic, said in likely[["first", "second", "statistic", "said"]].itertuples(index=False)
    ]
    return "Probabilities of order. " + "; ".join(parts) + "."


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `pipeline`, `weights`, `curves`, `order` and `traces`: those that the probes of the run allow."""
    corpus = result.provenance.corpus
    split = f" ({corpus['split']})" if corpus.get("split") else ""
    title = f"{result.provenance.model['name']} on {corpus['name']}{split}"
    made = {
        "pipeline": pipeline(result.tables, title),
        "weights": weights(result.tables, title),
        "curves": curves(result.tables, title),
        "order": order(result.tables, title),
        "traces": traces(result.tables, title),
    }
    return {name: themed(chart) for name, chart in made.items() if chart is not None}
