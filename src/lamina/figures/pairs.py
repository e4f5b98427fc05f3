"""Minimal pairs: accuracy by term and by paradigm, beside chance, an n-gram model and the twin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import altair as alt
import pandas as pd

from lamina.figures._marks import interval_line, number_tips
from lamina.figures.theme import COLOURS, INK, SHAPES, themed
from lamina.results import Result

CAPTIONS = {
    "terms": (
        "Share of items that the model gets right, by phenomenon (the mean over its paradigms) and over all paradigms; "
        "lines: 95 % intervals, items resampled within paradigms. The tick is chance. Compare the model with the "
        "n-gram model, which knows words and their neighbours only, and with the twin, which knows nothing and is "
        "asked the first items of each paradigm only; `per token` divides log-probabilities by the number of tokens."
    ),
    "paradigms": (
        "Share of items that the model gets right, one row per paradigm, grouped by phenomenon; lines: 95 % intervals, "
        "items resampled. The tick is chance. A filled point differs from chance (p below .05, adjusted for all "
        "paradigms); of a hollow one that was not shown. Where the n-gram model or the twin is as high, the pairs can "
        "be solved without syntax."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 420
MOST = 150
"""Paradigms that are drawn; more cannot be read."""
_LONGEST = 330
"""Pixels for names."""
_LETTER = 6.6
"""Pixels of a letter, on average."""
_LOOKS = {"model": 0, "per token": 5, "n-gram": 1, "twin": 2}
"""What is drawn -> its colour and shape, the same in all charts."""
_ACCURACY = "accuracy (share of items that are right)"


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `terms` and `paradigms`; the first is left out where there is but one paradigm."""
    pairs = result.tables["pairs"]
    title = f"{result.provenance.model['name']} on {pairs['suite'].iloc[0]}"
    drawn = {}
    if (pairs["paradigm"] != "all").sum() > 2:
        drawn["terms"] = terms(result, title)
    if pairs["paradigm"].nunique() <= MOST + 1:
        drawn["paradigms"] = paradigms(result, title)
    return {name: themed(chart) for name, chart in drawn.items()}


def not_drawn(result: Result) -> dict[str, str]:
    """Chart -> what it leaves out."""
    count = result.tables["pairs"]["paradigm"].nunique() - 1
    return {"paradigms": f"The {count:,} paradigms are too many to draw; see pairs.csv."} if count > MOST else {}


def terms(result: Result, title: str) -> alt.ConcatChart:
    """One row per term, and one for all paradigms."""
    rows = _term_rows(result)
    names = _series(rows)
    order = list(dict.fromkeys(rows["name"]))
    panel = _panel(rows, names, order, step=16 + 8 * len(names), extent=_extent(order), offset=True)
    heading = alt.TitleParams(
        f"Accuracy by phenomenon: {title}", subtitle="lines: 95 % intervals; tick: chance", offset=10
    )
    return alt.concat(panel, title=heading, description=describe(rows), usermeta={"panelWidth": PANEL_WIDTH})


