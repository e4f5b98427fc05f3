"""The phases of question answering over a data set: roles, clusters and answers from layer to layer."""

from __future__ import annotations

import math
from typing import NamedTuple

import altair as alt
import pandas as pd

from lamina.analyses.answering.failure import ADDED_OVER_TWIN, OVER_TWIN, TOGETHER
from lamina.analyses.answering.streaming import ADJUSTED, PSEUDO, TWIN
from lamina.corpora.questions.babi import TASK_TITLES
from lamina.figures._marks import interval_band, interval_line, number_tips
from lamina.figures.theme import COLOURS, FEW_SEEDS, GREY, INK, Table, layer_axis, rows_of, series, themed
from lamina.results import Result
from lamina.results.finding import rows_of as each_row
from lamina.stats.status import SURE

CAPTIONS = {
    "tasks": (
        "How many questions of each task are answered correctly, with the 95 % interval of a share, on stories "
        "that the model has not seen; grey ticks: always giving the task's most frequent answer."
    ),
    "roles": (
        "Means over questions, by layer, of how alike the tokens of words of the same or of different roles are "
        "(cosine minus the layer's anisotropy), how far the answer lies from all other words, and how well clusters "
        "agree with sentences, roles and entity types; bands are 95 % intervals over documents. Compare with pseudo "
        "roles (another sentence of the context as support, another span of the same length as answer, labels moved "
        "along by some words) and with the random-weights twin, best in the paired differences."
    ),
    "differences": (
        "The model minus pseudo roles and minus its random-weights twin, question by question, by layer; bands are "
        "95 % intervals over documents, simultaneous over the layers of a measure and both nulls. Where a band holds "
        "0, nothing was shown."
    ),
    "answers": (
        "Right and wrong answers to questions of one task, by layer; right ones weighed as the wrong ones they are "
        "matched with (question word, length of answer). Bands are 95 % intervals over documents, wide where a task "
        "has few answers of a kind; whether right and wrong differ is tested in the chart of their differences. Tasks "
        "whose answers are all right or all wrong are not drawn."
    ),
    "contrast": (
        "Right minus wrong answers of all tasks together, by layer, each answer beside those to questions of the same "
        "task and question word and with answers of similar length, of the same document where possible; bands are "
        "95 % intervals over documents, simultaneous over layers and measures; filled points differ from 0 (adjusted "
        "p < .05)."
    ),
    "failure": (
        "How well one layer's vectors predict which questions of a task are answered incorrectly (AUC alone, 0.5 is "
        "chance), and what they add to the model's own confidence (gain in AUC, 0 is nothing), by layer; bands are "
        "95 % intervals over documents, filled points lead the random-weights twin (paired; adjusted over layers, "
        "p < .05). The twin knows the words of a question and nothing else: what it predicts as well is a "
        "null."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 220


class Panel(NamedTuple):
    """How one measure is shown."""

    measure: str
    title: str
    reading: str
    axis: str


_COSINE, _GAP = "cosine", "difference of cosines"
PANELS = (
    Panel("within_question", "Within the question", "its words with each other", _COSINE),
    Panel("within_support", "Within the support", "its words with each other", _COSINE),
    Panel("within_other", "Within the rest", "words of other sentences", _COSINE),
    Panel("between_question_support", "Question and support", "words of one with the other's", _COSINE),
    Panel("between_question_other", "Question and the rest", "words of one with the other's", _COSINE),
    Panel("question_nearer_support", "Question nearer its support", "than the rest, by so much", "nearer by (cosine)"),
    Panel("answer_apart", "Gold answer apart", "farther from others than they are", _GAP),
    Panel("predicted_apart", "Predicted answer apart", "farther from others than they are", _GAP),
    Panel("answer_silhouette", "Silhouette of the answer", "answers of 2 or more tokens", "silhouette"),
    Panel("ami_sentences", "Clusters and sentences", "agreement beyond chance", "adj. mutual information"),
    Panel("ami_roles", "Clusters and roles", "agreement beyond chance", "adj. mutual information"),
    Panel("ami_entities", "Clusters and entity types", "agreement beyond chance", "adj. mutual information"),
)
_MORE = (
    Panel("predicted_silhouette", "Silhouette of the prediction", "predictions of 2 or more tokens", "silhouette"),
)
_SIDES = {"right": "right", "wrong": "wrong"}
"""Column of `contrast` -> the answers it is of."""
_MOST_TASKS = 4
"""Drawn each by itself; more are drawn together, matched within each."""
_BY_ANSWER = ("between_question_support", "question_nearer_support", "answer_apart", "predicted_apart")
_FEATURES = {"confidence": "output confidence", "length": "question length"}


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `roles` and `differences`, and for a model that answers `answers`, `contrast` and `failure`."""
    table = result.tables["phases"]
    charts = {"roles": _roles(result, table)}
    tasks = rows_of(result.tables, "tasks")
    if tasks is not None and "share" in tasks:
        charts = {"tasks": _tasks(result, tasks), **charts}
    if (differences := rows_of(result.tables, "differences")) is not None:
        charts["differences"] = _differences(result, differences)
    contrast = rows_of(result.tables, "contrast")
    # Results of older versions have no tasks: what they would show of answers compares tasks.
    if contrast is not None and "task" in contrast:
        charts["answers"] = _answers(result, contrast)
        contrast = contrast[contrast["task"] == TOGETHER]
    if contrast is not None:
        charts["contrast"] = _contrast(result, contrast)
    if (failure := rows_of(result.tables, "failure")) is not None:
        charts["failure"] = _failure(result, failure)
    return {name: themed(chart) for name, chart in charts.items()}


def _roles(result: Result, table: Table) -> alt.ConcatChart:
    rows = _shown(table[table["group"] == "all"])
    count = int(rows["count"].max())
    name = result.provenance.model["name"]
    return _page(
        rows.assign(series=rows["model"]),
        PANELS,
        f"How {name} reads {count:,} questions of {result.provenance.corpus['name']}",
        [_adjusting(table), _intervals(table)],
    )


def _tasks(result: Result, tasks: Table) -> alt.ConcatChart:
    """What the model can answer and what it cannot: one bar per task."""
    titles = [
        f"{TASK_TITLES[task]} ({task})" if task in TASK_TITLES else str(task) or "all questions"
        for task in tasks["task"]
    ]
    rows = tasks.assign(title=titles, always=tasks["constant"] / tasks["questions"])
    y = alt.Y("title:N", sort=titles, title=None, axis=alt.Axis(ticks=False, domain=False, labelLimit=300))
    scale = alt.Scale(domain=[0, 1])
    tooltip = [alt.Tooltip("title:N"), alt.Tooltip("right:Q"), alt.Tooltip("questions:Q")]
    base = alt.Chart(rows, width=420, height=40 * len(rows)).encode(y=y, tooltip=tooltip)
    x = alt.X("share:Q", title="share of questions answered correctly", scale=scale, axis=alt.Axis(format="%"))
    layers: list[alt.Chart] = [
        base.mark_bar(size=16, color=COLOURS[0], opacity=0.8).encode(x=x),
        interval_line(base, alt.X("low:Q"), color=INK, width=1.5),
        base.mark_tick(color=GREY, thickness=3, size=26).encode(x=alt.X("always:Q")),
        base.mark_text(align="left", dx=8, fontSize=12, color=INK).encode(
            x=alt.value("width"), text=alt.Text("share:Q", format=".0%")
        ),
    ]
    name = result.provenance.model["name"]
    words = " ".join(
        f"{title}: {row.right} of {row.questions} right." for title, row in zip(titles, each_row(tasks), strict=True)
    )
    title = alt.TitleParams(
        f"What {name} can answer", subtitle="lines: 95 % intervals; grey ticks: always the most frequent answer"
    )
    return alt.concat(alt.LayerChart(layer=layers), title=title, description=words, usermeta={"panelWidth": 420})


def _answers(result: Result, contrast: Table) -> alt.ConcatChart:
    """One row of panels per measure, one column per task; of one task, three panels in a row."""
    tasks = [task for task in dict.fromkeys(contrast["task"]) if task != TOGETHER]
    tasks = tasks if 0 < len(tasks) <= _MOST_TASKS else [TOGETHER]
    answer_rows = contrast[contrast["task"].isin(tasks) & contrast["measure"].isin(_BY_ANSWER)]
    sides = [
        answer_rows.assign(
            series=label,
            value=answer_rows[side],
            low=answer_rows[f"{side}_low"],
            high=answer_rows[f"{side}_high"],
            count=answer_rows["matched"],
        )
        for side, label in _SIDES.items()
    ]
    # A panel is a measure of a task.
    rows = pd.concat(sides, ignore_index=True)
    rows = rows.assign(measure=rows["task"] + "|" + rows["measure"])
    panels = [
        panel._replace(
            measure=f"{task}|{panel.measure}",
            title=panel.title if task == TOGETHER else f"{task}: {panel.title[0].lower()}{panel.title[1:]}",
            reading=_answer_counts(result, task),
        )
        for panel in PANELS
        if panel.measure in _BY_ANSWER
        for task in tasks
    ]
    notes = ["cosines are not adjusted for anisotropy, which is the same for right and wrong", _intervals(contrast)]
    title = f"{result.provenance.model['name']}: right and wrong answers to questions of one task"
    return _page(rows, panels, title, notes, list(_SIDES.values()), columns=len(tasks) if len(tasks) > 1 else 3)


def _answer_counts(result: Result, task: str) -> str:
    tasks = result.tables["tasks"]
    task_rows = tasks if task == TOGETHER else tasks[tasks["task"] == task]
    right, questions = (int(task_rows.loc[task_rows["compared"], name].sum()) for name in ("right", "questions"))
    return f"{right:,} right, {questions - right:,} wrong"


_AGAINST = {PSEUDO: "minus pseudo roles", TWIN: "minus the random-weights twin"}


def _differences(result: Result, table: Table) -> alt.ConcatChart:
    rows = _shown(table[(table["group"] == "all") & table["difference"].notna()])
    rows = rows.assign(series=rows["against"].map(_AGAINST), value=rows["difference"])
    return _page(
        rows,
        PANELS,
        f"{result.provenance.model['name']} beside its nulls, question by question",
        ["cosines are of tokens of words", _intervals(table, simultaneous=True)],
    )


def _contrast(result: Result, table: Table) -> alt.ConcatChart:
    """Where the corrected test finds a difference, points are filled."""
    rows = table.assign(series="right minus wrong", value=table["difference"], count=table["matched"])
    measures = {panel.measure: panel for panel in (*PANELS, *_MORE)}
    panels = [measures[measure] for measure in dict.fromkeys(rows["measure"]) if measure in measures]
    most = int(rows["matched"].max())
    notes = [
        f"up to {most:,} wrong answers, each beside right ones of its task, question word and length of answer",
        f"filled: p < .05 adjusted over layers and measures; {_intervals(table, simultaneous=True)}",
    ]
    title = f"{result.provenance.model['name']}: right minus wrong answers to similar questions"
    return _page(rows.assign(sure=rows["p_adjusted"] < SURE), panels, title, notes)


def _intervals(table: Table, *, simultaneous: bool = False) -> str:
    seeds, kind = int(table["seeds"].max()), "simultaneous 95 % interval" if simultaneous else "95 % interval"
    if seeds == 1:
        return f"shaded: {kind} over documents"
    over = "documents and seeds" if seeds >= FEW_SEEDS else "documents"
    return f"mean over {seeds} seeds; shaded: {kind} over {over}"


def _failure(result: Result, table: Table) -> alt.ConcatChart:
    """What has no layer is a flat line, without its interval."""
    last = int(table["layer"].dropna().max())
    vectors = table[table["feature"] == "vectors"].assign(series=lambda rows: rows["model"] + ", vectors")
    # The twin is not compared with itself.
    is_model = vectors["model"] == result.provenance.model["name"]
    vectors = vectors.assign(sure=is_model & _leads(result, OVER_TWIN, vectors["layer"]))
    flat = [
        table[table["feature"] == feature].assign(series=label, layer=layer, low=None, high=None)
        for feature, label in _FEATURES.items()
        for layer in sorted({0, last})
    ]
    rows = pd.concat([vectors, *flat], ignore_index=True).assign(layer=lambda rows: rows["layer"].astype(int))
    rows = rows.rename(columns={"auc": "value"}).assign(measure="auc", sure=lambda rows: rows["sure"].eq(True))
    gains = vectors.assign(
        layer=vectors["layer"].astype(int),
        value=vectors["gain_auc"],
        low=vectors["gain_auc_low"],
        high=vectors["gain_auc_high"],
        measure="gain",
        sure=is_model & _leads(result, ADDED_OVER_TWIN, vectors["layer"]),
    )
    rows = pd.concat([rows, gains], ignore_index=True)
    count = max(int(number) for number in rows["count"])
    names = list(dict.fromkeys(rows["series"]))
    alone = Panel("auc", "Can a wrong answer be predicted?", f"{count:,} questions; 0.5 is chance", "AUC")
    added = Panel("gain", "Beyond the model's confidence", "confidence and vectors minus confidence", "gain in AUC")
    panels = [
        _panel(rows[rows["measure"] == "auc"], alone, names, last, [0.0, 1.0], line=0.5, width=320),
        _panel(rows[rows["measure"] == "gain"], added, names, last, _domain(rows, [added], added.axis), 0.0, width=320),
    ]
    notes = ["logistic regression, trained and scored on different documents, compared within a task"]
    filled = "filled: ahead of the twin, p < .05 adjusted over layers"
    title = alt.TitleParams(
        f"{result.provenance.model['name']} on {result.provenance.corpus['name']}",
        subtitle=[*notes, f"{filled}; {_intervals(table)}" if rows["sure"].any() else _intervals(table)],
    )
    return alt.concat(*panels, title=title, description=_in_words(rows, names, [alone, added]))


def _leads(result: Result, contrast: str, layers: pd.Series) -> pd.Series:
    """Where a layer is surely ahead of its twin's; nowhere in results of older versions."""
    table = rows_of(result.tables, "failure_contrasts")
    if table is None:
        return pd.Series(data=False, index=layers.index)
    ahead = table[(table["contrast"] == contrast) & (table["p_adjusted"] < SURE) & (table["estimate"] > 0)]
    return layers.isin(ahead["layer"])


def _shown(rows: Table) -> Table:
    """Similarities minus the layer's anisotropy, where that is known."""
    adjusted = rows["measure"].str.endswith(ADJUSTED)
    replaced = set(rows.loc[adjusted, "measure"].str.removesuffix(ADJUSTED))
    remaining = rows[~rows["measure"].isin(replaced)]
    return remaining.assign(measure=remaining["measure"].str.removesuffix(ADJUSTED))


def _adjusting(table: Table) -> str:
    if table["measure"].str.endswith(ADJUSTED).any():
        return "cosines are minus the layer's anisotropy: 0 is the similarity of words of different documents"
    return "cosines are not adjusted: there is only one document, so anisotropy is not known"


def _page(
    rows: Table,
    panels: list[Panel] | tuple[Panel, ...],
    title: str,
    notes: list[str],
    names: list[str] | None = None,
    *,
    columns: int = 3,
) -> alt.ConcatChart:
    names = names or list(dict.fromkeys(rows["series"]))
    last = int(rows["layer"].max())
    there = [panel for panel in panels if panel.measure in set(rows["measure"])]
    drawn = []
    for panel in there:
        panel_rows = rows[rows["measure"] == panel.measure]
        drawn.append(_panel(panel_rows, panel, names, last, _domain(rows, there, panel.axis), line=0.0))
    return alt.concat(
        *drawn,
        columns=columns,
        spacing=24,
        title=alt.TitleParams(title, subtitle=notes),
        description=_in_words(rows, names, there),
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def _domain(rows: Table, panels: list[Panel], axis: str) -> list[float]:
    """One scale for all panels with this axis, with 0 on it."""
    axis_rows = rows[rows["measure"].isin([panel.measure for panel in panels if panel.axis == axis])]
    values = axis_rows[["value", "low", "high"]]
    lowest, highest = float(values.min().min()), float(values.max().max())
    return [min(0.0, math.floor(lowest * 10) / 10), max(0.2, math.ceil(highest * 10) / 10)]


def _panel(
    rows: Table,
    panel: Panel,
    names: list[str],
    last: int,
    domain: list[float],
    line: float,
    *,
    width: int = PANEL_WIDTH,
) -> alt.LayerChart:
    look = series(names)
    sure = rows["sure"] if "sure" in rows else pd.Series(data=True, index=rows.index)
    points = rows[["series", "layer", "count", "value", "low", "high"]].rename(columns={"series": "model"})
    points = points.assign(sure=sure)
    base = alt.Chart(points, width=width, height=170).encode(x=layer_axis(last), color=look.colour)
    value = alt.Y("value:Q", title=panel.axis, scale=alt.Scale(domain=domain, nice=False), axis=alt.Axis(tickCount=5))
    numbers = number_tips()
    tooltip = [
        alt.Tooltip("model:N"),
        alt.Tooltip("layer:Q"),
        *numbers,
        alt.Tooltip("count:Q", title="questions", format=","),
    ]
    return alt.LayerChart(
        layer=[
            interval_band(base, alt.Y("low:Q", title=panel.axis), clip=True),
            alt.Chart(alt.Data(values=[{"at": line}])).mark_rule(color=INK).encode(y=alt.Y("at:Q")),
            base.mark_line(strokeWidth=2).encode(y=value, strokeDash=look.dash),
            base.mark_point(size=50, opacity=1).encode(
                y=value,
                shape=look.shape,
                tooltip=tooltip,
                fill=alt.condition("datum.sure", look.colour, alt.value("white")),
            ),
        ],
        title=alt.TitleParams(panel.title, subtitle=panel.reading),
    )


def _in_words(rows: Table, names: list[str], panels: list[Panel]) -> str:
    """Each measure at the first and the last layer of each series."""
    sentences = []
    for panel in panels:
        panel_rows = rows[rows["measure"] == panel.measure] if panel.measure else rows
        parts = []
        for name in names:
            points = sorted(zip(panel_rows["layer"], panel_rows["value"], panel_rows["series"], strict=True))
            ends = [(layer, value) for layer, value, of in points if of == name]
            if ends:
                pairs = dict([ends[0], ends[-1]]).items()
                parts.append(f"{name} " + ", ".join(f"{value:.2f} at layer {layer}" for layer, value in pairs))
        sentences.append(f"{panel.title}: {'; '.join(parts)}.")
    return " ".join(sentences)
