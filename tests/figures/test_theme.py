"""The look: series told apart without colour, text that holds on white."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import altair as alt

from lamina.figures import theme
from lamina.figures.theme import COLOURS, DASHES, FAINT, INK, SHAPES, series, themed


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast_on_white(colour: str) -> float:
    return 1.05 / (luminance(colour) + 0.05)


def test_text_passes_wcag_aa_on_white():
    assert contrast_on_white(INK) >= 4.5


def test_the_colours_of_the_first_series_pass_the_contrast_of_graphics():
    assert all(contrast_on_white(colour) >= 3 for colour in COLOURS[:3])


def test_series_differ_in_colour_dash_and_shape():
    assert len(set(COLOURS)) == len(set(DASHES)) == len(set(SHAPES)) == len(COLOURS)
    look = series(["a", "b"])
    ranges = [encoding.to_dict()["scale"]["range"] for encoding in look]
    assert all(first != second for first, second in ranges)


def test_more_series_than_colours_still_draw():
    scale = series([str(i) for i in range(9)]).colour.to_dict()["scale"]
    assert len(scale["range"]) == 9


def test_the_theme_is_of_the_chart_and_not_of_the_session():
    before = alt.theme.active
    spec = themed(alt.concat(alt.Chart(alt.Data(values=[])).mark_point())).to_dict()
    assert alt.theme.active == before
    assert spec["config"]["axis"]["gridColor"] == FAINT


def test_channels_are_given_as_objects():
    """For each one given as text, altair compares the schemas of all its classes: half the time of a chart."""
    given_as_text = [
        f"{path.name}:{part.lineno}"
        for path in sorted(Path(theme.__file__).parent.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.List | ast.keyword)
        for part in (node.elts if isinstance(node, ast.List) else [node.value])
        if isinstance(part, ast.Constant) and re.fullmatch(r"\w+:[NOQT]", str(part.value))
    ]
    assert given_as_text == []
