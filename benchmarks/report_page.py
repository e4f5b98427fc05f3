"""The page of a finished report in a browser: its size, its nodes, how soon it is ready, and how many sheets it prints.

Of the report in the folder `report`, or in the one that `LAMINA_REPORT` names.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bars import Bar

SIZE, NODES, READY, SHEETS = 4.0, 15_000, 1.5, 20


def bars() -> Iterator[Bar]:
    """Nothing where there is no report or no Chromium."""
    page, binary = Path(os.environ.get("LAMINA_REPORT", "report")) / "index.html", shutil.which("chromium")
    if not page.is_file() or binary is None:
        return
    from playwright.sync_api import sync_playwright

    yield Bar("size of index.html", page.stat().st_size / 1e6, SIZE, at_least=False, unit=" MB")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": 1280, "height": 900})
        started = time.perf_counter()
        opened.goto(page.resolve().as_uri())
        opened.wait_for_selector("#overview .chart[data-ready]")
        yield Bar("first figures drawn", time.perf_counter() - started, READY, at_least=False, unit=" s")
        nodes = opened.evaluate("document.querySelectorAll('*').length")
        yield Bar("nodes of the page", nodes, NODES, at_least=False)
        printed = opened.pdf(prefer_css_page_size=True)
        sheets = len(re.findall(rb"/Type\s*/Page[^s]", printed))
        yield Bar("printed sheets", sheets, SHEETS, at_least=False)
        browser.close()
