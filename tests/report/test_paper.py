"""Figures for a paper: as wide as a column, in both formats, named as on the page."""

from __future__ import annotations

import re

import pytest

from lamina.errors import InputError
from lamina.report.page import COLUMN, export_figures


@pytest.fixture
def report_folder(make_geometry, tmp_path):
    make_geometry().save(tmp_path / "results" / "geometry")
    return tmp_path


def test_a_figure_is_as_wide_as_a_column_in_both_formats(report_folder, drawn_charts):
    svg, pdf = export_figures(report_folder, ["geometry-layers"])
    assert [path.relative_to(report_folder).as_posix() for path in (svg, pdf)] == [
        "paper/geometry-layers.svg", "paper/geometry-layers.pdf",
    ]  # fmt: skip
    width = re.search(r'<svg[^>]* width="([\d.]+)cm"', svg.read_text(encoding="utf-8"))
    assert width is not None
    assert 0.6 * COLUMN <= float(width[1]) <= COLUMN + 0.01
    content = pdf.read_bytes()
    assert content.startswith(b"%PDF")
    box = re.search(rb"/MediaBox \[\s*0 0 ([\d.]+)", content)
    assert box is not None
    assert float(box[1]) / 72 * 2.54 == pytest.approx(float(width[1]), abs=0.05)


def test_an_unknown_figure_is_refused_with_those_that_there_are(report_folder):
    with pytest.raises(InputError, match="has no figure 'heads-arcs'; it has: geometry-layers"):
        export_figures(report_folder, ["heads-arcs"])
