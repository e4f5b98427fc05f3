"""Results drawn as charts: one module per question, one look for all. Nothing is computed here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair

    from lamina.results import Result

__all__ = [
    "captions_for",
    "captions_of",
    "chart_script",
    "colour_tokens",
    "draw",
    "drawing_script",
    "smaller_svg",
    "spec_of",
    "to_svg",
    "words_of",
]


def draw(result: Result) -> dict[str, altair.TopLevelMixin]:
    """Every chart of a result, by name; none where its analysis has no figure.

    A chart's title states what was found, where that was tested. Each chart carries a `description` in words, read
    aloud by screen readers.

    Example:
        >>> from lamina.results import Provenance, Result
        >>> draw(Result("counting", {}, Provenance({}, {}, {})))
        {}
    """
    from lamina.figures.conclusions import conclusion, state

    module = _drawer(result.analysis)
    charts = module.draw(result) if module else {}
    return {name: state(chart, conclusion(result, name)) for name, chart in charts.items()}


def captions_of(analysis: str) -> Mapping[str, str]:
    """Chart -> how to read it: what is plotted, what the interval is, what to compare it with.

    Example:
        >>> list(captions_of("geometry"))
        ['measure', 'layers']
    """
    module = _drawer(analysis)
    return module.CAPTIONS if module else {}


def captions_for(result: Result) -> dict[str, str]:
    """Chart -> how to read it, for this very result: with what its tasks are, what is not drawn, and warnings.

    Example:
        >>> from lamina.results import Provenance, Result
        >>> result = Result("geometry", {}, Provenance({}, {}, {}, warnings=("Small sample: 9 texts.",)))
        >>> captions_for(result)["layers"].endswith("Small sample: 9 texts.")
        True
    """
    try:
        task_definitions, left_out = _own_tasks(result), _not_drawn(result)
    except (LookupError, TypeError, ValueError, AttributeError):
        # Tables or provenance are not as the analysis writes them; drawing the charts reports it.
        task_definitions, left_out = [], {}
    return {
        name: " ".join([reading, *task_definitions, *filter(None, [left_out.get(name)]), *result.provenance.warnings])
        for name, reading in captions_of(result.analysis).items()
    }


def _own_tasks(result: Result) -> list[str]:
    """What tasks are that no catalogue explains."""
    tasks = result.provenance.corpus.get("tasks", {}).values()
    return [f"{task['in_words']}." for task in tasks if task["definition"] == "own"]


def _not_drawn(result: Result) -> Mapping[str, str]:
    """Chart -> what it leaves out of this result."""
    say = getattr(_drawer(result.analysis), "not_drawn", None)
    return {} if say is None else say(result)


def _drawer(analysis: str) -> ModuleType | None:
    """The module that draws an analysis; altair is slow to import, so only when asked for."""
    from lamina.framework.outline import outline
    from lamina.framework.registry import names

    module_name = f"{__name__}.{analysis}"
    if find_spec(module_name) is not None:
        return import_module(module_name)
    if analysis not in names():
        return None
    charts = outline(analysis).charts
    return import_module(charts) if charts != module_name else None


def spec_of(chart: altair.TopLevelMixin) -> dict[str, Any]:
    """The chart as a Vega-Lite specification that is JSON: NaN becomes null, as browsers demand.

    Example:
        >>> import altair as alt
        >>> spec_of(alt.Chart(alt.Data(values=[{"x": float("nan")}])).mark_point())["data"]
        {'values': [{'x': None}]}
    """
    return json.loads(json.dumps(chart.to_dict()), parse_constant=lambda _: None)


def words_of(spec: Mapping[str, Any]) -> dict[str, str]:
    """Titles and descriptions in a chart's specification, by where they stand in it.

    Example:
        >>> words_of({"title": {"text": "Layers", "subtitle": ["500 samples"]}, "layer": [{"title": "F1"}]})
        {'title': 'Layers; 500 samples', 'layer 0 title': 'F1'}
    """
    return dict(_words(spec, ""))


def _words(part: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(part, list):
        for index, inner in enumerate(part):
            yield from _words(inner, f"{place}{index} ")
    elif isinstance(part, Mapping):
        for name, inner in part.items():
            if name in ("title", "description"):
                lines = [inner.get("text"), inner.get("subtitle")] if isinstance(inner, Mapping) else [inner]
                wording = [line for text in lines for line in (text if isinstance(text, list) else [text])]
                if words := "; ".join(line for line in wording if isinstance(line, str)):
                    yield f"{place}{name}", words
            elif name not in ("data", "datasets"):
                yield from _words(inner, f"{place}{name} ")


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


def smaller_svg(svg: str) -> str:
    """The same picture in a third of the bytes, for an <img>: without what scripts and screen readers use."""
    from lamina.figures._still import smaller

    return smaller(svg)


@cache
def chart_script() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that sets `window.vegaEmbed`, for pages without a network."""
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


@cache
def colour_tokens() -> str:
    """The colours that report and app share, as CSS custom properties for light, dark and print.

    Example:
        >>> "--paper" in colour_tokens()
        True
    """
    return files(__name__).joinpath("tokens.css").read_text(encoding="utf-8")


@cache
def drawing_script() -> str:
    """What report and app do alike with a chart before and after it is drawn, as a JavaScript module.

    Example:
        >>> "export function onPaper" in drawing_script()
        True
    """
    return files(__name__).joinpath("drawing.js").read_text(encoding="utf-8")
