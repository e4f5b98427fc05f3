"""Surprisal of words by their frequency, length and part of speech: the model beside its twin and n-gram models."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lamina.analyses.behaviour.surprisal import is_masked
from lamina.figures._marks import interval_line, number_tips
from lamina.figures.theme import series, themed
from lamina.results import Result

FEWEST = 20
"""Words that a group needs to be drawn."""
CAPTIONS = {
    "surprisal": (
        "Mean surprisal of words in bits, by how often they occur in the training texts, by their length and, where "
        "the corpus says, by their part of speech; bars: 95 % intervals over documents. By frequency and length only "
        f"words with a letter are counted; groups of fewer than {FEWEST} words are not drawn. Compare the model with "
        "n-gram models, which have counted the training texts, and with its twin with random weights, whose words "
        "differ only in their number of tokens. A masked model's is pseudo-surprisal: it sees the words on both "
        "sides, n-gram models see those before."
    ),
}
"""Chart -> how to read it."""

PANEL_WIDTH = 400
_PANELS = {
    "frequency": ("By frequency", "occurrences in the training texts, upper and lower case together"),
    "length": ("By length", "characters"),
    "pos": ("By part of speech", "tag, least surprising to the model first"),
}
"""What words are grouped by -> the panel's title, and that of its axis."""


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The chart `surprisal`: one panel per property of words, one series per model."""
    bands = result.tables["bands"]
    drawn = pd.DataFrame(bands[bands["words"] >= FEWEST]).rename(columns={"surprisal": "value"})
    names = list(dict.fromkeys(bands["model"]))
    panels = [_panel(by, pd.DataFrame(rows), names) for by in _PANELS if len(rows := drawn[drawn["by"] == by])]
    corpus = result.provenance.corpus
    split = f" ({corpus['split']})" if corpus.get("split") else ""
    subtitle = "bars: 95 % intervals over documents"
    if is_masked(result):
        subtitle += f"; pseudo-surprisal: {names[0]} sees the words on both sides, n-gram models those before"
    title = alt.TitleParams(f"{names[0]} on {corpus['name']}{split}", subtitle=subtitle)
    chart = alt.concat(*panels, columns=2, spacing=28, title=title, description=describe(bands))
    # Panels have groups of their own, and so different room for each.
    chart = chart.resolve_scale(x="independent", xOffset="independent", y="independent")
    return {"surprisal": themed(chart.properties(usermeta={"panelWidth": PANEL_WIDTH}))}


def describe(bands: pd.DataFrame) -> str:
    """The chart in words: each model's surprisal of the rarest and the most frequent words.

    Example:
        >>> rows = [("tiny", "frequency", "0", 30, 14.0), ("tiny", "frequency", "1-9", 50, 9.0)]
        >>> describe(pd.DataFrame(rows, columns=["model", "by", "band", "words", "surprisal"]))
        'Mean surprisal by occurrences in the training texts: tiny 14.0 bits at 0, 9.0 at 1-9.'
    """
    drawn = bands[(bands["by"] == "frequency") & (bands["words"] >= FEWEST)]
    parts = []
    for name, rows in drawn.groupby("model", sort=False):
        first, last = rows.iloc[0], rows.iloc[-1]
        parts.append(
            f"{name} {first['surprisal']:.1f} bits at {first['band']}, {last['surprisal']:.1f} at {last['band']}"
        )
    return f"Mean surprisal by occurrences in the training texts: {'; '.join(parts) or 'too few words'}."


def _panel(by: str, rows: pd.DataFrame, names: list[str]) -> alt.LayerChart:
    look, (title, axis) = series(names), _PANELS[by]
    order = list(dict.fromkeys(rows["band"]))
    if by == "pos":
        model_rows = rows[rows["model"] == names[0]].sort_values("value")
        order = list(model_rows["band"])
    x = alt.X("band:N", sort=order, title=axis, axis=alt.Axis(labelAngle=-45 if by == "pos" else 0, grid=False))
    # Side by side: intervals would hide each other.
    aside = alt.XOffset("model:N", sort=names, scale=alt.Scale(domain=names, paddingOuter=0.3))
    value, low = (
        alt.Y(f"{name}:Q", title="mean surprisal (bits)", scale=alt.Scale(zero=True)) for name in ("value", "low")
    )
    tooltip = [
        alt.Tooltip("model:N"),
        alt.Tooltip("band:N", title=by),
        alt.Tooltip("words:Q"),
        *number_tips(form=".2f"),
    ]
    base = alt.Chart(rows, width=PANEL_WIDTH, height=230).encode(x=x, xOffset=aside, color=look.colour)
    return alt.LayerChart(
        layer=[
            interval_line(base, low, opacity=0.6),
            base.mark_point(filled=True, size=45, opacity=1).encode(y=value, shape=look.shape, tooltip=tooltip),
        ],
        title=title,
    )
