"""Axes that several figures share."""

from __future__ import annotations

import math

import altair as alt


def layer_axis(last: int, *, padding: float = 8, domain: tuple[float, float] | None = None) -> alt.X:
    """Layers from 0 to `last`, whole ones only, thinned out where they would not fit.

    Example:
        >>> layer_axis(24).to_dict()["axis"]["values"]
        [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24]
    """
    ticks = list(range(0, last + 1, math.ceil((last + 1) / 13)))
    return alt.X(
        "layer:Q",
        title="layer (0 = embeddings)",
        scale=alt.Scale(domain=list(domain or (0, max(last, 1))), padding=padding, nice=False),
        axis=alt.Axis(values=ticks, format="d", grid=False),
    )
