"""Results drawn as charts: one module per question, one look for all. Nothing is computed here."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
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
    if module is None:
        return {}
    from altair.utils.schemapi import debug_mode

    # Charts are validated when they become JSON; validating each part as it is made takes a fifth longer.
    with debug_mode(False):
        charts = module.draw(result)
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


_SPACE = "{http://www.w3.org/2000/svg}"
_UNUSED = ("role", "class", "pointer-events", "aria-hidden", "aria-label", "aria-roledescription")
"""Attributes that change nothing one sees; the words of a chart are beside it on the page."""
_PLAIN = {"opacity": "1", "transform": "translate(0,0)"}
"""Attributes that say what holds anyway; neither is inherited."""
_SHARED = ("font-family", "font-size")
"""Attributes of text that are written once, if most of the text has them."""
_PLACES = ("d", "transform", "x", "y", "x1", "x2", "y1", "y2", "width", "height", "cx", "cy", "r")
_NUMBER = re.compile(r"-?\d*\.\d{2,}(?:e-?\d+)?|-?\d+(?:\.\d+)?e-\d+")


def smaller_svg(svg: str) -> str:
    """The same picture in a third of the bytes, for an <img>, which cannot use what Vega writes for scripts.

    Places are to a tenth of a pixel; attributes for scripts and screen readers and empty groups are left out.

    Example:
        >>> space = "http://www.w3.org/2000/svg"
        >>> drawn = '<g class="a" role="b"><path d="M1.2345,0L2.9999,4" stroke="#000"></path><g></g></g>'
        >>> smaller_svg(f'<svg xmlns="{space}">{drawn}</svg>')
        '<svg xmlns="http://www.w3.org/2000/svg"><path d="M1.2,0L3,4" stroke="#000" /></svg>'
    """
    ET.register_namespace("", _SPACE[1:-1])
    try:
        # Made by Vega on this machine, or compared with its hash: no entities to expand.
        root = ET.fromstring(svg)  # noqa: S314
    except ET.ParseError:
        return svg
    for name in _SHARED:
        _share(root, name)
    _strip(root)
    return ET.tostring(root, encoding="unicode")


def _share(root: ET.Element, name: str) -> None:
    """Put an attribute's most frequent value on the root, whence text inherits it."""
    texts = list(root.iter(f"{_SPACE}text"))
    if not texts or any(name not in text.attrib for text in texts):
        return
    ((common, _),) = Counter(text.attrib[name] for text in texts).most_common(1)
    root.set(name, common)
    for text in texts:
        if text.attrib[name] == common:
            del text.attrib[name]


def _strip(element: ET.Element) -> None:
    for name in _UNUSED:
        element.attrib.pop(name, None)
    for name, plain in _PLAIN.items():
        if element.get(name) == plain:
            del element.attrib[name]
    for name in _PLACES:
        if name in element.attrib:
            element.attrib[name] = _NUMBER.sub(_rounded, element.attrib[name])
    visible: list[ET.Element] = []
    for child in element:
        _strip(child)
        if not _is_seen(child):
            continue
        # A group without attributes is its children.
        visible += list(child) if child.tag == f"{_SPACE}g" and not child.attrib else [child]
    element[:] = visible


def _is_seen(element: ET.Element) -> bool:
    if element.get("display") == "none" or (element.tag == f"{_SPACE}g" and not len(element)):
        return False
    if element.tag != f"{_SPACE}path":
        return True
    # Vega writes both on every path that is painted.
    return bool(element.get("d")) and ("fill" in element.attrib or "stroke" in element.attrib)


def _rounded(number: re.Match[str]) -> str:
    rounded = f"{float(number[0]):.1f}".removesuffix(".0")
    return "0" if rounded == "-0" else rounded
