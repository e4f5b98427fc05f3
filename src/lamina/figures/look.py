"""A sentence as some heads see it (figures 1 and 5 of the attention paper)."""

from __future__ import annotations

import math

import altair as alt

from lamina.figures.attention_lines import Panel, lines
from lamina.figures.probe_tables import Table
from lamina.figures.theme import themed
from lamina.results import Result

_HIDDEN = "attention to special tokens not shown"


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The chart `lines`: one panel a head."""
    heads, asked = result.tables["heads"], result.provenance.parameters
    panels = {
        (int(layer), int(head)): Panel(f"Head {layer}-{head}", _reason(why, value))
        for layer, head, why, value in heads.itertuples(index=False)
    }
    hidden = "" if asked["special"] else f"; {_HIDDEN}"
    chart = lines(
        result.tables["attention"],
        panels,
        focus=asked["focus"],
        title=f"Attention of {result.provenance.model['name']}, by {asked['level']}{hidden}",
        description=describe(result.tables["attention"], list(panels)),
    )
    return {"lines": themed(chart)}


def describe(table: Table, heads: list[tuple[int, int]]) -> str:
    """Each head's strongest lines in words."""
    sentences = []
    for layer, head in heads:
        own = table[(table["layer"] == layer) & (table["head"] == head)].nlargest(3, "weight")
        parts = [
            f"{one} to {other} {weight:.2f}"
            for one, other, weight in own[["from_word", "to_word", "weight"]].itertuples(index=False)
        ]
        sentences.append(f"Head {layer}-{head}: strongest {', '.join(parts)}.")
    return " ".join(sentences)


def _reason(why: str, value: float) -> str:
    return "" if math.isnan(value) else f"most: {why}, {value:.2f}"
