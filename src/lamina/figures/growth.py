"""How a model grows: surfaces of layer and step, onsets between checkpoints, and curves by step."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd

from lamina.figures._marks import interval_band, number_tips
from lamina.figures.theme import COLOURS, FAINT, GREY, INK, SHADES, Table, themed, title_of
from lamina.results import Result

CAPTIONS = {
    "surface": (
        "Each measure by layer and step: no shade is its lowest value, full shade its highest; numbers are in the "
        "tooltips, with 95 % intervals over texts. Step 0 is the untrained model. Compare columns for when something "
        "is learned and rows for where. A cross marks a checkpoint that the audit reports."
    ),
    "onsets": (
        "When each ability begins: the bar is where its onset lies (95 % over texts, never narrower than two "
        "checkpoints in a row), the point its first checkpoint above the untrained model and above chance, the tick "
        "the step at which it is half-way to its end. Abilities without a bar were not shown to begin. A cross marks "
        "a checkpoint that the audit reports."
    ),
    "curves": (
        "Each ability by step, one line per training; band: 95 % interval over texts. Compare with the dashed line, "
        "chance. Step 0 is the untrained model. A cross marks a checkpoint that the audit reports."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 240
_MOST_SURFACES, _MOST_CURVES, _MOST_STRIPS = 12, 12, 24
"""Drawn at most; the tables have all."""
_ROW = 18
_SETTLING = "settling"
_LEGEND = alt.Legend(orient="bottom", title=None)
_STEP = "step (logarithmic)"


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `surface`, `onsets` and `curves`, each where there is something to draw."""
    growth, onsets = _placed(result.tables["growth"]), result.tables["onsets"]
    suspicious = _suspicious(result)
    charts = {
        "onsets": _strip(onsets, suspicious),
        "surface": _surfaces(growth, suspicious),
        "curves": _curves(growth, onsets, suspicious),
    }
    return {name: themed(chart) for name, chart in charts.items() if chart is not None}


def _placed(growth: Table) -> Table:
    """With the place of each step: a doubling is as wide as any other, and step 0 is before step 1."""
    return growth.assign(place=np.log2(1 + growth["step"].astype(float)))


def _suspicious(result: Result) -> Table:
    """The checkpoints that the audit reports."""
    audit = result.tables["audit"]
    odd = audit[(audit["verdict"] != "ok") & audit["step"].notna()]
    return odd.assign(place=np.log2(1 + odd["step"].astype(float)))[["series", "seed", "step", "place", "verdict"]]


def _ability(row: Table) -> pd.Series:
    """What a panel is called."""
    names = []
    for analysis, task, measure in zip(row["analysis"], row["task"], row["measure"], strict=True):
        title = "mean" if task == "all" else title_of(str(task))
        names.append(f"{title}, {measure}" if analysis == "probe" else f"{analysis}: {title}")
    return pd.Series(names, index=row.index, dtype=object)


