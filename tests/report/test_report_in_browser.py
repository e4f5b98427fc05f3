"""The page in a real browser: charts alive, nothing fetched, a phone's width, print, no scripts, the dark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import altair as alt
import pytest

from lamina.figures import draw
from lamina.report import chapters, write_report
from lamina.results import Provenance, Result
from tests.report.glance import at_a_glance_results

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(make_geometry, tmp_path_factory, drawn_charts) -> Path:
    """A page with the first screen's figures and one chapter."""
    folder = tmp_path_factory.mktemp("report")
    results = [make_geometry(model="<b>minilm</b>"), *at_a_glance_results()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chapters, "draw", lambda result: draw(result) if result.analysis == "geometry" else {})
        return write_report(results, folder, title="minilm on ewt (dev)")


@pytest.fixture(scope="module")
def context(chromium, tmp_path_factory):
    """One Chromium for all pages that need no other one: it takes longer to start than a page does to load."""
    with chromium(tmp_path_factory.mktemp("profile")) as context:
        yield context


@pytest.fixture
def browser(context):
    """Opens a page of its own and keeps what it logged and asked for."""

    @contextmanager
    def open_page(
        path: Path, *, width: int = 1100, dark: bool = False, scripts: bool = True
    ) -> Iterator[tuple[Page, list[str], list[str]]]:
        logged: list[str] = []
        requested: list[str] = []
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme="dark" if dark else "light")
        if not scripts:
            context.new_cdp_session(page).send("Emulation.setScriptExecutionDisabled", {"value": True})
        page.on("console", lambda message: logged.append(message.text))
        page.on("pageerror", lambda error: logged.append(str(error)))
        page.on("request", lambda request: requested.append(request.url))
        page.goto(path.as_uri())
        yield page, logged, requested
        page.close()

    return open_page


def test_charts_are_alive_and_nothing_is_fetched(report, browser):
    with browser(report) as (page, logged, requested):
        chart = seen(page, "geometry-layers")
        assert not page.locator("#geometry-layers .still").is_visible()
        chart.locator(".mark-symbol.role-mark path").nth(6).hover()
        page.wait_for_selector("#vg-tooltip-element.visible")
        assert "<b>minilm</b>" in page.locator("#vg-tooltip-element").inner_text()
        assert not logged
        beside = report.parent.as_uri()
        assert all(url.startswith(("data:", f"{beside}/index.html", f"{beside}/figures/")) for url in requested)


def seen(page: Page, figure: str) -> Locator:
    """The chart of a figure, once it is drawn."""
    page.evaluate("id => document.getElementById(id).scrollIntoView({behavior: 'instant', block: 'center'})", figure)
    page.wait_for_selector(f"#{figure} .chart[data-ready] svg")
    return page.locator(f"#{figure} .live")


def test_a_page_is_light_and_soon_there(report, browser):
    assert report.stat().st_size < 2_000_000
    with browser(report) as (page, _, _):
        page.wait_for_selector("#overview .drawn")
        assert page.evaluate("document.querySelectorAll('*').length") < 3000
        loaded = page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
        assert loaded < 5000  # a second on a free machine


def test_the_first_figure_has_abilities_as_lanes_and_heads_at_their_layer(report, browser):
    with browser(report, width=1280) as (page, _, _):
        chart = seen(page, "overview-figure")
        words = chart.locator(".mark-text text").all_text_contents()
        assert "Part of speech" in words
        assert any(word.startswith("F1 .80") for word in words)
        assert page.locator("p.summary").inner_text().startswith("It was not tested whether a head finds")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 768, 1280, 1920])
def test_every_chart_fits_its_card(report, browser, width, dark):
    with browser(report, width=width, dark=dark) as (page, logged, _):
        page.evaluate("for (const fold of document.querySelectorAll('details.more')) fold.open = true")
        figures = page.evaluate("[...document.querySelectorAll('figure')].map((each) => each.id)")
        assert len(figures) == 2
        for figure in figures:
            chart = seen(page, figure)
            card, drawn = page.locator(f"#{figure} .chart").bounding_box(), chart.locator("svg").first.bounding_box()
            assert card is not None
            assert drawn is not None
            assert drawn["x"] >= card["x"]
            assert drawn["x"] + drawn["width"] <= card["x"] + card["width"] + 1
            # The card is filled, but for its padding.
            assert drawn["width"] > 0.85 * card["width"] - 22
            assert page.evaluate(OUTSIDE, figure) == 0
            assert page.evaluate(COLLIDING, figure) == 0
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert not logged


