"""How far heads look: one cell per head."""

from __future__ import annotations

import altair as alt

from lamina.figures.attention import head_grid
from lamina.figures.theme import attention_name, themed
from lamina.results import Result

CAPTIONS = {
    "distance": (
        "One cell per head: the mean distance in words between a word and what the head attends to; the table has "
        "the 95 % interval of each. Compare it with uniform attention over the same texts, in the subtitle: faint "
        "cells are heads that look nearby, strongly shaded ones heads that look far."
    ),
}
"""Chart -> how to read it."""


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """The chart `distance`."""
    table = result.tables["distance"]
    uniform = float(table["baseline"].iloc[0])
    about = f"{attention_name(result)} of {result.provenance.model['name']} on {result.provenance.corpus['name']}"
    title = alt.TitleParams(f"How far heads look: {about}", subtitle=f"words; under uniform attention {uniform:.1f}")
    most = max(uniform, float(table["value"].max()))
    grid = head_grid(table, alt.TitleParams(""), domain=(0, most), unit="mean distance in words", digits=1)
    ordered = table.sort_values("value").iloc[[0, -1]]
    ends = [f"{row.value:.1f} words (head {row.layer}-{row.head})" for row in ordered.itertuples()]
    description = f"Mean distance of attention by head: from {ends[0]} to {ends[1]}; uniform attention {uniform:.1f}."
    return {"distance": themed(alt.concat(grid, title=title, description=description))}
