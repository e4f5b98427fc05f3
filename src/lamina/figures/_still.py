"""Still images made smaller: what Vega writes into an SVG for scripts and screen readers, an <img> cannot use."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter

_SPACE = "{http://www.w3.org/2000/svg}"
_UNUSED = ("role", "class", "pointer-events", "aria-hidden", "aria-label", "aria-roledescription")
"""Attributes that change nothing one sees; the words of a chart are beside it on the page."""
_PLAIN = {"opacity": "1", "transform": "translate(0,0)"}
"""Attributes that say what holds anyway; neither is inherited."""
_SHARED = ("font-family", "font-size")
"""Attributes of text that are written once, if most of the text has them."""
_PLACES = ("d", "transform", "x", "y", "x1", "x2", "y1", "y2", "width", "height", "cx", "cy", "r")
_NUMBER = re.compile(r"-?\d*\.\d{2,}(?:e-?\d+)?|-?\d+(?:\.\d+)?e-\d+")


def smaller(svg: str) -> str:
    """The same picture in fewer bytes: places to a tenth of a pixel, no attributes for scripts, no empty groups.

    Example:
        >>> space = "http://www.w3.org/2000/svg"
        >>> drawn = '<g class="a" role="b"><path d="M1.2345,0L2.9999,4" stroke="#000"></path><g></g></g>'
        >>> smaller(f'<svg xmlns="{space}">{drawn}</svg>')
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
