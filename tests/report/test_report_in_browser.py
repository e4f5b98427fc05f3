"""The page in a real browser: charts alive, nothing fetched, a phone's width, print, no scripts, the dark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lamina.report import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(make_geometry, tmp_path_factory, drawn_charts) -> Path:
    folder = tmp_path_factory.mktemp("report")
    return write_report([make_geometry(model="<b>minilm</b>")], folder, title="minilm on ewt (dev)")


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
        page.wait_for_selector(".drawn .live svg")
        assert not page.locator(".still").is_visible()
        page.locator(".live .mark-symbol.role-mark path").nth(6).hover()
        page.wait_for_selector("#vg-tooltip-element.visible")
        assert "<b>minilm</b>" in page.locator("#vg-tooltip-element").inner_text()
        assert not logged
        assert [url for url in requested if not url.startswith("data:")] == [report.as_uri()]


def test_a_table_downloads_as_csv(report, browser):
    with browser(report) as (page, _, _):
        page.locator("details.table summary").click()
        with page.expect_download() as download:
            page.locator("details.table a[download]").click()
        assert download.value.suggested_filename == "geometry-layers.csv"
        text = download.value.path().read_text(encoding="utf-8")
        assert text.startswith("model,layer,measure,value,low,high\n")


def test_a_phone_never_scrolls_sideways(report, browser):
    with browser(report, width=375) as (page, _, _):
        page.wait_for_selector(".drawn .live svg")
        for details in page.locator("main section > details > summary").all():
            details.click()
        assert page.evaluate("document.documentElement.scrollWidth") == 375
        assert page.locator(".live svg").first.bounding_box()["width"] <= 375


def test_print_shows_the_still_chart_and_what_was_folded(report, browser):
    with browser(report) as (page, _, _):
        page.wait_for_selector(".drawn .live svg")
        page.emulate_media(media="print")
        assert page.locator(".still").is_visible()
        assert not page.locator(".live").is_visible()
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("td").first.is_visible()
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert not page.locator("td").first.is_visible()


def test_without_scripts_the_still_chart_stands(report, browser):
    with browser(report, scripts=False) as (page, _, _):
        assert page.locator(".drawn").count() == 0
        assert page.locator(".still").is_visible()
        assert page.locator(".still").bounding_box()["height"] > 300


def test_the_dark_keeps_charts_on_a_light_panel(report, browser):
    with browser(report, dark=True) as (page, _, _):
        page.wait_for_selector(".drawn .live svg")
        colours = [
            page.evaluate(f"getComputedStyle(document.querySelector('{part}')).backgroundColor")
            for part in ("body", ".chart")
        ]
        assert colours == ["rgb(22, 24, 27)", "rgb(255, 255, 255)"]
