"""Every picture of README and documentation is made by one script, from real runs."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from lamina.figures import captions_of
from lamina.framework.registry import get_analysis

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def pictures():
    spec = spec_from_file_location("pictures", DOCS / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_picture_that_is_shown_has_its_maker(pictures):
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    shown = {name for page in pages for name in re.findall(r"images/([\w/-]+)\.png", page.read_text(encoding="utf-8"))}
    assert shown == {*pictures.PAGES, *pictures.CHARTS}
    assert shown == {str(each.relative_to(DOCS / "images").with_suffix("")) for each in DOCS.rglob("images/**/*.png")}


def test_charts_of_studies_are_charts_of_their_analyses(pictures):
    for name, (analysis, chart) in pictures.CHARTS.items():
        assert chart in captions_of(get_analysis(analysis).name), name