def _step_axis(steps: list[int], field: str = "place") -> alt.X:
    """Ticks at the checkpoints, at most eight of them."""
    thin = steps[:: max(1, -(-len(steps) // 8))]
    places = [float(np.log2(1 + step)) for step in thin]
    labels = " : ".join(
        f"abs(datum.value - {place:.4f}) < 0.001 ? '{step:,}'" for place, step in zip(places, thin, strict=True)
    )
    axis = alt.Axis(values=places, labelExpr=f"{labels} : ''", grid=False, labelOverlap=True)
    end = max(float(np.log2(1 + max(steps))), 1.0)
    return alt.X(f"{field}:Q", title=_STEP, axis=axis, scale=alt.Scale(domain=[-0.3, end + 0.3], nice=False))


def _cross(suspicious: Table, y: float) -> alt.Chart:
    """A cross above the steps that the audit reports."""
    return (
        alt.Chart(suspicious)
        .mark_point(shape="cross", size=50, angle=45, color=COLOURS[1], filled=True, opacity=1)
        .encode(x=alt.X("place:Q"), y=alt.value(y), tooltip=[alt.Tooltip("step:Q"), alt.Tooltip("verdict:N")])
    )


def _main(growth: Table) -> Table:
    """The mean over trainings where there is one, else each training; of the series given first."""
    first = growth[growth["series"] == growth["series"].iloc[0]]
    means = first[first["seed"].str.startswith("all")]
    seeds = means if len(means) else first
    longest = seeds.groupby("seed")["step"].nunique().idxmax()
    return seeds[seeds["seed"] == longest]


def _surfaces(growth: Table, suspicious: Table) -> alt.ConcatChart | None:
    rows = growth[growth["layer"].notna()]
    if rows.empty:
        return None
    rows = _main(rows)
    rows = rows.assign(ability=_ability(rows), layer=rows["layer"].astype(int))
    panels, words = [], []
    for ability in list(dict.fromkeys(rows["ability"]))[:_MOST_SURFACES]:
        cells = rows[rows["ability"] == ability]
        low, high = float(cells["value"].min()), float(cells["value"].max())
        steps = sorted({int(step) for step in cells["step"]})
        layers = sorted(cells["layer"].unique().tolist(), reverse=True)
        base = alt.Chart(cells, width=PANEL_WIDTH, height=max(60, _ROW * len(layers))).encode(
            x=alt.X("step:O", title="step", sort=steps, axis=alt.Axis(labelAngle=-40, labelOverlap=True)),
            y=alt.Y("layer:O", title="layer", sort=layers),
        )
        shade = alt.Color(
            "value:Q",
            scale=alt.Scale(domain=[low, high if high > low else low + 1], range=list(SHADES), interpolate="lab"),
            legend=None,
        )
        tooltip = [alt.Tooltip("step:Q"), alt.Tooltip("layer:O")]
        tooltip += number_tips()
        marks: list[alt.Chart] = [base.mark_rect(stroke=FAINT).encode(color=shade, tooltip=tooltip)]
        odd = suspicious[suspicious["step"].isin(steps)].assign(layer=layers[0])
        if len(odd):
            mark = alt.Chart(odd).mark_point(shape="cross", angle=45, size=50, color=COLOURS[1], filled=True, opacity=1)
            marks.append(
                mark.encode(
                    x=alt.X("step:O"), y=alt.Y("layer:O"), tooltip=[alt.Tooltip("step:Q"), alt.Tooltip("verdict:N")]
                )
            )
        panels.append(alt.LayerChart(layer=marks, title=ability))
        top = cells.loc[cells["value"].idxmax()]
        words.append(f"{ability}: highest {top['value']:.2f} at step {int(top['step']):,}, layer {int(top['layer'])}.")
    more = rows["ability"].nunique() - len(panels)
    subtitle = f"{rows['series'].iloc[0]}, {rows['seed'].iloc[0]}" + (f"; {more} more are in the table" if more else "")
    return alt.concat(
        *panels,
        columns=3,
        spacing=18,
        title=alt.TitleParams("What is known at which layer and step", subtitle=subtitle, offset=12),
        description=" ".join(words),
        usermeta={"panelWidth": PANEL_WIDTH},
    ).resolve_scale(color="independent", x="independent", y="independent")


def _strip(onsets: Table, suspicious: Table) -> alt.ConcatChart | None:
    rows = onsets[(onsets["onset"].notna() | onsets["reason"].fillna("").ne("")) & (onsets["analysis"] != _SETTLING)]
    rows = rows[rows["onset"].notna() | rows["layer"].isna()]
    if rows.empty or rows["onset"].notna().sum() == 0:
        return None
    rows = rows[rows["series"] == rows["series"].iloc[0]]
    # Of analyses by layer alone, the layer that is highest at the end.
    rows = rows.assign(whole=rows["layer"].isna()).sort_values(["whole", "end"], ascending=False, kind="stable")
    rows = rows.drop_duplicates(["analysis", "task"])
    rows = rows.assign(ability=_ability(rows)).sort_values(["onset", "half"], na_position="last")
    more = max(0, len(rows) - _MOST_STRIPS)
    rows = rows.head(_MOST_STRIPS)
    ends = rows[["low", "onset", "high", "half"]].to_numpy(float)
    last = float(np.nanmax(np.where(np.isfinite(ends), ends, np.nan)))
    placed = {
        f"at_{name}": np.log2(1 + rows[name].astype(float).clip(upper=last))
        for name in ("low", "onset", "high", "half")
    }
    rows = rows.assign(**placed)
    places = rows[["low", "onset", "high"]].to_numpy(float)
    steps = sorted({int(step) for step in places[np.isfinite(places)]} | {0})
    order = rows["ability"].tolist()
    y = alt.Y("ability:N", sort=order, title=None, axis=alt.Axis(labelLimit=260, ticks=False, domain=False))
    tooltip = [alt.Tooltip("ability:N")]
    tooltip += number_tips("low", "onset", "high", "half", form=",.0f")
    base = alt.Chart(rows, width=440, height=max(40, _ROW * len(rows))).encode(y=y, tooltip=tooltip)

    marks: list[alt.Chart] = [
        base.mark_bar(height=7, color=COLOURS[0], opacity=0.35).encode(
            x=_step_axis(steps, "at_low"), x2=alt.X2("at_high:Q")
        ),
        base.mark_point(filled=True, size=55, color=COLOURS[0], opacity=1).encode(x=_step_axis(steps, "at_onset")),
        base.mark_tick(color=INK, thickness=2, height=12).encode(x=_step_axis(steps, "at_half")),
    ]
    if len(suspicious):
        marks.append(_cross(suspicious, -6))
    begun = rows[rows["onset"].notna()]
    words = [f"{row.ability}: after step {row.low:,.0f}, by step {row.high:,.0f}." for row in begun.itertuples()]
    subtitle = "bar: where the onset lies; point: first checkpoint; tick: half-way"
    subtitle += f"; {more} more are in the table" if more else ""
    return alt.concat(
        alt.LayerChart(layer=marks),
        title=alt.TitleParams("When abilities begin", subtitle=subtitle, offset=12),
        description=" ".join(words),
    )


def _curves(growth: Table, onsets: Table, suspicious: Table) -> alt.ConcatChart | None:
    abilities = onsets[onsets["onset"].notna() | onsets["chance"].notna()]
    keys = set(zip(abilities["analysis"], abilities["task"], strict=True))
    whole = growth[[key in keys for key in zip(growth["analysis"], growth["task"], strict=True)]]
    if whole.empty:
        return None
    rows = whole[whole["layer"].isna()] if whole["layer"].isna().any() else _best_layers(whole)
    rows = rows.assign(ability=_ability(rows), training=rows["series"] + ", " + rows["seed"])
    chances = abilities.dropna(subset=["chance"]).assign(ability=_ability(abilities.dropna(subset=["chance"])))
    panels, words = [], []
    for ability in list(dict.fromkeys(rows["ability"]))[:_MOST_CURVES]:
        lines = rows[rows["ability"] == ability]
        steps = sorted({int(step) for step in lines["step"]})
        base = alt.Chart(lines, width=PANEL_WIDTH, height=130).encode(
            x=_step_axis(steps),
            color=alt.Color(
                "training:N", scale=alt.Scale(range=list(COLOURS)), legend=alt.Legend(orient="bottom", title=None)
            ),
        )
        value = alt.Y(
            "value:Q", title=str(lines["measure"].iloc[0]), scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=4)
        )
        tooltip = [alt.Tooltip("training:N"), alt.Tooltip("step:Q")]
        tooltip += number_tips()
        marks: list[alt.Chart] = [
            interval_band(base, alt.Y("low:Q", title=str(lines["measure"].iloc[0]))),
            base.mark_line(strokeWidth=1.8).encode(y=value),
            base.mark_point(filled=True, size=22, opacity=1).encode(y=value, tooltip=tooltip),
        ]
        chance = chances[chances["ability"] == ability]["chance"].head(1)
        if len(chance):
            rule = alt.Chart(pd.DataFrame({"chance": chance})).mark_rule(strokeDash=[5, 4], color=GREY)
            marks.append(rule.encode(y=alt.Y("chance:Q")))
        if len(suspicious):
            marks.append(_cross(suspicious[suspicious["step"].isin(steps)], 4))
        panels.append(alt.LayerChart(layer=marks, title=alt.TitleParams(ability, limit=PANEL_WIDTH)))
        end = lines.sort_values("step").iloc[-1]
        words.append(f"{ability}: {end['value']:.2f} at step {int(end['step']):,}.")
    more = rows["ability"].nunique() - len(panels)
    subtitle = "dashed: chance" + (f"; {more} more are in the table" if more else "")
    return alt.concat(
        *panels,
        columns=3,
        spacing=18,
        title=alt.TitleParams("How abilities grow", subtitle=subtitle, offset=12),
        description=" ".join(words),
        usermeta={"panelWidth": PANEL_WIDTH},
    ).resolve_scale(x="independent", y="independent")


def _best_layers(growth: Table) -> Table:
    """Of each ability the layer that is highest at the last step."""
    parts = []
    for _, rows in growth.groupby(["series", "analysis", "task"], sort=False):
        last = rows[rows["step"] == rows["step"].max()]
        layer = last.loc[last["value"].idxmax(), "layer"]
        parts.append(rows[rows["layer"] == layer])
    return pd.concat(parts)
