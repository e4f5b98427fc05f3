"""Scores on perturbed input: one row per perturbation, one panel per target, beside the unperturbed words."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lamina.analyses.behaviour.perturb.perturbations import HOWS, Perturbation
from lamina.analyses.behaviour.perturb.scores import in_words
from lamina.figures._marks import number_tips
from lamina.figures.theme import COLOURS, FAINT, GREY, INK, SHAPES, Table, themed, title_of
from lamina.results import Result
from lamina.targets.target import LOSS, PAIRS

CAPTIONS = {
    "perturb": (
        "Each target under each perturbation, beside the same words unperturbed and the twin with random weights; "
        "lines: simultaneous 95 % intervals of the difference from the unperturbed words, over all perturbations of a "
        "target, paired by document (pairs: by pair); compare a line with its upright mark (the twin's line is about "
        "its own unperturbed score, which its table has). Of cut texts and of content "
        "or function words alone, only the words that stay are scored, in both. Dashed: what needs no model (every "
        "token equally likely, guessing, the most frequent label, the most frequent label of the word)."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 230
_ROW = 21
_SERIES = ("perturbed", "unperturbed, same words", "twin, perturbed")
_TITLES = {LOSS: "Loss", PAIRS: "Minimal pairs", "qa": "Answers"}
_UNITS = {LOSS: "nats per token (lower is better)", PAIRS: "accuracy", "qa": "F1"}


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The chart `perturb`: one panel per target."""
    table, controls = result.tables["perturb"], result.tables["controls"]
    rows = _rows(table, result.tables.get("twin"))
    labels = list(dict.fromkeys(rows.sort_values(["order", "strength"], kind="stable")["perturbation"]))
    targets = list(dict.fromkeys(table["target"]))
    panels = [
        _panel(rows[rows["target"] == target], controls[controls["target"] == target], target, labels, first=not index)
        for index, target in enumerate(targets)
    ]
    about = result.provenance
    title = alt.TitleParams(
        f"Perturbed input: {about.model['name']} on {_read(result, targets)}",
        subtitle="lines: simultaneous 95 % intervals of the difference from unperturbed",
        offset=10,
    )
    chart = alt.concat(
        *panels,
        columns=len(panels),
        spacing=20,
        title=title,
        description=" ".join(describe(table, target) for target in targets),
        usermeta={"panelWidth": PANEL_WIDTH},
    ).resolve_scale(x="independent")
    return {"perturb": themed(chart)}


def describe(table: Table, target: str) -> str:
    """A panel in words.

    Example:
        >>> rows = [("shuffled", 1.0, "pairs", 0.55, 0.65), ("positions", 16.0, "pairs", 0.64, 0.65)]
        >>> describe(pd.DataFrame(rows, columns=["how", "strength", "target", "value", "baseline"]), "pairs")
        'Minimal pairs (unperturbed 0.65): all words shuffled 0.55, positions shifted by 16 0.64.'
    """
    target_rows = table[table["target"] == target]
    parts = [
        f"{in_words(Perturbation(how, strength))} {value:.2f}"
        for how, strength, value in zip(target_rows["how"], target_rows["strength"], target_rows["value"], strict=True)
    ]
    return f"{_title(target)} (unperturbed {target_rows['baseline'].iloc[0]:.2f}): {', '.join(parts)}."


def _rows(table: Table, twin: Table | None) -> Table:
    """One row per mark: of the model perturbed and unperturbed, and of the twin."""
    columns = ["how", "strength", "target", "value", "difference"]
    parts = [
        _with_lines(table)[[*columns, "low", "high"]].assign(series=_SERIES[0]),
        table[["how", "strength", "target"]].assign(value=table["baseline"], series=_SERIES[1]),
        *([] if twin is None else [_with_lines(twin)[[*columns, "low", "high"]].assign(series=_SERIES[2])]),
    ]
    rows = pd.concat(parts, ignore_index=True)
    perturbations = zip(rows["how"], rows["strength"], strict=True)
    return rows.assign(
        perturbation=[in_words(Perturbation(how, strength)) for how, strength in perturbations],
        order=[HOWS.index(how) for how in rows["how"]],
    )


def _with_lines(table: Table) -> Table:
    """From where to where the perturbed score may differ from the unperturbed one."""
    return table.assign(low=table["baseline"] + table["diff_low"], high=table["baseline"] + table["diff_high"])


def _panel(rows: Table, controls: Table, target: str, labels: list[str], *, first: bool) -> alt.LayerChart:
    axis = alt.Axis(title=None, labelLimit=320, ticks=False, domain=False, grid=True, gridColor=FAINT, labels=first)
    y = alt.Y("perturbation:N", sort=labels, scale=alt.Scale(domain=labels), axis=axis)
    x = alt.X(
        "value:Q", title=_unit(target), scale=alt.Scale(zero=False, nice=True), axis=alt.Axis(tickCount=5, grid=False)
    )
    there = [name for name in _SERIES if (rows["series"] == name).any()]
    looks = {_SERIES[0]: (COLOURS[0], SHAPES[0]), _SERIES[1]: (INK, "stroke"), _SERIES[2]: (COLOURS[1], SHAPES[3])}
    legend = alt.Legend(title=None, orient="top", symbolSize=90, labelLimit=300) if first else None
    colour = alt.Color(
        "series:N", scale=alt.Scale(domain=there, range=[looks[name][0] for name in there]), legend=legend
    )
    # A stroke stands upright: it marks a place, and hides no point.
    upright = {"stroke": "M0,-1L0,1"}
    shapes = [upright.get(looks[name][1], looks[name][1]) for name in there]
    shape = alt.Shape("series:N", scale=alt.Scale(domain=there, range=shapes), legend=legend)
    numbers = number_tips("value", "low", "high", "difference")
    tooltip = [alt.Tooltip("perturbation:N"), alt.Tooltip("series:N"), *numbers]
    layers: list[alt.Chart] = []
    for name in there:
        series_rows = rows[rows["series"] == name]
        # The twin is drawn a little lower, so that no line hides another.
        lower = 6 if name == _SERIES[2] else 0
        base = alt.Chart(series_rows, width=PANEL_WIDTH, height=_ROW * len(labels)).encode(y=y, color=colour)
        if series_rows["low"].notna().any():
            lines = base.mark_rule(strokeWidth=2, opacity=0.6, yOffset=lower)
            layers.append(lines.encode(x=alt.X("low:Q", title=_unit(target)), x2=alt.X2("high:Q")))
        points = base.mark_point(filled=False, strokeWidth=2, size=70, opacity=1, yOffset=lower)
        layers.append(points.encode(x=x, shape=shape, tooltip=tooltip))
    if len(controls):
        dashed = alt.Chart(controls).mark_rule(color=GREY, strokeDash=[5, 4])
        layers.insert(0, dashed.encode(x=x, tooltip=[alt.Tooltip("control:N"), numbers[0]]))
    return alt.LayerChart(layer=layers, title=_title(target))


def _title(target: str) -> str:
    task = target.removeprefix("probe:")
    return _TITLES.get(target, target) if task == target else f"Probe: {title_of(task)}"


def _unit(target: str) -> str:
    return _UNITS.get(target, "accuracy")


def _read(result: Result, targets: list[str]) -> str:
    """The data that is drawn: the corpus, and the suite and the questions where they are asked."""
    corpus = result.provenance.corpus
    names = [corpus["name"]] if any(target not in (PAIRS, "qa") for target in targets) else []
    names += [corpus[part]["name"] for part in ("pairs", "questions") if part in corpus]
    return ", ".join(names)
