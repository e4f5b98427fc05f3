"""Ablated parts: effects of heads as grids, of blocks as bars, and importance by gradient against effect."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lamina.analyses.cause.ablate import NORMALISED
from lamina.analyses.cause.effects import DRAWS, RANDOM_COMPONENT, harm_of, worst_of
from lamina.figures._marks import interval_line, number_tips
from lamina.figures.theme import COLOURS, FAINT, GREY, INK, SHAPES, Table, rows_of, themed
from lamina.results import Result
from lamina.results.finding import number
from lamina.stats.status import SURE
from lamina.targets.target import LOSS, phrase_at_start

CAPTIONS = {
    "heads": (
        "The effect of each head on each target when that head alone is ablated: the score without it minus the "
        "score of the whole model, orange where the model does worse without it, blue where it does better. Dots: "
        "effects that differ from 0 (flipped signs by document, adjusted p < .05, all heads, or all random components, "
        "of one target and how together). The column r is a random component as large as a head, drawn from all heads "
        f"of the layer, mean of {DRAWS} draws. Intervals are in the table."
    ),
    "blocks": (
        "The effect of each layer on each target when it is skipped, so that its input is passed through; bars: the "
        "score without it minus that of the whole model, lines: 95 % intervals over documents (minimal pairs: over "
        "pairs), simultaneous for all layers. Orange: the model does worse without it; grey diamonds: the twin with "
        "random weights."
    ),
    "importance": (
        "Each head's importance by gradient (expected absolute gradient of a gate, normalised by layer) against the "
        "size of its true effect on the same target; lines: 95 % intervals over documents (of effects: simultaneous). "
        "rho: Spearman's rank correlation, with its simultaneous interval. Drawn for the first target."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 330
WORSE, BETTER = COLOURS[1], COLOURS[0]
_ROW = 20
_RANDOM = "r"
_ASIDE = 8
"""The twin's marks are drawn beside those of the model, so that neither hides the other."""
_UNITS = {LOSS: "nats per token"}
_POINTS = "share of items"
_HOWS = {"mean": "mean ablation", "zero": "zero ablation", "resample": "resampling ablation"}
_DEPTHS = ("#86bdea", "#08254d")
"""Of layers, from the first to the last."""


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The charts `heads`, `blocks` and `importance`, as far as the result has them."""
    table, model = result.tables["effects"], result.provenance.model["name"]
    table = table.assign(harm=harm_of(table), sure=table["p_adjusted"] < SURE)
    charts = {
        "heads": _heads(table[table["component"].isin(["head", RANDOM_COMPONENT])], model),
        "blocks": _blocks(table[table["component"] == "block"], rows_of(result.tables, "twin"), model),
        "importance": _importance(result, table[table["component"] == "head"], model),
    }
    return {name: themed(chart) for name, chart in charts.items() if chart is not None}


def _heads(rows: Table, model: str) -> alt.ConcatChart | None:
    if rows.empty:
        return None
    groups = [(str(target), str(how), group) for (target, how), group in rows.groupby(["target", "how"], sort=False)]
    title = alt.TitleParams(
        f"Heads of {model}, ablated one at a time",
        subtitle="orange: worse without it; blue: better; dots: adjusted p < .05; r: random component",
        offset=12,
    )
    return alt.concat(
        *(_grid(group, target, how) for target, how, group in groups),
        columns=2,
        spacing=30,
        title=title,
        description=" ".join(describe(group, target, how) for target, how, group in groups),
        usermeta={"panelWidth": PANEL_WIDTH},
    ).resolve_scale(color="independent", x="independent", y="independent")


def _grid(rows: Table, target: str, how: str) -> alt.LayerChart:
    heads = sorted({str(int(head)) for head in rows["head"].dropna()}, key=int)
    columns = [*heads, *([_RANDOM] if rows["head"].isna().any() else [])]
    rows = rows.assign(column=[_RANDOM if pd.isna(head) else str(int(head)) for head in rows["head"]])
    layers = sorted(rows["layer"].unique().tolist())
    most = max(float(rows["effect"].abs().max()), 1e-9)
    range_ = [BETTER, "#ffffff", WORSE] if target == LOSS else [WORSE, "#ffffff", BETTER]
    unit = _UNITS.get(target, _POINTS)
    colour = alt.Color(
        "effect:Q",
        scale=alt.Scale(domain=[-most, 0, most], range=range_, interpolate="lab"),
        legend=alt.Legend(
            title=f"effect ({unit})", orient="bottom", direction="horizontal", gradientLength=180, tickCount=3,
            titleFontWeight="normal", format="+.2~g",
        ),
    )  # fmt: skip
    axis = alt.Axis(ticks=False, domain=False, labelAngle=0, labelOverlap=True)
    base = alt.Chart(rows, width=PANEL_WIDTH, height=_ROW * len(layers)).encode(
        x=alt.X("column:N", sort=columns, scale=alt.Scale(domain=columns), title="head", axis=axis),
        y=alt.Y("layer:O", title="layer", axis=axis),
        tooltip=[
            alt.Tooltip("layer:Q"),
            alt.Tooltip("column:N", title="head"),
            *number_tips("effect", "low", "high", "p_adjusted", form=".4f"),
        ],
    )
    marks: list[alt.Chart] = [base.mark_rect(stroke=FAINT, strokeWidth=1).encode(color=colour)]
    sure = rows[rows["sure"]]
    if len(sure):
        dots = alt.Chart(sure).mark_point(filled=True, color=INK, size=14, opacity=1)
        marks.append(dots.encode(x=base.encoding.x, y=base.encoding.y, tooltip=base.encoding.tooltip))
    return alt.LayerChart(layer=marks, title=f"{_title(target)}: {_HOWS[how]}")


def describe(rows: Table, target: str, how: str) -> str:
    """A grid in words.

    Example:
        >>> rows = pd.DataFrame([("head", 2, 1, "loss", .3, True), ("head", 1, 1, "loss", .1, False)])
        >>> rows.columns = ["component", "layer", "head", "target", "effect", "sure"]
        >>> describe(rows, "loss", "mean")
        'The loss, mean ablation: 1 of 2 heads surely change it; largest effect: head 2-1 (+0.300).'
    """
    heads = rows[rows["component"] == "head"]
    worst = worst_of(heads)
    return (
        f"{phrase_at_start(target)}, {_HOWS[how]}: {int(heads['sure'].sum())} of {len(heads)} heads surely change it; "
        f"largest effect: head {worst.layer}-{int(worst.head)} ({worst.effect:+.3f})."
    )


def _blocks(rows: Table, twin: Table | None, model: str) -> alt.ConcatChart | None:
    if rows.empty:
        return None
    beside = None if twin is None else twin[twin["component"] == "block"]
    targets = list(dict.fromkeys(rows["target"]))
    return alt.concat(
        *(
            _bars(
                rows[rows["target"] == target], None if beside is None else beside[beside["target"] == target], target
            )
            for target in targets
        ),
        columns=2,
        spacing=30,
        title=alt.TitleParams(
            f"Layers of {model}, skipped one at a time",
            subtitle="orange: worse without it; lines: 95 % intervals; grey diamonds: twin with random weights",
            offset=12,
        ),
        description=" ".join(_blocks_in_words(rows[rows["target"] == target], target) for target in targets),
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def _bars(rows: Table, twin: Table | None, target: str) -> alt.LayerChart:
    axis = alt.Axis(labelAngle=0, labelOverlap=True, ticks=False)
    x = alt.X("layer:O", title="layer skipped", axis=axis)
    measured = f"effect ({_UNITS.get(target, _POINTS)})"
    y = alt.Y("effect:Q", title=measured, axis=alt.Axis(tickCount=5))
    numbers = number_tips("effect", "low", "high", "p_adjusted", form=".4f")
    base = alt.Chart(rows, width=PANEL_WIDTH, height=200).encode(x=x, tooltip=[alt.Tooltip("layer:Q"), *numbers])
    colour = alt.when(alt.datum.harm > 0).then(alt.value(WORSE)).otherwise(alt.value(BETTER))
    marks: list[alt.Chart] = [
        base.mark_bar(opacity=0.75).encode(y=y, color=colour),
        interval_line(base, alt.Y("low:Q", title=measured), color=INK, width=1.5),
    ]
    if twin is not None and len(twin):
        other = alt.Chart(twin).encode(x=x, tooltip=[alt.Tooltip("layer:Q"), *numbers])
        marks.append(interval_line(other, alt.Y("low:Q", title=measured), color=GREY, xOffset=_ASIDE))
        marks.append(
            other.mark_point(filled=True, shape=SHAPES[3], color=GREY, size=60, opacity=1, xOffset=_ASIDE).encode(y=y)
        )
    return alt.LayerChart(layer=marks, title=_title(target))


def _blocks_in_words(rows: Table, target: str) -> str:
    worst = worst_of(rows)
    return f"{phrase_at_start(target)}: the largest effect is that of layer {worst.layer} ({worst.effect:+.3f})."


def _importance(result: Result, heads: Table, model: str) -> alt.ConcatChart | None:
    importance, agreement = (rows_of(result.tables, name) for name in ("importance", "agreement"))
    if importance is None or agreement is None:
        return None
    # Other targets have gradients of their own, of which the table has the correlation alone.
    target = str(heads["target"].iloc[0])
    effects = heads[heads["target"] == target].assign(head=lambda rows: rows["head"].astype(int))
    rows = effects.merge(importance.astype({"head": int}), on=["layer", "head"], suffixes=("", "_gradient"))
    rows = rows.assign(
        size=rows["effect"].abs(),
        # The interval of a size: it ends at 0 where the effect may have either sign.
        size_low=[
            0.0 if low < 0 < high else min(abs(low), abs(high))
            for low, high in zip(rows["low"], rows["high"], strict=True)
        ],
        size_high=rows[["low", "high"]].abs().max(axis=1),
    )
    correlations = agreement[(agreement["target"] == target) & (agreement["of"] == "model")]
    correlations = correlations[correlations["importance"] == NORMALISED].set_index("how")
    panels = [
        _scatter(
            rows[rows["how"] == how], target, f"{_HOWS[str(how)]}: rho {number(row['rho'], row['low'], row['high'])}"
        )
        for how, row in correlations.iterrows()
    ]
    rhos = ", ".join(f"{_HOWS[str(how)]} {number(row['rho'])}" for how, row in correlations.iterrows())
    return alt.concat(
        *panels,
        columns=2,
        spacing=30,
        title=alt.TitleParams(
            f"Importance by gradient against true effect: heads of {model}",
            subtitle=f"{_title(target)}; lines: 95 % intervals; rho: Spearman's rank correlation",
            offset=12,
        ),
        description=f"Rank correlation of importance by gradient and size of the effect on {target}: {rhos}.",
        usermeta={"panelWidth": PANEL_WIDTH},
    )


def _title(target: str) -> str:
    phrase = phrase_at_start(target).removeprefix("The ")
    return phrase[0].upper() + phrase[1:]


def _scatter(rows: Table, target: str, title: str) -> alt.LayerChart:
    across, up = "importance (layer-normalised gradient)", f"size of the effect ({_UNITS.get(target, _POINTS)})"
    x = alt.X("importance:Q", title=across, scale=alt.Scale(domain=[0, 1]))
    y = alt.Y("size:Q", title=up, axis=alt.Axis(tickCount=5))
    tooltip = [
        alt.Tooltip("layer:Q"),
        alt.Tooltip("head:Q"),
        *number_tips("importance", "effect", "low", "high", form=".4f"),
    ]
    base = alt.Chart(rows, width=PANEL_WIDTH, height=240).encode(tooltip=tooltip)
    depth = alt.Color(
        "layer:Q",
        scale=alt.Scale(range=list(_DEPTHS), interpolate="lab"),
        legend=alt.Legend(title="layer", format="d", tickMinStep=1, titleFontWeight="normal"),
    )
    lines = {"strokeWidth": 1, "opacity": 0.45}
    return alt.LayerChart(
        layer=[
            base.mark_rule(**lines).encode(x=x, y=alt.Y("size_low:Q", title=up), y2=alt.Y2("size_high:Q"), color=depth),
            base.mark_rule(**lines).encode(
                x=alt.X("low_gradient:Q", title=across), x2=alt.X2("high_gradient:Q"), y=y, color=depth
            ),
            base.mark_point(filled=True, size=55, opacity=0.9).encode(x=x, y=y, color=depth),
        ],
        title=title,
    )
