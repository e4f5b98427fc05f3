"""The learning curve: the training loss and the scores on the selection set, step by step."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lamina.figures.theme import COLOURS, INK, themed
from lamina.results import Result
from lamina.training.recipes import LOWER_IS_BETTER, best_step

CAPTIONS = {
    "learning": (
        "Loss of the training batches and scores on the selection set, by step; the dashed line marks the step that "
        "was kept. There are no intervals here: the score to quote is the one on the scored texts, beside its "
        "baseline."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 330
_TITLES = {"loss": "Loss", "accuracy": "Accuracy", "f1": "F1", "exact_match": "Exact match"}
_READINGS = {"train": "of the training texts", "select": "on the selection set"}


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The chart `learning`: one panel per metric, the step that was kept marked."""
    curve = result.tables["curve"]
    if curve.empty:
        return {}
    kept = best_step(curve)
    keys = list(dict.fromkeys(zip(curve["split"], curve["metric"], strict=True)))
    last = int(max(curve["step"]))
    panels = []
    for split, metric in keys:
        rows = pd.DataFrame(curve[(curve["split"] == split) & (curve["metric"] == metric)])
        panels.append(_panel(rows, split, metric, kept, last))
    model, data = result.provenance.model["name"], result.provenance.corpus["name"]
    title = alt.TitleParams(
        f"{model} learns {result.provenance.parameters['task']} from {data}",
        subtitle=f"dashed line: step {kept}, which was kept",
    )
    chart = alt.concat(*panels, columns=2, spacing=24, title=title, description=describe(curve))
    return {"learning": themed(chart.properties(usermeta={"panelWidth": PANEL_WIDTH}))}


def describe(curve: pd.DataFrame) -> str:
    """The curve in words: where each measure starts and ends.

    Example:
        >>> rows = [(10, 1.0, "train", "loss", 2.0), (20, 2.0, "train", "loss", 1.0)]
        >>> describe(pd.DataFrame(rows, columns=["step", "epoch", "split", "metric", "value"]))
        'Loss of the training texts: 2.000 at step 10, 1.000 at step 20.'
    """
    sentences = []
    for split, metric in dict.fromkeys(zip(curve["split"], curve["metric"], strict=True)):
        rows = pd.DataFrame(curve[(curve["split"] == split) & (curve["metric"] == metric)])
        ends = rows.sort_values("step").iloc[[0, -1]].drop_duplicates("step")
        said = ", ".join(f"{value:.3f} at step {step}" for step, value in zip(ends["step"], ends["value"], strict=True))
        sentences.append(f"{_TITLES.get(metric, metric)} {_READINGS[split]}: {said}.")
    return " ".join(sentences)


def _panel(rows: pd.DataFrame, split: str, metric: str, kept: int, last: int) -> alt.LayerChart:
    scale = alt.Scale() if metric in LOWER_IS_BETTER else alt.Scale(domain=[0, 1])
    base = alt.Chart(rows, width=PANEL_WIDTH, height=190).encode(
        x=alt.X("step:Q", title="step", scale=alt.Scale(domain=[0, last], nice=False), axis=alt.Axis(grid=False)),
        y=alt.Y("value:Q", title=_TITLES.get(metric, metric), scale=scale),
    )
    colour = COLOURS[0 if split == "train" else 1]
    tooltip = ["step:Q", alt.Tooltip("epoch:Q", format=".2f"), alt.Tooltip("value:Q", format=".4f")]
    mark = alt.Chart(alt.Data(values=[{"step": kept}])).mark_rule(color=INK, strokeDash=[4, 3]).encode(x="step:Q")
    return alt.LayerChart(
        layer=[
            mark,
            base.mark_line(color=colour, strokeWidth=2),
            base.mark_point(color=colour, filled=True, size=40, opacity=1).encode(tooltip=tooltip),
        ],
        title=alt.TitleParams(_TITLES.get(metric, metric), subtitle=_READINGS[split]),
    )
