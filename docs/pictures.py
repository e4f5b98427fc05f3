"""All pictures of README and documentation, made from real runs.

The report and the app, from a folder that `lamina report minilm --corpus ewt --out REPORT` has made:

    python docs/pictures.py REPORT --model minilm --model smollm2
    python docs/pictures.py REPORT --only app/heads --only report

A chart of a study, from the result that its page says how to make:

    python docs/pictures.py results/order --only studies/order-minilm

Needs playwright and a Chromium (`CHROMIUM` names it) for report and app.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

IMAGES = Path(__file__).parent / "images"
_PATIENCE = 180_000
"""Milliseconds until a picture is there: the first neighbours of a word need the corpus."""
_QUIET = (
    "![...document.querySelectorAll('main [aria-busy]')].some((box) => box.getBoundingClientRect().top < innerHeight)"
)
"""Nothing in sight waits."""
_STILL = 800
"""Milliseconds for charts and moving tokens to come to rest."""


class Page(NamedTuple):
    """A page as it is seen in a window."""

    address: str
    """In the app; empty for the report's own file."""
    there: str
    """A selector: when it is there, so is the picture."""
    height: int = 1000
    width: int = 1280
    click: str = ""
    """A selector of what is clicked before."""


class Chart(NamedTuple):
    """One chart of a saved result."""

    analysis: str
    name: str


PAGES = {
    "report": Page("", "#overview .chart[data-ready]", 860),
    "app/overview": Page("/overview", "#glance .chart svg", 1240),
    "app/sentence": Page("/sentence", "#near table.brief", 1230),
    "app/questions": Page("/sentence/question", "#maps .token", 1660),
    "app/heads": Page("/sentence#heads", ".misses li", 1200),
    "app/head": Page(
        "/sentence?head=3-1&measure=heads.dobj#heads",
        ".misses li",
        1060,
        click='[aria-label="Draw the lines of miss 2"]',
    ),
    "app/compare": Page("/compare?with=minilm+(random)", "#differences [data-panel]", 1500),
    "app/runs": Page("/runs", "#list table"),
}
"""Picture -> what is opened for it, with a report."""

CHARTS = {
    "studies/behaviour-lens": Chart("lens", "lens"),
    "studies/behaviour-pairs": Chart("pairs", "terms"),
    "studies/behaviour-perturb": Chart("perturb", "perturb"),
    "studies/behaviour-probe-vs-lens": Chart("probe_vs_lens", "probability"),
    "studies/cause-ablate": Chart("ablate", "heads"),
    "studies/cause-patch": Chart("patch", "patch"),
    "studies/cause-restore": Chart("restore", "restore"),
    "studies/order-minilm": Chart("order", "order"),
    "studies/order-minilm-tasks": Chart("order", "tasks"),
    "studies/order-mpnet": Chart("order", "order"),
    "studies/order-smollm2": Chart("order", "order"),
    "studies/senses-minilm": Chart("senses", "senses"),
    "studies/senses-mpnet": Chart("senses", "senses"),
    "studies/senses-position-minilm": Chart("senses", "position"),
    "studies/squad-phases": Chart("phases", "roles"),
    "studies/squad-probes-by-layer": Chart("probe", "curves"),
    "studies/stories-failure": Chart("phases", "failure"),
    "studies/stories-phases": Chart("phases", "roles"),
    "studies/stories-right-wrong": Chart("phases", "contrast"),
    "studies/trees-examples": Chart("structure", "examples"),
    "studies/trees-layers": Chart("structure", "layers"),
    "studies/trees-ranks": Chart("structure", "ranks"),
    "studies/trees-trees": Chart("structure", "trees"),
}
"""Picture -> the chart that it shows, of the result that is given."""


def draw(result: Path, chart: Chart, path: Path) -> None:
    """Draw a chart of a saved result, as it is printed."""
    import vl_convert

    from lamina.figures import draw, spec_of
    from lamina.results import Result

    found = Result.load(result)
    if found.analysis != chart.analysis:
        raise SystemExit(f"{result} is a result of {found.analysis}; {path.stem} shows one of {chart.analysis}")
    path.write_bytes(vl_convert.vegalite_to_png(spec_of(draw(found)[chart.name]), allowed_base_urls=[]))


@contextmanager
def serving(report: Path, models: list[str]) -> Iterator[str]:
    """The address of a server over the report."""
    named = [word for model in models for word in ("--model", model)]
    command = [sys.executable, "-m", "lamina", "serve", str(report), *named, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            said = server.stdout.readline() if server.stdout else ""
            yield re.findall(r"http://[^/\s]+", said)[0]
        finally:
            server.terminate()


def take(browser: Any, address: str, shown: Page, path: Path) -> None:
    """Open a page, wait until nothing in sight is busy, and save what is seen."""
    page = browser.new_page(viewport={"width": shown.width, "height": shown.height}, color_scheme="light")
    page.set_default_timeout(_PATIENCE)
    page.goto(address + shown.address)
    page.locator(shown.there).first.wait_for()
    page.wait_for_function(_QUIET)
    if shown.click:
        page.locator(shown.click).click()
    page.wait_for_timeout(_STILL)
    page.screenshot(path=path)
    page.close()


def photograph(report: Path, names: list[str], models: list[str]) -> None:
    """Take pictures of a report and of the app over it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, serving(report, models) as address:
        found = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for name in names:
            shown = PAGES[name]
            start = address if shown.address else (report / "index.html").resolve().as_uri()
            take(browser, start, shown, IMAGES / f"{name}.png")
            print(IMAGES / f"{name}.png")
        browser.close()


def main() -> None:
    """Make the pictures that are named; without a name, those of report and app."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a report, or the result that a study's chart is of")
    parser.add_argument("--model", action="append", default=[], help="that the app has; minilm")
    parser.add_argument("--only", action="append", default=[], choices=[*PAGES, *CHARTS], metavar="PICTURE")
    given = parser.parse_args()
    names = given.only or list(PAGES)
    for name in names:
        (IMAGES / name).parent.mkdir(parents=True, exist_ok=True)
        if name in CHARTS:
            draw(given.folder, CHARTS[name], IMAGES / f"{name}.png")
            print(IMAGES / f"{name}.png")
    pages = [name for name in names if name in PAGES]
    if pages:
        photograph(given.folder, pages, given.model or ["minilm"])


if __name__ == "__main__":
    main()
