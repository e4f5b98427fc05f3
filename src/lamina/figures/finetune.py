"""The learning curve: the training loss and the scores on the selection set, step by step."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from lamina.figures.theme import COLOURS, INK, themed
from lamina.results import Result
from lamina.training.settings import LOWER_IS_BETTER, best_step, by_seed

CAPTIONS = {
    "learning": (
        "Loss of the training batches and scores on the selection set, by step, one line per seed; dashed lines mark "
        "the steps that were kept. There are no intervals here: the score to quote is the one on the scored texts, "
        "beside its baseline."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 330
_TITLES = {"loss": "Loss", "accuracy": "Accuracy", "f1": "F1", "exact_match": "Exact match"}
_READINGS = {"train": "of the training texts", "select": "on the selection set"}


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The chart `learning`: one panel per metric, one line per seed, the steps that were kept marked."""
    curve = result.tables["curve"]
    if curve.empty:
        return {}
    runs = by_seed(curve)
    best_steps = [best_step(run) for run in runs]
    # Folders of older versions have one seed and do not name it.
    curve = curve if "seed" in curve.columns else curve.assign(seed=0)
    keys = list(dict.fromkeys(zip(curve["split"], curve["metric"], strict=True)))
    last = int(max(curve["step"]))
    panels = []
    for split, metric in keys:
        rows = pd.DataFrame(curve[(curve["split"] == split) & (curve["metric"] == metric)])
        panels.append(_panel(rows, split, metric, best_steps, last))
    model, data = result.provenance.model["name"], result.provenance.corpus["name"]
    title = alt.TitleParams(
        f"{model} learns {result.provenance.parameters['task']} from {data}",
        subtitle=_marked_steps(best_steps),
    )
    chart = alt.concat(*panels, columns=2, spacing=24, title=title, description=describe(curve))
    return {"learning": themed(chart.properties(usermeta={"panelWidth": PANEL_WIDTH}))}


def _marked_steps(steps: Sequence[int]) -> str:
    if len(steps) == 1:
        return f"dashed line: step {steps[0]}, which was kept"
    return f"{len(steps)} seeds; dashed lines: the steps that were kept, {min(steps)} to {max(steps)}"


def describe(curve: pd.DataFrame) -> str:
    """The curve in words: where each measure starts and ends, on average over seeds.

    Example:
        >>> rows = [(10, 1.0, "train", "loss", 2.0), (20, 2.0, "train", "loss", 1.0)]
        >>> describe(pd.DataFrame(rows, columns=["step", "epoch", "split", "metric", "value"]))
        'Loss of the training texts: 2.000 at step 10, 1.000 at step 20.'
    """
    sentences = []
    for split, metric in dict.fromkeys(zip(curve["split"], curve["metric"], strict=True)):
        rows = pd.DataFrame(curve[(curve["split"] == split) & (curve["metric"] == metric)])
        means = rows.groupby("step")["value"].mean()
        ends = dict.fromkeys([means.index[0], means.index[-1]])
        values = ", ".join(f"{means[step]:.3f} at step {step}" for step in ends)
        sentences.append(f"{_TITLES.get(metric, metric)} {_READINGS[split]}: {values}.")
    return " ".join(sentences)


def _panel(rows: pd.DataFrame, split: str, metric: str, best_steps: Sequence[int], last: int) -> alt.LayerChart:
    scale = alt.Scale() if metric in LOWER_IS_BETTER else alt.Scale(domain=[0, 1])
    base = alt.Chart(rows, width=PANEL_WIDTH, height=190).encode(
        x=alt.X("step:Q", title="step", scale=alt.Scale(domain=[0, last], nice=False), axis=alt.Axis(grid=False)),
        y=alt.Y("value:Q", title=_TITLES.get(metric, metric), scale=scale),
        detail=alt.Detail("seed:N"),
    )
    colour = COLOURS[0 if split == "train" else 1]
    tooltip = [
        alt.Tooltip("seed:N"),
        alt.Tooltip("step:Q"),
        alt.Tooltip("epoch:Q", format=".2f"),
        alt.Tooltip("value:Q", format=".4f"),
    ]
    marked = [{"step": step} for step in sorted(set(best_steps))]
    mark = alt.Chart(alt.Data(values=marked)).mark_rule(color=INK, strokeDash=[4, 3]).encode(x=alt.X("step:Q"))
    return alt.LayerChart(
        layer=[
            mark,
            base.mark_line(color=colour, strokeWidth=2),
            base.mark_point(color=colour, filled=True, size=40, opacity=1).encode(tooltip=tooltip),
        ],
        title=alt.TitleParams(_TITLES.get(metric, metric), subtitle=_READINGS[split]),
    )
