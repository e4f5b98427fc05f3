"""The pictures of the app in the README and the documentation, taken from a real server over real results.

`python docs/app_pictures.py REPORT --model minilm --model smollm2` starts `lamina serve REPORT`, opens each tab in
Chromium as a person would, and writes docs/images/app. Needs playwright and a Chromium (`CHROMIUM` names it).
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

OUT = Path(__file__).parent / "images" / "app"
WIDTH, HEIGHT = 1280, 1000
_PATIENCE = 180_000
"""Milliseconds until a picture is there: the first neighbours of a word need the corpus."""
_QUIET = (
    "![...document.querySelectorAll('main [aria-busy]')].some((box) => box.getBoundingClientRect().top < innerHeight)"
)
"""Nothing in sight waits."""
_STILL = 800
"""Milliseconds for charts and moving tokens to come to rest."""


class Picture(NamedTuple):
    """One tab as it is shown in the documentation."""

    name: str
    address: str
    there: str
    """A selector: when it is there, so is the picture."""
    height: int = HEIGHT


PICTURES = (
    Picture("overview", "/overview", "#glance .chart svg", 1180),
    Picture("sentence", "/sentence", "#near table.brief", 1230),
    Picture("questions", "/sentence/question", "#maps .token", 1330),
    Picture("heads", "/heads", "#lines canvas", 1200),
    Picture("compare", "/compare?with=minilm+(random)", "#differences [data-panel]", 1500),
    Picture("runs", "/runs", "#list table"),
)


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


def take(browser: Any, address: str, picture: Picture, out: Path = OUT) -> Path:
    """Open a tab, wait until nothing in it is busy, and save what is seen."""
    page = browser.new_page(viewport={"width": WIDTH, "height": picture.height})
    page.set_default_timeout(_PATIENCE)
    page.goto(address + picture.address)
    page.locator(picture.there).first.wait_for()
    page.wait_for_function(_QUIET)
    page.wait_for_timeout(_STILL)
    path = out / f"{picture.name}.png"
    page.screenshot(path=path)
    page.close()
    return path


def main() -> None:
    """Take every picture, or those that are named."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, help="a folder that `lamina report` wrote")
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--only", action="append", default=[], choices=[each.name for each in PICTURES])
    given = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, serving(given.report, given.model or ["minilm"]) as address:
        found = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for picture in PICTURES:
            if not given.only or picture.name in given.only:
                print(take(browser, address, picture))
        browser.close()


if __name__ == "__main__":
    main()