def test_a_narrow_page_leaves_out_columns_and_says_so(browser, tmp_path, monkeypatch):
    """Nine columns of words have no room on a phone: the first, the last and some between are shown."""
    columns = [f"layer {number}" for number in range(9)]
    rows = [{"column": name, "rank": 1, "word": f"word {name}"} for name in columns]
    base = alt.Chart(alt.Data(values=rows), width=828, height=30).encode(
        x=alt.X("column:N", scale=alt.Scale(domain=columns)), y=alt.Y("rank:O"), text="word:N"
    )
    meta = {"columns": {"field": "column", "width": 70}}
    words = base.mark_text(limit=84).transform_calculate(shade="'#0072b2'").encode(fill=alt.Fill("shade:N", scale=None))
    grid = alt.concat(alt.layer(words), title="Words", description="Words.", usermeta=meta)
    monkeypatch.setattr(chapters, "draw", lambda result: {"grid": grid})
    page_file = write_report([Result("demo", {}, Provenance({"name": "m"}, {"name": "c"}, {}))], tmp_path, title="t")
    for width, shown, colour in ((360, 3, "#0072b2"), (1280, 9, "#4aa3e0")):
        with browser(page_file, width=width, dark=width > 360) as (page, logged, _):
            page.evaluate("for (const fold of document.querySelectorAll('details.more')) fold.open = true")
            chart = seen(page, "demo-grid")
            words = chart.locator(".mark-text.role-mark text")
            assert words.count() == shown
            # Colours in expressions are those of the page too.
            assert words.first.get_attribute("fill") == colour
            assert page.evaluate(COLLIDING, "demo-grid") == 0
            told = page.evaluate("getComputedStyle(document.querySelector('#demo-grid .chart'), '::after').content")
            assert ("A wider screen" in told) == (width == 360)
            assert not logged


def test_a_chart_that_is_forgotten_keeps_its_place(report, browser):
    """A card that is as wide as its chart would collapse around nothing, and push what is below it away."""
    with browser(report, width=1920) as (page, _, _):
        seen(page, "geometry-layers")
        page.evaluate("document.querySelector('#geometry-layers .chart').classList.add('snug')")
        height = page.evaluate("document.getElementById('geometry-layers').offsetHeight")
        page.evaluate(
            "document.body.insertAdjacentHTML('beforeend', '<div id=end style=\\'margin-top:9000px\\'>.</div>')"
        )
        page.evaluate("document.getElementById('end').scrollIntoView({behavior: 'instant'})")
        page.wait_for_selector("#geometry-layers .chart:not([data-ready])", state="attached")
        assert page.evaluate("document.getElementById('geometry-layers').offsetHeight") == pytest.approx(height, abs=40)


OUTSIDE = """id => {
  const card = document.querySelector(`#${id} .chart`).getBoundingClientRect();
  const parts = [...document.querySelectorAll(`#${id} svg :is(text, path, rect, line)`)];
  const boxes = parts.map((part) => part.getBoundingClientRect()).filter((box) => box.width);
  return boxes.filter((box) => box.right > card.right + 1 || box.left < card.left - 1).length;
}"""
"""How many parts of a chart lie beside its card."""
COLLIDING = """id => {
  let found = 0;
  for (const group of document.querySelectorAll(`#${id} svg .mark-text.role-mark`)) {
    const texts = [...group.querySelectorAll("text")].filter((text) => getComputedStyle(text).visibility === "visible");
    const boxes = texts.filter((text) => text.textContent).map((text) => text.getBoundingClientRect());
    boxes.forEach((one, at) => boxes.slice(at + 1).forEach((two) => {
      found += one.left < two.right && two.left < one.right && one.top < two.bottom && two.top < one.bottom;
    }));
  }
  return found;
}"""
"""How many pairs of words or digits that a chart shows in its cells run into each other."""


def test_a_page_prints_on_few_sheets(report, browser):
    with browser(report) as (page, _, _):
        page.wait_for_selector("#overview .drawn")
        printed = page.pdf(prefer_css_page_size=True)
    # Overview, three chapters and an appendix: a chapter goes on where the last one ends.
    assert 2 <= len(re.findall(rb"/Type\s*/Page[^s]", printed)) <= 4


def test_a_table_downloads_as_csv(report, browser):
    with browser(report) as (page, _, _):
        table = page.locator("details.table").first
        table.locator("summary").click()
        with page.expect_download() as download:
            table.locator("a[download]").click()
        assert download.value.suggested_filename == "geometry-layers.csv"
        text = download.value.path().read_text(encoding="utf-8")
        assert text.startswith("model,layer,measure,value,low,high\n")


def test_print_shows_still_charts_and_what_was_folded(report, browser):
    with browser(report) as (page, _, _):
        seen(page, "geometry-layers")
        page.emulate_media(media="print")
        assert page.locator("#geometry-layers .still").is_visible()
        assert not page.locator("#geometry-layers .live").is_visible()
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator(".method").first.is_visible()
        assert not page.locator(".scroll td").first.is_visible()
        assert page.locator(".provenance td").first.is_visible(), "provenance is a table"
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.emulate_media(media="screen")
        assert not page.locator(".method").first.is_visible()


def test_without_scripts_the_still_chart_stands(report, browser):
    with browser(report, scripts=False) as (page, _, _):
        assert page.locator(".drawn").count() == 0
        still = page.locator("#geometry-layers .still")
        still.scroll_into_view_if_needed()
        assert still.is_visible()
        page.wait_for_timeout(300)
        # A file beside the page, which its policy allows.
        drawn = page.locator("#overview-figure .still").screenshot()
        assert len(drawn) > 5000


def test_the_dark_is_dark_in_charts_too(report, browser):
    with browser(report, dark=True) as (page, _, _):
        chart = seen(page, "geometry-layers")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 27)"
        inks = {text.get_attribute("fill") for text in chart.locator(".role-title text, .role-axis-label text").all()}
        assert inks == {"#e8e8e8"}
        page.emulate_media(color_scheme="light")
        page.wait_for_selector("#geometry-layers .role-axis-label text[fill='#222222']")
