"""Every analysis has a page of methods, and all such pages have the same headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lamina.framework.registry import all_analyses

HEADINGS = ["Question", "Method", "How to read it", "What can go wrong", "Settings", "Cites"]
FOLDER = Path(__file__).parents[1] / "docs" / "methods"
MARK = re.compile(r"<!-- analysis: (\w+) -->")
PAGES = {
    path.name: text for path in sorted(FOLDER.glob("*.md")) if MARK.search(text := path.read_text(encoding="utf-8"))
}


def sections(page: str) -> dict[str, str]:
    """Heading -> text of a page's sections; what stands in code is none."""
    outside = re.sub(r"^```.*?^```", "", PAGES[page], flags=re.S | re.M)
    parts = re.split(r"^## (.+)$", outside, flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("page", PAGES)
def test_pages_have_the_same_headings_with_something_below_each(page):
    found = sections(page)
    assert list(found) == HEADINGS
    assert all(len(text.split()) >= 3 for text in found.values())


@pytest.mark.parametrize("page", PAGES)
def test_the_settings_are_those_of_its_analyses_and_so_are_the_papers(page):
    found = sections(page)
    here = [analysis for analysis in all_analyses() if analysis.name in MARK.findall(found["Settings"])]
    assert len(here) == len(MARK.findall(PAGES[page]))
    cited = {paper for analysis in here for paper in analysis.cites}
    assert {paper for paper in cited if paper not in found["Cites"]} == set()


def test_every_analysis_is_on_one_page():
    marks = [name for text in PAGES.values() for name in MARK.findall(text)]
    assert sorted(marks) == sorted(analysis.name for analysis in all_analyses() if analysis.name in marks)
    assert {analysis.name for analysis in all_analyses()} - set(marks) == set()
    assert len(marks) == len(set(marks))
