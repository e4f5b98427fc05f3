"""The documentation's table of architectures: made with the installed transformers, and still true."""

from __future__ import annotations

import re

import pytest

from benchmarks.architectures import _HEADINGS, PAGE, line_of, page, row_of, version_line

SAMPLE = ["bert", "falcon", "gpt_oss", "llama", "mamba", "qwen3_next", "funnel"]


def section(status: str) -> str:
    """What the page says below one heading."""
    parts = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return next(part for part in parts if part.startswith(_HEADINGS[status][0]))


def test_the_page_was_made_with_the_installed_version():
    assert version_line() in PAGE.read_text(encoding="utf-8"), "run `python -m benchmarks.architectures`"


@pytest.mark.parametrize("name", SAMPLE)
def test_a_row_is_still_true(name):
    row = row_of(name)
    # Numbers in a reason may differ between machines.
    told = line_of(row._replace(said="")).removesuffix(" |")
    assert told in section(row.status), "run `python -m benchmarks.architectures`"


def test_a_page_has_every_architecture_once_below_its_heading():
    rows = [row_of("bert"), row_of("vit")]
    made = page(rows)
    assert "Of 2 architectures: 1 work, 0 work in part, 0 are refused, 1 were not examined." in made
    assert "| `bert` | `BertModel` | all | 2 of 2 | |" in made
    assert "- reads pixel_values, not words: `vit`" in made
