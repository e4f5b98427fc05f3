"""Draws sentence lengths."""

from __future__ import annotations

import altair as alt

from lamina import Result

CAPTIONS = {"lengths": "How many sentences have how many words."}


def draw(result: Result) -> dict[str, alt.TopLevelMixin]:
    """One bar per length."""
    bars = alt.Chart(result.tables["lengths"], description="Sentences by length.").mark_bar()
    return {"lengths": bars.encode(x="words:Q", y="sentences:Q")}