def paradigms(result: Result, title: str) -> alt.ConcatChart:
    """One panel per term, one row per paradigm, the best first."""
    rows = _paradigm_rows(result)
    names = _series(rows)
    panels, extent = [], _extent(rows["name"])
    groups = list(rows.groupby("term", sort=False))
    for index, (term, term_rows) in enumerate(groups):
        best = term_rows[term_rows["of"] == names[0]].sort_values("accuracy", ascending=False, kind="stable")
        panel = _panel(
            term_rows,
            names,
            list(best["name"]),
            step=15,
            extent=extent,
            legend=index == 0,
            axis=index == len(groups) - 1,
            offset=False,
        )
        panels.append(panel.properties(title=alt.TitleParams(str(term), fontSize=12, anchor="start", offset=4)))
    heading = alt.TitleParams(
        f"Accuracy by paradigm: {title}",
        subtitle="lines: 95 % intervals; tick: chance; hollow: no difference from chance was shown",
        offset=10,
    )
    return alt.concat(
        *panels,
        columns=1,
        spacing=10,
        title=heading,
        description=describe(rows[rows["of"] == names[0]]),
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def describe(rows: pd.DataFrame) -> str:
    """The chart in words.

    Example:
        >>> rows = [("binding", "m", 0.9), ("binding", "twin", 0.5), ("islands", "m", 0.6)]
        >>> describe(pd.DataFrame(rows, columns=["name", "of", "accuracy"]))
        'Accuracy. binding: m 0.90, twin 0.50; islands: m 0.60.'
    """
    parts = []
    for name, group in rows.groupby("name", sort=False):
        accuracies = ", ".join(f"{row.of} {row.accuracy:.2f}" for row in group.itertuples())
        parts.append(f"{name}: {accuracies}")
    return f"Accuracy. {'; '.join(parts)}."


def _term_rows(result: Result) -> pd.DataFrame:
    """The model's accuracies (plain, per token) and those of the baselines, by term, the best first."""
    pairs, by_term, baselines = (result.tables[name] for name in ("pairs", "terms", "baselines"))
    model = str(result.provenance.model["name"])
    overall = pairs[pairs["paradigm"] == "all"].assign(name="all paradigms")
    model_rows = pd.concat([overall, by_term[by_term["level"] == "term"]])
    called = {"plain": model, "per_token": f"{model}, per token"}
    model_rows = model_rows.assign(of=model_rows["score"].map(called))
    beside = baselines[(baselines["score"] == "plain") & baselines["level"].isin(["all", "term"])]
    beside = beside.assign(name=beside["name"].where(beside["level"] != "all", "all paradigms"))
    chances = dict(zip(model_rows["name"], model_rows["chance"], strict=True))
    rows = pd.concat([model_rows, beside.assign(chance=beside["name"].map(chances))], ignore_index=True)
    plain = rows[rows["of"] == model].set_index("name")["accuracy"]
    place = rows["name"].map(plain).where(rows["name"] != "all paradigms", 2)
    return rows.assign(place=place, sure=True).sort_values("place", ascending=False, kind="stable")


def _paradigm_rows(result: Result) -> pd.DataFrame:
    pairs, baselines = result.tables["pairs"], result.tables["baselines"]
    model = str(result.provenance.model["name"])
    model_rows = pairs[(pairs["score"] == "plain") & (pairs["paradigm"] != "all")]
    model_rows = model_rows.assign(of=model, name=model_rows["paradigm"], sure=model_rows["p_adjusted"] < 0.05)
    beside = baselines[(baselines["score"] == "plain") & (baselines["level"] == "paradigm")]
    known = model_rows.set_index("name")
    beside = beside.assign(
        term=beside["name"].map(known["term"]), chance=beside["name"].map(known["chance"]), sure=True
    )
    return pd.concat([model_rows, beside], ignore_index=True)


def _series(rows: pd.DataFrame) -> list[str]:
    """The model first and the twin last."""
    names = list(dict.fromkeys(rows["of"]))
    return sorted(names, key=lambda name: list(_LOOKS).index(_kind(name, names[0])))


def _kind(name: str, model: str) -> str:
    """What a series is, by its name in the tables."""
    if name == "twin":
        return "twin"
    return "model" if name == model else "per token" if name.startswith(model) else "n-gram"


def _extent(names: Iterable[str]) -> float:
    """Pixels for the longest name, the same in every panel so that their axes are aligned."""
    return min(_LONGEST, _LETTER * max(map(len, names)) + 12)


def _panel(
    rows: pd.DataFrame,
    names: Sequence[str],
    order: list[str],
    *,
    step: int,
    extent: float,
    offset: bool,
    legend: bool = True,
    axis: bool = True,
) -> alt.LayerChart:
    """One row per name, one point with its interval per model, a tick for chance."""
    looks = [_LOOKS[_kind(name, names[0])] for name in names]
    marks, shapes = [COLOURS[index] for index in looks], [SHAPES[index] for index in looks]
    key = (
        alt.Legend(title=None, orient="top", symbolSize=80, symbolOpacity=1, labelLimit=400, columns=2)
        if legend
        else None
    )
    colour = alt.Color("of:N", scale=alt.Scale(domain=list(names), range=marks), legend=key)
    shape = alt.Shape("of:N", scale=alt.Scale(domain=list(names), range=shapes), legend=key)
    labels = alt.Axis(
        labelLimit=_LONGEST, minExtent=extent, maxExtent=extent, ticks=False, domain=False, labelPadding=8
    )
    y = alt.Y("name:N", sort=order, title=None, axis=labels)
    below = alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".2f", labels=axis, ticks=axis, title=None)
    if axis:
        below = alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".2f", title=_ACCURACY)
    scale = alt.Scale(domain=[0, 1])
    x, low = (alt.X(f"{column}:Q", scale=scale, axis=below) for column in ("accuracy", "low"))
    tooltip = [
        alt.Tooltip("name:N"), alt.Tooltip("of:N", title="model"), alt.Tooltip("pairs:Q", title="items", format=","),
        *number_tips("accuracy", "low", "high", "chance"),
    ]  # fmt: skip
    base = alt.Chart(rows, width=PANEL_WIDTH, height=step * len(order)).encode(y=y)
    placed = base.encode(yOffset=alt.YOffset("of:N", sort=list(names))) if offset else base
    of_model, others = alt.datum.of == names[0], alt.datum.of != names[0]
    points = {"color": colour, "shape": shape, "tooltip": tooltip}
    filled = alt.Fill("of:N", scale=alt.Scale(domain=list(names), range=marks), legend=None)
    # Of many rows, only the model's own intervals are drawn, and its points above the others.
    reach = placed if offset else base.transform_filter(of_model)
    return alt.LayerChart(
        layer=[
            base.mark_tick(color=INK, thickness=1.5, size=step - 2).encode(
                x=alt.X("chance:Q", scale=scale, axis=below)
            ),
            interval_line(reach, low, opacity=0.55).encode(color=colour),
            placed.mark_point(filled=True, size=40, opacity=0.9).transform_filter(others).encode(x=x, **points),
            placed.mark_point(size=55, opacity=1, strokeWidth=1.5)
            .transform_filter(of_model)
            .encode(x=x, fill=alt.condition(alt.datum.sure, filled, alt.value("white")), **points),
        ]
    )
