"""The page of the design names folders and files that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("docs/design.md", "CONTRIBUTING.md", "AGENTS.md", "docs/app/threat_model.md")


def test_files_that_the_pages_for_authors_name_exist() -> None:
    missing = [
        f"{page}: {named}"
        for page in PAGES
        for named in re.findall(r"`([\w/.-]+/[\w.-]+\.(?:py|js|html|md|toml))`", (ROOT / page).read_text())
        if not any((ROOT / place / named).exists() for place in ("", "src", "src/lamina", "docs"))
    ]
    assert not missing


def test_the_listings_of_the_design_are_the_folders() -> None:
    listings = re.findall(
        r"^```\n(src/lamina/|framework/)\n(.*?)^```", (ROOT / "docs/design.md").read_text(), re.S | re.M
    )
    for (folder, lines), width in zip(listings, (21, 15), strict=True):
        place = ROOT / "src/lamina" / ("" if folder == "src/lamina/" else folder)
        names = [name for line in lines.splitlines() for name in line[:width].split()]
        there = {path.stem for path in place.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
        assert {name.rstrip("/") for name in names} == {name for name in there if not name.startswith("__")}
