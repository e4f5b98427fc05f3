"""docs/coverage.md names only commands and options that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from lamina.cli.main import app

PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"
SPAN = re.compile(r"`lamina ([a-z-]+)([^`]*)`")


def test_every_command_on_the_page_exists_with_its_options() -> None:
    # typer has its own copy of click, so its types are not click's.
    group: Any = typer.main.get_command(app)
    commands = {name: group.get_command(None, name) for name in group.list_commands(None)}
    named = SPAN.findall(PAGE.read_text(encoding="utf-8"))
    assert len({name for name, _ in named}) > 20
    for name, rest in named:
        assert name in commands, f"lamina {name} does not exist"
        known = {option for each in _whole(commands[name]).params for option in (*each.opts, *each.secondary_opts)}
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in known, f"lamina {name} has no {option}"


def _whole(command: Any) -> Any:
    """Commands of analyses load their options on demand."""
    return getattr(command, "whole", command)


@pytest.mark.parametrize("paper", ["Tenney", "Clark", "van Aken", "Zhao", "Rogers"])
def test_every_paper_has_a_section_with_rows(paper: str) -> None:
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    own = next(each for each in sections if each.startswith(paper))
    rows = [line for line in own.splitlines() if line.startswith("| ") and not line.startswith("| method")]
    assert len(rows) >= 8
    assert all(len(row.split("|")) == 4 and row.split("|")[2].strip() for row in rows)
