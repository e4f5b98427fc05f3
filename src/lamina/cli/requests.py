"""`lamina describe` and `lamina run`: analyses and requests as data."""

from __future__ import annotations

import dataclasses
import json
import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from lamina.errors import InputError
from lamina.files.reading import parse_json
from lamina.lifeline import follow_starter
from lamina.results import COMMAND


def describe(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="An analysis; all of them by default.")] = None,
) -> None:
    """Print an analysis's inputs, settings, tables and version as JSON; settings are a JSON schema.

    Example: `lamina describe heads`
    """
    from lamina.framework.registry import all_analyses, get_analysis

    shown = [each.describe() for each in all_analyses()] if name is None else get_analysis(name).describe()
    print(json.dumps(shown, indent=2, default=str))


def run(
    request: Annotated[
        Path,
        typer.Argument(metavar="REQUEST", help="A TOML or JSON file with an analysis, its inputs and settings."),
    ],
    out: Annotated[Path | None, typer.Option("--out", help="Output folder; by default the one in the request.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite a different result.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the expected cost; compute nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --dry-run: print the cost as JSON.")] = False,
) -> None:
    """Run the analysis in a request file: the same as the analysis's own command.

    A request has `analysis`, its inputs by name (`model`, `data`, ...) and, optionally, `settings`, `out`, `store`,
    `device` and `keep`. Data is a name or path, or a table with `name` and the data options (`split`, `limit`, ...).

    Example: `lamina run request.toml`
    """
    # Jobs of the web app are started this way, and end with their server.
    follow_starter()
    from lamina.analyses.requests import read_request
    from lamina.cli.analyses import answer, tell

    said = read_request(_table(request))
    wanted = dataclasses.replace(said, out=out or said.out, replace=replace or said.replace)
    asked = wanted.ask()
    if dry_run:
        from lamina.analyses.estimate import estimate

        cost = estimate(asked)
        print(json.dumps(dataclasses.asdict(cost)) if as_json else cost)
        return
    told = COMMAND.set(wanted.command)
    try:
        folder, result = answer(asked, wanted.out, replace=wanted.replace)
    finally:
        COMMAND.reset(told)
    tell(result, folder)


def _table(path: Path) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        table = parse_json(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except ValueError as error:
        raise InputError(f"{path} is neither TOML nor JSON: {error}") from None
    except RecursionError:
        raise InputError(f"{path} is nested too deeply; a request is a table with a few entries") from None
    return table
