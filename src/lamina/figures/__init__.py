"""Results drawn as charts: one module a question, one look for all. Nothing is computed here."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair

    from lamina.results import Result

__all__ = ["chart_script", "draw", "spec_of", "to_svg"]

_DRAWERS = {
    "attention": "lamina.figures.attention",
    "compare": "lamina.figures.compare",
    "contextualize": "lamina.figures.contextualize",
    "corefheads": "lamina.figures.corefheads",
    "diff": "lamina.figures.diff",
    "finetune": "lamina.figures.finetune",
    "geometry": "lamina.figures.geometry",
    "headmap": "lamina.figures.headmap",
    "heads": "lamina.figures.heads",
    "look": "lamina.figures.look",
    "neighbours": "lamina.figures.neighbours",
    "parse": "lamina.figures.parse",
    "phases": "lamina.figures.phases",
    "probe": "lamina.figures.probe",
    "token_map": "lamina.figures.token_map",
    "trace": "lamina.figures.traces",
}
"""Analysis -> the module whose `draw` draws it; imported when asked for, since altair is slow to import."""


def draw(result: Result) -> dict[str, altair.TopLevelMixin]:
    """Every chart of a result, by name; none where its analysis has no figure.

    Each chart carries a `description` in words, read aloud by screen readers.

    Example:
        >>> from lamina.results import Provenance, Result
        >>> draw(Result("counting", {}, Provenance({}, {}, {})))
        {}
    """
    if result.analysis not in _DRAWERS:
        return {}
    drawer: Callable[[Result], dict[str, altair.TopLevelMixin]] = import_module(_DRAWERS[result.analysis]).draw
    return drawer(result)


def spec_of(chart: altair.TopLevelMixin) -> dict[str, Any]:
    """The chart as a Vega-Lite specification that is JSON: what is no number is null, as browsers demand.

    Example:
        >>> import altair as alt
        >>> spec_of(alt.Chart(alt.Data(values=[{"x": float("nan")}])).mark_point())["data"]
        {'values': [{'x': None}]}
    """
    return json.loads(json.dumps(chart.to_dict()), parse_constant=lambda _: None)


def to_svg(chart: altair.TopLevelMixin | dict[str, Any]) -> str:
    """The chart, or its Vega-Lite specification, as an SVG image, made on this machine without the network.

    Example:
        >>> import altair as alt
        >>> dots = alt.Chart(alt.Data(values=[{"x": 1}])).mark_point().encode(x="x:Q")
        >>> to_svg(dots)[:4]
        '<svg'
    """
    import vl_convert

    spec = chart if isinstance(chart, dict) else spec_of(chart)
    return vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])


@cache
def chart_script() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that sets `window.vegaEmbed`, for pages without a network."""
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
