"""Figures of a report for a paper: as wide as a column, as PDF and as SVG."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lamina.errors import InputError
from lamina.figures import draw, spec_of, to_svg
from lamina.files.writing import write_bytes, write_text
from lamina.report.chapters import at_a_glance
from lamina.results import Result
from lamina.results.folder import HEAD

COLUMN = 8.6
"""Centimetres of a column in most two-column papers."""
FOLDER = "paper"
"""Beside the page."""
_PIXELS = 96 / 2.54
"""Per centimetre."""
_SCALE = 0.85
"""Of text: 12 pixels become 7.7 points."""
_TRIES = 4
_NARROWEST = 60
_MANY = 3
"""Panels that stand below each other."""
_BOTH = re.compile(r'<svg[^>]*? width="([\d.]+)" height="([\d.]+)"')
_SIZE = re.compile(r'<svg[^>]*? width="([\d.]+)"')


def export_figures(out: Path, names: Sequence[str]) -> list[Path]:
    """Write figures of the report in `out`, named as on its page, to `out/paper`; return their paths.

    A name is an analysis, a dash and a chart (`heads-arcs`), or `overview` for the first figure. Panels stand below
    each other; titles are left to the paper's caption.
    """
    specs = dict(_figures(out))
    unknown = [name for name in names if name not in specs]
    if unknown:
        raise InputError(f"the report has no figure {', '.join(map(repr, unknown))}; it has: {', '.join(specs)}")
    paths = []
    for name in names:
        spec = at_column_width(specs[name])
        svg, pdf = out / FOLDER / f"{name}.svg", out / FOLDER / f"{name}.pdf"
        svg.parent.mkdir(parents=True, exist_ok=True)
        image = to_svg(spec)
        write_text(svg, _sized(image, "cm", 1))
        # Without a unit the converter takes points, of which an inch has 72.
        write_bytes(pdf, _pdf(_sized(image, "", 72 / 2.54)))
        paths += [svg, pdf]
    return paths


def at_column_width(spec: Mapping[str, Any], width: float = COLUMN) -> dict[str, Any]:
    """The chart laid out for a column of `width` centimetres: as many pixels as that is, at the size of its text."""
    layout: dict[str, Any] = copy.deepcopy({name: value for name, value in spec.items() if name != "title"})
    room = width * _PIXELS / _SCALE
    narrow = (layout.get("usermeta") or {}).get("narrow")
    if narrow and room < narrow["room"]:
        layout["concat"] = [layout["concat"][place] for place in narrow["panels"]]
    panels = layout.get("concat", [layout])
    if (layout.get("usermeta") or {}).get("oneRow"):
        layout["columns"] = len(panels)
    elif "concat" in layout:
        # Many panels in one column would be longer than a page.
        layout["columns"] = 1 if len(panels) <= _MANY else 2
    across = layout.get("columns", 1)
    for _ in range(_TRIES):
        excess = _width(layout) - room
        if excess <= 1:
            break
        widest = max(_panel_width(panel) for panel in panels)
        ratio = max((widest - excess / across) / widest, _NARROWEST / widest) if widest else 1.0
        for panel in panels:
            _narrow(panel, ratio, shape=bool((layout.get("usermeta") or {}).get("keepShape")))
    return layout


def _figures(out: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    folders = sorted(path.parent for path in (out / "results").rglob(HEAD))
    results = [Result.load(folder) for folder in folders]
    for figure in at_a_glance(results):
        yield "overview", dict(figure.spec)
    for result, folder in zip(results, folders, strict=True):
        for name, chart in draw(result).items():
            yield f"{folder.name}-{name}", spec_of(chart)


def _views(view: Mapping[str, Any]) -> list[dict[str, Any]]:
    return next((view[kind] for kind in ("layer", "concat", "hconcat", "vconcat") if kind in view), [])


def _panel_width(view: Mapping[str, Any]) -> float:
    width = view.get("width")
    return width if isinstance(width, int | float) else max([0.0, *map(_panel_width, _views(view))])


def _narrow(view: dict[str, Any], ratio: float, *, shape: bool) -> None:
    """Make a view and all inside it narrower, in place."""
    for name in ("width", "height") if shape else ("width",):
        if isinstance(view.get(name), int | float):
            view[name] = max(1, round(view[name] * ratio))
    for inner in _views(view):
        _narrow(inner, ratio, shape=shape)


def _width(spec: dict[str, Any]) -> float:
    match = _SIZE.search(to_svg(spec))
    return float(match[1]) if match else 0.0


def _sized(svg: str, unit: str, per_centimetre: float) -> str:
    """The image as wide as a column; what cannot be laid out as narrow, as a sentence, is made smaller as a whole."""
    size = _BOTH.search(svg)
    if size is None:
        return svg
    across, down = float(size[1]), float(size[2])
    scale = min(_SCALE, COLUMN * _PIXELS / across) / _PIXELS * per_centimetre
    named = f'width="{across * scale:.2f}{unit}" height="{down * scale:.2f}{unit}"'
    return svg.replace(f'width="{size[1]}" height="{size[2]}"', named, 1)


def _pdf(svg: str) -> bytes:
    import vl_convert

    return vl_convert.svg_to_pdf(svg)
