"""Edge probing drawn: the figures of the pipeline paper, and the curves with all that a score is compared with."""

from __future__ import annotations

import math
from textwrap import wrap

import altair as alt
import numpy as np
import pandas as pd

from lamina.figures._marks import curve, heat_maps, number_tips
from lamina.figures.pipeline import order, pipeline, statistics, weights
from lamina.figures.theme import (
    FEW_SEEDS,
    INK,
    Look,
    Table,
    Tables,
    in_order,
    last_layer,
    layer_axis,
    metric_name,
    metric_of,
    pooled,
    reasons_of,
    rows_of,
    seed_count,
    seeds_name,
    series,
    themed,
    title_of,
    unconverged,
)
from lamina.figures.trace import traces
from lamina.results import Result
from lamina.results.finding import best_in_words, number
from lamina.results.finding import rows_of as each_row
from lamina.stats.status import SURE

CAPTIONS = {
    "pipeline": (
        "One line per task, the earliest on top. The point is the expected layer: the mean layer at which the score "
        "is gained as layers are added; the bar is its interval or range over seeds, as the subtitle says. Compare it "
        "with the random-weights twin (grey tick; none where the twin's own scores do not gain or its probes have not "
        "converged). Which task clearly comes first is in the chart of the order. The box shows the paper's values, "
        "moved to the same share of this model's depth."
    ),
    "statistics": (
        "Tasks by expected layer, the earliest on top. P(0) sees the embeddings alone, P(L) all layers; compare both "
        "with the constant answer. The expected layer says where the score is gained as layers are added, the centre "
        "of gravity which layers the full probe draws on; they need not agree. Lines are intervals or ranges over "
        "seeds, as the subtitle says; the chart of the order shows which tasks clearly come first. Compare the "
        "expected layer with that of the random-weights twin (diamond; none where the twin's own scores do not gain or "
        "its probes have not converged). K(s) and K(D) say how far weights and gains are from being the same at every "
        "layer (0 bits). n/a: the reason is given; numbers of probes that have not converged are not shown."
    ),
    "weights": (
        "Solid: the weights with which the full probe mixes the layers; they sum to 1. Outlined: what layer l adds to "
        "the score of P(l-1), D(l), as a share of the whole gain over P(0); below 0 where the score falls. Lines are "
        "what the subtitle says. K(s) and K(D): how far either is from being the same at every layer (0 bits); in "
        "brackets the 95 % interval, with fewer than 5 seeds the lowest to the highest seed. Layers are "
        "standardised before they are mixed; with --faithful they are not, and weights depend on how long a layer's "
        "vectors are (“Scale of the layers”)."
    ),
    "curves": (
        "Score by layer with 95 % intervals, one panel per task for probes that see one layer and one for probes that "
        "mix all layers up to it; the axis names the task's score. Only what lies above the random-weights twin and "
        "the constant answer is due to training. Where no shading shows, the interval is narrower than the line. A "
        "hollow point is a probe that had not converged when its steps ended: its score may still rise."
    ),
    "heatmap": (
        "Score of each layer alone. Each task is shaded from its lowest score (no shade) to its highest (full shade); "
        "a layer that was not shown to tell more than the random-weights twin and the constant answer, or whose probe "
        "has not converged, is not shaded. Compare shades within a line, and numbers, the scores, across lines. Beside "
        "each line: the highest score with its 95 % interval, the scores of twin and constant answer at that layer, "
        "and the layers that no other was shown to beat."
    ),
    "control": (
        "Can the probe just have memorised? Control labels are drawn at random per word, so that a probe can only "
        "remember them. Curves: score by layer with 95 % intervals, of the task and of its control; compare the "
        "control with its own constant answer, too. Black marks joined by a line: model (circle) and control (square) "
        "on those targets whose words training has seen, at the layer of lowest loss on the texts that decide when to "
        "stop; their difference is the selectivity, and may differ much from that of the curves, which show all "
        "targets. A hollow point is a probe that had not converged when its steps ended."
    ),
    "order": (
        "How many layers later the task of the column is resolved than that of the row. Shaded where the order is "
        "clear: p below .05 for the difference, corrected over all pairs of tasks (max-T, texts and seeds resampled). "
        "n/a: the subtitle says why."
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
_CONTROL_WIDTH = 220
PROBES = {"layer": "layer l alone", "cumulative": "layers 0 to l, mixed"}
_OF = {"random": "random-weights twin", "control": "control labels"}
CONSTANT = "best constant answer"
_CONTROL_CONSTANT = "best constant answer to control labels"


def curves(tables: Tables, title: str) -> alt.ConcatChart | None:
    """Scores of single-layer and of cumulative probes by layer; twin and constant answer beside them."""
    scores = pooled(tables)
    if scores is None:
        return None
    last = last_layer(tables)
    # A control is scored by another metric than most tasks, and has a chart of its own.
    rows = _rows(tables, scores[scores["of"] != "control"], last)
    names = list(dict.fromkeys(sorted(rows["model"], key=_rank)))
    metric = metric_of(tables)
    panels = []
    for task in in_order(tables):
        task_rows = rows[rows["task"] == task]
        for probe in PROBES:
            panel_rows = task_rows[task_rows["probe"] == probe]
            if not panel_rows.empty:
                heading = alt.TitleParams(title_of(task), subtitle=PROBES[probe])
                panels.append(
                    alt.LayerChart(layer=_lines(panel_rows, series(names), last, metric[task]), title=heading)
                )
    if not panels:
        return None
    both = len(set(scores["probe"]) & set(PROBES)) > 1
    subtitle = [f"shaded: 95 % bootstrap interval over {_resampled(tables)}", *_hollow(rows)]
    what = "Score" if len(set(metric.values())) > 1 else next(iter(metric.values()))
    return alt.concat(
        *panels,
        columns=2 if both or len(panels) > 1 else 1,
        spacing=24,
        title=alt.TitleParams(f"{what} by layer: {title}", subtitle=subtitle),
        description=_curves_in_words(rows, names, metric),
        # A task's two panels stay beside each other.
        usermeta={"panelWidth": PANEL_WIDTH, "together": 2 if both else 1},
    )


def heatmap(tables: Tables, title: str) -> alt.ConcatChart | None:
    """Tasks by layers, each layer alone; what the best score is compared with beside it."""
    scores = pooled(tables)
    if scores is None:
        return None
    single = scores[(scores["probe"] == "layer") & (scores["of"] == "model")].dropna(subset="value")
    if single["task"].nunique() < 2 or single["layer"].nunique() < 2:
        return None
    metric = metric_of(tables)
    rows = [
        _shaded(tables, scores, task_rows, metric[str(task)]) for task, task_rows in single.groupby("task", sort=False)
    ]
    return heat_maps(
        pd.concat(rows),
        list(dict.fromkeys(single["model"])),
        f"Where each task is read best: {title}",
        "each task from its lowest score to its highest; no shade: not shown to beat the baselines; numbers: scores",
    )


def _shaded(tables: Tables, scores: Table, rows: Table, metric: str) -> Table:
    """The layers of one task from the lowest score (0) to the highest (1), and the highest one in words."""
    low, high = rows["value"].min(), rows["value"].max()
    best = rows.iloc[rows["value"].argmax()]
    beside = scores[(scores["task"] == best["task"]) & (scores["of"] != "control")]
    # At the same layer, as the tables beside it show them.
    twin = beside[(beside["of"] == "random") & (beside["probe"] == "layer") & (beside["layer"] == best["layer"])]
    constant = beside[beside["probe"] == "constant"]["value"].max()
    notes = [f"{metric} {number(best['value'], best['low'], best['high'])} at {best['layer']}"]
    both = (("twin", twin["value"].max()), ("constant", constant))
    notes += [f"{name} {number(value)}" for name, value in both if pd.notna(value)]
    notes += _among_best(tables, str(best["task"]))
    normalised = (rows["value"] - low) / (high - low) if high > low else rows["value"] * 0.0
    above = rows["layer"].isin(_established(tables, str(best["task"]), rows))
    return rows.assign(normalised=normalised.where(above, 0.0), beside="; ".join(notes))


def _established(tables: Tables, task: str, scores: Table) -> set[int]:
    """Layers shown to tell more of a task than every baseline; of older results, all."""
    rows = rows_of(tables, "readings")
    if rows is None:
        return set(scores["layer"].astype(int))
    rows = rows[(rows["task"] == task) & (rows["probe"] == "layer")]
    above = (rows["p_adjusted"] < SURE) & (rows["difference"] > 0)
    return {int(layer) for layer, every in above.groupby(rows["layer"]).all().items() if every}  # pyright: ignore


def _among_best(tables: Tables, task: str) -> list[str]:
    layers = rows_of(tables, "best_layers")
    if layers is None:
        return []
    layers = layers[layers["task"] == task]
    among = layers["among_best"].astype(bool).tolist()
    best = best_in_words(layers["layer"].astype(int).tolist(), among)
    return [f"best: {best}"] if best else ["no layer shown to be best"] if any(among) else []


def control(tables: Tables, title: str) -> alt.ConcatChart | None:
    """Model and control labels by layer, by the metric in which a control means something, and selectivity."""
    controls = rows_of(tables, "control")
    if controls is None:
        return None
    by_task = controls.dropna(subset="metric").set_index("task")
    scores = pooled(tables, {str(task): str(metric) for task, metric in by_task["metric"].items()})
    if scores is None:
        return None
    single = scores[(scores["probe"] == "layer") & scores["of"].isin(["model", "control"])]
    # Of the few targets that training has seen, the interval of a constant would cover the curves.
    constant = scores[(scores["probe"] == "constant") & (scores["of"] == "control")].assign(low=np.nan, high=np.nan)
    last = last_layer(tables)
    rows = _rows(tables, pd.concat([single, constant]), last, constant=_CONTROL_CONSTANT)
    # The order of tasks is the other charts'; those without a control have no panel.
    tasks = [task for task in in_order(tables) if (single[single["task"] == task]["of"] == "control").any()]
    if not tasks:
        return None
    names = list(dict.fromkeys(sorted(rows["model"], key=_rank)))
    selectivities = {task: _selectivity(tables, task, float(by_task["share_seen"][task])) for task in tasks}
    panels = []
    for task in tasks:
        panel_rows = rows[(rows["task"] == task) & (rows["probe"] == "layer")]
        lines = _lines(panel_rows, series(names), last, metric_name(str(by_task["metric"][task])), width=_CONTROL_WIDTH)
        heading = alt.TitleParams(title_of(task), subtitle=wrap(selectivities[task], 40))
        panels.append(alt.LayerChart(layer=[*lines, *_gap(tables, task, last)], title=heading))
    return alt.concat(
        *panels,
        columns=3,
        spacing=24,
        title=alt.TitleParams(
            f"Read or memorised: {title}",
            subtitle=[f"shaded: 95 % bootstrap interval over {_resampled(tables)}", *_hollow(rows)],
        ),
        description=" ".join(f"{title_of(task)}: {selectivity}." for task, selectivity in selectivities.items()),
        usermeta={"panelWidth": _CONTROL_WIDTH},
    )


def _rows(tables: Tables, scores: Table, last: int, constant: str = CONSTANT) -> Table:
    """Scores under the names of their series; the constant answer, which has no layer, spans them all."""
    constants = scores[scores["probe"] == "constant"]
    spread = [
        constants.assign(probe=probe, layer=layer, model=constant, converged=True)
        for probe in PROBES
        if probe in set(scores["probe"])
        for layer in sorted({0, last})
    ]
    probed = scores[scores["probe"].isin(list(PROBES))]
    named = [_OF.get(of, model) for of, model in zip(probed["of"], probed["model"], strict=True)]
    cut_off = unconverged(tables)
    where = zip(*(probed[name] for name in ("task", "of", "probe", "layer")), strict=True)
    probed = probed.assign(
        model=pd.Series(named, index=probed.index, dtype=object),
        converged=pd.Series([place not in cut_off for place in where], index=probed.index, dtype=bool),
    )
    rows = pd.concat([probed, *spread], ignore_index=True)
    return rows[["task", "probe", "model", "layer", "count", "value", "low", "high", "converged"]]


def _rank(name: str) -> int:
    """The model first, then what it is compared with."""
    beside = [*_OF.values(), CONSTANT, _CONTROL_CONSTANT]
    return beside.index(name) + 1 if name in beside else 0


def _lines(rows: Table, look: Look, last: int, metric: str, width: int = PANEL_WIDTH) -> list[alt.Chart]:
    base = alt.Chart(rows, width=width, height=190).encode(x=layer_axis(last), color=look.colour)
    # R2 falls below 0 where predictions are worse than the mean.
    lowest = min(0.0, math.floor(rows[["value", "low"]].min().min() * 10) / 10) if metric == "R2" else 0
    value = alt.Y("value:Q", title=metric, scale=alt.Scale(domain=[lowest, 1]), axis=alt.Axis(tickCount=5))
    numbers = number_tips()
    tooltip = [
        alt.Tooltip("model:N"),
        alt.Tooltip("layer:Q"),
        *numbers,
        alt.Tooltip("count:Q", title="targets", format=","),
        alt.Tooltip("converged:N"),
    ]
    layers = curve(base, look, value, alt.Y("low:Q", title=metric), tooltip)
    if not rows["converged"].all():
        # White in the middle of a point makes it hollow, and leaves the legend as it is.
        pale = alt.Chart(rows).transform_filter("!datum.converged").mark_point(filled=True, size=14, color="white")
        layers.append(pale.encode(x=layer_axis(last), y=value, opacity=alt.value(1), tooltip=tooltip))
    return layers


def _gap(tables: Tables, task: str, last: int) -> list[alt.Chart]:
    """Selectivity: the way from the control up to the model; none where it is not available."""
    controls = tables["control"]
    rows = controls.loc[controls["task"] == task, ["layer", "model", "control"]].dropna()
    if rows.empty or task in reasons_of(tables, "selectivity"):
        return []
    base = alt.Chart(rows).encode(
        x=layer_axis(last),
        tooltip=[alt.Tooltip("layer:Q"), *number_tips("model", "control")],
    )
    ends = [
        base.mark_point(shape=shape, size=60, color=INK, filled=True, opacity=1).encode(y=alt.Y(f"{of}:Q"))
        for of, shape in (("model", "circle"), ("control", "square"))
    ]
    return [base.mark_rule(color=INK, strokeWidth=2).encode(y=alt.Y("control:Q"), y2=alt.Y2("model:Q")), *ends]


def _selectivity(tables: Tables, task: str, share: float) -> str:
    summary = rows_of(tables, "summary")
    (row,) = each_row(summary[summary["task"] == task]) if summary is not None else (None,)
    seen = f"{share:.0%} of targets seen in training"
    if row is None or row.selectivity != row.selectivity:
        reason = reasons_of(tables, "selectivity").get(task)
        return f"selectivity n/a: {reason}" if reason else "selectivity n/a"
    selectivity = number(row.selectivity, row.selectivity_low, row.selectivity_high)
    return f"selectivity {selectivity} at layer {int(row.selectivity_layer)}; {seen}"


def _resampled(tables: Tables) -> str:
    seeds, name = seed_count(tables), seeds_name(tables)
    few = f"documents, for the mean of {seeds} {name}s" if seeds > 1 else "documents, for one seed"
    return few if seeds < FEW_SEEDS else f"documents and {seeds} {name}s together"


def _hollow(rows: Table) -> list[str]:
    """What hollow points are, where there are any."""
    number_of = int((~rows["converged"]).sum())
    return [f"hollow points ({number_of}): the probe had not converged when its steps ended"] if number_of else []


def _curves_in_words(rows: Table, names: list[str], metric: dict[str, str]) -> str:
    """The highest score of each series, task by task."""
    sentences = []
    for (task, probe), group in rows.dropna(subset="value").groupby(["task", "probe"], sort=False):
        parts = []
        for name in names:
            series_rows = group[group["model"] == name]
            if len(series_rows):
                top = series_rows.iloc[series_rows["value"].argmax()]
                where = "" if name == CONSTANT else f" at layer {top['layer']}"
                open_still = "" if series_rows["converged"].all() else " (not all probes had converged)"
                parts.append(f"{name} {top['value']:.2f}{where}{open_still}")
        sentences.append(
            f"{title_of(str(task))}, {PROBES[str(probe)]}, highest {metric[str(task)]}: {'; '.join(parts)}."
        )
    return " ".join(sentences)


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """Of `pipeline`, `statistics`, `weights`, `curves`, `heatmap`, `control`, `order`, `traces`: what probes allow."""
    corpus = result.provenance.corpus
    split = f" ({corpus['split']})" if corpus.get("split") else ""
    title = f"{result.provenance.model['name']} on {corpus['name']}{split}"
    charts = {
        "pipeline": pipeline(result.tables, title),
        "statistics": statistics(result.tables, title),
        "weights": weights(result.tables, title),
        "curves": curves(result.tables, title),
        "heatmap": heatmap(result.tables, title),
        "control": control(result.tables, title),
        "order": order(result.tables, title),
        "traces": traces(result.tables, title),
    }
    return {name: themed(chart) for name, chart in charts.items() if chart is not None}
