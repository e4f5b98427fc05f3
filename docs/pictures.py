"""Pictures of README and docs, made from real runs: `python docs/pictures.py report` in the repository's root.

Each picture is a function that opens what a command has made and takes a picture of it. Add yours to `PICTURES`.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IMAGES = Path(__file__).parent / "images"
_SIZE = {"width": 1280, "height": 860}


def report(browser: Browser, folder: Path) -> None:
    """The first screen of a report that `lamina report minilm --corpus ewt --out FOLDER` has made."""
    page = browser.new_page(viewport=_SIZE, color_scheme="light")
    page.goto((folder / "index.html").resolve().as_uri())
    page.wait_for_selector("#overview .chart[data-ready]")
    page.screenshot(path=IMAGES / "report.png")
    page.close()


PICTURES: dict[str, Callable[[Browser, Path], None]] = {"report": report}
"""Name -> takes the picture, of what lies in a folder."""


def main(names: list[str], folder: Path) -> None:
    """Take the pictures named, or all of them."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name in names or PICTURES:
            PICTURES[name](browser, folder)
        browser.close()


if __name__ == "__main__":
    # The folder of a report comes last: `python docs/pictures.py report FOLDER`.
    given = sys.argv[1:]
    main(
        [each for each in given if each in PICTURES],
        Path(given[-1] if given and given[-1] not in PICTURES else "report"),
    )
